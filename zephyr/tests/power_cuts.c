/* Power cuts between mark, confirm and the stored records, and failed writes of them. */
#include "device.h"

static struct ota_config config;

/* Starts the bootloader and loads the records. Checks what they report about the image that runs. */
static void boot(const struct release *const releases[3]) {
    world_boot();
    const struct release *runs = NULL, *other = NULL;
    for (int i = 0; i < 3; i++) {
        if (memcmp(world.slots[0], releases[i]->image, IMAGE) == 0) runs = releases[i];
        if (memcmp(world.slots[1], releases[i]->image, IMAGE) == 0) other = releases[i];
    }
    CHECK(runs && other);
    bool on_trial = world.boot == BOOT_TRIAL;
    memset(&config, 0, sizeof config);
    config.version = runs->version;
    CHECK(otaflash_store_load(&config, on_trial) == 0);
    uint8_t digest[32];
    world_digest(runs->manifest, runs->manifest_size, digest);
    CHECK(config.running_digest && memcmp(config.running_digest, digest, 32) == 0);
    /* On trial, the old image must stay bootable, and a permanent image has its own counter. */
    CHECK(config.security_counter == (on_trial ? other->counter : runs->counter));
    CHECK(!on_trial || config.trial_security_counter == runs->counter);
}

static bool mark(const struct release *release, enum ota_boot how) {
    uint8_t digest[32];
    world_digest(release->manifest, release->manifest_size, digest);
    memcpy(world.slots[1], release->image, IMAGE);
    struct ota_manifest manifest = {
        .digest = digest,
        .image_digest = release->manifest + 32,
        .image_size = IMAGE,
        .security_counter = release->counter,
        .version = release->version,
        .version_size = (uint8_t)strlen(release->version),
    };
    return otaflash_port.mark(NULL, how, &manifest);
}

static void confirm(void) {
    if (world.boot == BOOT_TRIAL) CHECK(otaflash_port.confirm(NULL, config.trial_security_counter, config.running_digest));
}

/* Plays an update with a power cut before the write with this number. Returns whether the power failed. */
static bool play(int cut, enum ota_boot how, const char *version, bool confirms) {
    static struct release releases[3];
    static const struct release *const all[3] = {&releases[0], &releases[1], &releases[2]};
    volatile bool failed = false;
    start();
    make(&releases[0], 5, 5, "1.0.0");
    make(&releases[1], 6, 6, version);
    make(&releases[2], 7, 7, "1.2.0");
    memcpy(world.slots[1], releases[2].image, IMAGE);
    /* The first release was installed from a bundle, without a power cut. */
    CHECK(mark(&releases[0], OTA_BOOT_PERMANENT));
    memcpy(world.slots[0], releases[2].image, IMAGE);
    boot(all);
    memcpy(world.slots[1], releases[1].image, IMAGE);
    world.writes_left = cut;
    if (setjmp(world.power) == 0) {
        CHECK(mark(&releases[1], how));
        boot(all);
        if (confirms) confirm();
        boot(all);
    } else {
        failed = true;
    }
    world.writes_left = -1;
    boot(all);
    boot(all);
    /* The next update succeeds. */
    CHECK(mark(&releases[2], OTA_BOOT_TRIAL));
    boot(all);
    CHECK(world.boot == BOOT_TRIAL);
    confirm();
    boot(all);
    CHECK(config.security_counter == 7 && !config.on_trial);
    return failed;
}

static void survives_a_power_cut_between_each_two_writes(void) {
    static const char *const versions[] = {"1.1.0", "1.0.0"};
    int cuts = 0;
    for (int how = OTA_BOOT_TRIAL; how <= OTA_BOOT_PERMANENT; how++) {
        for (int version = 0; version < 2; version++) {
            for (int confirms = 0; confirms < 2; confirms++) {
                for (int cut = 0; play(cut, (enum ota_boot)how, versions[version], confirms); cut++) cuts++;
            }
        }
    }
    CHECK(cuts >= 24);
    printf("        %d power cuts\n", cuts);
}

/* ---- A new release with the bytes of the old one: the slot proves nothing ---- */

