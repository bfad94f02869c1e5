"""The images of the tests: the firmware of the servers with other versions, keys and sizes, signed with imgtool."""

import struct
import subprocess
import sys
import threading
from pathlib import Path

IMGTOOL = str(Path(sys.executable).with_name("imgtool"))
NEW = "1.1.0"


def body(path):
    """Returns the firmware without MCUboot's header and TLVs."""
    data = path.read_bytes()
    header, _, size = struct.unpack_from("<HHI", data, 8)
    return data[header:header + size]


class Images:
    def __init__(self, folder):
        self.folder, self.lock = folder, threading.Lock()
        folder.mkdir()
        for key in ("release", "other"):
            self.imgtool("keygen", "--key", folder / f"{key}.pem", "--type", "ed25519")
        self.trusted = folder / "release.pub.pem"
        self.imgtool("getpub", "--key", folder / "release.pem", "--encoding", "pem", "--output", self.trusted)

    def imgtool(self, *words):
        done = subprocess.run([IMGTOOL, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, f"imgtool failed: {done.stdout}{done.stderr}"

    def sign(self, description, key="release", size=None):
        """Returns the path of the server's firmware as version 1.1.0; with a size, padded so that the image has this size or more."""
        signed = self.folder / f"{description.image.stem}-{key}-{size}.bin"
        with self.lock:
            if signed.exists():
                return signed
            plain = self.folder / "body"
            plain.write_bytes(body(description.image).ljust(size or 0, b"\x55"))
            load = ["--load-addr", "0x20240000"] if description.has_recovery else []
            self.imgtool(
                "sign", "--key", self.folder / f"{key}.pem", "--version", NEW, "--header-size", "0x200", "--pad-header", "--align", 4,
                "--slot-size", 2 * description.slot_size, *load, plain, signed
            )
        return signed
