/* The description of a device, for ota_device.h. */
#ifndef OTA_CONFIG_H
#define OTA_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "ota_decoder.h"
#include "ota_profile.h"

/* Numbers of the wear limit (`ota_config.wear_minutes`). OTA_WEAR_BURST is the number of times that each page may be
 * erased without a wait. OTA_WEAR_MINUTES is the default of `wear_minutes`. OTA_WEAR_UNLIMITED is the value of
 * `wear_minutes` that turns the limit off. */
enum { OTA_WEAR_BURST = 40, OTA_WEAR_MINUTES = 15, OTA_WEAR_UNLIMITED = 255 };

/* The bit of an algorithm in `ota_config.required_algorithms`. */
#define OTA_REQUIRES(algorithm) (1u << (algorithm))

/* The configuration. The core does not copy this structure, or its texts and arrays. Therefore do not change or free
 * them while the device runs. Texts end with NUL. */
struct ota_config {
    /* The product name: 1..63 characters of A-Z a-z 0-9 . _ - A manifest must have the same product name. */
    const char *product;
    /* The SemVer version of the running firmware, 5..63 bytes. The field "requires" of a manifest is a minimum for this
     * version. */
    const char *version;
    /* The ids of the trusted keys, one after another. Each id has 8 bytes: the first 8 bytes of the SHA-256 of the raw
     * public key. All ids must differ. `ota_port.verify` receives the index of a key in this list. */
    const uint8_t *key_ids;
    /* The algorithms of the trusted keys, one byte for each key (enum ota_algorithm). NULL: all keys are Ed25519 keys. */
    const uint8_t *key_algorithms;
    uint8_t key_count; /* 1..16 */
    /* The memory for the received envelope, and its size in bytes, 158..65124. Only the core may use this memory. The
     * device refuses a longer envelope. An envelope with one Ed25519 and one ML-DSA-65 signature has at most 4425
     * bytes. OTA_ENVELOPE_DEFAULT is enough for four Ed25519 signatures. */
    uint8_t *envelope;
    uint16_t largest_envelope;
    /* The SHA-256 of the running image's manifest, 32 bytes. `ota_port.mark` received this digest. NULL if the running
     * image was not installed from a bundle. */
    const uint8_t *running_digest;
    /* The security counter of the permanent image. On a trial boot, the old image is the permanent image. */
    uint32_t security_counter;
    /* The security counter of the image on trial. `ota_port.mark` received this counter. The core uses this member only
     * on a trial boot. */
    uint32_t trial_security_counter;
    /* True if this boot runs an image on trial. In this case `trial_seconds` must not be 0. */
    bool on_trial;

    /* enum ota_image_format: the format that the bootloader boots. Use OTA_FORMAT_ANY only for a device that boots
     * every format (a simulated device), or if the callback `permits` checks the format. */
    uint8_t image_format;
    uint16_t hardware;    /* the hardware revision */
    /* The maximum size of an image in bytes: the size of the slot without the part that the bootloader uses. For
     * MCUboot use OTA_MCUBOOT_LARGEST_IMAGE. The core refuses 0, and a value above `ota_largest_image`. */
    uint32_t largest_image;
    /* The maximum length of a Data value in bytes, 20..512. The 2 bytes of the sequence number are included. The stack
     * must be able to receive values of this length. */
    uint16_t longest_data;
    /* The maximum number of chunks in flight, 1..2047. If events reach the core through a queue, use half of the
     * queue's length. The reason is that after a lost chunk, the queue can contain a window of old chunks and a window
     * of new chunks. */
    uint16_t window;
    /* The maximum time in seconds from the answer to APPLY until the device accepts connections again, at least 1. The
     * time of the bootloader's swap is included. */
    uint16_t restart_seconds;
    /* The time limit of a trial in seconds, from `ota_device_start` to CONFIRM. 0 means that the device has no trials,
     * because the bootloader cannot roll back. If the image on trial hangs, the core cannot end the trial. A watchdog
     * must then restart the device. */
    uint16_t trial_seconds;

    /* The size of an erase page in bytes: 256..65536, a multiple of `write_unit`. The slot and the record area have the
     * same page size. */
    uint32_t page_size;
    /* The size of the slot in bytes, a multiple of `page_size`. The record area has OTA_RECORD_PAGES pages. */
    uint32_t slot_size;
    /* The smallest unit in bytes that the flash can write: a power of two, 1..64. The core writes only whole units at
     * multiples of this size, and pads the last unit with 0xFF. */
    uint8_t write_unit;
    /* True: the core erases all pages of the image during BEGIN, in several polls. False: it erases each page just
     * before it writes the page. Use true if the erase of one page blocks the radio for more than 100 ms. With true,
     * all erases of an image together must take less than 30 s, because the host does not wait longer for the answer to
     * BEGIN. */
    bool erase_ahead;
    /* With `erase_ahead`: the number of pages that the core erases in one poll, at least 1. */
    uint16_t erase_step;

    /* The memory of the decoder for encoded images. Only the core may use this memory. NULL: the device accepts only
     * plain images. With OTA_ENCODINGS 0, the core does not use `decoder` and `base_size`. */
    struct ota_decoder *decoder;
    /* The number of bytes of OTA_AREA_BASE, or 0 if the firmware cannot or must not read the running image. The area
     * must not contain secrets, such as the keys in MCUboot's trailer. `base_size` + `slot_size` must be below 2^32. */
    uint32_t base_size;

    /* The members below are the device's policy. The default of each is 0 or false. */

    /* The number of different trusted keys of one algorithm that must have signed a bundle, at most 8. 0 means 1. */
    uint8_t required_signatures;
    /* The algorithms that must each have `required_signatures` valid signatures, as a sum of OTA_REQUIRES(algorithm). 0
     * means that any one algorithm is enough. */
    uint8_t required_algorithms;
    /* The maximum increase of the security counter by one update. 0 means no limit. Without a limit, one bundle that
     * was signed with a stolen key could raise the counter so far that the device refuses all genuine bundles. */
    uint32_t largest_counter_step;
    /* True: the core accepts APPLY without a trial even if the bootloader supports trials (`trial_seconds` > 0). */
    bool permanent_allowed;
    /* The wear limit: each page of the slot may be erased OTA_WEAR_BURST times without a wait, and then once in this
     * number of minutes. 0 means OTA_WEAR_MINUTES. OTA_WEAR_UNLIMITED turns the limit off (for development). */
    uint8_t wear_minutes;
};

#endif
