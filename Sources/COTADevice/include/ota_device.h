/*
 * The device's side of the GATT OTA profile, version 1 (docs/ota-profile.md).
 *
 * The core implements everything between the Bluetooth stack and the flash. It verifies the signed envelope, receives
 * the image, and resumes the image after a lost link or a power cut. It marks the image for boot and ends a trial. It
 * allocates no memory, has no global state and no clock, and uses no floating point. Of a C library it calls only
 * memcpy, memmove, memset and memcmp.
 *
 * Threads: call all functions from one thread, or under one lock. Call them in the order in which the stack delivered
 * the events. Therefore connections, subscriptions, Control, Data and disconnections share one queue. A callback of
 * `ota_port` must not call a function of this header.
 *
 * Time: `now` is the time of any monotonic clock in milliseconds. It wraps at 2^32. After *every* call of another
 * function except `ota_device_read`, call `ota_device_poll`. Call it again when the time that it returned has passed.
 *
 * Blocking: a write of Data erases and writes the pages that it fills. A poll does one of these steps: it erases
 * `erase_step` pages, it reads and hashes 4 KiB, or it verifies the signatures of one envelope. Both may also write
 * records, and a record may erase a record page.
 */
#ifndef OTA_DEVICE_H
#define OTA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ota_profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum number of connections. One of them updates at a time. The others may read, and the core answers their
 * requests with "busy". */
#ifndef OTA_MAX_CONNECTIONS
#define OTA_MAX_CONNECTIONS 4
#endif

/* The number of erases of a page that are allowed without a wait, and the default and a special value of
 * `ota_config.wear_minutes`. */
enum { OTA_WEAR_BURST = 40, OTA_WEAR_MINUTES = 15, OTA_WEAR_UNLIMITED = 255 };

/* `ota_device_poll` returns this value if it need not be called again before the next event. */
#define OTA_FOREVER UINT32_MAX

/* ---- The description of the device ---- */

/* The configuration. The core keeps the pointer to it and uses the pointers in it. Therefore none of it may change
 * while the device runs. Texts end with NUL. */
struct ota_config {
    /* The product name of the manifest: 1..63 characters of A-Z a-z 0-9 . _ - */
    const char *product;
    /* The SemVer version of the running firmware, 5..63 bytes. The core compares a manifest's "requires" with it. */
    const char *version;
    /* The ids of the trusted keys, 8 bytes each: the first 8 bytes of the SHA-256 of the 32 raw key bytes. All ids must
     * differ. `ota_port.verify` receives the index of the key in this list. */
    const uint8_t *key_ids;
    uint8_t key_count; /* 1..16 */
    /* SHA-256 of the running image's manifest, 32 bytes, as `ota_port.mark` stored it. NULL if the image was not
     * installed from a bundle. */
    const uint8_t *running_digest;
    /* Security counter of the permanent image. On a trial boot, the permanent image is the one to which the device
     * can roll back. */
    uint32_t security_counter;
    /* On a trial boot: the counter of the image on trial, as `ota_port.mark` received it. Otherwise ignored. */
    uint32_t trial_security_counter;
    /* This boot runs an image on trial. Requires `trial_seconds` > 0. */
    bool on_trial;

    /* enum ota_image_format: the format that the bootloader boots. OTA_FORMAT_ANY is for a device that boots every format, such as a
     * simulated one, or whose `permits` checks the format. */
    uint8_t image_format;
    uint16_t hardware;    /* revision */
    /* Bytes, 1..slot_size, without the part of the slot that the bootloader uses. For MCUboot use
     * OTA_MCUBOOT_LARGEST_IMAGE. The core refuses a value above `ota_largest_image`. */
    uint32_t largest_image;
    /* Longest Data value in bytes, including the sequence: 20..512. The stack must be able to receive it. */
    uint16_t longest_data;
    /* Chunks that a host may have in flight, 1..2047. If events reach the core through a queue, use half of its
     * length. */
    uint16_t window;
    /* Longest time in seconds from the answer to APPLY until the device accepts connections again, including the
     * bootloader's swap. At least 1. */
    uint16_t restart_seconds;
    /* Length of a trial in seconds: CONFIRM must arrive within this time. 0: the bootloader cannot roll back. The core
     * measures the time from `ota_device_start`. The watchdog must end the trial of an image that hangs. */
    uint16_t trial_seconds;

