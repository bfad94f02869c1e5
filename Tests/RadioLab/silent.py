"""A central that connects to a peripheral on hci1 and sends no request, and a link that a program on the peripheral's machine has opened."""

import asyncio
import time

import bleak


def assert_ended(lab, server, seconds):
    """Requires that the peripheral ends the link of a silent central after this time, and keeps a link from hci1 to a device.

    The links are one after the other, because a peripheral of the lab can have one link."""
    (device,) = lab.bumbles(1, first=2)
    assert asyncio.run(duration(device.address, "hci1", seconds + 10)) is None, "the link of another program has ended"
    ended = asyncio.run(duration(server.address, "hci0", seconds + 10))
    # BlueZ needs 2 s to end a link.
    assert ended and seconds - 1 <= ended <= seconds + 4, ended


async def duration(address, adapter, limit):
    """Connects, and returns the time until the other end ends the link. None: it has not ended the link within the limit."""
    found = await bleak.BleakScanner.find_device_by_address(address, bluez={"adapter": adapter})
    ended = asyncio.Event()
    async with bleak.BleakClient(found, disconnected_callback=lambda _: ended.set(), bluez={"adapter": adapter}):
        begun = time.monotonic()
        try:
            await asyncio.wait_for(ended.wait(), limit)
        except TimeoutError:
            return None
        return time.monotonic() - begun
