"""Encoded images over BlueZ: a delta of 512 KiB, decoded by the device core, against the same image sent plain."""

from cases import case
from lab import noise

SIZE = 512 << 10
# Each changed word costs the delta some bytes. 4 KiB in all are 0.8 % of the image.
CHANGES = 1024


def fixed(image):
    """The image with other bytes in some places, as after a small fix."""
    image = bytearray(image)
    for place in range(0, SIZE, SIZE // CHANGES):
        image[place : place + 4] = bytes(byte ^ 0x55 for byte in image[place : place + 4])
    return bytes(image)


def send(lab, name, base, update, *options):
    """Installs `base` on a new device without radio, and sends `update` over the air. Returns the transfer."""
    lab.create(name=name)
    lab.make("push", base, "--device", f"sim:{name}?pace=virtual", "--trust", lab.public, "--progress", "none")
    device = lab.serve(name)
    answer = lab.push(update, device, *options).done()
    device.assert_confirmed("2.0.0")
    device.stop()
    lab.assert_nothing_left()
    assert answer["transfer"]["resent_bytes"] == 0, answer["transfer"]
    return answer["transfer"]


def compare(lab, interval):
    lab.air("set", "interval", interval, "steady", 1)
    image = noise(SIZE)
    base = lab.bundle(SIZE, "1.5.0", image)
    update = lab.bundle(SIZE, "2.0.0", fixed(image))
    plain = send(lab, f"plain{interval}", base, update, "--plain")
    delta = send(lab, f"delta{interval}", base, update, "--base", base)
    assert plain["encoding"] == "plain" and plain["plain_because"] == "asked", plain
    assert delta["encoding"] == "lzma2" and delta["base"]["version"] == "1.5.0", delta
    assert delta["sent_bytes"] == delta["encoded_bytes"] < SIZE // 20, delta
    saved = plain["seconds"] - delta["seconds"]
    lab.figure(
        f"{interval} ms: plain {plain['seconds']:.2f} s, delta {delta['seconds']:.2f} s with {delta['sent_bytes']} bytes; "
        f"{saved:.2f} s saved, {plain['seconds'] / delta['seconds']:.1f} times as fast"
    )
    assert plain["seconds"] >= 5 * delta["seconds"], (plain, delta)


@case(limit=120)
def encoded_delta_at_15_ms(lab):
    """At 15 ms, a delta of 512 KiB is sent at least five times as fast as the plain image."""
    compare(lab, 15)


@case(limit=120)
def encoded_delta_at_50_ms(lab):
    """At 50 ms, a delta of 512 KiB is sent at least five times as fast as the plain image."""
    compare(lab, 50)
