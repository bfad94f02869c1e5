#ifndef BLE_HS_H
#define BLE_HS_H
#include <stddef.h>
#include <stdint.h>
#define BLE_HS_ENOMEM 6
#define BLE_HS_ENOTCONN 7
#define BLE_HS_CONN_HANDLE_NONE 0xffff

struct os_mbuf {
    uint16_t om_len;
    uint8_t stub_bytes[600];
};
#define OS_MBUF_PKTLEN(om) ((om)->om_len)
int os_mbuf_append(struct os_mbuf *m, const void *data, uint16_t len);
struct os_mbuf *ble_hs_mbuf_from_flat(const void *buf, uint16_t len);
int ble_hs_mbuf_to_flat(const struct os_mbuf *om, void *flat, uint16_t max_len, uint16_t *out_copy_len);

#define BLE_ATT_ERR_INVALID_ATTR_VALUE_LEN 0x0d
#define BLE_ATT_ERR_UNLIKELY 0x0e
#define BLE_ATT_ERR_INSUFFICIENT_RES 0x11
int ble_att_set_preferred_mtu(uint16_t mtu);

typedef struct {
    uint8_t type;
} ble_uuid_t;
typedef struct {
    ble_uuid_t u;
    uint8_t value[16];
} ble_uuid128_t;
#define BLE_UUID128_INIT(uuid128 ...) {.u = {.type = 128}, .value = {uuid128}}

#define BLE_GATT_CHR_F_READ 0x0002
#define BLE_GATT_CHR_F_WRITE_NO_RSP 0x0004
#define BLE_GATT_CHR_F_WRITE 0x0008
#define BLE_GATT_CHR_F_NOTIFY 0x0010
#define BLE_GATT_CHR_F_WRITE_ENC 0x1000
#define BLE_GATT_CHR_F_WRITE_AUTHEN 0x2000
#define BLE_GATT_SVC_TYPE_PRIMARY 1
#define BLE_GATT_ACCESS_OP_READ_CHR 0
#define BLE_GATT_ACCESS_OP_WRITE_CHR 1
struct ble_gatt_access_ctxt {
    uint8_t op;
    struct os_mbuf *om;
};
typedef int ble_gatt_access_fn(uint16_t conn_handle, uint16_t attr_handle, struct ble_gatt_access_ctxt *ctxt, void *arg);
struct ble_gatt_chr_def {
    const ble_uuid_t *uuid;
    ble_gatt_access_fn *access_cb;
    void *arg;
    uint16_t flags;
    uint16_t *val_handle;
};
struct ble_gatt_svc_def {
    uint8_t type;
    const ble_uuid_t *uuid;
    const struct ble_gatt_chr_def *characteristics;
};
int ble_gatts_count_cfg(const struct ble_gatt_svc_def *defs);
int ble_gatts_add_svcs(const struct ble_gatt_svc_def *svcs);
int ble_gatts_notify_custom(uint16_t conn_handle, uint16_t att_handle, struct os_mbuf *om);

#define BLE_GAP_EVENT_CONNECT 0
#define BLE_GAP_EVENT_DISCONNECT 1
#define BLE_GAP_EVENT_NOTIFY_TX 13
#define BLE_GAP_EVENT_SUBSCRIBE 14
#define BLE_GAP_SUBSCRIBE_REASON_WRITE 1
#define BLE_GAP_SUBSCRIBE_REASON_TERM 2
#define BLE_GAP_SUBSCRIBE_REASON_RESTORE 3
#define BLE_GAP_LE_PHY_2M_MASK 0x02
struct ble_gap_conn_desc {
    uint16_t conn_handle;
};
struct ble_gap_event {
    uint8_t type;
    union {
        struct {
            int status;
            uint16_t conn_handle;
        } connect;
        struct {
            int reason;
            struct ble_gap_conn_desc conn;
        } disconnect;
        struct {
            uint16_t conn_handle;
            uint16_t attr_handle;
            uint8_t reason;
            uint8_t prev_notify : 1;
            uint8_t cur_notify : 1;
        } subscribe;
    };
};
typedef int ble_gap_event_fn(struct ble_gap_event *event, void *arg);
struct ble_gap_event_listener {
    ble_gap_event_fn *fn;
    void *arg;
};
struct ble_gap_upd_params {
    uint16_t itvl_min;
    uint16_t itvl_max;
    uint16_t latency;
    uint16_t supervision_timeout;
    uint16_t min_ce_len;
    uint16_t max_ce_len;
};
int ble_gap_event_listener_register(struct ble_gap_event_listener *listener, ble_gap_event_fn *fn, void *arg);
int ble_gap_set_data_len(uint16_t conn_handle, uint16_t tx_octets, uint16_t tx_time);
int ble_gap_set_prefered_le_phy(uint16_t conn_handle, uint8_t tx_phys_mask, uint8_t rx_phys_mask, uint16_t phy_opts);
int ble_gap_update_params(uint16_t conn_handle, const struct ble_gap_upd_params *params);
#endif
