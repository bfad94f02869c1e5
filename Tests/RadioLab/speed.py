"""How fast: otaflash beside what the link can carry, a raw flood and a plain loop over bleak, all on the same air in the same run."""

import json
import subprocess
import sys
import time

from cases import case
from lab import HERE, until

PER_EVENT, PACKET, HEADERS, SEQUENCE = 6, 251, 7, 2
PARTS = [(mtu, interval) for interval in (15, 50) for mtu in (23, 247, 517)]


def bound(mtu, interval):
    """Image bytes a second: an event's packets, each full where the MTU allows that, filled with values of docs/ota-profile.md's length."""
    length = min(mtu - 3, 244)
    return PER_EVENT * (length - SEQUENCE) / (interval / 1000)


def image_size(mtu, interval, seconds=4):
    return int(bound(mtu, interval) * seconds)


def peer(lab, it, script, *words):
    """What arrived at the device while a peer was connected, as the device tells."""
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


def register(mtu, interval):
    ideal = bound(mtu, interval)
    name = f"{interval} ms, MTU {mtu}"

    def air_carries(lab):
        """What the air carries, and what a plain loop over bleak makes of it."""
        lab.air("set", "interval", interval)
        it = lab.bumble(mtu=mtu)
        flood, loop = flood_rate(lab, it), loop_rate(lab, it, mtu, lab.bundle(image_size(mtu, interval)))
        lab.figure(f"{name}: bound {ideal:.0f} B/s, flood {flood} ({flood / ideal:.1%}), bleak loop {loop}")
        assert 0.5 * ideal <= flood <= 1.05 * ideal, "this air is not what it says, or this machine has no time for it"

    def push_is_fast(lab):
        """otaflash reaches 95 % of the air's bound, or of what a flood reaches where the machine is too busy for that."""
        lab.air("set", "interval", interval)
        it = lab.bumble(mtu=mtu)
        loop = loop_rate(lab, it, mtu, lab.bundle(image_size(mtu, interval), "1.9.0"))
        for attempt in (1, 2, 3):  # other work on this machine comes and goes between a flood and a push
            flood = flood_rate(lab, it)
            push = lab.push(lab.bundle(image_size(mtu, interval), f"2.{attempt}.0"), it)
            answer = push.done()["transfer"]
            rate, processor = answer["bytes_per_second"], push.usage.ru_utime + push.usage.ru_stime
            share = processor / answer["seconds"]
            lab.figure(
                f"{name}: otaflash {rate:.0f} B/s ({rate / ideal:.1%} of {ideal:.0f}), flood {flood}, bleak loop {loop}; "
                f"to the first byte {push.first_byte():.2f} s; processor {share:.1%} of the transfer's time"
            )
            assert answer["mtu"] == mtu and not it.events("violation"), (answer, it.events("violation"))
            if rate >= 0.95 * min(ideal, flood) and share <= 0.1 * max(1, rate / 100_000) and (interval > 15 or push.first_byte() <= 2):
                return
            time.sleep(1)
        raise AssertionError("too slow three times")

    for function, otaflash in ((air_carries, False), (push_is_fast, True)):
        function.__name__ += f"_mtu_{mtu}_interval_{interval}"
        case(limit=180, otaflash=otaflash)(function)


for part in PARTS:
    register(*part)
