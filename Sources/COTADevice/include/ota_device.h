/*
 * The device's side of the GATT OTA profile, version 1 (docs/ota-profile.md).
 *
 * The core implements everything between the Bluetooth stack and the flash. It verifies the signed envelope, receives
 * the image, and resumes the image after a lost link or a power cut. It marks the image for boot and ends a trial. It
 * allocates no memory, has no global state and no clock, and uses no floating point. From the C library it calls only
 * memcpy, memmove, memset and memcmp.
 *
 * Threads: call all functions from one thread, or under one lock. Call them in the order in which the stack delivered
 * the events. If you use a queue, put connections, subscriptions, Control, Data and disconnections into the same queue.
 * A callback of `ota_port` must not call a function of this header.
 *
 * Time: `now` is the time of any monotonic clock in milliseconds, modulo 2^32. Call `ota_device_poll` after *every*
 * call of another function except `ota_device_read`. Call it again when the time that it returned has passed.
 *
 * Blocking: a write of Data erases and writes the pages that it fills. A poll does one of these steps: it erases
 * `erase_step` pages, it reads and hashes 4 KiB, or it verifies the signatures of one envelope. A write of Data and a
 * poll may also write records. If a record page is full, the core then also erases a record page.
 */
#ifndef OTA_DEVICE_H
#define OTA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ota_profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum number of connections. Only one of them updates the device at a time. The others may read, and the core
 * answers most of their requests with "busy". */
#ifndef OTA_MAX_CONNECTIONS
#define OTA_MAX_CONNECTIONS 4
#endif

/* For the wear limit (`ota_config.wear_minutes`). OTA_WEAR_BURST: how often each page may be erased without a wait.
 * OTA_WEAR_MINUTES: the default of `wear_minutes`. OTA_WEAR_UNLIMITED: the value of `wear_minutes` for no limit. */
enum { OTA_WEAR_BURST = 40, OTA_WEAR_MINUTES = 15, OTA_WEAR_UNLIMITED = 255 };

/* `ota_device_poll` returns this value if you need not call it again before the next event. */
#define OTA_FOREVER UINT32_MAX

/* ---- The description of the device ---- */

/* The configuration. The core keeps the pointer to this structure and does not copy the data to which it points.
 * Therefore do not change the structure or the data while the device runs. Texts end with NUL. */
struct ota_config {
    /* The product name of the manifest: 1..63 characters of A-Z a-z 0-9 . _ - */
    const char *product;
    /* The SemVer version of the running firmware, 5..63 bytes. The core compares a manifest's "requires" with it. */
    const char *version;
    /* The ids of the trusted keys, 8 bytes each: the first 8 bytes of the SHA-256 of the 32 raw key bytes. All ids must
     * differ. `ota_port.verify` receives the index of the key in this list. */
    const uint8_t *key_ids;
    uint8_t key_count; /* 1..16 */
    /* SHA-256 of the running image's manifest, 32 bytes, as `ota_port.mark` stored it. NULL if the running image was
     * not installed from a bundle. */
    const uint8_t *running_digest;
    /* Security counter of the permanent image. On a trial boot, the permanent image is the one to which the device
     * can roll back. */
    uint32_t security_counter;
    /* On a trial boot: the counter of the image on trial, as `ota_port.mark` received it. On other boots the core
     * ignores this member. */
    uint32_t trial_security_counter;
    /* True if this boot runs an image on trial. This requires `trial_seconds` > 0. */
    bool on_trial;

    /* enum ota_image_format: the format that the bootloader boots. Use OTA_FORMAT_ANY only for a device that boots
     * every format (a simulated device), or if the callback `permits` checks the format. */
    uint8_t image_format;
    uint16_t hardware;    /* revision */
    /* Bytes, 1..slot_size, without the part of the slot that the bootloader uses. For MCUboot use
     * OTA_MCUBOOT_LARGEST_IMAGE. The core refuses a value above `ota_largest_image`. */
    uint32_t largest_image;
    /* Longest Data value in bytes, including the sequence: 20..512. The stack must be able to receive it. */
    uint16_t longest_data;
    /* Chunks that a host may have in flight, 1..2047. If events reach the core through a queue, use half of the queue's
     * length: after a rewind, a window of late chunks can arrive before the new chunks. */
    uint16_t window;
    /* Longest time in seconds from the answer to APPLY until the device accepts connections again, including the
     * bootloader's swap. At least 1. */
    uint16_t restart_seconds;
    /* Length of a trial in seconds: CONFIRM must arrive within this time. 0: the device has no trial, because the
     * bootloader cannot roll back. The core measures the time from `ota_device_start`. If the image on trial hangs, the
     * core cannot end the trial, so a watchdog must restart the device. */
    uint16_t trial_seconds;

