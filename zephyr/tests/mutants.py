"""Checks that the tests of the glue notice faults: mutants.py FOLDER COMMAND...

COMMAND compiles C files with the options of the tests. FOLDER/all.a contains the core, the glue and the tests: the linker takes a file
from it only if its functions are missing. A mutant replaces a text of a file in src/ by another one. The exit code is 1 if the tests pass
with a mutant, or if its text does not occur exactly once.
"""

import concurrent.futures
import pathlib
import subprocess
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "src"
# The name of the fault, the file, the text, and the text that replaces it.
MUTANTS = [
    ("each signature is valid", "port.c",
     "return otaflash_ed25519_verify(otaflash_key(key), message, count, signature);",
     "return count || message || signature || key;"),
    ("the index of the key is ignored", "start.c",
     "return public_keys[index];",
     "(void)index; return public_keys[0];"),
    ("a failed confirmation is ignored", "port.c",
     "if (boot_write_img_confirmed() != 0 ||",
     "if ((boot_write_img_confirmed(), 0) ||"),
    ("the counter rises before the confirmation", "port.c",
     "boot_write_img_confirmed() != 0 || !otaflash_store_counter(counter)",
     "!otaflash_store_counter(counter) || boot_write_img_confirmed() != 0"),
    ("a failed mark is ignored", "port.c",
     "    if (error) {\n        LOG_ERR(\"boot",
     "    if (0) {\n        LOG_ERR(\"boot"),
    ("the record is not stored before the mark", "port.c",
     "    if (!otaflash_store_marked(manifest, boot)) return false;\n",
     ""),
    ("a permanent mark is a trial", "port.c",
     "boot == OTA_BOOT_PERMANENT ? BOOT_UPGRADE_PERMANENT",
     "boot == OTA_BOOT_PERMANENT ? BOOT_UPGRADE_TEST"),
    ("the confirmation is not recorded first", "port.c",
     "    if (!otaflash_store_confirming()) return false;\n",
     ""),
    ("a trial is recorded as permanent", "store.c",
     "boot == OTA_BOOT_PERMANENT ? OTAFLASH_PERMANENT : OTAFLASH_TRIAL",
     "boot == OTA_BOOT_PERMANENT ? OTAFLASH_PERMANENT : OTAFLASH_PERMANENT"),
    ("a marked image counts if the bytes are the same", "store.c",
     "return !has_same_bytes ||",
     "return has_same_bytes || !has_same_bytes ||"),
    ("a failed record is ignored", "store.c",
     "sizeof store.marked) == 0;\n    return store.has_marked;",
     "sizeof store.marked) < 1;\n    return true;"),
    ("the running record of another version counts", "store.c",
     "store.has_running && strcmp(store.running.version, config->version) == 0",
     "store.has_running"),
    ("the counter of the image is ignored", "store.c",
     "        (void)otaflash_store_counter(CONFIG_OTAFLASH_COUNTER);\n",
     ""),
    ("the counter of the marked image is ignored", "store.c",
     "        if (store.has_marked) (void)otaflash_store_counter(store.marked.counter);\n",
     ""),
    ("any image in the slot is the marked one", "port.c",
     "memcmp(digest, image->image_digest, sizeof digest) == 0",
     "digest[0] + 1"),
    ("a failed hash is ignored", "port.c",
     "return hash_is_good && psa_hash_finish",
     "return psa_hash_finish"),
    ("a failed write is ignored", "port.c",
     "return flash_area_write(areas[area], (off_t)offset, bytes, count) == 0;",
     "return flash_area_write(areas[area], (off_t)offset, bytes, count) < 1;"),
    ("a failed erase is ignored", "port.c",
     "erase_block_size)) == 0;",
     "erase_block_size)) < 1;"),
    ("a failed read is ignored", "port.c",
     "return flash_area_read(areas[area], (off_t)offset, bytes, count) == 0;",
     "return flash_area_read(areas[area], (off_t)offset, bytes, count) < 1;"),
    ("the self-test is ignored", "port.c",
     "    return otaflash_self_test_passed();",
     "    return true;"),
    ("no reboot if the core does not start on trial", "start.c",
     "if (error && config.on_trial) sys_reboot",
     "if (0) sys_reboot"),
    ("the start uses the stack of the main thread", "start.c",
     "otaflash_queue_run(start_on_thread)",
     "start_on_thread()"),
    ("the largest image ignores the trailer", "start.c",
     "LARGEST = OTA_MCUBOOT_LARGEST_IMAGE(SLOT_SIZE, PAGE_SIZE, WRITE_UNIT, SECTORS)",
     "LARGEST = SLOT_SIZE - 3 * PAGE_SIZE, UNUSED = SECTORS"),
    ("the trailer is readable", "start.c",
     ".base_size = LARGEST",
     ".base_size = SLOT_SIZE"),
    ("anybody may write", "service.c",
     "#define WRITE_PERMISSION (BT_GATT_PERM_WRITE_AUTHEN | BT_GATT_PERM_WRITE_LESC)",
     "#define WRITE_PERMISSION BT_GATT_PERM_WRITE"),
    ("Just Works is enough", "service.c",
     "(BT_GATT_PERM_WRITE_AUTHEN | BT_GATT_PERM_WRITE_LESC)",
     "BT_GATT_PERM_WRITE_LESC"),
    ("Progress is sent on another attribute", "service.c",
     "? 4 : 9",
     "? 4 : 7"),
    ("a subscription of Progress is one of Control", "service.c",
     "return write_ccc(connection, OTA_PROGRESS, value);",
     "return write_ccc(connection, OTA_CONTROL, value);"),
    ("a subscription never ends", "service.c",
     "value & BT_GATT_CCC_NOTIFY",
     "value | BT_GATT_CCC_NOTIFY"),
    ("a restored subscription is not forwarded", "service.c",
     "    if (is_control && !put_restored_subscriptions(connection)) return BT_GATT_ERR(OTA_ATT_INSUFFICIENT_RESOURCES);\n",
     ""),
    ("no place is reserved for requests", "queue.c",
     "reserved = REQUEST_PLACES + CONNECTION_PLACES;",
     "reserved = CONNECTION_PLACES;"),
    ("no place is reserved for connections", "queue.c",
     "OTAFLASH_SUBSCRIBED) reserved = CONNECTION_PLACES;",
     "OTAFLASH_SUBSCRIBED) reserved = 0;"),
    ("the queue has a wrong end", "queue.c",
     "sizeof(struct item), PLACES, 8)",
     "sizeof(struct item), DATA_PLACES + REQUEST_PLACES + CONNECTION_PLACES, 8)"),
    ("a read without the lock", "queue.c",
     "    uint16_t count = 0;\n    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);\n",
     "    uint16_t count = 0;\n    otaflash_lock.held = 1;\n"),
    ("an event without the lock", "queue.c",
     "    struct bt_conn *old = handle(&item, k_uptime_get_32());\n    (void)k_mutex_unlock(&otaflash_lock);",
     "    (void)k_mutex_unlock(&otaflash_lock);\n    struct bt_conn *old = handle(&item, k_uptime_get_32());"),
    ("a reference is released under the lock", "queue.c",
     "    (void)k_mutex_unlock(&otaflash_lock);\n    if (old) bt_conn_unref(old);",
     "    if (old) bt_conn_unref(old);\n    (void)k_mutex_unlock(&otaflash_lock);"),
    ("a notification without a buffer is lost", "port.c",
     "if (waits[index]) outbox[kept++]",
     "if (0) outbox[kept++]"),
]


