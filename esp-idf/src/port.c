/* The callbacks of the core: partitions, PSA, NimBLE and the bootloader. */
#include <string.h>

#include "esp_log.h"
#include "esp_ota_ops.h"
#include "esp_system.h"
#include "glue.h"
#include "host/ble_hs.h"
#include "ota_ed25519.h"
#include "otaflash.h"
#include "psa/crypto.h"

static const char tag[] = "otaflash";

/* ---- Flash and hash ---- */

static const esp_partition_t *partitions[3]; /* enum ota_area */

static bool read_flash(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count) {
    (void)context;
    return esp_partition_read(partitions[area], offset, bytes, count) == ESP_OK;
}

static bool write_flash(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    (void)context;
    return esp_partition_write(partitions[area], offset, bytes, count) == ESP_OK;
}

static bool erase_flash(void *context, enum ota_area area, uint32_t offset) {
    (void)context;
    return esp_partition_erase_range(partitions[area], offset, OTAFLASH_PAGE) == ESP_OK;
}

static psa_hash_operation_t hash;
static bool hash_is_good;

static void start_hash(void *context) {
    (void)context;
    (void)psa_hash_abort(&hash);
    hash = psa_hash_operation_init();
    hash_is_good = psa_hash_setup(&hash, PSA_ALG_SHA_256) == PSA_SUCCESS;
}

static void update_hash(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    hash_is_good = hash_is_good && psa_hash_update(&hash, bytes, count) == PSA_SUCCESS;
}

static bool finish_hash(void *context, uint8_t digest[OTA_DIGEST_SIZE]) {
    (void)context;
    size_t size = 0;
    return hash_is_good && psa_hash_finish(&hash, digest, OTA_DIGEST_SIZE, &size) == PSA_SUCCESS && size == OTA_DIGEST_SIZE;
}

static bool verify(void *context, uint8_t key, enum ota_algorithm algorithm, const uint8_t *message, uint32_t count,
                   const uint8_t *signature, uint32_t signature_size) {
    (void)context;
    return algorithm == OTA_ED25519 &&
           ota_ed25519_verify(otaflash_key(key), message, count, signature, signature_size);
}

/* ---- Notifications ---- */

enum { MOST = 2 * CONFIG_BT_NIMBLE_MAX_CONNECTIONS };

/* Only the update task uses these variables. One answer and one Progress of each connection. */
static struct {
    uint16_t connection, count;
    enum ota_characteristic characteristic;
    uint8_t bytes[OTA_NOTIFICATION_LARGEST];
} outbox[MOST];
static int outbox_count;
static uint16_t begun_connections[MOST];
static int begun_count;

static bool notify(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count) {
    (void)context;
    for (int i = 0; i < outbox_count; i++) {
        if (outbox[i].connection == connection && outbox[i].characteristic == characteristic) return false;
    }
    if (outbox_count == MOST) return false;
    outbox[outbox_count].connection = connection;
    outbox[outbox_count].characteristic = characteristic;
    outbox[outbox_count].count = count;
    memcpy(outbox[outbox_count].bytes, bytes, count);
    outbox_count++;
    return true;
}

static void begun(void *context, uint16_t connection) {
    (void)context;
    if (begun_count < MOST) begun_connections[begun_count++] = connection;
}

/* Requests full-length packets, 2M PHY, an interval of 15 ms and a supervision timeout of 4 s. */
static void request_speed(uint16_t handle) {
    const struct ble_gap_upd_params parameters = {
        .itvl_min = 12, .itvl_max = 12, .latency = 0, .supervision_timeout = 400};
    int length = ble_gap_set_data_len(handle, 251, 2120);
    int phy = ble_gap_set_prefered_le_phy(handle, BLE_GAP_LE_PHY_2M_MASK, BLE_GAP_LE_PHY_2M_MASK, 0);
    int interval = ble_gap_update_params(handle, &parameters);
    ESP_LOGD(tag, "data length %d, PHY %d, interval %d", length, phy, interval);
}

/* Sends one notification. Returns false if the stack had no buffer. */
static bool send(int index) {
    struct otaflash_connection connection;
    /* The host can have left or unsubscribed since the core made the notification, and NimBLE would send it. */
    if (!otaflash_connection_get(outbox[index].connection, &connection) ||
        !connection.subscribed[otaflash_subscription(outbox[index].characteristic)])
        return true;
    struct os_mbuf *value = ble_hs_mbuf_from_flat(outbox[index].bytes, outbox[index].count);
    if (!value) return false;
    /* NimBLE frees the value in any case. After another error than BLE_HS_ENOMEM, the connection has ended. */
    return ble_gatts_notify_custom(connection.handle, otaflash_attribute(outbox[index].characteristic), value) !=
           BLE_HS_ENOMEM;
}

/* A connection waits if one of its notifications has no buffer: the others must not overtake it. */
static bool waits(uint16_t connection, int kept) {
    for (int i = 0; i < kept; i++) {
        if (outbox[i].connection == connection) return true;
    }
    return false;
}

