"""The example ble-beacon: each end with the other one, and with an end on another stack."""

import asyncio
import signal
import struct
import sys
import uuid

import bleak
from bleak.exc import BleakGATTProtocolError

import bluez
import picture
import silent
from beacon_bumble import (
    APPLE, IDENTIFIER, INTERVAL_OUT_OF_RANGE, INVALID_LENGTH, NUMBERS, SERVICE, TRANSMISSION, UNKNOWN_POWER, ibeacon,
)
from cases import case
from lab import HERE, Bumble, Process, until

NAME = "ble-beacon"
BEACON = "e2c56db5-dffb-48d2-b060-d0f5a71096e0"
OTHER = "74278bda-b644-4520-8f0c-720eaf059935"
REFUSED = "Error: The beacon refused the transmit settings: the advertising interval must be from 100 ms to 10.24 s."


class Manager:
    """The example as a manager on hci0, with its output as a person sees it."""

    def __init__(self, lab):
        self.lab, self.screen = lab, []

    def __call__(self, *words, **more):
        """Returns stdout, or stderr if stdout is empty."""
        out, err = self.lab.run_example(NAME, *words, "--adapter", "hci0", **more)
        self.screen += [" ".join(["$", NAME, *map(str, words)]), *(out + err).splitlines(), ""]
        return out or err

    def scan(self, *filters):
        return self("scan", "--for", 3, *filters)


def settings(identifier, major, minor, power, interval):
    return f"uuid      {identifier}\nmajor     {major}\nminor     {minor}\npower     {power} dB\ninterval  {interval} ms"


@case(limit=60, example=NAME)
def example_beacon(lab):
    """A scan finds the beacon; a write changes what it advertises, how often and with which power; a refused write changes nothing."""
    server, manage = lab.serve_example(NAME, "serve", "--uuid", BEACON, "--major", "1", "--minor", "2"), Manager(lab)
    central = bluez.ask(lambda bus: bus.objects())["/org/bluez/hci0"][bluez.ADAPTER]["Address"]
    assert manage.scan("--uuid", BEACON) == (
        f"{server.address} uuid {BEACON} major 1 minor 2 rssi -50 dBm distance 0.35 m configurable"
    )
    until(lambda: lab.count("advertising") == 160, 5, "an advertising interval of 100 ms")

    assert manage("set", "--interval", 99, exit_code=1) == REFUSED
    new = settings(OTHER, 65535, 256, -6, 250.0)
    assert manage("set", "--uuid", OTHER, "--major", 65535, "--minor", 256, "--power", -6, "--interval", 250) == new
    lab.air("set", "rssi", -85)
    seen = f"{server.address} uuid {OTHER} major 65535 minor 256 rssi -85 dBm distance 10.0 m configurable"
    assert manage.scan("--configurable") == seen
    picture.write("ble-beacon.svg", [manage.screen[:-1]], max(map(len, manage.screen)), len(manage.screen) - 1)
    assert manage.scan("--uuid", BEACON) == ""
    until(lambda: lab.count("advertising") == 400, 5, "an advertising interval of 250 ms")

    lab.bluetoothd("stop")
    lab.bluetoothd("start")
    until(lambda: bluez.ask(lambda bus: bus.advertisements()) == 2, 10, "the beacon advertises again")
    assert manage("show") == new
    assert manage.scan() == seen

    server.process.signal(signal.SIGTERM)
    assert server.process.wait(10) == 0
    assert bluez.ask(lambda bus: bus.advertisements()) == 0
    assert server.lines[0] == "advertising over hci1" and server.process.err.text() == "", server.lines
    assert [line for line in server.lines if central in line] == [
        f"{central} connected",
        f"refused a write of {central}: the advertising interval must be from 100 ms to 10.24 s",
        f"{central} disconnected",
        f"{central} connected", *[f"{central} wrote"] * 3, f"{central} disconnected",
        f"{central} connected", f"{central} disconnected",
    ]


