"""The tools of a case: the air, bluetoothd, devices on the air, and otaflash."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import bluez
import bundle
from air import air
from bleak_loop import noise
from cases import Skip, quiet

HERE = Path(__file__).resolve().parent
PASSKEY = 123456


def until(condition, seconds, what):
    """Waits until the condition returns a true value, and returns that value."""
    end = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        assert time.monotonic() < end, f"not reached within {seconds} s: {what}"
        time.sleep(0.05)


class Lines:
    """Collects a process's output line by line as it arrives."""

    def __init__(self, stream, name, heard):
        self.lines, self.times, self.found, self.name, self.heard = [], [], [], name, heard
        self.thread = threading.Thread(target=self.read, args=(stream,), daemon=True)
        self.thread.start()

    def read(self, stream):
        for line in stream:
            now = time.monotonic()
            self.times.append(now)
            self.lines.append(line.rstrip("\n"))
            if line.startswith("{"):
                with suppress(ValueError):
                    self.found.append((now, json.loads(line)))
                    self.heard(self.found[-1][1])
            if '"event":"progress"' not in line:
                print(f"{self.name} {line}", end="", flush=True)

    def text(self):
        self.thread.join(5)
        return "\n".join(self.lines)

    def when(self, part):
        """Returns the arrival times of the lines that contain this part."""
        return [when for when, line in zip(self.times, self.lines) if part in line]

    def objects(self):
        """Returns [(arrival time, object)] of the lines that are JSON objects."""
        return list(self.found)


