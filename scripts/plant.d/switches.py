"""Adds many mutants to one copy of a source file, each with a switch, so that one build contains all of them.

The switch of a changed expression is `(mutant == 7 ? (mutated) : (original))`. The switch of changed statements is
`if mutant == 7 { mutated } else { original }`.
"""
import re


class NotSwitchable(Exception):
    """The change is not in an expression or in complete statements, but for example in a declaration. It needs a build of its own."""


class Edit:
    """A replacement of the characters `start..<end` of a file by the text of a mutant.

    The kind is one of: expression; clauses (the parts of an `if` or `guard` between commas); statements (whole lines).
    """

    def __init__(self, number, kind, start, end, text):
        self.number, self.kind, self.start, self.end, self.text = number, kind, start, end, text


TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"\"\".*?\"\"\")|(?P<newline>\n)|(?P<space>[ \t]+)"
    r"|(?P<word>[A-Za-z_$@#]\w*|\d\w*(?:\.\d\w*)?|'(?:\\.|[^'])*')|(?P<bracket>[()\[\]{}])|(?P<mark>[,;])"
    r"|(?P<operator>[-+*/%=<>!&|^~?:.\\]+)|(?P<other>.)", re.S)
CLOSING = {")": "(", "]": "[", "}": "{"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "|=", "&=", "&+=", "&-=", "<<=", ">>="}
# An expression begins after these words, and does not contain them.
STARTERS = {"return", "if", "guard", "while", "else", "in", "throw", "where", "switch", "for"}
NOT_IN_EXPRESSIONS = STARTERS | {"let", "var", "case", "func", "break", "continue", "default", "static", "struct", "enum"}
DECLARATIONS = re.compile(
    r"(@\w+ +)*((public|package|private|internal|fileprivate|static|mutating|override|final|const|lazy|private\(set\)) +)*"
    r"(let|var|func|case|default|struct|enum|extension|class|init|typedef|import)\b|#")


class Token:
    def __init__(self, kind, text, start):
        self.kind, self.text, self.start, self.end = kind, text, start, start + len(text)

    @property
    def is_blank(self):
        return self.kind in ("space", "comment", "newline")


def string_end(text, start):
    """Returns the end of the string literal at `start`. An interpolation may contain other string literals."""
    at = start + 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and text[at + 1] == "(":
            depth, at = 1, at + 2
            while depth:
                if text[at] == '"':
                    at = string_end(text, at)
                    continue
                depth += {"(": 1, ")": -1}.get(text[at], 0)
                at += 1
            continue
        at += 2 if text[at] == "\\" else 1
    return at + 1


def tokens_of(text):
    tokens, at = [], 0
    while at < len(text):
        if text[at] == '"' and text[at:at + 3] != '"""':
            end = string_end(text, at)
            tokens.append(Token("string", text[at:end], at))
        else:
            found = TOKEN.match(text, at)
            tokens.append(Token(found.lastgroup, found.group(), at))
            end = found.end()
        at = end
    return tokens


class Source:
    """The tokens of a text. It finds the first and last token of expressions."""

    def __init__(self, text, language):
        self.text, self.language, self.tokens = text, language, tokens_of(text)

    def neighbour(self, index, step):
        index += step
        while 0 <= index < len(self.tokens) and self.tokens[index].is_blank:
            index += step
        return self.tokens[index] if 0 <= index < len(self.tokens) else Token("newline", "\n", 0)

    def partner(self, index, step):
        """Returns the index of the bracket that matches the one at `index`."""
        depth = 0
        while 0 <= index < len(self.tokens):
            token = self.tokens[index]
            if token.kind == "bracket":
                depth += 1 if token.text in CLOSING else -1
                if depth == 0:
                    return index
            index += step
        raise NotSwitchable("a bracket has no match")

    def is_spaced(self, index):
        return index > 0 and self.tokens[index - 1].is_blank

    def ends_statement(self, index):
        """Returns whether the newline at `index` ends a statement, that is, the next line does not continue it."""
        if self.language == "c":
            return False
        last, following = self.neighbour(index, -1), self.neighbour(index, 1)
        if last.text == "," or last.text in "([" or last.kind == "operator" and last.text not in ("!", "?"):
            return False
        return not (following.kind == "operator" and following.text not in ("!", "&", "-")) and following.text not in ("else", "{")

    def is_delimiter(self, index):
        token = self.tokens[index]
        if token.kind == "newline":
            return self.ends_statement(index)
        if token.kind == "operator":
            if token.text == ":" or token.text == "?":
                return token.text == ":" or self.is_spaced(index)
            return token.text in ASSIGNMENTS
        return token.kind == "mark" or token.kind == "word" and token.text in STARTERS

    def left(self, index, through=()):
        """Returns the index of the first token of the expression that ends before `index`, and the text of the token before that."""
        index -= 1
        while index >= 0:
            token = self.tokens[index]
            if token.kind == "bracket":
                if token.text not in CLOSING or token.text == "}" and self.language == "c":
                    return index + 1, token.text
                index = self.partner(index, -1)
            elif self.is_delimiter(index) and token.text not in through:
                return index + 1, token.text
            index -= 1
        raise NotSwitchable("the start of the expression was not found")

    def header(self, index):
        """Returns the keyword `if`, `guard`, `while`, `for` or `switch` if its condition is at `index`, otherwise an empty string."""
        start, before = self.left(index, {",", ":", "?", "in", "where", *ASSIGNMENTS})
        return before if before in ("if", "guard", "while", "for", "switch") else ""

    def right(self, index, header, through=()):
        """Returns the index of the token after the expression that contains the token at `index`."""
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.kind == "bracket":
                if token.text in CLOSING or token.text == "{" and (header or self.language == "c"):
                    return index
                index = self.partner(index, 1)
            elif self.is_delimiter(index) and token.text not in through:
                return index
            index += 1
        return index


