/*
 * The device's side of the GATT OTA profile, version 1 (docs/ota-profile.md).
 *
 * What it is: the whole protocol between the Bluetooth stack and the flash. It parses and judges the signed envelope,
 * takes the image, resumes it after a lost link or a power cut, has it marked for boot, and ends a trial. It allocates
 * nothing, has no global state and no clock, uses no floating point, and needs nothing but memcpy, memset and memcmp
 * from its surroundings.
 *
 * Threads and re-entrancy: all functions are called from one thread (or under one lock), in the order in which
 * the stack delivered what they tell: Data, Control and the disconnection share one queue. A callback of `ota_port`
 * must not call a function of this header.
 *
 * Time: `now` is milliseconds of any steady clock that wraps at 2^32. After *every* call of another function but
 * `ota_device_read`, call `ota_device_poll`, and then again when the time it returned has passed. Blocking: a write of
 * Data takes as long as the flash needs for the pages it fills; a poll takes as long as `erase_step` pages' erasing and
 * one record, 4 KiB of reading and hashing, or the signatures of one envelope. A record may erase a record page.
 */
#ifndef OTA_DEVICE_H
#define OTA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ota_profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Connections the core keeps apart. One of them updates at a time; the others may read, and are answered "busy". */
#ifndef OTA_MAX_CONNECTIONS
#define OTA_MAX_CONNECTIONS 4
#endif

/* The wear limit, and special values of `ota_config.wear_minutes`. */
enum { OTA_WEAR_BURST = 40, OTA_WEAR_MINUTES = 15, OTA_WEAR_UNLIMITED = 255 };

/* What `ota_device_poll` returns when it need not be called again until something happens. */
#define OTA_FOREVER UINT32_MAX

/* ---- What the integrator says about the device ---- */

/* Constant while the device runs; the core keeps the pointer, and those in it. Texts end with NUL. */
struct ota_config {
    /* As in the manifest: 1..63 of A-Z a-z 0-9 . _ - */
    const char *product;
    /* SemVer text of the running firmware, 5..63 bytes; also what a manifest's "requires" is compared with. */
    const char *version;
    /* The ids of the trusted keys one after the other, 8 bytes each: SHA-256 of the 32 raw key bytes, its first 8. No
     * two alike. `ota_port.verify` is given the key's place in this list. */
    const uint8_t *key_ids;
    uint8_t key_count; /* 1..16 */
    /* SHA-256 of the running image's manifest, 32 bytes, where it came as a bundle and `ota_port.mark` kept it; or
     * NULL. */
    const uint8_t *running_digest;
    /* Security counter of the image the device runs for good: on a trial boot, that of the image to go back to. */
    uint32_t security_counter;
    /* On a trial boot: the counter of the image on trial, as `ota_port.mark` was told it. Else not looked at. */
    uint32_t trial_security_counter;
    /* This boot runs an image on trial; needs `trial_seconds`. */
    bool on_trial;

    uint8_t image_format; /* enum ota_image_format: what the bootloader takes */
    uint16_t hardware;    /* revision */
    /* Bytes, 1..slot_size, without what the bootloader needs of the slot: for MCUboot OTA_MCUBOOT_LARGEST_IMAGE. More
     * than `ota_largest_image` is refused. */
    uint32_t largest_image;
    /* Longest Data value in bytes, sequence included: 20..512, and what the stack can receive. */
    uint16_t longest_data;
    /* Chunks a host may have in flight, 1..2047. Where chunks are queued before they reach the core: half the queue. */
    uint16_t window;
    /* Longest time in seconds from APPLY's answer until the device can be connected again, swap included; 1 or more. */
    uint16_t restart_seconds;
    /* Seconds from boot within which CONFIRM must come, or 0: the bootloader has no way back. The core's watch starts
     * with `ota_device_start`; that a hung image ends too is the watchdog's matter. */
    uint16_t trial_seconds;

    /* Bytes of an erase page, 256..65536, and a multiple of `write_unit`: of the slot and of the record area. */
    uint32_t page_size;
    /* Bytes of the slot: a multiple of the page size. The record area has OTA_RECORD_PAGES pages. */
    uint32_t slot_size;
    /* The flash's smallest write in bytes, a power of two, 1..64: writes begin at a multiple of it and are filled up to
     * one with 0xFF. */
    uint8_t write_unit;
    /* Erase all pages of an image within BEGIN, in polls, in place of each before it is written: for sectors whose
     * erasing blocks the radio for more than 100 ms. All of it must be done in 30 s. */
    bool erase_ahead;
    /* With `erase_ahead`: pages erased in one poll; at least 1. */
    uint16_t erase_step;