    /* Bytes of an erase page of the slot and of the record area: 256..65536, a multiple of `write_unit`. */
    uint32_t page_size;
    /* Bytes of the slot, a multiple of the page size. The record area has OTA_RECORD_PAGES pages. */
    uint32_t slot_size;
    /* The flash's smallest write in bytes: a power of two, 1..64. The core aligns each write to it and pads with
     * 0xFF. */
    uint8_t write_unit;
    /* Erase all pages of the image during BEGIN, in several polls. Otherwise the core erases each page just before it
     * writes the page. Use this for flash whose erase blocks the radio for more than 100 ms. All erases together must
     * take less than 30 s. */
    bool erase_ahead;
    /* With `erase_ahead`: pages to erase in one poll, at least 1. */
    uint16_t erase_step;

    /* Policy. 0 and false are the defaults. */

    /* Number of different trusted keys that must have signed a bundle: at most `key_count` and 4. 0 means 1. */
    uint8_t required_signatures;
    /* Largest increase of the security counter by one update. It limits how far a stolen key can raise the counter. 0:
     * no limit. */
    uint32_t largest_counter_step;
    /* Accept a permanent APPLY even if the bootloader has a trial (`trial_seconds` > 0). */
    bool permanent_allowed;
    /* Wear limit: each page of the slot may be erased OTA_WEAR_BURST times, then once in this number of minutes. 0
     * means OTA_WEAR_MINUTES. OTA_WEAR_UNLIMITED turns the limit off (for development). */
    uint8_t wear_minutes;
};

/*
 * MCUboot stores a trailer at the end of a slot, in separate pages. `max_sectors` is the bootloader's maximum number of
 * sectors in a slot (CONFIG_BOOT_MAX_IMG_SECTORS). With CONFIG_BOOT_MAX_IMG_SECTORS_AUTO it is the number of sectors of
 * the slot. The trailer has three marks for each sector, and each mark has the size of a write unit. Flags, sizes and a
 * magic follow, each aligned to 8 bytes or the write unit. Encrypted images need more.
 */
#define OTA_MCUBOOT_FLAGS(write_unit) ((write_unit) <= 8u ? 56u : (write_unit) <= 16u ? 96u : 6u * (write_unit))
#define OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) \
    ((3u * (max_sectors) * (write_unit) + OTA_MCUBOOT_FLAGS(write_unit) + (page_size)-1u) / (page_size) * (page_size))

/* Bytes: `ota_config.largest_image` for MCUboot's swap modes. It includes the extra page of swap using move. */
#define OTA_MCUBOOT_LARGEST_IMAGE(slot_size, page_size, write_unit, max_sectors) \
    ((slot_size)-OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) - (page_size))

/* A parsed manifest. Its pointers point into the core's envelope buffer and are valid only during the callback that receives
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
 * The callbacks of the integrator. `context` is the pointer that was given to `ota_device_start`. A callback must not
 * call the core. The core keeps the pointer to this structure. All callbacks are required except the optional ones,
 * which may be NULL.
 */
struct ota_port {
    /* Flash. Return false if the operation failed. Offsets count from the start of the area, and no operation exceeds
     * the area. `read` has any offset and count. `write` writes whole write units, at a multiple of the write unit, on
     * erased bytes only. It must be durable when it returns. `erase` erases the page at `offset` to 0xFF. */
    bool (*read)(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count);
    bool (*write)(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count);
    bool (*erase)(void *context, enum ota_area area, uint32_t offset);

