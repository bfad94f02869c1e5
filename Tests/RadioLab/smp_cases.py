"""SMP, MCUmgr's protocol: whole updates of MCUboot images, and what goes wrong with them."""

import json
import signal
import subprocess
import sys
import time

import bundle
from cases import case
from lab import HERE, PASSKEY, Process, until
from refusals import assert_refused
from speed import PACKET, PER_EVENT
from updates import told

SIZE = 512 << 10
HEADERS = 7  # of L2CAP and ATT, in a packet of the air


def check(answer, image, version="2.0.0", confirmed=True):
    """What a push over SMP that went well says."""
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
    """512 KiB from hci0 to otaflash's own SMP device on hci1 end confirmed; once more, no byte is sent."""
    device = lab.smp()
    transfer = update(lab, device)
    assert transfer["disconnects"] == transfer["resent_bytes"] == transfer["gaps"] == 0, transfer
    restarts = len(device.process.err.when("restarting"))
    again = lab.push(lab.mcuboot(), device).done()
    assert again["outcome"] == "already-running" and again.get("transfer", {}).get("sent_bytes", 0) == 0, again
    assert len(device.process.err.when("restarting")) == restarts


@case()
def smp_trial_and_back(lab):
    """A trial is left to a person: `discard` restarts the device, which takes it back, and `confirm` ends the next one."""
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
    """Without a trial."""
    device = lab.smp()
    image = lab.mcuboot(100_000)
    check(lab.push(image, device, "--permanent").done(), image)
    lab.assert_nothing_left()
    assert device.process.err.when("runs version 2.0.0") and not device.process.err.when("on trial"), device.process.err.lines


@case()
def smp_wrong_key(lab):
    """An image that the device's bootloader does not start: told after the restart, the old version runs."""
    device = lab.smp()
    image = lab.mcuboot(100_000, key=bundle.EXAMPLE_KEY)
    assert_refused(lab.push(image, device, "--unverified-image").done(exit_code=78), "rolled-back")
    lab.assert_nothing_left()
    assert lab.otaflash("status", "--device", f"ble:{device.address}")["device"]["running_version"] == "1.0.0"


@case()
def smp_too_large(lab):
    """An image that the slot does not hold is refused before a byte of it is sent."""
    answer = lab.push(lab.mcuboot(2 << 20), lab.smp()).done(exit_code=77)
    assert_refused(answer, "image-too-large")
    lab.assert_nothing_left()


@case()
def smp_wrong_file(lab):
    """A bundle of a raw image is not for a device that speaks SMP."""
    assert_refused(lab.push(lab.bundle(1000), lab.smp()).done(exit_code=77), "wrong-image-format")


@case()
def smp_sha512(lab):
    """An image without the digest by which the device lists its images: it would take it, and never show it."""
    answer = lab.push(lab.mcuboot(1000, options=("--pure",)), lab.smp()).done(exit_code=77)
    assert_refused(answer, "wrong-image-format")
    lab.assert_nothing_left()


@case()
def smp_without_marks(lab):
    """A device that cannot mark images, as where MCUboot loads to RAM: 76; the image can be left in its slot."""
    device = lab.smp("--without", "marks")
    image = lab.mcuboot(20_000)
    assert_refused(lab.push(image, device).done(exit_code=76), "unsupported-device")
    assert lab.push(image, device, "--upload-only").done()["outcome"] == "uploaded"
    lab.assert_nothing_left()


@case()
def smp_held(lab):
    """Two pushes at once: the second one says who has the device, and does not disturb the first."""
    device = lab.smp()
    image = lab.mcuboot(256 << 10)
    first = lab.push(image, device)
    first.reach(0.2)
    second = lab.push(image, device).done(exit_code=69)
    assert_refused(second, "device-in-use")
    assert str(first.process.pid) in second["error"]["message"], second
    assert check(first.done(), image)["disconnects"] == 0
    lab.assert_nothing_left()