def unmatched(tokens):
    """Returns the number of closing brackets without an opening one, and of opening brackets without a closing one."""
    closed, opened = 0, 0
    for token in tokens:
        if token.kind == "bracket" and token.text in CLOSING:
            closed, opened = (closed, opened - 1) if opened else (closed + 1, 0)
        elif token.kind == "bracket":
            opened += 1
    return closed, opened


def clauses(tokens):
    """Returns the clauses between commas, each as a list of tokens."""
    depth, parts = 0, [[]]
    for token in tokens:
        if token.kind == "bracket":
            depth += -1 if token.text in CLOSING else 1
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def bare(tokens):
    return "".join(" " if token.kind == "comment" else token.text for token in tokens).strip()


def may_be_expression(tokens):
    depth = 0
    for token in tokens:
        if token.kind == "bracket":
            depth += -1 if token.text in CLOSING else 1
        elif depth == 0 and (token.text in NOT_IN_EXPRESSIONS or token.text in (",", ";") or token.text in ASSIGNMENTS):
            return False
    return bool(bare(tokens))


def same_ends(one, other):
    """Returns how many items are the same at the start, and how many of the rest are the same at the end."""
    shorter, first, last = min(len(one), len(other)), 0, 0
    while first < shorter and one[first] == other[first]:
        first += 1
    while last < shorter - first and one[-1 - last] == other[-1 - last]:
        last += 1
    return first, last


def expression_edit(number, before, after, language):
    """Returns the edit of the smallest expression, or list of clauses, that contains the difference of the two texts."""
    old, new = Source(before, language), Source(after, language)
    a, b = [t.text for t in old.tokens], [t.text for t in new.tokens]
    prefix, suffix = same_ends(a, b)

    def region(through=()):
        # If the difference contains only one bracket of a pair, the region grows until it contains both.
        shift_left, shift_right = prefix, suffix
        while True:
            closed, opened = unmatched(old.tokens[shift_left:len(a) - shift_right])
            other_closed, other_opened = unmatched(new.tokens[shift_left:len(b) - shift_right])
            if max(closed, other_closed) == 0 and max(opened, other_opened) == 0:
                break
            if max(closed, other_closed):
                shift_left -= 1
            else:
                shift_right -= 1
            if shift_left < 0 or shift_right < 0:
                raise NotSwitchable("the brackets do not match")
        start, lead = old.left(shift_left, through)
        header = old.header(shift_left)
        end = old.right(len(a) - shift_right, header, through)
        other_end = end + len(b) - len(a)
        return start, end, old.tokens[start:end], new.tokens[start:other_end], lead

    start, end, olds, news, lead = region()
    if may_be_expression(olds) and may_be_expression(news):
        return Edit(number, "expression", old.tokens[start].start, old.tokens[end - 1].end, bare(news))
    start, end, olds, news, lead = region({",", ":", "?", *ASSIGNMENTS})
    if lead not in ("if", "guard", "while"):
        raise NotSwitchable("the difference is not in an expression")
    return clauses_edit(number, clauses(olds), clauses(news))


def clauses_edit(number, olds, news):
    """Returns the edit of the clauses that differ. A clause that binds a name is not allowed."""
    before, after = list(map(bare, olds)), list(map(bare, news))
    first, last = same_ends(before, after)
    if len(olds) - last == first:
        # A new clause is combined with an existing one.
        if first > 0 and may_be_expression(olds[first - 1]):
            first -= 1
        elif last > 0 and may_be_expression(olds[-last]):
            last -= 1
    olds, news = olds[first:len(olds) - last], news[first:len(news) - last]
    if not olds or not all(map(may_be_expression, olds + news)):
        raise NotSwitchable("a changed clause binds a name")
    return Edit(number, "clauses", olds[0][0].start, olds[-1][-1].end, ", ".join(map(bare, news)))