static void load(const char *version) {
    world_boot();
    memset(&config, 0, sizeof config);
    config.version = version;
    CHECK(otaflash_store_load(&config, world.boot == BOOT_TRIAL) == 0);
}

/* Plays an update from counter 5 to 900 with the same image. Returns whether the power failed. */
static bool play_same_bytes(int cut, enum ota_boot how, bool confirms, bool was_installed) {
    static struct release old, new;
    volatile bool failed = false;
    start();
    make(&old, 5, 5, "1.0.0");
    make(&new, 5, 900, "1.0.0");
    memcpy(world.slots[0], old.image, IMAGE);
    uint32_t before = CONFIG_OTAFLASH_COUNTER;
    if (was_installed) {
        CHECK(mark(&old, OTA_BOOT_PERMANENT));
        before = 5;
    }
    load("1.0.0");
    CHECK(config.security_counter == before);
    world.has_permanent = false;
    world.writes_left = cut;
    if (setjmp(world.power) == 0) {
        CHECK(mark(&new, how));
        load("1.0.0");
        if (confirms) confirm();
        load("1.0.0");
    } else {
        failed = true;
    }
    world.writes_left = -1;
    for (int boots = 0; boots < 3; boots++) load("1.0.0");
    CHECK(config.security_counter == before || (config.security_counter == 900 && world.has_permanent));
    CHECK(failed || config.security_counter == (world.has_permanent ? 900 : before));
    CHECK(failed || world.has_permanent == (how == OTA_BOOT_PERMANENT || confirms));
    return failed;
}

static void raises_the_counter_only_after_confirm_if_the_bytes_are_the_same(void) {
    for (int how = OTA_BOOT_TRIAL; how <= OTA_BOOT_PERMANENT; how++) {
        for (int confirms = 0; confirms < 2; confirms++) {
            for (int cut = 0; play_same_bytes(cut, (enum ota_boot)how, confirms, true); cut++) continue;
            CHECK(!play_same_bytes(-1, (enum ota_boot)how, confirms, false));
        }
    }
}

/* ---- Failed writes ---- */

static void reports_a_failed_mark_and_a_failed_confirm(void) {
    static struct release release;
    static const char *const functions[] = {"settings_save_one", "boot_write_img_confirmed"};
    start();
    make(&release, 6, 6, "1.1.0");
    world.fails = "settings_save_one";
    CHECK(!mark(&release, OTA_BOOT_TRIAL) && world.boot == BOOT_NONE);
    world.fails = "boot_request_upgrade";
    CHECK(!mark(&release, OTA_BOOT_PERMANENT) && world.boot == BOOT_NONE);
    load("1.0.0");
    CHECK(config.security_counter == CONFIG_OTAFLASH_COUNTER);
    CHECK(mark(&release, OTA_BOOT_TRIAL));
    load("1.1.0");
    CHECK(config.on_trial && config.trial_security_counter == 6);
    for (int i = 0; i < 2; i++) {
        world.fails = functions[i];
        CHECK(!otaflash_port.confirm(NULL, 6, config.running_digest) && world.boot == BOOT_TRIAL);
    }
    CHECK(otaflash_port.confirm(NULL, 6, config.running_digest) && world.boot == BOOT_NONE);
    load("1.1.0");
    CHECK(config.security_counter == 6 && config.running_digest);
    /* Another image was written with a programmer. */
    load("1.3.0");
    CHECK(!config.running_digest && config.security_counter == 6);
}

static void refuses_a_marked_image_that_cannot_be_hashed(void) {
    static const char *const functions[] = {"psa_hash_setup", "psa_hash_update", "flash_area_read"};
    static struct release release;
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        start();
        make(&release, 6, 6, "1.1.0");
        CHECK(mark(&release, OTA_BOOT_TRIAL));
        world.fails = functions[i];
        load("1.1.0");
        CHECK(!world.fails && config.on_trial && !config.running_digest);
    }
}

void test_power_cuts(void) {
    RUN(survives_a_power_cut_between_each_two_writes);
    RUN(raises_the_counter_only_after_confirm_if_the_bytes_are_the_same);
    RUN(reports_a_failed_mark_and_a_failed_confirm);
    RUN(refuses_a_marked_image_that_cannot_be_hashed);
}
