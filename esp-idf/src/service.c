/* The connections and the GATT service. NimBLE's task calls these functions. They only put events into the queue, except
 * for reads. */
#include <string.h>

#include "freertos/FreeRTOS.h"
#include "freertos/semphr.h"

#include "glue.h"
#include "host/ble_hs.h"

#ifdef CONFIG_OTAFLASH_AUTHENTICATED
/* An authenticated key: Just Works is not enough. Kconfig requires LE Secure Connections. */
#define WRITE_PERMISSION (BLE_GATT_CHR_F_WRITE_ENC | BLE_GATT_CHR_F_WRITE_AUTHEN)
#else
#define WRITE_PERMISSION 0
#endif

/* ---- Connections ---- */

static struct otaflash_connection connections[CONFIG_BT_NIMBLE_MAX_CONNECTIONS];
static uint16_t last_id;
/* Protects the connections and the start of the queue. The update task holds it only while it copies a connection. */
static SemaphoreHandle_t lock;
static StaticSemaphore_t lock_state;

static void take(void) { (void)xSemaphoreTake(lock, portMAX_DELAY); }
static void give(void) { (void)xSemaphoreGive(lock); }

static struct otaflash_connection *find(uint16_t handle) {
    for (int i = 0; i < CONFIG_BT_NIMBLE_MAX_CONNECTIONS; i++) {
        if (connections[i].is_open && connections[i].handle == handle) return &connections[i];
    }
    return NULL;
}

/* Returns the connection with this handle. Adds it if it is new. Returns NULL if it does not fit. */
static struct otaflash_connection *find_or_add(uint16_t handle) {
    struct otaflash_connection *connection = find(handle);
    for (int i = 0; !connection && i < CONFIG_BT_NIMBLE_MAX_CONNECTIONS; i++) {
        if (connections[i].is_open) continue;
        struct otaflash_event event = {.kind = OTAFLASH_CONNECTED, .connection = (uint16_t)(last_id + 1)};
        if (!otaflash_queue_put(&event, NULL)) return NULL;
        connection = &connections[i];
        *connection = (struct otaflash_connection){.handle = handle, .id = ++last_id, .is_open = true};
    }
    return connection;
}

bool otaflash_connection_get(uint16_t id, struct otaflash_connection *connection) {
    bool is_open = false;
    take();
    for (int i = 0; !is_open && i < CONFIG_BT_NIMBLE_MAX_CONNECTIONS; i++) {
        *connection = connections[i];
        is_open = connection->is_open && connection->id == id;
    }
    give();
    return is_open;
}

/* Puts the subscriptions that the core does not know yet. Returns false if the queue is full. */
static bool put_subscriptions(struct otaflash_connection *connection) {
    static const enum ota_characteristic both[] = {OTA_CONTROL, OTA_PROGRESS};
    for (int i = 0; i < 2; i++) {
        struct otaflash_event event = {.kind = OTAFLASH_SUBSCRIBED,
                                       .characteristic = both[i],
                                       .connection = connection->id,
                                       .on = connection->subscribed[i]};
        if (connection->subscribed[i] == connection->known[i]) continue;
        if (!otaflash_queue_put(&event, NULL)) return false;
        connection->known[i] = connection->subscribed[i];
    }
    return true;
}

static void subscribed(uint16_t handle, enum ota_characteristic characteristic, bool on) {
    struct otaflash_connection *connection = find_or_add(handle);
    if (!connection) return;
    connection->subscribed[otaflash_subscription(characteristic)] = on;
    /* If the queue is full, the next Control write tries again. NimBLE has already accepted the subscription. */
    (void)put_subscriptions(connection);
}

static void disconnected(uint16_t handle) {
    struct otaflash_connection *connection = find(handle);
    if (!connection) return;
    struct otaflash_event event = {.kind = OTAFLASH_DISCONNECTED, .connection = connection->id};
    (void)otaflash_queue_put(&event, NULL);
    connection->is_open = false;
}

/* ---- Attributes ---- */

static uint16_t control_handle, progress_handle;

uint16_t otaflash_attribute(enum ota_characteristic characteristic) {
    return characteristic == OTA_CONTROL ? control_handle : progress_handle;
}

static int write_value(struct otaflash_connection *connection, enum ota_characteristic characteristic,
                       const struct os_mbuf *value) {
    static uint8_t bytes[OTAFLASH_LONGEST];
    bool is_control = characteristic == OTA_CONTROL;
    uint16_t size = OS_MBUF_PKTLEN(value);
    if (size > sizeof bytes) return BLE_ATT_ERR_INVALID_ATTR_VALUE_LEN;
    if (is_control && !connection->subscribed[otaflash_subscription(OTA_CONTROL)]) return OTA_ATT_NOT_SUBSCRIBED;
    if (is_control && size < 2) return OTA_ATT_INVALID_LENGTH;
    if (is_control && !put_subscriptions(connection)) return OTA_ATT_INSUFFICIENT_RESOURCES;
    if (ble_hs_mbuf_to_flat(value, bytes, sizeof bytes, NULL) != 0) return BLE_ATT_ERR_UNLIKELY;
    struct otaflash_event event = {
        .kind = is_control ? OTAFLASH_CONTROL : OTAFLASH_DATA, .connection = connection->id, .count = size};
    /* A dropped Data value is no error: the host sends it again. */
    return otaflash_queue_put(&event, bytes) || !is_control ? 0 : OTA_ATT_INSUFFICIENT_RESOURCES;
}

