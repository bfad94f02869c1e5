"""The tests. A test gets a running server, and raises an error if a result is wrong."""

import json
import os
import signal
import subprocess
import time

import client
import flash
from images import NEW

OLD = "0.0.0"
# The address of slot 1 of the server with a trial.
SECOND_SLOT = 0x22000
TESTS = []


def test(applies):
    """Adds a function to the tests. `applies` selects its servers."""
    def add(function):
        function.applies = applies
        TESTS.append(function)
        return function
    return add


def require(condition, text):
    if not condition:
        raise AssertionError(text)


class Bench:
    """A running server, and the commands that a test gives to it."""

    def __init__(self, server, otaflash, images):
        self.server, self.otaflash, self.images = server, otaflash, images
        self.transcript = []

    def command(self, *words):
        environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | {"HOME": str(self.server.folder)}
        # A serial port that stopped must not take the whole time of a failed update.
        command = [str(self.otaflash), *map(str, words), "--device", self.server.address, "--timeout", "90s", "--format", "json"]
        self.transcript.append("$ " + " ".join(command))
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.server.folder, env=environment, text=True, **pipes)

    def run(self, *words):
        """Runs a command. Returns its JSON, which also contains the exit code."""
        process = self.command(*words)
        try:
            output, messages = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            output, messages = process.communicate()
            self.transcript.append(output + messages)
            raise client.Silent("the command did not end within 120 s")
        self.transcript.append(f"{output}{messages}exit {process.returncode}")
        require(output.count("\n") == 1, f"stdout is not one line of JSON: {output!r}")
        result = json.loads(output)
        require(result["exit"] == process.returncode, f"the exit code is {process.returncode}, but the result has {result['exit']}")
        if result["exit"] == 75:
            raise client.Silent(f"{result['error']['code']}: {result['error']['message']}")
        return result

    def push(self, *words, key="release", size=None):
        return self.run("push", self.image(key, size), *self.options(*words))

    def options(self, *words):
        uploads_only = ["--upload-only"] if self.server.description.has_recovery and "--upload-only" not in words else []
        return ["--trust", self.images.trusted, *uploads_only, *words]

    def image(self, key="release", size=None):
        return self.images.sign(self.server.description, key, size)

    def succeeds(self, result, **expected):
        """Checks the members of a successful result."""
        require(result["exit"] == 0, f"exit {result['exit']}: {result.get('error')}")
        for name, value in expected.items():
            require(result[name] == value, f"{name} is {result[name]!r}, expected {value!r}")
        return result

    def fails(self, result, status, code):
        require((result["exit"], result["error"]["code"]) == (status, code), f"expected exit {status} and {code}: {result}")

    def lists(self, *expected):
        """Compares the image list with the expected images: slot, version, active and confirmed."""
        found = client.images(self.server)
        self.transcript.append(f"smpclient: {found}")
        short = [(slot, version, active, confirmed) for slot, version, _, active, confirmed in found]
        require(short == list(expected), f"the server has the images {short}, expected {list(expected)}")
        return found


def with_images(description):
    return description.has_images


def with_trial(description):
    return description.has_trial


def with_recovery(description):
    return description.has_recovery


def with_each_framing(description):
    """A server with serial recovery for each framing."""
    return description.has_recovery and "buf" not in description.config


RUNNING_OLD = (0, OLD, True, True)


@test(lambda description: True)
def status(bench):
    """The status has the version and the digest that smpclient reads. A server without the image group gets a clear refusal."""
    result = bench.run("status")
    if not bench.server.description.has_images:
        bench.fails(result, 76, "unsupported-device")
        return
    bench.succeeds(result)
    digest = bench.lists(RUNNING_OLD)[0][2]
    require(result["device"]["running_version"] == OLD, f"the running version is {result['device']['running_version']}")
    require([slot["sha256"] for slot in result["slots"]] == [digest], f"the digest is {result['slots']}, expected {digest}")


@test(lambda description: True)
def push(bench):
    """A push confirms its image, or uploads it if the server has no trial. The server then runs it, also after a further restart."""
    description = bench.server.description
    if not description.has_images:
        # Any image: the server refuses the image list.
        image = bench.images.any
        bench.fails(bench.run("push", image, "--trust", bench.images.trusted), 76, "unsupported-device")
    elif description.has_trial:
        result = bench.succeeds(bench.push(), outcome="confirmed")
        require(result["transfer"]["image_bytes"] == bench.image().stat().st_size, f"not all bytes were sent: {result['transfer']}")
        bench.lists((0, NEW, True, True))
        client.restart(bench.server)
        bench.lists((0, NEW, True, True))
        result = bench.succeeds(bench.push(), outcome="already-running")
        require(result["transfer"]["sent_bytes"] == 0, f"a second push sent bytes: {result['transfer']}")
    else:
        # Without --upload-only, otaflash refuses the server before it sends a byte: the server cannot mark an image.
        bench.fails(bench.run("push", bench.image(), "--trust", bench.images.trusted), 76, "unsupported-device")
        bench.lists(RUNNING_OLD)
        bench.succeeds(bench.push(), outcome="uploaded")
        bench.lists(RUNNING_OLD, (1, NEW, False, False))
        # MCUboot loads the image with the highest version.
        client.restart(bench.server)
        bench.lists((0, OLD, False, False), (1, NEW, True, True))


