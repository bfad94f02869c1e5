/*
 * The device's side of the GATT OTA profile, version 1 (docs/ota-profile.md).
 *
 * The core implements everything between the Bluetooth stack and the flash. It verifies the signed envelope and
 * receives the image. After a lost link or a power cut, it resumes the transfer of the image. It marks the image for
 * boot and ends a trial. It allocates no memory, has no global state and no clock, and uses no floating point. From the
 * C library it calls only memcpy, memmove, memset and memcmp.
 *
 * Threads: call all functions from one thread, or under one lock. Call them in the order in which the stack delivered
 * the events. If you use a queue, put all events into the same queue: connections, subscriptions, writes of Control,
 * writes of Data, and disconnections. A callback of `ota_port` must not call a function of this header.
 *
 * Time: the parameter `now` is the time of any monotonic clock in milliseconds, modulo 2^32. Call `ota_device_poll`
 * after *every* call of another function except `ota_device_read`. `ota_device_poll` returns a number of milliseconds.
 * Call the function again when this time has passed.
 *
 * Blocking: `ota_device_write_data` erases and writes the pages that the received bytes fill. A call of
 * `ota_device_poll` does at most one of these steps: it erases `erase_step` pages, reads at most 4 KiB of an image,
 * hashes an envelope, or verifies one signature. These two functions and `ota_device_write_control` may also write to the
 * record area and erase its pages. For an encoded image, `ota_device_write_data` decodes at most 32 KiB.
 */
#ifndef OTA_DEVICE_H
#define OTA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ota_config.h"
#include "ota_mcuboot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum number of connections. Only one of them updates the device at a time. During the update, the other
 * connections can read Info, Progress and Version. The core answers all their requests except IDENTIFY with "busy",
 * until the updating connection has written nothing for 30 s. */
#ifndef OTA_MAX_CONNECTIONS
#define OTA_MAX_CONNECTIONS 4
#endif

/* `ota_device_poll` returns this value if no further call of `ota_device_poll` is necessary before the next event. */
#define OTA_FOREVER UINT32_MAX

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

/* OTA_AREA_BASE is the slot of the running image, from the first byte of its image file on. The core only reads it, and
 * only if `ota_config.base_size` is not 0. */
enum ota_area { OTA_AREA_SLOT = 0, OTA_AREA_RECORD = 1, OTA_AREA_BASE = 2 };

/* The ways to boot the marked image: on trial, or permanently. */
enum ota_boot { OTA_BOOT_TRIAL = 0, OTA_BOOT_PERMANENT = 1 };

enum { OTA_NO_BATTERY = 255 };

/*
 * The callbacks. The integrator writes them. `context` is the pointer that `ota_device_start` received. A callback must
 * not call the core. The core keeps the pointer to this structure. Callbacks marked "Optional" may be NULL. All other
 * callbacks are required.
 */
struct ota_port {
    /* Flash. Return false if the operation failed. `offset` counts in bytes from the start of the area. The core
     * accesses only bytes inside the area. It calls `read` with any offset and count. It calls `write` only for erased
     * bytes, and only with whole write units at a multiple of the write unit. The bytes must be durable when `write`
     * returns. `erase` sets all bytes of the page at `offset` to 0xFF. */
    bool (*read)(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count);
    bool (*write)(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count);
    bool (*erase)(void *context, enum ota_area area, uint32_t offset);

    /* SHA-256. The callbacks must store the state of the hash themselves. The core computes one hash at a time. After a
     * lost link, the core can start a new hash without a call of `hash_finish` for the previous one. `hash_finish`
     * returns false if no digest could be computed. The core handles this like a wrong digest. */
    void (*hash_start)(void *context);
    void (*hash_update)(void *context, const uint8_t *bytes, uint32_t count);
    bool (*hash_finish)(void *context, uint8_t digest[OTA_DIGEST_SIZE]);

