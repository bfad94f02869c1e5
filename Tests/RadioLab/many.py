"""Pushes from one adapter to several devices at the same time. The links of the adapter share its time on air."""

from cases import case
from lab import until
from speed import bound

COUNT, SIZE, INTERVAL, MTU = 8, 128 << 10, 15, 517


def offsets(push, devices):
    """Returns for each device the list of (time, acknowledged bytes) of its transfer."""
    return [
        [(when, it["offset"]) for when, it in push.events("progress") if it["device"]["given"].endswith(device.address)] for device in devices
    ]


def at(points, when):
    """Returns the bytes of a device at a time, interpolated."""
    if when <= points[0][0]:
        return points[0][1]
    for (start, first), (end, last) in zip(points, points[1:]):
        if when <= end:
            return first + (last - first) * (when - start) / (end - start) if end > start else last
    return points[-1][1]


def together(transfers):
    """Returns {devices that transfer at the same time: [seconds, bytes of each]}, from the first to the last progress of each device."""
    times = sorted(when for points in transfers for when, _ in points)
    sets = {}
    for start, end in zip(times, times[1:]):
        active = tuple(n for n, points in enumerate(transfers) if points[0][0] <= start and points[-1][0] >= end)
        seconds, parts = sets.setdefault(active, [0, [0] * len(active)])
        sets[active] = [
            seconds + end - start, [part + at(transfers[n], end) - at(transfers[n], start) for n, part in zip(active, parts)]
        ]
    return sets


def shared_rate(sets, least=2):
    """Returns (bytes per second of all devices together, seconds) over the time in which at least this number of devices transfer."""
    chosen = [it for active, it in sets.items() if len(active) >= least]
    seconds = sum(it[0] for it in chosen)
    return sum(sum(it[1]) for it in chosen) / seconds, seconds


def jain(parts):
    """Jain's index: 1 if all parts are equal, 1/n if one device gets everything."""
    return sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts))


def fairness(sets, number):
    """Jain's index over the time in which exactly this number of devices transfer: the mean over the sets of devices, by time. Sets that
    share the air for less than 0.3 s have too few progress events."""
    chosen = [it for active, it in sets.items() if len(active) == number and it[0] >= 0.3]
    return sum(it[0] * jain(it[1]) for it in chosen) / sum(it[0] for it in chosen)


def check(lab, push, devices, seconds):
    """Checks that all devices are confirmed within this time. Returns the answer, the fairness with 4 transfers, and their shared rate."""
    answer = push.done()
    spent = answer["seconds"]
    assert answer["summary"]["confirmed"] == len(devices), answer["summary"]
    for device in devices:
        device.assert_confirmed("2.0.0")
    rates = [entry["transfer"]["bytes_per_second"] for entry in answer["devices"]]
    sets = together(offsets(push, devices))
    fair = fairness(sets, 4)
    shared, overlap = shared_rate(sets)
    lab.figure(
        f"{len(devices)} devices confirmed after {spent:.1f} s; fairness while 4 transfer {fair:.3f}, of all mean rates {jain(rates):.3f}; "
        f"while two or more transfer ({overlap:.1f} s): {shared:.0f} B/s, {shared / bound(MTU, INTERVAL):.1%} of the bound"
    )
    assert spent <= seconds, f"{spent} s"
    lab.assert_nothing_left()
    return answer, fair, shared


@case(limit=300)
def many_devices(lab):
    """Eight devices at 15 ms: all confirmed within 22 s, with a fair share of the air, and 90 % of its bound."""
    lab.air("set", "interval", INTERVAL, "share", 1)
    devices = lab.bumbles(COUNT)
    push = lab.push_to(lab.bundle(SIZE), devices, "--first", "0")
    _, fair, shared = check(lab, push, devices, 22)
    assert fair >= 0.9, fair
    assert shared >= 0.9 * bound(MTU, INTERVAL), shared
    again = lab.push_to(lab.bundle(SIZE), devices).done()
    assert again["summary"]["already_running"] == COUNT, again["summary"]


@case(limit=300)
def many_devices_with_cuts(lab):
    """Eight devices, the first one before the others; two links break in mid-transfer: all devices are confirmed."""
    lab.air("set", "interval", INTERVAL, "share", 1)
    devices = lab.bumbles(COUNT)
    push = lab.push_to(lab.bundle(SIZE), devices)
    for number in (2, 3):
        address = devices[number - 1].address

        def half():
            own = [it for _, it in push.events("progress") if it["device"]["given"].endswith(address)]
            assert push.process.poll() is None, "the push has ended"
            return own and own[-1]["offset"] >= 0.3 * SIZE

        until(half, 60, f"a part of the image on hci{number}")
        lab.air("cut", number)
    answer, _, _ = check(lab, push, devices, 40)
    cut = [entry["transfer"]["disconnects"] for entry in answer["devices"]]
    assert cut[1] >= 1 and cut[2] >= 1 and sum(cut) >= 2, cut
