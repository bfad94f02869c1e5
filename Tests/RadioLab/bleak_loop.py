#!/usr/bin/env python3
"""Measures a plain loop over bleak, for comparison. It sends an image to a device with the GATT OTA profile, by D-Bus write commands.
Every 32nd chunk is a write with response. Prints one JSON object."""

import argparse
import asyncio
import hashlib
import json
import struct
import time
from contextlib import asynccontextmanager

import bleak

import bundle
import device
from peripheral_bumble import SERVICE, UUIDS


def chunk_length(mtu, longest):
    limit = min(mtu - 3, longest, 512)
    return next((length for length in (495, 244) if length <= limit), limit)


def noise(size):
    """Returns pseudo-random bytes, the same each time."""
    return b"".join(hashlib.sha256(number.to_bytes(4, "little")).digest() for number in range(size // 32 + 1))[:size]


async def find(adapter, name, timeout=20):
    """Returns (device, advertisement)."""
    async with bleak.BleakScanner(service_uuids=[SERVICE], bluez={"adapter": adapter}) as scanner:
        async with asyncio.timeout(timeout):
            async for found, seen in scanner.advertisement_data():
                if seen.local_name == name:
                    return found, seen


class Host:
    """Sends the profile's requests, one at a time, without error handling."""

    def __init__(self, client):
        self.client, self.tag, self.answers = client, 0, asyncio.Queue()

    @classmethod
    @asynccontextmanager
    async def connected(cls, adapter, name):
        found, _ = await find(adapter, name)
        async with bleak.BleakClient(found, bluez={"adapter": adapter}) as client:
            host = cls(client)
            await client.start_notify(UUIDS["control"], lambda _, value: host.answers.put_nowait(bytes(value)))
            yield host

    async def read(self, name):
        return bytes(await self.client.read_gatt_char(UUIDS[name]))

    async def ask(self, opcode, arguments=b""):
        self.tag = (self.tag + 1) % 256
        await self.client.write_gatt_char(UUIDS["control"], bytes([opcode, self.tag]) + arguments, response=True)
        answer = await asyncio.wait_for(self.answers.get(), 10)
        assert answer[:3] == bytes([0x80 | opcode, self.tag, 0]), f"request {opcode}: answer {answer.hex()}"
        return struct.unpack("<HII", answer[3:]) if len(answer) > 3 else None

    async def begin(self, kind, data):
        sequence, offset, _ = await self.ask(device.BEGIN, struct.pack("<BII8s", kind, len(data), 0, bundle.sha256(data)[:8]))
        assert offset == 0, f"the device resumes at {offset}"
        return sequence

    async def measure(self):
        """Reads the MTU and the chunk length. For a known device, BlueZ's MTU property has the value before the exchange. AcquireWrite
        returns the real value."""
        await self.client._backend._acquire_mtu()
        self.mtu = self.client.mtu_size
        info = await self.read("info")
        values = {}
        while info:
            values[info[0]], info = info[2 : 2 + info[1]], info[2 + info[1] :]
        self.chunk = chunk_length(self.mtu, struct.unpack_from("<H", values[6])[0])

    async def send(self, data, sequence, flush=32):
        for number, start in enumerate(range(0, len(data), self.chunk - 2), 1):
            value = struct.pack("<H", sequence) + data[start : start + self.chunk - 2]
            await self.client.write_gatt_char(UUIDS["data"], value, response=number % flush == 0)
            sequence = (sequence + 1) % 65536
        _, offset, _ = await self.ask(device.SYNC, struct.pack("<H", sequence))
        assert offset == len(data), f"{offset} of {len(data)} bytes arrived"

    async def transfer(self, data):
        """Sends a bundle. Returns the seconds from the image's first byte to its acknowledgement."""
        envelope, image = bundle.split(data)
        await self.measure()
        await self.send(envelope, await self.begin(1, envelope))
        await self.ask(device.FINISH)
        sequence = await self.begin(2, image)
        begun = time.monotonic()
        await self.send(image, sequence)
        seconds = time.monotonic() - begun
        await self.ask(device.FINISH)
        return seconds


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="Bumble")
    parser.add_argument("--adapter", default="hci0")
    parser.add_argument("bundle", help="signed by a key that the device trusts")
    options = parser.parse_args()
    with open(options.bundle, "rb") as file:
        data = file.read()
    async with Host.connected(options.adapter, options.name) as host:
        seconds = await host.transfer(data)
        await host.ask(device.DISCARD)
    size = len(bundle.split(data)[1])
    print(json.dumps({
        "bytes": size, "chunk": host.chunk, "mtu": host.mtu, "seconds": round(seconds, 3), "bytes_per_second": round(size / seconds),
    }))


if __name__ == "__main__":
    asyncio.run(main())
