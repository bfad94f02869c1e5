"""Adds mutants to a copy of the sources, .build/mutation/tree, and checks which of them the tests and the gauntlet notice.

scripts/plant calls this program and describes it. Exit codes: 0: all mutants were noticed; 1: some were not; 2: the run itself failed.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import fcntl
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

from mutants import Mistake, read_all
from switches import NotSwitchable, edit_for, switched

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TREE = ROOT / ".build/mutation/tree"
PROGRAMS = TREE / ".build/release"
LOG = TREE.parent / "build.log"
WORLDS = 400
# A mutant may allocate without a limit. The hard limit of core dumps stays, because a test raises its soft limit.
LIMITS = ["prlimit", f"--as={6 << 30}", "--core=0:"]
FAILURE = re.compile(r"✘ Test (.*?) recorded an issue|^(seed \d+: .*)")
SWITCHES = {
    "swift": ("PlantedMutant.swift", "plantedMutant", "", """import Glibc

let plantedMutant = getenv("OTAFLASH_MUTANT").flatMap { Int(String(cString: $0)) } ?? 0
"""),
    # Weak, because a program can contain several C targets with mutants.
    "c": ("planted.c", "ota_planted_mutant", "extern int ota_planted_mutant;\n", """#include <stdlib.h>

__attribute__((weak)) int ota_planted_mutant = 0;
__attribute__((constructor)) static void choose(void) {
    const char *number = getenv("OTAFLASH_MUTANT");
    if (number) ota_planted_mutant = atoi(number);
}
"""),
}
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
Result = collections.namedtuple("Result", "kind detail duration")
NOTICED = ("test", "crash", "time-out")
running = set()


@contextlib.contextmanager
def started(command, **options):
    """Starts a process with a process group of its own, which is killed at the end."""
    process = subprocess.Popen(command, cwd=TREE, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, process_group=0, **options)
    running.add(process)
    try:
        yield process
    finally:
        end(process)
        running.discard(process)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def interrupted(*_):
    for process in list(running):
        end(process)
    os._exit(130)


def language_of(path):
    return "swift" if path.endswith(".swift") else "c"


def source(path):
    try:
        return (ROOT / path).read_text()
    except OSError:
        raise Mistake(f"{path}: this file no longer exists") from None


def switched_files(mutants):
    """Returns the texts of the files with a switch for each mutant, and the reasons of the mutants that need a build of their own."""
    edits, texts, alone = collections.defaultdict(list), {}, {}
    for mutant in mutants:
        try:
            found = [(path, edit_for(mutant.number, source(path), *change, language_of(path)))
                     for path in mutant.paths for change in mutant.changes(path, source(path))]
            for path, edit in found:
                edits[path].append(edit)
        except NotSwitchable as reason:
            alone[mutant.number] = str(reason)
    for path, found in edits.items():
        file, name, declaration, text = SWITCHES[language_of(path)]
        result, rejected = switched(source(path), found, lambda number: f"{name} == {number}")
        if rejected:
            texts, reasons = switched_files([mutant for mutant in mutants if mutant.number not in alone.keys() | rejected])
            return texts, alone | reasons | dict.fromkeys(rejected, "it overlaps another mutant")
        texts[path] = declaration + result
        texts["/".join(path.split("/")[:3]) + "/" + file] = text
    return texts, alone


def lay_out(targets, replaced):
    """Copies the sources, with the texts in `replaced` in place of the originals. It writes only changed files, so that only these compile."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    manifest = source("Package.swift").replace(".treatAllWarnings(as: .error),", "")
    texts = {name: None for name in listed.decode().split("\0") if name and (ROOT / name).is_file()}
    texts |= {"Package.swift": manifest + MANIFEST % ", ".join(f'"{target}"' for target in sorted(targets)), **replaced}
    for folder, folders, names in os.walk(TREE):
        folders[:] = [name for name in folders if name != ".build"]
        for file in (pathlib.Path(folder, name) for name in names):
            if file.name != "Package.resolved" and str(file.relative_to(TREE)) not in texts:
                file.unlink()
    for name, text in texts.items():
        copy, content = TREE / name, (ROOT / name).read_bytes() if text is None else text.encode()
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod((ROOT / name).stat().st_mode if (ROOT / name).exists() else 0o644)


