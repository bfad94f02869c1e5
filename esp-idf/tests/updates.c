/* Complete updates over GATT, and failures of the flash, the hash, the signature, NVS and the bootloader. */
#include "device.h"

static struct release release, next;

static void enter(void) {
    connect(HOST);
    subscribe(HOST, OTA_CONTROL, true);
}

static void leave(void) {
    disconnect(HOST);
    settle();
    CHECK(world.mbufs == 0);
}

static uint32_t counter_in_info(void) {
    uint8_t info[300];
    uint32_t counter = 0;
    enter();
    settle();
    int count = read_value(HOST, OTA_INFO, info, 0);
    for (int at = 0; at + 2 <= count; at += 2 + info[at + 1]) {
        if (info[at] == 4 && info[at + 1] == 4) memcpy(&counter, info + at + 2, 4);
    }
    leave();
    return counter;
}

static void updates_over_gatt_in_both_directions(void) {
    start();
    make(&release, 2, 2, "1.1.0");
    make(&next, 3, 3, "1.2.0");
    CHECK(install(&release) == OTA_OK && world.restarted && world.running == OTA_0);
    restart();
    CHECK(hook_values.trials == 1 && runs(&release) && world.running == OTA_1 && counter_in_info() == 1);
    hook_values.self_test = false;
    CHECK(confirm() == OTA_BUSY && world.otadata[1].state == ESP_OTA_IMG_PENDING_VERIFY);
    hook_values.self_test = true;
    CHECK(confirm() == OTA_OK && world.otadata[1].state == ESP_OTA_IMG_VALID);
    restart();
    CHECK(hook_values.trials == 1 && runs(&release) && counter_in_info() == 2);
    CHECK(install(&next) == OTA_OK);
    restart();
    CHECK(runs(&next) && world.running == OTA_0 && confirm() == OTA_OK);
    restart();
    CHECK(runs(&next) && counter_in_info() == 3);
    CHECK(install(&release) == OTA_TOO_OLD);
}

static void updates_from_a_factory_partition(void) {
    prepare(true);
    restart();
    make(&release, 2, 2, "1.1.0");
    CHECK(world.running == FACTORY && install(&release) == OTA_OK);
    restart();
    CHECK(runs(&release) && world.running == OTA_0);
    /* The trial fails. */
    world_boot();
    CHECK(world.running == FACTORY);
    restart();
    CHECK(counter_in_info() == 1 && install(&release) == OTA_OK);
    restart();
    CHECK(runs(&release) && confirm() == OTA_OK && counter_in_info() == 2);
}

static void resumes_after_a_lost_link_and_after_a_restart(void) {
    const uint8_t apply[3] = {OTA_APPLY, 3, OTA_BOOT_TRIAL}, finish[2] = {OTA_FINISH, 2};
    for (int restarts = 0; restarts < 2; restarts++) {
        uint32_t offset = 0;
        start();
        make(&release, 2, 2, "1.1.0");
        enter();
        CHECK(send_envelope(&release, 0, true) == OTA_OK);
        CHECK(begin_object(OTA_OBJECT_IMAGE, release.image, IMAGE, &offset) == OTA_OK && offset == 0);
        send_bytes(release.image, 0, 5000);
        leave();
        if (restarts) restart();
        enter();
        CHECK(send_envelope(&release, 0, true) == OTA_OK);
        offset = UINT32_MAX;
        CHECK(begin_object(OTA_OBJECT_IMAGE, release.image, IMAGE, &offset) == OTA_OK);
        CHECK(offset == (restarts ? 4096 : 5000));
        send_bytes(release.image, offset, IMAGE);
        CHECK(request(finish, sizeof finish) == OTA_OK && request(apply, sizeof apply) == OTA_OK);
        leave();
        restart();
        CHECK(runs(&release));
    }
}

static void accepts_only_valid_signatures_by_each_trusted_key(void) {
    start();
    make(&release, 2, 2, "1.1.0");
    enter();
    for (int key = 0; key < 2; key++) {
        CHECK(send_envelope(&release, key, false) == OTA_UNTRUSTED);
        CHECK(send_envelope(&release, key, true) == OTA_OK);
    }
    leave();
}

