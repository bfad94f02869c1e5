"""Updates of MCUboot images over SMP (MCUmgr's protocol): complete updates, faults and refusals."""

import json
import signal
import subprocess
import sys
import time

import bundle
from cases import case
from faults import restart_with
from lab import HERE, PASSKEY, Process, until
from refusals import assert_refused
from speed import PACKET, PER_EVENT
from updates import told

SIZE = 512 << 10
HEADERS = 7  # bytes of the L2CAP and ATT headers in a packet on the air


def check(answer, image, version="2.0.0", confirmed=True):
    """Checks the answer of a successful push over SMP."""
    assert answer["protocol"] == "smp" and answer["device"]["running_version"] == version, answer
    assert answer["device"]["confirmed"] == confirmed, answer["device"]
    transfer = answer["transfer"]
    assert transfer["image_bytes"] in (0, image.stat().st_size), transfer
    return transfer


def update(lab, device, *options, size=SIZE, version="2.0.0"):
    image = lab.mcuboot(size, version)
    transfer = check(lab.push(image, device, *options).done(), image, version)
    lab.assert_nothing_left()
    device.assert_confirmed(version)
    lab.figure(told(transfer))
    return transfer


@case()
def smp_push(lab):
    """A push of 512 KiB from hci0 to otaflash's virtual SMP device on hci1 ends confirmed; a second push sends no byte."""
    device = lab.smp()
    transfer = update(lab, device)
    assert transfer["disconnects"] == transfer["resent_bytes"] == transfer["gaps"] == 0, transfer
    restarts = len(device.process.err.when("restarting"))
    again = lab.push(lab.mcuboot(), device).done()
    assert again["outcome"] == "already-running" and again.get("transfer", {}).get("sent_bytes", 0) == 0, again
    assert len(device.process.err.when("restarting")) == restarts


@case()
def smp_trial_and_back(lab):
    """An image stays on trial: `discard` restarts the device, which rolls back; `confirm` makes the next trial permanent."""
    device = lab.smp()
    address = f"ble:{device.address}"
    image = lab.mcuboot(100_000)
    assert lab.push(image, device, "--no-confirm").done()["outcome"] == "on-trial"
    status = lab.otaflash("status", "--device", address)["device"]
    assert (status["state"], status["running_version"]) == ("trial", "2.0.0"), status
    assert lab.otaflash("discard", "--device", address)["device"]["running_version"] == "1.0.0"
    lab.push(image, device, "--no-confirm").done()
    lab.otaflash("confirm", "--device", address)
    status = lab.otaflash("status", "--device", address)["device"]
    assert status["confirmed"] and status["running_version"] == "2.0.0", status


@case()
def smp_permanent(lab):
    """A push without a trial makes the image permanent."""
    device = lab.smp()
    image = lab.mcuboot(100_000)
    check(lab.push(image, device, "--permanent").done(), image)
    lab.assert_nothing_left()
    assert device.process.err.when("runs version 2.0.0") and not device.process.err.when("on trial"), device.process.err.lines


@case()
def smp_wrong_key(lab):
    """The bootloader does not start the image: push reports it after the restart, and the old version runs."""
    device = lab.smp()
    image = lab.mcuboot(100_000, key=bundle.EXAMPLE_KEY)
    assert_refused(lab.push(image, device, "--unverified-image").done(exit_code=78), "rolled-back")
    lab.assert_nothing_left()
    assert lab.otaflash("status", "--device", f"ble:{device.address}")["device"]["running_version"] == "1.0.0"


@case()
def smp_too_large(lab):
    """An image that is larger than the slot is refused before a byte of it is sent."""
    answer = lab.push(lab.mcuboot(2 << 20), lab.smp()).done(exit_code=77)
    assert_refused(answer, "image-too-large")
    lab.assert_nothing_left()


@case()
def smp_wrong_file(lab):
    """A bundle of a raw image is refused for an SMP device."""
    assert_refused(lab.push(lab.bundle(1000), lab.smp()).done(exit_code=77), "wrong-image-format")


@case()
def smp_sha512(lab):
    """An image lacks the digest by which the device lists its images. The device would accept the image but never list it."""
    answer = lab.push(lab.mcuboot(1000, options=("--pure",)), lab.smp()).done(exit_code=77)
    assert_refused(answer, "wrong-image-format")
    lab.assert_nothing_left()


