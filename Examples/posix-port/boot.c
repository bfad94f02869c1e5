#include "boot.h"

#include <openssl/evp.h>
#include <stddef.h>
#include <string.h>

#include "flash.h"

/* Firmware uses PSA, Mbed TLS or its hash hardware. The hash of the core must not disturb the one of the bootloader:
 * here, the bootloader never hashes while the core runs. */
static EVP_MD_CTX *hash;
static bool hash_is_good;

void sha256_start(void) {
    if (hash == NULL) hash = EVP_MD_CTX_new();
    hash_is_good = hash != NULL && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1;
}

void sha256_update(const uint8_t *bytes, uint32_t count) {
    hash_is_good = hash_is_good && EVP_DigestUpdate(hash, bytes, count) == 1;
}

bool sha256_finish(uint8_t digest[OTA_DIGEST_SIZE]) {
    return hash_is_good && EVP_DigestFinal_ex(hash, digest, NULL) == 1;
}

static uint32_t crc32(const struct boot *state) {
    uint32_t crc = UINT32_MAX;
    const uint8_t *bytes = (const uint8_t *)state;
    for (size_t i = 0; i < offsetof(struct boot, crc); i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* A record has whole write units. */
enum { RECORD_SIZE = (sizeof(struct boot) + WRITE_UNIT - 1) / WRITE_UNIT * WRITE_UNIT, RECORDS = PAGE_SIZE / RECORD_SIZE };

static uint32_t place(int page, int index) { return BOOT_AREA + (uint32_t)(page * PAGE_SIZE + index * RECORD_SIZE); }

enum { NO_RECORD = -1, UNREADABLE = -2 };

/* Returns the page of the newest complete record, and reads the record. */
static int newest(struct boot *state) {
    int found = NO_RECORD;
    for (int page = 0; page < 2; page++)
        for (int index = 0; index < RECORDS; index++) {
            struct boot record;
            if (!flash_read(place(page, index), &record, sizeof record)) return UNREADABLE;
            if (record.crc != crc32(&record) || record.format != RECORD_FORMAT || record.permanent > 1) continue;
            if (found >= 0 && record.generation <= state->generation) continue;
            *state = record;
            found = page;
        }
    return found;
}

static bool is_erased(uint32_t offset) {
    uint8_t bytes[RECORD_SIZE];
    if (!flash_read(offset, bytes, sizeof bytes)) return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        if (bytes[i] != 0xFF) return false;
    return true;
}

static bool write_record(uint32_t offset, const struct boot *state) {
    uint8_t bytes[RECORD_SIZE], written[RECORD_SIZE];
    memset(bytes, 0xFF, sizeof bytes);
    memcpy(bytes, state, sizeof *state);
    return flash_write(offset, bytes, sizeof bytes) && flash_read(offset, written, sizeof written) &&
           memcmp(written, bytes, sizeof written) == 0;
}

/* Appends the state. The other page is erased only when its records are all older than the one that counts. */
static bool append(struct boot *state) {
    struct boot old;
    int page = newest(&old);
    if (page == UNREADABLE) return false;
    /* A record of a call that failed may be in the flash, too. */
    state->generation = (page == NO_RECORD ? 0 : old.generation) + 1;
    state->crc = crc32(state);
    /* After a power cut in an erase, a unit can read as erased and refuse its write. */
    for (int index = 0; page >= 0 && index < RECORDS; index++)
        if (is_erased(place(page, index)) && write_record(place(page, index), state)) return true;
    page = page == 0 ? 1 : 0;
    return flash_erase(place(page, 0)) && write_record(place(page, 0), state);
}

static bool is_intact(const struct boot *state, int slot) {
    const struct image *image = &state->images[slot];
    uint8_t bytes[256], digest[OTA_DIGEST_SIZE];
    if (image->size == 0 || image->size > SLOT_SIZE) return false;
    sha256_start();
    for (uint32_t done = 0, part; done < image->size; done += part) {
        part = image->size - done < sizeof bytes ? image->size - done : (uint32_t)sizeof bytes;
        if (!flash_read(SLOTS + (uint32_t)slot * SLOT_SIZE + done, bytes, part)) return false;
        sha256_update(bytes, part);
    }
    return sha256_finish(digest) && memcmp(digest, image->digest, sizeof digest) == 0;
}

#ifdef FACTORY
/* A bootloader in the field never does this: without records, it cannot know the security counter. */
static bool install_factory_image(struct boot *state) {
    static const uint8_t image[64] = "factory firmware of an example port, version 1.0.0";
    memset(state, 0, sizeof *state);
    state->format = RECORD_FORMAT;
    state->images[0].size = sizeof image;
    strcpy(state->images[0].version, "1.0.0");
    sha256_start();
    sha256_update(image, sizeof image);
    return sha256_finish(state->images[0].digest) && flash_erase(SLOTS) &&
           flash_write(SLOTS, image, sizeof image) && append(state);
}
#endif

bool boot(struct boot *state) {
    int page = newest(state);
    /* Records that cannot be read are no new device: its image and its counter would be lost. */
    if (page == UNREADABLE) return false;
#ifdef FACTORY
    if (page == NO_RECORD && !install_factory_image(state)) return false;
#else
    if (page == NO_RECORD) return false;
#endif
    if (state->trial == TRIAL_PENDING && is_intact(state, 1 - state->permanent)) {
        /* First the record, then the new image: every later boot without CONFIRM starts the old image. */
        state->trial = TRIAL_RUNS;
        if (append(state)) return true;
    }
    if (state->trial != NO_TRIAL) {
        /* Without this record the old image also runs now, and the next boot decides again. */
        state->trial = NO_TRIAL;
        (void)append(state);
    }
    /* The other slot has an older image, or one that was never confirmed: a damaged image is for a service technician. */
    return is_intact(state, state->permanent);
}

/* Makes `next` the state. A write that reports an error can still have stored the record, so the old state is appended
 * again. */
static bool change(struct boot *state, struct boot *next) {
    if (append(next)) {
        *state = *next;
        return true;
    }
    (void)append(state);
    return false;
}

bool boot_mark(struct boot *state, const struct image *image) {
    struct boot next = *state;
    next.images[1 - state->permanent] = *image;
    next.trial = TRIAL_PENDING;
    return change(state, &next);
}

bool boot_confirm(struct boot *state) {
    if (state->trial != TRIAL_RUNS) return false;
    struct boot next = *state;
    next.permanent = 1 - state->permanent;
    next.trial = NO_TRIAL;
    return change(state, &next);
}
