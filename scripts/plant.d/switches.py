"""Adds many mutants to one copy of a source file, each with a switch, so that one build contains all of them.

The switch of a changed expression is `(mutant == 7 ? (mutated) : (original))`. The switch of changed statements is
`if mutant == 7 { mutated } else { original }`.
"""
import collections
import re


class NotSwitchable(Exception):
    """The change is not in an expression or in complete statements, but for example in a declaration. It needs a build of its own."""


# A replacement of the characters start..<end of a file by the text of a mutant. The kind is one of: expression; clauses (the parts of an
# `if` or `guard` between commas); statements (whole lines).
Edit = collections.namedtuple("Edit", "number kind start end text")
Token = collections.namedtuple("Token", "kind text start end")

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"\"\".*?\"\"\")|(?P<newline>\n)|(?P<space>[ \t]+)"
    r"|(?P<word>[A-Za-z_$@#]\w*|\d\w*(?:\.\d\w*)?|'(?:\\.|[^'])*')|(?P<bracket>[()\[\]{}])|(?P<mark>[,;])"
    r"|(?P<operator>[-+*/%=<>!&|^~?:.\\]+)|(?P<other>.)", re.S)
BLANK = {"space", "comment", "newline"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "|=", "&=", "&+=", "&-=", "<<=", ">>="}
# An expression begins after these words, and does not contain them.
STARTERS = {"return", "if", "guard", "while", "else", "in", "throw", "where", "switch", "for"}
NOT_IN_EXPRESSIONS = STARTERS | {"let", "var", "case", "func", "break", "continue", "default", "static", "struct", "enum", ",", ";"} | ASSIGNMENTS
# The starts of lines that declare a name for later lines, or continue the line before.
NO_STATEMENT = re.compile(
    r"(@\w+ +)*((public|package|private|internal|fileprivate|static|mutating|override|final|const|lazy|private\(set\)) +)*"
    r"(let|var|func|case|default|struct|enum|extension|class|init|typedef|import)\b|#|guard\b.*\b(let|var|case)\b"
    r"|[?:.&|)}\]+*/=<>]|-|else\b|catch\b|in\b")
C_DECLARATION = re.compile(r"(struct|enum|const|bool|u?int\d+_t|\w+_t)\b.*(=|;)")


def string_end(text, start):
    """Returns the end of the string literal at `start`. An interpolation may contain other string literals."""
    at = start + 1
    while at < len(text) and text[at] != '"':
        if text[at:at + 2] == "\\(":
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
            kind, end = "string", string_end(text, at)
        else:
            found = TOKEN.match(text, at)
            kind, end = found.lastgroup, found.end()
        tokens.append(Token(kind, text[at:end], at, end))
        at = end
    return tokens


def step(token):
    """Returns 1 for an opening bracket, -1 for a closing one, otherwise 0."""
    return 0 if token.kind != "bracket" else -1 if token.text in ")]}" else 1


class Source:
    """The tokens of a text. It finds the first and last token of expressions."""

    def __init__(self, text, language):
        self.is_c, self.tokens = language == "c", tokens_of(text)

    def neighbour(self, index, direction):
        index += direction
        while 0 <= index < len(self.tokens) and self.tokens[index].kind in BLANK:
            index += direction
        return self.tokens[index] if 0 <= index < len(self.tokens) else Token("newline", "\n", 0, 1)

    def partner(self, index, direction):
        """Returns the index of the bracket that matches the one at `index`."""
        depth = 0
        while 0 <= index < len(self.tokens):
            depth += step(self.tokens[index])
            if depth == 0:
                return index
            index += direction
        raise NotSwitchable("a bracket has no match")

    def is_delimiter(self, index, through):
        """Returns whether the token ends an expression. A newline does so if the next line does not continue the statement."""
        token = self.tokens[index]
        if token.text in through:
            return False
        if token.kind == "newline":
            last, following = self.neighbour(index, -1), self.neighbour(index, 1)
            return not (self.is_c or last.text in ",([" or last.kind == "operator" and last.text not in "!?"
                        or following.kind == "operator" and following.text not in "!&-" or following.text in ("else", "{"))
        if token.kind == "operator":
            spaced = index > 0 and self.tokens[index - 1].kind in BLANK
            return token.text == ":" or token.text == "?" and spaced or token.text in ASSIGNMENTS
        return token.kind == "mark" or token.kind == "word" and token.text in STARTERS

    def left(self, index, through=()):
        """Returns the index of the first token of the expression that ends before `index`, and the text of the token before that."""
        while (index := index - 1) >= 0:
            token = self.tokens[index]
            if token.kind == "bracket":
                if step(token) > 0 or token.text == "}" and self.is_c:
                    return index + 1, token.text
                index = self.partner(index, -1)
            elif self.is_delimiter(index, through):
                return index + 1, token.text
        raise NotSwitchable("the start of the expression was not found")

    def right(self, index, in_header, through=()):
        """Returns the index of the token after the expression that contains the token at `index`."""
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.kind == "bracket":
                if step(token) < 0 or token.text == "{" and (in_header or self.is_c):
                    return index
                index = self.partner(index, 1)
            elif self.is_delimiter(index, through):
                return index
            index += 1
        return index


def unmatched(tokens):
    """Returns the number of closing brackets without an opening one, and of opening brackets without a closing one."""
    closed = opened = 0
    for token in tokens:
        opened += step(token)
        if opened < 0:
            closed, opened = closed + 1, 0
    return closed, opened


