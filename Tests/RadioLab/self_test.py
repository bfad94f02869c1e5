"""Tests the radio lab's peripheral without a radio, with the examples of docs/bundle-format.md and docs/ota-profile.md."""

import asyncio
import struct
import tempfile
import unittest
import zlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import bundle
import device
from device import ACCEPTED, IDLE, IMAGE, TRIAL, VERIFIED
from smp_buffers import SMPBuffers

EXAMPLE_IMAGE = bytes(i % 251 for i in range(600))
EXAMPLE_MANIFEST = bundle.Manifest(
    "demo", "1.1.0", 600, bundle.sha256(EXAMPLE_IMAGE), counter=7, created=1767225600, hardware=[(1, 3)]
)
EXAMPLE_ENVELOPE = bytes.fromhex(
    """4f544146 01005900 58020000 00000000 07000000 00000000 00b95569 00000000
    db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
    02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010000
    0021fe31 dfa154a2 61f5639b 13f6036a 91a635b7 87e33676 fe4b9c8b c32a9548
    7bb6c356 3add8eec ea6d8bb5 27c1f88a 189a344f f9ab4777 794be1cf 1e57535c
    ea0f52a0 cdd45cb1 09"""
)


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


class Bench(unittest.TestCase):
    """A device and the host's requests to it."""

    def setUp(self):
        self.clock, self.tag = Clock(), 0x20

    def make(self, folder=None, **identity):
        self.device = device.Device(device.Identity(**identity), device.Flash(folder), self.clock)
        return self.device

    def ask(self, opcode, arguments=b"", status=0):
        """Returns the results of a request that must end with this status."""
        self.tag = (self.tag + 1) % 256
        self.device.write_control(bytes([opcode, self.tag]) + arguments)
        answer = self.device.answers.popleft()
        self.assertEqual(answer[:3], bytes([0x80 | opcode, self.tag, status]))
        return answer[3:]

    def position(self, opcode, arguments=b""):
        return struct.unpack("<HII", self.ask(opcode, arguments))

    def begin(self, kind, data, start=0xFFFFFFFF, size=None):
        """Returns the (next, offset) of a BEGIN's answer."""
        self.sequence, offset, crc = self.position(
            device.BEGIN, struct.pack("<BII8s", kind, size or len(data), start, bundle.sha256(data)[:8])
        )
        self.assertEqual(crc, zlib.crc32(data[:offset]))
        return self.sequence, offset

    def chunk(self, data):
        self.device.write_data(struct.pack("<H", self.sequence) + data)
        self.sequence = (self.sequence + 1) % 65536

    def accept(self, envelope):
        self.begin(1, envelope)
        for start in range(0, len(envelope), 240):
            self.chunk(envelope[start : start + 240])
        self.ask(device.FINISH)

    def send(self, image, start, end=None, step=242):
        for offset in range(start, len(image) if end is None else end, step):
            self.chunk(image[offset : min(offset + step, len(image) if end is None else end)])

    def reconnect(self):
        self.device.disconnected()
        self.device.connected()


class Examples(Bench):
    def test_envelope(self):
        self.assertEqual(bundle.envelope(EXAMPLE_MANIFEST, [bundle.EXAMPLE_KEY]), EXAMPLE_ENVELOPE)
        covered, manifest, signatures = bundle.parse_envelope(EXAMPLE_ENVELOPE)
        self.assertEqual(manifest, EXAMPLE_MANIFEST)
        self.assertEqual([name.hex() for name, _ in signatures], ["21fe31dfa154a261"])
        self.assertEqual(bundle.sha256(covered)[:8].hex(), "816f422424a32d9c")
        self.assertTrue(bundle.trusted(covered, signatures, [bundle.raw_public(bundle.EXAMPLE_KEY)]))

    def test_transcript(self):
        transcript = """
            > 01 21 01 a9 00 00 00 00 00 00 00 2a f6 1d 1f f5 e1 5b 10
            < 81 21 00 00 10 00 00 00 00 00 00 00 00
            envelope 00 10 0 169
            > 02 22 01 10
            < 82 22 00 01 10 a9 00 00 00 dd 24 0b 38
            > 03 23
            < 83 23 00
            > 01 24 02 58 02 00 00 ff ff ff ff db 4f 2a c2 5d 14 03 69
            < 81 24 00 01 20 00 00 00 00 00 00 00 00
            image 01 20 0 242
            image 03 20 484 600
            ! 03 00 02 30 f2 00 00 00 6a 82 aa 3b
            image 02 30 242 484
            image 03 30 484 600
            > 02 25 04 30
            < 82 25 00 04 30 58 02 00 00 3b 94 b2 df
            > 03 26
            < 83 26 00
            > 04 27 00
            < 84 27 00
            reboot
            version 31 2e 31 2e 30
            ? 05 00 00 00 00 00 00 00 00 00 00 00
            > 05 28
            < 85 28 00
        """
        it = self.make()
        for line in transcript.strip().splitlines():
            mark, *words = line.split()
            if mark in ("envelope", "image"):
                begin, end = int(words[2]), int(words[3])
                data = (EXAMPLE_ENVELOPE if mark == "envelope" else EXAMPLE_IMAGE)[begin:end]
                it.write_data(bytes.fromhex("".join(words[:2])) + data)
                continue
            value = bytes.fromhex("".join(words))
            if mark == ">":
                it.write_control(value)
            elif mark == "<":
                self.assertEqual(it.answers.popleft().hex(" "), value.hex(" "))
            elif mark == "!":
                self.assertEqual(it.progress.hex(" "), value.hex(" "))
            elif mark == "?":
                self.assertEqual(it.read_progress().hex(" "), value.hex(" "))
            elif mark == "version":
                self.assertEqual(it.version(), value)
            else:
                self.assertFalse(it.reboot_due())
                it.disconnected()
                self.assertTrue(it.reboot_due())
                it.reboot()
        self.assertFalse(it.answers)
        self.assertEqual((it.state, it.violations), (IDLE, []))


