"""Updates the device on a UDP port of this machine with smpclient from PyPI and confirms the image: smp_update.py PORT IMAGE"""

import asyncio
import sys

from smpclient import SMPClient
from smpclient.generics import success
from smpclient.mcuboot import IMAGE_TLV, ImageInfo
from smpclient.requests.image_management import ImageStatesRead, ImageStatesWrite
from smpclient.requests.os_management import ResetWrite
from smpclient.transport.udp import SMPUDPTransport


class LocalTransport(SMPUDPTransport):
    """A transport with a selectable port. The transport of the library supports only the default port."""

    def __init__(self, port):
        super().__init__()
        self.port = port

    async def connect(self, address, timeout_s):
        await super().connect(address, timeout_s, self.port)


async def ask(client, request):
    answer = await client.request(request, timeout_s=2)
    if not success(answer):
        sys.exit(f"{type(request).__name__}: {answer}")
    return answer


async def running(client, digest):
    """Polls the device until the image runs and returns the state of the image."""
    for _ in range(60):
        try:
            state = (await ask(client, ImageStatesRead())).images[0]
            if state.hash == digest and state.active:
                return state
        except Exception:
            pass
        await asyncio.sleep(0.2)
    sys.exit("the image does not run")


async def main(port, path):
    with open(path, "rb") as file:
        image = file.read()
    digest = ImageInfo.load_file(path).get_tlv(IMAGE_TLV.SHA256).value
    async with SMPClient(LocalTransport(port), "127.0.0.1") as client:
        async for _ in client.upload(image):
            pass
        await ask(client, ImageStatesWrite(hash=digest))
        await ask(client, ResetWrite())
        await running(client, digest)
        await ask(client, ImageStatesWrite(confirm=True))
        state = await running(client, digest)
        print(state.version, "confirmed" if state.confirmed else "on trial")


asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