@case()
def smp_without_marks(lab):
    """A device cannot mark images, for example if MCUboot loads to RAM: exit code 76. The image can be uploaded only."""
    device = lab.smp("--without", "marks")
    image = lab.mcuboot(20_000)
    assert_refused(lab.push(image, device).done(exit_code=76), "unsupported-device")
    assert lab.push(image, device, "--upload-only").done()["outcome"] == "uploaded"
    lab.assert_nothing_left()


@case(limit=150)
def smp_one_slot(lab):
    """A device with one slot restarts into its firmware loader, receives the image over a link that breaks once, and runs the image."""
    device = lab.smp("--without", "second-slot")
    address = f"ble:{device.address}"
    image = lab.mcuboot(256 << 10)
    assert_refused(lab.push(image, device).done(exit_code=77), "no-trial")
    assert lab.otaflash("status", "--device", address)["device"]["state"] == "unknown"
    assert not device.process.err.when("restarting"), device.process.err.lines
    push = lab.push(image, device, "--permanent")
    push.reach(0.4)
    lab.air("cut")
    answer = push.done()
    assert answer["outcome"] == "returned" and answer["transfer"]["image_bytes"] == image.stat().st_size, answer
    assert answer["transfer"]["disconnects"] == 1, answer["transfer"]
    lab.figure(told(answer["transfer"]))
    lab.assert_nothing_left()
    assert device.process.err.when("runs its firmware loader"), device.process.err.lines
    assert device.process.err.when("runs version 2.0.0"), device.process.err.lines


@case(limit=150)
def smp_one_slot_killed(lab):
    """otaflash is killed while a firmware loader receives the image; status shows the loader, and the same command resumes."""
    device = lab.smp("--without", "second-slot")
    image = lab.mcuboot(256 << 10)
    first = lab.push(image, device, "--permanent")
    first.reach(0.5)
    first.signal(signal.SIGKILL)
    first.wait(5)
    assert lab.otaflash("status", "--device", f"ble:{device.address}")["device"]["state"] == "loader"
    answer = lab.push(image, device, "--permanent").done()
    assert answer["outcome"] == "returned" and answer["transfer"]["resumed_from"] > 100_000, answer
    lab.assert_nothing_left()
    assert device.process.err.when("runs version 2.0.0"), device.process.err.lines


@case()
def smp_held(lab):
    """Two pushes run at once: the second reports the process that uses the device, and does not disturb the first."""
    device = lab.smp()
    image = lab.mcuboot(256 << 10)
    first = lab.push(image, device)
    first.reach(0.2)
    second = lab.push(image, device).done(exit_code=75)
    assert_refused(second, "device-in-use")
    assert str(first.process.pid) in second["error"]["message"], second
    assert check(first.done(), image)["disconnects"] == 0
    lab.assert_nothing_left()


@case()
def smp_refused_early(lab):
    """A lower version, and any version during a trial, are refused before a byte is sent."""
    device = lab.smp()
    lower = lab.push(lab.mcuboot(1000, "0.9.0"), device, "--no-downgrade").done(exit_code=77)
    assert_refused(lower, "downgrade")
    assert lab.push(lab.mcuboot(1000), device, "--no-confirm").done()["outcome"] == "on-trial"
    assert_refused(lab.push(lab.mcuboot(1000, "3.0.0"), device).done(exit_code=77), "in-trial")
    lab.assert_nothing_left()


@case(limit=150)
def smp_large(lab):
    """A push of 1.9 MiB succeeds."""
    update(lab, lab.smp(), size=1_900 << 10)


@case(limit=150)
def smp_link_cut(lab):
    """The link breaks twice during the upload; the upload resumes from the device's offset."""
    device = lab.smp()
    image = lab.mcuboot()
    push = lab.push(image, device)
    for number, part in enumerate((0.3, 0.6)):
        until(lambda: len(push.events("resumed")) == number, 20, "the upload resumes")
        push.reach(part)
        lab.air("cut")
    transfer = check(push.done(), image)
    lab.figure(told(transfer))
    offsets = [it["offset"] for _, it in push.events("resumed")]
    assert transfer["disconnects"] == 2 and len(offsets) == 2 and offsets[0] > 0.3 * SIZE, (transfer, offsets)
    assert transfer["resent_bytes"] <= 2 * 4 * 2475, transfer
    lab.assert_nothing_left()
    device.assert_confirmed("2.0.0")