class Order(Bench):
    image = bytes(range(256)) * 80

    def setUp(self):
        super().setUp()
        self.make(window=16)
        data = bundle.bundle(self.image, "demo", "1.1.0")
        self.envelope = bundle.split(data)[0]
        self.accept(self.envelope)
        self.begin(2, self.image)

    def test_a_gap_is_told_once(self):
        self.send(self.image, 0, 242)
        self.sequence += 1
        self.send(self.image, 484, 484 + 242)
        first = self.device.progress
        self.device.progress = None
        self.send(self.image, 726, 726 + 242)
        self.assertIsNone(self.device.progress)
        state, status, sequence, offset, crc = struct.unpack("<BBHII", first)
        self.assertEqual((state, status, offset, crc), (IMAGE, 0, 242, zlib.crc32(self.image[:242])))
        self.sequence = sequence
        self.send(self.image, 242)
        self.ask(device.FINISH)
        self.assertEqual(self.device.state, VERIFIED)
        self.assertEqual(self.device.violations, [])

    def test_sync_finds_what_no_later_chunk_shows(self):
        self.send(self.image, 0, 242)
        before = self.sequence
        sequence, offset, _ = self.position(device.SYNC, struct.pack("<H", before + 1))
        self.assertEqual((sequence, offset), (before + 4096, 242))

    def test_an_overtaking_chunk_is_no_gap(self):
        self.send(self.image, 0, 484)
        sequence, offset, _ = self.position(device.SYNC, struct.pack("<H", self.sequence - 1))
        self.assertEqual((sequence, offset), (self.sequence, 484))

    def test_stale_chunks_after_another_begin(self):
        self.send(self.image, 0, 242)
        old = self.sequence
        self.assertEqual(self.begin(2, self.image, 0), (old + 4096, 0))
        new, self.sequence = self.sequence, old
        self.send(self.image, 242, 484)
        self.assertIsNone(self.device.progress)
        self.sequence = new
        self.send(self.image, 0)
        self.ask(device.FINISH)

    def test_more_than_the_object_is_a_gap(self):
        self.send(self.image, 0, len(self.image) - 4, step=len(self.image) - 4)
        self.device.progress = None
        self.chunk(b"12345")
        self.assertEqual(struct.unpack("<BBHII", self.device.progress)[3], len(self.image) - 4)

    def test_the_wrap(self):
        for _ in range(15):
            self.position(device.SYNC, struct.pack("<H", (self.device.next + 1) % 65536))
        self.sequence = self.device.next
        self.assertLess(self.device.next, 8192)
        self.send(self.image, 0)
        self.ask(device.FINISH)

    def test_progress_every_quarter_of_a_window(self):
        self.send(self.image, 0, 3 * 242)
        self.assertIsNone(self.device.progress)
        self.send(self.image, 3 * 242, 4 * 242)
        self.assertEqual(struct.unpack("<BBHII", self.device.progress)[3], 4 * 242)

    def test_a_host_that_ignores_the_window_is_seen(self):
        told = self.device.told
        self.sequence = told + 16
        self.send(self.image, 0, 242)
        self.assertEqual(len(self.device.violations), 1)


