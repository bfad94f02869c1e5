"""Reads the mutants of Tests/Mutants and finds their places in the sources.

A file holds mutants one behind the other. Each is a header and a unified diff, in which the numbers of lines do not count:

    # name: what is wrong with the program now
    # noticed by: gauntlet
    --- a/Sources/COTADevice/data.c
    @@
     a line of context
    -the line as it is
    +the line as the mutant has it

`noticed by` names what must fail: `gauntlet`, `gauntlet SEED` (worlds from that seed), or filters of `swift test`, separated by
spaces. A file with one mutant may leave the name to its own. A place is found by its lines, less of the context where that is not
there any more; a mutant whose lines are gone, or are there twice, is an error.
"""
import pathlib
import re


class Mistake(Exception):
    """A mutant that cannot be used as it is."""


class Hunk:
    def __init__(self, path):
        self.path, self.lines = path, []

    def trimmed(self, above, below):
        """The lines with at most so many of context at either end."""
        changed = [i for i, line in enumerate(self.lines) if line[0] != " "]
        return self.lines[max(0, changed[0] - above):changed[-1] + 1 + below]

    def place(self, source):
        """(first line, old lines, new lines) of what differs, in the lines of the file."""
        stripped = [line.strip() for line in source]
        most = 0
        size = len(self.lines)
        contexts = [context for n in range(size, 0, -1) for context in ((n, n), (n, 0), (0, n))] + [(0, 0)]
        for context in contexts:
            lines = self.trimmed(*context)
            old = [line[1:].strip() for line in lines if line[0] != "+"]
            if not old:
                continue
            places = [i for i in range(len(stripped) - len(old) + 1) if stripped[i:i + len(old)] == old]
            most = max(most, len(places))
            if len(places) == 1:
                return self.split(lines, places[0], source)
        wanted = next(line[1:].strip() for line in self.lines if line[0] != " ")
        reason = f"its lines are there {most} times; give more context" if most > 1 else "its lines are not there any more"
        raise Mistake(f"{self.path}: {reason}: {wanted}")

    def split(self, lines, at, source):
        """One replacement for each run of changed lines."""
        changes, old, new, first = [], [], [], at
        for line in lines + [" "]:
            if line[0] == " ":
                if old or new:
                    changes.append((first, old, new))
                at += len(old)
                old, new, first = [], [], at + 1
                at += 1
            elif line[0] == "-":
                old = old + [source[at + len(old)]]
            else:
                new = new + [line[1:]]
        return changes


class Mutant:
    def __init__(self, name, file):
        self.name, self.file, self.number, self.description, self.noticed_by, self.hunks = name, file, 0, "", [], []

    @property
    def seed(self):
        """The first world to be played; nil where tests are to notice it."""
        if self.noticed_by[:1] != ["gauntlet"]:
            return None
        return int(self.noticed_by[1]) if len(self.noticed_by) > 1 else 1

    @property
    def paths(self):
        return sorted({hunk.path for hunk in self.hunks})

    def changes(self, path, text):
        """(first line, old lines, new lines), for each place in the file."""
        source = text.splitlines()
        return [change for hunk in self.hunks if hunk.path == path for change in hunk.place(source)]

    def applied(self, path, text):
        """The file's text as the mutant has it."""
        lines = text.splitlines()
        for first, old, new in sorted(self.changes(path, text), key=lambda change: -change[0]):
            lines[first:first + len(old)] = new
        return "\n".join(lines) + "\n"


def read(file):
    """The mutants of one file."""
    mutants, path, hunk, header = [], "", None, False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if line.startswith("#"):
            if not header:
                path = ""
                mutants.append(Mutant(file.stem, file))
            header, hunk, text = True, None, line[1:].strip()
            found = re.match(r"noticed by: *(.*)", text)
            name = re.match(r"([a-z0-9-]+): (.*)", text)
            if found:
                mutants[-1].noticed_by = found.group(1).split()
            elif name and not mutants[-1].description:
                mutants[-1].name, mutants[-1].description = name.groups()
            else:
                mutants[-1].description = (mutants[-1].description + " " + text).strip()
            continue
        header = False
        if not mutants:
            raise Mistake(f"{file.name}:{number}: a mutant begins with a comment, '# name: what is wrong'")
        if line.startswith("--- "):
            path, hunk = re.sub(r"^a/", "", line[4:].split("\t")[0].strip()), None
        elif line.startswith(("+++ ", "diff ", "index ")):
            hunk = None
        elif line.startswith("@@") or hunk is None and line[:1] in ("+", "-", " "):
            hunk = Hunk(path)
            mutants[-1].hunks.append(hunk)
            if not line.startswith("@@"):
                hunk.lines.append(line)
        elif hunk is not None and (line[:1] in ("+", "-", " ") or not line):
            hunk.lines.append(line or " ")
    for mutant in mutants:
        if not mutant.noticed_by:
            # As others write them: the first comment names the test.
            found = re.findall(r"\S*\w+Tests\S*|\bgauntlet\b(?: \d+)?", mutant.description)
            mutant.noticed_by = " ".join(word.strip("`,;:." if "(" in word else "`,;:.)") for word in found).split()
        for hunk in mutant.hunks:
            while hunk.lines and not hunk.lines[-1].strip():
                hunk.lines.pop()
        mutant.hunks = [hunk for hunk in mutant.hunks if any(line[0] != " " for line in hunk.lines)]
        if not mutant.hunks or not all(hunk.path for hunk in mutant.hunks):
            raise Mistake(f"{file.name}: {mutant.name} changes nothing")
        if not mutant.noticed_by:
            raise Mistake(f"{file.name}: {mutant.name} has no line '# noticed by: ...'")
    return mutants


def read_all(folders):
    """All mutants, numbered from 1, by the names of their files."""
    mutants = []
    for folder in map(pathlib.Path, folders):
        files = sorted(folder.glob("**/*.patch")) if folder.is_dir() else [folder]
        for file in files:
            mutants += read(file)
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            raise Mistake(f"two mutants are called {name}")
    for number, mutant in enumerate(mutants, 1):
        mutant.number = number
    return mutants