    /* SHA-256. The integrator owns the state of the hash. The core computes one hash at a time. If the link was lost,
     * it starts a new hash without finishing the previous one. Return false if no digest could be computed. The core
     * handles this like a wrong digest. */
    void (*hash_start)(void *context);
    void (*hash_update)(void *context, const uint8_t *bytes, uint32_t count);
    bool (*hash_finish)(void *context, uint8_t digest[OTA_DIGEST_SIZE]);

    /* Verifies a pure Ed25519 signature (RFC 8032) by the trusted key at index `key` of `ota_config.key_ids`. It must
     * refuse S >= L. The message has at most 1024 bytes. The core calls this only for trusted keys. */
    bool (*verify)(void *context, uint8_t key, const uint8_t *message, uint32_t count,
                   const uint8_t signature[OTA_SIGNATURE_SIZE]);

    /* Sends a notification to one connection. `characteristic` is OTA_CONTROL or OTA_PROGRESS, `count` is at most 13.
     * Return false if the stack has no buffer: the core keeps the value and offers it again at each of the next calls.
     * Call `ota_device_poll` when the stack has sent a notification, to avoid a delay. */
    bool (*notify)(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count);

    /* APPLY: marks the slot for the next boot, by ONE atomic write. After a trial boot, the boot that follows must roll
     * back unless `confirm` was called. Store counter and digest of the manifest with the mark. After the boot they
     * become `security_counter`, `trial_security_counter` and `running_digest`. Raise the device's own counter now only
     * for a permanent boot. Return false if it failed and nothing is marked. */
    bool (*mark)(void *context, enum ota_boot boot, const struct ota_manifest *manifest);
    /* CONFIRM: makes the running image permanent, by ONE atomic write. Then raise the device's counter to
     * `security_counter`, which is ota_config.trial_security_counter. `digest` is ota_config.running_digest. Return
     * false if it failed. Then the trial continues. */
    bool (*confirm)(void *context, uint32_t security_counter, const uint8_t *digest);
    /* Ends the trial: the next boot must start the old image. It may do nothing if every boot without `confirm` rolls
     * back. It may reboot itself. The core calls `reboot` next. */
    void (*roll_back)(void *context);
    /* Restarts the device. If it returns (in a simulator), the core does nothing until the next start. */
    void (*reboot)(void *context);

    /* Optional. Returns the battery level in per cent, 0..100, or OTA_NO_BATTERY. NULL: the device runs on mains. */
    uint8_t (*battery)(void *context);
    /* Optional. Whether the firmware's self-test has passed. Until then the core answers CONFIRM with "busy". */
    bool (*self_test_passed)(void *context);
    /* Optional. The device's additional rule against old releases. True: the core answers with status 10. */
    bool (*too_old)(void *context, const struct ota_manifest *manifest);
    /* Optional. The device's policy, for example a button that must be pressed. The core calls it after all other
     * checks. False: the core answers with status 17. */
    bool (*permits)(void *context, const struct ota_manifest *manifest);
    /* Optional. IDENTIFY: makes the device blink for this number of seconds; 0 stops the blinking. */
    void (*identify)(void *context, uint8_t seconds);
    /* Optional. Called at the first BEGIN of a connection. Request full-length packets, 2M PHY, an interval of 15 ms,
     * latency 0 and a supervision timeout of at least 4 s. */
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
    struct ota_connection *leaver; /* the reboot happens when this connection ends */

    /* The open object, or the object that a job is opening. */
    uint32_t object_size, object_offset, object_crc;
    uint8_t object_prefix[OTA_PREFIX_SIZE];

    /* The download: the number of received bytes, how many of them are in flash, and the offset in the newest record. */
    uint8_t held_digest[OTA_DIGEST_SIZE];
    uint32_t held_offset, held_flushed, held_recorded;
    uint32_t erased_until; /* the slot's pages from `held_flushed` to this offset are erased */
    uint32_t round_end;    /* the slot's pages before this offset may have been erased since the last charge */

    /* The generation and the place of the newest record. */
    uint32_t record_generation, record_index;
    uint8_t record_page;

    uint32_t security_counter;
    uint32_t version[3];

