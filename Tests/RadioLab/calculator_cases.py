"""The example ble-calculator: each end with the other one, and with an end on another stack."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager

import bluez
import picture
from calculator_bumble import (
    INPUT, INVALID_LENGTH, OUT_OF_RANGE, OUTPUT, SERVICE, TOO_MANY_CALCULATIONS, UNKNOWN_OPERATION,
)
from cases import case
from lab import HERE, Bumble, until
from peripheral_bumble import open_adapter
from screen import Screen

NAME = "ble-calculator"
OUT_OF_RANGE_TEXT = "the result is not a number from 0 to 255"


def calculate(lab, *words, **more):
    return lab.run_example(NAME, *words, "--adapter", "hci0", **more)


class BumbleCalculator(Bumble):
    def __init__(self, lab, *options):
        super(Bumble, self).__init__(lab, [sys.executable, HERE / "calculator_bumble.py", *options], "calculator")


@case(limit=60, example=NAME)
def example_calculator(lab):
    """The central prints the result, a refusal is a sentence, and the server logs both and ends cleanly."""
    server = lab.serve_example(NAME, "serve")
    central = bluez.ask(lambda bus: bus.objects())["/org/bluez/hci0"][bluez.ADAPTER]["Address"]
    assert calculate(lab, "9", "x", "6") == ("9 x 6 = 54", "")
    assert calculate(lab, "3", "-", "5", exit_code=1) == ("", f"Error: {OUT_OF_RANGE_TEXT}")
    until(lambda: len(server.lines) == 9, 5, "the second connection has ended")
    server.process.signal(signal.SIGTERM)
    assert server.process.wait(10) == 0
    assert server.process.err.text() == ""
    assert server.lines == [
        "Advertising as Calculator over hci1",
        f"{central} connected", "Multiplying: 09 06", "Sending response: 36", f"{central} disconnected",
        f"{central} connected", "Subtracting: 03 05", f"Refusing: {OUT_OF_RANGE_TEXT}", f"{central} disconnected",
    ]
    assert bluez.ask(lambda bus: bus.advertisements()) == 0


@case(limit=60, example=NAME)
def example_calculator_on_another_stack(lab):
    """The central waits for a late result of a Bumble peripheral, ignores the result of another central, and shows an ATT error as a
    sentence."""
    lab.peer(BumbleCalculator(lab, "--delay", "0.5", "--without", "1", "--stray"))
    assert calculate(lab, "200", "+", "55") == ("200 + 55 = 255", "")
    assert calculate(lab, "3", "-", "1", exit_code=1) == ("", "Error: the calculator does not support this operation")


@case(limit=60, example=NAME)
def example_calculator_without_answer(lab):
    """The central gives up after 5 s if the peripheral sends no result, and releases the link."""
    lab.peer(BumbleCalculator(lab, "--delay", "3600"))
    expected = "Error: the calculator did not send a result within 5.0 seconds; hint: try again"
    assert calculate(lab, "9", "x", "6", exit_code=1) == ("", expected)


@case(limit=60, example=NAME)
def example_calculator_for_another_stack(lab):
    """A Bumble central gets results for both kinds of writes, and an ATT error for each invalid value. A signal ends the link."""
    server = lab.serve_example(NAME, "serve")
    asyncio.run(use(server))
    assert server.process.wait(10) == 0


@asynccontextmanager
async def connected(server):
    """A Bumble central with a link to the calculator: its input and its output."""
    from bumble.core import UUID
    from bumble.device import Device, DeviceConfiguration, Peer
    from bumble.hci import Address, OwnAddressType
    from bumble.host import Host

    transport = await open_adapter("hci0")
    central = Device(
        config=DeviceConfiguration(name="central", address=Address("F0:F1:F2:F3:F4:F6")),
        host=Host(controller_source=transport.source, controller_sink=transport.sink),
    )
    await central.power_on()
    target = Address(server.address, Address.PUBLIC_DEVICE_ADDRESS)
    connection = await central.connect(target, own_address_type=OwnAddressType.PUBLIC, timeout=15)
    peer = Peer(connection)
    await peer.discover_service(UUID(SERVICE))
    await peer.discover_characteristics()
    (value,), (output,) = (peer.get_characteristics_by_uuid(UUID(uuid)) for uuid in (INPUT, OUTPUT))
    try:
        yield value, output, connection
    finally:
        await transport.close()


async def use(server):
    async with connected(server) as (value, output, connection):
        await use_characteristics(server, value, output, connection)


async def use_characteristics(server, value, output, connection):
    from bumble.att import ATT_Error
    from bumble.gatt import Characteristic

    properties = Characteristic.Properties
    assert value.properties == properties.WRITE | properties.WRITE_WITHOUT_RESPONSE, value.properties
    assert output.properties == properties.READ | properties.NOTIFY, output.properties
    assert await output.read_value() == bytes(1)

    results = asyncio.Queue()
    await output.subscribe(lambda result: results.put_nowait(bytes(result)))
    for response in (True, False):
        await value.write_value(bytes([9, 6, 2]), with_response=response)
        assert await asyncio.wait_for(results.get(), 5) == b"\x36"

    for invalid, code in ((b"\x09\x06", INVALID_LENGTH), (b"\x09\x06\x03", UNKNOWN_OPERATION), (b"\x10\x10\x02", OUT_OF_RANGE)):
        # BlueZ 5.66 reports success for the write. Then the read has the error.
        try:
            await value.write_value(invalid, with_response=True)
            print(f"{invalid.hex()}: the write has succeeded")
            await output.read_value()
        except ATT_Error as error:
            assert error.error_code == code, (invalid, error)
            print(f"{invalid.hex()}: {error}")
        else:
            raise AssertionError(f"the calculator accepted {invalid.hex()}")
    assert results.empty()

    await value.write_value(bytes([255, 1, 1]), with_response=True)
    assert await output.read_value() == b"\xfe" and await asyncio.wait_for(results.get(), 5) == b"\xfe"
    ended = asyncio.Event()
    connection.on("disconnection", lambda reason: ended.set())
    server.process.signal(signal.SIGTERM)
    await asyncio.wait_for(ended.wait(), 5)


@case(limit=60, example=NAME)
def example_calculator_flood(lab):
    """A Bumble central writes 256 calculations without response: it gets 16 results in each second."""
    server = lab.serve_example(NAME, "serve")
    asyncio.run(flood(server))
    refused = server.lines.count("Refusing: the central had 16 results within a second")
    sent = server.lines.count("Sending response: 36")
    assert refused + sent == 256 and 48 <= sent <= 16 * 5, server.lines


async def flood(server):
    from bumble.att import ATT_Error

    async with connected(server) as (value, output, _):
        results = []
        await output.subscribe(lambda result: results.append(bytes(result)))

        async def calculate(count):
            for _ in range(count):
                await value.write_value(bytes([9, 6, 2]), with_response=False)
            await asyncio.sleep(2)

        await calculate(200)
        assert 16 <= len(results) <= 16 * 3, results
        await calculate(40)
        try:
            await output.read_value()
        except ATT_Error as error:
            assert error.error_code == TOO_MANY_CALCULATIONS, error
        else:
            raise AssertionError("the calculator has not refused the last calculation")
        results.clear()
        await calculate(16)
        assert results == [b"\x36"] * 16 and await output.read_value() == b"\x36", results


PAD = "7 8 9   +", "4 5 6   -", "1 2 3   x", "  0", "", "d disconnect   q quit"
IDLE = "Not connected.", "", "c connect   q quit"
LOST = "Not connected: the device disconnected.", *IDLE[1:]


@case(limit=90, example=NAME)
def example_calculator_keypad(lab):
    """A person connects, calculates, loses the link, connects again, disconnects and quits."""
    peripheral = lab.peer(BumbleCalculator(lab, "--delay", "3"))
    connected = f"Connected to {peripheral.address}."
    screen = Screen(lab, lab.example(NAME), "--adapter", "hci0")
    shown = [screen.until_shows(*IDLE)]
    screen.type("9x6")
    screen.type("c")
    screen.until_shows(connected, "", ">", "", *PAD)
    screen.type("9x")
    screen.until_shows(connected, "", "> 9 x", "", *PAD)
    screen.type("6")
    shown.append(screen.until_shows(connected, "", "> 9 x 6  Calculating…", "", *PAD, seconds=2.7))
    shown.append(screen.until_shows(connected, "", "> 9 x 6 = 54", "", *PAD))
    picture.write("ble-calculator.svg", shown, width=34, height=10)
    screen.type("3-7")
    screen.until_shows(connected, "", f"> 3 - 7: {OUT_OF_RANGE_TEXT}", "", *PAD)
    lab.air("cut")
    screen.until_shows(*LOST)
    screen.type("c")
    screen.until_shows(connected, "", ">", "", *PAD)
    screen.type("1+2")
    screen.until_shows(connected, "", "> 1 + 2  Calculating…", "", *PAD, seconds=2.7)
    lab.air("cut")
    screen.until_shows(*LOST)
    screen.type("c")
    screen.until_shows(connected, "", ">", "", *PAD)
    screen.type("d")
    screen.until_shows("Disconnecting…", "", "q quit", seconds=1.5)
    screen.until_shows(*IDLE)
    lab.assert_nothing_left()
    screen.type("c")
    screen.until_shows(connected, "", ">", "", *PAD)
    screen.type("q")
    screen.until_shows("exit code 0")
    lab.assert_nothing_left()
