"""The example ble-uart: each end with the other one, and with an end on another stack."""

import asyncio
import hashlib
import os
import signal
import sys
import time
import zlib
from pathlib import Path

import bleak

import bluez
import picture
import silent
import uart_wire as wire
from cases import case
from lab import HERE, Bumble, Process, until
from peripheral_bumble import open_adapter
from screen import Screen
from speed import PER_EVENT

NAME = "ble-uart"
SIZE = 204800


def bound(interval):
    """The highest rate of notifications in bytes per second: PER_EVENT packets in each connection event, each with a value of 244 bytes."""
    return PER_EVENT * 244 / (interval / 1000)


def serve(lab, *options):
    server = lab.serve_example(NAME, "serve", *options)
    until(lambda: len(server.lines) == 2, 5, "the first lines of the log")
    return server


def shown(data):
    """The description of an image in the programs."""
    return f"Image: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()[:16]}…"


def is_png(data):
    """Whether each chunk of a PNG has the right checksum, and the pixels can be decompressed."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds, pixels = 8, [], b""
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        assert zlib.crc32(kind + body) == int.from_bytes(data[at + 8 + length:at + 12 + length], "big"), kind
        pixels += body if kind == b"IDAT" else b""
        kinds.append(kind)
        at += 12 + length
    return kinds[0] == b"IHDR" and kinds[-1] == b"IEND" and len(zlib.decompress(pixels)) % 257 == 0


def central_address():
    return bluez.ask(lambda bus: bus.objects())["/org/bluez/hci0"][bluez.ADAPTER]["Address"]


class Central(Process):
    """`ble-uart image` on hci0."""

    def __init__(self, lab, *words):
        self.lab, self.file = lab, lab.folder / "image.png"
        super().__init__([lab.example(NAME), "image", self.file, *words, "--adapter", "hci0"], "central", env=lab.environment)

    def done(self, exit_code=0, seconds=40):
        """Returns the last line of stdout, or stderr after a failure."""
        code, text, errors = self.wait(seconds), self.out.text(), self.err.text()
        assert code == exit_code, f"exit code {code}, expected {exit_code}"
        self.lab.assert_nothing_left()
        return errors if exit_code else text.splitlines()[-1]

    def reach(self, tenths):
        until(lambda: any(line.startswith(f"{tenths * 10} %") for line in self.out.lines), 20, f"{tenths * 10} % of the image")


@case(limit=60, example=NAME)
def example_uart_image(lab):
    """An image of 204800 bytes arrives with at least 90 % of the air's bound, is a PNG, and has the peripheral's SHA-256."""
    lab.air("set", "interval", 15)
    server = serve(lab)
    central = Central(lab)
    last = central.done()
    data = central.file.read_bytes()
    assert is_png(data) and len(data) == SIZE
    rate = int(last.split()[-2])
    assert last == f"{central.file}: {SIZE} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}, {rate} bytes/s"
    lab.figure(f"ble-uart, 15 ms: bound {bound(15):.0f} B/s, image {rate} ({rate / bound(15):.1%})")
    assert rate >= 0.9 * bound(15)
    address = central_address()
    until(lambda: len(server.lines) == 7, 5, "the link has ended")
    server.process.signal(signal.SIGTERM)
    assert server.process.wait(10) == 0 and server.process.err.text() == ""
    assert server.lines == [
        "Advertising as UART over hci1", shown(data), f"{address} connected", "Hello", f"Sending the image from byte 0 of {SIZE}", "The image has arrived", f"{address} disconnected",
    ]
    assert bluez.ask(lambda bus: bus.advertisements()) == 0


@case(limit=60, example=NAME)
def example_uart_cut(lab):
    """A cut link, and then a restart of bluetoothd, in the middle of the image: both ends continue at the received offset."""
    server = serve(lab)
    central = Central(lab)
    for tenths in (3, 6):
        central.reach(tenths)
        if tenths == 3:
            lab.air("cut")
        else:
            lab.bluetoothd("stop")
            lab.bluetoothd("start")
        until(lambda: sum("Sending the image" in line for line in server.lines) == tenths // 3 + 1, 20, "the transfer continues")
    central.done()
    assert shown(central.file.read_bytes()) == server.lines[1]
    starts = [int(line.split()[5]) for line in server.lines if "Sending the image" in line]
    assert starts[0] == 0 and SIZE * 0.3 <= starts[1] < starts[2] and starts[2] >= SIZE * 0.6, starts
    lost = [line for line in central.out.lines if "connecting again in" in line]
    assert lost == ["Lost the link: the device disconnected; connecting again in 0.5 s"] * 2, lost
    # The parts do not overlap, so the central printed each tenth once.
    assert [line for line in central.out.lines if "% of" in line] == [f"{tenth * 10} % of {SIZE} bytes" for tenth in range(11)]


@case(limit=60, example=NAME)
def example_uart_cut_at_the_end(lab):
    """The link is cut after the last byte of the image, while the central saves the file: the central ends, and does not connect again."""
    server = serve(lab, "--image-size", "2000")
    # The central waits for a reader of this file.
    part = lab.folder / "image.png.part"
    os.mkfifo(part)
    central = Central(lab)
    until(lambda: "Sending the image from byte 0 of 2000" in server.lines, 10, "the transfer")
    until(lambda: any(line.startswith("100 %") for line in central.out.lines), 10, "the end of the transfer")
    lab.air("cut")
    until(lambda: any("disconnected" in line for line in server.lines), 10, "the link has ended")
    data = part.read_bytes()
    assert central.done(seconds=10).startswith(f"{central.file}: 2000 bytes") and shown(data) == server.lines[1]
    assert server.lines.count("Hello") == 1, server.lines


@case(limit=60, example=NAME)
def example_uart_silent_central(lab):
    """The peripheral ends the link of a central that writes nothing for 15 s, and not a link that another program has opened."""
    server = serve(lab)
    silent.assert_ended(lab, server, 15)
    assert f"{central_address()} refused: it has sent nothing for 15 s" in server.lines, server.lines


@case(limit=60, example=NAME)
def example_uart_killed_for_good(lab):
    """A killed central leaves its link. Without a next central, the peripheral ends the link after 15 s, and advertises again."""
    server = serve(lab, "--image-size", "50000")
    central = Central(lab)
    central.reach(3)
    central.signal(signal.SIGKILL)
    central.wait(5)
    address = central_address()
    until(lambda: f"{address} refused: it has sent nothing for 15 s" in server.lines, 20, "the end of the time")
    until(lambda: f"{address} disconnected" in server.lines, 5, "the end of the link")
    central = Central(lab)
    central.done()
    assert shown(central.file.read_bytes()) == server.lines[1]


@case(limit=60, example=NAME)
def example_uart_closed_output(lab):
    """If the output is a pipe whose reader has ended, the central and the peripheral release their links and the advertisement."""
    server = serve(lab)
    file = lab.folder / "image.png"
    program = f"set -o pipefail; {lab.example(NAME)} image {file} --adapter hci0 | head -n 1"
    central = Process(["bash", "-c", program], "central", env=lab.environment)
    assert central.wait(20) == 130 and central.out.lines == [f"0 % of {SIZE} bytes"] and central.err.text() == ""
    lab.assert_nothing_left()
    assert not file.exists()
    until(lambda: f"{central_address()} disconnected" in server.lines, 5, "the end of the link")
    server.stop()
    program = f"set -o pipefail; {lab.example(NAME)} serve --adapter hci1 | head -n 3"
    far = Process(["bash", "-c", program], "peripheral", env=lab.environment)
    until(lambda: bluez.ask(lambda bus: bus.advertisements()), 10, "an advertisement")
    central = Central(lab)
    assert far.wait(30) == 0 and far.err.text() == "", far.out.lines
    assert bluez.ask(lambda bus: bus.advertisements()) == 0
    central.signal(signal.SIGINT)
    central.wait(10)


@case(limit=100, example=NAME)
def example_uart_idle_central(lab):
    """A central that is idle for 60 s loses its place to another central, and connects again after it."""
    lab.air("plug", 3)
    until(Path("/sys/class/bluetooth/hci2").exists, 10, "hci2")
    lab.power("hci2", True)
    server = serve(lab, "--image-size", "2000")
    idle = Screen(lab, "env", f"XDG_STATE_HOME={lab.folder}", lab.example(NAME), "--adapter", "hci0", name="idle")
    idle.until_has("> UART")
    idle.type("\r")
    idle.until_has("Hello → Hello ack")
    time.sleep(60)
    # The lab ends both links of the peripheral 2 s later, because its radios are peripherals with one link. The image is small.
    file = lab.folder / "image.png"
    central = Process([lab.example(NAME), "image", file, "--adapter", "hci2"], "central", env=lab.environment)
    assert central.wait(20) == 0
    assert shown(file.read_bytes()) == server.lines[1]
    assert f"{central_address()} refused: idle for 60 s, and another central has written" in server.lines, server.lines
    idle.until_has("Lost the link: the device disconnected.", seconds=30)
    until(lambda: server.lines.count("Hello") == 3, 40, "the idle central connects again")


class BumbleUART(Bumble):
    def __init__(self, lab, *options):
        super(Bumble, self).__init__(lab, [sys.executable, HERE / "uart_bumble.py", *map(str, options)], "peripheral")

    def messages(self, kind):
        return [bytes.fromhex(it["body"]) for it in self.events("message") if it["kind"] == kind]


@case(limit=60, example=NAME)
def example_uart_killed(lab):
    """A killed central leaves its link. The next central starts a new session on this link."""
    server = serve(lab, "--image-size", "50000")
    central = Central(lab)
    central.reach(3)
    central.signal(signal.SIGKILL)
    central.wait(5)
    # The next program shares the link of bluetoothd, and does not end it.
    central = Central(lab)
    assert central.wait(20) == 0
    assert shown(central.file.read_bytes()) == server.lines[1]
    assert server.lines.count("Hello") == 2 and sum("disconnected" in line for line in server.lines) == 0, server.lines


@case(limit=60, example=NAME)
def example_uart_killed_beside_another_program(lab):
    """A killed central leaves its link, and bluetoothd keeps the subscription for another program. The next central starts a new session."""
    server = serve(lab, "--image-size", "50000")
    asyncio.run(kill_beside_bleak(lab, server))


async def kill_beside_bleak(lab, server):
    found = await bleak.BleakScanner.find_device_by_address(server.address, bluez={"adapter": "hci0"})
    async with bleak.BleakClient(found, bluez={"adapter": "hci0"}) as client:
        await client.start_notify(wire.TX, lambda *_: None, bluez={"use_start_notify": True})
        central = Central(lab)
        await asyncio.to_thread(central.reach, 3)
        central.signal(signal.SIGKILL)
        await asyncio.to_thread(central.wait, 5)
        central = Central(lab)
        assert await asyncio.to_thread(central.wait, 20) == 0
    assert shown(central.file.read_bytes()) == server.lines[1]
    assert server.lines.count("Hello") == 2, server.lines


@case(limit=60, example=NAME)
def example_uart_on_another_stack(lab):
    """The central gets the image of a Bumble peripheral, with a lost notification, and continues after a cut link."""
    peripheral = lab.peer(BumbleUART(lab, "--image-size", 100000, "--lose", 50))
    central = Central(lab, "--device", peripheral.address)
    central.reach(5)
    assert peripheral.events("lost")
    lab.air("cut")
    central.done()
    assert hashlib.sha256(central.file.read_bytes()).hexdigest() == peripheral.events("ready")[0]["digest"]
    first, second = peripheral.messages(wire.GET_IMAGE)
    assert first == bytes(4) and int.from_bytes(second[:4], "little") >= 50000, (first, second)
    first, second = peripheral.messages(wire.HELLO)
    assert first == second and first[:1] == b"\x01" and first[9:] == bytes(4), (first, second)


@case(limit=120, example=NAME)
def example_uart_busy(lab):
    """The central tries again if the peripheral ends the link before the greeting, and reports what to do after six waits."""
    peripheral = lab.peer(BumbleUART(lab, "--image-size", 2000, "--hang-up", 2))
    central = Central(lab)
    central.done()
    lost = [line for line in central.out.lines if "connecting again in" in line]
    assert lost == [f"Lost the link: the device disconnected; connecting again in {wait} s" for wait in (0.5, 1.0)], lost
    peripheral.stop()
    lab.peer(BumbleUART(lab, "--hang-up", 100))
    error = Central(lab).done(exit_code=1, seconds=90)
    assert error == (
        "Error: the device disconnected; attempts without success: 6; hint: end the other central of the peripheral"
    ), error


@case(limit=90, example=NAME)
def example_uart_refuses_a_wrong_image(lab):
    """A wrong SHA-256, another protocol version, a missing answer, a wrong address and a wrong file are one sentence each, and no file is
    written."""
    peripheral = lab.peer(BumbleUART(lab, "--image-size", 2000, "--wrong-digest"))
    central = Central(lab)
    assert central.done(exit_code=1) == "Error: The SHA-256 of the image is wrong. Run the command again."
    peripheral.stop()
    peripheral = lab.peer(BumbleUART(lab, "--protocol", 2))
    assert Central(lab).done(exit_code=1) == (
        "Error: The other end does not support version 1 of the protocol. Use the same ble-uart at both ends."
    )
    peripheral.stop()
    peripheral = lab.peer(BumbleUART(lab, "--silent"))
    assert Central(lab).done(exit_code=1) == (
        "Error: the other end has not sent a greeting within 15 s; hint: check that the device runs ble-uart serve"
    )
    peripheral.stop()
    lab.peer(BumbleUART(lab, "--image-size", 20000, "--stop-at", 10000))
    assert Central(lab).done(exit_code=1) == (
        "Error: The peripheral has not sent a part of the image for 15 s. Run the command again."
    )
    assert not central.file.exists()
    error = Central(lab, "--device", "nowhere").done(exit_code=64).splitlines()[0]
    assert error == "Error: The value 'nowhere' is invalid for '--device <device>'", error
    # A file that cannot be written is an error before any Bluetooth operation.
    for file, reason in ((lab.folder, "it is a folder"), (lab.folder / "new" / "a.png", "No such file or directory")):
        _, error = lab.run_example(NAME, "image", file, "--adapter", "hci9", exit_code=1)
        assert error == f"Error: Cannot write '{file}': {reason}; hint: name a file in a folder that exists and is writable", error
    image = lab.folder / "text.png"
    image.write_text("x" * 2000)
    _, error = lab.run_example(NAME, "serve", "--image", image, exit_code=1)
    assert error == f"Error: {image} is not a PNG file from 1024 to 204800 bytes.", error


@case(limit=60, example=NAME)
def example_uart_for_another_stack(lab):
    """A Bumble central sees one name and nothing else, exchanges texts, and gets the image with 90 % of the bound at MTU 247. After a cut,
    the transfer continues. Bytes that are not frames have no effect. A signal ends the link."""
    lab.air("set", "interval", 15)
    server = serve(lab, "--name", "Bench")
    asyncio.run(use(lab, server))
    assert server.process.wait(10) == 0
    assert server.process.err.text() == ""


class BumbleCentral:
    """A central on Bumble with one link at a time."""

    async def open(self):
        from bumble.device import Device, DeviceConfiguration
        from bumble.hci import Address
        from bumble.host import Host

        self.transport = await open_adapter("hci0")
        self.stack = Device(
            config=DeviceConfiguration(name="central", address=Address("F0:F1:F2:F3:F4:F6")),
            host=Host(controller_source=self.transport.source, controller_sink=self.transport.sink),
        )
        # BlueZ also requests the MTU of its central.
        self.stack.gatt_server.max_mtu = 247
        await self.stack.power_on()

    async def advertised(self, address):
        """Returns the types of the advertised data, and the name."""
        found = asyncio.get_running_loop().create_future()
        types = {}

        def heard(advertisement):
            if str(advertisement.address).split("/")[0] == address:
                types.update(advertisement.data.ad_structures)
                if 9 in types and not found.done():
                    found.set_result(types)

        self.stack.on("advertisement", heard)
        await self.stack.start_scanning(active=True)
        await asyncio.wait_for(found, 10)
        await self.stack.stop_scanning()
        return types

    async def connect(self, address, heard):
        from bumble.core import UUID, ConnectionError
        from bumble.device import Peer
        from bumble.hci import Address, OwnAddressType

        target, self.connection = Address(address, Address.PUBLIC_DEVICE_ADDRESS), None
        while not self.connection:
            try:
                self.connection = await self.stack.connect(target, own_address_type=OwnAddressType.PUBLIC, timeout=15)
            except ConnectionError as error:
                # The peripheral has not ended the cut link yet.
                print(error)
                await asyncio.sleep(0.3)
        self.ended = asyncio.Event()
        self.connection.on("disconnection", lambda reason: self.ended.set())
        peer = Peer(self.connection)
        await peer.request_mtu(247)
        await peer.discover_service(UUID(wire.SERVICE))
        await peer.discover_characteristics()
        (rx,), (tx,) = (peer.get_characteristics_by_uuid(UUID(uuid)) for uuid in (wire.RX, wire.TX))
        self.rx, self.outgoing = rx, asyncio.Queue()
        self.end = wire.End(self.outgoing.put_nowait, heard)
        self.sender = asyncio.ensure_future(self.send())
        await tx.subscribe(lambda value: self.end.receive(bytes(value)))
        self.say(wire.hello())

    async def send(self):
        while not self.ended.is_set():
            await self.rx.write_value(await self.outgoing.get(), with_response=False)

    def say(self, message):
        self.end.send(message)
        self.end.output()

    async def close(self):
        self.sender.cancel()
        await self.transport.close()


async def use(lab, server):
    central, heard, download = BumbleCentral(), [], wire.Download()

    def receive(kind, body):
        if kind in (wire.IMAGE, wire.IMAGE_DATA):
            download.heard(kind, body)
        else:
            heard.append((kind, body))

    async def has(condition):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.02)

    await central.open()
    advertised = await central.advertised(server.address)
    assert advertised == {1: bytes([6]), 9: b"Bench"}, advertised
    await central.connect(server.address, receive)
    await has(lambda: heard == [(wire.HELLO_ACK, wire.hello_ack(0, 0))])
    for value in (b"", b"noise", bytes(244), wire.frame(7, 0), wire.frame(wire.ACK, 9999), wire.frame(wire.DATA, 30000, b"\x03no", 1)):
        await central.rx.write_value(value, with_response=False)
    central.say(bytes([wire.TEXT]) + "Grüße".encode())
    central.say(bytes([wire.TOGGLE, 1]))
    central.say(bytes([99]))
    await has(lambda: heard[1:] == [(wire.TOGGLE, b"\x01"), (wire.REFUSAL, b"\x01")])

    central.say(download.request())
    await has(lambda: len(download.data) > SIZE // 3)
    lab.air("cut")
    await asyncio.wait_for(central.ended.wait(), 5)
    download.first = None
    await central.connect(server.address, receive)
    await has(lambda: heard[3:] == [(wire.HELLO_ACK, wire.hello_ack(1, 2))])
    central.say(download.request())
    await has(lambda: download.done)
    rate = download.check()
    lab.figure(f"ble-uart for Bumble, 15 ms, MTU 247: bound {bound(15):.0f} B/s, image {rate} ({rate / bound(15):.1%})")
    assert rate >= 0.9 * bound(15) and download.offsets[0] == 0 and download.offsets[1] > SIZE // 3, (rate, download.offsets)
    assert shown(download.data) == server.lines[1] and is_png(download.data)
    assert "< Grüße" in server.lines and "toggle on" in server.lines, server.lines
    server.process.signal(signal.SIGTERM)
    await asyncio.wait_for(central.ended.wait(), 5)
    await central.close()


@case(limit=60, example=NAME)
def example_uart_false_confirmations(lab):
    """A central requests the image again and again over a slow link, and confirms frames that have not arrived: bluetoothd's queue is bounded."""
    server = serve(lab)
    lab.air("set", "per_event", 1)
    asyncio.run(confirm_too_early(lab, server))


