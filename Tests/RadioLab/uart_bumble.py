#!/usr/bin/env python3
"""A peripheral on Bumble, for the example ble-uart. It reports events as JSON on stdout, one object per line."""

import argparse
import asyncio
import hashlib
import struct
import zlib

from peripheral_bumble import open_adapter, say
from uart_wire import (
    GET_IMAGE, HELLO, HELLO_ACK, IMAGE, IMAGE_DATA, REFUSAL, RX, SERVICE, TEXT, TOGGLE, TX, End,
)


def png(size):
    """Returns a PNG of one pixel, filled to this size with a text chunk."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    end = chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    keyword = b"Comment\0"
    return start + chunk(b"tEXt", keyword + b"x" * (size - len(start) - len(end) - len(keyword) - 12)) + end


class UART:
    def __init__(self, options):
        self.options, self.image, self.end, self.toggle = options, png(options.image_size), None, False
        self.digest = hashlib.sha256(self.image).digest()
        if options.wrong_digest:
            self.digest = bytes(32)
        self.sent, self.connection, self.conversation, self.received = 0, None, None, 0

    def write(self, connection, value):
        value = bytes(value)
        if self.connection is not connection:
            self.connection = connection
            self.end = End(self.notify, self.heard, min(connection.att_mtu - 3, 244))
            if self.options.hang_up > 0:
                self.options.hang_up -= 1
                self.end.heard = lambda *_: None
                asyncio.ensure_future(connection.disconnect())
        self.end.receive(value)
        self.end.output()

    def notify(self, value):
        self.sent += 1
        if self.sent == self.options.lose:
            say("lost", number=self.sent)
            return
        connection = self.connection
        self.outgoing.put_nowait((connection, value))

    async def send(self):
        while True:
            connection, value = await self.outgoing.get()
            if connection is self.connection:
                await self.stack.gatt_server.notify_subscriber(connection, self.tx, value)

    def heard(self, kind, body):
        say("message", kind=kind, body=body.hex())
        if kind == HELLO:
            if body[1:9] != self.conversation:
                self.conversation, self.received = body[1:9], 0
            if not self.options.silent:
                answer = bytes([HELLO_ACK, self.options.protocol]) + self.conversation
                self.end.send(answer + struct.pack("<BI", self.toggle, self.received))
            return
        self.received += kind in (TEXT, TOGGLE)
        if kind == TEXT:
            self.end.send(bytes([TEXT]) + b"echo: " + body)
        elif kind == TOGGLE:
            self.toggle = bool(body[0])
            self.end.send(bytes([TOGGLE, self.toggle]))
        elif kind == GET_IMAGE:
            offset = struct.unpack("<I", body[:4])[0] if body[4:] == self.digest else 0
            self.end.send(bytes([IMAGE]) + struct.pack("<II", len(self.image), offset) + self.digest)
            chunk = self.end.length - 10
            for at in range(offset, self.options.stop_at or len(self.image), chunk):
                self.end.send(bytes([IMAGE_DATA]) + self.image[at:at + chunk])
        else:
            self.end.send(bytes([REFUSAL, 1]))

    def disconnected(self, _):
        self.connection = None
        say("disconnected")

    async def live(self):
        from bumble import device
        from bumble.core import AdvertisingData
        from bumble.gatt import Characteristic, CharacteristicValue, Service
        from bumble.hci import Address, OwnAddressType
        from bumble.host import Host

        transport = await open_adapter(self.options.adapter)
        self.stack = device.Device(
            config=device.DeviceConfiguration(name=self.options.name, address=Address("F0:F1:F2:F3:F4:F5")),
            host=Host(controller_source=transport.source, controller_sink=transport.sink),
        )
        self.outgoing = asyncio.Queue()
        properties = Characteristic.Properties
        rx = Characteristic(
            RX, properties.WRITE | properties.WRITE_WITHOUT_RESPONSE, Characteristic.WRITEABLE, CharacteristicValue(write=self.write)
        )
        self.tx = Characteristic(TX, properties.NOTIFY, 0, CharacteristicValue())
        self.stack.add_services([Service(SERVICE, [rx, self.tx])])
        self.stack.gatt_server.max_mtu = self.options.mtu
        self.stack.advertising_data = bytes(AdvertisingData([
            (AdvertisingData.FLAGS, bytes([0x06])), (AdvertisingData.COMPLETE_LOCAL_NAME, self.options.name.encode()),
        ]))
        self.stack.on("connection", lambda connection: connection.on("disconnection", self.disconnected))
        await self.stack.power_on()
        await self.stack.start_advertising(
            own_address_type=OwnAddressType.PUBLIC, advertising_interval_min=50, advertising_interval_max=50, auto_restart=True
        )
        say("ready", address=str(self.stack.public_address).split("/")[0], digest=self.digest.hex())
        await self.send()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", default="hci1")
    parser.add_argument("--name", default="UART")
    parser.add_argument("--mtu", type=int, default=247, help="the ATT MTU that the peripheral accepts")
    parser.add_argument("--image-size", type=int, default=20000)
    parser.add_argument("--hang-up", type=int, default=0, help="the number of links that this peripheral ends at the first frame")
    parser.add_argument("--lose", type=int, help="the number of a notification that is not sent")
    parser.add_argument("--wrong-digest", action="store_true", help="announce a wrong SHA-256")
    parser.add_argument("--silent", action="store_true", help="do not answer the greeting")
    parser.add_argument("--stop-at", type=int, help="the number of image bytes after which nothing is sent")
    parser.add_argument("--protocol", type=int, default=1, help="the protocol version")
    asyncio.run(UART(parser.parse_args()).live())


if __name__ == "__main__":
    main()
