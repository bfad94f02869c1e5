#include <zephyr/bluetooth/bluetooth.h>
#include <zephyr/bluetooth/uuid.h>

#include "ota_profile.h"

#define CONNECTABLE 3u /* BT_LE_ADV_OPT_CONN; in Zephyr 3.5 BT_LE_ADV_OPT_CONNECTABLE | BT_LE_ADV_OPT_ONE_TIME */

static const struct bt_data advertisement[] = {
    BT_DATA_BYTES(BT_DATA_FLAGS, BT_LE_AD_GENERAL | BT_LE_AD_NO_BREDR),
    BT_DATA_BYTES(BT_DATA_UUID128_ALL, OTA_UUID128_SERVICE),
};
static const struct bt_data name =
    BT_DATA(BT_DATA_NAME_COMPLETE, CONFIG_BT_DEVICE_NAME, sizeof CONFIG_BT_DEVICE_NAME - 1);

int main(void) {
    int error = bt_enable(NULL);
    for (; !error; k_sleep(K_SECONDS(1))) /* the stack does not resume advertising after a connection */
        (void)bt_le_adv_start(BT_LE_ADV_PARAM(CONNECTABLE, 160, 240, NULL), advertisement, 2, &name, 1);
    return error;
}
