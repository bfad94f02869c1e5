/*
 * The records, in NVS: the counter of the permanent image, and one record for each slot with the release in it.
 *
 * The bootloader of ESP-IDF does not move images. So the record of the running slot describes the running image: `mark`
 * writes it before the bootloader's mark, and a later update writes the record of the other slot. A programmer can have
 * written another image into the slot. So the record counts only if the running image has its ELF digest.
 */
#include <string.h>

#include "esp_app_desc.h"
#include "esp_log.h"
#include "esp_ota_ops.h"
#include "glue.h"
#include "nvs.h"

static const char tag[] = "otaflash";

struct image {
    uint8_t elf_digest[32];
    uint8_t digest[OTA_DIGEST_SIZE]; /* of the manifest; the core keeps its address */
    uint32_t counter;
};

static nvs_handle_t nvs;
static uint32_t stored_counter; /* 0: none */
static struct image running_image;

/* The key of a slot's record. Other partitions than ota_0 to ota_15 are never marked. */
struct key {
    char text[8];
};
static struct key key_of(const esp_partition_t *slot) {
    struct key key = {"slot-?"};
    key.text[5] = (char)('a' + (slot->subtype - ESP_PARTITION_SUBTYPE_APP_OTA_MIN));
    return key;
}

bool otaflash_store_counter(uint32_t counter) {
    if (counter <= stored_counter) return true;
    esp_err_t error = nvs_set_u32(nvs, "counter", counter);
    if (error == ESP_OK) error = nvs_commit(nvs);
    if (error != ESP_OK) {
        ESP_LOGE(tag, "the counter was not stored: %s", esp_err_to_name(error));
        return false;
    }
    stored_counter = counter;
    return true;
}

bool otaflash_store_marked(const esp_partition_t *slot, const struct ota_manifest *manifest) {
    struct image image = {.counter = manifest->security_counter};
    esp_app_desc_t description;
    esp_err_t error = esp_ota_get_partition_description(slot, &description);
    if (error == ESP_OK) {
        memcpy(image.elf_digest, description.app_elf_sha256, sizeof image.elf_digest);
        memcpy(image.digest, manifest->digest, sizeof image.digest);
        error = nvs_set_blob(nvs, key_of(slot).text, &image, sizeof image);
    }
    if (error == ESP_OK) error = nvs_commit(nvs);
    if (error != ESP_OK) ESP_LOGE(tag, "the release was not stored: %s", esp_err_to_name(error));
    return error == ESP_OK;
}

/* Loads the record of the running image. Returns false if there is none. */
static bool load_running(const esp_partition_t *running) {
    size_t size = sizeof running_image;
    return nvs_get_blob(nvs, key_of(running).text, &running_image, &size) == ESP_OK && size == sizeof running_image &&
           memcmp(running_image.elf_digest, esp_app_get_description()->app_elf_sha256, sizeof running_image.elf_digest) == 0;
}

esp_err_t otaflash_store_load(struct ota_config *config, const esp_partition_t *running, bool is_permanent) {
    esp_err_t error = nvs_open("otaflash", NVS_READWRITE, &nvs);
    if (error != ESP_OK) return error;
    stored_counter = 0;
    error = nvs_get_u32(nvs, "counter", &stored_counter);
    if (error != ESP_OK && error != ESP_ERR_NVS_NOT_FOUND) return error;

    uint32_t own = CONFIG_OTAFLASH_COUNTER;
    bool has_record = load_running(running);
    config->running_digest = has_record ? running_image.digest : NULL;
    config->trial_security_counter = has_record ? running_image.counter : own;
    config->security_counter = stored_counter;
    if (!is_permanent) return ESP_OK;
    /* Power can have failed after the bootloader's confirmation and before the counter was stored. If the counter cannot
     * be stored now, the core uses it nevertheless. */
    uint32_t counter = config->trial_security_counter > own ? config->trial_security_counter : own;
    if (counter > stored_counter) config->security_counter = counter;
    (void)otaflash_store_counter(counter);
    return ESP_OK;
}
