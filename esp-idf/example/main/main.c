#include "host/ble_hs.h"
#include "nimble/nimble_port.h"
#include "nimble/nimble_port_freertos.h"
#include "nvs_flash.h"
#include "otaflash.h"
#include "services/gap/ble_svc_gap.h"
#include "services/gatt/ble_svc_gatt.h"

static int advertise(struct ble_gap_event *event, void *argument) {
    static const uint8_t data[] = {2, 1, 6, 17, 7, OTA_UUID128_SERVICE}, name[] = "\14\11acme-beacon";
    static const struct ble_gap_adv_params connectable = {.conn_mode = BLE_GAP_CONN_MODE_UND, .disc_mode = BLE_GAP_DISC_MODE_GEN};
    if (event && event->type != BLE_GAP_EVENT_CONNECT && event->type != BLE_GAP_EVENT_DISCONNECT) return 0;
    return ble_gap_adv_set_data(data, sizeof data) || ble_gap_adv_rsp_set_data(name, sizeof name - 1) ||
           ble_gap_adv_start(BLE_OWN_ADDR_PUBLIC, NULL, BLE_HS_FOREVER, &connectable, advertise, argument);
}
static void start(void) { (void)advertise(NULL, NULL); }
static void run(void *argument) { nimble_port_run(); }

void app_main(void) {
    ESP_ERROR_CHECK(nvs_flash_init());
    ESP_ERROR_CHECK(nimble_port_init());
    ble_svc_gap_init();
    ble_svc_gatt_init();
    ESP_ERROR_CHECK(ble_svc_gap_device_name_set("acme-beacon"));
    ble_hs_cfg.sync_cb = start;
    ESP_ERROR_CHECK(otaflash_start(NULL));
    nimble_port_freertos_init(run);
}
