"""An SMP server over UDP whose strings contain control sequences for a terminal: hostile_smp.py [PORT]

It prints its port as one line and answers until it is killed. Its board name, its version and the reason of each error contain a
window title, colours, a forged line, a carriage return, a bidirectional override and a C1 control sequence.
"""
import socket
import struct
import sys

HOSTILE = ("evil\x1b]0;owned\x07\x1b[32mgreen\x1b[0m\n\u2714 confirmed 9.9.9\r\x7f\u202egnp\u2066\u200b\x9b31mred\x9d0;t\x9c"
           + "\u754c" * 60 + "end")


def head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    return bytes([major << 5 | 25]) + struct.pack(">H", number)


def cbor(value):
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return head(3, len(text)) + text
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(key) + cbor(item) for key, item in value.items())


def answer(group, command, is_write, body):
    if (group, command) == (0, 0):
        # An echo: the map of the request has one string with the key "d".
        return b"\xa1\x61r" + body[3:]
    if (group, command) == (0, 6):
        return cbor({"buf_size": 1024, "buf_count": 4})
    if (group, command) == (0, 7):
        return cbor({"output": HOSTILE})
    if (group, command) == (1, 0) and not is_write:
        running = {"slot": 0, "version": HOSTILE, "hash": bytes(32), "bootable": True, "confirmed": True, "active": True}
        return cbor({"images": [running]})
    return cbor({"rc": 1, "rsn": HOSTILE})


def main(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", port))
    print(server.getsockname()[1], flush=True)
    while True:
        packet, peer = server.recvfrom(65535)
        if len(packet) < 8:
            continue
        first, _, _, group, sequence, command = struct.unpack(">BBHHBB", packet[:8])
        body = answer(group, command, first & 7 == 2, packet[8:])
        server.sendto(struct.pack(">BBHHBB", first | 1, 0, len(body), group, sequence, command) + body, peer)


main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
