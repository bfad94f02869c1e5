/* One queue and one thread: the events of the stack, in their order, for the core. */
#include <errno.h>
#include <string.h>
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
    /* A name: K_MSGQ_DEFINE multiplies its argument without parentheses, so a sum would give the queue a wrong end. */
    PLACES = DATA_PLACES + REQUEST_PLACES + CONNECTION_PLACES,
    RETRY = 10 /* milliseconds, until the next attempt after the stack had no buffer */
};

struct item {
    struct otaflash_event event;
    uint8_t bytes[OTAFLASH_LONGEST];
};

K_MSGQ_DEFINE(otaflash_queue, sizeof(struct item), PLACES, 8);
K_MUTEX_DEFINE(otaflash_lock);
/* Held while an event is copied. */
K_MUTEX_DEFINE(otaflash_put_lock);
K_SEM_DEFINE(otaflash_started, 0, 1);
static K_THREAD_STACK_DEFINE(stack, CONFIG_OTAFLASH_STACK_SIZE);
static struct k_thread thread;

static struct ota_device device;
static uint8_t page[DT_PROP(DT_CHOSEN(zephyr_flash), erase_block_size)] __aligned(8);
static bool is_running;
static int start_error;
static uint32_t dropped;

bool otaflash_is_running(void) { return is_running; }

bool otaflash_queue_put(const struct otaflash_event *event, const void *bytes) {
    static struct item item; /* 512 bytes are too many for the stacks of Bluetooth threads */
    uint32_t reserved = 0;
    if (event->kind == OTAFLASH_DATA) reserved = REQUEST_PLACES + CONNECTION_PLACES;
    if (event->kind == OTAFLASH_CONTROL || event->kind == OTAFLASH_SUBSCRIBED) reserved = CONNECTION_PLACES;
    (void)k_mutex_lock(&otaflash_put_lock, K_FOREVER);
    item.event = *event;
    if (event->count > 0) memcpy(item.bytes, bytes, event->count);
    bool has_place =
        k_msgq_num_free_get(&otaflash_queue) > reserved && k_msgq_put(&otaflash_queue, &item, K_NO_WAIT) == 0;
    /* The core detects a dropped Data value by the next sequence number, and the host sends it again. */
    if (!has_place && event->kind == OTAFLASH_DATA) dropped++;
    (void)k_mutex_unlock(&otaflash_put_lock);
    return has_place;
}

ssize_t otaflash_read(uint16_t connection, enum ota_characteristic characteristic, void *bytes, uint16_t size,
                      uint16_t offset) {
    uint16_t count = 0;
    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);
    enum ota_att_error error = ota_device_read(&device, connection, characteristic, offset, bytes, size, &count);
    (void)k_mutex_unlock(&otaflash_lock);
    return error == OTA_ATT_OK ? (ssize_t)count : BT_GATT_ERR((int)error);
}

/* Returns a reference that the caller releases without the lock, or NULL. */
static struct bt_conn *handle(const struct item *item, uint32_t now) {
    const struct otaflash_event *event = &item->event;
    uint16_t connection = event->connection;
    struct bt_conn *old = NULL;
    switch (event->kind) {
    case OTAFLASH_CONNECTED:
        old = otaflash_port_connection(connection, event->reference);
        (void)ota_device_connected(&device, connection, now);
        break;
    case OTAFLASH_SUBSCRIBED: ota_device_subscribed(&device, connection, event->characteristic, event->on, now); break;
    case OTAFLASH_CONTROL:
        (void)ota_device_write_control(&device, connection, item->bytes, event->count, now);
        break;
    case OTAFLASH_DATA: ota_device_write_data(&device, connection, item->bytes, event->count, now); break;
    case OTAFLASH_DISCONNECTED:
        ota_device_disconnected(&device, connection, now);
        old = otaflash_port_connection(connection, NULL);
        if (dropped > 0) LOG_INF("%u Data values dropped so far, because the queue was full", dropped);
        break;
    }
    return old;
}

void otaflash_queue_step(void) {
    static struct item item;
    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);
    uint32_t wait = ota_device_poll(&device, k_uptime_get_32());
    (void)k_mutex_unlock(&otaflash_lock);
    /* Not under the lock: the stack waits for a buffer, and a read on the stack's thread waits for the lock. */
    if (!otaflash_port_send()) wait = MIN(wait, RETRY);
    if (k_msgq_get(&otaflash_queue, &item, wait == OTA_FOREVER ? K_FOREVER : K_MSEC(wait)) != 0) return;
    (void)k_mutex_lock(&otaflash_lock, K_FOREVER);
    struct bt_conn *old = handle(&item, k_uptime_get_32());
    (void)k_mutex_unlock(&otaflash_lock);
    if (old) bt_conn_unref(old);
}

static void run(void *start, void *b, void *c) {
    ARG_UNUSED(b);
    ARG_UNUSED(c);
    start_error = ((int (*)(void))start)();
    is_running = start_error == 0;
    k_sem_give(&otaflash_started);
    while (is_running) otaflash_queue_step();
}

int otaflash_queue_run(int (*start)(void)) {
    (void)k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), run, (void *)start, NULL, NULL,
                          K_PRIO_PREEMPT(CONFIG_OTAFLASH_THREAD_PRIORITY), 0, K_NO_WAIT);
    (void)k_sem_take(&otaflash_started, K_FOREVER);
    return start_error;
}

int otaflash_queue_start(const struct ota_config *config) {
    enum ota_start_error error = ota_device_start(&device, config, &otaflash_port, NULL, page, k_uptime_get_32());
    /* After OTA_START_FLASH the core runs, but it cannot resume a partial upload. */
    if (error == OTA_START_OK || error == OTA_START_FLASH) return 0;
    LOG_ERR("the core did not start: error %d of enum ota_start_error", error);
    return -EINVAL;
}
