"""Compares the speed of otaflash with the link's bound, a raw flood and a plain loop over bleak, on the same air in the same run."""

import json
import os
import subprocess
import sys
import time

from cases import Skip, case
from lab import HERE, until

PER_EVENT, PACKET, HEADERS, SEQUENCE = 6, 251, 7, 2
PARTS = [(mtu, interval) for interval in (15, 50) for mtu in (23, 247, 517)]


def bound(mtu, interval):
    """The bound in image bytes per second: PER_EVENT packets in each connection event, with values of the length in docs/ota-profile.md."""
    length = min(mtu - 3, 244)
    return PER_EVENT * (length - SEQUENCE) / (interval / 1000)


def image_size(mtu, interval, seconds=4):
    return int(bound(mtu, interval) * seconds)


def peer(lab, it, script, *words):
    """Runs a peer. Returns its output and the rate that the device reports for the peer's connection."""
    before = len(it.events("disconnected"))
    done = subprocess.run([sys.executable, str(HERE / script), *map(str, words)], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    print(done.stdout, flush=True)
    until(lambda: len(it.events("disconnected")) > before, 10, "the connection has ended")
    return json.loads(done.stdout), it.events("disconnected")[-1]["data"]["bytes_per_second"]


def flood_rate(lab, it):
    _, rate = peer(lab, it, "acquire_flood.py")
    return rate


def loop_rate(lab, it, mtu, image):
    told, _ = peer(lab, it, "bleak_loop.py", image)
    assert told["mtu"] == mtu, told
    return told["bytes_per_second"]


def measure(lab, it, mtu, interval, version):
    """Measures a push: (image bytes per second at the device, seconds from the command's start to the first byte, share of a core)."""
    push = lab.push(lab.bundle(image_size(mtu, interval), version), it)
    answer = push.done()["transfer"]
    assert answer["mtu"] == mtu and not it.events("violation"), (answer, it.events("violation"))
    arrived = next(event["image"] for event in reversed(it.events("disconnected")) if event["image"]["values"])
    share = (push.processor["verify"] - push.processor["transfer"]) / answer["seconds"]
    return arrived["bytes_per_second"], arrived["first"] - push.begun, share


def register(mtu, interval):
    ideal = bound(mtu, interval)
    name = f"{interval} ms, MTU {mtu}"

    def speed(lab):
        """otaflash reaches 95 % of the air's bound; the case also measures a raw flood and a plain loop over bleak."""
        lab.air("set", "interval", interval)
        it = lab.bumble(mtu=mtu)
        loop = loop_rate(lab, it, mtu, lab.bundle(image_size(mtu, interval, 2), "1.9.0"))
        flood = flood_rate(lab, it)
        lab.figure(f"{name}: bound {ideal:.0f} B/s, flood {flood} ({flood / ideal:.1%}), bleak loop {loop}")
        assert flood <= 1.05 * ideal, "the air is faster than its bound"
        if not lab.binary:
            return
        rate, first, _ = measure(lab, it, mtu, interval, "2.0.0")
        lab.figure(f"{name}: otaflash {rate} ({rate / ideal:.1%}); to the first byte {first:.2f} s")
        assert rate >= 0.95 * ideal, f"{rate} B/s is less than 95 % of the bound of {ideal:.0f} B/s"
        assert interval > 15 or first <= 2, f"the first byte arrived after {first:.2f} s, more than 2 s"

    speed.__name__ = f"speed_mtu_{mtu}_interval_{interval}"
    case(otaflash=False)(speed)


for part in PARTS:
    register(*part)


@case(limit=300, real=True)
def processor_time(lab):
    """15 ms, MTU 247, in real time: a push takes at most 10 % of a core for each 100 kB/s."""
    if os.environ.get("RADIO_LAB_TIME") == "virtual":
        raise Skip("processor time cannot be measured in virtual time; set RADIO_LAB_TIME=real")
    mtu, interval = 247, 15
    lab.air("set", "interval", interval)
    it = lab.bumble(mtu=mtu)
    ideal = bound(mtu, interval)
    for attempt in range(1, 4):  # other work fills the processor's caches, which adds to the processor time
        lab.assert_nothing_left()  # bluetoothd needs 2 s to end the link of the previous client
        time.sleep(3)
        rate, first, share = measure(lab, it, mtu, interval, f"2.{attempt}.0")
        lab.figure(f"otaflash {rate} ({rate / ideal:.1%}); to the first byte {first:.2f} s; processor {share:.1%} of a core")
        if share <= 0.1 * max(1, rate / 100_000):
            return
    raise AssertionError("otaflash used more than 10 % of a core for 100 kB/s in each attempt")
