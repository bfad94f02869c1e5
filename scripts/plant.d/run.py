"""Adds mutants to a copy of the sources, and checks which of them the tests and the gauntlet notice.

scripts/plant calls this program and describes it. Exit codes: 0: all mutants were noticed; 1: some were not; 2: the run itself failed.
"""
import argparse
import concurrent.futures
import fcntl
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import mutants as reader
from mutants import Mistake
from processes import end, end_all, started
from tree import Tree

WORLDS = 400
ISSUE = re.compile(r"✘ Test (.*?) recorded an issue")
OFFENCE = re.compile(r"^(seed \d+): (.*)")
TESTED = re.compile(r"Test run with (\d+) tests?")


class Result:
    def __init__(self, kind, detail, duration):
        self.kind, self.detail, self.duration = kind, detail, duration

    @property
    def is_noticed(self):
        return self.kind in ("test", "run", "time-out", "crash")


def play(tree, mutant, number, limit):
    """Runs the check that must notice the mutant, until the check notices the mutant. With number 0 no mutant is active."""
    if mutant.check == "tests":
        command = [str(tree.tests), "--testing-library", "swift-testing"]
        for name in mutant.noticed_by:
            command += ["--filter", name]
        if "Exhaustive" not in " ".join(mutant.noticed_by):
            command += ["--skip", "Exhaustive"]
    else:
        command = ["stdbuf", "-oL", str(tree.gauntlet), "--worlds", str(WORLDS), "--first-seed", str(mutant.seed)]
    environment = os.environ | {
        "OTAFLASH_MUTANT": str(number), "OTAFLASH_PROGRAMS": str(tree.programs), "SWIFT_BACKTRACE": "enable=no", "NO_COLOR": "1"}
    begun = time.monotonic()
    noticed, last, tests, late = None, "", 0, threading.Event()
    with started(
            command, limited=True, cwd=tree.path, env=environment, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        timer = threading.Timer(limit, lambda: (late.set(), end(process)))
        timer.start()
        for line in process.stdout:
            last = line.strip() or last
            issue, offence, tested = ISSUE.search(line), OFFENCE.match(line), TESTED.search(line)
            if tested:
                tests = int(tested.group(1))
            if issue or offence:
                noticed = ("test", issue.group(1)) if issue else ("run", f"{offence.group(1)}: {offence.group(2)}")
                end(process)
                break
        timer.cancel()
        process.stdout.close()
        status = process.wait()
    duration = time.monotonic() - begun
    if noticed:
        return Result(*noticed, duration)
    if late.is_set():
        return Result("time-out", f"still running after {limit:.0f} s", duration)
    if status < 0:
        return Result("crash", signal.Signals(-status).name, duration)
    if status > 0:
        return Result("crash" if status > 128 else "failure", f"exit {status}: {last}", duration)
    if mutant.check == "tests" and tests == 0:
        return Result("failure", "no test matches the filter", duration)
    return Result("unnoticed", "", duration)


class Run:
    def __init__(self, tree, jobs):
        self.tree, self.jobs, self.results, self.usual = tree, jobs, {}, {}
        self.errors = []

    def build(self, chosen, texts):
        """Builds the copy. Returns None, or the path of the log of a failed build."""
        targets = set()
        for mutant in chosen:
            targets |= {"otaflash-gauntlet"} if mutant.check == "gauntlet" else {self.target(name) for name in mutant.noticed_by}
        # The tests in OTACommandsTests also start the programs.
        self.tree.lay_out(targets | ({"otaflash", "otaflash-fleet"} if "OTACommandsTests" in targets else set()), texts)
        log = self.tree.folder / "build.log"
        options = ["--build-tests"] if "tests" in {mutant.check for mutant in chosen} else []
        return log if self.tree.build(options, log) != 0 else None

    def target(self, name):
        """Returns the test target of a filter. A filter begins with the name of a target or of a suite."""
        first = re.match(r"\^?(\w*)", name).group(1)
        folder = self.tree.root / "Tests"
        if (folder / first).is_dir():
            return first
        for file in folder.glob("*/**/*.swift"):
            if re.search(rf"\b(struct|class) {first}\b", file.read_text()):
                return file.relative_to(folder).parts[0]
        raise Mistake(f"there is no test target and no suite with the name {first}")

    def check_usual(self, chosen):
        """Checks that the tests and worlds pass without a mutant, and records how long they take."""
        kinds = {tuple(mutant.noticed_by): mutant for mutant in chosen if tuple(mutant.noticed_by) not in self.usual}
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for kind, result in zip(kinds, pool.map(lambda mutant: play(self.tree, mutant, 0, 600), kinds.values())):
                if result.kind != "unnoticed":
                    raise Mistake(f"without any mutant, {' '.join(kind)} fails: {result.kind}: {result.detail}")
                self.usual[kind] = result.duration

    def play(self, chosen):
        def one(mutant):
            # A run takes twice as long if two run at the same time, so the limit is four times the usual time. The 30 s are for the start
            # of the process on a busy machine.
            limit = 30 + 4 * self.usual[tuple(mutant.noticed_by)]
            result = play(self.tree, mutant, mutant.number, limit)
            self.results[mutant.name] = result
            verdict = {"unnoticed": "SURVIVED"}.get(result.kind, "killed" if result.is_noticed else "ERROR")
            print(f"{verdict:<9}{mutant.name:<38} {result.duration:5.1f} s  {result.kind}: {result.detail}"[:200], flush=True)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(one, chosen))

    def switched(self, chosen):
        """Builds and runs all mutants that fit into one build. Returns the other mutants."""
        alone = {}
        while True:
            texts, reasons = self.tree.switched_files([m for m in chosen if m.number not in alone])
            alone |= reasons
            log = self.build(chosen, texts)
            if log is None:
                break
            culprits = self.tree.culprits(log, [m for m in chosen if m.number not in alone])
            if not culprits:
                errors = re.findall(r"^\S+error: .*|^\S+ error: .*|^error: .*", log.read_text(), re.M)
                raise Mistake("\n".join([f"the build failed, but not at a mutant ({log}):", *dict.fromkeys(errors[:5])]))
            alone |= {mutant.number: "its switch does not compile" for mutant in culprits}
        together = [mutant for mutant in chosen if mutant.number not in alone]
        self.check_usual(chosen)
        self.play(together)
        return [(mutant, alone[mutant.number]) for mutant in chosen if mutant.number in alone]

    def by_itself(self, mutant, chosen, reason):
        print(f"{mutant.name} needs a build of its own: {reason}", flush=True)
        texts = {path: mutant.applied(path, self.tree.source(path)) for path in mutant.paths}
        log = self.build(chosen, texts)
        if log is not None:
            errors = re.findall(r"error: .*", log.read_text())
            self.errors.append(f"{mutant.name} does not compile: {errors[0] if errors else log}")
            return
        self.play([mutant])


def seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(prog="scripts/plant", description=__doc__.splitlines()[0])
    parser.add_argument("--gauntlet", action="store_true", help="run only the mutants that the gauntlet must notice")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="number of mutants that run at the same time; default: the number of processors")
    parser.add_argument(
        "--check", action="store_true", help="only check whether each mutant still applies to the sources; build nothing")
    parser.add_argument("--from", dest="folders", action="append", metavar="PATH", help="read mutants from this folder or file; default: Tests/Mutants")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of the mutants to run; default: all")
    arguments = parser.parse_args()

    signal.signal(signal.SIGINT, end_all)
    signal.signal(signal.SIGTERM, end_all)
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    tree = Tree(root)
    chosen = reader.read_all(arguments.folders or [root / "Tests" / "Mutants"])
    unknown = set(arguments.names) - {mutant.name for mutant in chosen}
    if unknown:
        raise Mistake(f"there is no mutant with the name {', '.join(sorted(unknown))}")
    if arguments.names:
        chosen = [mutant for mutant in chosen if mutant.name in arguments.names]
    if arguments.gauntlet and not arguments.names:
        chosen = [mutant for mutant in chosen if mutant.check == "gauntlet"]

    run = Run(tree, arguments.jobs)
    fitting = []
    for mutant in chosen:
        try:
            for path in mutant.paths:
                mutant.changes(path, tree.source(path))
            fitting.append(mutant)
        except Mistake as mistake:
            run.errors.append(f"{mutant.name} does not apply: {mistake}")
    if not arguments.check and fitting:
        # The lock allows one run at a time, because there is only one copy.
        held = open(tree.folder / "lock", "w")
        fcntl.flock(held, fcntl.LOCK_EX)
        begun = time.monotonic()
        for mutant, reason in run.switched(fitting):
            run.by_itself(mutant, fitting, reason)
        survivors = [mutant for mutant in fitting if mutant.name in run.results and run.results[mutant.name].kind == "unnoticed"]
        run.errors += [f"{name}: {result.detail}" for name, result in run.results.items()
                       if not result.is_noticed and result.kind != "unnoticed"]
        killed = sum(result.is_noticed for result in run.results.values())
        print(f"\nmutants {len(chosen)}, killed {killed}, survived {len(survivors)}, errors {len(run.errors)}; "
              f"{time.monotonic() - begun:.0f} s, {seconds():.0f} s of processor time")
        for mutant in survivors:
            print(f"survived: {mutant.name}: {mutant.description} ({' '.join(mutant.noticed_by)})")
    else:
        survivors = []
        print(f"mutants {len(chosen)}, errors {len(run.errors)}")
    for error in run.errors:
        print(f"error: {error}")
    return 2 if run.errors else 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Mistake as mistake:
        print(f"scripts/plant: {mistake}", file=sys.stderr)
        sys.exit(2)
