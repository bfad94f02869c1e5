/* Complete updates over GATT, and failures of the flash, the hash, the signature and the bootloader. */
#include "device.h"

static struct release release;

static void connect_and_subscribe(void) {
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
}

static void leave(void) {
    disconnect(&hosts[0]);
    settle();
}

static uint8_t progress_status(void) {
    uint8_t progress[12] = {0};
    CHECK(attribute(PROGRESS)->read(&hosts[0], attribute(PROGRESS), progress, 12, 0) == 12);
    return progress[1];
}

static void updates_over_gatt_and_ends_the_trial_with_confirm(void) {
    const uint8_t apply[3] = {OTA_APPLY, 3, 0}, confirm[2] = {OTA_CONFIRM, 4};
    start();
    make(&release, 2, 2, "1.0.0");
    connect_and_subscribe();
    CHECK(send_envelope(&release, 1, true) == OTA_OK);
    CHECK(world.requests == 3);
    CHECK(send_object(OTA_OBJECT_IMAGE, release.image, IMAGE) == OTA_OK);
    CHECK(request(apply, sizeof apply) == OTA_OK && world.boot == BOOT_TEST);
    leave();
    CHECK(world.reboots == 1);

    world_boot();
    CHECK(stub_init() == 0 && world.trials == 1 && memcmp(world.slots[0], release.image, IMAGE) == 0);
    connect_and_subscribe();
    world.self_test = false;
    CHECK(request(confirm, 2) == OTA_BUSY && world.boot == BOOT_TRIAL);
    world.self_test = true;
    CHECK(request(confirm, 2) == OTA_OK && world.boot == BOOT_NONE);
    leave();
    CHECK(stub_init() == 0 && world.trials == 1);
}

static void accepts_only_valid_signatures_by_each_trusted_key(void) {
    start();
    make(&release, 2, 2, "1.0.0");
    connect_and_subscribe();
    for (int key = 0; key < 2; key++) {
        CHECK(send_envelope(&release, key, false) == OTA_UNTRUSTED);
        CHECK(send_envelope(&release, key, true) == OTA_OK);
    }
    leave();
}

static void reports_a_failed_write_and_a_failed_erase(void) {
    static const char *const functions[] = {"flash_area_write", "flash_area_erase"};
    for (int i = 0; i < 2; i++) {
        uint8_t value[202] = {0}, begin[19] = {OTA_BEGIN, 1, OTA_OBJECT_IMAGE, IMAGE & 0xFF, IMAGE >> 8};
        start();
        make(&release, 2, 2, "1.0.0");
        connect_and_subscribe();
        CHECK(send_envelope(&release, 0, true) == OTA_OK);
        uint8_t digest[32];
        world_digest(release.image, IMAGE, digest);
        memcpy(begin + 11, digest, 8);
        CHECK(request(begin, sizeof begin) == OTA_OK);
        world.fails = functions[i];
        for (uint16_t n = 0; n < 45 && world.fails; n++) {
            uint8_t progress[12];
            CHECK(attribute(PROGRESS)->read(&hosts[0], attribute(PROGRESS), progress, 12, 0) == 12);
            memcpy(value, progress + 2, 2);
            memcpy(value + 2, release.image + 200 * n, 200);
            CHECK(write_attribute(&hosts[0], DATA, value, 202) == 202);
            settle();
        }
        CHECK(!world.fails && progress_status() == OTA_FLASH_FAILED);
        leave();
    }
}

static void refuses_an_image_if_the_hash_fails(void) {
    start();
    make(&release, 2, 2, "1.0.0");
    connect_and_subscribe();
    world.fails = "psa_hash_setup";
    CHECK(send_envelope(&release, 0, true) != OTA_OK && !world.fails);
    world.fails = "psa_hash_update";
    CHECK(send_envelope(&release, 0, true) != OTA_OK && !world.fails);
    CHECK(send_envelope(&release, 0, true) == OTA_OK);
    leave();
}

static void reboots_if_a_trial_ends_without_confirm(void) {
    start();
    world.boot = BOOT_TRIAL;
    /* The trial time ends without CONFIRM. */
    CHECK(stub_init() == 0);
    world.now += 121000;
    settle();
    CHECK(world.reboots == 1);
    world_boot();
    CHECK(stub_init() == 0 && world.boot == BOOT_NONE);
}

static void reboots_if_the_core_does_not_start_on_trial(void) {
    static const char *const functions[] = {
        "psa_crypto_init", "flash_area_open", "settings_subsys_init", "settings_load_subtree_direct"};
    for (int trial = 0; trial < 2; trial++) {
        for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
            prepare();
            world.boot = trial ? BOOT_TRIAL : BOOT_NONE;
            world.fails = functions[i];
            CHECK(stub_init() != 0 && !otaflash_is_running() && !world.fails);
            CHECK(world.reboots == trial && world.trials == trial);
        }
    }
    /* The service of a device that did not start answers with an error. */
    uint8_t value[2] = {0};
    connect(&hosts[0]);
    CHECK(hosts[0].references == 0 && write_attribute(&hosts[0], DATA, value, 2) == -0x0E);
}

void test_updates(void) {
    RUN(updates_over_gatt_and_ends_the_trial_with_confirm);
    RUN(accepts_only_valid_signatures_by_each_trusted_key);
    RUN(reports_a_failed_write_and_a_failed_erase);
    RUN(refuses_an_image_if_the_hash_fails);
    RUN(reboots_if_a_trial_ends_without_confirm);
    RUN(reboots_if_the_core_does_not_start_on_trial);
}