/* A restart calls the shutdown handlers of the application, which can wait for NimBLE's task. This task can wait for the
 * core's lock. So the core only requests the restart. */
static bool rolls_back, restarts;

static void restart(void) {
    bool invalid = rolls_back, now = restarts;
    rolls_back = restarts = false;
    /* If it returns, it has failed, and the bootloader starts the old image after any reboot. */
    if (invalid) (void)esp_ota_mark_app_invalid_rollback_and_reboot();
    if (now) esp_restart();
}

bool otaflash_port_send(void) {
    int kept = 0;
    for (int i = 0; i < outbox_count; i++) {
        if (waits(outbox[i].connection, kept) || !send(i)) outbox[kept++] = outbox[i];
    }
    outbox_count = kept;
    for (int i = 0; i < begun_count; i++) {
        struct otaflash_connection connection;
        if (otaflash_connection_get(begun_connections[i], &connection)) request_speed(connection.handle);
    }
    begun_count = 0;
    restart();
    return kept == 0;
}

/* ---- Bootloader ---- */

static bool mark(void *context, enum ota_boot boot, const struct ota_manifest *manifest) {
    (void)context;
    /* The core refuses a permanent APPLY, because the configuration does not allow it. */
    if (boot != OTA_BOOT_TRIAL || !otaflash_store_marked(partitions[OTA_AREA_SLOT], manifest)) return false;
    /* Checks the image and, with secure boot, its signature. */
    esp_err_t error = esp_ota_set_boot_partition(partitions[OTA_AREA_SLOT]);
    if (error != ESP_OK) ESP_LOGE(tag, "esp_ota_set_boot_partition: %s", esp_err_to_name(error));
    return error == ESP_OK;
}

static bool confirm(void *context, uint32_t counter, const uint8_t *digest) {
    (void)context;
    (void)digest;
    /* Never raise the counter before the bootloader's mark: without the mark, the old image must stay bootable. */
    return esp_ota_mark_app_valid_cancel_rollback() == ESP_OK && otaflash_store_counter(counter);
}

static void roll_back(void *context) {
    (void)context;
    rolls_back = true;
}

static void reboot(void *context) {
    (void)context;
    restarts = true;
}

/* ---- Hooks ---- */

static struct otaflash_hooks hooks;

static uint8_t battery(void *context) {
    (void)context;
    return hooks.battery();
}

static bool self_test_passed(void *context) {
    (void)context;
    return !hooks.self_test_passed || hooks.self_test_passed();
}

static bool permits(void *context, const struct ota_manifest *manifest) {
    (void)context;
    return !hooks.permits || hooks.permits(manifest);
}

static void identify(void *context, uint8_t seconds) {
    (void)context;
    hooks.identify(seconds);
}

static struct ota_port port = {
    .read = read_flash,
    .write = write_flash,
    .erase = erase_flash,
    .hash_start = start_hash,
    .hash_update = update_hash,
    .hash_finish = finish_hash,
    .verify = verify,
    .notify = notify,
    .mark = mark,
    .confirm = confirm,
    .roll_back = roll_back,
    .reboot = reboot,
    .self_test_passed = self_test_passed,
    .permits = permits,
    .begun = begun,
};

const struct ota_port *otaflash_port(void) { return &port; }

esp_err_t otaflash_port_init(struct ota_config *config, const struct otaflash_hooks *application) {
    const esp_partition_t *running = esp_ota_get_running_partition();
    const esp_partition_t *slot = esp_ota_get_next_update_partition(NULL);
    const esp_partition_t *record =
        esp_partition_find_first(ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_ANY, "otaflash");
    /* Without otadata, the bootloader always starts the same image. */
    bool has_otadata = esp_partition_find_first(ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_DATA_OTA, NULL) != NULL;
    if (!has_otadata || !slot || slot == running || slot->erase_size != OTAFLASH_PAGE) {
        ESP_LOGE(tag, "the partition table needs otadata, and two partitions for the application: ota_0 and ota_1");
        return ESP_ERR_NOT_FOUND;
    }
    /* An erased page of an encrypted partition does not read as 0xFF, and the core searches for erased records. */
    if (!record || record->size != OTA_RECORD_PAGES * OTAFLASH_PAGE || record->encrypted || record->readonly) {
        ESP_LOGE(tag, "the partition table needs this line, without flags: otaflash, data, undefined, , 0x2000,");
        return ESP_ERR_NOT_FOUND;
    }
    partitions[OTA_AREA_SLOT] = slot;
    partitions[OTA_AREA_RECORD] = record;
    partitions[OTA_AREA_BASE] = running;
    config->slot_size = config->largest_image = slot->size;
    config->base_size = config->decoder ? running->size : 0;

    if (application) hooks = *application;
    port.battery = hooks.battery ? battery : NULL;
    port.identify = hooks.identify ? identify : NULL;
    return psa_crypto_init() == PSA_SUCCESS ? ESP_OK : ESP_FAIL;
}