    /* Returns whether the signature by the trusted key at index `key` of `ota_config.key_ids` is valid. `algorithm` is
     * the algorithm of this key. The message has at most 1024 bytes.
     *   OTA_ED25519: pure Ed25519 (RFC 8032), `signature_size` is 64. The callback must refuse a signature whose number S
     *   is not below the group order L (RFC 8032, 5.1.7).
     *   OTA_ML_DSA_…: pure ML-DSA (FIPS 204) with the context string OTA_SIGNATURE_CONTEXT. `signature_size` is 2420, 3309
     *   or 4627. */
    bool (*verify)(void *context, uint8_t key, enum ota_algorithm algorithm, const uint8_t *message, uint32_t count,
                   const uint8_t *signature, uint32_t signature_size);

    /* Sends a notification to one connection. `characteristic` is OTA_CONTROL or OTA_PROGRESS, `count` is at most 13.
     * Return false if the stack has no buffer. The core then keeps the notification, and the next
     * `ota_device_poll`, at most 10 ms later, offers it again. If the stack reports a free buffer, call it at once. */
    bool (*notify)(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count);

    /* APPLY: marks the slot for the next boot, by ONE atomic write. If `confirm` is not called during a trial boot, the
     * boot after it must start the old image. Store the security counter and the digest of the manifest together with
     * the mark. After the boot, pass them in `ota_config`. The digest is `running_digest`. On a trial boot, the counter
     * is `trial_security_counter`. On any other boot, it is `security_counter`. For OTA_BOOT_PERMANENT, also raise the
     * stored counter of the permanent image now. Return false if the write failed and nothing is marked. */
    bool (*mark)(void *context, enum ota_boot boot, const struct ota_manifest *manifest);
    /* CONFIRM: makes the running image permanent, by ONE atomic write. After the write, raise the stored counter of the
     * permanent image to `security_counter`. The core passes the values `ota_config.trial_security_counter` and
     * `ota_config.running_digest`. Return false if the write failed. The trial then continues. */
    bool (*confirm)(void *context, uint32_t security_counter, const uint8_t *digest);
    /* Ends the trial: the next boot must start the old image. If the bootloader starts the old image after each trial
     * boot without `confirm`, this callback may do nothing. It may also reboot the device itself. If it returns, the
     * core calls `reboot` next. */
    void (*roll_back)(void *context);
    /* Restarts the device. If the callback returns, as in a simulator, the core does nothing until the next
     * `ota_device_start`. */
    void (*reboot)(void *context);

    /* Optional. Returns the battery level in per cent, 0..100, or OTA_NO_BATTERY. NULL means that the device runs on
     * mains power. */
    uint8_t (*battery)(void *context);
    /* Optional. Returns whether the firmware's self-test has passed. If false, the core answers CONFIRM with "busy". */
    bool (*self_test_passed)(void *context);
    /* Optional. Returns whether an additional rule of the device forbids this release because it is too old. If true,
     * the core refuses the envelope with OTA_TOO_OLD. */
    bool (*too_old)(void *context, const struct ota_manifest *manifest);
    /* Optional. Returns whether the device's policy permits this release. For example, a policy may require that a
     * button is pressed. The core calls `permits` after all other checks of the envelope. If false, the core refuses
     * the envelope with OTA_REFUSED. */
    bool (*permits)(void *context, const struct ota_manifest *manifest);
    /* Optional. IDENTIFY: makes the device blink for this number of seconds; 0 stops the blinking. NULL: the device cannot
     * blink, and the core answers IDENTIFY with "unknown opcode". */
    void (*identify)(void *context, uint8_t seconds);
    /* Optional. The core calls `begun` at the first accepted BEGIN of a connection. For a fast transfer, request these
     * parameters for the connection: full-length packets, 2M PHY, an interval of 15 ms, latency 0 and a supervision
     * timeout of at least 4 s. */
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

/* The state of the core, less than 640 bytes for 4 connections. Allocate the structure statically. Do not access its
 * members, and do not move it. The small members come first, because an Arm instruction that accesses them is then 2
 * bytes shorter. */
struct ota_device {
    uint8_t state;  /* enum ota_state */
    uint8_t status; /* the status in Progress: OTA_OK, OTA_FLASH_FAILED or OTA_NOT_DECODED */
    uint8_t reboot; /* enum ota_reboot */
    /* The request that a later poll answers. */
    uint8_t job; /* enum ota_job */
    uint8_t job_opcode, job_tag;
    uint8_t record_page; /* the page of the newest record */
    bool owner_silent, trial_running;
    bool was_charged; /* an erase of the slot was charged since `ota_device_start` */
#if OTA_ENCODINGS
    bool is_encoded; /* the open object, or the object that a job is opening, is an encoded image */
#endif
    uint16_t wear; /* the wear points (wear.c): the sum of the charges, reduced by time */
    uint16_t envelope_size;