    /* Policy. 0 and false are the defaults. */

    /* How many different trusted keys must have signed a bundle: at most `key_count` and 4. 0 means 1. */
    uint8_t required_signatures;
    /* Largest increase of the security counter by one update: it limits what a stolen key can use up. 0: no limit. */
    uint32_t largest_counter_step;
    /* Accept a permanent APPLY although the bootloader has a trial (`trial_seconds` > 0). */
    bool permanent_allowed;
    /* Wear limit: the minutes after which each page of the slot may be erased once more, beyond the first
     * OTA_WEAR_BURST erases. 0 means OTA_WEAR_MINUTES; OTA_WEAR_UNLIMITED turns the limit off (for development). */
    uint8_t wear_minutes;
};

/*
 * MCUboot keeps a trailer at the end of a slot. `max_sectors` is the bootloader's own maximum of sectors in a slot
 * (CONFIG_BOOT_MAX_IMG_SECTORS); where the bootloader counts them itself, the slot's. The trailer has three marks of a
 * write unit for each sector, then flags, sizes and a magic, each aligned to 8 bytes or the write unit. Its pages hold
 * nothing else. Encrypted images need more.
 */
#define OTA_MCUBOOT_FLAGS(write_unit) ((write_unit) <= 8u ? 56u : (write_unit) <= 16u ? 96u : 6u * (write_unit))
#define OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) \
    ((3u * (max_sectors) * (write_unit) + OTA_MCUBOOT_FLAGS(write_unit) + (page_size)-1u) / (page_size) * (page_size))

/* Bytes: `ota_config.largest_image` for MCUboot's swap modes. Swapping by moving needs one more page. */
#define OTA_MCUBOOT_LARGEST_IMAGE(slot_size, page_size, write_unit, max_sectors) \
    ((slot_size)-OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) - (page_size))

/* What a manifest says. Pointers go into the core's envelope buffer and hold during the callback only; texts do not end
 * with NUL. */
struct ota_manifest {
    const uint8_t *digest;       /* SHA-256 of the manifest, 32 bytes: the release's name */
    const uint8_t *image_digest; /* SHA-256 of the image, 32 bytes */
    uint64_t created;            /* Unix seconds */
    uint32_t image_size;         /* bytes */
    uint32_t security_counter;
    uint8_t image_format; /* enum ota_image_format */
    uint8_t version_size, product_size, source_size;
    const char *version;
    const char *product;
    const char *source; /* NULL where there is none */
};

/* ---- What the core asks of the integrator ---- */

enum ota_area { OTA_AREA_SLOT = 0, OTA_AREA_RECORD = 1 };

/* How the bootloader shall boot the marked image. */
enum ota_boot { OTA_BOOT_TRIAL = 0, OTA_BOOT_PERMANENT = 1 };

enum { OTA_NO_BATTERY = 255 };

/*
 * The callbacks; `context` is the pointer given to `ota_device_start`. None may call into the core. The core keeps
 * the pointer to this. All are required but those marked optional, which may be NULL.
 */
struct ota_port {
    /* Flash. False: it failed. Offsets count from the area's start; all lie within the area. `write` comes on erased
     * bytes only, begins at a multiple of the write unit and is a whole number of them, and is durable when it returns.
     * `read` has any offset and count. `erase` erases the one page that begins at `offset` to 0xFF. */
    bool (*read)(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count);
    bool (*write)(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count);
    bool (*erase)(void *context, enum ota_area area, uint32_t offset);

    /* SHA-256, one at a time: the integrator owns its state, and the hash of an envelope and that of an image never
     * overlap. A start may come without the finish of the one before (the link was lost): it begins anew. False: no
     * digest could be made, which counts as one that differs. */
    void (*hash_start)(void *context);
    void (*hash_update)(void *context, const uint8_t *bytes, uint32_t count);
    bool (*hash_finish)(void *context, uint8_t digest[OTA_DIGEST_SIZE]);

    /* Pure Ed25519 (RFC 8032) by the key at place `key` of `ota_config.key_ids`; refuses S >= L. The message is at most
     * 1024 bytes. A key is looked up by its id in the core: this is never asked for one that is not trusted. */
    bool (*verify)(void *context, uint8_t key, const uint8_t *message, uint32_t count,
                   const uint8_t signature[OTA_SIGNATURE_SIZE]);