def memory():
    """The memory of bluetoothd in KiB."""
    (process,) = [it.parent for it in Path("/proc").glob("[0-9]*/comm") if it.read_text() == "bluetoothd\n"]
    return int((process / "status").read_text().split("VmRSS:")[1].split()[0])


async def confirm_too_early(lab, server):
    central, heard = BumbleCentral(), []
    await central.open()
    await central.connect(server.address, lambda kind, _: heard.append(kind))
    async with asyncio.timeout(10):
        while wire.HELLO_ACK not in heard:
            await asyncio.sleep(0.02)
    before = memory()
    for number in range(400):
        if number % 10 == 0:
            central.say(wire.Download().request())
        await central.rx.write_value(wire.frame(wire.ACK, number * 8), with_response=False)
        await asyncio.sleep(0.02)
    grown = memory() - before
    lab.figure(f"false confirmations: 400, memory of bluetoothd: + {grown} KiB")
    assert grown < 300, grown
    await central.close()


@case(limit=60, example=NAME)
def example_uart_interrupted(lab):
    """Control-C with an unconfirmed text prints the number of such texts, at the central and at the peripheral."""
    far = Screen(lab, lab.example(NAME), "serve", "--name", "Bench", "--adapter", "hci1", name="far")
    far.until_has("Image: ")
    near = Screen(lab, "env", f"XDG_STATE_HOME={lab.folder}", lab.example(NAME), "--adapter", "hci0", name="near")
    near.until_has("> Bench")
    near.type("\r")
    near.until_has("Hello → Hello ack")
    lab.air("set", "range", 0)
    near.type("lost\r")
    far.type("also\r")
    near.until_has("Connecting again")
    near.type("\x03")
    near.until_has("Error: messages not confirmed: 1; hint: ble-uart --last", "exit code 1")
    far.until_has("Texts not confirmed: 1")
    lab.assert_nothing_left()


