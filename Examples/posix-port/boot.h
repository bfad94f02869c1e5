/* A bootloader with two slots and trials, as MCUboot or the one of ESP-IDF. Firmware has its own in its place. */
#ifndef BOOT_H
#define BOOT_H

#include <stdbool.h>
#include <stdint.h>

#include "ota_device.h"

struct image {
    uint32_t size, counter; /* bytes; the security counter. Size 0: no image */
    uint8_t digest[OTA_DIGEST_SIZE];
    uint8_t manifest[OTA_DIGEST_SIZE]; /* all 0: not installed from a bundle */
    char version[OTA_TEXT_LARGEST + 1];
};

/* The state after a boot. The records of the bootloader have the same form, so no second state can disagree. */
struct boot {
    uint32_t generation;
    uint8_t permanent; /* the slot of the image that the bootloader starts without a trial */
    uint8_t trial;     /* enum trial, of the image in the other slot */
    uint8_t format;    /* RECORD_FORMAT: the bootloader never changes, so the application keeps this layout */
    uint8_t unused;
    struct image images[2];
    uint32_t crc;
};
enum { RECORD_FORMAT = 1 };
enum trial { NO_TRIAL, TRIAL_PENDING, TRIAL_RUNS };

/* Selects the image to run. Only the bootloader calls it. Returns false if no image can run. Without records, it installs
 * the factory image if it was compiled with FACTORY. */
bool boot(struct boot *state);
/* Each of these appends ONE record. A power cut leaves the old state or the new one. If one of them returns false, the old
 * state counts. */
bool boot_mark(struct boot *state, const struct image *image);
bool boot_confirm(struct boot *state);

void sha256_start(void);
void sha256_update(const uint8_t *bytes, uint32_t count);
bool sha256_finish(uint8_t digest[OTA_DIGEST_SIZE]);

#endif
