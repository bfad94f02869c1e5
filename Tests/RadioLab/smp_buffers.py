"""The packet buffers of Zephyr's SMP server over Bluetooth (smp_bt.c, smp.c and smp_reassembly.c of Zephyr 4.4)."""

import asyncio

HEADER = 8
NO_MEMORY = b"\xbf\x62rc\x02\xff"


class SMPBuffers:
    """Receives the values that a host writes, and answers one packet at a time.

    A packet occupies one buffer from its first value on. Its answer needs a second buffer. Both become free when the controller has sent
    the answer. The device drops a packet without an error if no buffer is free when its first value arrives. If no buffer is free for the
    answer, the answer has the error 2 (no memory), and uses the buffer of the packet.

    `ask` returns the answer to a packet, or None. `notify` returns when the controller has sent the value."""

    def __init__(self, count, size, reassembles, ask, notify):
        self.free, self.size, self.reassembles, self.ask, self.notify = count, size, reassembles, ask, notify
        self.packets, self.part = asyncio.Queue(), None
        self.dropped = self.refused = 0

    def write(self, value):
        if self.part is None:
            length = HEADER + int.from_bytes(value[2:4], "big") if self.reassembles else len(value)
            if length > self.size or len(value) < HEADER:
                return
            if not self.free:
                self.dropped += 1
                return
            self.free -= 1
            self.part = b""
        else:
            length = HEADER + int.from_bytes(self.part[2:4], "big")
        self.part += value
        if len(self.part) > length:
            self.reset()
        elif len(self.part) == length:
            self.packets.put_nowait(self.part)
            self.part = None

    def reset(self):
        """Discards an incomplete packet. The end of a connection does the same."""
        if self.part is not None:
            self.part, self.free = None, self.free + 1

    def disconnected(self):
        """Discards also the packets that wait. Zephyr discards the answer to the packet in work when it sends it."""
        self.reset()
        while not self.packets.empty():
            self.packets.get_nowait()
            self.free += 1

    async def serve(self):
        while True:
            packet = await self.packets.get()
            held = 1
            if self.free:
                self.free, held = self.free - 1, 2
                answer = await self.ask(packet)
            else:
                self.refused += 1
                answer = bytes([packet[0] + 1, 0]) + len(NO_MEMORY).to_bytes(2, "big") + packet[4:HEADER] + NO_MEMORY
            if answer:
                await self.notify(answer)
            self.free += held