    const struct ota_config *config;
    const struct ota_port *port;
    void *context;
    uint8_t *page; /* the image's bytes after `held_flushed`, which are not in flash yet */
    struct ota_connection *owner;
    struct ota_connection *leaver; /* if this connection ends, a scheduled reboot happens at once; may be NULL */

    /* The open object, or the object that a job is opening. For an encoded image, `object_size` is the size of the
     * image, but offset and CRC count the bytes of the stream. */
    uint32_t object_size, object_offset, object_crc;
    uint32_t job_offset;

    /* The download: the number of received bytes, the number of these bytes that are in flash, and the offset in the
     * newest record. `held_digest` is the SHA-256 of the manifest of the download. */
    uint32_t held_offset, held_flushed, held_recorded;
    uint32_t erased_until; /* the slot's pages from `held_flushed` to this offset are erased */
    uint32_t round_end;    /* an erase at a lower offset starts a new round and is charged (wear.c) */

    /* The generation of the newest record, and the index of the next record in its page. */
    uint32_t record_generation, record_index;

    uint32_t heard_at, trial_ends_at, reboot_at, wear_since;
    uint32_t security_counter;

#if OTA_ENCODINGS
    /* The arguments of the BEGIN whose base a job compares with the running image: the requested offset, the size of
     * the base, and the prefix of the base's digest. */
    uint32_t begin_from, begin_base_size;
    uint8_t begin_base_prefix[OTA_PREFIX_SIZE];
    /* The size and the digest prefix of the last base that was equal to the start of the running image. Size 0: no base
     * was equal since `ota_device_start`. */
    uint32_t base_size;
    uint8_t base_prefix[OTA_PREFIX_SIZE];
#endif

