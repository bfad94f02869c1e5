/*
 * A device around the core. The files:
 *
 *   flash.c        two slots and the record area, with failures and power cuts
 *   release.c      signed images, and replacements for SHA-256 and Ed25519
 *   bench.c        the core's port, the bootloader, connections
 *   host.c         a host that follows the profile
 *   device_fuzz.c  the interpretation of the input's bytes as actions of hosts, radio and flash
 *   decoder_fuzz.c the interpretation of the input's bytes as an encoded image
 *   envelope_fuzz.c the interpretation of the input's bytes as an envelope
 */
#ifndef BENCH_H
#define BENCH_H

#include "ota_device.h"

#include <stddef.h>

enum { SLOT_SIZE = 2048, PAGE_LARGEST = 512, RELEASES = 3, IMAGE_LARGEST = 1801, ENVELOPE_SIZE = 169 };
enum { SIGNATURE_SIZE = 64 };

struct release {
    uint8_t envelope[ENVELOPE_SIZE];
    uint32_t manifest_size;
    uint8_t digest[OTA_DIGEST_SIZE]; /* of the manifest */
    uint8_t image[IMAGE_LARGEST];
    uint32_t image_size, counter;
};

enum moment { BEFORE, DURING, AFTER };

struct flash {
    uint8_t slots[2][SLOT_SIZE];
    uint8_t record[OTA_RECORD_PAGES * PAGE_LARGEST];
    uint32_t page_size, write_unit;
    bool is_powered;
    uint32_t operations_left; /* until the power cut; 0: no power cut */
    enum moment moment;
    uint8_t failing; /* bit 0: writes fail, bit 1: erases, bit 2: reads, bit 3: only in the record area */
    bool fails_halfway; /* a failing operation does half of its work */
    uint32_t reads, changes; /* the numbers of reads, and of writes and erases */
};

enum trial { TRIAL_NONE, TRIAL_PENDING, TRIAL_RUNNING };

struct bench {
    struct ota_device device;
    struct ota_config config;
    struct ota_port port;
    struct ota_decoder decoder;
    struct release releases[RELEASES];
    struct flash flash;
    uint8_t envelope[OTA_ENVELOPE_DEFAULT];
    uint8_t *page;
    uint32_t now;

    /* The state of the bootloader. */
    uint8_t permanent, running;
    enum trial trial;
    const struct release *installed[2];
    uint32_t counter;
    bool wants_reboot;

    uint64_t hash[4];
    uint8_t answer[OTA_NOTIFICATION_LARGEST]; /* the last answer to connection 1 */
    uint8_t answer_size;
    uint8_t verified; /* the algorithms of the valid signatures (OTA_REQUIRES) */
    bool has_buffers, mark_fails, confirm_fails, hash_fails, self_test_passed, is_too_old, permits;

    const char *finding; /* the first violation */
};

void find(struct bench *bench, bool holds, const char *finding);

/* flash.c */
bool flash_read(struct bench *bench, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count);
bool flash_write(struct bench *bench, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count);
bool flash_erase(struct bench *bench, enum ota_area area, uint32_t offset);

/* release.c */
void hash_start(uint64_t hash[4]);
void hash_update(uint64_t hash[4], const uint8_t *bytes, uint32_t count);
void hash_finish(const uint64_t hash[4], uint8_t digest[OTA_DIGEST_SIZE]);
void digest_of(const uint8_t *bytes, uint32_t count, uint8_t digest[OTA_DIGEST_SIZE]);
extern const uint8_t key_id[OTA_PREFIX_SIZE];
void release_make(struct release *release, uint8_t number);

/* bench.c */
void bench_start(struct bench *bench, const uint8_t settings[4]);
/* Starts the device. */
void boot(struct bench *bench);
/* Call this after each call of the core. It polls, and boots after a power cut or a requested reboot. */
void settle(struct bench *bench);

/* host.c */
/* Sends a request on a connection. Returns the status of the answer, or -1 if there is no answer. */
int request(struct bench *bench, uint16_t connection, const uint8_t *bytes, uint16_t count);
int begin(struct bench *bench, uint16_t connection, enum ota_object object, const struct release *release, uint32_t from);
/* Sends BEGIN of an encoded image, whose base is the first `base_size` bytes of the running slot. */
int begin_encoded(struct bench *bench, uint16_t connection, uint32_t from, uint32_t base_size);
/* Sends a Data value with the expected sequence, from memory of exactly its size, so that the sanitizer detects a read
 * beyond the end. */
void send_value(struct bench *bench, uint16_t connection, const uint8_t *bytes, uint32_t count);
/* Sends the next bytes of the open object of a release, with the expected sequence. False: no object is open, or it is
 * complete. */
bool send_next(struct bench *bench, uint16_t connection, const struct release *release, uint32_t count);
int submit(struct bench *bench, uint16_t connection, const struct release *release);
/* Does a complete update according to the profile. */
void update_correctly(struct bench *bench, const struct release *release);

#endif