@case(limit=150)
def smp_sender_killed(lab):
    """otaflash is killed during the upload; the next push resumes it."""
    device = lab.smp()
    image = lab.mcuboot()
    first = lab.push(image, device)
    reached = first.reach(0.5)
    first.signal(signal.SIGKILL)
    first.wait(5)
    transfer = check(lab.push(image, device).done(), image)
    lab.figure(told(transfer))
    assert transfer["resumed_from"] >= reached, f"{transfer['resumed_from']} of {reached} acknowledged bytes were resumed"
    device.assert_confirmed("2.0.0")


@case(limit=150)
def smp_device_killed(lab):
    """The device loses power and its upload state during the upload; the image is sent again."""
    device = lab.smp()
    image = lab.mcuboot(256 << 10)
    push = lab.push(image, device)
    push.reach(0.3)
    device.kill()
    time.sleep(1)
    device.start()
    transfer = check(push.done(), image)
    lab.figure(told(transfer))
    assert transfer["resent_bytes"] > 0.25 * (256 << 10), transfer
    device.assert_confirmed("2.0.0")


@case()
def smp_without_parameters(lab):
    """The device does not report its buffers: push sends packets of 384 bytes, as many at once as the device accepts."""
    transfer = update(lab, lab.smp("--without", "parameters", "--buffer-size", "384"), size=60_000)
    assert transfer["chunk_size"] <= 384, transfer


@case()
def smp_without_reassembly(lab):
    """The device accepts a packet only in one value."""
    transfer = update(lab, lab.smp("--without", "reassembly"), size=100_000)
    assert transfer["chunk_size"] <= 512, transfer


@case()
def smp_plainest(lab):
    """The device reports neither its buffers nor its slots, and accepts a packet only in one value."""
    it = lab.smp("--without", "parameters", "--without", "reassembly", "--without", "slots", "--buffer-size", "384")
    update(lab, it, size=60_000)


@case()
def smp_events_lost(lab):
    """30 % of all connection events are lost during the whole transfer."""
    lab.air("set", "loss", 0.3)
    transfer = update(lab, lab.smp(), size=200_000)
    assert transfer["disconnects"] == 0, transfer


@case()
def smp_scan(lab):
    """The device is shown with its protocol, its board and the running version."""
    device = lab.smp()
    seen = lab.otaflash("scan", "--adapter", "hci0", "--timeout", "4")["devices"]
    assert [(it["name"], it["protocols"]) for it in seen] == [("kitchen", ["smp"])], seen
    assert (seen[0]["product"], seen[0]["version"]) == ("demo", "1.0.0"), seen
    assert seen[0]["address"].endswith(device.address), seen


def bumble_bridge(lab, *options, made_with=(), **more):
    """Starts a device on another stack, whose packets a virtual device on UDP answers."""
    lab.create("--protocol", "smp", *made_with)
    served = Process([lab.binary, "simulate", "serve", "kitchen", "--udp", 1337], "kitchen", env=lab.environment)
    lab.stack.callback(served.process.kill)
    until(lambda: served.err.when("is at udp:"), 10, "the device is served")
    return lab.bumble(*options, smp=1337, **more)


@case()
def smp_passkey(lab):
    """A device on another stack requires a passkey for subscribing and writing. It is paired and updated."""
    bridge = bumble_bridge(lab, passkey=PASSKEY)
    image = lab.mcuboot(100_000)
    seen = lab.otaflash("scan", "--adapter", "hci0", "--timeout", "4")["devices"]
    assert [it["protocols"] for it in seen] == [["smp"]] and "version" not in seen[0] and "requires pairing" in seen[0]["unread"], seen
    assert_refused(lab.push(image, bridge).done(exit_code=77), "not-permitted")
    lab.assert_nothing_left()
    time.sleep(1)
    lab.figure(told(check(lab.push(image, bridge, "--passkey", str(PASSKEY)).done(), image)))
    assert [event["authenticated"] for event in bridge.events("paired")] == [True], bridge.events("paired")
    lab.assert_nothing_left()


