"""Starts processes that end with this process. Each has a process group of its own, which is killed if the run is interrupted."""
import contextlib
import os
import resource
import signal
import subprocess

# The memory limit in bytes, because a mutant may allocate without a limit.
MEMORY = 6 << 30

_running = set()


def end(process):
    """Kills the process and its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(command, *, limited=False, **options):
    def prepare():
        os.setpgid(0, 0)
        if limited:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            # The hard limit is not changed, because a test for core dumps raises its soft limit.
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
