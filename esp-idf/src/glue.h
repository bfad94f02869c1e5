/* The parts of otaflash on ESP-IDF. start.c: the configuration and the start. port.c: the callbacks of the core. store.c:
 * the records in NVS. queue.c: the queue and the task. service.c: the connections and the GATT service. */
#ifndef OTAFLASH_GLUE_H
#define OTAFLASH_GLUE_H

#include "sdkconfig.h"

/* Not in CMakeLists.txt, because an error there would also stop menuconfig. sdkconfig.defaults applies only to options
 * that are not in sdkconfig yet. */
#if !defined(CONFIG_BT_NIMBLE_ENABLED) || !defined(CONFIG_BT_NIMBLE_ROLE_PERIPHERAL)
#error "otaflash: NimBLE is off. Add CONFIG_BT_ENABLED=y and CONFIG_BT_NIMBLE_ENABLED=y to sdkconfig.defaults, and delete sdkconfig"
#endif
#ifndef CONFIG_BOOTLOADER_APP_ROLLBACK_ENABLE
#error "otaflash: no rollback. Add CONFIG_BOOTLOADER_APP_ROLLBACK_ENABLE=y to sdkconfig.defaults, and delete sdkconfig"
#endif
#ifdef OTAFLASH_WITHOUT_KEYS
#error "otaflash: no trusted key. Type 'otaflash keygen release', and add CONFIG_OTAFLASH_KEYS=\"release.pub.pem\" to sdkconfig.defaults"
#endif

#include "esp_err.h"
#include "esp_partition.h"
#include "ota_device.h"

/* LONGEST: MTU 498 less the 3 bytes of an ATT header. The flash writes units of 16 bytes if it is encrypted, and accepts
 * them if it is not. */
enum { OTAFLASH_LONGEST = 495, OTAFLASH_PAGE = 4096, OTAFLASH_WRITE_UNIT = 16 };

/* ---- start.c ---- */

/* Returns the 32 bytes of a trusted key. */
const uint8_t *otaflash_key(uint8_t index);

/* ---- store.c ---- */

/* Loads the records after a boot. Sets the members of the configuration that depend on the boot. `is_permanent`: the
 * running image is not on trial, and no trial of it has failed. */
esp_err_t otaflash_store_load(struct ota_config *config, const esp_partition_t *running, bool is_permanent);
/* Stores the release in `slot`, before the bootloader's mark. */
bool otaflash_store_marked(const esp_partition_t *slot, const struct ota_manifest *manifest);
/* Raises the counter of the permanent image. */
bool otaflash_store_counter(uint32_t counter);

/* ---- port.c ---- */

struct otaflash_hooks;

/* Opens the partitions, and starts the PSA. Sets the sizes of the configuration. */
esp_err_t otaflash_port_init(struct ota_config *config, const struct otaflash_hooks *hooks);
const struct ota_port *otaflash_port(void);
/* Sends the notifications and the requests that the core made, and restarts the device if the core wants it, without the
 * core's lock. Returns false if the stack had no buffer. */
bool otaflash_port_send(void);

/* ---- queue.c ---- */

struct otaflash_event {
    enum { OTAFLASH_CONNECTED, OTAFLASH_SUBSCRIBED, OTAFLASH_CONTROL, OTAFLASH_DATA, OTAFLASH_DISCONNECTED } kind;
    enum ota_characteristic characteristic;
    uint16_t connection, count;
    bool on;
};

/* Starts the task. It calls `start`, and then the core. Waits until `start` has returned, and returns its result. */
esp_err_t otaflash_queue_run(esp_err_t (*start)(void));
/* Starts the core. */
esp_err_t otaflash_queue_start(const struct ota_config *config);
/* Adds an event and its `count` bytes. Does not wait. Returns false if the queue is full for events of this kind. Only
 * service.c calls it, under the lock of the connections. */
bool otaflash_queue_put(const struct otaflash_event *event, const void *bytes);
/* Reads a value from the core, under its lock. Returns 0 or an ATT error. */
int otaflash_read(uint16_t connection, enum ota_characteristic characteristic, uint8_t bytes[OTA_INFO_LARGEST],
                  uint16_t *count);
/* Calls the core until nothing is due, and handles at most one event. The task calls it again and again. */
void otaflash_queue_step(void);

/* ---- service.c ---- */

/* A connection that uses the service. NimBLE uses a handle again at once, while events of the old connection can wait in
 * the queue. So each connection has a number of its own, which the core receives. */
struct otaflash_connection {
    uint16_t handle, id;
    bool is_open;
    bool subscribed[2], known[2]; /* to Control and Progress: in the stack, and in the core */
};

/* Adds the service and the listener for GAP events. */
esp_err_t otaflash_service_init(void);
/* Copies an open connection. Returns false if the connection has ended. Any task can call it. */
bool otaflash_connection_get(uint16_t id, struct otaflash_connection *connection);
/* Returns the attribute handle of Control or Progress. */
uint16_t otaflash_attribute(enum ota_characteristic characteristic);
/* Returns the index in `subscribed`. */
static inline int otaflash_subscription(enum ota_characteristic characteristic) {
    return characteristic == OTA_CONTROL ? 0 : 1;
}

#endif
