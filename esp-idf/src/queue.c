/* One queue and one task: the events of the stack, in their order, for the core. */
#include <string.h>

#include "freertos/FreeRTOS.h"
#include "freertos/queue.h"
#include "freertos/semphr.h"
#include "freertos/task.h"

#include "esp_log.h"
#include "esp_timer.h"
#include "glue.h"

static const char tag[] = "otaflash";

enum {
    /* After a rewind, a window of stale Data values can arrive before the new ones. */
    DATA_PLACES = 2 * CONFIG_OTAFLASH_WINDOW,
    /* Control writes and subscriptions. A host that floods the queue with them gets an ATT error. */
    REQUEST_PLACES = 4 * CONFIG_BT_NIMBLE_MAX_CONNECTIONS,
    CONNECTION_PLACES = 2 * CONFIG_BT_NIMBLE_MAX_CONNECTIONS,
    PLACES = DATA_PLACES + REQUEST_PLACES + CONNECTION_PLACES,
    RETRY = 10, /* milliseconds, until the next attempt after the stack had no buffer */
    POLLS = 8   /* in a row without a wait: each can read and hash 4 KiB */
};

struct item {
    struct otaflash_event event;
    uint8_t bytes[OTAFLASH_LONGEST];
};

static uint8_t queue_memory[PLACES * sizeof(struct item)];
static StaticQueue_t queue_state;
static StaticSemaphore_t lock_state, started_state;
static StaticTask_t task_state;
static StackType_t stack[CONFIG_OTAFLASH_STACK_SIZE];
static QueueHandle_t queue;
static SemaphoreHandle_t lock, started;

static struct ota_device device;
static uint8_t page[OTAFLASH_PAGE] __attribute__((aligned(16)));
static esp_err_t start_error;
static uint32_t dropped;
static uint32_t open_connections; /* whose DISCONNECTED is not in the queue yet */

static uint32_t milliseconds(void) { return (uint32_t)(esp_timer_get_time() / 1000); }

bool otaflash_queue_put(const struct otaflash_event *event, const void *bytes) {
    static struct item item;
    uint32_t reserved = 0; /* a disconnection always fits */
    if (event->kind == OTAFLASH_DATA) reserved = REQUEST_PLACES + CONNECTION_PLACES;
    if (event->kind == OTAFLASH_CONTROL || event->kind == OTAFLASH_SUBSCRIBED) reserved = CONNECTION_PLACES;
    if (event->kind == OTAFLASH_CONNECTED) reserved = open_connections + 1;
    item.event = *event;
    if (event->count > 0) memcpy(item.bytes, bytes, event->count);
    bool has_place = uxQueueSpacesAvailable(queue) > reserved && xQueueSend(queue, &item, 0) == pdTRUE;
    if (has_place && event->kind == OTAFLASH_CONNECTED) open_connections++;
    if (has_place && event->kind == OTAFLASH_DISCONNECTED) open_connections--;
    /* The core detects a dropped Data value by the next sequence number, and the host sends it again. */
    if (!has_place && event->kind == OTAFLASH_DATA) dropped++;
    return has_place;
}

int otaflash_read(uint16_t connection, enum ota_characteristic characteristic, uint8_t bytes[OTA_INFO_LARGEST],
                  uint16_t *count) {
    (void)xSemaphoreTake(lock, portMAX_DELAY);
    enum ota_att_error error = ota_device_read(&device, connection, characteristic, 0, bytes, OTA_INFO_LARGEST, count);
    (void)xSemaphoreGive(lock);
    return (int)error;
}

static void handle(const struct item *item, uint32_t now) {
    const struct otaflash_event *event = &item->event;
    uint16_t connection = event->connection;
    switch (event->kind) {
    case OTAFLASH_CONNECTED: (void)ota_device_connected(&device, connection, now); break;
    case OTAFLASH_SUBSCRIBED: ota_device_subscribed(&device, connection, event->characteristic, event->on, now); break;
    case OTAFLASH_CONTROL:
        (void)ota_device_write_control(&device, connection, item->bytes, event->count, now);
        break;
    case OTAFLASH_DATA: ota_device_write_data(&device, connection, item->bytes, event->count, now); break;
    case OTAFLASH_DISCONNECTED:
        ota_device_disconnected(&device, connection, now);
        if (dropped > 0) ESP_LOGI(tag, "%u Data values dropped so far, because the queue was full", (unsigned)dropped);
        break;
    }
}

/* Rounds up, because a wait of 0 ticks would occupy the processor. */
static TickType_t ticks(uint32_t wait) {
    if (wait == OTA_FOREVER) return portMAX_DELAY;
    return wait / portTICK_PERIOD_MS + (wait % portTICK_PERIOD_MS != 0);
}

void otaflash_queue_step(void) {
    static struct item item;
    static uint32_t polls;
    (void)xSemaphoreTake(lock, portMAX_DELAY);
    uint32_t wait = ota_device_poll(&device, milliseconds());
    (void)xSemaphoreGive(lock);
    /* Not under the lock: the stack has locks of its own, and a read on its task waits for this lock. */
    if (!otaflash_port_send() && wait > RETRY) wait = RETRY;
    /* Tasks of a lower priority must run during the hash of a large image, or the watchdog of the idle task restarts the
     * device after 5 s. */
    polls = wait == 0 ? polls + 1 : 0;
    if (polls == POLLS) polls = 0, wait = 1;
    if (xQueueReceive(queue, &item, ticks(wait)) != pdTRUE) return;
    (void)xSemaphoreTake(lock, portMAX_DELAY);
    handle(&item, milliseconds());
    (void)xSemaphoreGive(lock);
}

static void run(void *start) {
    start_error = ((esp_err_t(*)(void))start)();
    bool is_running = start_error == ESP_OK;
    (void)xSemaphoreGive(started);
    while (is_running) otaflash_queue_step();
    vTaskDelete(NULL);
}

esp_err_t otaflash_queue_run(esp_err_t (*start)(void)) {
    open_connections = 0;
    queue = xQueueCreateStatic(PLACES, sizeof(struct item), queue_memory, &queue_state);
    lock = xSemaphoreCreateMutexStatic(&lock_state);
    started = xSemaphoreCreateBinaryStatic(&started_state);
    (void)xTaskCreateStatic(run, "otaflash", CONFIG_OTAFLASH_STACK_SIZE, (void *)start, CONFIG_OTAFLASH_TASK_PRIORITY, stack,
                            &task_state);
    (void)xSemaphoreTake(started, portMAX_DELAY);
    return start_error;
}

esp_err_t otaflash_queue_start(const struct ota_config *config) {
    enum ota_start_error error = ota_device_start(&device, config, otaflash_port(), NULL, page, milliseconds());
    /* After OTA_START_FLASH the core runs, but it cannot resume a partial upload. */
    if (error == OTA_START_OK || error == OTA_START_FLASH) return ESP_OK;
    ESP_LOGE(tag, "the core did not start: error %d of enum ota_start_error", (int)error);
    return ESP_ERR_INVALID_STATE;
}