    /* Bytes of an erase page of the slot and of the record area: 256..65536, a multiple of `write_unit`. */
    uint32_t page_size;
    /* Bytes of the slot, a multiple of the page size. The record area has OTA_RECORD_PAGES pages. */
    uint32_t slot_size;
    /* The smallest unit in bytes that the flash can write: a power of two, 1..64. The core writes only whole units at
     * multiples of this size, and pads the last one with 0xFF. */
    uint8_t write_unit;
    /* True: the core erases all pages of the image during BEGIN, in several polls. False: it erases each page just
     * before it writes the page. Use true for flash whose erase of one page blocks the radio for more than 100 ms. All
     * erases together must then take less than 30 s, because the host does not wait longer for the answer to BEGIN. */
    bool erase_ahead;
    /* With `erase_ahead`: the number of pages that the core erases in one poll, at least 1. */
    uint16_t erase_step;

    /* The policy. The default of each member is 0 or false. */

    /* Number of different trusted keys that must have signed a bundle: at most `key_count` and 4. 0 means 1. */
    uint8_t required_signatures;
    /* Largest increase of the security counter by one update. 0: no limit. Without a limit, one bundle that was signed
     * with a stolen key could raise the counter so far that the device refuses all genuine bundles. */
    uint32_t largest_counter_step;
    /* True: the core accepts APPLY without a trial even if the bootloader supports trials (`trial_seconds` > 0). */
    bool permanent_allowed;
    /* Wear limit: each page of the slot may be erased OTA_WEAR_BURST times without a wait, and once more whenever this
     * number of minutes has passed. 0 means OTA_WEAR_MINUTES. OTA_WEAR_UNLIMITED turns the limit off (for
     * development). */
    uint8_t wear_minutes;
};

/*
 * The size of MCUboot's trailer at the end of a slot. The image must not use the pages of the trailer. `max_sectors` is
 * the bootloader's maximum number of sectors in a slot (CONFIG_BOOT_MAX_IMG_SECTORS). With
 * CONFIG_BOOT_MAX_IMG_SECTORS_AUTO it is the number of sectors of the slot. The trailer has three marks for each
 * sector, and each mark has the size of a write unit. Flags, sizes and a magic follow, each aligned to 8 bytes or the
 * write unit. The trailer of an encrypted image is larger.
 */
#define OTA_MCUBOOT_FLAGS(write_unit) ((write_unit) <= 8u ? 56u : (write_unit) <= 16u ? 96u : 6u * (write_unit))
#define OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) \
    ((3u * (max_sectors) * (write_unit) + OTA_MCUBOOT_FLAGS(write_unit) + (page_size)-1u) / (page_size) * (page_size))

/* The value of `ota_config.largest_image` for MCUboot's swap modes, in bytes: the slot without the trailer and without
 * the extra page that swap using move needs. */
#define OTA_MCUBOOT_LARGEST_IMAGE(slot_size, page_size, write_unit, max_sectors) \
    ((slot_size)-OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) - (page_size))

/* A parsed manifest. Its pointers point into the core's memory, and are valid only during the callback that receives
 * the manifest. Texts do not end with NUL. */
struct ota_manifest {
    const uint8_t *digest;       /* SHA-256 of the manifest, 32 bytes; identifies the release */
    const uint8_t *image_digest; /* SHA-256 of the image, 32 bytes */
    uint64_t created;            /* Unix seconds */
    uint32_t image_size;         /* bytes */
    uint32_t security_counter;
    uint8_t image_format; /* enum ota_image_format */
    uint8_t version_size, product_size, source_size;
    const char *version;
    const char *product;
    const char *source; /* NULL if the manifest has no source */
};

