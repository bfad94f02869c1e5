"""Reads the mutants of Tests/Mutants and finds their lines in the sources.

A file contains mutants. Each is a comment and a unified diff whose line numbers are ignored:

    # name: the fault that the mutant puts into the program
    # noticed by: gauntlet
    --- a/Sources/Device/COTADevice/data.c
    @@
     a line of context
    -the line as it is
    +the line as the mutant has it

`noticed by` names the check that must fail: `gauntlet`, `gauntlet SEED` (worlds from that seed), or filters of `swift test`. The place of a
mutant is found by its lines with the context; if they are not found, by the changed lines alone.
"""
import re


class Mistake(Exception):
    """An error in a mutant or in its use."""


class Mutant:
    def __init__(self, number, name, description):
        self.number, self.name, self.description, self.noticed_by, self.hunks = number, name, description, [], []

    @property
    def is_for_gauntlet(self):
        return self.noticed_by[0] == "gauntlet"

    @property
    def paths(self):
        return sorted({path for path, _ in self.hunks})

    def changes(self, path, text):
        """Returns (first line, old lines, new lines) for each changed place in the file."""
        return [change for name, lines in self.hunks if name == path for change in place(path, lines, text.splitlines())]

    def applied(self, path, text):
        """Returns the file's text with the mutant applied."""
        lines = text.splitlines()
        for first, old, new in sorted(self.changes(path, text), reverse=True):
            lines[first:first + len(old)] = new
        return "\n".join(lines) + "\n"


def place(path, hunk, source):
    """Returns the changes of a hunk: one for each group of adjacent changed lines."""
    stripped = [line.strip() for line in source]
    changed = [i for i, line in enumerate(hunk) if line[0] != " "]
    for lines in (hunk, hunk[changed[0]:changed[-1] + 1]):
        old = [line[1:].strip() for line in lines if line[0] != "+"]
        places = [i for i in range(len(stripped) - len(old) + 1) if stripped[i:i + len(old)] == old] if old else []
        if len(places) == 1:
            break
    else:
        reason = f"occur {len(places)} times; add context lines" if places else "are no longer in the file"
        raise Mistake(f"{path}: its lines {reason}: {hunk[changed[0]][1:].strip()}")
    changes, at, group = [], places[0], None
    for line in lines:
        if line[0] == " ":
            group = None
        elif group is None:
            group = (at, [], [])
            changes.append(group)
        if line[0] == "+":
            group[2].append(line[1:])
            continue
        if line[0] == "-":
            group[1].append(source[at])
        at += 1
    return changes


def read_all(folder):
    """Returns all mutants, in the order of their file names, with numbers from 1."""
    mutants = []
    for file in sorted(folder.glob("*.patch")):
        path = mutant = None
        for line in file.read_text().splitlines():
            header, checks = re.match(r"# ([a-z0-9-]+): (.*)", line), re.match(r"# noticed by: *(.*)", line)
            if checks:
                mutant.noticed_by = checks[1].split()
            elif header and (mutant is None or mutant.hunks):
                mutant = Mutant(len(mutants) + 1, *header.groups())
                mutants.append(mutant)
            elif line.startswith("#"):
                mutant.description += " " + line[1:].strip()
            elif line.startswith("--- a/"):
                path = line[6:].strip()
            elif line.startswith("@@"):
                mutant.hunks.append((path, []))
            elif line:
                mutant.hunks[-1][1].append(line)
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        if not mutant.noticed_by or not all(any(line[0] != " " for line in lines) for _, lines in mutant.hunks) or not mutant.hunks:
            raise Mistake(f"{mutant.name}: it changes nothing, or has no line '# noticed by: ...'")
        if names.count(mutant.name) > 1:
            raise Mistake(f"two mutants have the name {mutant.name}")
    return mutants