@case(limit=30, example=NAME)
def example_uart_in_the_background(lab):
    """A peripheral that a shell starts in the background advertises, and reads the terminal when it is in the foreground."""
    program = f"set -m; {lab.example(NAME)} serve --adapter hci1 & sleep 3; jobs; fg"
    far = Screen(lab, "bash", "-c", program, width=100, name="far")
    far.until_has("Advertising as UART over hci1", "Running")
    far.type("hello\r")
    far.until_has("Not sent: no central has greeted.")
    far.type("\x03")
    far.until_has("exit code 0")


@case(limit=30, example=NAME)
def example_uart_for_bleak(lab):
    """bleak greets, exchanges texts, and gets the image. Over the next link, it gets the text that it has not confirmed, and no other."""
    lab.example(NAME)
    far = Screen(lab, lab.example(NAME), "serve", "--image-size", "5000", "--adapter", "hci1", height=16, name="far")
    image = far.until_has("Image: ")[1]
    address = bluez.ask(lambda bus: bus.objects())["/org/bluez/hci1"][bluez.ADAPTER]["Address"]
    asyncio.run(use_with_bleak(address, far, image))
    far.type("\x03")
    far.until_has("exit code 0")


async def use_with_bleak(address, far, image):
    found = await bleak.BleakScanner.find_device_by_address(address, bluez={"adapter": "hci0"})
    download, heard, received = wire.Download(), [], 0

    def receive(kind, body):
        download.heard(kind, body) if kind in (wire.IMAGE, wire.IMAGE_DATA) else heard.append((kind, body))

    async def has(condition):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.02)

    for number in range(2):
        outgoing, isolated = asyncio.Queue(), []
        end = wire.End(lambda value: isolated or outgoing.put_nowait(value), receive)
        async with bleak.BleakClient(found, bluez={"adapter": "hci0"}) as client:

            async def send():
                while True:
                    await client.write_gatt_char(wire.RX, await outgoing.get(), response=False)

            sender = asyncio.ensure_future(send())
            await client.start_notify(wire.TX, lambda _, value: end.receive(bytes(value)))
            end.send(wire.hello(5, received))
            end.output()
            await has(lambda: heard)
            assert heard.pop(0) == (wire.HELLO_ACK, wire.hello_ack(0, number, 5)), heard
            if number == 0:
                end.send(bytes([wire.TEXT]) + "Grüße".encode())
                end.send(download.request())
                end.output()
                await has(lambda: download.done)
                download.check()
                assert shown(download.data) == image
                far.type("one\r")
                await has(lambda: heard)
                await has(lambda: not end.frames)
                isolated.append(True)  # bleak does not confirm the next text
                far.type("two\r")
            await has(lambda: len(heard) == 2 - number)
            assert [body for _, body in heard] == [b"one", b"two"][number:], heard
            heard.clear()
            received = 1
            sender.cancel()
        far.until_has("disconnected")
    far.until_has("< Grüße", "The image has arrived")


