/* The configuration of the core, and the start. */
#include "esp_app_desc.h"
#include "esp_log.h"
#include "esp_ota_ops.h"
#include "esp_system.h"
#include "glue.h"
#include "otaflash.h"
#include "otaflash_keys.h"

static const char tag[] = "otaflash";

static uint8_t envelope[OTA_ENVELOPE_DEFAULT];
#ifdef CONFIG_OTAFLASH_ENCODED
static struct ota_decoder decoder;
#endif

/* The other members are set at the start. */
static struct ota_config config = {
    .key_ids = key_ids,
    .key_count = sizeof key_ids / OTA_PREFIX_SIZE,
    .envelope = envelope,
    .largest_envelope = sizeof envelope,
    .image_format = OTA_FORMAT_ESPRESSIF,
    .hardware = CONFIG_OTAFLASH_HARDWARE,
    .longest_data = OTAFLASH_LONGEST,
    .window = CONFIG_OTAFLASH_WINDOW,
    .restart_seconds = CONFIG_OTAFLASH_RESTART_SECONDS,
    .trial_seconds = CONFIG_OTAFLASH_TRIAL_SECONDS,
    .page_size = OTAFLASH_PAGE,
    .write_unit = OTAFLASH_WRITE_UNIT,
#ifdef CONFIG_OTAFLASH_ENCODED
    .decoder = &decoder,
#endif
    .wear_minutes = CONFIG_OTAFLASH_WEAR_MINUTES,
};

const uint8_t *otaflash_key(uint8_t index) { return public_keys[index]; }

static const esp_partition_t *running;
static esp_ota_img_states_t state;
static const struct otaflash_hooks *application;

/* ESP_OTA_IMG_NEW: the bootloader was built without rollback. Only otaflash and the application can end this trial. */
static bool is_on_trial(void) { return state == ESP_OTA_IMG_PENDING_VERIFY || state == ESP_OTA_IMG_NEW; }
/* The bootloader also starts an image whose trial has failed if it finds no other image. */
static bool has_failed(void) { return state == ESP_OTA_IMG_INVALID || state == ESP_OTA_IMG_ABORTED; }

/* The bootloader refused the image of the newest entry in otadata, and started this one. Before ESP-IDF 6.0, the next APPLY
 * would then replace the entry of the running image, and a failed trial would be permanent. So mark the refused image as
 * invalid, which also restarts. If that fails, the firmware starts nevertheless. */
static void discard_refused_image(void) {
    const esp_partition_t *newest = esp_ota_get_boot_partition();
    if (newest && newest != running) (void)esp_ota_mark_app_invalid_rollback_and_reboot();
}

/* Runs on the update task. */
static esp_err_t start_on_task(void) {
    esp_err_t error = otaflash_port_init(&config, application);
    if (error == ESP_OK) error = otaflash_store_load(&config, running, !config.on_trial && !has_failed());
    if (error == ESP_OK) error = otaflash_queue_start(&config);
    return error;
}

esp_err_t otaflash_start(const struct otaflash_hooks *hooks) {
    running = esp_ota_get_running_partition();
    /* A factory partition, and an image that was written with a cable, have no state. */
    if (esp_ota_get_state_partition(running, &state) != ESP_OK) state = ESP_OTA_IMG_UNDEFINED;
    else discard_refused_image();
    application = hooks;
    config.product = esp_app_get_description()->project_name;
    config.version = esp_app_get_description()->version;
    config.on_trial = is_on_trial();
    if (state == ESP_OTA_IMG_NEW)
        ESP_LOGW(tag, "the bootloader does not roll back: build and write it with CONFIG_BOOTLOADER_APP_ROLLBACK_ENABLE=y");
    if (config.on_trial && hooks && hooks->trial_started) hooks->trial_started();

    esp_err_t error = otaflash_queue_run(start_on_task);
    if (error == ESP_OK) error = otaflash_service_init();
    ESP_LOGI(tag, "project %s, version %s, on trial: %d, counter %u, %s", config.product, config.version, config.on_trial,
             (unsigned)config.security_counter, esp_err_to_name(error));
    /* Without a running core, only this code can end the trial. */
    if (error != ESP_OK && config.on_trial) {
        (void)esp_ota_mark_app_invalid_rollback_and_reboot();
        esp_restart();
    }
    return error;
}