@test(with_images)
def resume(bench):
    """A push continues at the server's offset after kill -9."""
    received = bench.server.console.received
    size = bench.image().stat().st_size
    process = bench.command("push", bench.image(), *bench.options())
    # Base64 makes 4 bytes of 3.
    while process.poll() is None and bench.server.console.received - received < 0.5 * size * 4 / 3:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    output, messages = process.communicate()
    bench.transcript.append(f"{output}{messages}exit {process.returncode}")
    require(process.returncode == -signal.SIGKILL, "the push ended before it was killed")
    bench.server.console.plug()
    has_trial = bench.server.description.has_trial
    result = bench.succeeds(bench.push(), outcome="confirmed" if has_trial else "uploaded")
    resumed = result["transfer"]["resumed_from"]
    require(0.2 * size < resumed < 0.8 * size, f"the push resumed at {resumed} of {size} bytes")
    if has_trial:
        bench.lists((0, NEW, True, True))
    else:
        bench.lists(RUNNING_OLD, (1, NEW, False, False))
        client.restart(bench.server)
        bench.lists((0, OLD, False, False), (1, NEW, True, True))


@test(with_trial)
def rollback(bench):
    """An image that is not confirmed rolls back at the next restart, and discard rolls back at once. Only --erase erases an image."""
    bench.succeeds(bench.push("--no-confirm"), outcome="on-trial")
    bench.lists((0, NEW, True, False), (1, OLD, False, True))
    client.restart(bench.server)
    bench.lists(RUNNING_OLD, (1, NEW, False, False))
    result = bench.succeeds(bench.run("status"))
    require(result["device"]["running_version"] == OLD, f"the status is {result['device']}")
    bench.succeeds(bench.push("--no-confirm"), outcome="on-trial")
    bench.succeeds(bench.run("discard"))
    bench.lists(RUNNING_OLD, (1, NEW, False, False))
    bench.fails(bench.run("discard"), 77, "slot-holds-image")
    bench.lists(RUNNING_OLD, (1, NEW, False, False))
    bench.succeeds(bench.run("discard", "--erase"))
    bench.lists(RUNNING_OLD)


@test(with_trial)
def refused(bench):
    """MCUboot refuses an image that was damaged after the upload. The push reports the rollback, and the old image runs."""
    bench.succeeds(bench.push("--upload-only"), outcome="uploaded")
    bench.lists(RUNNING_OLD, (1, NEW, False, False))
    flash.overwrite(bench.server.folder, SECOND_SLOT + 0x1000, bytes(range(256)))
    bench.fails(bench.push(), 78, "rolled-back")
    bench.lists(RUNNING_OLD)


@test(with_images)
def wrong_key(bench):
    """An image by a key that is not trusted is refused, and the server does not receive a byte."""
    received = bench.server.console.received
    bench.fails(bench.push(key="other"), 77, "untrusted-key")
    require(bench.server.console.received == received, "the server received bytes")
    bench.lists(RUNNING_OLD)


@test(with_images)
def too_large(bench):
    """An image that is larger than the slot is refused before it is sent."""
    size = bench.server.description.slot_size
    received = bench.server.console.received
    bench.fails(bench.push(size=size), 77, "image-too-large")
    require(bench.server.console.received - received < 4096, "the server received a part of the image")
    bench.lists(RUNNING_OLD)


@test(with_trial)
def trailer(bench):
    """An image that fits in the slot, but not before the bootloader's trailer, is refused as too large."""
    bench.fails(bench.push(size=bench.server.description.slot_size - 1000), 77, "image-too-large")
    bench.lists(RUNNING_OLD)


@test(with_recovery)
def recovery(bench):
    """In MCUboot's serial recovery, a push replaces the only image, and the server runs it after the restart."""
    client.restart(bench.server, into_recovery=True)
    old = bench.lists((0, OLD, False, False))[0][2]
    result = bench.succeeds(bench.run("status"))
    require([slot["sha256"] for slot in result["slots"]] == [old], f"the digest is {result['slots']}, expected {old}")
    bench.succeeds(bench.push(), outcome="uploaded")
    bench.lists((0, NEW, False, False))
    client.restart(bench.server)
    bench.lists((0, NEW, True, True))


@test(with_each_framing)
def lossy(bench):
    """A push over a line that loses bytes in the middle of packets does not damage the image: the bootloader starts it."""
    client.restart(bench.server, into_recovery=True)
    bench.server.console.loss_interval = 50_021
    result = bench.succeeds(bench.push(), outcome="uploaded")
    bench.server.console.loss_interval = None
    require(result["transfer"]["gaps"] > 0, f"the line has lost no chunk: {result['transfer']}")
    client.restart(bench.server)
    bench.lists((0, NEW, True, True))