@case()
def smp_refused_early(lab):
    """A lower version where that is not wanted, and any while one is on trial: refused before a byte is sent."""
    device = lab.smp()
    lower = lab.push(lab.mcuboot(1000, "0.9.0"), device, "--no-downgrade").done(exit_code=77)
    assert_refused(lower, "downgrade")
    assert lab.push(lab.mcuboot(1000), device, "--no-confirm").done()["outcome"] == "on-trial"
    assert_refused(lab.push(lab.mcuboot(1000, "3.0.0"), device).done(exit_code=77), "in-trial")
    lab.assert_nothing_left()


@case(limit=150)
def smp_large(lab):
    """1.9 MiB."""
    update(lab, lab.smp(), size=1_900 << 10)


@case(limit=150)
def smp_link_cut(lab):
    """The link breaks twice in mid upload, which is taken up where the device says."""
    device = lab.smp()
    image = lab.mcuboot()
    push = lab.push(image, device)
    for number, part in enumerate((0.3, 0.6)):
        until(lambda: len(push.events("resumed")) == number, 20, "the upload goes on")
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
    """otaflash is killed in mid upload, and run once more: it goes on."""
    device = lab.smp()
    image = lab.mcuboot()
    first = lab.push(image, device)
    reached = first.reach(0.5)
    first.signal(signal.SIGKILL)
    first.wait(5)
    transfer = check(lab.push(image, device).done(), image)
    lab.figure(told(transfer))
    assert transfer["resumed_from"] >= reached, f"{transfer['resumed_from']} of {reached} acknowledged bytes were taken up"
    device.assert_confirmed("2.0.0")


@case(limit=150)
def smp_device_killed(lab):
    """The device loses its power in mid upload and has forgotten it; it is sent once more."""
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
    """A device that does not report its buffers: packets of 384 bytes, as many at once as it takes."""
    transfer = update(lab, lab.smp("--without", "parameters", "--buffer-size", "384"), size=60_000)
    assert transfer["chunk_size"] <= 384, transfer


@case()
def smp_without_reassembly(lab):
    """A device that takes a packet in one value only."""
    transfer = update(lab, lab.smp("--without", "reassembly"), size=100_000)
    assert transfer["chunk_size"] <= 512, transfer


@case()
def smp_plainest(lab):
    """A device that tells neither its buffers nor its slots, and takes a packet in one value only."""
    it = lab.smp("--without", "parameters", "--without", "reassembly", "--without", "slots", "--buffer-size", "384")
    update(lab, it, size=60_000)


@case()
def smp_events_lost(lab):
    """30 % of all connection events are lost, throughout."""
    lab.air("set", "loss", 0.3)
    transfer = update(lab, lab.smp(), size=200_000)
    assert transfer["disconnects"] == 0, transfer


@case()
def smp_scan(lab):
    """A device is seen with its protocol, its board and the version that runs."""
    device = lab.smp()
    seen = lab.otaflash("scan", "--adapter", "hci0", "--timeout", "4")["devices"]
    assert [(it["name"], it["protocols"]) for it in seen] == [("kitchen", ["smp"])], seen
    assert (seen[0]["product"], seen[0]["version"]) == ("demo", "1.0.0"), seen
    assert seen[0]["address"].endswith(device.address), seen


@case()
def smp_passkey(lab):
    """A device on another stack that demands a passkey for subscribing and writing is paired with, and updated."""
    lab.create("--protocol", "smp")
    served = Process([lab.binary, "simulate", "serve", "kitchen", "--udp", 1337], "kitchen", env=lab.environment)
    lab.stack.callback(served.process.kill)
    until(lambda: served.err.when("is at udp:"), 10, "the device is served")
    bridge = lab.bumble(smp=1337, passkey=PASSKEY)
    image = lab.mcuboot(100_000)
    seen = lab.otaflash("scan", "--adapter", "hci0", "--timeout", "4")["devices"]
    assert [it["protocols"] for it in seen] == [["smp"]] and "version" not in seen[0] and "requires pairing" in seen[0]["unread"], seen
    assert_refused(lab.push(image, bridge).done(exit_code=77), "not-permitted")
    lab.assert_nothing_left()
    time.sleep(1)
    lab.figure(told(check(lab.push(image, bridge, "--passkey", str(PASSKEY)).done(), image)))
    assert [event["authenticated"] for event in bridge.events("paired")] == [True], bridge.events("paired")
    lab.assert_nothing_left()