@case()
def smp_passkey_for_writes(lab):
    """A device requires a passkey only for writing: it drops writes without response. It is paired, or refused with 77."""
    bridge = bumble_bridge(lab, "--open-subscription", passkey=PASSKEY)
    image = lab.mcuboot(20_000)
    assert_refused(lab.push(image, bridge).done(exit_code=77), "not-permitted")
    lab.assert_nothing_left()
    time.sleep(1)
    lab.figure(told(check(lab.push(image, bridge, "--passkey", str(PASSKEY)).done(), image)))
    lab.assert_nothing_left()


@case()
def smp_attributes_moved(lab):
    """bluetoothd's table of the device is from other firmware: a command reads the table again."""
    bridge = bumble_bridge(lab, layout=0)
    assert lab.otaflash("status", "--device", f"ble:{bridge.address}")["device"]["running_version"] == "1.0.0"
    restart_with(bridge, 1)
    assert lab.otaflash("status", "--device", f"ble:{bridge.address}")["device"]["running_version"] == "1.0.0"


# ---- MCUmgr's own clients

# The usual value length is 495 bytes, as in Zephyr's samples: it fills two packets. The clients always write values of MTU - 3 bytes.
# Neither an attribute nor BlueZ accepts a value of 514 bytes.
USUAL_MTU = 498


def client(*words, seconds=120):
    """Runs one of PyPI's clients and returns its output."""
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    print(done.stdout, done.stderr, flush=True)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


@case(limit=120)
def smp_client_of_others(lab):
    """PyPI's smpclient over bleak updates otaflash's virtual device and confirms the image."""
    lab.exchange(USUAL_MTU)
    device = lab.smp()
    said = json.loads(client(sys.executable, HERE / "on_hci0.py", "smp_client", device.address, lab.mcuboot(200_000)))
    assert said == {"version": "2.0.0", "confirmed": True}, said
    device.assert_confirmed("2.0.0")


@case()
def smp_usual_mtu(lab):
    """Two updates with values of 495 bytes, as in Zephyr's samples; bluetoothd knows the device at the second one."""
    lab.exchange(USUAL_MTU)
    device = lab.smp()
    for version in ("2.0.0", "3.0.0"):
        transfer = update(lab, device, size=60_000, version=version)
        assert transfer["mtu"] == USUAL_MTU and transfer["chunk_size"] == 2475, transfer


# ---- Speed


BOUND = PER_EVENT * (PACKET - HEADERS) / 0.015


def arrival(device, size, since):
    """Returns (bytes per second, arrival time of the first byte) of the device's last upload."""
    first = until(lambda: [it for it in device.process.err.when("receiving an image") if it > since], 5, "an upload")[-1]
    last = until(lambda: [it for it in device.process.err.when("reception ended") if it > first], 5, "its end")[-1]
    return size / (last - first), first


@case(limit=120)
def smp_speed(lab):
    """15 ms, 4 buffers of 2475 bytes: 95 % of the air's bound, compared with smpmgr, and the first byte within 2 s."""
    lab.air("set", "interval", 15)
    lab.exchange(USUAL_MTU)
    device = lab.smp("--buffers", 4, "--buffer-size", 2475)
    image = lab.mcuboot()
    size = image.stat().st_size
    begun = time.monotonic()
    client(sys.executable, HERE / "on_hci0.py", "smpmgr", "--ble", device.address, "image", "upload", image)
    theirs, _ = arrival(device, size, begun)
    lab.assert_nothing_left()  # bluetoothd needs 2 s to end the link of the previous client
    push = lab.push(lab.mcuboot(version="3.0.0"), device)
    push.done()
    ours, first = arrival(device, size, push.begun)
    first -= push.begun
    lab.figure(
        f"bound {BOUND:.0f} B/s; smpmgr {theirs:.0f} ({theirs / BOUND:.1%}); otaflash {ours:.0f} ({ours / BOUND:.1%}), "
        f"to the first byte {first:.2f} s"
    )
    assert first <= 2, "the first byte arrived after more than 2 s"
    assert ours >= 0.95 * BOUND, f"{ours:.0f} B/s is less than 95 % of the bound of {BOUND:.0f} B/s"