def are_statements(lines, language):
    """Returns whether the lines are complete statements that declare no name for later lines."""
    depth = 0
    for line in lines:
        code = line.strip()
        if depth == 0 and code and not line[0].isspace():
            return False
        if depth == 0 and re.match(r"guard\b.*\b(let|var|case)\b", code):
            return False
        if depth == 0 and code and (DECLARATIONS.match(code) or re.match(r"[?:.&|)}\]+*/=<>]|-|else\b|catch\b|in\b", code)):
            return False
        if language == "c" and depth == 0 and re.match(r"(struct|enum|const|bool|u?int\d+_t|\w+_t)\b.*(=|;)", code):
            return False
        for token in tokens_of(line):
            if token.kind == "bracket":
                depth += -1 if token.text in CLOSING else 1
            if depth < 0:
                return False
    code = [line.strip() for line in lines if line.strip() and not line.strip().startswith("//")]
    if depth != 0:
        return False
    return all(line.endswith((";", "}", "*/")) for line in code[-1:]) if language == "c" else not any(
        line.endswith((",", "(", "&&", "||", "=", "+", "in")) for line in code[-1:])


def stands_alone(lines, first, last, language):
    """Returns whether the lines `first..<last` are in a function, and the lines around them do not belong to the same statement."""
    above = next((l.strip() for l in reversed(lines[:first]) if l.strip() and not l.strip().startswith(("//", "/*", "*"))), "")
    below = next((l.strip() for l in lines[last:] if l.strip() and not l.strip().startswith(("//", "/*", "*"))), "")
    if language == "c":
        return above.endswith((";", "{", "}", ":", "*/")) and not below.startswith("else")
    if above.endswith((",", "(", "[", "&&", "||", "=", "+", "??", "return")):
        return False
    return not re.match(r"[?.&|+=<>*/]|:|else\b", below)


def edits_for(number, text, first, old, new, language):
    """Returns the edits that replace the `old` lines, at line `first` (from 0), by the `new` lines."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    last = first + len(old)
    mutated = text[:starts[first]] + "".join(line + "\n" for line in new) + text[starts[last]:]
    is_blank = lambda part: all(not line.strip() for line in part)
    try:
        if is_blank(old) or is_blank(new):
            raise NotSwitchable("lines are only added or only removed")
        return [expression_edit(number, text, mutated, language)]
    except NotSwitchable:
        if not all(is_blank(part) or are_statements(part, language) for part in (old, new)):
            raise
        if not stands_alone(lines, first, last, language):
            raise
        return [Edit(number, "statements", starts[first], starts[last], "".join(line + "\n" for line in new))]


def rendered(kind, text):
    if kind == "clauses":
        parts = clauses(tokens_of(text)) if text.strip() else []
        return " && ".join(f"({bare(part)})" for part in parts) or "true"
    return bare(tokens_of(text))


def switched(text, edits, condition):
    """Returns the text with a switch for each edit, and the numbers of the mutants that conflict with others."""
    groups, rejected = [], set()
    for edit in sorted(edits, key=lambda e: (e.start, -e.end)):
        group = groups[-1] if groups else None
        if group and edit.start < group[0].end and edit.end > group[0].end:
            rejected.add(edit.number)
        elif group and (edit.start < group[0].end or (edit.start, edit.end) == (group[0].start, group[0].end)):
            group.append(edit)
        else:
            groups.append([edit])
    result, at = [], 0
    for group in groups:
        outer = group[0]
        original = text[outer.start:outer.end]
        result.append(text[at:outer.start])
        at = outer.end
        whole = {}
        numbers = [e.number for e in group]
        rejected |= {number for number in numbers if numbers.count(number) > 1}
        for edit in (e for e in group if e.number not in rejected):
            # The outermost edit replaces the whole range; an inner edit replaces a part of it.
            whole[edit.number] = original[:edit.start - outer.start] + edit.text + original[edit.end - outer.start:]
        if outer.kind == "statements":
            for number, mutated in whole.items():
                result.append(f"if ({condition(number)}) {{\n{mutated}}} else ")
            result.append(f"{{\n{original}}}\n")
        else:
            chain = "".join(f"{condition(number)} ? ({rendered(outer.kind, mutated)}) : " for number, mutated in whole.items())
            lead = original[:len(original) - len(original.lstrip())]
            result.append(f"{lead}({chain}({rendered(outer.kind, original)}))")
            if original[-1:].isspace():
                result.append(" ")
    result.append(text[at:])
    return "".join(result), rejected
