"""The device's side of the GATT OTA profile, without a radio. It is written only from docs/ota-profile.md. So the radio lab's device
shares no code and no misreading of the specification with otaflash."""

import json
import os
import struct
import zlib
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import bundle

IDLE, ENVELOPE, ACCEPTED, IMAGE, VERIFIED, TRIAL = range(6)
BEGIN, SYNC, FINISH, APPLY, CONFIRM, DISCARD, IDENTIFY = range(1, 8)
OK, UNKNOWN_OPCODE, BAD_ARGUMENT, BAD_STATE, BUSY = range(5)
MALFORMED, CRITICAL_FIELD, UNTRUSTED, WRONG_PRODUCT, WRONG_HARDWARE, COUNTER_TOO_LOW = range(5, 11)
REQUIRES_NEWER, WRONG_FORMAT, TOO_LARGE, BATTERY_LOW, FLASH_FAILED, DIGEST_MISMATCH = range(11, 17)
STEP_BACK = 4096
PAGE = 4096


@dataclass
class Identity:
    """The fixed properties of the device."""

    product: str = "demo"
    hardware: int = 2
    image_format: int = 0
    largest_image: int = 1 << 20
    longest_value: int = 495
    window: int = 64
    restart_seconds: int = 10
    trial_seconds: int = 120
    keys: list = field(default_factory=lambda: [bundle.raw_public(bundle.EXAMPLE_KEY)])
    battery: int = None
    largest_envelope: int = 1332
    self_test_seconds: float = 0


class Flash:
    """A slot for the received image, and the boot marks, in memory or in a folder. In a folder, only durable data survives a kill."""

    def __init__(self, folder=None, version="1.0.0", counter=0):
        self.folder = folder and Path(folder)
        self.slot = bytearray()
        self.marks = {
            "running": {"version": version, "counter": counter, "manifest": None},
            "pending": None,  # the image to boot next, with or without a trial
            "trial": False,
            "previous": None,  # the image to roll back to, in a trial
            "held": None,  # {"manifest": hex, "offset"} of a partial upload
        }
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "slot").touch()
            if (self.folder / "marks").exists():
                self.marks = json.loads((self.folder / "marks").read_text())
                self.slot = bytearray((self.folder / "slot").read_bytes())

    def mark(self, **changes):
        """Makes all changes atomically."""
        self.marks.update(changes)
        if self.folder:
            new = self.folder / "marks.new"
            with open(new, "w") as file:
                json.dump(self.marks, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self.folder / "marks")

    def write(self, offset, data):
        """Erases a page before its first byte is written. A write to a page that is not erased is a bug of the device."""
        for position in range(offset, offset + len(data)):
            if position % PAGE == 0:
                self.slot[position : position + PAGE] = b"\xff" * PAGE
        assert self.slot[offset : offset + len(data)] == b"\xff" * len(data), "written without an erase"
        self.slot[offset : offset + len(data)] = data

    def persist(self, begin, end):
        if self.folder:
            with open(self.folder / "slot", "r+b") as file:
                file.seek(begin)
                file.write(self.slot[begin:end])
                file.flush()
                os.fsync(file.fileno())

    def read(self, begin, end):
        return bytes(self.slot[begin:end])


