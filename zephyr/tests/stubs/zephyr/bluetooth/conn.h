#ifndef ZEPHYR_BLUETOOTH_CONN_H
#define ZEPHYR_BLUETOOTH_CONN_H
#include <stdint.h>
struct bt_conn;
struct bt_conn_le_data_len_param {
    uint16_t tx_max_len, tx_max_time;
};
struct bt_conn_le_phy_param {
    uint16_t options;
    uint8_t pref_tx_phy, pref_rx_phy;
};
struct bt_le_conn_param {
    uint16_t interval_min, interval_max, latency, timeout;
};
#define BT_LE_DATA_LEN_PARAM_MAX (&(const struct bt_conn_le_data_len_param){251, 17040})
#define BT_CONN_LE_PHY_PARAM_2M (&(const struct bt_conn_le_phy_param){0, 2, 2})
#define BT_LE_CONN_PARAM(min, max, latency, timeout) (&(const struct bt_le_conn_param){min, max, latency, timeout})
typedef enum { BT_SECURITY_L0, BT_SECURITY_L1, BT_SECURITY_L2 } bt_security_t;
enum bt_security_err { BT_SECURITY_ERR_SUCCESS, BT_SECURITY_ERR_AUTH_FAIL };
struct bt_conn *bt_conn_ref(struct bt_conn *conn);
void bt_conn_unref(struct bt_conn *conn);
uint8_t bt_conn_index(const struct bt_conn *conn);
int bt_conn_le_data_len_update(struct bt_conn *conn, const struct bt_conn_le_data_len_param *param);
int bt_conn_le_phy_update(struct bt_conn *conn, const struct bt_conn_le_phy_param *param);
int bt_conn_le_param_update(struct bt_conn *conn, const struct bt_le_conn_param *param);
struct bt_conn_cb {
    void (*connected)(struct bt_conn *conn, uint8_t err);
    void (*disconnected)(struct bt_conn *conn, uint8_t reason);
    void (*security_changed)(struct bt_conn *conn, bt_security_t level, enum bt_security_err err);
};
#define BT_CONN_CB_DEFINE(name) extern const struct bt_conn_cb name; const struct bt_conn_cb name
#endif