static void asks_the_application(void) {
    const uint8_t identify[3] = {OTA_IDENTIFY, 1, 7};
    start();
    make(&release, 2, 2, "1.1.0");
    enter();
    CHECK(request(identify, sizeof identify) == OTA_OK && hook_values.seconds == 7);
    hook_values.permits = false;
    CHECK(send_envelope(&release, 0, true) == OTA_REFUSED);
    hook_values.permits = true;
    /* A manifest with a minimum battery level of 50 per cent (docs/bundle-format.md). */
    hook_values.battery = 49;
    uint8_t *end_of_version = release.manifest + 64 + 4 + 5;
    memmove(end_of_version + 5, end_of_version, 15);
    memcpy(end_of_version, "\4\0\1\0\x32", 5);
    release.manifest_size = (uint16_t)(release.manifest_size + 5);
    release.manifest[6] = (uint8_t)release.manifest_size;
    CHECK(send_envelope(&release, 0, true) == OTA_BATTERY_LOW);
    hook_values.battery = 50;
    CHECK(send_envelope(&release, 0, true) == OTA_OK);
    leave();
}

static void refuses_images_of_a_wrong_size(void) {
    start();
    make(&release, 2, 2, "1.1.0");
    /* One byte more than the partition. */
    memcpy(release.manifest + 8, "\1\0\1\0", 4);
    enter();
    CHECK(send_envelope(&release, 0, true) == OTA_TOO_LARGE);
    /* The announced size is not the size in the manifest. */
    make(&release, 2, 2, "1.1.0");
    CHECK(send_envelope(&release, 0, true) == OTA_OK);
    CHECK(send_object(OTA_OBJECT_IMAGE, release.image, IMAGE - 1) == OTA_BAD_ARGUMENT);
    /* Bytes that are not an image: the bootloader's check refuses them. */
    leave();
    release.image[0] = 0;
    world_digest(release.image, IMAGE, release.manifest + 32);
    CHECK(install(&release) == OTA_FLASH_FAILED && !world.restarted);
    restart();
    CHECK(world.running == OTA_0 && counter_in_info() == 1);
}

static void reports_a_failed_write_and_a_failed_erase(void) {
    static const char *const functions[] = {"esp_partition_write", "esp_partition_erase_range"};
    for (int i = 0; i < 2; i++) {
        uint8_t progress[12];
        uint32_t offset = 0;
        start();
        make(&release, 2, 2, "1.1.0");
        enter();
        CHECK(send_envelope(&release, 0, true) == OTA_OK);
        CHECK(begin_object(OTA_OBJECT_IMAGE, release.image, IMAGE, &offset) == OTA_OK);
        world.fails = functions[i];
        send_bytes(release.image, 0, 4200);
        CHECK(read_value(HOST, OTA_PROGRESS, progress, 0) == 12);
        CHECK(!world.fails && progress[1] == OTA_FLASH_FAILED);
        leave();
        /* The next attempt succeeds. */
        CHECK(install(&release) == OTA_OK);
    }
}

static void refuses_an_image_that_the_flash_changed(void) {
    const uint8_t finish[2] = {OTA_FINISH, 2};
    uint32_t offset = 0;
    start();
    make(&release, 2, 2, "1.1.0");
    enter();
    CHECK(send_envelope(&release, 0, true) == OTA_OK);
    CHECK(begin_object(OTA_OBJECT_IMAGE, release.image, IMAGE, &offset) == OTA_OK);
    send_bytes(release.image, 0, IMAGE);
    world.flash[OTA_1][4000] ^= 1;
    CHECK(request(finish, sizeof finish) == OTA_DIGEST_MISMATCH);
    leave();
    CHECK(install(&release) == OTA_OK);
}

