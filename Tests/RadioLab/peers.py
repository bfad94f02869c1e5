"""Tests the lab's peers and its air without otaflash. The other cases rely on them."""

import asyncio
import time

from dbus_fast import DBusError

import bleak_loop
import bluez
import bundle
import device
from bleak_loop import Host, noise
from cases import case
from lab import PASSKEY, until
from peripheral_bumble import SERVICE, UUIDS


def connected(adapter="hci0"):
    return any("connection" in it for it in bluez.ask(lambda bus: bus.leftovers(adapter)))


@case(limit=30, otaflash=False)
def peer_is_seen(lab):
    """A scan shows the device's name, service and signal strength as set in the air."""
    lab.bumble()

    async def strength():
        found, seen = await bleak_loop.find("hci0", "Bumble")
        assert SERVICE in seen.service_uuids
        return seen.rssi

    assert asyncio.run(strength()) == -50
    lab.air("set", "rssi", -77)
    assert asyncio.run(strength()) == -77


@case(limit=60, otaflash=False)
def peer_is_updated_by_bleak(lab):
    """An independent client updates the device, with restart and confirmation."""
    it = lab.bumble(boot_seconds=1)
    data = bundle.bundle(noise(50_000), "demo", "1.1.0", keys=(lab.key,))

    async def update():
        async with Host.connected("hci0", "Bumble") as host:
            await host.transfer(data)
            await host.ask(device.APPLY, b"\0")
        await asyncio.sleep(1)
        async with Host.connected("hci0", "Bumble") as host:
            assert await host.read("version") == b"1.1.0"
            assert (await host.read("progress"))[0] == device.TRIAL
            await host.ask(device.CONFIRM)

    asyncio.run(update())
    it.assert_confirmed("1.1.0")


@case(limit=90, otaflash=False)
def peer_demands_a_passkey(lab):
    """The device refuses Control before pairing with the passkey, and refuses a wrong passkey."""
    it = lab.bumble(passkey=PASSKEY)
    identify = bytes([device.IDENTIFY, 1, 0])

    async def open_device(bus):
        path = await bus.find("hci0", "Bumble", SERVICE)
        await bus.connect(path)
        return path, await bus.characteristic(path, UUIDS["control"])

    async def with_passkey(passkey, pair=True):
        async with bluez.Bus() as bus:
            agent = bluez.Agent(passkey)
            await agent.register(bus)
            path, control = await open_device(bus)
            if pair:
                await bus.call(path, bluez.DEVICE, "Pair")
            await bus.call(control, bluez.CHARACTERISTIC, "StartNotify")
            await bus.write(control, identify)
            return path

    async def without():
        async with bluez.Bus() as bus:
            _, control = await open_device(bus)
            await bus.call(control, bluez.CHARACTERISTIC, "StartNotify")
            await bus.write(control, identify)

    def refused(attempt):
        """Requires a failure. After a failed pairing, BlueZ blocks the write until the ATT timeout of 30 s."""
        try:
            asyncio.run(asyncio.wait_for(attempt, 10))
        except (DBusError, TimeoutError) as error:
            return repr(error)
        raise AssertionError("the device accepted the request")

    print("without:", refused(without()))
    forget()
    print("wrong passkey:", refused(with_passkey(PASSKEY + 1)))
    forget()
    assert not it.events("identify")
    asyncio.run(with_passkey(PASSKEY, pair=False))  # after a refused write, BlueZ starts pairing and asks the agent for the passkey
    assert it.events("identify") and it.events("paired")[-1]["authenticated"]


def forget():
    async def remove(bus):
        for path, interfaces in (await bus.objects()).items():
            if bluez.DEVICE in interfaces and path.startswith("/org/bluez/hci0"):
                await bus.call("/org/bluez/hci0", bluez.ADAPTER, "RemoveDevice", "o", path)

    bluez.ask(remove)
    time.sleep(1)


@case(limit=60, otaflash=False)
def air_breaks_links(lab):
    """A cut and 2 s out of range end the link; 0.3 s out of range does not."""
    it = lab.bumble()

    async def connect(bus):
        await bus.connect(await bus.find("hci0", "Bumble", SERVICE))

    def count():
        return len(it.events("disconnected"))

    bluez.ask(connect)
    lab.air("cut")
    until(lambda: count() == 1 and not connected(), 3, "a cut ends the link")
    time.sleep(0.5)
    bluez.ask(connect)
    lab.air("away", 0.3)
    time.sleep(1)
    assert count() == 1 and connected(), "0.3 s out of range ended the link"
    lab.air("away", 2)
    until(lambda: count() == 2 and not connected(), 1.5, "2 s out of range end the link")
    assert {event["reason"] for event in it.events("disconnected")} == {8}, it.events("disconnected")


@case(limit=60, otaflash=False)
def air_notices_a_killed_peripheral(lab):
    """The central detects a device without power after the supervision timeout. The restarted device still has the received bytes."""
    it = lab.bumble()
    data = bundle.bundle(noise(60_000), "demo", "1.1.0", keys=(lab.key,))

    async def half():
        async with Host.connected("hci0", "Bumble") as host:
            await host.transfer(data)
            it.kill()
            begun = time.monotonic()
            while host.client.is_connected:
                await asyncio.sleep(0.02)
                assert time.monotonic() - begun < 5, "the central did not detect the lost link"
            return time.monotonic() - begun

    seconds = asyncio.run(half())
    lab.figure(f"detected after {seconds:.2f} s")
    assert lab.count("links") == 0
    time.sleep(0.5)
    it.start()
    info = asyncio.run(read_info())
    assert info[-14:-12] == bytes([10, 12]) and int.from_bytes(info[-4:], "little") == 60_000, info.hex()


async def read_info():
    async with Host.connected("hci0", "Bumble") as host:
        return await host.read("info")
