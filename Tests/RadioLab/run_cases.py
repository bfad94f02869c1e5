"""Runs the cases of the radio lab, in the guest; `scripts/test-radio` calls this.

Each case runs in its own process, with a time limit. bluetoothd has just
started and knows no device. The output of a case is shown if it fails."""

import argparse
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from air import air
from cases import Skip, quiet, registered

# The slowest modules run first.
MODULES = (
    "fake", "many", "fleet_cases", "faults", "smp_cases", "address_cases", "bond_cases", "refusals", "updates", "encoded_cases", "peers", "calculator_cases",
    "beacon_cases", "uart_cases", "chat_cases", "hangup_cases", "speed",
)
AIR = "per_event 6 loss 0 range 1 advert 0.1 rssi -50 interval 0 steady 0 share 0".split()


def fresh():
    """Prepares a case: no known device, no connection, and air without faults."""
    quiet("radio-bluetoothd", "stop")
    air("plug", 2)
    air("cut")
    air("set", *AIR)
    for entry in Path("/var/lib/bluetooth").glob("*"):
        subprocess.run(["rm", "-rf", str(entry)], check=True)
    quiet("radio-bluetoothd", "start")


def aborts():
    """Returns the number of aborts of bluetoothd so far."""
    log = Path(os.environ["RADIO_LAB_JOB"], "aborts.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


def session_of(process):
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return None


def end_session(leader):
    """Ends all processes that a case started."""
    for _ in range(2):
        for entry in os.listdir("/proc"):
            if entry.isdigit() and session_of(entry) == leader:
                try:
                    os.kill(int(entry), signal.SIGKILL)
                except ProcessLookupError:
                    pass


def claim(place):
    """Returns True for the first guest that claims the case; creating a folder is atomic on the host."""
    try:
        place.mkdir()
    except FileExistsError:
        return False
    return True


PASSED, FAILED, SKIPPED = "PASS", "FAIL", "SKIP"


def play(it, output, figures):
    """Runs a case in this process and returns an exit code. The process runs only this case."""
    from lab import Lab

    os.setsid()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    try:
        with tempfile.TemporaryDirectory(prefix="case-") as folder, Lab(Path(folder), figures) as lab:
            if it.otaflash:
                lab.need_otaflash()
            if it.example:
                lab.example(it.example)
            it.function(lab)
        return 0
    except Skip as skip:
        print(skip, flush=True)
        return 77
    except BaseException:
        traceback.print_exc()
        return 1


def run(it):
    """Returns (outcome, output, figures)."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as figures:
        try:
            fresh()
        except subprocess.CalledProcessError as error:
            return FAILED, f"the lab did not restart: {error.stderr}", ""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = play(it, output, figures)
            sys.stdout.flush()
            sys.stderr.flush()
            figures.flush()
            os._exit(code)
        begun, status, before = time.monotonic(), None, aborts()
        while status is None and time.monotonic() - begun < it.limit:
            done, code = os.waitpid(child, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(code)
            else:
                time.sleep(0.02)
        end_session(child)
        if status is None:
            os.waitpid(child, 0)
        if aborted := aborts() - before:
            print(f"bluetoothd aborted, and was started again: {aborted}", file=figures, flush=True)
        output.seek(0)
        figures.seek(0)
        said = output.read()
        if status is None:
            said += f"not done after {it.limit} s\n"
        return {0: PASSED, 77: SKIPPED}.get(status, FAILED), said, figures.read()


def is_wanted(it, options):
    if options.peers and (it.otaflash or it.example) or options.examples and not it.example:
        return False
    if options.virtual and it.real or options.real and not it.real:
        return False
    return not options.pattern or any(part in it.name for part in options.pattern)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the names of the cases and exit")
    parser.add_argument("--peers", action="store_true", help="run only the cases that do not need otaflash")
    parser.add_argument("--examples", action="store_true", help="run only the cases of the programs in Examples/")
    parser.add_argument("--virtual", action="store_true", help="run only the cases in virtual time")
    parser.add_argument("--real", action="store_true", help="run only the cases in real time, which measure the machine")
    parser.add_argument("--share", metavar="FOLDER", type=Path, help="run each case in only one of the guests that have the same folder")
    parser.add_argument("--verbose", action="store_true", help="print the output of passed cases, too")
    parser.add_argument("pattern", nargs="*", help="parts of case names (default: all cases)")
    options = parser.parse_args()
    for name in MODULES:
        importlib.import_module(name)
    wanted = [it for it in sorted(registered, key=lambda it: MODULES.index(it.function.__module__)) if is_wanted(it, options)]
    if options.list:
        for it in wanted:
            print(f"{it.name:40} {(it.function.__doc__ or '').splitlines()[0]}")
        return 0
    counts = {PASSED: 0, FAILED: 0, SKIPPED: 0}
    for it in wanted:
        if options.share and not claim(options.share / it.name):
            continue
        begun = time.monotonic()
        outcome, said, figures = run(it)
        counts[outcome] += 1
        reason = f": {said.strip()}" if outcome == SKIPPED else ""
        print(f"{outcome} {it.name} ({time.monotonic() - begun:.1f} s){reason}")
        for line in figures.splitlines():
            print(f"     {line}")
        if outcome == FAILED or options.verbose:
            for line in said.splitlines()[-80:]:
                print(f"     | {line}")
        sys.stdout.flush()
        if options.share:
            (options.share / it.name / outcome).touch()
    print(f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped")
    return 1 if counts[FAILED] or not wanted or counts[SKIPPED] and os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