class Resuming(Bench):
    image = bytes((i * 7 + i // 256) % 256 for i in range(20000))

    def setUp(self):
        super().setUp()
        self.envelope = bundle.split(bundle.bundle(self.image, "demo", "1.1.0"))[0]

    def half(self, folder=None):
        self.make(folder)
        self.accept(self.envelope)
        self.begin(2, self.image)
        self.send(self.image, 0, 42 * 242)

    def test_after_a_lost_link_all_is_there(self):
        self.half()
        self.reconnect()
        self.assertEqual(self.device.state, IDLE)
        self.assertEqual(self.device.info[-14:], bytes([10, 12]) + self.device.held[0][:8] + struct.pack("<I", 42 * 242))
        self.ask(device.BEGIN, struct.pack("<BII8s", 2, 20000, 0, bundle.sha256(self.image)[:8]), device.BAD_STATE)
        self.accept(self.envelope)
        self.assertEqual(self.begin(2, self.image), (0x2000 + self.chunks_of(self.envelope), 42 * 242))
        self.send(self.image, 42 * 242)
        self.ask(device.FINISH)

    def chunks_of(self, envelope):
        return -(-len(envelope) // 240)

    def test_after_a_power_cut_whole_pages_are_there(self):
        with tempfile.TemporaryDirectory() as folder:
            self.half(folder)
            self.make(folder)
            self.accept(self.envelope)
            self.assertEqual(self.begin(2, self.image)[1], 8192)
            self.send(self.image, 8192)
            self.ask(device.FINISH)
            self.make(folder)
            self.accept(self.envelope)
            self.assertEqual(self.begin(2, self.image)[1], 20000)
            self.ask(device.FINISH)

    def test_a_step_back_goes_to_a_page(self):
        self.half()
        self.assertEqual(self.begin(2, self.image, 5000)[1], 4096)
        self.send(self.image, 4096)
        self.ask(device.FINISH)

    def test_another_release_starts_over(self):
        self.half()
        other = bundle.split(bundle.bundle(self.image, "demo", "1.1.1"))[0]
        self.accept(other)
        self.assertEqual(self.begin(2, self.image)[1], 0)
        self.accept(self.envelope)
        self.assertEqual(self.begin(2, self.image)[1], 0)

    def test_wear_is_bounded(self):
        self.half()
        self.begin(2, self.image, 0)
        self.begin(2, self.image, 0)
        self.ask(device.BEGIN, struct.pack("<BII8s", 2, 20000, 0, bundle.sha256(self.image)[:8]), device.BUSY)
        self.clock.seconds += 61
        self.begin(2, self.image, 0)

    def test_discard_forgets(self):
        self.half()
        self.ask(device.DISCARD)
        self.accept(self.envelope)
        self.assertEqual(self.begin(2, self.image)[1], 0)


class Judging(Bench):
    def refused(self, status, key=bundle.EXAMPLE_KEY, identity=None, damage=None, **more):
        self.make(**(identity or {}))
        more = {"product": "demo", "version": "1.1.0", **more}
        data = bytearray(bundle.split(bundle.bundle(b"image", keys=(key,), **more))[0])
        if damage:
            damage(data)
        self.begin(1, bytes(data))
        self.send(bytes(data), 0)
        self.ask(device.FINISH, status=status)
        self.assertEqual(self.device.state, ACCEPTED if status == 0 else IDLE)

    def test_each_refusal(self):
        stranger = Ed25519PrivateKey.generate()
        self.refused(0)
        self.refused(device.UNTRUSTED, key=stranger)
        self.refused(device.WRONG_PRODUCT, product="other")
        self.refused(device.WRONG_HARDWARE, hardware=[(3, 9)])
        self.refused(device.REQUIRES_NEWER, requires=(1, 0, 1))
        self.refused(device.WRONG_FORMAT, image_format=1)
        self.refused(device.TOO_LARGE, identity={"largest_image": 4})
        self.refused(device.BATTERY_LOW, battery=50, identity={"battery": 49})
        self.refused(device.UNTRUSTED, damage=lambda data: data.__setitem__(16, 9))
        self.refused(device.MALFORMED, damage=lambda data: data.__setitem__(4, 2))

    def test_counter(self):
        self.make()
        self.device.flash.mark(running={"version": "1.0.0", "counter": 5, "manifest": None})
        data = bundle.split(bundle.bundle(b"image", "demo", "1.1.0", counter=4))[0]
        self.begin(1, data)
        self.send(data, 0)
        self.ask(device.FINISH, status=device.COUNTER_TOO_LOW)


class Trial(Bench):
    image = b"new image"
    envelope = bundle.split(bundle.bundle(image, "demo", "2.0.0", counter=2))[0]

    def updated(self, **identity):
        self.make(**identity)
        self.device.flash.mark(running={"version": "1.0.0", "counter": 1, "manifest": None})
        self.accept(self.envelope)
        self.begin(2, self.image)
        self.send(self.image, 0)
        self.ask(device.FINISH)
        self.ask(device.APPLY, b"\0")
        self.clock.seconds += 2
        self.assertTrue(self.device.reboot_due())
        self.device.reboot()
        self.assertEqual((self.device.state, self.device.version()), (TRIAL, b"2.0.0"))

    def counter(self):
        return struct.unpack_from("<I", self.device.compose_info(), 3 + 2 + 4 + 4 + 2)[0]

    def test_confirmed(self):
        self.updated()
        self.assertEqual(self.counter(), 1)
        self.reconnect()
        self.assertEqual(self.device.state, TRIAL)
        self.ask(device.CONFIRM)
        self.assertEqual((self.counter(), self.device.state), (2, IDLE))
        self.device.reboot()
        self.assertEqual(self.device.version(), b"2.0.0")

    def test_ends_by_itself(self):
        self.updated(trial_seconds=30)
        self.clock.seconds += 29
        self.assertFalse(self.device.reboot_due())
        self.clock.seconds += 2
        self.assertTrue(self.device.reboot_due())
        self.device.reboot()
        self.assertEqual((self.device.state, self.device.version(), self.counter()), (IDLE, b"1.0.0", 1))
        self.accept(self.envelope)
        self.assertEqual(self.begin(2, self.image)[1], len(self.image))
        self.ask(device.FINISH)

    def test_discarded(self):
        self.updated()
        self.ask(device.DISCARD)
        self.device.disconnected()
        self.assertTrue(self.device.reboot_due())
        self.device.reboot()
        self.assertEqual((self.device.version(), self.device.held), (b"1.0.0", None))

    def test_busy_until_the_self_test_has_passed(self):
        self.updated(self_test_seconds=5)
        self.ask(device.CONFIRM, status=device.BUSY)
        self.clock.seconds += 5
        self.ask(device.CONFIRM)

    def test_refused_in_trial(self):
        self.updated()
        for opcode in (device.BEGIN, device.SYNC, device.FINISH, device.APPLY):
            self.ask(opcode, status=device.BAD_STATE)


class Requests(Bench):
    def test_lengths_and_opcodes(self):
        self.make()
        self.ask(9, status=device.UNKNOWN_OPCODE)
        self.ask(device.BEGIN, b"\1", device.BAD_ARGUMENT)
        self.ask(device.SYNC, b"\0\0", device.BAD_STATE)
        self.ask(device.BEGIN, struct.pack("<BII8s", 1, 157, 0, bytes(8)), device.BAD_ARGUMENT)
        self.ask(device.BEGIN, struct.pack("<BII8s", 1, 1333, 0, bytes(8)), device.BAD_ARGUMENT)
        self.begin(1, bytes(158))
        self.ask(device.SYNC, b"\0", device.BAD_ARGUMENT)
        self.ask(device.FINISH, status=device.BAD_STATE)
        self.ask(device.IDENTIFY, b"\5")
        self.assertEqual(self.device.blinking, 5)


if __name__ == "__main__":
    unittest.main()


class BuffersTests(unittest.IsolatedAsyncioTestCase):
    """smp_buffers.py, with the answers that a real Zephyr server gave (4 buffers)."""

    async def asyncSetUp(self):
        self.sent, self.gate = [], asyncio.Event()
        self.buffers = SMPBuffers(4, 64, False, self.ask, self.notify)
        self.serving = asyncio.ensure_future(self.buffers.serve())

    async def asyncTearDown(self):
        self.serving.cancel()

    async def ask(self, packet):
        return b"answer " + packet

    async def notify(self, packet):
        await self.gate.wait()
        self.sent.append(packet)

    async def burst(self, count):
        for number in range(count):
            self.buffers.write(bytes([2, 0, 0, 0, 0, 1, number, 1]))
        self.gate.set()
        await asyncio.sleep(0.01)
        return [packet[:6] == b"answer" for packet in self.sent]

    async def test_answers_one_packet_less_than_it_has_buffers(self):
        self.assertEqual(await self.burst(3), [True] * 3)
        self.assertEqual((self.buffers.free, self.buffers.dropped, self.buffers.refused), (4, 0, 0))

    async def test_answers_the_first_of_four_packets_without_memory(self):
        self.assertEqual(await self.burst(4), [False] + [True] * 3)
        self.assertEqual(self.sent[0][:8], bytes([3, 0, 0, 6, 0, 1, 0, 1]))

    async def test_drops_the_fifth_packet(self):
        self.assertEqual(await self.burst(5), [False] + [True] * 3)
        self.assertEqual((self.buffers.free, self.buffers.dropped), (4, 1))

    async def test_keeps_two_buffers_until_the_answer_is_sent(self):
        self.buffers.write(bytes(8))
        await asyncio.sleep(0.01)
        self.assertEqual(self.buffers.free, 2)
        self.buffers.disconnected()
        self.gate.set()
        await asyncio.sleep(0.01)
        self.assertEqual(self.buffers.free, 4)