class Device:
    """Handles writes to Control and Data. `answers` has the notifications of Control, in order. `progress` is the newest notification
    of Progress, or None. `reboot_due()` is true when the device must reboot. `now` is a function that returns seconds."""

    def __init__(self, identity, flash, now):
        self.identity, self.flash, self.now = identity, flash, now
        self.begins_at_zero, self.last_begin = 0, 0.0
        self.violations = []  # the host's violations of the profile
        self.blinking = 0
        self.reboot()

    # ---- Start and restart

    def boot(self):
        self.started = self.now()
        self.reboot_at = None
        self.state = TRIAL if self.flash.marks["previous"] else IDLE
        held = self.flash.marks["held"]
        self.held = (bytes.fromhex(held["manifest"]), held["offset"]) if held else None
        self.connected()

    def connected(self):
        self.answers, self.progress = deque(), None
        self.next = self.told = 0
        self.manifest = self.object = None
        self.since_progress = 0
        self.info = self.compose_info()

    def disconnected(self):
        if self.state != TRIAL:
            self.state = IDLE
        if self.reboot_at is not None:
            self.reboot_at = self.now()
        self.connected()

    def reboot_due(self):
        if self.state == TRIAL and self.reboot_at is None and self.now() - self.started >= self.identity.trial_seconds:
            self.reboot_at = self.now()
        return self.reboot_at is not None and self.now() >= self.reboot_at

    def reboot(self):
        """Boots the image that the marks select, also after a power cut. Each reboot during a trial rolls back."""
        marks = self.flash.marks
        if marks["previous"]:
            self.flash.mark(running=marks["previous"], previous=None)
        elif marks["pending"]:
            trial = marks["trial"]
            self.flash.mark(
                running=marks["pending"], pending=None, previous=marks["running"] if trial else None, held=marks["held"] if trial else None
            )
        self.boot()

    # ---- Readable values

    def compose_info(self):
        it, running = self.identity, self.flash.marks["running"]
        good = self.flash.marks["previous"] or running
        values = [
            (1, b"\x01"),
            (2, it.product.encode()),
            (3, struct.pack("<H", it.hardware)),
            (4, struct.pack("<I", good["counter"])),
            (5, struct.pack("<BI", it.image_format, it.largest_image)),
            (6, struct.pack("<HH", it.longest_value, it.window)),
            (7, struct.pack("<HH", it.restart_seconds, it.trial_seconds)),
            (8, b"".join(bundle.key_id(key) for key in it.keys)),
        ]
        if running["manifest"]:
            values.append((9, bytes.fromhex(running["manifest"])[:8]))
        if self.held and self.state != TRIAL:
            values.append((10, self.held[0][:8] + struct.pack("<I", self.held[1])))
        if it.largest_envelope != 1332:
            values.append((12, struct.pack("<H", it.largest_envelope)))
        return b"".join(bytes([kind, len(value)]) + value for kind, value in values)

    def version(self):
        return self.flash.marks["running"]["version"].encode()

    def position(self):
        offset = self.offset if self.state in (ENVELOPE, IMAGE) else 0
        taken = b"" if not offset else bytes(self.object[:offset]) if self.state == ENVELOPE else self.flash.read(0, offset)
        return struct.pack("<HII", self.next, offset, zlib.crc32(taken))

    def read_progress(self):
        return bytes([self.state, OK]) + self.position()

    # ---- Data

    def write_data(self, value):
        if self.state not in (ENVELOPE, IMAGE) or len(value) < 3:
            return
        sequence, data = struct.unpack_from("<H", value)[0], value[2:]
        d = (sequence - self.next) % 65536
        if d >= 2048:
            return
        if len(value) > self.identity.longest_value:
            self.violations.append(f"a Data value of {len(value)} bytes")
        if (sequence - self.told) % 65536 >= self.identity.window:
            self.violations.append(f"chunk {sequence:#x} beyond the window after {self.told:#x}")
        if d or len(data) > self.size - self.offset:
            self.rewind()
            return
        self.next = (self.next + 1) % 65536
        self.take(data)
        self.since_progress += 1
        if self.since_progress >= max(1, self.identity.window // 4):
            self.tell()

    def take(self, data):
        if self.state == ENVELOPE:
            self.object += data
            self.offset += len(data)
            return
        before = self.offset
        self.flash.write(before, data)
        self.offset += len(data)
        self.held = (self.held[0], self.offset)
        whole = self.offset if self.offset == self.size else self.offset - self.offset % PAGE
        if whole > before - before % PAGE:
            self.flash.persist(before - before % PAGE, whole)
            self.record(whole)

    def record(self, offset):
        self.flash.mark(held={"manifest": self.held[0].hex(), "offset": offset})

    def rewind(self):
        self.next = (self.next + STEP_BACK) % 65536
        self.tell()

    def tell(self):
        self.since_progress, self.told = 0, self.next
        self.progress = self.read_progress()

    # ---- Control

    def write_control(self, request):
        if len(request) < 2:
            return
        opcode, tag, arguments = request[0], request[1], bytes(request[2:])
        if self.answers:
            self.violations.append(f"request {opcode} before the last one's answer")
        handler = {
            BEGIN: self.begin, SYNC: self.sync, FINISH: self.finish, APPLY: self.apply,
            CONFIRM: self.confirm, DISCARD: self.discard, IDENTIFY: self.identify,
        }.get(opcode)
        if not handler:
            status = UNKNOWN_OPCODE
        elif self.reboot_at is not None:
            status = BUSY
        else:
            status = handler(arguments)
        results = self.position() if status == OK and opcode in (BEGIN, SYNC) else b""
        if results:
            self.told = self.next
        self.answers.append(bytes([0x80 | opcode, tag, status]) + results)

    def begin(self, arguments):
        if self.state == TRIAL:
            return BAD_STATE
        if len(arguments) != 17 or arguments[0] not in (1, 2):
            return BAD_ARGUMENT
        kind, size, start, prefix = struct.unpack("<BII8s", arguments)
        return self.begin_envelope(size, prefix) if kind == 1 else self.begin_image(size, start, prefix)

    def opened(self, state, size, offset):
        self.state, self.size, self.offset = state, size, offset
        self.next = (self.next + STEP_BACK) % 65536
        self.since_progress = 0
        return OK

    def begin_envelope(self, size, prefix):
        if not 158 <= size <= self.identity.largest_envelope:
            return BAD_ARGUMENT
        self.object, self.prefix = bytearray(), prefix
        return self.opened(ENVELOPE, size, 0)

    def begin_image(self, size, start, prefix):
        if self.state not in (ACCEPTED, IMAGE, VERIFIED):
            return BAD_STATE
        if size != self.manifest.image_size or prefix != self.manifest.image_sha256[:8]:
            return BAD_ARGUMENT
        same = self.held and self.held[0] == self.name
        offset = min(start, self.held[1]) if same else 0
        if same and offset < self.held[1]:
            offset -= offset % PAGE
        if offset == 0:
            if self.begins_at_zero >= 3 and self.now() - self.last_begin < 60:
                return BUSY
            self.begins_at_zero, self.last_begin = self.begins_at_zero + 1, self.now()
        self.held = (self.name, offset)
        marks = self.flash.marks["held"]
        if not same or not marks or marks["offset"] > offset:
            self.record(offset)
        return self.opened(IMAGE, size, offset)

    def sync(self, arguments):
        if self.state not in (ENVELOPE, IMAGE):
            return BAD_STATE
        if len(arguments) != 2:
            return BAD_ARGUMENT
        if 1 <= (struct.unpack("<H", arguments)[0] - self.next) % 65536 <= 2047:
            self.rewind()
        return OK

    def finish(self, arguments):
        if self.state not in (ENVELOPE, IMAGE):
            return BAD_STATE
        if arguments:
            return BAD_ARGUMENT
        if self.offset != self.size:
            return BAD_STATE
        if self.state == ENVELOPE:
            status = self.check_envelope(bytes(self.object))
            self.state = ACCEPTED if status == OK else IDLE
            return status
        if bundle.sha256(self.flash.read(0, self.size)) != self.manifest.image_sha256:
            self.forget()
            self.state = ACCEPTED
            return DIGEST_MISMATCH
        self.begins_at_zero = 0
        self.state = VERIFIED
        return OK

    def check_envelope(self, envelope):
        it, marks = self.identity, self.flash.marks
        if bundle.sha256(envelope)[:8] != self.prefix:
            return DIGEST_MISMATCH
        try:
            covered, manifest, signatures = bundle.parse_envelope(envelope)
        except bundle.Malformed:
            return MALFORMED
        except bundle.UnknownCriticalField:
            return CRITICAL_FIELD
        if not bundle.trusted(covered, signatures, it.keys):
            return UNTRUSTED
        if manifest.product != it.product:
            return WRONG_PRODUCT
        if manifest.hardware and not any(low <= it.hardware <= high for low, high in manifest.hardware):
            return WRONG_HARDWARE
        if manifest.counter < marks["running"]["counter"]:
            return COUNTER_TOO_LOW
        if manifest.requires and bundle.numbers(marks["running"]["version"]) < manifest.requires:
            return REQUIRES_NEWER
        if manifest.image_format != it.image_format:
            return WRONG_FORMAT
        if manifest.image_size > it.largest_image:
            return TOO_LARGE
        if None not in (manifest.battery, it.battery) and it.battery < manifest.battery:
            return BATTERY_LOW
        self.manifest, self.name = manifest, bundle.sha256(covered)
        return OK

    def apply(self, arguments):
        if self.state != VERIFIED:
            return BAD_STATE
        if len(arguments) != 1 or arguments[0] > 1 or arguments[0] == 0 and self.identity.trial_seconds == 0:
            return BAD_ARGUMENT
        image = {"version": self.manifest.version, "counter": self.manifest.counter, "manifest": self.name.hex()}
        self.flash.mark(pending=image, trial=arguments[0] == 0)
        self.reboot_at = self.now() + 2
        return OK

    def confirm(self, arguments):
        if self.state != TRIAL:
            return BAD_STATE
        if arguments:
            return BAD_ARGUMENT
        if self.now() - self.started < self.identity.self_test_seconds:
            return BUSY
        self.held = None
        self.flash.mark(previous=None, held=None)
        self.state = IDLE
        return OK

    def discard(self, arguments):
        if arguments:
            return BAD_ARGUMENT
        self.forget()
        if self.state == TRIAL:
            self.reboot_at = self.now() + 2
        else:
            self.state = IDLE
        return OK

    def forget(self):
        self.held = None
        self.flash.mark(held=None)

    def identify(self, arguments):
        if len(arguments) != 1:
            return BAD_ARGUMENT
        self.blinking = arguments[0]
        return OK
