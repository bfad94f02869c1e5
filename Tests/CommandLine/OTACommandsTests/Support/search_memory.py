"""Searches the memory of a command after its work and before its exit: search_memory.py MARKER SECRET... -- COMMAND...

The command creates the file MARKER when its work is done. Then it waits, because its standard output is a full pipe.
Each SECRET is a file; a line feed at its end is ignored. The first one is open as file descriptor 3 of the command.

The script prints one count for each SECRET: the number of times that its bytes occur in the readable memory of the process. This
includes the arguments and the environment. The last count is for the name of MARKER. It must be above 0, because it is an argument.
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import time

F_SETPIPE_SZ = 1031


def full_pipe():
    reading, writing = os.pipe()
    fcntl.fcntl(writing, F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    return reading, writing


def waits_to_write(process):
    """Whether its main thread is in write(1, …). The system call has number 1 on x86-64 and 64 on arm64."""
    words = pathlib.Path(f"/proc/{process.pid}/syscall").read_text().split()
    return len(words) > 1 and words[0] in ("1", "64") and int(words[1], 16) == 1


def memory(process):
    with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb") as mem:
        for line in maps:
            span, permissions = line.split()[:2]
            if not permissions.startswith("r") or "[v" in line:
                continue
            start, end = (int(place, 16) for place in span.split("-"))
            mem.seek(start)
            try:
                yield mem.read(end - start)
            except OSError:
                continue


def main(marker, secrets, command):
    wanted = [pathlib.Path(secret).read_bytes().removesuffix(b"\n") for secret in secrets] + [marker.encode()]
    reading, writing = full_pipe()
    with open(secrets[0], "rb") as passphrase:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec 3<&{passphrase.fileno()}; exec "$@"', "sh", *command], stdout=writing,
            pass_fds=[passphrase.fileno()])
    try:
        while not (os.path.exists(marker) and waits_to_write(process)):
            if process.poll() is not None:
                sys.exit(f"search_memory: {command[1]} did not reach the output of its result")
            time.sleep(0.01)
        regions = list(memory(process))
        print(*(sum(region.count(secret) for region in regions) for secret in wanted))
    finally:
        process.kill()
        process.wait()
        os.close(reading)


separator = sys.argv.index("--")
main(sys.argv[1], sys.argv[2:separator], sys.argv[separator + 1:])