@case(limit=30, example=NAME)
def example_beacon_interrupted(lab):
    """SIGINT ends a scan with exit code 130, and no discovery remains."""
    scan = Process([lab.example(NAME), "scan", "--for", "60", "--adapter", "hci0"], "scan", env=lab.environment)
    until(lambda: bluez.ask(lambda bus: bus.leftovers()) == ["a discovery session"], 10, "the program scans")
    scan.signal(signal.SIGINT)
    assert scan.wait(10) == 130
    assert scan.out.text() == scan.err.text() == ""
    lab.assert_nothing_left()


@case(limit=30, example=NAME)
def example_beacon_arguments(lab):
    """Wrong arguments are refused with exit code 64, before any Bluetooth operation."""
    for words, message in (
        (("set",), "Error: No setting to change; example: ble-beacon set --major 7"),
        (("serve", "--interval", 50), "Error: --interval: the advertising interval must be from 100 ms to 10.24 s."),
        (("serve", "--name", "x" * 30), "Error: --name: the name must have 1 to 29 bytes."),
    ):
        assert lab.run_example(NAME, *words, exit_code=64)[1].splitlines()[0] == message


@case(limit=100, example=NAME)
def example_beacon_idle(lab):
    """The beacon ends the connection of a central that has sent no request for 60 s."""
    server = lab.serve_example(NAME, "serve")
    asyncio.run(idle(server.address))
    until(lambda: any("disconnected" in line for line in server.lines), 5, "the link has ended")


async def idle(address):
    found = await bleak.BleakScanner.find_device_by_address(address, bluez={"adapter": "hci0"})
    ended = asyncio.Event()
    async with bleak.BleakClient(found, disconnected_callback=lambda _: ended.set(), bluez={"adapter": "hci0"}) as client:
        await asyncio.sleep(30)
        await client.read_gatt_char(NUMBERS)
        await asyncio.sleep(50)
        assert client.is_connected
        await asyncio.wait_for(ended.wait(), 20)


@case(limit=200, example=NAME)
def example_beacon_silent_central(lab):
    """The beacon ends the connection of a central that sends no request for 60 s, and not a link that another program has opened."""
    silent.assert_ended(lab, lab.serve_example(NAME, "serve"), 60)


class BumbleBeacon(Bumble):
    def __init__(self, lab, *options):
        super(Bumble, self).__init__(lab, [sys.executable, HERE / "beacon_bumble.py", *options], "beacon")


@case(limit=60, example=NAME)
def example_beacon_on_another_stack(lab):
    """The manager finds, shows and changes a Bumble beacon, and shows the beacon's ATT error as a sentence."""
    beacon, manage = lab.peer(BumbleBeacon(lab)), Manager(lab)
    identifier = uuid.UUID(bytes=bytes(range(16)))
    assert manage.scan("--major", 300) == (
        f"{beacon.address} uuid {identifier} major 300 minor 4 rssi -50 dBm distance 0.35 m configurable"
    )
    assert manage("show") == settings(identifier, 300, 4, 0, 100.0)
    assert manage("set", "--device", beacon.address, "--interval", 10241, exit_code=1) == REFUSED
    assert manage("set", "--uuid", OTHER, "--minor", 513, "--power", -23) == settings(OTHER, 300, 513, -23, 100.0)
    assert manage.scan() == f"{beacon.address} uuid {OTHER} major 300 minor 513 rssi -50 dBm distance 0.03 m configurable"
    # The manager writes only the changed values.
    assert [(it["attribute"], it["value"]) for it in beacon.events("write")] == [
        (TRANSMISSION, struct.pack("<HH", 2, 16386).hex()), (IDENTIFIER, uuid.UUID(OTHER).hex),
        (NUMBERS, struct.pack("<HH", 300, 513).hex()), (TRANSMISSION, struct.pack("<HH", 0, 160).hex()),
    ]


