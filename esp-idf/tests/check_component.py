"""Checks the ESP-IDF component without ESP-IDF: check_component.py. scripts/test-esp-idf runs it.

The options with Espressif's Kconfig parsers and a stub of NimBLE's options, the package that Espressif's component manager creates, the
CMake file with stubs of ESP-IDF's functions, and the example.
"""

import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import esp_kconfiglib
from idf_component_manager.core import ComponentManager
from idf_component_tools.manager import ManifestManager

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPONENT = ROOT / "esp-idf"
OTHERS = ["CHANGELOG.md", "CMakeLists.txt", "Kconfig", "LICENSE", "README.md", "esp-idf/.clang-format", "esp-idf/CMakeLists.txt",
          "esp-idf/Kconfig.in", "idf_component.yml", "zephyr/keys.py"]
FOLDERS = ["Sources/Device/COTADevice", "Sources/Device/COTAEd25519", "esp-idf/include", "esp-idf/src"]


def fail(text):
    sys.exit(f"check_component: {text}")


def options(parser, lines=""):
    """Returns the options of the example, with additional lines."""
    config = esp_kconfiglib.Kconfig(str(COMPONENT / "tests/kconfig/Kconfig"), warn_to_stderr=False, parser_version=parser)
    with tempfile.NamedTemporaryFile("w", suffix=".defaults") as file:
        own = re.findall(r"^CONFIG_OTAFLASH.*\n", (COMPONENT / "example/sdkconfig.defaults").read_text(), re.M)
        file.write("".join(own) + lines)
        file.flush()
        config.load_config(file.name, replace=False)
    if config.warnings:
        fail("\n".join(config.warnings))
    return config


def check_options():
    os.environ["COMPONENT"] = str(ROOT)
    if re.search(r"^\s*int \".*\"\n(?!\s*range )", (COMPONENT / "Kconfig.in").read_text(), re.M):
        fail("Kconfig.in: a number has no range")
    for parser in (1, 2):
        config = options(parser)
        if config.syms["OTAFLASH_KEYS"].str_value != "release.pub.pem" or config.syms["OTAFLASH_WINDOW"].str_value != "16":
            fail("the options of the example do not have their values")
        secure = "CONFIG_OTAFLASH_AUTHENTICATED=y\n"
        for lines, value in ((secure, "n"), ("CONFIG_BT_NIMBLE_SM_LEGACY=n\n" + secure, "y")):
            if options(parser, lines).syms["OTAFLASH_AUTHENTICATED"].str_value != value:
                fail("CONFIG_OTAFLASH_AUTHENTICATED does not require LE Secure Connections without legacy pairing")
        sources = "".join(path.read_text() for path in [*COMPONENT.glob("src/*"), COMPONENT / "CMakeLists.txt"])
        for name in set(re.findall(r"CONFIG_(OTAFLASH\w*)", sources)):
            if not config.syms.get(name) or not config.syms[name].nodes:
                fail(f"CONFIG_{name} is used, but not in Kconfig")


def packed(archive):
    with tarfile.open(archive) as file:
        return {os.path.normpath(member.name) for member in file.getmembers() if member.isfile()}


def check_package():
    expected = set(OTHERS) | {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.[ch]")}
    example = {str(path.relative_to(ROOT)) for path in (COMPONENT / "example").rglob("*")
               if path.is_file() and not {"build", "managed_components"} & set(path.parts)}
    with tempfile.TemporaryDirectory() as checkout, tempfile.TemporaryDirectory() as folder:
        # The files of a checkout: the manager would also walk through the outputs of the build.
        for name in subprocess.check_output(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], text=True).splitlines():
            target = pathlib.Path(checkout) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copy(ROOT / name, target)
        ComponentManager(path=checkout).pack_component(name="otaflash", version=None, dest_dir=folder)
        archives = {path.name: packed(path) for path in pathlib.Path(folder).glob("*.tgz")}
    version = re.search(r'^version: "(.*)"', (ROOT / "idf_component.yml").read_text(), re.M)[1]
    if archives.get(f"otaflash_{version}.tgz") != expected | example:
        fail(f"idf_component.yml: wrong files: {archives.get(f'otaflash_{version}.tgz', set()) ^ (expected | example)}")
    released = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    if version != released:
        fail(f"idf_component.yml has version {version}, and CHANGELOG.md {released}")


def number(text):
    return int(text, 0)


def check_example():
    rows = [[cell.strip() for cell in row] for row in csv.reader((COMPONENT / "example/partitions.csv").read_text().splitlines())
            if row and not row[0].startswith("#")]
    end = 0x9000
    for name, kind, _, offset, size, _ in rows:
        if number(offset) != end or (kind == "app" and number(offset) % 0x10000):
            fail(f"partitions.csv: {name} has a wrong offset")
        end += number(size)
    sizes = {row[0]: number(row[4]) for row in rows}
    if end > 4 << 20 or sizes["otaflash"] != 0x2000 or sizes["ota_0"] != sizes["ota_1"]:
        fail("partitions.csv: wrong sizes")
    manifest = ManifestManager(str(COMPONENT / "example/main/idf_component.yml"), "main").load()
    paths = [COMPONENT / "example/main" / requirement.path for requirement in manifest.raw_requirements if requirement.name == "otaflash"]
    if [path.resolve() for path in paths] != [ROOT]:
        fail("idf_component.yml of the example does not name this component")
    source = (COMPONENT / "example/main/main.c").read_text()
    if len(source.splitlines()) > 28:
        fail("main.c of the example has more than 28 lines")
    # Without GAP service, the device has no mandatory services. Without a name in it, BlueZ renames the device to "nimble".
    calls = [source.find(f"{name}(") for name in ("nvs_flash_init", "nimble_port_init", "ble_svc_gap_init", "ble_svc_gatt_init",
                                                 "ble_svc_gap_device_name_set", "otaflash_start", "nimble_port_freertos_init")]
    if -1 in calls or calls != sorted(calls):
        fail("main.c of the example lacks a call, or calls in another order")
    if not re.fullmatch(r"\d+\.\d+\.\d+\n", (COMPONENT / "example/version.txt").read_text()):
        fail("version.txt of the example is not a version")


def check_cmake():
    with tempfile.TemporaryDirectory() as folder:
        def build(keys):
            configured = subprocess.run(["cmake", "-S", COMPONENT / "tests/cmake", "-B", folder, f"-DKEYS={keys}"],
                                        capture_output=True, text=True)
            if configured.returncode != 0:
                fail(configured.stderr)
            return subprocess.run(["cmake", "--build", folder], capture_output=True, text=True)

        built = build("rfc8032.pub.pem rfc8032-2.pub.pem")
        if built.returncode != 0 or not (pathlib.Path(folder) / "libotaflash.a").exists():
            fail(built.stderr)
        # A wrong key and a missing key stop the build, and not the configuration: menuconfig must work.
        for keys, message in (("missing.pem", "missing.pem"), ("", "otaflash: no trusted key")):
            built = build(keys)
            if built.returncode == 0 or message not in built.stderr:
                fail(f"CMakeLists.txt accepts the keys '{keys}': {built.stderr}")


check_options()
check_package()
check_example()
check_cmake()
print("ok      Kconfig, idf_component.yml, CMakeLists.txt, the example")
