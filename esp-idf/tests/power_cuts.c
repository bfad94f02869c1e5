/* Power cuts between the writes of mark, confirm, the bootloader and the stored records. */
#include "device.h"

static struct ota_config config;
static struct release old, new, last;

/* Starts the bootloader and loads the records. */
static void boot(void) {
    esp_ota_img_states_t state;
    world_boot();
    memset(&config, 0, sizeof config);
    CHECK(esp_ota_get_state_partition(esp_ota_get_running_partition(), &state) == ESP_OK);
    config.on_trial = state == ESP_OTA_IMG_PENDING_VERIFY;
    world.starts = true;
    CHECK(otaflash_port_init(&config, NULL) == ESP_OK);
    CHECK(otaflash_store_load(&config, esp_ota_get_running_partition(), !config.on_trial) == ESP_OK);
    world.starts = false;
}

static bool is_digest_of(const struct release *release) {
    uint8_t digest[32];
    world_digest(release->manifest, release->manifest_size, digest);
    return config.running_digest && memcmp(config.running_digest, digest, 32) == 0;
}

static bool mark(const struct release *release) {
    uint8_t digest[32];
    world_digest(release->manifest, release->manifest_size, digest);
    flash_image(world.running == OTA_0 ? OTA_1 : OTA_0, release);
    struct ota_manifest manifest = {.digest = digest, .security_counter = release->counter};
    return otaflash_port()->mark(NULL, OTA_BOOT_TRIAL, &manifest);
}

static void confirm_trial(void) {
    CHECK(config.on_trial);
    CHECK(otaflash_port()->confirm(NULL, config.trial_security_counter, config.running_digest));
}

/* Plays an update from counter 5 to 6 with a power cut before the write with this number. Returns whether the power
 * failed. With `image` 5, the new release has the bytes and the version of the old one. */
static bool play(int cut, bool confirms, uint8_t image) {
    volatile bool failed = false, was_confirmed = false;
    start();
    make(&old, 5, 5, "1.1.0");
    make(&new, image, 6, image == 5 ? "1.1.0" : "1.2.0");
    make(&last, 7, 7, "1.3.0");
    CHECK(mark(&old));
    boot();
    confirm_trial();
    boot();
    CHECK(is_digest_of(&old) && config.security_counter == 5);
    const int before = world.running;
    world.writes_left = cut;
    if (setjmp(world.power) == 0) {
        CHECK(mark(&new));
        boot();
        CHECK(is_digest_of(&new) && config.on_trial && config.security_counter == 5 && config.trial_security_counter == 6);
        if (confirms) {
            was_confirmed = true; /* from the next write on, it can be permanent */
            confirm_trial();
        }
        boot();
    } else {
        failed = true;
    }
    world.writes_left = -1;
    for (int boots = 0; boots < 3; boots++) {
        boot();
        if (config.on_trial) {
            /* The cut was before the first start of the new image. */
            CHECK(boots == 0 && failed && is_digest_of(&new) && config.security_counter == 5);
            continue;
        }
        bool is_new = world.running != before;
        CHECK(is_digest_of(is_new ? &new : &old));
        /* The counter belongs to the permanent image: never more, and after a start never less. */
        CHECK(config.security_counter == (is_new ? 6 : 5));
        CHECK(!is_new || was_confirmed);
        CHECK(failed || is_new == confirms);
    }
    /* The next update succeeds. */
    CHECK(mark(&last));
    boot();
    confirm_trial();
    boot();
    CHECK(is_digest_of(&last) && config.security_counter == 7 && !config.on_trial);
    return failed;
}

static void survives_a_power_cut_between_each_two_writes(void) {
    int cuts = 0;
    for (uint8_t image = 5; image <= 6; image++) {
        for (int confirms = 0; confirms < 2; confirms++) {
            for (int cut = 0; play(cut, confirms, image); cut++) cuts++;
        }
    }
    CHECK(cuts >= 24);
    printf("        %d power cuts\n", cuts);
}

static void a_failed_mark_and_a_failed_confirm_change_nothing(void) {
    start();
    make(&new, 6, 6, "1.2.0");
    world.fails = "esp_ota_set_boot_partition";
    CHECK(!mark(&new));
    boot();
    CHECK(world.running == OTA_0 && config.security_counter == CONFIG_OTAFLASH_COUNTER && !config.running_digest);
    CHECK(mark(&new));
    boot();
    world.fails = "esp_ota_mark_app_valid_cancel_rollback";
    CHECK(!otaflash_port()->confirm(NULL, 6, config.running_digest));
    boot();
    CHECK(world.running == OTA_0 && config.security_counter == CONFIG_OTAFLASH_COUNTER);
}

void test_power_cuts(void) {
    RUN(survives_a_power_cut_between_each_two_writes);
    RUN(a_failed_mark_and_a_failed_confirm_change_nothing);
}
