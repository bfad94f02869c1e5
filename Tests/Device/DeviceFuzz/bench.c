#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* Every request needs fewer polls than this. */
enum { POLLS_AT_ONCE = 1000, BOOTS_AT_ONCE = 8 };

void find(struct bench *bench, bool holds, const char *finding) {
    if (!holds && !bench->finding) bench->finding = finding;
}

/* ---- The port ---- */

static bool port_read(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count) {
    return flash_read(context, area, offset, bytes, count);
}
static bool port_write(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    return flash_write(context, area, offset, bytes, count);
}
static bool port_erase(void *context, enum ota_area area, uint32_t offset) { return flash_erase(context, area, offset); }

static void port_hash_start(void *context) { hash_start(((struct bench *)context)->hash); }
static void port_hash_update(void *context, const uint8_t *bytes, uint32_t count) {
    hash_update(((struct bench *)context)->hash, bytes, count);
}
static bool port_hash_finish(void *context, uint8_t digest[OTA_DIGEST_SIZE]) {
    struct bench *bench = context;
    hash_finish(bench->hash, digest);
    return !bench->hash_fails;
}

/* Accepts only the Ed25519 signatures of the releases, and each ML-DSA signature that starts with 0. */
static bool port_verify(void *context, uint8_t key, enum ota_algorithm algorithm, const uint8_t *message, uint32_t count,
                        const uint8_t *signature, uint32_t signature_size) {
    struct bench *bench = context;
    const struct ota_config *config = &bench->config;
    find(bench, key < config->key_count, "verify: called for a key that is not trusted");
    find(bench, algorithm == (config->key_algorithms ? config->key_algorithms[key] : OTA_ED25519),
         "verify: not the algorithm of the key");
    if (algorithm == OTA_ML_DSA_44) {
        find(bench, signature_size == 2420, "verify: not the size of an ML-DSA-44 signature");
        if (signature[0] != 0) return false;
        bench->verified |= OTA_REQUIRES(OTA_ML_DSA_44);
        return true;
    }
    find(bench, signature_size == SIGNATURE_SIZE, "verify: not the size of an Ed25519 signature");
    for (int i = 0; i < RELEASES; i++) {
        const struct release *release = &bench->releases[i];
        if (count == release->manifest_size && memcmp(message, release->envelope, count) == 0 &&
            memcmp(signature, release->envelope + count + 16, SIGNATURE_SIZE) == 0) {
            bench->verified |= OTA_REQUIRES(OTA_ED25519);
            return true;
        }
    }
    return false;
}

static bool port_notify(void *context, uint16_t connection, enum ota_characteristic characteristic,
                        const uint8_t *bytes, uint16_t count) {
    struct bench *bench = context;
    if (!bench->has_buffers || !bench->flash.is_powered) return false;
    bool is_answer = characteristic == OTA_CONTROL && (count == 3 || count == 13);
    find(bench, is_answer || (characteristic == OTA_PROGRESS && count == 12), "notify: not an answer or a Progress");
    if (is_answer && connection == 1) {
        memcpy(bench->answer, bytes, count);
        bench->answer_size = (uint8_t)count;
    }
    return true;
}

/* Checks that the core marks only a signed release whose image is in the slot, byte for byte. */
static bool port_mark(void *context, enum ota_boot boot, const struct ota_manifest *manifest) {
    struct bench *bench = context;
    uint8_t slot = (uint8_t)(1 - bench->running);
    const struct release *marked = NULL;
    for (int i = 0; i < RELEASES; i++) {
        if (memcmp(manifest->digest, bench->releases[i].digest, OTA_DIGEST_SIZE) == 0) marked = &bench->releases[i];
    }
    find(bench, marked != NULL, "mark: not a signed release");
    if (!marked) return false;
    find(bench, memcmp(bench->flash.slots[slot], marked->image, marked->image_size) == 0,
         "mark: the slot does not contain the image of the release");
    find(bench, manifest->image_size == marked->image_size && manifest->security_counter == marked->counter,
         "mark: size or counter differ from the manifest");
    find(bench, marked->counter >= bench->counter, "mark: the security counter is lower than the device's");
    find(bench, boot == OTA_BOOT_TRIAL || bench->config.trial_seconds == 0 || bench->config.permanent_allowed,
         "mark: permanent, but the configuration requires a trial");
    if (bench->mark_fails || !bench->flash.is_powered) return false;
    bench->installed[slot] = marked;
    bench->trial = boot == OTA_BOOT_TRIAL ? TRIAL_PENDING : TRIAL_NONE;
    if (boot == OTA_BOOT_PERMANENT) bench->permanent = slot;
    return true;
}

static bool port_confirm(void *context, uint32_t security_counter, const uint8_t *digest) {
    struct bench *bench = context;
    const struct release *release = bench->installed[bench->running];
    find(bench, bench->trial == TRIAL_RUNNING, "confirm: there is no trial");
    find(bench, release && digest && memcmp(digest, release->digest, OTA_DIGEST_SIZE) == 0 &&
                    security_counter == release->counter,
         "confirm: not the running release");
    if (bench->confirm_fails || !bench->flash.is_powered) return false;
    bench->trial = TRIAL_NONE;
    bench->permanent = bench->running;
    return true;
}