# ---- MCUmgr's own clients

# That of Zephyr's samples: values of 495 bytes, which fill two packets. The clients write values of MTU - 3 bytes whatever that is, and of
# 514 neither an attribute nor BlueZ takes one.
USUAL_MTU = 498


def client(*words, seconds=120):
    """What PyPI's clients say."""
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    print(done.stdout, done.stderr, flush=True)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


@case(limit=120)
def smp_client_of_others(lab):
    """PyPI's smpclient over bleak drives otaflash's own device to a confirmed update."""
    lab.exchange(USUAL_MTU)
    device = lab.smp()
    said = json.loads(client(sys.executable, HERE / "on_hci0.py", "smp_client", device.address, lab.mcuboot(200_000)))
    assert said == {"version": "2.0.0", "confirmed": True}, said
    device.assert_confirmed("2.0.0")


@case()
def smp_usual_mtu(lab):
    """Values of 495 bytes, as Zephyr's samples have them; twice, the second time to a device that bluetoothd knows."""
    lab.exchange(USUAL_MTU)
    device = lab.smp()
    for version in ("2.0.0", "3.0.0"):
        transfer = update(lab, device, size=60_000, version=version)
        assert transfer["mtu"] == USUAL_MTU and transfer["chunk_size"] == 2475, transfer


# ---- how fast


BOUND = PER_EVENT * (PACKET - HEADERS) / 0.015


def arrival(device, size, since):
    """(bytes a second at the device, when the first came) of the upload that ended last there."""
    first = until(lambda: [it for it in device.process.err.when("receiving an image") if it > since], 5, "an upload")[-1]
    last = until(lambda: [it for it in device.process.err.when("reception ended") if it > first], 5, "its end")[-1]
    return size / (last - first), first


@case(limit=120)
def smp_speed(lab):
    """15 ms, 4 buffers of 2475 bytes: 95 % of the air's bound, beside smpmgr, and the first byte within 2 s."""
    lab.air("set", "interval", 15)
    lab.exchange(USUAL_MTU)
    device = lab.smp("--buffers", 4, "--buffer-size", 2475)
    image = lab.mcuboot()
    size = image.stat().st_size
    begun = time.monotonic()
    client(sys.executable, HERE / "on_hci0.py", "smpmgr", "--ble", device.address, "image", "upload", image)
    theirs, _ = arrival(device, size, begun)
    lab.assert_nothing_left()  # bluetoothd takes 2 s to end the link of who was there before
    push = lab.push(lab.mcuboot(version="3.0.0"), device)
    push.done()
    ours, first = arrival(device, size, push.begun)
    first -= push.begun
    lab.figure(
        f"bound {BOUND:.0f} B/s; smpmgr {theirs:.0f} ({theirs / BOUND:.1%}); otaflash {ours:.0f} ({ours / BOUND:.1%}), "
        f"to the first byte {first:.2f} s"
    )
    assert first <= 2, "the first byte came late"
    assert ours >= 0.95 * BOUND, "too slow"


@case(limit=120)
def smp_speed_of_a_device_that_drops(lab):
    """A device that drops chunks without an answer when its buffers are full: 80 % of the air's bound, at most 2 % sent again."""
    lab.air("set", "interval", 15)
    lab.exchange(USUAL_MTU)
    # Its buffers come free 27 ms after an answer. With three chunks in flight the next one may be there before.
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
    assert transfer["gaps"] >= 1, "the device has to be one that drops"
    assert rate >= 0.8 * BOUND, "too slow"
    assert resent <= 0.02 * size, transfer


@case(limit=120)
def smp_speed_of_a_small_device(lab):
    """A device that does not report its buffers and takes each packet in one value: several packets of 244 bytes at once."""
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
    assert rate >= 20_000, "too slow"