def survives(folder, command, number, mutant):
    name, file, text, replacement = mutant
    source = (SOURCES / file).read_text()
    if source.count(text) != 1:
        return f"{name}: the text does not occur exactly once in {file}"
    changed, test = folder / f"mutant-{number}-{file}", folder / f"mutant-{number}"
    changed.write_text(source.replace(text, replacement))
    # A constant instead of a call leaves parameters and functions without use.
    options, files = ["-Wno-unused", "-Wno-unused-parameter"], [changed, folder / "all.a"]
    if "WRITE_AUTHEN" in text:
        options.append("-DCONFIG_OTAFLASH_AUTHENTICATED=1")
        files.insert(1, SOURCES.parent / "tests/main.c")
    built = subprocess.run([*command, *options, *files, "-o", test], capture_output=True, text=True)
    if built.returncode != 0:
        return f"{name}: {built.stderr[:1000]}"
    try:
        if subprocess.run([test], capture_output=True, timeout=20).returncode == 0:
            return f"{name}: the tests pass"
    except subprocess.TimeoutExpired:
        pass
    return None


def main(folder, command):
    subprocess.run([*command, folder / "all.a", "-o", folder / "unchanged"], check=True)
    subprocess.run([folder / "unchanged"], check=True, stdout=subprocess.DEVNULL)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda item: survives(folder, command, *item), enumerate(MUTANTS))
        failures = [result for result in results if result]
    print("\n".join(failures) or f"ok      {len(MUTANTS)} mutants were noticed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
