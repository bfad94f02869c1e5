/* The parts of otaflash on Zephyr. start.c: the configuration, and the start before the Bluetooth stack. port.c: the
 * callbacks of the core. store.c: the stored records. queue.c: the queue and the thread. service.c: the GATT service. */
#ifndef OTAFLASH_GLUE_H
#define OTAFLASH_GLUE_H

#include <zephyr/bluetooth/conn.h>
#include <zephyr/bluetooth/gatt.h>
#include <zephyr/kernel.h>

#include "ota_device.h"

/* MTU 498 less the 3 bytes of an ATT header. */
enum { OTAFLASH_LONGEST = 495 };

/* ---- store.c ---- */

/* The image that `mark` marked, or that runs. */
struct otaflash_image {
    /* OTAFLASH_TRIAL: APPLY on trial. OTAFLASH_PERMANENT: permanent APPLY, or CONFIRM. */
    enum { OTAFLASH_TRIAL, OTAFLASH_PERMANENT } step;
    uint8_t digest[OTA_DIGEST_SIZE];       /* of the manifest */
    uint8_t image_digest[OTA_DIGEST_SIZE]; /* of the first `image_size` bytes of the slot */
    uint32_t image_size, counter;
    char version[OTA_TEXT_LARGEST + 1];
};

/* Loads the records after a boot. `version` is the version of the running image, `on_trial` whether it is on trial. Sets
 * the members of the configuration that depend on the boot. Returns 0 or a negative errno. */
int otaflash_store_load(struct ota_config *config, bool on_trial);
/* Stores the marked image, before the bootloader's mark. */
bool otaflash_store_marked(const struct ota_manifest *manifest, enum ota_boot boot);
/* Stores that the image on trial is being confirmed, before the bootloader's mark. */
bool otaflash_store_confirming(void);
/* Raises the counter of the permanent image. */
bool otaflash_store_counter(uint32_t counter);
/* Stores that the marked image is permanent, after the bootloader's mark. */
void otaflash_store_confirmed(void);

/* ---- port.c ---- */

extern const struct ota_port otaflash_port;

/* Returns the 32 bytes of a trusted key (start.c). */
const uint8_t *otaflash_key(uint8_t index);

/* Opens the flash areas, and starts the PSA. Returns 0 or a negative errno. */
int otaflash_port_init(void);
/* Returns whether the primary slot has an image with this digest. */
bool otaflash_slot_has(const struct otaflash_image *image);
/* Sends the notifications and the requests that the core made, without the core's lock: the stack's functions can wait.
 * Returns false if the stack had no buffer. */
bool otaflash_port_send(void);
/* Called when the connection was added or removed. The port keeps the reference. NULL: no connection. Returns the
 * previous reference of this index or NULL. The caller releases it without the core's lock, because the stack's
 * function can wait. */
struct bt_conn *otaflash_port_connection(uint16_t index, struct bt_conn *connection);

/* ---- queue.c ---- */

struct otaflash_event {
    enum { OTAFLASH_CONNECTED, OTAFLASH_SUBSCRIBED, OTAFLASH_CONTROL, OTAFLASH_DATA, OTAFLASH_DISCONNECTED } kind;
    enum ota_characteristic characteristic;
    struct bt_conn *reference; /* OTAFLASH_CONNECTED: a reference that the receiver releases */
    uint16_t connection, count;
    bool on;
};

/* Starts the thread. It calls `start`, and then the core. Waits until `start` has returned, and returns its result: 0
 * or a negative errno. PSA, the settings and the hash of the slot need the thread's stack: the caller's is small. */
int otaflash_queue_run(int (*start)(void));
/* Starts the core. Returns 0 or a negative errno. */
int otaflash_queue_start(const struct ota_config *config);
bool otaflash_is_running(void);
/* Adds an event and its `count` bytes. Waits for no other event. Returns false if the queue is full for events of this
 * kind. It needs little stack, because the stack's threads call it. */
bool otaflash_queue_put(const struct otaflash_event *event, const void *bytes);
/* Reads a value from the core, under its lock. Returns the number of bytes, or a negative ATT error. */
ssize_t otaflash_read(uint16_t connection, enum ota_characteristic characteristic, void *bytes, uint16_t size,
                      uint16_t offset);
/* Calls the core until nothing is due, and handles at most one event. The thread calls it again and again. */
void otaflash_queue_step(void);

/* ---- service.c ---- */

const struct bt_gatt_attr *otaflash_attribute(enum ota_characteristic characteristic);

#endif
