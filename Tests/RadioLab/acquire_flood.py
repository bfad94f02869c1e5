#!/usr/bin/env python3
"""Floods a link: writes values to Data through BlueZ's AcquireWrite socket for some seconds, faster than any link of the lab.
Prints the number of written values as JSON. The device reports how many arrived."""

import argparse
import asyncio
import contextlib
import json
import socket
import time

from dbus_fast import DBusError

from bluez import CHARACTERISTIC, DEVICE, Bus
from peripheral_bumble import SERVICE, UUIDS


async def flood(bus, options):
    device = await bus.find(options.adapter, options.name, SERVICE)
    await bus.connect(device)
    data = await bus.characteristic(device, UUIDS["data"])
    reply = await bus.call(data, CHARACTERISTIC, "AcquireWrite", "a{sv}", {})
    mtu = reply.body[1]
    value = bytes(min(mtu - 3, options.longest))
    count = 0
    with socket.socket(fileno=reply.unix_fds[0]) as acquired:
        begun = time.monotonic()
        while time.monotonic() - begun < options.seconds:
            # bluetoothd accepts and queues everything. The rate limits the queue, so that the flood ends in time.
            while count * len(value) < (time.monotonic() - begun + 0.1) * options.rate:
                try:
                    acquired.send(value)
                except BlockingIOError:
                    break
                count += 1
            await asyncio.sleep(0.01)
    with contextlib.suppress(DBusError):
        await bus.call(device, DEVICE, "Disconnect")
    return {"values": count, "length": len(value), "mtu": mtu, "seconds": options.seconds}


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="Bumble")
    parser.add_argument("--adapter", default="hci0")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--longest", type=int, default=495)
    parser.add_argument("--rate", type=int, default=200_000, help="bytes written per second")
    options = parser.parse_args()
    async with Bus() as bus:
        print(json.dumps(await flood(bus, options)))


if __name__ == "__main__":
    asyncio.run(main())
