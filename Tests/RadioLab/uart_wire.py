"""The protocol of the example ble-uart. It was written from the tables in Examples/README.md and shares no code with the example."""

import binascii
import hashlib
import struct
import time

SERVICE, RX, TX = (f"6e40000{number}-b5a3-f393-e0a9-e50e24dcca9e" for number in (1, 2, 3))
DATA, ACK, NACK, MORE, ASKS = 0, 1, 2, 4, 8
HELLO, HELLO_ACK, TEXT, TOGGLE, GET_IMAGE, IMAGE, IMAGE_DATA, REFUSAL = range(1, 9)
WINDOW = 64


def frame(kind, sequence, data=b"", receipt=0):
    body = struct.pack("<BHI", kind, sequence % 65536, receipt) + data
    return body + struct.pack("<H", binascii.crc_hqx(body, 0xFFFF))


def parse(value):
    """Returns (kind, sequence, receipt, data), or None if the value is not a frame."""
    if len(value) < 9 or binascii.crc_hqx(value[:-2], 0xFFFF) != struct.unpack("<H", value[-2:])[0]:
        return None
    return (*struct.unpack("<BHI", value[:7]), value[7:-2])


def hello(conversation=1, received=0):
    return struct.pack("<BBQI", HELLO, 1, conversation, received)


def hello_ack(toggle, received, conversation=1):
    """The content of the answer to hello."""
    return struct.pack("<BQBI", 1, conversation, toggle, received)


class End:
    """One end of a link. `write` sends a value; `heard` gets each message. The frames are repeated only after a NACK."""

    def __init__(self, write, heard, length=20):
        self.write, self.heard, self.length = write, heard, length
        self.expected, self.receipt, self.gap, self.fragments = 0, 0, False, b""
        self.first, self.sent, self.frames = 0, 0, []
        self.values, self.first_at, self.last_at, self.bytes, self.nacks = 0, None, None, 0, 0

    def send(self, message):
        parts = [message[at:at + self.length - 9] for at in range(0, len(message), self.length - 9)]
        self.frames += [(part, number + 1 < len(parts)) for number, part in enumerate(parts)]

    def output(self):
        end = min(len(self.frames), WINDOW)
        for index in range(self.sent, end):
            data, more = self.frames[index]
            asks = index + 1 == end or index % 8 == 7
            self.write(frame(DATA | (MORE if more else 0) | (ASKS if asks else 0), self.first + index, data, index))
        self.sent = max(self.sent, end)

    def receive(self, value):
        self.values += 1
        found = parse(value)
        if not found:
            return self.miss()
        kind, sequence, receipt, data = found
        if kind & 3 != DATA:
            count = (sequence - self.first) % 65536
            if count <= self.sent:
                del self.frames[:count]
                self.first, self.sent = sequence, self.sent - count
            if kind == NACK:
                self.nacks += 1
                self.sent = 0
            return self.output()
        ahead = (sequence - self.expected) % 65536
        if ahead in (0, 65535):
            self.receipt = receipt
        if 0 < ahead < 32768:
            return self.miss()
        if ahead == 0:
            self.expected, self.gap = (self.expected + 1) % 65536, False
            self.fragments += data
        if kind & ASKS:
            self.write(frame(ACK, self.expected, receipt=self.receipt))
        if ahead == 0 and not kind & MORE:
            message, self.fragments = self.fragments, b""
            self.heard(message[0], message[1:])
        self.output()

    def miss(self):
        if not self.gap:
            self.gap = True
            self.write(frame(NACK, self.expected, receipt=self.receipt))


class Download:
    """An image that arrives, and its rate."""

    def __init__(self):
        self.data, self.size, self.digest = b"", None, b""
        self.offsets, self.first, self.last, self.rate = [], None, None, 0

    def request(self):
        return bytes([GET_IMAGE]) + struct.pack("<I", len(self.data)) + self.digest

    def heard(self, kind, body):
        if kind == IMAGE:
            self.size, offset = struct.unpack("<II", body[:8])
            self.digest = body[8:]
            self.offsets.append(offset)
            self.data = self.data[:offset]
        elif kind == IMAGE_DATA:
            # The first part starts the clock, so its bytes do not count.
            self.last = time.monotonic()
            if self.first is None:
                self.first, self.before = self.last, len(self.data) + len(body)
            self.data += body

    @property
    def done(self):
        return self.size is not None and len(self.data) == self.size

    def check(self):
        assert self.done and hashlib.sha256(self.data).digest() == self.digest, (len(self.data), self.size)
        return round((len(self.data) - self.before) / (self.last - self.first))
