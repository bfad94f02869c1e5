/* One queue and one thread: the events of the stack, in their order, for the core. */
#include <errno.h>
#include <zephyr/drivers/flash.h>
#include <zephyr/logging/log.h>

#include "glue.h"

LOG_MODULE_DECLARE(otaflash, CONFIG_OTAFLASH_LOG_LEVEL);

enum {
    /* After a rewind, a window of stale Data values can arrive before the new ones. */
    DATA_PLACES = 2 * CONFIG_OTAFLASH_WINDOW,
    /* Control writes and subscriptions. A host that floods the queue with them gets an ATT error. */
    REQUEST_PLACES = 4 * CONFIG_BT_MAX_CONN,
    /* Connections and disconnections always fit: a connection has one of each until its reference is released. */
    CONNECTION_PLACES = 2 * CONFIG_BT_MAX_CONN,
    RETRY = 10 /* milliseconds, until the next attempt after the stack had no buffer */
};

K_MSGQ_DEFINE(otaflash_queue, sizeof(struct otaflash_event), DATA_PLACES + REQUEST_PLACES + CONNECTION_PLACES, 8);
K_MUTEX_DEFINE(otaflash_lock);
static K_THREAD_STACK_DEFINE(stack, CONFIG_OTAFLASH_STACK_SIZE);
static struct k_thread thread;

static struct ota_device device;
static uint8_t page[DT_PROP(DT_CHOSEN(zephyr_flash), erase_block_size)] __aligned(8);
static bool is_running;
static uint32_t dropped;

bool otaflash_is_running(void) { return is_running; }

bool otaflash_queue_put(const struct otaflash_event *event) {
    uint32_t reserved = 0;
    if (event->kind == OTAFLASH_DATA) reserved = REQUEST_PLACES + CONNECTION_PLACES;
    if (event->kind == OTAFLASH_CONTROL || event->kind == OTAFLASH_SUBSCRIBED) reserved = CONNECTION_PLACES;
    if (k_msgq_num_free_get(&otaflash_queue) <= reserved || k_msgq_put(&otaflash_queue, event, K_NO_WAIT) != 0) {
        /* The core detects a dropped Data value by the next sequence number, and the host sends it again. */
        if (event->kind == OTAFLASH_DATA) dropped++;
        return false;
    }
    return true;
}

ssize_t otaflash_read(uint16_t connection, enum ota_characteristic characteristic, void *bytes, uint16_t size,
                      uint16_t offset) {
    uint16_t count = 0;
    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);
    enum ota_att_error error = ota_device_read(&device, connection, characteristic, offset, bytes, size, &count);
    (void)k_mutex_unlock(&otaflash_lock);
    return error == OTA_ATT_OK ? (ssize_t)count : BT_GATT_ERR((int)error);
}

static void handle(const struct otaflash_event *event, uint32_t now) {
    uint16_t connection = event->connection;
    switch (event->kind) {
    case OTAFLASH_CONNECTED:
        otaflash_port_connection(connection, event->reference);
        (void)ota_device_connected(&device, connection, now);
        break;
    case OTAFLASH_SUBSCRIBED: ota_device_subscribed(&device, connection, event->characteristic, event->on, now); break;
    case OTAFLASH_CONTROL:
        (void)ota_device_write_control(&device, connection, event->bytes, event->count, now);
        break;
    case OTAFLASH_DATA: ota_device_write_data(&device, connection, event->bytes, event->count, now); break;
    case OTAFLASH_DISCONNECTED:
        ota_device_disconnected(&device, connection, now);
        otaflash_port_connection(connection, NULL);
        if (dropped > 0) LOG_INF("%u Data values dropped so far, because the queue was full", dropped);
        break;
    }
}

void otaflash_queue_step(void) {
    static struct otaflash_event event;
    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);
    uint32_t wait = ota_device_poll(&device, k_uptime_get_32());
    (void)k_mutex_unlock(&otaflash_lock);
    /* Not under the lock: the stack waits for a buffer, and a read on the stack's thread waits for the lock. */
    if (!otaflash_port_send()) wait = MIN(wait, RETRY);
    if (k_msgq_get(&otaflash_queue, &event, wait == OTA_FOREVER ? K_FOREVER : K_MSEC(wait)) != 0) return;
    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);
    handle(&event, k_uptime_get_32());
    (void)k_mutex_unlock(&otaflash_lock);
}

static void run(void *a, void *b, void *c) {
    ARG_UNUSED(a);
    ARG_UNUSED(b);
    ARG_UNUSED(c);
    for (;;) otaflash_queue_step();
}

int otaflash_queue_start(const struct ota_config *config) {
    enum ota_start_error error = ota_device_start(&device, config, &otaflash_port, NULL, page, k_uptime_get_32());
    /* After OTA_START_FLASH the core runs, but it cannot resume a partial upload. */
    if (error != OTA_START_OK && error != OTA_START_FLASH) {
        LOG_ERR("the core did not start: error %d of enum ota_start_error", error);
        return -EINVAL;
    }
    is_running = true;
    (void)k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), run, NULL, NULL, NULL,
                          K_PRIO_PREEMPT(CONFIG_OTAFLASH_THREAD_PRIORITY), 0, K_NO_WAIT);
    return 0;
}