    uint32_t heard_at, trial_ends_at, reboot_at, wear_since;
    uint8_t state;  /* enum ota_state */
    uint8_t status; /* the status in Progress: OTA_OK or OTA_FLASH_FAILED */
    uint8_t reboot; /* enum ota_reboot */
    uint16_t wear; /* the sum of the charges, reduced by time: OTA_WEAR_ERASE for each erase of the slot */
    bool owner_silent, trial_running;
    bool was_charged; /* an erase of the slot was charged since the start */

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
    OTA_START_KEYS, /* no key, too many, two equal ids, or fewer than `required_signatures` */
    OTA_START_IMAGE_FORMAT,
    OTA_START_LARGEST_IMAGE,
    OTA_START_LONGEST_DATA,
    OTA_START_WINDOW,
    OTA_START_TIMES, /* no restart time, or a trial boot without a trial time */
    OTA_START_PAGES, /* page size, slot size, write unit or erase step */
    OTA_START_FLASH  /* a record could not be read: the core has started, but holds no bytes */
};

/* Returns the largest permitted `largest_image` in bytes. It is the size of the slot. With OTA_FORMAT_MCUBOOT and a
 * trial it is OTA_MCUBOOT_LARGEST_IMAGE for the slot's number of pages. With OTA_FORMAT_MCUBOOT and no trial it is the
 * slot without the flags. OTA_FORMAT_ANY deducts nothing. 0: the slot is too small. The bootloader's configuration may require
 * a smaller value. */
uint32_t ota_largest_image(const struct ota_config *config);

/*
 * Starts the core after a boot. The core reads the record area. If the newest record has wear points, the core
 * appends a record. `page` is a buffer of `config->page_size` bytes that belongs to the core until the next start.
 * Call this soon after boot, because the trial time starts at `now`. After an error other than OTA_START_FLASH the
 * core has not started, and no other function may be called. On a trial boot, roll back and restart in this case.
 */
enum ota_start_error ota_device_start(struct ota_device *device, const struct ota_config *config,
                                      const struct ota_port *port, void *context, uint8_t *page, uint32_t now);

/* Adds a connection. `connection` is the stack's handle. Stores the value of Info that this connection will read.
 * Returns false if there are already OTA_MAX_CONNECTIONS connections. Then the core answers the reads and writes of
 * this connection with OTA_ATT_INSUFFICIENT_RESOURCES. */
bool ota_device_connected(struct ota_device *device, uint16_t connection, uint32_t now);

/* Removes a connection. Call it after all values that the connection wrote. */
void ota_device_disconnected(struct ota_device *device, uint16_t connection, uint32_t now);

/* The host turned the notifications of OTA_CONTROL or OTA_PROGRESS on or off. A new connection starts with off. */
void ota_device_subscribed(struct ota_device *device, uint16_t connection, enum ota_characteristic characteristic,
                           bool on, uint32_t now);

/* Handles a write of Control. Returns the ATT error for the answer to the write, or OTA_ATT_OK. The answer to the
 * request itself is a notification, now or from a later poll. */
enum ota_att_error ota_device_write_control(struct ota_device *device, uint16_t connection, const uint8_t *bytes,
                                            uint16_t count, uint32_t now);

/* Handles a write of Data, with or without response. The write has no ATT error. Progress reports lost chunks. */
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
 * reboot. Returns the milliseconds until the next call at the latest, or OTA_FOREVER. 0 means at once; other threads
 * may run first.
 */
uint32_t ota_device_poll(struct ota_device *device, uint32_t now);

/* Returns the state of the device, for the application's display. */
enum ota_state ota_device_state(const struct ota_device *device);

#ifdef __cplusplus
}
#endif

/*
 * docs/device-integration.md shows the integration with Zephyr, NimBLE, MCUboot and ESP-IDF. The stack's callbacks put
 * the events into one queue, in order. One thread takes them out, calls the core, and polls after each call. Reads call
 * `ota_device_read` under a lock that is held around each call of the core.
 */

#endif
