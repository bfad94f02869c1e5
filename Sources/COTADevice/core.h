/*
 * What the core's files share. Which file is which idea:
 *
 *   device.c      start, the clock, poll              connection.c  who is connected, and who owns the update
 *   config.c      what a configuration must be        notify.c      answers, positions, Progress
 *   control.c     requests that are answered at once  info.c        the readable values
 *   job.c         requests that take several polls    data.c        sequences and chunks
 *   check_envelope.c       whether an envelope is accepted     image.c       the half-received image, page by page
 *   envelope.c    its form                            record.c      how far it came, across a power cut
 *   text.c        texts from outside                  wear.c        how often the slot may be erased
 *   crc32.c
 */
#ifndef OTA_CORE_H
#define OTA_CORE_H

#include "ota_device.h"

/* Milliseconds. */
enum {
    OTA_REBOOT_DELAY = 2000,   /* from APPLY's answer, for a host that does not disconnect */
    OTA_OWNER_SILENCE = 30000, /* after which another connection may take the update over */
    OTA_CLOCK_STEP_BACK = 60000, /* a time before the last one by less than this is out of order */
    OTA_NOTIFY_RETRY = 10      /* until a notification is offered again when nobody called meanwhile */
};

enum {
    OTA_SEQUENCE_JUMP = 4096,  /* what a rewind and a BEGIN add to the expected sequence */
    OTA_SEQUENCE_AHEAD = 2047, /* a sequence further ahead than this is a stale one */
    OTA_POSITION_SIZE = 10,
    OTA_PROGRESS_SIZE = 12
};

/* Wear: what an erase of the slot and an APPLY are charged. A bootloader that swaps by moving erases a page twice for the
 * swap and twice for the swap back. */
enum { OTA_WEAR_ERASE = 8, OTA_WEAR_APPLY = 4 * OTA_WEAR_ERASE, OTA_WEAR_LARGEST = OTA_WEAR_BURST * OTA_WEAR_ERASE };

enum ota_reboot { OTA_REBOOT_NONE, OTA_REBOOT_WANTED, OTA_REBOOT_DONE };

enum ota_job {
    OTA_JOB_NONE,
    OTA_JOB_CRC,   /* BEGIN image: the CRC of what is held */
    OTA_JOB_ERASE, /* BEGIN image: erasing ahead */
    OTA_JOB_CHECK, /* FINISH envelope */
    OTA_JOB_HASH   /* FINISH image */
};

/* An envelope of the right form; pointers go into its bytes. Nothing in it is trusted yet. */
struct ota_envelope {
    struct ota_manifest manifest; /* its `digest` is not set by the parser */
    uint32_t manifest_size;
    const uint8_t *hardware; /* pairs of u16 */
    uint8_t hardware_pairs;
    const uint8_t *required_version; /* three u32, or NULL */
    uint8_t minimum_battery;         /* 0 where there is none */
    const uint8_t *signatures;
    uint8_t signature_count;
};

/* The layout of a signature in an envelope. */
enum { OTA_SIGNATURE_ENTRY = 76, OTA_SIGNATURE_KEY = 4, OTA_SIGNATURE_VALUE = 12 };

/* ---- Little-endian numbers ---- */

static inline uint16_t ota_u16(const uint8_t *bytes) { return (uint16_t)(bytes[0] | (uint16_t)(bytes[1] << 8)); }

static inline uint32_t ota_u32(const uint8_t *bytes) { return ota_u16(bytes) | (uint32_t)ota_u16(bytes + 2) << 16; }

static inline uint64_t ota_u64(const uint8_t *bytes) { return ota_u32(bytes) | (uint64_t)ota_u32(bytes + 4) << 32; }

static inline void ota_put_u16(uint8_t *bytes, uint16_t value) {
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

static inline void ota_put_u32(uint8_t *bytes, uint32_t value) {
    ota_put_u16(bytes, (uint16_t)value);
    ota_put_u16(bytes + 2, (uint16_t)(value >> 16));
}

static inline uint32_t ota_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Up to the next multiple, or down to the one before. */
static inline uint32_t ota_round_up(uint32_t value, uint32_t unit) {
    return value % unit == 0 ? value : value + (unit - value % unit);
}
static inline uint32_t ota_round_down(uint32_t value, uint32_t unit) { return value - value % unit; }

/* ---- crc32.c, text.c, config.c ---- */

/* CRC-32 of IEEE 802.3 over what `crc` stands for (0: nothing) and the bytes behind it. */
uint32_t ota_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count);

bool ota_is_product(const uint8_t *text, uint32_t size);
/* SemVer 2.0.0, 5..63 bytes, numbers below 2^32, which go into `numbers`. */
bool ota_is_version(const uint8_t *text, uint32_t size, uint32_t numbers[3]);
/* UTF-8, 1..127 bytes, no control characters. */
bool ota_is_source(const uint8_t *text, uint32_t size);
/* Bytes of a text that ends with NUL, at most `largest` + 1. */
uint32_t ota_text_size(const char *text, uint32_t largest);