static void refuses_an_image_if_the_hash_or_a_read_fails(void) {
    static const char *const functions[] = {"psa_hash_setup", "psa_hash_update", "esp_partition_read"};
    for (int i = 0; i < 3; i++) {
        start();
        make(&release, 2, 2, "1.1.0");
        enter();
        world.fails = functions[i];
        int status = send_envelope(&release, 0, true);
        CHECK((i == 2) == (status == OTA_OK));
        if (i == 2) CHECK(send_object(OTA_OBJECT_IMAGE, release.image, IMAGE) != OTA_OK);
        CHECK(!world.fails);
        leave();
        CHECK(install(&release) == OTA_OK);
    }
}

static void marks_nothing_if_nvs_is_full(void) {
    static const char *const functions[] = {"nvs_set_blob", "nvs_commit", "esp_ota_get_partition_description"};
    for (int i = 0; i < 3; i++) {
        const uint8_t apply[3] = {OTA_APPLY, 3, OTA_BOOT_TRIAL};
        start();
        make(&release, 2, 2, "1.1.0");
        enter();
        CHECK(send_envelope(&release, 0, true) == OTA_OK);
        CHECK(send_object(OTA_OBJECT_IMAGE, release.image, IMAGE) == OTA_OK);
        world.fails = functions[i];
        CHECK(request(apply, sizeof apply) == OTA_FLASH_FAILED && world.otadata[1].sequence == 0);
        CHECK(request(apply, sizeof apply) == OTA_OK);
        leave();
        restart();
        CHECK(runs(&release));
        /* If the counter cannot be stored, the trial continues, and CONFIRM can be repeated. */
        world.fails = "nvs_set_u32";
        CHECK(confirm() == OTA_FLASH_FAILED);
        CHECK(confirm() == OTA_OK && counter_in_info() == 2);
    }
    /* Or the trial ends: the old image must run, with the old counter. */
    start();
    CHECK(install(&release) == OTA_OK);
    restart();
    world.fails = "nvs_set_u32";
    world.fails_always = true;
    CHECK(confirm() == OTA_FLASH_FAILED);
    world.now += 121000;
    settle();
    CHECK(world.restarted);
    world.fails = NULL;
    restart();
    CHECK(!runs(&release) && counter_in_info() == 1);
}

static void uses_a_counter_that_cannot_be_stored_at_the_start(void) {
    prepare(false);
    world_boot();
    world.fails = "nvs_set_u32";
    CHECK(otaflash_start(NULL) == ESP_OK && !world.fails && counter_in_info() == CONFIG_OTAFLASH_COUNTER);
}

static void rolls_back_a_trial_without_confirm(void) {
    const uint8_t begin[19] = {OTA_BEGIN, 1, OTA_OBJECT_IMAGE}, discard[2] = {OTA_DISCARD, 5};
    make(&release, 2, 2, "1.1.0");
    /* The trial time ends; the device is reset; the new image discards itself; the bootloader's function fails. */
    for (int how = 0; how < 4; how++) {
        start();
        CHECK(install(&release) == OTA_OK);
        restart();
        CHECK(runs(&release) && counter_in_info() == 1);
        enter();
        CHECK(request(begin, sizeof begin) == OTA_BAD_STATE);
        if (how == 2) CHECK(request(discard, sizeof discard) == OTA_OK);
        leave();
        if (how == 3) world.fails = "esp_ota_mark_app_invalid_rollback_and_reboot";
        if (how == 0 || how == 3) world.now += 121000;
        settle();
        CHECK(world.restarted == (how != 1) && !world.fails);
        restart();
        CHECK(!runs(&release) && world.running == OTA_0 && counter_in_info() == 1);
        CHECK(install(&release) == OTA_OK);
        restart();
        CHECK(runs(&release) && confirm() == OTA_OK && counter_in_info() == 2);
    }
}