class Process:
    def __init__(self, words, name, stdin=subprocess.DEVNULL, **more):
        print(f"$ {' '.join(map(str, words))}", flush=True)
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            **more,
        )
        self.out = Lines(self.process.stdout, f"{name}>", self.heard)
        self.err = Lines(self.process.stderr, f"{name}!", self.heard)

    def heard(self, it):
        """Receives each JSON object as soon as the process prints it."""

    def wait(self, seconds):
        """Returns the exit code. If a signal ended the process, this is the exit code that a shell reports."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (code := self.process.poll()) is not None:
                return code if code >= 0 else 128 - code
            time.sleep(0.01)
        self.process.kill()
        raise AssertionError(f"the process did not end within {seconds} s")

    def signal(self, number):
        self.process.send_signal(number)

    @property
    def running(self):
        return self.process.returncode is None


class Push(Process):
    """A running otaflash push."""

    def __init__(self, words, environment):
        self.processor = {}  # processor seconds when a phase began
        super().__init__([*words, "--format", "json", "--progress", "json"], "push", env=environment)

    def heard(self, it):
        if it.get("event") == "phase":
            with suppress(OSError):  # the process has already ended
                fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
                self.processor[it["phase"]] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def events(self, name):
        return [(when, it) for when, it in self.err.objects() if it.get("event") == name]

    def offset(self):
        """Returns the (offset, total) that the transfer reported last."""
        told = [it for _, it in self.events("progress") if it.get("phase") == "transfer"]
        return (told[-1]["offset"], told[-1]["total"]) if told else (0, 0)

    def reach(self, part, seconds=40):
        """Waits until this part (0..1) of the image is acknowledged."""

        def reached():
            assert self.process.poll() is None, "push ended before this part was acknowledged"
            offset, total = self.offset()
            return total and offset >= part * total

        until(reached, seconds, f"{part:.0%} of the image; {self.offset()}")
        return self.offset()[0]

    def done(self, exit_code=0, seconds=120):
        """Returns the JSON answer of a push that must end with this exit code."""
        code = self.wait(seconds)
        text = self.out.text()
        self.err.text()
        assert code == exit_code, f"exit code {code}, expected {exit_code}"
        answer = json.loads(text)
        assert answer["exit"] == code and answer["ok"] == (code == 0), answer
        return answer


class Device:
    """A device on hci1 that can be killed and restarted."""

    def __init__(self, lab, words, name):
        self.lab, self.words, self.name = lab, words, name

    def start(self):
        self.process = Process(self.words, self.name, env=self.lab.environment)
        self.wait_ready()
        return self

    def kill(self):
        self.process.signal(signal.SIGKILL)
        self.process.wait(5)

    def stop(self):
        if self.process.running and self.process.process.poll() is None:
            self.process.signal(signal.SIGTERM)
            self.process.wait(10)


class Bumble(Device):
    def __init__(self, lab, *options, name="Bumble", **more):
        self.folder = Path(more.pop("state", lab.folder / "bumble"))
        words = [sys.executable, HERE / "peripheral_bumble.py", "--name", name, *options]
        for option, value in {"state": self.folder, "trust": lab.public, **more}.items():
            words += [f"--{option.replace('_', '-')}", value]
        super().__init__(lab, [str(word) for word in words], name)

    def events(self, name):
        return [it for _, it in self.process.out.objects() if it["event"] == name]

    def wait_ready(self):
        self.address = until(lambda: self.events("ready"), 20, "the Bumble device is ready")[0]["address"]

    def arrivals(self):
        """Returns the counts of the values on Data in the last connection."""
        return until(lambda: self.events("disconnected"), 10, "the connection has ended")[-1]["data"]

    def assert_confirmed(self, version):
        marks = json.loads((self.folder / "marks").read_text())
        assert marks["running"]["version"] == version and marks["previous"] is None, marks
        assert not self.events("violation"), self.events("violation")


class Served(Device):
    """A program of this project that is a peripheral on hci1."""

    def wait_ready(self):
        def advertising():
            assert self.process.process.poll() is None, "serve has ended"
            return bluez.ask(lambda bus: bus.advertisements())

        until(advertising, 20, "an advertisement")
        objects = bluez.ask(lambda bus: bus.objects())
        self.address = objects["/org/bluez/hci1"][bluez.ADAPTER]["Address"]

    @property
    def lines(self):
        return self.process.out.lines


class Virtual(Served):
    """A virtual device of otaflash."""

    def __init__(self, lab, name="kitchen", *options):
        super().__init__(lab, [lab.binary, "simulate", "serve", name, "--adapter", "hci1", *options], name)

    def assert_confirmed(self, version):
        """Requires that the device reports this version as confirmed."""
        until(lambda: any(f"{version} is confirmed" in line for line in self.process.err.lines), 5, f"{version} is confirmed")


class Lab:
    def __init__(self, folder, figures):
        self.folder, self.figures = folder, figures
        self.binary = os.environ.get("OTAFLASH", "")
        self.stack = ExitStack()
        self.key = Ed25519PrivateKey.from_private_bytes(bundle.sha256(b"the radio lab's release key"))
        self.public = folder / "release.pub.pem"
        self.public.write_bytes(bundle.public_pem(self.key))
        for name in ("devices", "runtime", "config"):
            (folder / name).mkdir(mode=0o700)
        self.environment = {
            **os.environ, "OTAFLASH_STATE_DIR": str(folder / "devices"), "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "XDG_CONFIG_HOME": str(folder / "config"), "OTAFLASH_TRUST": str(self.public), "NO_COLOR": "1",
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def figure(self, text):
        self.figures.write(text + "\n")
        self.figures.flush()

    # ---- Air and bluetoothd

    def air(self, *words):
        """Changes the air, as `radio-air WORDS` does."""
        print(f"$ radio-air {' '.join(map(str, words))}", flush=True)
        air(*words)

    def count(self, what):
        """One of the air's counters, such as links (both ends counted) or lost, over all radios."""
        return sum(int(count) for count in re.findall(rf"{what} (\d+)", air("stats")))

    def bluetoothd(self, *words):
        print(f"$ radio-bluetoothd {' '.join(words)}", flush=True)
        quiet("radio-bluetoothd", *words)

    def exchange(self, mtu):
        """Restarts bluetoothd with this requested MTU for the rest of the case."""
        os.environ["RADIO_LAB_MTU"] = str(mtu)
        self.bluetoothd("stop")
        self.bluetoothd("start")

    def power(self, adapter, on):
        from dbus_fast import Variant

        print(f"{adapter} {'on' if on else 'off'}", flush=True)
        bluez.ask(lambda bus: bus.set(f"/org/bluez/{adapter}", bluez.ADAPTER, "Powered", Variant("b", on)))

    # ---- Devices

    def bumble(self, *options, **more):
        """Starts a device on Bumble. It stops when the case ends."""
        device = Bumble(self, *options, **more).start()
        self.stack.callback(device.stop)
        return device

    def bumbles(self, count, *options, first=1):
        """Starts this number of devices, on hci1 (or on the adapter with the number `first`) and further adapters. They stop when the case
        ends."""
        numbers = range(first, first + count)
        self.air("plug", first + count)
        for number in numbers:
            until(Path(f"/sys/class/bluetooth/hci{number}").exists, 10, f"hci{number}")
        devices = [
            Bumble(self, "--adapter", f"hci{number}", *options, name=f"Bumble {number}", state=self.folder / f"bumble-{number}")
            for number in numbers
        ]
        for device in devices:
            self.stack.callback(device.stop)
            device.start()
        return devices

    def virtual(self, name="kitchen", version="1.0.0", options=(), made_with=()):
        """Starts a virtual device of otaflash. It stops when the case ends."""
        self.create(*made_with, name=name, version=version)
        return self.serve(name, options)

    def serve(self, name, options=()):
        """Serves a virtual device that exists. It stops when the case ends."""
        device = Virtual(self, name, *options).start()
        self.stack.callback(device.stop)
        return device

    def create(self, *made_with, name="kitchen", version="1.0.0"):
        self.make("simulate", "create", name, "--product", "demo", "--version", version, "--trust", self.public, *made_with)

    def smp(self, *made_with):
        """Starts a virtual SMP device, with additional options for `simulate create`."""
        return self.virtual(made_with=("--protocol", "smp", *made_with))

    # ---- otaflash

    def need_otaflash(self):
        if not self.binary:
            raise Skip("otaflash is not built")

    def example(self, name):
        """Returns the path of a built program of Examples/."""
        folder = os.environ.get("OTAFLASH_EXAMPLES")
        if not folder:
            raise Skip("the examples are not built; run: scripts/examples --build")
        path = Path(folder) / name
        if not os.access(path, os.X_OK):
            raise Skip(f"{folder} has no program {name}")
        return path

    def serve_example(self, name, *words):
        """Starts a program of Examples/ that is a peripheral on hci1. It stops when the case ends."""
        device = Served(self, [self.example(name), *words, "--adapter", "hci1"], name).start()
        self.stack.callback(device.stop)
        return device

    def run_example(self, name, *words, exit_code=0, seconds=30):
        """Returns stdout and stderr of a program of Examples/ that must end with this exit code and release all BlueZ resources."""
        process = Process([self.example(name), *words], name, env=self.environment)
        code, out, err = process.wait(seconds), process.out.text(), process.err.text()
        assert code == exit_code, f"exit code {code}, expected {exit_code}"
        self.assert_nothing_left()
        return out, err

    def peer(self, device):
        """Starts a device of another program. It stops when the case ends."""
        device.start()
        self.stack.callback(device.stop)
        return device

    def bundle(self, size=256 << 10, version="2.0.0", image=None, **more):
        """Makes a bundle with `image`, or with `size` pseudo-random bytes."""
        path = self.folder / f"{version}-{size}.otaf"
        path.write_bytes(bundle.bundle(image or noise(size), more.pop("product", "demo"), version, keys=more.pop("keys", (self.key,)), **more))
        return path

    def mcuboot(self, size=512 << 10, version="2.0.0", key=None, options=()):
        """Makes and signs an MCUboot image of `size` bytes, with additional options for `sign`. The file name has version and size."""
        program, private = self.folder / "program.bin", self.folder / "key.pem"
        image = self.folder / f"{version}-{size}.signed.bin"
        image.unlink(missing_ok=True)
        program.write_bytes(noise(size))
        private.write_bytes(bundle.private_pem(key or self.key))
        private.chmod(0o600)
        self.make(
            "sign", "--as", "mcuboot", program, "--key", private, "--version", version, "--header-size", "0x200", "--pad-header",
            "-o", image, *options,
        )
        return image

    def make(self, *words):
        """Runs an otaflash command that prepares a case and must succeed."""
        made = subprocess.run(
            [self.binary, *map(str, words)], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr

    def push(self, path, device, *options):
        address = device if isinstance(device, str) else f"ble:{device.address}"
        return Push([self.binary, "push", path, "--device", address, *options], self.environment)

    def push_to(self, path, devices, *options, before=()):
        """Starts a push to several devices, after the addresses in `before`."""
        addresses = [*before, *(f"ble:{device.address}" for device in devices)]
        words = [word for address in addresses for word in ("--device", address)]
        return Push([self.binary, "push", path, *words, *options], self.environment)

    def otaflash(self, *words, exit_code=0, seconds=60):
        """Returns the JSON answer of a command that must end with this exit code and release all BlueZ resources."""
        process = Process([self.binary, *words, "--format", "json"], words[0], env=self.environment)
        code, text = process.wait(seconds), process.out.text()
        process.err.text()
        assert code == exit_code, f"exit code {code}, expected {exit_code}"
        self.assert_nothing_left()
        return json.loads(text)

    def run(self, *words, exit_code=0, seconds=60):
        """Returns the stdout of a command that must end with this exit code. None allows any exit code."""
        process = Process([self.binary, *words], words[0], env=self.environment)
        code = process.wait(seconds)
        assert exit_code in (code, None), f"exit code {code}, expected {exit_code}"
        return process.out.text()

    def assert_nothing_left(self, seconds=5):
        """Requires that an ended program has released its BlueZ resources on the central's adapter. Devices may still run."""
        left = None

        def clean():
            nonlocal left
            left = bluez.ask(lambda bus: bus.leftovers())
            return not left

        try:
            until(clean, seconds, "")
        except AssertionError:
            raise AssertionError(f"not released: {', '.join(left)}") from None