@case(limit=60, example=NAME)
def example_beacon_that_does_not_store(lab):
    """The manager reads its writes back: it fails if the beacon has confirmed a write and not stored the value."""
    lab.peer(BumbleBeacon(lab, "--forgetful"))
    _, err = lab.run_example(NAME, "set", "--major", 5, "--adapter", "hci0", exit_code=1)
    assert err == (
        "Error: The beacon did not store all written settings: major 300 instead of 5. Restart the beacon, and run the command again."
    ), err


@case(limit=60, example=NAME)
def example_beacon_lost_in_the_middle(lab):
    """If the link is lost between two writes or before the read, the manager names the settings that it has already changed."""
    beacon = lab.peer(BumbleBeacon(lab, "--cut-at", TRANSMISSION))
    words = "set", "--uuid", OTHER, "--major", 5, "--power", -6, "--adapter", "hci0"
    _, err = lab.run_example(NAME, *words, exit_code=1)
    assert err.startswith("Error: The transmit settings: ") and "disconnected" in err, err
    assert err.endswith(" Already changed: UUID, major and minor number. Run the command again."), err
    beacon.stop()
    lab.peer(BumbleBeacon(lab, "--cut-read-back"))
    _, err = lab.run_example(NAME, *words, exit_code=1)
    assert err.startswith("Error: The settings were not read back: ") and "disconnected" in err, err
    assert err.endswith(" Already changed: UUID, major and minor number, transmit settings. Run ble-beacon show."), err


@case(limit=60, example=NAME)
def example_beacon_for_another_manager(lab):
    """bleak reads and writes the beacon's settings, gets an ATT error for each invalid value, and sees the new iBeacon data."""
    server = lab.serve_example(NAME, "serve", "--uuid", BEACON, "--major", "258", "--minor", "3")
    asyncio.run(use(server.address))


async def advertised(data):
    """Waits until this iBeacon data and the service were received, and returns the device."""
    async with bleak.BleakScanner(bluez={"adapter": "hci0"}) as scanner:
        async with asyncio.timeout(10):
            async for found, seen in scanner.advertisement_data():
                if seen.manufacturer_data.get(APPLE) == data and SERVICE in seen.service_uuids:
                    return found


async def use(address):
    identifier = uuid.UUID(BEACON).bytes
    found = await advertised(ibeacon(identifier, 258, 3, -59))
    assert found.address == address
    async with bleak.BleakClient(found, bluez={"adapter": "hci0"}) as client:

        async def read():
            return [bytes(await client.read_gatt_char(attribute)) for attribute in (IDENTIFIER, NUMBERS, TRANSMISSION)]

        stored = [identifier, b"\x02\x01\x03\x00", b"\x02\x00\xa0\x00"]
        assert await read() == stored
        for attribute, value, code in (
            (IDENTIFIER, identifier[:15], INVALID_LENGTH), (NUMBERS, bytes(5), INVALID_LENGTH), (TRANSMISSION, b"", INVALID_LENGTH),
            (TRANSMISSION, struct.pack("<HH", 3, 160), UNKNOWN_POWER),
            (TRANSMISSION, struct.pack("<HH", 0, 159), INTERVAL_OUT_OF_RANGE),
            (TRANSMISSION, struct.pack("<HH", 0, 16385), INTERVAL_OUT_OF_RANGE),
        ):
            try:
                await client.write_gatt_char(attribute, value, response=True)
            except BleakGATTProtocolError as error:
                assert error.code == code, error
            else:
                raise AssertionError(f"the beacon accepted {value.hex()}")
        assert await read() == stored
        await client.write_gatt_char(NUMBERS, struct.pack("<HH", 1, 0x8002), response=True)
        await client.write_gatt_char(TRANSMISSION, struct.pack("<HH", 0, 16384), response=True)
        assert await read() == [identifier, b"\x01\x00\x02\x80", b"\x00\x00\x00\x40"]
    await advertised(ibeacon(identifier, 1, 0x8002, -82))