    /* Notifies one connection; `characteristic` is OTA_CONTROL or OTA_PROGRESS, `count` at most 13. False: the stack
     * has no buffer now; the core keeps it and offers it again with each of the next calls. Call `ota_device_poll` when
     * the stack has sent something, and nothing waits longer than it must. */
    bool (*notify)(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count);

    /* APPLY: has the slot booted next, by ONE atomic write; for a trial such that the boot after it goes back unless
     * `confirm` came. Keep counter and digest of the manifest with the mark, for `security_counter`,
     * `trial_security_counter` and `running_digest` after the boot. The device's own counter may rise now for a
     * permanent boot only. False: it failed, and nothing is marked. */
    bool (*mark)(void *context, enum ota_boot boot, const struct ota_manifest *manifest);
    /* CONFIRM: makes the running image permanent, by ONE atomic write; now the device's counter rises to
     * `security_counter` (ota_config.trial_security_counter). `digest` is ota_config.running_digest. False: it failed,
     * and the trial goes on. */
    bool (*confirm)(void *context, uint32_t security_counter, const uint8_t *digest);
    /* The trial has failed or is not wanted: the next boot is of the old image. Nothing to do where every boot without
     * `confirm` goes back; may reboot by itself. Followed by `reboot`. */
    void (*roll_back)(void *context);
    /* Restarts the device. Where it returns (a simulator) the core does nothing more until it is started again. */
    void (*reboot)(void *context);

    /* Optional. Per cent, 0..100, or OTA_NO_BATTERY; NULL: the device runs on mains. */
    uint8_t (*battery)(void *context);
    /* Optional. Whether the firmware's own self-test has passed; until then CONFIRM is answered "busy". */
    bool (*self_test_passed)(void *context);
    /* Optional. The device's own rule against old releases beyond the counter: true is answered with status 10. */
    bool (*too_old)(void *context, const struct ota_manifest *manifest);
    /* Optional. Policy, asked last: false is answered with status 17, such as until a person has pressed the button. */
    bool (*permits)(void *context, const struct ota_manifest *manifest);
    /* Optional. Blink for so many seconds; 0 stops. */
    void (*identify)(void *context, uint8_t seconds);
    /* Optional. A connection's first BEGIN: ask for full-length packets, 2M PHY, an interval of 15 ms, latency 0 and a
     * supervision timeout of 4 s or more. */
    void (*begun)(void *context, uint16_t connection);
};

/* ---- The core's state ---- */

/* What is kept for one connection. Private to the core. */
struct ota_connection {
    uint32_t info_counter;
    uint32_t info_held_offset;
    uint8_t info_held_prefix[OTA_PREFIX_SIZE];
    uint8_t answer[OTA_NOTIFICATION_LARGEST];
    uint8_t answer_size; /* 0: none waits */
    uint16_t handle;
    uint16_t next; /* the sequence expected next */
    uint16_t chunks_unreported;
    bool in_use, control_on, progress_on, progress_due, has_begun;
};

/* Everything the core knows. Less than 2048 bytes. Allocate it (statically) and leave its members to the core; it must
 * not be moved. */
struct ota_device {
    const struct ota_config *config;
    const struct ota_port *port;
    void *context;
    uint8_t *page; /* the bytes of the image behind `held_flushed`, not yet in flash */

    struct ota_connection connections[OTA_MAX_CONNECTIONS];
    struct ota_connection *owner;
    struct ota_connection *leaver; /* whose disconnection brings the reboot */

    /* The open object, or the one about to be opened. */
    uint32_t object_size, object_offset, object_crc;
    uint8_t object_prefix[OTA_PREFIX_SIZE];

    /* The half-received image: what is taken, what of it is in flash, what the newest record says. */
    uint8_t held_digest[OTA_DIGEST_SIZE];
    uint32_t held_offset, held_flushed, held_recorded;
    uint32_t erased_until; /* the slot's pages from `held_flushed` up to here are erased */
    uint32_t round_end;    /* the slot's pages up to here may have been erased since an erase was last charged */

    /* Where the newest record lies. */
    uint32_t record_generation, record_index;
    uint8_t record_page;

    uint32_t security_counter;
    uint32_t version[3];

    uint32_t heard_at, trial_ends_at, reboot_at, wear_since;
    uint8_t state;  /* enum ota_state */
    uint8_t status; /* Progress's: OTA_OK or OTA_FLASH_FAILED */
    uint8_t reboot; /* enum ota_reboot */
    uint16_t wear; /* charged and not yet forgiven: OTA_WEAR_ERASE for each erase of the slot */
    bool owner_silent, trial_running;
    bool was_charged; /* an erase of the slot was charged since the start */

