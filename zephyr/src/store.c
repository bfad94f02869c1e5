/*
 * The records, in the settings: the counter of the permanent image, the marked image and the permanent image.
 *
 * Power can fail between two writes. Therefore no record is trusted alone: the marked image runs only if the primary
 * slot has its digest. `marked` is written before the bootloader's mark and removed when it became `running`, or when
 * another image runs. `running` counts only if its version is the version of this image, because a programmer can have
 * written another image.
 *
 * A new release can have the bytes of the old image. The primary slot then has the digest before the bootloader's mark
 * and after a rollback, too. Therefore `marked` also has a step, and `became_permanent` compares the records.
 */
#include <errno.h>
#include <string.h>
#include <zephyr/settings/settings.h>

#include "glue.h"

#define COUNTER "otaflash/counter"
#define MARKED "otaflash/marked"
#define RUNNING "otaflash/running"

static struct {
    uint32_t counter;
    struct otaflash_image marked, running;
    bool has_counter, has_marked, has_running;
} store;

/* Copies a stored value if it has the expected size. */
static bool load(void *value, size_t expected, size_t size, settings_read_cb read, void *argument) {
    return size == expected && read(argument, value, expected) == (ssize_t)expected;
}

static int load_record(const char *name, size_t size, settings_read_cb read, void *argument, void *parameter) {
    ARG_UNUSED(parameter);
    if (strcmp(name, "counter") == 0) store.has_counter = load(&store.counter, sizeof store.counter, size, read, argument);
    if (strcmp(name, "marked") == 0) store.has_marked = load(&store.marked, sizeof store.marked, size, read, argument);
    if (strcmp(name, "running") == 0) store.has_running = load(&store.running, sizeof store.running, size, read, argument);
    return 0;
}

bool otaflash_store_counter(uint32_t counter) {
    if (store.has_counter && store.counter >= counter) return true;
    if (settings_save_one(COUNTER, &counter, sizeof counter) != 0) return false;
    store.counter = counter;
    store.has_counter = true;
    return true;
}

static bool save_marked(void) {
    store.has_marked = settings_save_one(MARKED, &store.marked, sizeof store.marked) == 0;
    return store.has_marked;
}

bool otaflash_store_marked(const struct ota_manifest *manifest, enum ota_boot boot) {
    struct otaflash_image *image = &store.marked;
    memset(image, 0, sizeof *image);
    image->step = boot == OTA_BOOT_PERMANENT ? OTAFLASH_PERMANENT : OTAFLASH_TRIAL;
    memcpy(image->digest, manifest->digest, sizeof image->digest);
    memcpy(image->image_digest, manifest->image_digest, sizeof image->image_digest);
    image->image_size = manifest->image_size;
    image->counter = manifest->security_counter;
    memcpy(image->version, manifest->version, MIN(manifest->version_size, OTA_TEXT_LARGEST));
    return save_marked();
}

bool otaflash_store_confirming(void) {
    if (!store.has_marked) return true;
    store.marked.step = OTAFLASH_PERMANENT;
    if (save_marked()) return true;
    /* The record in the settings is still the one of the trial. */
    store.marked.step = OTAFLASH_TRIAL;
    store.has_marked = true;
    return false;
}

static void remove_marked(void) {
    store.has_marked = false;
    (void)settings_delete(MARKED);
}

void otaflash_store_confirmed(void) {
    if (!store.has_marked) return;
    /* If this write fails, `marked` stays, and the next start tries again. */
    if (settings_save_one(RUNNING, &store.marked, sizeof store.marked) != 0) return;
    store.running = store.marked;
    store.has_running = true;
    remove_marked();
}

/* Returns whether the marked image became the permanent image. It is in the primary slot, and no image is on trial. */
static bool became_permanent(void) {
    bool has_same_bytes = store.has_running && store.running.image_size == store.marked.image_size &&
                          memcmp(store.running.image_digest, store.marked.image_digest, OTA_DIGEST_SIZE) == 0;
    if (store.marked.step != OTAFLASH_PERMANENT) return false;
    /* Without different bytes, only the counter proves the bootloader's mark, because it is raised after the mark. */
    return !has_same_bytes || (store.has_counter && store.counter >= store.marked.counter);
}

int otaflash_store_load(struct ota_config *config, bool on_trial) {
    memset(&store, 0, sizeof store);
    int error = settings_subsys_init();
    if (!error) error = settings_load_subtree_direct("otaflash", load_record, NULL);
    if (error) return error;

    config->on_trial = on_trial;
    config->running_digest = NULL;
    config->trial_security_counter = CONFIG_OTAFLASH_COUNTER;
    if (store.has_marked && !otaflash_slot_has(&store.marked)) remove_marked();
    if (store.has_marked && on_trial) {
        config->running_digest = store.marked.digest;
        config->trial_security_counter = store.marked.counter;
    }
    if (!on_trial) {
        if (store.has_marked && !became_permanent()) remove_marked();
        /* Power can have failed after the bootloader's mark and before these writes. */
        if (store.has_marked) (void)otaflash_store_counter(store.marked.counter);
        (void)otaflash_store_counter(CONFIG_OTAFLASH_COUNTER);
        otaflash_store_confirmed();
        if (store.has_running && strcmp(store.running.version, config->version) == 0)
            config->running_digest = store.running.digest;
    }
    config->security_counter = store.has_counter ? store.counter : 0;
    return 0;
}