static void port_roll_back(void *context) { (void)context; }
static void port_reboot(void *context) { ((struct bench *)context)->wants_reboot = true; }
static bool port_self_test_passed(void *context) { return ((struct bench *)context)->self_test_passed; }
static bool port_too_old(void *context, const struct ota_manifest *manifest) {
    (void)manifest;
    return ((struct bench *)context)->is_too_old;
}
static bool port_permits(void *context, const struct ota_manifest *manifest) {
    (void)manifest;
    return ((struct bench *)context)->permits;
}

/* ---- The device ---- */

static bool is_complete(const struct bench *bench, uint8_t slot) {
    const struct release *release = bench->installed[slot];
    return release && memcmp(bench->flash.slots[slot], release->image, release->image_size) == 0;
}

/* Chooses the slot that runs. Slot 0 initially contains a complete image that no bundle installed. */
static void choose_slot(struct bench *bench) {
    uint8_t other = (uint8_t)(1 - bench->permanent);
    bool is_trial = bench->trial == TRIAL_PENDING;
    bench->trial = is_trial ? TRIAL_RUNNING : TRIAL_NONE;
    bench->running = is_trial ? other : bench->permanent;
    find(bench, !bench->installed[bench->running] || is_complete(bench, bench->running),
         "boot: the image is not complete");
    const struct release *permanent = bench->installed[bench->permanent];
    bench->counter = permanent ? permanent->counter : 0;
}

void boot(struct bench *bench) {
    bench->flash.is_powered = true;
    bench->wants_reboot = false;
    bench->answer_size = 0;
    choose_slot(bench);
    const struct release *release = bench->installed[bench->running];
    bench->config.security_counter = bench->counter;
    bench->config.trial_security_counter = release ? release->counter : 0;
    bench->config.running_digest = release ? release->digest : NULL;
    bench->config.on_trial = bench->trial == TRIAL_RUNNING;
    memset(bench->page, 0x77, bench->config.page_size);
    enum ota_start_error error =
        ota_device_start(&bench->device, &bench->config, &bench->port, bench, bench->page, bench->now);
    bool may_fail = bench->flash.failing != 0 || !bench->flash.is_powered;
    find(bench, error == OTA_START_OK || (may_fail && error == OTA_START_FLASH), "start: the core does not start");
}

void settle(struct bench *bench) {
    for (int boots = 0; boots < BOOTS_AT_ONCE; boots++) {
        uint32_t wait = 0;
        for (int i = 0; i < POLLS_AT_ONCE && wait == 0; i++) {
            if (bench->wants_reboot || !bench->flash.is_powered) break;
            wait = ota_device_poll(&bench->device, bench->now);
        }
        if (!bench->wants_reboot && bench->flash.is_powered) {
            find(bench, wait > 0, "poll: a request does not end");
            find(bench, ota_device_state(&bench->device) <= OTA_STATE_TRIAL, "state: not a state of the profile");
            return;
        }
        boot(bench);
    }
}

void bench_start(struct bench *bench, const uint8_t settings[4]) {
    static const uint8_t units[8] = {1, 2, 4, 8, 16, 32, 64, 4};
    static const uint16_t windows[4] = {1, 4, 64, 2047}, longest[4] = {20, 64, 244, 512};
    for (uint8_t i = 0; i < RELEASES; i++) release_make(&bench->releases[i], i);
    struct ota_config *config = &bench->config;
    config->product = "demo";
    config->version = "1.0.0";
    config->key_ids = key_id;
    config->key_count = 1;
    config->envelope = bench->envelope;
    config->largest_envelope = sizeof bench->envelope;
    config->hardware = 1;
    config->largest_image = SLOT_SIZE;
    config->longest_data = longest[settings[0] & 3];
    config->window = windows[settings[0] >> 2 & 3];
    config->restart_seconds = 10;
    config->trial_seconds = settings[1] & 1 ? 20 : 0;
    config->page_size = settings[1] & 2 ? PAGE_LARGEST : OTA_PAGE_SMALLEST;
    config->slot_size = SLOT_SIZE;
    config->write_unit = units[settings[2] & 7];
    config->permanent_allowed = (settings[1] & 8) != 0;
    config->wear_minutes = settings[1] & 16 ? 1 : 0;
    config->erase_ahead = (settings[1] & 4) != 0;
    config->erase_step = (uint16_t)(1 + (settings[2] >> 3 & 3));
    bench->port = (struct ota_port){
        .read = port_read, .write = port_write, .erase = port_erase,
        .hash_start = port_hash_start, .hash_update = port_hash_update, .hash_finish = port_hash_finish,
        .verify = port_verify, .notify = port_notify, .mark = port_mark, .confirm = port_confirm,
        .roll_back = port_roll_back, .reboot = port_reboot, .self_test_passed = port_self_test_passed,
        .too_old = port_too_old, .permits = port_permits,
    };
    config->decoder = settings[1] & 32 ? &bench->decoder : NULL;
    config->base_size = settings[1] & 64 ? SLOT_SIZE : 0;
    memset(&bench->decoder, 0x77, sizeof bench->decoder);
    bench->flash.page_size = config->page_size;
    bench->flash.write_unit = config->write_unit;
    memset(bench->flash.record, settings[3], sizeof bench->flash.record);
    memset(bench->flash.slots, 0x5A, sizeof bench->flash.slots);
    bench->has_buffers = bench->self_test_passed = bench->permits = true;
    bench->page = malloc(config->page_size);
    if (bench->page) boot(bench);
}