    uint8_t object_prefix[OTA_PREFIX_SIZE]; /* the start of the envelope's digest, from BEGIN envelope */
    uint8_t held_digest[OTA_DIGEST_SIZE];
    uint8_t manifest_digest[OTA_DIGEST_SIZE];
    uint32_t version[3];
    struct ota_connection connections[OTA_MAX_CONNECTIONS];
};

/* ---- The functions ---- */

enum ota_start_error {
    OTA_START_OK = 0,
    OTA_START_MISSING, /* a required pointer is NULL */
    OTA_START_PRODUCT,
    OTA_START_VERSION,
    OTA_START_KEYS, /* no key, too many keys, two equal ids, an unknown algorithm, or too few keys for the policy */
    OTA_START_IMAGE_FORMAT,
    OTA_START_LARGEST_IMAGE,
    OTA_START_LONGEST_DATA,
    OTA_START_WINDOW,
    OTA_START_TIMES, /* no restart time, or a trial boot without a trial time */
    OTA_START_PAGES, /* the page size, slot size, write unit, erase step or base size */
    OTA_START_ENVELOPE, /* `largest_envelope` is out of range, or the required signatures do not fit */
    OTA_START_FLASH     /* a record could not be read: the core has started, but cannot resume an upload */
};

/* Returns the maximum of `config->largest_image` in bytes, or 0 if the slot is too small. With OTA_FORMAT_MCUBOOT and
 * `trial_seconds` > 0, the maximum is OTA_MCUBOOT_LARGEST_IMAGE with `max_sectors` = the slot's number of pages. With
 * OTA_FORMAT_MCUBOOT and `trial_seconds` = 0, the maximum is the size of the slot without MCUboot's flags
 * (OTA_MCUBOOT_FLAGS). With all other formats, the maximum is the size of the slot. The bootloader's configuration may
 * require a smaller value. */
uint32_t ota_largest_image(const struct ota_config *config);

/*
 * Starts the core after a boot. The core reads the record area, and may write to it. `page` is a buffer of
 * `config->page_size` bytes. Only the core may use this buffer until the next start. Call this function soon after
 * boot, because the trial time starts at `now`.
 *
 * After OTA_START_OK and OTA_START_FLASH, the core runs. After any other error the core has not started. In this case,
 * do not call another function of the core. If this is a trial boot, also roll back and restart.
 */
enum ota_start_error ota_device_start(struct ota_device *device, const struct ota_config *config,
                                      const struct ota_port *port, void *context, uint8_t *page, uint32_t now);

/* Adds a connection. `connection` is the stack's handle. Each read of Info on this connection returns the value at the
 * time of this call, even if the value changes later. Returns false if there are already OTA_MAX_CONNECTIONS
 * connections. In this case the core answers reads and Control writes of this connection with
 * OTA_ATT_INSUFFICIENT_RESOURCES. */
bool ota_device_connected(struct ota_device *device, uint16_t connection, uint32_t now);

/* Removes a connection. Call this function only after the calls for all earlier writes of the connection. */
void ota_device_disconnected(struct ota_device *device, uint16_t connection, uint32_t now);

/* Call this function when a host has turned the notifications of OTA_CONTROL or OTA_PROGRESS on or off. For a new
 * connection, both are off. */
void ota_device_subscribed(struct ota_device *device, uint16_t connection, enum ota_characteristic characteristic,
                           bool on, uint32_t now);

/* Handles a write of Control. Returns the ATT error with which the stack must answer the write, or OTA_ATT_OK. The core
 * answers the request itself with a notification, in this call or in a later poll. */
enum ota_att_error ota_device_write_control(struct ota_device *device, uint16_t connection, const uint8_t *bytes,
                                            uint16_t count, uint32_t now);

/* Handles a write of Data, with or without response. The core never refuses this write with an ATT error. The core
 * reports lost chunks in Progress. */
void ota_device_write_data(struct ota_device *device, uint16_t connection, const uint8_t *bytes, uint16_t count,
                           uint32_t now);

/*
 * Reads OTA_INFO (at most 262 bytes), OTA_PROGRESS (12 bytes) or OTA_VERSION (5..63 bytes). Copies the value from
 * `offset` on, at most `capacity` bytes, to `bytes`. Sets `*count` to the number of copied bytes. For a long read, call
 * this function with increasing offsets. If the stack splits the value itself, use offset 0 and a capacity of 262.
 */
enum ota_att_error ota_device_read(struct ota_device *device, uint16_t connection,
                                   enum ota_characteristic characteristic, uint16_t offset, uint8_t *bytes,
                                   uint16_t capacity, uint16_t *count);

/*
 * Does the work that is due: a step of a long request, timers, notifications that did not fit into the stack's buffers,
 * and the reboot. Returns the time until the next necessary call in milliseconds, or OTA_FOREVER. 0 means that more work
 * is due now, but other threads may run before the next call.
 */
uint32_t ota_device_poll(struct ota_device *device, uint32_t now);

/* Returns the state of the device, for the application's display. */
enum ota_state ota_device_state(const struct ota_device *device);

#ifdef __cplusplus
}
#endif

/*
 * docs/device-integration.md shows the integration with Zephyr, NimBLE, MCUboot and ESP-IDF. In these examples, the
 * stack's callbacks put the events into one queue, in order. One thread reads the queue, calls the core for each event,
 * and then calls `ota_device_poll`. A read does not use the queue: the stack's callback for reads calls
 * `ota_device_read` at once. The caller of each function of the core holds the same lock.
 */

#endif
