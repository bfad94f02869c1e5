"""A device imitates the intended one. `--passkey` and `--require-bond` require an authenticated link before the first request."""

import asyncio

import bluez
from cases import case
from lab import PASSKEY
from refusals import assert_refused

SIZE = 20_000


def bonds():
    """Returns the addresses with which the central has a bond."""
    return [
        interfaces[bluez.DEVICE]["Address"]
        for path, interfaces in bluez.ask(lambda bus: bus.objects()).items()
        if path.startswith("/org/bluez/hci0/") and interfaces.get(bluez.DEVICE, {}).get("Paired")
    ]


def assert_not_believed(lab, it, *options, codes=("not-permitted",), exit_code=77):
    """Requires that a push is refused before its first request, and leaves no new bond."""
    before = bonds()
    answer = lab.push(lab.bundle(SIZE), it, *options).done(exit_code=exit_code)
    assert_refused(answer, *codes)
    assert not it.events("rebooted") and all(event["data"]["values"] == 0 for event in it.events("disconnected")), it.process.out.lines
    assert bonds() == before, bonds()
    lab.assert_nothing_left()
    return answer


@case()
def passkey_is_required(lab):
    """The device would accept an update without a bond, and pairs without a passkey: with --passkey, it is refused, and no bond stays."""
    it = lab.bumble()
    answer = assert_not_believed(lab, it, "--passkey", PASSKEY)
    assert "imitate" in answer["error"]["hint"], answer
    answer = assert_not_believed(lab, it, "--require-bond")
    answer = lab.push(lab.bundle(SIZE), it).done()
    assert answer["device"]["link"] == {"encrypted": False, "authenticated": False}, answer["device"]


@case()
def passkey_without_pairing(lab):
    """The device refuses each pairing: with --passkey, it is refused."""
    it = lab.bumble("--no-pairing")
    assert_not_believed(lab, it, "--passkey", PASSKEY)


@case(limit=200)
def imitator_after_a_bond(lab):
    """A device without the bond answers at the address of a bonded device. It gets no request, and the hint names the bond."""
    it = lab.bumble(passkey=PASSKEY)
    answer = lab.push(lab.bundle(SIZE), it, "--passkey", PASSKEY).done()
    assert answer["device"]["link"] == {"encrypted": True, "authenticated": True}, answer["device"]
    it.stop()
    imitator = lab.bumble(state=lab.folder / "imitator")
    assert imitator.address == it.address
    for options in (("--passkey", PASSKEY), ()):
        answer = lab.push(lab.bundle(SIZE, "3.0.0"), imitator, *options).done(exit_code=69)
        assert_refused(answer, "no-such-device")
        assert f"bluetoothctl remove {it.address}" in answer["error"]["hint"], answer
    assert not imitator.events("rebooted"), imitator.process.out.lines


@case()
def bond_of_another_program(lab):
    """Another program has paired with the passkey. BlueZ does not report this: --passkey refuses the bond, --require-bond accepts it."""
    it = lab.bumble(passkey=PASSKEY)

    async def pair():
        async with bluez.Bus() as bus:
            await bluez.Agent(PASSKEY).register(bus)
            path = await bus.find("hci0", "Bumble", "c7e10001-63a0-486d-9bcb-a18d79d9acd9")
            await bus.connect(path)
            await bus.call(path, bluez.DEVICE, "Pair")
            await bus.call(path, bluez.DEVICE, "Disconnect")

    asyncio.run(pair())
    assert bonds() == [it.address]
    answer = assert_not_believed(lab, it, "--passkey", PASSKEY)
    assert f"bluetoothctl remove {it.address}" in answer["error"]["hint"], answer
    answer = lab.push(lab.bundle(SIZE), it, "--require-bond").done()
    assert answer["device"]["link"] == {"encrypted": True}, answer["device"]
    it.assert_confirmed("2.0.0")
