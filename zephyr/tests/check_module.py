"""Checks the Zephyr module without a Zephyr tree: check_module.py. scripts/test-zephyr runs it.

The options with a stub of Zephyr's Kconfig, the CMake file with stubs of Zephyr's functions, the files that module.yml and sample.yaml
name, and the header of keys.py.
"""

import base64
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import kconfiglib
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULE = ROOT / "zephyr"
# What the sample must get without a line of its own.
EXPECTED = {
    "FLASH": "y", "FLASH_MAP": "y", "STREAM_FLASH": "y", "IMG_MANAGER": "y", "REBOOT": "y", "SETTINGS": "y", "NVS": "y",
    "BT_USER_DATA_LEN_UPDATE": "y", "BT_USER_PHY_UPDATE": "y", "MBEDTLS": "y", "MBEDTLS_PSA_CRYPTO_C": "y",
    "ENTROPY_GENERATOR": "y", "BT_L2CAP_TX_MTU": "498", "BT_BUF_ACL_RX_SIZE": "502", "BT_CONN_PARAM_UPDATE_TIMEOUT": "1",
    "BT_RX_STACK_SIZE": "2200",
    "BT_PERIPHERAL_PREF_MIN_INT": "12", "BT_PERIPHERAL_PREF_MAX_INT": "12", "BT_PERIPHERAL_PREF_TIMEOUT": "400",
    # The default of `otaflash sign --counter`.
    "OTAFLASH_COUNTER": "0",
    "OTAFLASH": "y", "OTAFLASH_ED25519_OWN": "y", "OTAFLASH_STACK_SIZE": "8192", "OTAFLASH_WINDOW": "16",
}


def fail(text):
    sys.exit(f"check_module: {text}")


def options(lines=""):
    """Returns the configuration of the sample, with additional lines."""
    config = kconfiglib.Kconfig("Kconfig", warn_to_stderr=False)
    config.warn_assign_override = False
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write((MODULE / "sample/prj.conf").read_text() + lines)
        file.flush()
        config.load_config(file.name)
    if config.warnings:
        fail("\n".join(config.warnings))
    return config


def check_options():
    os.environ.update(srctree=str(MODULE / "tests/kconfig"), ZEPHYR_MODULE=str(MODULE))
    text = (MODULE / "Kconfig").read_text()
    if re.search(r"^\s*configdefault\b", text, re.M):
        fail("Kconfig: 'configdefault' is a syntax error in Zephyr 3.5")
    if re.search(r"^\s*int \".*\"\n(?!\s*range )", text, re.M):
        fail("Kconfig: a number has no range")
    config = options()
    for name, value in EXPECTED.items():
        if config.syms[name].str_value != value:
            fail(f"CONFIG_{name} is {config.syms[name].str_value}, not {value}")
    for line in ("CONFIG_BT_PHY_UPDATE=n\n", "CONFIG_BT_DATA_LEN_UPDATE=n\n", "CONFIG_MBEDTLS_PROMPTLESS=y\n"):
        if options(line).syms["OTAFLASH"].str_value != "y":
            fail(f"the module does not accept {line}")
    # Before Zephyr 3.6, only a module with a Kconfig file has an option ZEPHYR_..._MODULE, and MCUboot has no Kconfig file.
    if options("CONFIG_OTAFLASH_ED25519_MCUBOOT=y\n").syms["OTAFLASH_ED25519_MCUBOOT"].str_value != "y":
        fail("MCUboot's verifier cannot be chosen")
    if options("CONFIG_OTAFLASH=n\n").syms["BT_L2CAP_TX_MTU"].str_value != "23":
        fail("without CONFIG_OTAFLASH, the module changes other options")
    sources = "".join(path.read_text() for path in [*MODULE.glob("src/*"), MODULE / "CMakeLists.txt"])
    for name in set(re.findall(r"CONFIG_(OTAFLASH\w*)", sources)):
        if not config.syms.get(name) or not config.syms[name].nodes:
            fail(f"CONFIG_{name} is used, but not in Kconfig")
    for node in config.node_iter():
        if node.item in config.unique_defined_syms and node.item.name.startswith("OTAFLASH_") and not node.prompt:
            fail(f"{node.item.name} has no prompt")


