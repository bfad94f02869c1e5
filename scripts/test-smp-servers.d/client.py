"""Reads and restarts a server with smpclient, a client that does not share code with otaflash."""

import asyncio
import time

from smp.os_management import BootMode
from smpclient import SMPClient
from smpclient.generics import success
from smpclient.requests.image_management import ImageStatesRead
from smpclient.requests.os_management import ResetWrite
from smpclient.transport.serial import Cobs, SMPSerialRawTransport, SMPSerialTransport
from smpclient.transport.udp import SMPUDPTransport


class Silent(Exception):
    """The server does not answer."""


def transport(server):
    description = server.description
    if description.is_udp:
        return SMPUDPTransport(), "::1" if description.is_ipv6 else "127.0.0.1"
    if server.framing == "console":
        return SMPSerialTransport(), server.port
    return SMPSerialRawTransport(framing=Cobs() if server.framing == "raw-cobs" else None), server.port


async def ask(server, request):
    client = SMPClient(*transport(server))
    await client.connect(5)
    try:
        return await client.request(request, timeout_s=2)
    finally:
        await client.disconnect()


def answer(server, request, seconds=20):
    """Sends a request until the server answers it. A server that is starting does not answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return asyncio.run(ask(server, request))
        except Exception as trouble:
            if time.monotonic() > deadline:
                raise Silent(f"{server.description.name} did not answer smpclient for {seconds} s: {trouble!r}") from trouble
            time.sleep(0.1)


def images(server):
    """Returns the image list: slot, version, SHA-256 in hex or None, active and confirmed of each image."""
    found = answer(server, ImageStatesRead())
    assert success(found), f"smpclient read no image list: {found}"
    return [
        (image.slot, image.version, bytes(image.hash).hex() if image.hash else None, bool(image.active), bool(image.confirmed))
        for image in found.images
    ]


def is_ready(server):
    """Waits until the server answers: it has started."""
    answer(server, ImageStatesRead())


def restart(server, into_recovery=False):
    """Restarts the server, and waits until it answers again."""
    request = ResetWrite(boot_mode=BootMode.BOOTLOADER) if into_recovery else ResetWrite()
    old, new = server.framing, server.description.recovery_framing if into_recovery else server.description.framing
    # The line can lose the request. Then the server still has the old framing, and answers a second request.
    for _ in range(3):
        server.framing = old
        try:
            asyncio.run(ask(server, request))
        except TimeoutError:
            # Some servers restart before they answer.
            pass
        server.framing = new
        # For about 250 ms, the old program still answers.
        time.sleep(1)
        try:
            return answer(server, ImageStatesRead())
        except Silent as silent:
            trouble = silent
    raise trouble