enum ota_start_error ota_config_check(const struct ota_config *config, uint32_t version[3]);

/* ---- envelope.c, check_envelope.c ---- */

/* OTA_OK, OTA_MALFORMED or OTA_UNKNOWN_CRITICAL. */
enum ota_status ota_envelope_parse(const uint8_t *bytes, uint32_t size, struct ota_envelope *envelope);

/* Whether the envelope received is one to be installed here; sets `manifest_digest`. */
enum ota_status ota_check_envelope(struct ota_device *device);

/* ---- record.c ---- */

/* Reads the newest record into `held_digest`, `held_recorded` and `wear`. False: a record could not be read; nothing is
 * held, and `wear` is that of the newest readable record. */
bool ota_record_load(struct ota_device *device);

/* How many pages of an image of `size` bytes a record stands for. */
uint32_t ota_record_interval(const struct ota_device *device, uint32_t size);

/* Appends a record that `offset` bytes of the image `held_digest` are in flash. */
bool ota_record_append(struct ota_device *device, uint32_t offset);

/* ---- wear.c ---- */

/* Whether so much may be charged now. */
bool ota_wear_allows(const struct ota_device *device, uint32_t charge);
void ota_wear_charge(struct ota_device *device, uint32_t charge);
/* Forgives what the time since the last call has earned. */
void ota_wear_decay(struct ota_device *device, uint32_t now);
/* After the record was read. */
void ota_wear_start(struct ota_device *device, uint32_t now);

/* ---- image.c ---- */

/* Where a BEGIN at `from` goes on, in an image of `size` bytes of the accepted manifest; changes nothing. */
uint32_t ota_image_resume(const struct ota_device *device, uint32_t from, uint32_t size);

/* Whether an image of `size` bytes, continued at `offset`, erases a page that may have been erased since the last
 * charge. */
bool ota_image_erases_again(const struct ota_device *device, uint32_t offset, uint32_t size);

/* Goes on there. False: the flash failed, and all is as it was. */
bool ota_image_begin(struct ota_device *device, uint32_t offset);

/* Takes the bytes behind `held_offset`. False: the flash failed; what is held is then what is in flash. */
bool ota_image_write(struct ota_device *device, const uint8_t *bytes, uint32_t count);

/* Forgets what is held, durably. False: the flash failed, and it is not forgotten. */
bool ota_image_discard(struct ota_device *device);

/* Erases the next page ahead of the image's writing. False: the flash failed. */
bool ota_image_erase_next(struct ota_device *device);

/* ---- data.c ---- */

/* What a sequence means for a connection: whether it is the next; rewinds where something is missing. */
bool ota_sequence_is_next(struct ota_connection *connection, uint16_t sequence, bool fits);

static inline bool ota_object_is_open(const struct ota_device *device) {
    return device->state == OTA_STATE_ENVELOPE || device->state == OTA_STATE_IMAGE;
}

/* ---- notify.c ---- */

/* The connection's position, OTA_POSITION_SIZE bytes. */
void ota_put_position(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes);
void ota_put_progress(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes);

/* Leaves an answer to be offered; BEGIN and SYNC carry a position where they are OTA_OK. */
void ota_answer(struct ota_device *device, struct ota_connection *connection, uint8_t opcode, uint8_t tag,
                enum ota_status status);

/* Has Progress told to the connection, with what holds when the stack takes it. */
void ota_notify_progress(struct ota_connection *connection);

/* Offers the stack all that waits. */
void ota_send_pending(struct ota_device *device);
bool ota_is_pending(const struct ota_device *device);

/* ---- connection.c ---- */

struct ota_connection *ota_find(struct ota_device *device, uint16_t handle);

/* Notes that the host is there. */
void ota_note_activity(struct ota_device *device, const struct ota_connection *connection, uint32_t now);

/* An accepted BEGIN: the connection owns the update from now on, and its sequences jump. */
void ota_claim(struct ota_device *device, struct ota_connection *connection, uint32_t now);

/* Ends what the owner had open. */
void ota_release(struct ota_device *device);

/* ---- control.c, job.c, device.c ---- */

void ota_request(struct ota_device *device, struct ota_connection *connection, const uint8_t *bytes, uint16_t count,
                 uint32_t now);

/* Leaves the request to later polls. */
void ota_job_start(struct ota_device *device, enum ota_job job, uint8_t opcode, uint8_t tag);
/* Does one step; there is a job. */
void ota_job_step(struct ota_device *device, uint32_t now);

/* Closes the open object. */
void ota_enter(struct ota_device *device, enum ota_state state);

/* A failing flash ended the transfer: back to "accepted", and Progress says so. */
void ota_abort_image(struct ota_device *device);

/* Draws what follows from the time alone. Every entry point with a time begins with it. */
void ota_advance_time(struct ota_device *device, uint32_t now);

/* Reboots at `when`; in a trial, into the old image. */
void ota_schedule_reboot(struct ota_device *device, struct ota_connection *leaver, uint32_t when);

#endif
