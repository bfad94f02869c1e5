/* The GATT service. The stack's callbacks only put events into the queue, except for reads. */
#include <string.h>
#include <zephyr/bluetooth/att.h>
#include <zephyr/bluetooth/uuid.h>

#include "glue.h"

#ifdef CONFIG_OTAFLASH_AUTHENTICATED
/* An authenticated key of LE Secure Connections: Just Works is not enough. */
#define WRITE_PERMISSION (BT_GATT_PERM_WRITE_AUTHEN | BT_GATT_PERM_WRITE_LESC)
#else
#define WRITE_PERMISSION BT_GATT_PERM_WRITE
#endif

static enum ota_characteristic characteristic_of(const struct bt_gatt_attr *attribute) {
    return (enum ota_characteristic)(uintptr_t)attribute->user_data;
}

static ssize_t read_value(struct bt_conn *connection, const struct bt_gatt_attr *attribute, void *bytes, uint16_t size,
                          uint16_t offset) {
    if (!otaflash_is_running()) return BT_GATT_ERR(BT_ATT_ERR_UNLIKELY);
    return otaflash_read(bt_conn_index(connection), characteristic_of(attribute), bytes, size, offset);
}

/* The subscriptions that the core knows, by the index of the connection. Only the stack's threads use it. */
static bool known[CONFIG_BT_MAX_CONN][2];

static bool put_subscription(struct bt_conn *connection, enum ota_characteristic characteristic, bool on) {
    struct otaflash_event event = {
        .kind = OTAFLASH_SUBSCRIBED,
        .characteristic = characteristic,
        .connection = bt_conn_index(connection),
        .on = on,
    };
    if (!otaflash_is_running() || !otaflash_queue_put(&event, NULL)) return false;
    known[event.connection][characteristic == OTA_CONTROL ? 0 : 1] = on;
    return true;
}

/* A bonded host does not have to subscribe again: the stack restores its subscriptions without a call of write_ccc, and
 * before the link is encrypted. Returns false if the queue is full. */
static bool put_restored_subscriptions(struct bt_conn *connection) {
    static const enum ota_characteristic both[] = {OTA_CONTROL, OTA_PROGRESS};
    for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
        if (known[bt_conn_index(connection)][i] ||
            !bt_gatt_is_subscribed(connection, otaflash_attribute(both[i]), BT_GATT_CCC_NOTIFY))
            continue;
        if (!put_subscription(connection, both[i], true)) return false;
    }
    return true;
}

static ssize_t write_value(struct bt_conn *connection, const struct bt_gatt_attr *attribute, const void *bytes,
                           uint16_t size, uint16_t offset, uint8_t flags) {
    bool is_control = characteristic_of(attribute) == OTA_CONTROL;
    ARG_UNUSED(flags);
    if (!otaflash_is_running()) return BT_GATT_ERR(BT_ATT_ERR_UNLIKELY);
    if (offset != 0) return BT_GATT_ERR(BT_ATT_ERR_INVALID_OFFSET);
    if (size > OTAFLASH_LONGEST) return BT_GATT_ERR(BT_ATT_ERR_INVALID_ATTRIBUTE_LEN);
    if (is_control && !bt_gatt_is_subscribed(connection, attribute, BT_GATT_CCC_NOTIFY))
        return BT_GATT_ERR(OTA_ATT_NOT_SUBSCRIBED);
    if (is_control && size < 2) return BT_GATT_ERR(OTA_ATT_INVALID_LENGTH);
    if (is_control && !put_restored_subscriptions(connection)) return BT_GATT_ERR(OTA_ATT_INSUFFICIENT_RESOURCES);
    struct otaflash_event event = {
        .kind = is_control ? OTAFLASH_CONTROL : OTAFLASH_DATA, .connection = bt_conn_index(connection), .count = size};
    /* A dropped Data value is no error: the host sends it again. */
    if (!otaflash_queue_put(&event, bytes) && is_control) return BT_GATT_ERR(OTA_ATT_INSUFFICIENT_RESOURCES);
    return size;
}

static ssize_t write_ccc(struct bt_conn *connection, enum ota_characteristic characteristic, uint16_t value) {
    if (!put_subscription(connection, characteristic, value & BT_GATT_CCC_NOTIFY))
        return BT_GATT_ERR(OTA_ATT_INSUFFICIENT_RESOURCES);
    return sizeof value;
}

static ssize_t write_control_ccc(struct bt_conn *connection, const struct bt_gatt_attr *attribute, uint16_t value) {
    ARG_UNUSED(attribute);
    return write_ccc(connection, OTA_CONTROL, value);
}