/* ---- The callbacks ---- */

enum ota_area { OTA_AREA_SLOT = 0, OTA_AREA_RECORD = 1 };

/* How the bootloader boots the marked image. */
enum ota_boot { OTA_BOOT_TRIAL = 0, OTA_BOOT_PERMANENT = 1 };

enum { OTA_NO_BATTERY = 255 };

/*
 * The callbacks, which the integrator writes. `context` is the pointer that `ota_device_start` received. A callback
 * must not call the core. The core keeps the pointer to this structure. Callbacks marked "Optional" may be NULL. All
 * others are required.
 */
struct ota_port {
    /* Flash. Return false if the operation failed. Offsets count from the start of the area. The core never exceeds the
     * area. It calls `read` with any offset and count. It calls `write` only for erased bytes, and only with whole
     * write units at a multiple of the write unit. The bytes must be durable when `write` returns. `erase` erases the
     * page at `offset` to 0xFF. */
    bool (*read)(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count);
    bool (*write)(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count);
    bool (*erase)(void *context, enum ota_area area, uint32_t offset);

    /* SHA-256. The integrator stores the state of the hash. The core computes one hash at a time. After a lost link,
     * the core can start a new hash without a call of `hash_finish` for the previous one. `hash_finish` returns false
     * if no digest could be computed. The core handles this like a wrong digest. */
    void (*hash_start)(void *context);
    void (*hash_update)(void *context, const uint8_t *bytes, uint32_t count);
    bool (*hash_finish)(void *context, uint8_t digest[OTA_DIGEST_SIZE]);

    /* Returns whether the pure Ed25519 signature (RFC 8032) by the trusted key at index `key` of `ota_config.key_ids`
     * is valid. It must refuse a signature whose number S is not below the group order L (RFC 8032, 5.1.7). The message
     * has at most 1024 bytes. The core calls this only for trusted keys. */
    bool (*verify)(void *context, uint8_t key, const uint8_t *message, uint32_t count,
                   const uint8_t signature[OTA_SIGNATURE_SIZE]);

    /* Sends a notification to one connection. `characteristic` is OTA_CONTROL or OTA_PROGRESS, `count` is at most 13.
     * Return false if the stack has no buffer. The core then keeps the notification and tries to send it again in the
     * next calls. When the stack has sent a notification, call `ota_device_poll` so that the core need not wait. */
    bool (*notify)(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count);

    /* APPLY: marks the slot for the next boot, by ONE atomic write. The boot after a trial boot must roll back unless
     * `confirm` was called. Store the security counter and the digest of the manifest with the mark. After the boot,
     * pass them in `ota_config`: the digest as `running_digest`; the counter as `trial_security_counter` on a trial
     * boot, otherwise as `security_counter`. For a permanent boot, also raise the device's own counter now. Return
     * false if the write failed and nothing is marked. */
    bool (*mark)(void *context, enum ota_boot boot, const struct ota_manifest *manifest);
    /* CONFIRM: makes the running image permanent, by ONE atomic write. Then raise the device's own counter to
     * `security_counter`, which is ota_config.trial_security_counter. `digest` is ota_config.running_digest. Return
     * false if the write failed. The trial then continues. */
    bool (*confirm)(void *context, uint32_t security_counter, const uint8_t *digest);
    /* Ends the trial: the next boot must start the old image. If every boot without `confirm` rolls back, this callback
     * may do nothing. It may also reboot the device. If it returns, the core calls `reboot` next. */
    void (*roll_back)(void *context);
    /* Restarts the device. If it returns (in a simulator), the core does nothing until the next `ota_device_start`. */
    void (*reboot)(void *context);

