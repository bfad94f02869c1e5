#!/usr/bin/env python3
"""Updates a device with PyPI's smpclient and confirms the image: smp_client.py ADDRESS IMAGE. Prints one JSON object."""

import argparse
import asyncio
import json

from smpclient import SMPClient
from smpclient.generics import success
from smpclient.mcuboot import IMAGE_TLV, ImageInfo
from smpclient.requests.image_management import ImageStatesRead, ImageStatesWrite
from smpclient.requests.os_management import ResetWrite
from smpclient.transport.ble import SMPBLETransport


async def ask(client, request):
    answer = await client.request(request, timeout_s=5)
    assert success(answer), f"{type(request).__name__}: {answer}"
    return answer


async def running(client):
    return next(image for image in (await ask(client, ImageStatesRead())).images if image.active)


async def connected(address, attempts=20):
    """Waits until the device accepts a connection, and returns the client."""
    for attempt in range(1, attempts + 1):
        client = SMPClient(SMPBLETransport(), address)
        try:
            await client.connect(10)
            return client
        except Exception:
            if attempt == attempts:
                raise
            await asyncio.sleep(0.5)


async def update(address, path):
    digest = ImageInfo.load_file(path).get_tlv(IMAGE_TLV.SHA256).value
    client = await connected(address)
    with open(path, "rb") as file:
        async for _ in client.upload(file.read()):
            pass
    await ask(client, ImageStatesWrite(hash=digest))
    await ask(client, ResetWrite())
    await client.disconnect()
    await asyncio.sleep(3)
    client = await connected(address)
    state = await running(client)
    assert state.hash == digest and not state.confirmed, state
    await ask(client, ImageStatesWrite(confirm=True))
    state = await running(client)
    await client.disconnect()
    return {"version": state.version, "confirmed": bool(state.confirmed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("image")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(update(options.address, options.image))))


if __name__ == "__main__":
    main()