    /* The request that is answered by a later poll. */
    uint8_t job; /* enum ota_job */
    uint8_t job_opcode, job_tag;
    uint32_t job_offset;

    uint8_t manifest_digest[OTA_DIGEST_SIZE];
    uint16_t envelope_size;
    uint8_t envelope[OTA_ENVELOPE_LARGEST];
};

/* ---- What the integrator calls ---- */

enum ota_start_error {
    OTA_START_OK = 0,
    OTA_START_MISSING, /* a required pointer is NULL */
    OTA_START_PRODUCT,
    OTA_START_VERSION,
    OTA_START_KEYS, /* none, too many, two alike, or fewer than `required_signatures` */
    OTA_START_IMAGE_FORMAT,
    OTA_START_LARGEST_IMAGE,
    OTA_START_LONGEST_DATA,
    OTA_START_WINDOW,
    OTA_START_TIMES, /* no restart time, or on trial without a trial time */
    OTA_START_PAGES, /* page size, slot size, write unit or erase step */
    OTA_START_FLASH  /* a record could not be read: started, but with nothing held */
};

/* Bytes: the largest `largest_image` that can boot as far as the core knows. It is the slot's size; with
 * OTA_FORMAT_MCUBOOT and a trial OTA_MCUBOOT_LARGEST_IMAGE for the slot's number of pages, without a trial all but the
 * flags. 0: the slot is too small. */
uint32_t ota_largest_image(const struct ota_config *config);

/*
 * Starts the core after a boot and reads the record area; where that holds wear, appends a record. `page` is a buffer of
 * `config->page_size` bytes, the core's own until the next start. Call it soon after boot: the trial time runs from
 * `now`. With an error other than OTA_START_FLASH nothing is started and no other function may be called; on a trial
 * boot, give the trial up then and restart.
 */
enum ota_start_error ota_device_start(struct ota_device *device, const struct ota_config *config,
                                      const struct ota_port *port, void *context, uint8_t *page, uint32_t now);

/* A connection came. `connection` is the stack's handle for it. False: OTA_MAX_CONNECTIONS are there already; the
 * core then answers this one's reads and writes with OTA_ATT_INSUFFICIENT_RESOURCES. Composes its Info. */
bool ota_device_connected(struct ota_device *device, uint16_t connection, uint32_t now);

/* A connection ended, after everything it had written. */
void ota_device_disconnected(struct ota_device *device, uint16_t connection, uint32_t now);

/* The host has turned notifications of OTA_CONTROL or OTA_PROGRESS on or off; they are off at first. */
void ota_device_subscribed(struct ota_device *device, uint16_t connection, enum ota_characteristic characteristic,
                           bool on, uint32_t now);

/* Control was written. Returns the ATT error to answer the write with, or OTA_ATT_OK; the request's own answer is a
 * notification, now or from a later poll. */
enum ota_att_error ota_device_write_control(struct ota_device *device, uint16_t connection, const uint8_t *bytes,
                                            uint16_t count, uint32_t now);

/* Data was written, with response or without. There is nothing to answer: the profile tells losses by Progress. */
void ota_device_write_data(struct ota_device *device, uint16_t connection, const uint8_t *bytes, uint16_t count,
                           uint32_t now);

/*
 * Reads OTA_INFO (at most 251 bytes), OTA_PROGRESS (12) or OTA_VERSION (5..63): puts the value's bytes from `offset` on
 * into `bytes`, at most `capacity`, and their number into `*count`. Any number of calls with rising offsets makes a
 * long read. Where the stack splits the value by itself: offset 0 and a capacity of 251.
 */
enum ota_att_error ota_device_read(struct ota_device *device, uint16_t connection,
                                   enum ota_characteristic characteristic, uint16_t offset, uint8_t *bytes,
                                   uint16_t capacity, uint16_t *count);

/*
 * Does what is due: a step of a request that takes long, timers, notifications the stack had no buffer for, the reboot.
 * Returns the milliseconds after which it wants to be called again at the latest, 0 for at once (let others run in
 * between), or OTA_FOREVER.
 */
uint32_t ota_device_poll(struct ota_device *device, uint32_t now);

/* Where the device stands, for the application's own display. */
enum ota_state ota_device_state(const struct ota_device *device);

#ifdef __cplusplus
}
#endif

/*
 * How it is wired to Zephyr, NimBLE, MCUboot and ESP-IDF: docs/device-integration.md. In short: the stack's callbacks
 * put what arrives into one queue, in order; one thread takes it out, calls the core, and polls after each call. Reads
 * call `ota_device_read` under a lock held around each call of the core.
 */

#endif
