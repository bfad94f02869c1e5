"""A device gets a new address at its restart. A push finds it again by its name, its service and its trial, and no other device."""

from cases import case
from lab import Bumble, Process, until
from refusals import assert_refused

SIZE = 50_000
# The restart window of the profile is 2 * restart + trial seconds.
SHORT = {"restart": 5, "trial": 20}


def namesake(lab, *options, adapter="hci2"):
    """Starts another device with the same name, on another adapter. It stops when the case ends."""
    lab.air("plug", 3)
    other = Bumble(lab, "--adapter", adapter, "--new-address", *options, state=lab.folder / "other")
    lab.stack.callback(other.stop)
    return other.start()


def assert_returned(answer, device, version="2.0.0"):
    """Requires a confirmed push, whose result has the device's new address."""
    assert answer["device"]["running_version"] == version and answer["device"]["confirmed"], answer["device"]
    new = device.events("address")[-1]["address"]
    assert answer["device"]["address"] == f"ble:{new}" != f"ble:{device.address}", (answer["device"], new)
    assert answer["transfer"]["disconnects"] == 0, answer["transfer"]


def assert_left_alone(other):
    """Requires that a device received no request: a status was read, and at most its notifications were subscribed."""
    assert not other.events("paired") and not other.events("violation"), other.process.out.lines
    assert all(it["state"] == 0 and it["data"]["values"] == 0 for it in other.events("disconnected")), other.process.out.lines


@case(limit=120)
def new_address(lab):
    """The device restarts with a new address: it is found and confirmed; the result has the new address."""
    it = lab.bumble("--new-address")
    answer = lab.push(lab.bundle(SIZE), it).done()
    assert_returned(answer, it)
    it.assert_confirmed("2.0.0")
    lab.assert_nothing_left()


@case(limit=120)
def new_address_and_a_namesake(lab):
    """Another device with the same name appears during the restart. It is left alone, and the device is confirmed."""
    it = lab.bumble("--new-address", boot_seconds=20)
    push = lab.push(lab.bundle(SIZE), it)
    until(lambda: any(event["phase"] == "restart" for _, event in push.events("phase")), 40, "the restart")
    other = namesake(lab)
    answer = push.done()
    assert_returned(answer, it)
    it.assert_confirmed("2.0.0")
    assert other.events("connected"), "the other device was not looked at"
    assert_left_alone(other)
    lab.figure(f"{len(other.events('connected'))} connection to the other device")
    lab.assert_nothing_left()


@case(limit=120)
def new_address_of_nobody(lab):
    """The device does not return. Other devices with its name are left alone, and the error names them."""
    it = lab.bumble("--new-address", boot_seconds=1000, **SHORT)
    push = lab.push(lab.bundle(SIZE), it)
    until(lambda: any(event["phase"] == "restart" for _, event in push.events("phase")), 40, "the restart")
    other = namesake(lab, "--version", "1.5.0")
    answer = push.done(exit_code=75)
    assert_refused(answer, "did-not-return")
    assert f"{other.address} runs version 1.5.0, which is not on trial" in answer["error"]["message"], answer
    assert "otaflash scan" in answer["error"]["hint"], answer
    assert_left_alone(other)
    assert len(other.events("connected")) == 1, other.events("connected")


def bridge(lab, *options, name="kitchen", port=1337, **more):
    """Starts an SMP device that restarts with a new address: a bridge to a virtual device on UDP."""
    lab.create("--protocol", "smp", name=name)
    served = Process([lab.binary, "simulate", "serve", name, "--udp", port], name, env=lab.environment)
    lab.stack.callback(served.process.kill)
    until(lambda: served.err.when("is at udp:"), 10, "the device is served")
    return served, lab.bumble("--new-address", *options, smp=port, **more)


@case(limit=120)
def smp_new_address(lab):
    """An SMP device restarts with a new address: it is found by the digest of its image on trial, and confirmed."""
    served, it = bridge(lab)
    answer = lab.push(lab.mcuboot(SIZE), it).done()
    assert_returned(answer, it)
    until(lambda: any("2.0.0 is confirmed" in line for line in served.err.lines), 5, "the confirmation")
    lab.assert_nothing_left()


@case(limit=120)
def smp_new_address_and_a_namesake(lab):
    """Another SMP device with the same name appears during the restart. It gets only requests for its image list."""
    served, it = bridge(lab, boot_seconds=20)
    lab.create("--protocol", "smp", name="other")
    others = Process([lab.binary, "simulate", "serve", "other", "--udp", 1338], "other", env=lab.environment)
    lab.stack.callback(others.process.kill)
    push = lab.push(lab.mcuboot(SIZE), it)
    until(lambda: any(event["phase"] == "restart" for _, event in push.events("phase")), 40, "the restart")
    other = namesake(lab, "--smp", "1338")
    answer = push.done()
    assert_returned(answer, it)
    asked = [(event["operation"], event["group"], event["command"]) for event in other.events("request")]
    assert asked and set(asked) == {(0, 1, 0)}, asked
    until(lambda: any("2.0.0 is confirmed" in line for line in served.err.lines), 5, "the confirmation")
    lab.figure(f"{len(asked)} requests for the image list of the other device")
    lab.assert_nothing_left()
