"""Processes that end with this one: each in a group of its own, which is killed when the run is interrupted."""
import contextlib
import os
import resource
import signal
import subprocess

# A mutant may allocate without end.
MEMORY = 6 << 30

_running = set()


def end(process):
    """Kills the process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(command, *, limited=False, **options):
    def prepare():
        os.setpgid(0, 0)
        if limited:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            # Not the hard limit: a test that looks for core dumps raises its own.
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, preexec_fn=prepare, **options)
    _running.add(process)
    try:
        yield process
    finally:
        end(process)
        _running.discard(process)


def end_all(*_):
    for process in list(_running):
        end(process)
    os._exit(130)