static ssize_t write_progress_ccc(struct bt_conn *connection, const struct bt_gatt_attr *attribute, uint16_t value) {
    ARG_UNUSED(attribute);
    return write_ccc(connection, OTA_PROGRESS, value);
}

/* BT_GATT_CCC does not report the connection. The managed CCC does. Zephyr 4 renamed its type. */
#ifdef BT_GATT_CCC_MANAGED_USER_DATA_INIT
static struct bt_gatt_ccc_managed_user_data
    control_ccc = BT_GATT_CCC_MANAGED_USER_DATA_INIT(NULL, write_control_ccc, NULL),
    progress_ccc = BT_GATT_CCC_MANAGED_USER_DATA_INIT(NULL, write_progress_ccc, NULL);
#else
static struct _bt_gatt_ccc control_ccc = BT_GATT_CCC_INITIALIZER(NULL, write_control_ccc, NULL),
                           progress_ccc = BT_GATT_CCC_INITIALIZER(NULL, write_progress_ccc, NULL);
#endif

#define UUID(bytes) BT_UUID_DECLARE_128(bytes)

BT_GATT_SERVICE_DEFINE(otaflash_service,
    BT_GATT_PRIMARY_SERVICE(UUID(OTA_UUID128_SERVICE)),
    BT_GATT_CHARACTERISTIC(UUID(OTA_UUID128_INFO), BT_GATT_CHRC_READ, BT_GATT_PERM_READ, read_value, NULL,
                           (void *)OTA_INFO),
    BT_GATT_CHARACTERISTIC(UUID(OTA_UUID128_CONTROL), BT_GATT_CHRC_WRITE | BT_GATT_CHRC_NOTIFY, WRITE_PERMISSION, NULL,
                           write_value, (void *)OTA_CONTROL),
    BT_GATT_CCC_MANAGED(&control_ccc, BT_GATT_PERM_READ | WRITE_PERMISSION),
    BT_GATT_CHARACTERISTIC(UUID(OTA_UUID128_DATA), BT_GATT_CHRC_WRITE_WITHOUT_RESP | BT_GATT_CHRC_WRITE,
                           WRITE_PERMISSION, NULL, write_value, (void *)OTA_DATA),
    BT_GATT_CHARACTERISTIC(UUID(OTA_UUID128_PROGRESS), BT_GATT_CHRC_READ | BT_GATT_CHRC_NOTIFY, BT_GATT_PERM_READ,
                           read_value, NULL, (void *)OTA_PROGRESS),
    BT_GATT_CCC_MANAGED(&progress_ccc, BT_GATT_PERM_READ | BT_GATT_PERM_WRITE),
    BT_GATT_CHARACTERISTIC(UUID(OTA_UUID128_VERSION), BT_GATT_CHRC_READ, BT_GATT_PERM_READ, read_value, NULL,
                           (void *)OTA_VERSION));

const struct bt_gatt_attr *otaflash_attribute(enum ota_characteristic characteristic) {
    /* The values of Control and Progress: a characteristic has two attributes, and a CCC one. */
    return &otaflash_service.attrs[characteristic == OTA_CONTROL ? 4 : 9];
}

static void connected(struct bt_conn *connection, uint8_t error) {
    if (error != 0 || !otaflash_is_running()) return;
    struct otaflash_event event = {
        .kind = OTAFLASH_CONNECTED, .connection = bt_conn_index(connection), .reference = bt_conn_ref(connection)};
    memset(known[event.connection], 0, sizeof known[event.connection]);
    if (!otaflash_queue_put(&event, NULL)) {
        bt_conn_unref(event.reference);
        return;
    }
    (void)put_restored_subscriptions(connection);
}

static void disconnected(struct bt_conn *connection, uint8_t reason) {
    ARG_UNUSED(reason);
    if (!otaflash_is_running()) return;
    struct otaflash_event event = {.kind = OTAFLASH_DISCONNECTED, .connection = bt_conn_index(connection)};
    (void)otaflash_queue_put(&event, NULL);
}

#ifdef CONFIG_BT_SMP
static void security_changed(struct bt_conn *connection, bt_security_t level, enum bt_security_err error) {
    ARG_UNUSED(level);
    if (error == BT_SECURITY_ERR_SUCCESS && otaflash_is_running()) (void)put_restored_subscriptions(connection);
}
#endif

BT_CONN_CB_DEFINE(otaflash_callbacks) = {
    .connected = connected,
    .disconnected = disconnected,
#ifdef CONFIG_BT_SMP
    .security_changed = security_changed,
#endif
};
