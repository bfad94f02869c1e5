"""Pushes from one adapter to several devices at the same time. The links of the adapter share its time on air."""

import bluez
from cases import case
from lab import Push, until
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


@case(limit=300)
def many_devices_after_a_missing_one(lab):
    """The first of five devices is missing: one of the others is updated before the rest, and four are confirmed."""
    lab.air("set", "interval", INTERVAL, "share", 1)
    devices = lab.bumbles(4)
    push = lab.push_to(lab.bundle(SIZE), devices, before=["ble:00:AA:01:63:00:42"])
    answer = push.done(exit_code=75)
    assert answer["summary"]["confirmed"] == 4 and answer["summary"]["failed"] == 1, answer["summary"]
    assert answer["devices"][0]["error"]["code"] == "no-such-device", answer["devices"][0]
    for device in devices:
        device.assert_confirmed("2.0.0")
    confirmed = [when for when, _ in push.events("confirmed")]
    begins = sorted(when for when, it in push.events("phase") if it["phase"] == "transfer")
    assert begins[0] < min(confirmed) < begins[1], (begins, confirmed)
    updated = max(confirmed) - push.begun
    lab.figure(f"4 devices after a missing one: all confirmed after {updated:.1f} s; the push ended after {answer['seconds']:.1f} s")
    assert updated <= 40, updated
    lab.assert_nothing_left()


@case(limit=300)
def many_devices_over_two_adapters(lab):
    """Eight devices and two adapters: each adapter updates four devices within 16 s in total, and --all finds each device once."""
    lab.air("set", "interval", INTERVAL, "share", 1)
    devices = lab.bumbles(COUNT, first=2)
    adapters = ("--adapter", "hci0", "--adapter", "hci1")
    answer = lab.push_to(lab.bundle(SIZE), devices, "--first", "0", *adapters).done()
    assert answer["summary"]["confirmed"] == COUNT, answer["summary"]
    for device in devices:
        device.assert_confirmed("2.0.0")
    used = sorted(entry["adapter"] for entry in answer["devices"])
    assert used == ["hci0"] * 4 + ["hci1"] * 4, used
    lab.figure(f"{COUNT} devices over two adapters confirmed after {answer['seconds']:.1f} s, which include a scan of 5 s")
    assert answer["seconds"] <= 16, answer["seconds"]
    words = [lab.binary, "push", lab.bundle(SIZE), "--all", "--yes", *adapters]
    again = Push(words, lab.environment).done()
    assert again["summary"]["already_running"] == COUNT, again["summary"]
    assert sorted({entry["adapter"] for entry in again["devices"]}) == ["hci0", "hci1"], again["devices"]
    lab.assert_nothing_left()
    assert not (left := bluez.ask(lambda bus: bus.leftovers("hci1"))), left
