"""Measures the time of whole commands: otaflash, and smpmgr on the same servers."""

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import client
from checks import Bench
from servers import Server

SMPMGR = str(Path(sys.executable).with_name("smpmgr"))
SERVERS = ("qemu_cortex_m0 serial", "mps2_an385 serial_recovery", "mps2_an385 serial_recovery_buf2048")
RUNS = 3


def seconds(command, server):
    begun = time.monotonic()
    done = subprocess.run(command, cwd=server.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    return time.monotonic() - begun, done


def measure(description, program, folder, otaflash, images):
    """Updates a new server. Returns the time in seconds, or None if the update failed."""
    server = Server(description, folder)
    try:
        # This is longer than the start of a server.
        time.sleep(3)
        image = images.sign(description)
        if program == "otaflash":
            command = [otaflash, "push", image, "--device", server.address, *Bench(server, otaflash, images).options()]
        elif description.has_trial:
            command = [SMPMGR, "--port", server.port, "upgrade", "--slot", "1", image]
        else:
            command = [SMPMGR, "--port", server.port, "image", "upload", image]
        duration, done = seconds([str(word) for word in command], server)
        time.sleep(3)
        if done.returncode == 0 and any(version == "1.1.0" for _, version, *_ in client.images(server)):
            return duration
        print(f"{program} on {description.name}: exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}", file=sys.stderr)
        return None
    finally:
        server.close()


def cell(times):
    good = [duration for duration in times if duration is not None]
    failed = f"{len(times) - len(good)} of {len(times)} failed" if len(good) < len(times) else ""
    return ", ".join(filter(None, [f"{statistics.median(good):.1f} s" if good else "", failed]))


def run(found, folder, otaflash, images):
    version = subprocess.run([SMPMGR, "--version"], capture_output=True, text=True).stdout.strip().splitlines()[-1]
    version = re.search(r"[0-9]+(\.[0-9]+)+", version).group()
    print(f"| server | image, bytes | otaflash | smpmgr {version} |\n|---|---|---|---|")
    for name in SERVERS:
        description = next(description for description in found if description.name == name)
        # The programs alternate, so that a busy machine affects both.
        times = {"otaflash": [], "smpmgr": []}
        for number in range(RUNS):
            for program, list in times.items():
                list.append(measure(description, program, folder / f"{description.config}-{program}-{number}", otaflash, images))
        size = images.sign(description).stat().st_size
        print(f"| {name} | {size} | {cell(times['otaflash'])} | {cell(times['smpmgr'])} |", flush=True)