    /* Optional. Returns the battery level in per cent, 0..100, or OTA_NO_BATTERY. NULL: the device runs on mains. */
    uint8_t (*battery)(void *context);
    /* Optional. Returns whether the firmware's self-test has passed. False: the core answers CONFIRM with "busy". */
    bool (*self_test_passed)(void *context);
    /* Optional. The device's additional rule against old releases. True: the core refuses the envelope with
     * OTA_TOO_OLD. */
    bool (*too_old)(void *context, const struct ota_manifest *manifest);
    /* Optional. The device's policy, for example a button that must be pressed. The core calls it after all other
     * checks of the envelope. False: the core refuses the envelope with OTA_REFUSED. */
    bool (*permits)(void *context, const struct ota_manifest *manifest);
    /* Optional. IDENTIFY: makes the device blink for this number of seconds; 0 stops the blinking. */
    void (*identify)(void *context, uint8_t seconds);
    /* Optional. The core calls it at the first BEGIN of a connection. Request these parameters for the connection, to
     * make it fast: full-length packets, 2M PHY, an interval of 15 ms, latency 0 and a supervision timeout of at least
     * 4 s. */
    void (*begun)(void *context, uint16_t connection);
};

/* ---- The core's state ---- */

/* The state of one connection. Private to the core. */
struct ota_connection {
    uint32_t info_counter;
    uint32_t info_held_offset;
    uint8_t info_held_prefix[OTA_PREFIX_SIZE];
    uint8_t answer[OTA_NOTIFICATION_LARGEST];
    uint8_t answer_size; /* 0: no answer waits */
    uint16_t handle;
    uint16_t next; /* the expected sequence */
    uint16_t chunks_unreported;
    bool in_use, control_on, progress_on, progress_due, has_begun;
};

/* The state of the core. Less than 2048 bytes. Allocate it statically, do not access its members, and do not move
 * it. */
struct ota_device {
    const struct ota_config *config;
    const struct ota_port *port;
    void *context;
    uint8_t *page; /* the image's bytes after `held_flushed`, which are not in flash yet */

    struct ota_connection connections[OTA_MAX_CONNECTIONS];
    struct ota_connection *owner;
    struct ota_connection *leaver; /* if this connection ends, a scheduled reboot happens at once; may be NULL */

    /* The open object, or the object that a job is opening. */
    uint32_t object_size, object_offset, object_crc;
    uint8_t object_prefix[OTA_PREFIX_SIZE];

    /* The download: the digest of its manifest, the number of received bytes, how many of them are in flash, and the
     * offset in the newest record. */
    uint8_t held_digest[OTA_DIGEST_SIZE];
    uint32_t held_offset, held_flushed, held_recorded;
    uint32_t erased_until; /* the slot's pages from `held_flushed` to this offset are erased */
    uint32_t round_end;    /* an erase at a lower offset starts a new round and is charged (wear.c) */

    /* The newest record: its generation, the index after it, and its page. */
    uint32_t record_generation, record_index;
    uint8_t record_page;

    uint32_t security_counter;
    uint32_t version[3];

    uint32_t heard_at, trial_ends_at, reboot_at, wear_since;
    uint8_t state;  /* enum ota_state */
    uint8_t status; /* the status in Progress: OTA_OK or OTA_FLASH_FAILED */
    uint8_t reboot; /* enum ota_reboot */
    uint16_t wear; /* the wear points (wear.c): the sum of the charges, reduced by time */
    bool owner_silent, trial_running;
    bool was_charged; /* an erase of the slot was charged since `ota_device_start` */

    /* The request that a later poll answers. */
    uint8_t job; /* enum ota_job */
    uint8_t job_opcode, job_tag;
    uint32_t job_offset;

    uint8_t manifest_digest[OTA_DIGEST_SIZE];
    uint16_t envelope_size;
    uint8_t envelope[OTA_ENVELOPE_LARGEST];
};

/* ---- The functions ---- */

enum ota_start_error {
    OTA_START_OK = 0,
    OTA_START_MISSING, /* a required pointer is NULL */
    OTA_START_PRODUCT,
    OTA_START_VERSION,
    OTA_START_KEYS, /* no key, too many keys, two equal ids, or `required_signatures` is too large */
    OTA_START_IMAGE_FORMAT,
    OTA_START_LARGEST_IMAGE,
    OTA_START_LONGEST_DATA,
    OTA_START_WINDOW,
    OTA_START_TIMES, /* no restart time, or a trial boot without a trial time */
    OTA_START_PAGES, /* the page size, slot size, write unit or erase step */
    OTA_START_FLASH  /* a record could not be read: the core has started, but cannot resume an upload */
};

