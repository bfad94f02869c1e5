"""Reads the mutants of Tests/Mutants and finds their lines in the sources.

A file contains one or more mutants. Each mutant is a header and a unified diff. Line numbers in the diff are ignored:

    # name: the fault that the mutant puts into the program
    # noticed by: gauntlet
    --- a/Sources/Device/COTADevice/data.c
    @@
     a line of context
    -the line as it is
    +the line as the mutant has it

`noticed by` names the check that must fail: `gauntlet`, `gauntlet SEED` (worlds from that seed), or filters of `swift test`, separated by spaces. If a file has only one mutant, the name may be missing; the name of
the file is used then. The place of a mutant is found by its lines. If not all context lines are found, fewer of them are compared. It is an error if the lines to change are missing or occur twice.
"""
import pathlib
import re


class Mistake(Exception):
    """An error in a mutant or in its use."""


class Hunk:
    def __init__(self, path):
        self.path, self.lines = path, []

    def trimmed(self, above, below):
        """Returns the lines with at most `above` context lines at the start and `below` at the end."""
        changed = [i for i, line in enumerate(self.lines) if line[0] != " "]
        return self.lines[max(0, changed[0] - above):changed[-1] + 1 + below]

    def place(self, source):
        """Returns a list of changes (first line, old lines, new lines), for the lines of the file."""
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
        reason = f"its lines occur {most} times; add context lines" if most > 1 else "its lines are no longer in the file"
        raise Mistake(f"{self.path}: {reason}: {wanted}")

    def split(self, lines, at, source):
        """Returns one change for each group of adjacent changed lines."""
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
    def check(self):
        """The kind of the check that must notice the mutant."""
        return "gauntlet" if self.noticed_by[0] == "gauntlet" else "tests"

    @property
    def seed(self):
        """The seed of the first world to play."""
        return int(self.noticed_by[1]) if len(self.noticed_by) > 1 else 1

    @property
    def paths(self):
        return sorted({hunk.path for hunk in self.hunks})

    def changes(self, path, text):
        """Returns (first line, old lines, new lines) for each changed place in the file."""
        source = text.splitlines()
        return [change for hunk in self.hunks if hunk.path == path for change in hunk.place(source)]

    def applied(self, path, text):
        """Returns the file's text with the mutant applied."""
        lines = text.splitlines()
        for first, old, new in sorted(self.changes(path, text), key=lambda change: -change[0]):
            lines[first:first + len(old)] = new
        return "\n".join(lines) + "\n"


def read(file):
    """Returns the mutants of one file."""
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
            raise Mistake(f"{file.name}:{number}: a mutant must begin with a comment: '# name: description'")
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
            # Mutants from other sources may name the test in their first comment.
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
    """Returns all mutants, in the order of their file names, with numbers from 1."""
    mutants = []
    for folder in map(pathlib.Path, folders):
        files = sorted(folder.glob("**/*.patch")) if folder.is_dir() else [folder]
        for file in files:
            mutants += read(file)
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            raise Mistake(f"two mutants have the name {name}")
    for number, mutant in enumerate(mutants, 1):
        mutant.number = number
    return mutants