static void keeps_the_old_image_after_the_bootloader_refused_another(void) {
    /* The bootloader refuses a new image on trial, or a permanent image that was damaged; with the rules before 6.0, and
     * the newer ones. */
    make(&release, 2, 2, "1.1.0");
    make(&next, 3, 3, "1.2.0");
    for (int how = 0; how < 4; how++) {
        start();
        world.has_old_rules = how % 2 == 0;
        CHECK(install(&release) == OTA_OK);
        restart();
        CHECK(confirm() == OTA_OK && install(&next) == OTA_OK);
        if (how >= 2) {
            restart();
            CHECK(confirm() == OTA_OK);
        }
        world.damaged = OTA_0;
        restart();
        CHECK(runs(&release) && world.restarted);
        restart();
        CHECK(runs(&release) && !world.restarted && hook_values.trials == 1 + how / 2);
        world.damaged = FACTORY;
        make(&next, 3, 4, "1.3.0");
        CHECK(install(&next) == OTA_OK);
        restart();
        CHECK(runs(&next));
        /* The trial fails. */
        restart();
        CHECK(runs(&release) && world.otadata[1].state == ESP_OTA_IMG_VALID);
        make(&next, 3, 3, "1.2.0");
    }
    /* An unreadable otadata changes nothing, although a rollback is possible. */
    start();
    CHECK(install(&release) == OTA_OK);
    restart();
    CHECK(confirm() == OTA_OK);
    world_boot();
    world.fails = "esp_ota_get_boot_partition";
    CHECK(otaflash_start(&test_hooks) == ESP_OK && !world.fails && !world.restarted);
}

static void ends_a_trial_without_rollback_of_the_bootloader(void) {
    make(&release, 2, 2, "1.1.0");
    for (int confirms = 0; confirms < 2; confirms++) {
        start();
        world.has_rollback = false;
        CHECK(install(&release) == OTA_OK);
        restart();
        CHECK(runs(&release) && hook_values.trials == 1 && counter_in_info() == 1);
        if (confirms) CHECK(confirm() == OTA_OK);
        world.now += 121000;
        settle();
        CHECK(world.restarted == !confirms);
        restart();
        CHECK(runs(&release) == confirms && counter_in_info() == (confirms ? 2 : 1));
    }
}

static void does_not_raise_the_counter_for_a_failed_image(void) {
    start();
    make(&release, 2, 2, "1.1.0");
    CHECK(install(&release) == OTA_OK);
    restart();
    CHECK(runs(&release));
    /* The old image is damaged, so the bootloader starts the new one again after its trial. */
    world.otadata[1].state = ESP_OTA_IMG_ABORTED;
    CHECK(otaflash_start(&test_hooks) == ESP_OK && counter_in_info() == 1);
}

static void ignores_the_record_of_another_image(void) {
    struct ota_config config = {0};
    start();
    make(&release, 2, 2, "1.1.0");
    make(&next, 3, 1, "1.2.0");
    CHECK(install(&release) == OTA_OK);
    restart();
    CHECK(confirm() == OTA_OK);
    world.starts = true;
    CHECK(otaflash_store_load(&config, esp_ota_get_running_partition(), true) == ESP_OK);
    CHECK(config.running_digest && config.security_counter == 2);
    /* A programmer writes another image to the same partition. The counter stays. */
    flash_image(OTA_1, &next);
    CHECK(otaflash_store_load(&config, esp_ota_get_running_partition(), true) == ESP_OK);
    CHECK(!config.running_digest && config.security_counter == 2);
    CHECK(otaflash_store_load(&config, esp_ota_get_running_partition(), true) == ESP_OK && config.security_counter == 2);
    world.starts = false;
}

static void starts_the_old_image_if_the_core_does_not_start_on_trial(void) {
    static const char *const functions[] = {
        "psa_crypto_init", "esp_partition_find_first", "esp_ota_get_next_update_partition", "nvs_open", "nvs_get_u32",
        "ble_gatts_count_cfg", "ble_gatts_add_svcs", "ble_att_set_preferred_mtu", "ble_gap_event_listener_register"};
    make(&release, 2, 2, "1.1.0");
    for (int trial = 0; trial < 2; trial++) {
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
            start();
            if (trial) CHECK(install(&release) == OTA_OK);
            world_boot();
            world.fails = functions[i];
            CHECK(otaflash_start(NULL) != ESP_OK && !world.fails && world.restarted == trial);
            world_boot();
            CHECK(world.running == OTA_0);
        }
    }
}