def check_files():
    module = yaml.safe_load((MODULE / "module.yml").read_text())
    unknown = set(module) - {"name", "build", "samples"} or set(module["build"]) - {"cmake", "kconfig"}
    if unknown:
        fail(f"module.yml: unknown keys: {unknown}")
    for path in [module["build"]["cmake"] + "/CMakeLists.txt", module["build"]["kconfig"], *module["samples"]]:
        if not (ROOT / path).exists():
            fail(f"module.yml: {path} does not exist")
    cmake = (MODULE / "CMakeLists.txt").read_text()
    named = set(re.findall(r"src/\w+\.c", cmake))
    if named != {os.path.relpath(path, MODULE) for path in glob.glob(str(MODULE / "src/*.c"))}:
        fail("CMakeLists.txt does not name all files of src/")
    if "SB_CONFIG_MCUBOOT_MODE_SWAP_USING_MOVE=y\n" not in (MODULE / "sample/sysbuild.conf").read_text():
        fail("sysbuild.conf does not set the mode of MCUboot")
    sample = yaml.safe_load((MODULE / "sample/sample.yaml").read_text())
    for test in sample["tests"].values():
        for platform in test["platform_allow"]:
            # Zephyr 3.7 and later accept the name with the SoC or without it, but not both. Before, the board is native_sim_64.
            names = {platform.replace("/", "_"), platform.replace("/native/", "_")}
            if len(names & {path.stem for path in (MODULE / "sample/boards").glob("*.overlay")}) != 1:
                fail(f"sample.yaml: {platform} does not have one overlay")
    if len((MODULE / "sample/src/main.c").read_text().splitlines()) > 20:
        fail("main.c of the sample has more than 20 lines")


def check_cmake():
    good = {"MCUBOOT_BOOTLOADER_MODE_SWAP_USING_MOVE": "y", "MCUBOOT_IMGTOOL_SIGN_VERSION": "1.0.1+0", "PSA_CRYPTO": "y",
            "OTAFLASH_PRODUCT": "acme-beacon", "OTAFLASH_KEYS": "rfc8032.pub.pem"}
    wrong = [("MCUBOOT_BOOTLOADER_MODE_SWAP_USING_MOVE", "n", "swap using move"), ("PSA_CRYPTO", "n", "no PSA cryptography"),
             # The build folder is of the previous version, or VERSION_TWEAK is not 0.
             ("MCUBOOT_IMGTOOL_SIGN_VERSION", "1.0.0+0", "the image would have 1.0.0+0"),
             ("MCUBOOT_IMGTOOL_SIGN_VERSION", "1.0.1+7", "the image would have 1.0.1+7"),
             ("OTAFLASH_PRODUCT", "", "no product name"), ("OTAFLASH_KEYS", "", "no trusted key"), ("OTAFLASH_KEYS", "missing.pem", "missing.pem")]
    for name, value, message in [("MCUBOOT_IMGTOOL_SIGN_VERSION", "1.0.1", ""), *wrong]:
        with tempfile.TemporaryDirectory() as folder:
            options = [f"-DPYTHON_EXECUTABLE={sys.executable}"] + [f"-DCONFIG_{key}={text}" for key, text in (good | {name: value}).items()]
            done = subprocess.run(["cmake", "-S", MODULE / "tests/cmake", "-B", folder, *options], capture_output=True, text=True)
            if (done.returncode != 0) != bool(message) or message not in " ".join(done.stderr.split()):
                fail(f"CMakeLists.txt with CONFIG_{name}={value}: {done.stderr}")


def run_keys(*paths):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / "keys.h"
        done = subprocess.run([sys.executable, MODULE / "keys.py", header, *paths], capture_output=True, text=True)
        return done, header.read_text() if header.exists() else ""


def block(der):
    return f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"


def check_keys():
    # The key of RFC 8032, section 7.1, test 1. docs/device-integration.md has its id.
    pem = MODULE / "tests/rfc8032.pub.pem"
    done, header = run_keys(pem)
    if done.returncode != 0 or "0x21, 0xfe, 0x31, 0xdf, 0xa1, 0x54, 0xa2, 0x61" not in header:
        fail(f"keys.py: {done.stderr}")
    for paths in ([pem, pem], ["missing.pem"], [MODULE / "keys.py"]):
        done, header = run_keys(*paths)
        if done.returncode == 0 or header or "Traceback" in done.stderr or not done.stderr.strip():
            fail(f"keys.py does not refuse {paths}: {done.stderr}")
    prefix, text = bytes.fromhex("302a300506032b6570032100"), pem.read_text()
    # Points of small order (y 1, and a point of order 8 with the sign of x), y that is not below p, two keys, and wrong base64.
    small = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"
    keys = [bytes([1]) + bytes(31), bytes.fromhex(small), b"\xff" * 32, b"\xed" + b"\xff" * 30 + b"\x7f"]
    for text in [text + text, text.replace("MCow", "MC!ow"), *(block(prefix + key) for key in keys)]:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(text)
            file.flush()
            done, header = run_keys(file.name)
            if done.returncode == 0 or header or "Traceback" in done.stderr or not done.stderr.strip():
                fail(f"keys.py does not refuse {text}: {done.stderr}")


check_options()
check_files()
check_cmake()
check_keys()
print("ok      Kconfig, CMakeLists.txt, module.yml, sample.yaml, keys.py")
