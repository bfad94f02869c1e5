"""The copy of the sources with the mutants, .build/mutation/tree, and its build."""
import os
import pathlib
import re
import subprocess

from mutants import Mistake
from processes import started
from switches import NotSwitchable, edits_for, switched

SWIFT_SWITCH = """import Glibc

let plantedMutant = getenv("OTAFLASH_MUTANT").flatMap { Int(String(cString: $0)) } ?? 0
"""
C_SWITCH = """#include <stdlib.h>

int ota_planted_mutant = 0;
__attribute__((constructor)) static void choose(void) {
    const char *number = getenv("OTAFLASH_MUTANT");
    if (number) ota_planted_mutant = atoi(number);
}
"""
# Added to the manifest of the copy. Only the targets that the mutants need are built. Warnings are not errors in the copy, so that a mutant
# with an unused name compiles.
MANIFEST = """
var needed: Set<String> = [%s]
for _ in package.targets {
    for target in package.targets where needed.contains(target.name) {
        for case .byNameItem(let name, _) in target.dependencies { needed.insert(name) }
    }
}
package.targets.removeAll { !needed.contains($0.name) }
package.products = []
"""


def language_of(path):
    return "swift" if path.endswith(".swift") else "c"


class Tree:
    def __init__(self, root):
        self.root = root
        self.folder = root / ".build" / "mutation"
        self.path = self.folder / "tree"
        self.path.mkdir(parents=True, exist_ok=True)

    def source(self, path):
        try:
            return (self.root / path).read_text()
        except OSError:
            raise Mistake(f"{path}: this file no longer exists") from None

    def lay_out(self, targets, replaced):
        """Copies the sources, with the texts in `replaced` in place of the originals.

        A file with unchanged content is not written again, so that it is not compiled again.
        """
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=self.root, check=True, capture_output=True)
        files = {name: None for name in listed.stdout.decode().split("\0") if name and (self.root / name).is_file()}
        manifest = self.source("Package.swift").replace(".treatAllWarnings(as: .error),", "")
        manifest += MANIFEST % ", ".join(f'"{target}"' for target in sorted(targets))
        texts = {"Package.swift": manifest} | replaced
        for folder, folders, names in os.walk(self.path):
            folders[:] = [name for name in folders if name != ".build"]
            for there in (pathlib.Path(folder) / name for name in names):
                name = str(there.relative_to(self.path))
                if name != "Package.resolved" and name not in files | texts:
                    there.unlink()
        for name in files | texts:
            place = self.path / name
            content = texts[name].encode() if name in texts else (self.root / name).read_bytes()
            if not place.is_file() or place.read_bytes() != content:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                place.chmod((self.root / name).stat().st_mode if (self.root / name).exists() else 0o644)

    def switched_files(self, mutants):
        """Returns the texts of the files with a switch for each mutant, and the mutants that need a build of their own."""
        alone = {}
        while True:
            edits, texts = {}, {}
            for mutant in mutants:
                if mutant.number in alone:
                    continue
                try:
                    for path in mutant.paths:
                        text = self.source(path)
                        for first, old, new in mutant.changes(path, text):
                            edits.setdefault(path, []).extend(
                                edits_for(mutant.number, text, first, old, new, language_of(path)))
                except NotSwitchable as reason:
                    alone[mutant.number] = str(reason)
            rejected = set()
            for path, found in edits.items():
                name = "plantedMutant" if language_of(path) == "swift" else "ota_planted_mutant"
                found = [edit for edit in found if edit.number not in alone]
                text, numbers = switched(self.source(path), found, lambda number: f"{name} == {number}")
                rejected |= numbers
                texts[path] = text if language_of(path) == "swift" else "extern int ota_planted_mutant;\n" + text
                folder = "/".join(path.split("/")[:3])
                switch = ("PlantedMutant.swift", SWIFT_SWITCH) if language_of(path) == "swift" else ("planted.c", C_SWITCH)
                texts[f"{folder}/{switch[0]}"] = switch[1]
            if not rejected:
                return texts, alone
            alone |= {number: "it overlaps another mutant" for number in rejected}

    def build(self, options, log):
        """Builds the copy and returns the exit code. The build has no debugging information, because that takes the most time."""
        command = ["swift", "build", "-c", "release", "-Xswiftc", "-no-emit-module-separately-wmo", "-Xswiftc", "-gnone", *options]
        with open(log, "w") as output:
            with started(command, cwd=self.path, stdout=output) as process:
                return process.wait()

    def culprits(self, log, mutants):
        """Returns the mutants at the lines of the compiler's errors."""
        found = set()
        for path, line in re.findall(r"^(\S+):(\d+):\d+: error:", pathlib.Path(log).read_text(), re.M):
            try:
                lines = pathlib.Path(path).read_text().splitlines()[:int(line)]
            except OSError:
                continue
            # Find the nearest switch, in the line itself or above it.
            for text in reversed(lines[-12:]):
                numbers = re.findall(r"(?:plantedMutant|ota_planted_mutant) == (\d+)", text)
                if numbers:
                    found |= set(map(int, numbers))
                    break
        return [mutant for mutant in mutants if mutant.number in found]

    @property
    def tests(self):
        return self.programs / "otaflashPackageTests.xctest"

    @property
    def programs(self):
        return self.path / ".build/release"

    @property
    def gauntlet(self):
        return self.programs / "otaflash-gauntlet"