static void requires_otadata_and_a_record_partition_of_two_plain_pages(void) {
    for (int i = 0; i < 6; i++) {
        prepare(false);
        world_boot();
        if (i == 1) world.partitions[RECORDS].encrypted = true;
        if (i == 2) world.partitions[RECORDS].readonly = true;
        if (i == 3) world.partitions[RECORDS].size = 0x1000;
        if (i == 4) world.partitions[OTA_1].erase_size = 0x10000;
        world.lacks_otadata = i == 5;
        CHECK((otaflash_start(NULL) == ESP_OK) == (i == 0));
    }
}

static void works_without_hooks(void) {
    const uint8_t identify[3] = {OTA_IDENTIFY, 1, 7};
    static const struct otaflash_hooks none;
    prepare(false);
    world_boot();
    CHECK(otaflash_start(&none) == ESP_OK);
    make(&release, 2, 2, "1.1.0");
    CHECK(install(&release) == OTA_OK);
    world_boot();
    CHECK(otaflash_start(NULL) == ESP_OK && hook_values.trials == 0);
    enter();
    CHECK(request(identify, sizeof identify) == OTA_UNKNOWN_OPCODE);
    leave();
    CHECK(confirm() == OTA_OK);
}

static void yields_to_the_idle_task_during_a_long_hash(void) {
    /* BEGIN of an encoded image: the base is the whole running partition, with a wrong digest. */
    const uint8_t begin[20] = {OTA_BEGIN, 1, OTA_OBJECT_ENCODED_IMAGE, OTA_ENCODING_LZMA2, 0, 0, 0, 0, 0, 0, 1};
    start();
    make(&release, 2, 2, "1.1.0");
    enter();
    CHECK(send_envelope(&release, 0, true) == OTA_OK);
    CHECK(request(begin, sizeof begin) == OTA_WRONG_BASE);
    leave();
}

static void refuses_a_permanent_apply(void) {
    const uint8_t apply[3] = {OTA_APPLY, 3, OTA_BOOT_PERMANENT};
    start();
    make(&release, 2, 2, "1.1.0");
    enter();
    CHECK(send_envelope(&release, 0, true) == OTA_OK);
    CHECK(send_object(OTA_OBJECT_IMAGE, release.image, IMAGE) == OTA_OK);
    CHECK(request(apply, sizeof apply) == OTA_REFUSED);
    leave();
    struct ota_manifest manifest = {0};
    CHECK(!otaflash_port()->mark(NULL, OTA_BOOT_PERMANENT, &manifest) && world.otadata[1].sequence == 0);
}

void test_updates(void) {
    RUN(updates_over_gatt_in_both_directions);
    RUN(updates_from_a_factory_partition);
    RUN(resumes_after_a_lost_link_and_after_a_restart);
    RUN(accepts_only_valid_signatures_by_each_trusted_key);
    RUN(asks_the_application);
    RUN(refuses_images_of_a_wrong_size);
    RUN(reports_a_failed_write_and_a_failed_erase);
    RUN(refuses_an_image_that_the_flash_changed);
    RUN(refuses_an_image_if_the_hash_or_a_read_fails);
    RUN(marks_nothing_if_nvs_is_full);
    RUN(uses_a_counter_that_cannot_be_stored_at_the_start);
    RUN(rolls_back_a_trial_without_confirm);
    RUN(keeps_the_old_image_after_the_bootloader_refused_another);
    RUN(ends_a_trial_without_rollback_of_the_bootloader);
    RUN(does_not_raise_the_counter_for_a_failed_image);
    RUN(ignores_the_record_of_another_image);
    RUN(starts_the_old_image_if_the_core_does_not_start_on_trial);
    RUN(requires_otadata_and_a_record_partition_of_two_plain_pages);
    RUN(works_without_hooks);
    RUN(yields_to_the_idle_task_during_a_long_hash);
    RUN(refuses_a_permanent_apply);
}
