"""How fast: otaflash beside the link's bound, a raw flood and a plain loop over bleak, all on the same air."""

import json
import subprocess
import sys

from cases import case
from lab import HERE

PER_EVENT, PACKET = 6, 251


def value_length(mtu):
    """docs/ota-profile.md, chunk length."""
    limit = min(mtu - 3, 495)
    return next((length for length in (495, 244) if length <= limit), limit)


def bound(mtu, interval):
    """Image bytes a second: as many packets as fit in an event, 7 bytes of each value headers, 2 its sequence."""
    value = value_length(mtu)
    packets = -(-(value + 7) // PACKET)
    return PER_EVENT / packets * (value - 2) / (interval / 1000)


def compare(lab, mtu, interval):
    """(flood, bleak), bytes a second as they arrived at the device."""
    lab.air("set", "interval", interval)
    it = lab.bumble(mtu=mtu)
    size = int(bound(mtu, interval) * 3)

    def arrived(*words):
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        print(done.stdout, flush=True)
        return json.loads(done.stdout)

    before = len(it.events("disconnected"))
    arrived(HERE / "acquire_flood.py")
    flood = wait_for(it, before)["bytes_per_second"]
    loop = arrived(HERE / "bleak_loop.py", "--bytes", str(size))["bytes_per_second"]
    wait_for(it, before + 1)
    return it, flood, loop


def wait_for(it, before):
    from lab import until

    until(lambda: len(it.events("disconnected")) > before, 10, "the connection has ended")
    return it.events("disconnected")[-1]["data"]
