"""The servers of the package smpclient: how they start, and which features they have."""

import json
import re
import shlex
import shutil
import subprocess
import time

import flash
from console import Console

CONSOLE = re.compile(r"-chardev socket,id=con,\S+")
READY = re.compile(rb"smp_udp: Started|connected to pseudotty: (\S+)")


class Description:
    """A server in manifest.json."""

    def __init__(self, entry, folder):
        self.folder, self.artifact = folder, entry["artifact"]
        self.target, self.config = entry["target"], entry["config"]
        self.name = f"{self.target} {self.config}"
        self.command = entry["run"] or entry["qemu_cmd"]
        self.is_emulated = entry["qemu_cmd"] is not None
        self.is_udp = entry["transport"] == "udp"
        self.is_ipv6 = entry["ip_family"] == "ipv6"
        # The framing of the firmware, and of MCUboot's serial recovery.
        self.framing = self.recovery_framing = "console"
        if entry["transport"] == "serial_raw":
            self.framing, self.recovery_framing = "raw", "raw-cobs" if self.config.endswith("_cobs") else "raw"
        self.has_images = "img" in entry["groups"]
        self.has_recovery = entry["serial_recovery"]
        # MCUboot of the servers with serial recovery loads the image to RAM. The others swap the slots.
        self.has_trial = self.has_images and not self.has_recovery
        self.slot_size = 0x1A000 if self.target == "qemu_cortex_m0" else 0x80000

    @property
    def image(self):
        """The image that the server runs."""
        return self.folder / re.sub(r"\.(merged\.)?hex$", ".signed.bin", self.artifact)


def descriptions(folder):
    """Returns the servers that the package contains. manifest.json describes more of them."""
    entries = json.loads((folder / "manifest.json").read_text())
    return [Description(entry, folder) for entry in entries if (folder / entry["artifact"]).is_file()]


class Server:
    """A running server in a folder of its own, because some servers write files."""

    def __init__(self, description, folder):
        self.description, self.folder, self.console, self.path = description, folder, None, None
        self.framing = description.framing
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in description.folder.iterdir():
            if file.name == description.artifact and not description.is_emulated:
                shutil.copy(file, folder)
                (folder / file.name).chmod(0o755)
            elif file.suffix in (".hex", ".bin"):
                (folder / file.name).symlink_to(file)
        command = description.command
        if description.is_emulated:
            command = flash.without_loader(CONSOLE.sub("-chardev socket,id=con,path=console,server=on,wait=off", command))
        with open(folder / "output", "wb") as output:
            self.process = subprocess.Popen(
                shlex.split(command), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            self.await_start()
        except BaseException:
            self.close()
            raise

    def await_start(self):
        deadline = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < deadline:
            if self.description.is_emulated:
                try:
                    self.console = Console(self.folder / "console")
                    flash.start(self.description.command, self.folder)
                    return
                except (FileNotFoundError, ConnectionRefusedError):
                    pass
            elif found := READY.search(self.output):
                self.path = found.group(1) and found.group(1).decode()
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.description.name} did not start: {self.output.decode(errors='replace')}")

    @property
    def output(self):
        return (self.folder / "output").read_bytes()

    @property
    def port(self):
        """The path of the serial port."""
        return self.console.path if self.console else self.path

    @property
    def address(self):
        """The address of the device for otaflash."""
        if self.description.is_udp:
            return "udp:[::1]" if self.description.is_ipv6 else "udp:127.0.0.1"
        return f"serial:{self.port}" + ("" if self.framing == "console" else f"?framing={self.framing}")

    def close(self):
        if self.console:
            self.console.close()
        self.process.kill()
        self.process.wait()
