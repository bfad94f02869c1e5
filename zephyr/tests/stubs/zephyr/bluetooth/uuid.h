#ifndef ZEPHYR_BLUETOOTH_UUID_H
#define ZEPHYR_BLUETOOTH_UUID_H
#include <stdint.h>
struct bt_uuid {
    uint8_t type;
    uint8_t bytes[16];
};
#define BT_UUID_DECLARE_128(...) (&(const struct bt_uuid){2, {__VA_ARGS__}})
#endif
