"""Runs the tests of the fake bluetoothd against the real bluetoothd."""

import os
import subprocess

from cases import Skip, case
from lab import HERE


@case(limit=420, otaflash=False)
def conformance(lab):
    """BlueZTests' ConformanceTests pass with the real bluetoothd and a device on another stack."""
    tests = os.environ.get("OTAFLASH_TESTS")
    if not tests:
        raise Skip("the tests are not built; run: swift build --build-tests")
    environment = {**os.environ, "RADIO_LAB_PERIPHERAL": str(HERE / "peripheral_bumble.py")}
    subprocess.run(
        [tests, "--testing-library", "swift-testing", "--no-parallel", "--filter", "ConformanceTests"], check=True, env=environment,
        stdin=subprocess.DEVNULL,
    )
