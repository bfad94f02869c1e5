/* otaflash on ESP-IDF: firmware updates over NimBLE (docs/device-integration.md, "On ESP-IDF"). */
#ifndef OTAFLASH_H
#define OTAFLASH_H

#include "esp_err.h"
#include "ota_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an application can add. Each member may be NULL. The functions run on the update task, except for
 * `trial_started`, and must not wait. */
struct otaflash_hooks {
    /* Called by `otaflash_start` on a trial boot. Start the watchdog here: if the new image hangs, the watchdog must
     * restart the device, and the bootloader then starts the old image. Feed the watchdog from the code that must work,
     * never from a timer. */
    void (*trial_started)(void);
    /* Returns whether the self-test of the new image has passed. Until it has passed, the device answers CONFIRM with
     * "busy". NULL: the test has passed. */
    bool (*self_test_passed)(void);
    /* Returns the battery level in per cent, or OTA_NO_BATTERY. NULL: the device runs on mains power. */
    uint8_t (*battery)(void);
    /* Returns whether the device accepts this release now. False: the device answers "refused". NULL: it accepts each
     * release that passes the other checks. */
    bool (*permits)(const struct ota_manifest *manifest);
    /* Makes the device blink for this number of seconds; 0 stops the blinking. NULL: the device cannot blink. */
    void (*identify)(uint8_t seconds);
};

/*
 * Starts the update task, and adds the GATT service. Call it between `nimble_port_init` and `nimble_port_freertos_init`,
 * after `nvs_flash_init` and the initialization of other services. `hooks` may be NULL, and is copied.
 *
 * Returns ESP_OK; ESP_ERR_NOT_FOUND: a partition is missing or has the wrong size; ESP_ERR_INVALID_STATE: the core
 * refused the configuration; or the error of NVS or NimBLE. The log has the reason. After an error on a trial boot, it
 * does not return: it starts the old image.
 */
esp_err_t otaflash_start(const struct otaflash_hooks *hooks);

#ifdef __cplusplus
}
#endif

#endif