/* NimBLE applies the offset of a read, and collects the parts of a long write. */
static int access_value(uint16_t handle, uint16_t attribute, struct ble_gatt_access_ctxt *context, void *argument) {
    enum ota_characteristic characteristic = (enum ota_characteristic)(uintptr_t)argument;
    (void)attribute;
    /* A call of the application, such as ble_att_svr_read_local. */
    if (handle == BLE_HS_CONN_HANDLE_NONE) return BLE_ATT_ERR_UNLIKELY;
    take();
    struct otaflash_connection *connection = find_or_add(handle);
    uint16_t id = connection ? connection->id : 0;
    int error = connection ? 0 : OTA_ATT_INSUFFICIENT_RESOURCES;
    if (connection && context->op == BLE_GATT_ACCESS_OP_WRITE_CHR)
        error = write_value(connection, characteristic, context->om);
    give();
    if (error != 0 || context->op != BLE_GATT_ACCESS_OP_READ_CHR) return error;

    uint8_t bytes[OTA_INFO_LARGEST];
    uint16_t count = 0;
    error = otaflash_read(id, characteristic, bytes, &count);
    if (error == 0 && os_mbuf_append(context->om, bytes, count) != 0) error = BLE_ATT_ERR_INSUFFICIENT_RES;
    return error;
}

#define UUID(...) ((const ble_uuid_t *)&(const ble_uuid128_t)BLE_UUID128_INIT(__VA_ARGS__))

static const struct ble_gatt_svc_def services[] = {
    {.type = BLE_GATT_SVC_TYPE_PRIMARY,
     .uuid = UUID(OTA_UUID128_SERVICE),
     .characteristics =
         (const struct ble_gatt_chr_def[]){
             {.uuid = UUID(OTA_UUID128_INFO),
              .access_cb = access_value,
              .arg = (void *)OTA_INFO,
              .flags = BLE_GATT_CHR_F_READ},
             {.uuid = UUID(OTA_UUID128_CONTROL),
              .access_cb = access_value,
              .arg = (void *)OTA_CONTROL,
              .flags = BLE_GATT_CHR_F_WRITE | BLE_GATT_CHR_F_NOTIFY | WRITE_PERMISSION,
              .val_handle = &control_handle},
             {.uuid = UUID(OTA_UUID128_DATA),
              .access_cb = access_value,
              .arg = (void *)OTA_DATA,
              .flags = BLE_GATT_CHR_F_WRITE_NO_RSP | BLE_GATT_CHR_F_WRITE | WRITE_PERMISSION},
             {.uuid = UUID(OTA_UUID128_PROGRESS),
              .access_cb = access_value,
              .arg = (void *)OTA_PROGRESS,
              .flags = BLE_GATT_CHR_F_READ | BLE_GATT_CHR_F_NOTIFY,
              .val_handle = &progress_handle},
             {.uuid = UUID(OTA_UUID128_VERSION),
              .access_cb = access_value,
              .arg = (void *)OTA_VERSION,
              .flags = BLE_GATT_CHR_F_READ},
             {0}}},
    {0}};

/* ---- Events of all connections ---- */

static struct ble_gap_event_listener listener;

static int on_event(struct ble_gap_event *event, void *argument) {
    (void)argument;
    bool is_subscription = event->type == BLE_GAP_EVENT_SUBSCRIBE &&
                           (event->subscribe.attr_handle == control_handle || event->subscribe.attr_handle == progress_handle);
    bool is_connection = event->type == BLE_GAP_EVENT_CONNECT && event->connect.status == 0;
    /* Other events, such as a sent notification, also arrive on the update task. */
    if (!is_subscription && !is_connection && event->type != BLE_GAP_EVENT_DISCONNECT) return 0;
    take();
    if (is_connection) (void)find_or_add(event->connect.conn_handle);
    /* Also when the stack restores the subscriptions of a bonded host, and when it ends them before a disconnection. */
    if (is_subscription)
        subscribed(event->subscribe.conn_handle,
                   event->subscribe.attr_handle == control_handle ? OTA_CONTROL : OTA_PROGRESS,
                   event->subscribe.cur_notify);
    if (event->type == BLE_GAP_EVENT_DISCONNECT) disconnected(event->disconnect.conn.conn_handle);
    give();
    return 0;
}

esp_err_t otaflash_service_init(void) {
    memset(connections, 0, sizeof connections);
    lock = xSemaphoreCreateMutexStatic(&lock_state);
    int error = ble_gatts_count_cfg(services);
    if (error == 0) error = ble_gatts_add_svcs(services);
    if (error == 0) error = ble_att_set_preferred_mtu(OTAFLASH_LONGEST + 3);
    if (error == 0) error = ble_gap_event_listener_register(&listener, on_event, NULL);
    return error == 0 ? ESP_OK : ESP_FAIL;
}