@case(limit=120)
def smp_speed_of_a_device_that_drops(lab):
    """The device drops chunks without an answer if its buffers are full: 80 % of the air's bound, at most 2 % sent again."""
    lab.air("set", "interval", 15)
    lab.exchange(USUAL_MTU)
    # Its buffers become free 27 ms after an answer. With three chunks in flight, the next chunk may arrive earlier.
    device = lab.smp("--buffers", 4, "--buffer-size", 2475, "--answer-time", 2, "--release-time", 27)
    image = lab.mcuboot()
    size = image.stat().st_size
    push = lab.push(image, device)
    transfer = check(push.done(), image)
    rate, _ = arrival(device, size, push.begun)
    resent = transfer["resent_bytes"]
    lab.figure(
        f"bound {BOUND:.0f} B/s; otaflash {rate:.0f} ({rate / BOUND:.1%}), {transfer['gaps']} gaps, {resent} bytes sent again ({resent / size:.1%})"
    )
    assert transfer["gaps"] >= 1, "the device did not drop a chunk"
    assert rate >= 0.8 * BOUND, f"{rate:.0f} B/s is less than 80 % of the bound of {BOUND:.0f} B/s"
    assert resent <= 0.02 * size, transfer


@case(limit=120)
def smp_speed_of_a_small_device(lab):
    """The device does not report its buffers and accepts each packet in one value: several packets of 244 bytes are sent at once."""
    lab.air("set", "interval", 15)
    lab.exchange(247)
    device = lab.smp("--without", "parameters", "--without", "reassembly", "--buffer-size", 384, "--buffers", 4)
    image = lab.mcuboot(200_000)
    size = image.stat().st_size
    push = lab.push(image, device)
    transfer = check(push.done(), image)
    rate, _ = arrival(device, size, push.begun)
    lab.figure(f"bound {BOUND:.0f} B/s; otaflash {rate:.0f} ({rate / BOUND:.1%}), {transfer['gaps']} gaps")
    assert transfer["chunk_size"] == 244 and transfer["resent_bytes"] == 0, transfer
    assert rate >= 20_000, f"{rate:.0f} B/s is less than 20,000 B/s"



def push_to_zephyrs_buffers(lab, *without, mtu, size, image_size):
    """Pushes to a device on another stack with 4 packet buffers of `size` bytes, at 15 ms. Returns (transfer, counts of the buffers)."""
    lab.air("set", "interval", 15)
    lab.exchange(mtu)
    abilities = [word for it in without for word in ("--without", it)]
    options = ["--whole-packets"] if "reassembly" in without else []
    bridge = bumble_bridge(
        lab, *options, made_with=(*abilities, "--buffer-size", size), buffers=4, buffer_size=size, mtu=mtu
    )
    image = lab.mcuboot(image_size)
    transfer = check(lab.push(image, bridge).done(), image)
    lab.assert_nothing_left()
    counts = until(lambda: bridge.events("buffers"), 10, "the connection has ended")[-1]
    lab.figure(told(transfer))
    lab.figure(f"dropped packets {counts['dropped']}, answers without memory {counts['refused']}")
    assert transfer["disconnects"] == 0 and counts["free"] == 4, (transfer, counts)
    return transfer


@case(limit=120)
def smp_speed_of_zephyrs_small_buffers(lab):
    """100 KiB to a device with Zephyr's 4 buffers of 384 bytes and no `params`, values of 244 bytes: at least 12 kB/s."""
    transfer = push_to_zephyrs_buffers(lab, "parameters", "reassembly", mtu=247, size=384, image_size=100 << 10)
    assert transfer["chunk_size"] == 244 and transfer["gaps"] == 0, transfer
    assert transfer["bytes_per_second"] >= 12_000, f"{transfer['bytes_per_second']:.0f} B/s is less than 12,000 B/s"


@case(limit=120)
def smp_speed_of_zephyrs_large_buffers(lab):
    """512 KiB to a device with Zephyr's 4 buffers of 1500 bytes, which reassembles packets: 80 % of the air's bound, and no gap."""
    transfer = push_to_zephyrs_buffers(lab, mtu=USUAL_MTU, size=1500, image_size=SIZE)
    assert transfer["chunk_size"] == 1500 and transfer["gaps"] == 0, transfer
    rate = transfer["bytes_per_second"]
    assert rate >= 0.8 * BOUND, f"{rate:.0f} B/s is less than 80 % of the bound of {BOUND:.0f} B/s"