/* Returns the maximum of `config->largest_image` in bytes, or 0 if the slot is too small. With OTA_FORMAT_MCUBOOT and a
 * trial it is OTA_MCUBOOT_LARGEST_IMAGE for the slot's number of pages. With OTA_FORMAT_MCUBOOT and no trial it is the
 * size of the slot without MCUboot's flags (OTA_MCUBOOT_FLAGS). With all other formats it is the size of the slot. The
 * bootloader's configuration may require a smaller value. */
uint32_t ota_largest_image(const struct ota_config *config);

/*
 * Starts the core after a boot. The core reads the record area. If the newest record has wear points and this is not a
 * trial boot, the core appends a record with one point less. `page` is a buffer of `config->page_size` bytes, which
 * only the core may use until the next start. Call this function soon after boot, because the trial time starts at
 * `now`.
 *
 * After an error other than OTA_START_FLASH the core has not started, and you must not call any other function. If this
 * happens on a trial boot, roll back and restart.
 */
enum ota_start_error ota_device_start(struct ota_device *device, const struct ota_config *config,
                                      const struct ota_port *port, void *context, uint8_t *page, uint32_t now);

/* Adds a connection. `connection` is the stack's handle. The connection reads the value that Info has at this moment,
 * even if it changes later. Returns false if there are already OTA_MAX_CONNECTIONS connections. In this case the core
 * answers reads and Control writes of this connection with OTA_ATT_INSUFFICIENT_RESOURCES. */
bool ota_device_connected(struct ota_device *device, uint16_t connection, uint32_t now);

/* Removes a connection. Call it only after the calls for all values that the connection wrote. */
void ota_device_disconnected(struct ota_device *device, uint16_t connection, uint32_t now);

/* Call this when the host turned the notifications of OTA_CONTROL or OTA_PROGRESS on or off. For a new connection they
 * are off. */
void ota_device_subscribed(struct ota_device *device, uint16_t connection, enum ota_characteristic characteristic,
                           bool on, uint32_t now);

/* Handles a write of Control. Returns the ATT error for the answer to the write, or OTA_ATT_OK. The answer to the
 * request itself is a notification, now or from a later poll. */
enum ota_att_error ota_device_write_control(struct ota_device *device, uint16_t connection, const uint8_t *bytes,
                                            uint16_t count, uint32_t now);

/* Handles a write of Data, with or without response. The core never refuses this write with an ATT error. It reports
 * lost chunks in Progress. */
void ota_device_write_data(struct ota_device *device, uint16_t connection, const uint8_t *bytes, uint16_t count,
                           uint32_t now);

/*
 * Reads OTA_INFO (at most 251 bytes), OTA_PROGRESS (12) or OTA_VERSION (5..63). Writes the value from `offset` to
 * `bytes`, at most `capacity` bytes, and sets `*count` to their number. Calls with increasing offsets make a long read.
 * If the stack splits the value itself, use offset 0 and a capacity of 251.
 */
enum ota_att_error ota_device_read(struct ota_device *device, uint16_t connection,
                                   enum ota_characteristic characteristic, uint16_t offset, uint8_t *bytes,
                                   uint16_t capacity, uint16_t *count);

/*
 * Does the work that is due: a step of a long request, timers, notifications for which the stack had no buffer, the
 * reboot. Returns the maximum time in milliseconds until you must call it again, or OTA_FOREVER. 0: call it again at
 * once; other threads may run before that.
 */
uint32_t ota_device_poll(struct ota_device *device, uint32_t now);

/* Returns the state of the device, for the application's display. */
enum ota_state ota_device_state(const struct ota_device *device);

#ifdef __cplusplus
}
#endif

/*
 * docs/device-integration.md shows the integration with Zephyr, NimBLE, MCUboot and ESP-IDF. The stack's callbacks put
 * the events into one queue, in order. One thread reads the queue, calls the core for each event, and then calls
 * `ota_device_poll`. A read does not use the queue: its callback calls `ota_device_read` at once. Each call of the core
 * holds the same lock.
 */

#endif