LIST_KEYS = "Tab: next device   Return: connect   Control-D: quit"
KEYS = "/toggle   /image   /disconnect   Control-D: quit"


@case(limit=120, example=NAME)
def example_uart_screens(lab):
    """Two persons exchange texts, turn the toggle, and transfer the image. The link is cut. The next run of the central connects to the same
    device. Then the peripheral ends."""
    far = Screen(lab, lab.example(NAME), "serve", "--name", "Bench", "--adapter", "hci1", height=16, name="far")
    image = far.until_has("Advertising as Bench over hci1", "Image: ")[1]
    address = bluez.ask(lambda bus: bus.objects())["/org/bluez/hci1"][bluez.ADAPTER]["Address"]
    program = "env", "-C", lab.folder, f"XDG_STATE_HOME={lab.folder / 'state'}", lab.example(NAME), "--adapter", "hci0"
    near = Screen(lab, *program, height=16, name="near")
    screens = [near.until_shows("Name filter: _", "", f"> Bench  {address}  -50 dBm", "", LIST_KEYS)]
    near.press("Down")
    near.type("bex")
    near.until_shows("Name filter: bex_", "", "", LIST_KEYS)
    near.type("\x7fn")
    near.until_shows("Name filter: ben_", "", f"> Bench  {address}  -50 dBm", "", LIST_KEYS)
    near.type("\r")

    def talk(toggle, *log, typed=""):
        return near.until_shows(f"Bench  {address}  toggle {toggle}", "", *log, "", f"{typed}_", "", KEYS)

    log = ["Hello → Hello ack"]
    talk("off", *log)
    near.type("Grüße!\r")
    far.until_has("< Grüße!")
    far.type("Good morning\r")
    log += ["> Grüße!", "< Good morning"]
    talk("off", *log)
    near.type("/toggle\r")
    far.until_has("toggle on")
    talk("on", *log)
    far.type("/toggle\r")
    far.until_has("toggle off")
    talk("off", *log)

    near.type("/image\r")
    near.until_has("Image: 4")
    lab.air("cut")
    near.until_has("Lost the link: the device disconnected.", "Connecting again in 0.5 s…")
    near.until_has("Saved in image.png.")
    log += ["Lost the link: the device disconnected.", log[0], image, "Saved in image.png."]
    screens += [talk("off", *log[-8:]), far.until_has("The image has arrived")]
    assert shown((lab.folder / "image.png").read_bytes()) == image
    picture.write("ble-uart.svg", screens, width=52, height=15)

    # Texts and the toggle that are lost with the link arrive after the next greeting, once.
    lab.air("set", "range", 0)
    near.type("lost\r/toggle\r")
    far.type("also\r")
    near.until_has("Connecting again")
    lab.air("set", "range", 1)
    log += ["> lost", log[3], log[0], "< also"]
    talk("on", *log[-8:])
    assert sum("< lost" in line for line in far.until_has("< lost", "toggle on")) == 1

    near.type("/disconnect\r")
    near.until_has("Name filter: ben_")
    near.type("\x04")
    near.until_shows("exit code 0")
    near = Screen(lab, *program, "--last", height=16, name="again")
    talk("on", log[0])
    far.type("\x03")
    far.until_has("exit code 0")
    near.until_has("Connecting again in 0.5 s…")
    near.type("/disconnect\r")
    near.until_shows("Name filter: _", "", "", LIST_KEYS)
    near.type("\x04")
    near.until_shows("exit code 0")
    lab.assert_nothing_left()