def clauses(tokens):
    """Returns the clauses between commas, each as a list of tokens."""
    depth, parts = 0, [[]]
    for token in tokens:
        depth += step(token)
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
        depth += step(token)
        if depth == 0 and token.kind != "bracket" and token.text in NOT_IN_EXPRESSIONS:
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
    longer = len(new.tokens) - len(old.tokens)
    first, last = same_ends([t.text for t in old.tokens], [t.text for t in new.tokens])
    last = len(old.tokens) - last
    # If the difference contains only one bracket of a pair, the region grows until it contains both.
    while True:
        closed, opened = map(max, unmatched(old.tokens[first:last]), unmatched(new.tokens[first:last + longer]))
        if closed == opened == 0:
            break
        first, last = (first - 1, last) if closed else (first, last + 1)
        if first < 0 or last > len(old.tokens):
            raise NotSwitchable("the brackets do not match")
    wide = {",", ":", "?", *ASSIGNMENTS}
    in_header = old.left(first, wide | {"in", "where"})[1] in ("if", "guard", "while", "for", "switch")
    for through in ((), wide):
        start, lead = old.left(first, through)
        end = old.right(last, in_header, through)
        olds, news = old.tokens[start:end], new.tokens[start:end + longer]
        if not through and may_be_expression(olds) and may_be_expression(news):
            return Edit(number, "expression", olds[0].start, olds[-1].end, bare(news))
    if lead not in ("if", "guard", "while"):
        raise NotSwitchable("the difference is not in an expression")
    return clauses_edit(number, clauses(olds), clauses(news))


def clauses_edit(number, olds, news):
    """Returns the edit of the clauses that differ. A clause that binds a name is not allowed."""
    first, last = same_ends(list(map(bare, olds)), list(map(bare, news)))
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
    depth, code = 0, [line for line in lines if line.strip()]
    for line in code:
        if depth == 0 and (not line[0].isspace() or NO_STATEMENT.match(line.strip())
                           or language == "c" and C_DECLARATION.match(line.strip())):
            return False
        for token in tokens_of(line):
            depth += step(token)
            if depth < 0:
                return False
    ends = [line.strip() for line in code if not line.strip().startswith("//")][-1:]
    return depth == 0 and all(
        line.endswith((";", "}", "*/")) if language == "c" else not line.endswith((",", "(", "&&", "||", "=", "+", "in")) for line in ends)


def stands_alone(lines, first, last, language):
    """Returns whether the lines around the lines `first..<last` do not belong to the same statement."""
    def nearest(lines):
        return next((line.strip() for line in lines if line.strip() and not line.strip().startswith(("//", "/*", "*"))), "")
    above, below = nearest(reversed(lines[:first])), nearest(lines[last:])
    if language == "c":
        return above.endswith((";", "{", "}", ":", "*/")) and not below.startswith("else")
    return not above.endswith((",", "(", "[", "&&", "||", "=", "+", "??", "return")) and not re.match(r"[?.&|+=<>*/]|:|else\b", below)


def edit_for(number, text, first, old, new, language):
    """Returns the edit that replaces the `old` lines, at line `first` (from 0), by the `new` lines."""
    lines = text.splitlines(keepends=True)
    last = first + len(old)
    start, end = len("".join(lines[:first])), len("".join(lines[:last]))
    replacement = "".join(line + "\n" for line in new)
    try:
        if not "".join(old).strip() or not replacement.strip():
            raise NotSwitchable("lines are only added or only removed")
        return expression_edit(number, text, text[:start] + replacement + text[end:], language)
    except NotSwitchable:
        if are_statements(old, language) and are_statements(new, language) and stands_alone(lines, first, last, language):
            return Edit(number, "statements", start, end, replacement)
        raise


def rendered(kind, text):
    if kind == "clauses":
        return " && ".join(f"({bare(part)})" for part in clauses(tokens_of(text))) if text.strip() else "true"
    return bare(tokens_of(text))


def switched(text, edits, condition):
    """Returns the text with a switch for each edit, and the numbers of the mutants that conflict with others."""
    groups, rejected = [], set()
    for edit in sorted(edits, key=lambda e: (e.start, -e.end)):
        if not groups or edit.start >= groups[-1][0].end:
            groups.append([edit])
        elif edit.end <= groups[-1][0].end and edit.number not in [e.number for e in groups[-1]]:
            groups[-1].append(edit)
        else:
            rejected.add(edit.number)
    result, at = [], 0
    for outer, *inner in groups:
        original = text[outer.start:outer.end]
        result.append(text[at:outer.start])
        at = outer.end
        # The outermost edit replaces the whole range; an inner edit replaces a part of it.
        whole = {edit.number: original[:edit.start - outer.start] + edit.text + original[edit.end - outer.start:]
                 for edit in (outer, *inner) if edit.number not in rejected}
        if outer.kind == "statements":
            result += [f"if ({condition(number)}) {{\n{mutated}}} else " for number, mutated in whole.items()]
            result.append(f"{{\n{original}}}\n")
        else:
            chain = "".join(f"{condition(number)} ? ({rendered(outer.kind, mutated)}) : " for number, mutated in whole.items())
            lead = original[:len(original) - len(original.lstrip())]
            result.append(f"{lead}({chain}({rendered(outer.kind, original)}))" + (" " if original[-1:].isspace() else ""))
    return "".join(result) + text[at:], rejected
