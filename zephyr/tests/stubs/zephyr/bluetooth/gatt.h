#ifndef ZEPHYR_BLUETOOTH_GATT_H
#define ZEPHYR_BLUETOOTH_GATT_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <zephyr/bluetooth/conn.h>
#include <zephyr/bluetooth/uuid.h>
struct bt_gatt_attr;
typedef ssize_t (*bt_gatt_attr_read_func_t)(struct bt_conn *conn, const struct bt_gatt_attr *attr, void *buf, uint16_t len,
                                            uint16_t offset);
typedef ssize_t (*bt_gatt_attr_write_func_t)(struct bt_conn *conn, const struct bt_gatt_attr *attr, const void *buf,
                                             uint16_t len, uint16_t offset, uint8_t flags);
struct bt_gatt_attr {
    const struct bt_uuid *uuid;
    bt_gatt_attr_read_func_t read;
    bt_gatt_attr_write_func_t write;
    void *user_data;
    uint16_t handle, perm;
};
#ifdef STUB_ZEPHYR_4
#define STUB_CCC bt_gatt_ccc_managed_user_data
#define BT_GATT_CCC_MANAGED_USER_DATA_INIT(changed, write, match) {write}
#else
#define STUB_CCC _bt_gatt_ccc
#define BT_GATT_CCC_INITIALIZER(changed, write, match) {write}
#endif
struct STUB_CCC {
    ssize_t (*cfg_write)(struct bt_conn *conn, const struct bt_gatt_attr *attr, uint16_t value);
};
#define BT_GATT_CHRC_READ 0x02
#define BT_GATT_CHRC_WRITE_WITHOUT_RESP 0x04
#define BT_GATT_CHRC_WRITE 0x08
#define BT_GATT_CHRC_NOTIFY 0x10
#define BT_GATT_PERM_READ 0x01
#define BT_GATT_PERM_WRITE 0x02
#define BT_GATT_PERM_WRITE_AUTHEN 0x20
#define BT_GATT_PERM_WRITE_LESC 0x100
#define BT_GATT_CCC_NOTIFY 0x0001
#define BT_GATT_ERR(_att_err) (-(_att_err))
#define BT_GATT_PRIMARY_SERVICE(_service) {_service, 0, 0, 0, 0, 1}
#define BT_GATT_CHARACTERISTIC(_uuid, _props, _perm, _read, _write, _user_data) \
    {0, 0, 0, 0, 0, 1}, {_uuid, _read, _write, _user_data, 0, _perm}
#define BT_GATT_CCC_MANAGED(_ccc, _perm) {0, 0, 0, _ccc, 0, _perm}
struct bt_gatt_service_static {
    const struct bt_gatt_attr *attrs;
    size_t attr_count;
};
#define BT_GATT_SERVICE_DEFINE(name, ...) \
    static const struct bt_gatt_attr name##_attrs[] = {__VA_ARGS__}; \
    extern const struct bt_gatt_service_static name; \
    const struct bt_gatt_service_static name = {name##_attrs, sizeof name##_attrs / sizeof name##_attrs[0]}
int bt_gatt_notify(struct bt_conn *conn, const struct bt_gatt_attr *attr, const void *data, uint16_t len);
bool bt_gatt_is_subscribed(struct bt_conn *conn, const struct bt_gatt_attr *attr, uint16_t ccc_type);
#endif