@functools.cache
def target(check):
    """Returns the test target of a filter. A filter begins with the name of a target or of a suite."""
    first = re.match(r"\^?(\w*)", check)[1]
    for file in (*(ROOT / "Tests").glob(f"*/{first}/*"), *(ROOT / "Tests").glob("*/*/**/*.swift")):
        name = file.relative_to(ROOT / "Tests").parts[1]
        if name == first or re.search(rf"\b(struct|class) {first}\b", file.read_text()):
            return name
    raise Mistake(f"there is no test target and no suite with the name {first}")


def build(mutants, texts):
    """Builds the copy without debugging information, because that takes the most time. Returns whether the build succeeded."""
    targets = {"otaflash-gauntlet" if mutant.is_for_gauntlet else target(check) for mutant in mutants for check in mutant.noticed_by[:1]}
    targets |= {target(check) for mutant in mutants if not mutant.is_for_gauntlet for check in mutant.noticed_by[1:]}
    # The tests in OTACommandsTests also start the programs.
    lay_out(targets | ({"otaflash", "otaflash-fleet"} if "OTACommandsTests" in targets else set()), texts)
    command = ["swift", "build", "-c", "release", "-Xswiftc", "-no-emit-module-separately-wmo", "-Xswiftc", "-gnone"]
    if not all(mutant.is_for_gauntlet for mutant in mutants):
        command.append("--build-tests")
    with open(LOG, "w") as output, started(command, stdout=output) as process:
        return process.wait() == 0


def culprits():
    """Returns the numbers of the mutants at the lines of the compiler's errors: those of the nearest switch in the line or above it."""
    found = set()
    for path, line in re.findall(r"^(\S+):(\d+):\d+: error:", LOG.read_text(), re.M):
        for text in reversed(pathlib.Path(path).read_text().splitlines()[max(0, int(line) - 12):int(line)]):
            if numbers := re.findall(r"(?:plantedMutant|ota_planted_mutant) == (\d+)", text):
                found |= set(map(int, numbers))
                break
    return found


