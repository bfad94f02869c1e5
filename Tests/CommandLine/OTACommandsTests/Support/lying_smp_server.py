"""An SMP server with wrong answers on a free UDP port of this machine.

It prints its port as the first line. For each upload packet it prints the total number of bytes received in upload packets.

    lying_smp_server.py alternating     requests offsets 100 and 200 alternately
    lying_smp_server.py creeping        accepts one byte of each packet
    lying_smp_server.py silent          sends no answer

To repeat a test by hand, start the server and run in another terminal:

    otaflash push fw.signed.bin --device udp:127.0.0.1:PORT --trust release.pub.pem
"""

import socket
import struct
import sys


def head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    if number < 256:
        return bytes([major << 5 | 24, number])
    if number < 65536:
        return bytes([major << 5 | 25]) + struct.pack(">H", number)
    return bytes([major << 5 | 26]) + struct.pack(">I", number)


def cbor(value):
    """Encodes a value of an SMP answer as CBOR."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value)) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(cbor(item) for item in value)
    return head(5, len(value)) + b"".join(cbor(key) + cbor(item) for key, item in value.items())


RUNNING = {"slot": 0, "version": "1.0.0", "hash": bytes(32), "bootable": True, "active": True, "confirmed": True}


class Server:
    def __init__(self, way):
        self.way = way
        self.offset = 0
        self.received = 0

    def answer(self, group, command, packet):
        """The fields of the answer; None: no answer is sent."""
        if self.way == "silent":
            return None
        if (group, command) == (0, 6):
            return {"buf_size": 1500, "buf_count": 4}
        if (group, command) == (1, 0) and packet[0] & 7 == 0:
            return {"images": [RUNNING], "splitStatus": 0}
        if (group, command) == (1, 0):
            # A host sends a mark without an image to find out if the device supports marks.
            return {"rc": 3}
        if (group, command) != (1, 1):
            return {"rc": 8}
        # The whole packet counts. Its header and map add a few dozen bytes.
        self.received += len(packet)
        print(self.received, flush=True)
        if self.way == "alternating":
            self.offset = 200 if self.offset == 100 else 100
        else:
            self.offset += 1
        return {"off": self.offset}


def main(way):
    server = Server(way)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.bind(("127.0.0.1", 0))
        print(channel.getsockname()[1], flush=True)
        while True:
            packet, sender = channel.recvfrom(65536)
            if len(packet) < 8:
                continue
            group, sequence, command = struct.unpack(">HBB", packet[4:8])
            fields = server.answer(group, command, packet)
            if fields is None:
                continue
            body = cbor(fields)
            begin = bytes([packet[0] & 0x18 | (packet[0] & 7) + 1, 0]) + struct.pack(">HHBB", len(body), group, sequence, command)
            channel.sendto(begin + body, sender)


main(sys.argv[1])
