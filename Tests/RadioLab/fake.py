"""The fake that stands in for bluetoothd in the quick tests, held against the real one: the same tests, here on the real one."""

import os
import subprocess

from cases import Skip, case
from lab import HERE


@case(limit=420, otaflash=False)
def conformance(lab):
    """BlueZTests' ConformanceTests, which pass on the fake, on the real bluetoothd with a device on another stack."""
    tests = os.environ.get("OTAFLASH_TESTS")
    if not tests:
        raise Skip("no tests are built: swift build --build-tests")
    environment = {**os.environ, "RADIO_LAB_PERIPHERAL": str(HERE / "peripheral_bumble.py")}
    subprocess.run(
        [tests, "--testing-library", "swift-testing", "--no-parallel", "--filter", "ConformanceTests"], check=True, env=environment,
        stdin=subprocess.DEVNULL,
    )