def play(mutant, number, limit):
    """Runs the check that must notice the mutant, until the check notices the mutant. With number 0 no mutant is active."""
    if mutant.is_for_gauntlet:
        seed = (mutant.noticed_by + ["1"])[1]
        command = ["stdbuf", "-oL", PROGRAMS / "otaflash-gauntlet", "--worlds", str(WORLDS), "--first-seed", seed]
    else:
        command = [PROGRAMS / "otaflashPackageTests.xctest", "--testing-library", "swift-testing"]
        command += [word for check in mutant.noticed_by for word in ("--filter", check)]
        if "Exhaustive" not in " ".join(mutant.noticed_by):
            command += ["--skip", "Exhaustive"]
    variables = {"OTAFLASH_MUTANT": str(number), "OTAFLASH_PROGRAMS": str(PROGRAMS), "SWIFT_BACKTRACE": "enable=no", "NO_COLOR": "1"}
    begun, late, last, tests = time.monotonic(), threading.Event(), "", mutant.is_for_gauntlet
    with started(LIMITS + command, env=os.environ | variables, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        timer = threading.Timer(limit, lambda: (late.set(), end(process)))
        timer.start()
        failure = None
        for line in process.stdout:
            last = line.strip() or last
            tests = tests or re.search(r"Test run with [1-9]", line)
            if failure := FAILURE.search(line):
                break
        timer.cancel()
        if failure:
            end(process)
        process.stdout.close()
        status = process.wait()
    duration = time.monotonic() - begun
    if failure:
        return Result("test", failure[1] or failure[2], duration)
    if late.is_set():
        return Result("time-out", f"still running after {limit:.0f} s", duration)
    if status < 0 or status > 128:
        return Result("crash", f"exit {status}: {last}", duration)
    if status > 0 or not tests:
        return Result("error", f"exit {status}: {last}" if status else "no test matches the filter", duration)
    return Result("survived", "", duration)


class Run:
    def __init__(self, mutants, jobs):
        self.mutants, self.pool, self.usual, self.results = mutants, concurrent.futures.ThreadPoolExecutor(jobs), {}, {}

    def measure(self):
        """Checks that the tests and worlds pass without a mutant, and records how long they take."""
        kinds = {tuple(mutant.noticed_by): mutant for mutant in self.mutants}
        for kind, result in zip(kinds, self.pool.map(lambda mutant: play(mutant, 0, 600), kinds.values())):
            if result.kind != "survived":
                raise Mistake(f"without any mutant, {' '.join(kind)} fails: {result.kind}: {result.detail}")
            self.usual[kind] = result.duration

    def one(self, mutant):
        # A run takes twice as long if two run at the same time, so the limit is four times the usual time. The 30 s are for the start of
        # the process on a busy machine.
        self.note(mutant, play(mutant, mutant.number, 30 + 4 * self.usual[tuple(mutant.noticed_by)]))

    def note(self, mutant, result):
        self.results[mutant] = result
        verdict = "killed" if result.kind in NOTICED else result.kind.upper()
        print(f"{verdict:<9}{mutant.name:<38} {result.duration:5.1f} s  {result.kind}: {result.detail}"[:200], flush=True)

    def all(self):
        alone = {}
        while True:
            together = [mutant for mutant in self.mutants if mutant.number not in alone]
            texts, reasons = switched_files(together)
            alone |= reasons
            if build(self.mutants, texts):
                break
            wrong = culprits() - alone.keys()
            if not wrong:
                raise Mistake(f"the build failed, but not at a mutant: {LOG}")
            alone |= dict.fromkeys(wrong, "its switch does not compile")
        self.measure()
        list(self.pool.map(self.one, [mutant for mutant in self.mutants if mutant.number not in alone]))
        for mutant in (mutant for mutant in self.mutants if mutant.number in alone):
            print(f"{mutant.name} needs a build of its own: {alone[mutant.number]}", flush=True)
            if build(self.mutants, {path: mutant.applied(path, source(path)) for path in mutant.paths}):
                self.one(mutant)
            else:
                self.note(mutant, Result("error", f"it does not compile: {LOG}", 0))


def main():
    parser = argparse.ArgumentParser(prog="scripts/plant", description=__doc__.splitlines()[0])
    parser.add_argument("--gauntlet", action="store_true", help="run only the mutants that the gauntlet must notice")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of mutants that run at the same time; default: of processors")
    parser.add_argument("--check", action="store_true", help="only check whether each mutant still applies to the sources; build nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of the mutants to run; default: all")
    options = parser.parse_args()
    mutants = read_all(ROOT / "Tests/Mutants")
    unknown = set(options.names) - {mutant.name for mutant in mutants}
    if unknown:
        raise Mistake(f"there is no mutant with the name {', '.join(sorted(unknown))}")
    mutants = [mutant for mutant in mutants
               if (mutant.name in options.names if options.names else mutant.is_for_gauntlet or not options.gauntlet)]
    stale = []
    for mutant in mutants:
        try:
            for path in mutant.paths:
                mutant.changes(path, source(path))
        except Mistake as mistake:
            stale.append(mutant)
            print(f"error: {mutant.name} does not apply: {mistake}")
    if options.check:
        print(f"mutants {len(mutants)}, errors {len(stale)}")
        return 2 if stale else 0
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    TREE.mkdir(parents=True, exist_ok=True)
    # The lock allows one run at a time, because there is only one copy.
    lock = open(TREE.parent / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    begun = time.monotonic()
    run = Run([mutant for mutant in mutants if mutant not in stale], options.jobs)
    run.all()
    count = collections.Counter("killed" if result.kind in NOTICED else result.kind for result in run.results.values())
    count["error"] += len(stale)
    for mutant, result in run.results.items():
        if result.kind == "survived":
            print(f"survived: {mutant.name}: {mutant.description} ({' '.join(mutant.noticed_by)})")
    print(f"mutants {len(mutants)}, killed {count['killed']}, survived {count['survived']}, errors {count['error']}; {time.monotonic() - begun:.0f} s")
    return 2 if count["error"] else 1 if count["survived"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Mistake as mistake:
        print(f"scripts/plant: {mistake}", file=sys.stderr)
        sys.exit(2)
