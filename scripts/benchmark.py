"""Measures the otaflash binary that the argument names, and prints Markdown. scripts/benchmark calls it."""

import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
IMAGE_BYTES = 512 * KIB

binary = Path(sys.argv[1]).resolve()
memory = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
work = Path(tempfile.mkdtemp(prefix="otaflash-benchmark-", dir=memory))
environment = {**os.environ, "OTAFLASH_STATE_DIR": str(work / "devices"), "XDG_RUNTIME_DIR": str(work)}


def run(*command):
    """Runs a command that must succeed, and returns its standard output."""
    done = subprocess.run(
        [str(word) for word in command], cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"benchmark: {' '.join(map(str, command))} ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def milliseconds(*command):
    begun = time.perf_counter()
    run(*command)
    return 1000 * (time.perf_counter() - begun)


def image(name, size):
    """Writes an image of pseudo-random bytes, the same on every machine. Returns its name."""
    blocks = (hashlib.sha256(number.to_bytes(4, "little")).digest() for number in range((size + 31) // 32))
    (work / name).write_bytes(b"".join(blocks)[:size])
    return name


def sign(name, bundle, version="1.0.0"):
    return (
        binary, "sign", name, "--key", "bench.pem", "--product", "bench", "--version", version, "-o", bundle, "--quiet",
    )


def create():
    """Creates a new device."""
    shutil.rmtree(work / "devices", ignore_errors=True)
    run(binary, "simulate", "create", "bench", "--product", "bench", "--version", "0.0.0", "--trust", "bench.pub.pem")


def send(bundle, *options, **link):
    """Updates the device over a link with the given settings, in virtual time. Returns the figures of the transfer."""
    query = "&".join(f"{name.replace('_', '-')}={value}" for name, value in {"pace": "virtual", **link}.items())
    result = run(
        binary, "push", bundle, "--trust", "bench.pub.pem", "--device", f"sim:bench?{query}", "--format", "json",
        "--progress", "none", *options,
    )
    return json.loads(result)["transfer"]


def push(**link):
    """Sends an image to a new device."""
    create()
    return send("bench.otaf", "--plain", **link)


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def rate(figures):
    return f"{figures['bytes_per_second'] / 1000:.1f}"


def throughput():
    print(f"## Throughput\n\nAn image of {IMAGE_BYTES // KIB} KiB is sent to the virtual device over a simulated link, in virtual time. 1 kB/s is 1000")
    print("bytes per second. The bound is the capacity of the link without loss: packets per event × 251 bytes, less 7 for each value, per interval.\n")
    links = [(interval, packets) for interval in ("15", "30", "50") for packets in (2, 4, 6)] + [("7.5", 2), ("7.5", 3)]
    rows = []
    for interval, packets in links:
        for mtu in (247, 498):
            link = {"interval": f"{interval}ms", "per_event": packets, "mtu": mtu}
            clean, lossy = push(**link), push(**link, loss=0.05)
            bound = clean["link_bound_bytes_per_second"]
            rows.append((
                f"{interval} ms", packets, mtu, f"{bound / 1000:.1f}", rate(clean), f"{100 * clean['efficiency']:.1f} %",
                rate(lossy), f"{100 * lossy['efficiency']:.1f} %",
            ))
    table(("interval", "packets", "MTU", "bound, kB/s", "reached, kB/s", "of the bound", "with 5 % loss, kB/s", "of the bound"), rows)
    small = push(interval="15ms", per_event=6, mtu=23)
    bound = small["link_bound_bytes_per_second"]
    print(f"MTU 23, 15 ms, 6 packets: {rate(small)} kB/s of {bound / 1000:.1f} kB/s, {100 * small['efficiency']:.1f} %. "
          "A packet then carries a value of only 20 bytes, but the bound assumes full packets.\n")


def alternated(rounds, *commands, output=None):
    """Runs the commands in turn, and returns the median time of each. The first round does not count.

    The output file of the previous round is deleted before each round, so that no command spends time to free the memory of this file.
    """
    times = [[] for _ in commands]
    for number in range(rounds + 1):
        if output:
            (work / output).unlink(missing_ok=True)
        for command, kept in zip(commands, times):
            taken = milliseconds(*command)
            if number > 0:
                kept.append(taken)
    return [statistics.median(kept) for kept in times]


def processes():
    print("## Signing, starting, size\n\nThe values are medians of whole processes, with files in memory. The commands ran in turn.\n")
    rows = []
    for size in (1, 16):
        name, bundle = image(f"large-{size}.bin", size * MIB), f"large-{size}.otaf"
        run(*sign(name, bundle))
        signing, verifying, copying, digest = alternated(
            15, sign(name, "again.otaf"), (binary, "verify", bundle, "--trust", "bench.pub.pem", "--quiet"),
            ("cp", name, "copy.bin"), ("openssl", "dgst", "-sha256", name), output="again.otaf",
        )
        usual = copying + digest
        rows += (
            (f"`cp` and then `openssl dgst -sha256`, {size} MiB", f"{copying:.1f} ms + {digest:.1f} ms"),
            (f"`otaflash sign`, {size} MiB", f"{signing:.1f} ms, {signing / usual:.2f} × `cp` and `openssl dgst`"),
            (f"`otaflash verify`, {size} MiB", f"{verifying:.1f} ms, {verifying / usual:.2f} × `cp` and `openssl dgst`"),
        )
    (starting,) = alternated(20, (binary, "--version"))
    stripped = work / "stripped"
    run("strip", "-o", stripped, binary)
    image("huge.bin", 64 * MIB)
    most = peak(*sign("huge.bin", "huge.otaf"))
    table(("measurement", "value"), (
        *rows,
        ("`otaflash --version`", f"{starting:.1f} ms"),
        ("the binary, stripped", f"{stripped.stat().st_size / MIB:.1f} MiB"),
        ("peak memory of `otaflash sign`, 64 MiB", f"{most / MIB:.1f} MiB"),
    ))


def encodings(image, base):
    """Returns the bytes of the compressed image and of the delta."""
    result = json.loads(run(binary, "inspect", image, "--base", base, "--format", "json"))
    return [encoding["bytes"] for encoding in result["encodings"]]


def program(name, size, changed):
    """Writes an image that compresses to 60 %, as machine code does. Returns its name.

    It has repeated words of 2 to 24 bytes, and bytes that are not repeated between them. With `changed`, one word in 12 is another one.
    """
    numbers = (hashlib.sha256(number.to_bytes(4, "little")).digest() for number in range(1 << 20))
    words = [next(numbers)[: 2 + number % 23] for number in range(2048)]
    contents = bytearray()
    for place, digest in enumerate(numbers):
        if len(contents) >= size:
            break
        index = int.from_bytes(digest[:2], "little")
        contents += words[(index + (changed and place % 12 == 0)) % len(words)]
        # Half of the words are followed by bytes that are not repeated, such as an address.
        contents += digest[2:18] if digest[18] < 140 else b""
    (work / name).write_bytes(contents[:size])
    return name


def peak(*command):
    """Returns the peak memory of a command in bytes."""
    run("/usr/bin/time", "-f", "%M", "-o", "peak", *command)
    return int((work / "peak").read_text().split()[-1]) * KIB


def encoding():
    print("## Encoded images\n\nThe parts are the bytes that push sends, in per cent of the plain image. The last column is our goal.\n")
    samples = Path(__file__).resolve().parents[1] / "firmware-samples"
    first, fix, feature = (samples / f"acme-gateway-{version}.bin" for version in ("1.0.0", "1.0.1", "1.1.0"))
    rows = []
    for name, image, base, goal in (
        ("fix (acme-gateway 1.0.0 → 1.0.1)", fix, first, 3), ("feature (acme-gateway 1.0.0 → 1.1.0)", feature, first, 15),
        ("the unchanged image", first, first, 0.3),
    ):
        size, (compressed, delta) = image.stat().st_size, encodings(image, base)
        rows.append((name, f"{100 * delta / size:.2f} %", f"{goal} %"))
    rows.append(("compressed, without a base (acme-gateway 1.0.0)", f"{100 * compressed / size:.1f} %", "63 %"))
    table(("image", "part", "goal: at most"), rows)
    print(f"An update of {IMAGE_BYTES // KIB} KiB, as machine code, to the virtual device. An empty cell for the flash: writing takes no time.\n")
    for name, changed, version in (("first", False, "1.0.0"), ("second", True, "1.1.0")):
        run(*sign(program(f"{name}.bin", IMAGE_BYTES, changed), f"{name}.otaf", version))
    rows = []
    for interval, packets, flash in (("50", 2, None), ("15", 2, None), ("15", 6, None), ("50", 2, 32), ("15", 6, 32)):
        link, seconds = {"interval": f"{interval}ms", "per_event": packets, "mtu": 247, **({"flash": flash} if flash else {})}, None
        for form, options in (("plain", ("--plain",)), ("compressed", ()), ("delta", ("--base", "first.otaf"))):
            create()
            send("first.otaf", interval="7.5ms")
            figures = send("second.otaf", *options, **link)
            seconds = seconds or figures["seconds"]
            rows.append((
                f"{interval} ms", packets, f"{flash} kB/s" if flash else "", form, f"{figures['sent_bytes'] / 1000:.1f}", f"{figures['seconds']:.2f}",
                f"{seconds / figures['seconds']:.2f} ×", f"{100 * figures['efficiency']:.1f} %",
            ))
    table(("interval", "packets", "flash", "form", "sent, kB", "seconds", "speed-up", "of the link's bound"), rows)
    old, new = program("old.bin", MIB, False), program("new.bin", MIB, True)
    plain, encoded = (binary, "inspect", new), (binary, "inspect", new, "--base", old)
    without, taken = alternated(5, plain, encoded)
    table(("measurement", "value"), (
        ("compress 1 MiB and make a delta from 1 MiB, both", f"{taken - without:.0f} ms"),
        ("peak memory of these, more than without", f"{(peak(*encoded) - peak(*plain)) / MIB:.1f} MiB"),
    ))


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main():
    try:
        run(binary, "keygen", "bench")
        run(*sign(image("bench.bin", IMAGE_BYTES), "bench.otaf"))
        openssl = run("openssl", "version").split("(")[0].strip()
        print(f"Measured with {run(binary, '--version').strip()} on {os.cpu_count()} × {processor()}, Linux {platform.release()}, {openssl}.\n")
        throughput()
        encoding()
        processes()
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
