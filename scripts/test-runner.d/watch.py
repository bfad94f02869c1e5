#!/usr/bin/env python3
"""Runs a command, and ends it if it makes no progress: watch.py LIMIT OUTPUT COMMAND...

The output of the command goes to the file OUTPUT. Each growth of this file is progress. The command is ended if it makes no progress while
the machine could have run it for LIMIT seconds. So a busy machine ends no command that is only slow.

Of each second, only the share of the processors counts that the command used, or that no process used. Without other work on the machine,
this is the whole second. If other processes keep all processors busy, a tenth of each second counts, so that each command ends some day.

Exit code: that of the command; 124: the command was ended because it made no progress.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
PROCESSORS = os.cpu_count()


def idle():
    """Returns the seconds in which a processor had nothing to do, for all processors together."""
    return int(pathlib.Path("/proc/stat").read_text().split(maxsplit=5)[4]) / TICKS


def used(session):
    """Returns the processor time of the session's processes and of their ended children, in seconds."""
    ticks = 0
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
            if fields and int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def end(session):
    """Ends the processes of the session: first with SIGTERM, and after two seconds with SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                    os.kill(int(entry.name), number)
        if number == signal.SIGTERM:
            time.sleep(2)


def main(limit, output, command):
    with open(output, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

    def interrupted(number, _):
        end(process.pid)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    silent, size = 0.0, 0
    before = time.monotonic(), idle(), used(process.pid)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(1)
            return status if status >= 0 else 128 - status
        now = time.monotonic(), idle(), used(process.pid)
        elapsed, unused, own = (after - earlier for after, earlier in zip(now, before))
        before = now
        # The processor time of a process that ended without its parent is lost, so the sum can decrease.
        silent += min(elapsed, max((unused + own) / PROCESSORS, elapsed / 10))
        if os.stat(output).st_size != size:
            silent, size = 0.0, os.stat(output).st_size
        if silent >= limit:
            end(process.pid)
            return 124


sys.exit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
