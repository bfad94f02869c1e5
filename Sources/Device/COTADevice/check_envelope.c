#include "requests.h"

#include <string.h>

static bool hash(const struct ota_device *device, uint32_t count, uint8_t digest[OTA_DIGEST_SIZE]) {
    device->port->hash_start(device->context);
    device->port->hash_update(device->context, device->envelope, count);
    return device->port->hash_finish(device->context, digest);
}

/* Returns the index of the key with this id in the configuration, or key_count if the key is not trusted. */
static uint8_t find_key(const struct ota_config *config, const uint8_t *id) {
    uint8_t key = 0;
    while (key < config->key_count && memcmp(config->key_ids + OTA_PREFIX_SIZE * key, id, OTA_PREFIX_SIZE) != 0)
        key++;
    return key;
}

/* Returns true if enough trusted keys have signed the manifest, and no signature by a trusted key is wrong.
 * ota_envelope_parse has checked that no two signatures have the same key. */
static bool is_trusted(const struct ota_device *device, const struct ota_envelope *envelope) {
    uint32_t required = device->config->required_signatures, found = 0;
    for (uint32_t i = 0; i < envelope->signature_count; i++) {
        const uint8_t *entry = envelope->signatures + OTA_SIGNATURE_ENTRY * i;
        uint8_t key = find_key(device->config, entry + OTA_SIGNATURE_KEY);
        if (key == device->config->key_count) continue;
        if (!device->port->verify(device->context, key, device->envelope, envelope->manifest_size,
                                  entry + OTA_SIGNATURE_VALUE))
            return false;
        found++;
    }
    return found >= (required > 1 ? required : 1);
}

static bool is_product(const struct ota_config *config, const struct ota_manifest *manifest) {
    return ota_text_size(config->product, OTA_TEXT_LARGEST) == manifest->product_size &&
           memcmp(config->product, manifest->product, manifest->product_size) == 0;
}

static bool is_for_hardware(const struct ota_envelope *envelope, uint16_t revision) {
    for (uint32_t i = 0; i < envelope->hardware_pairs; i++) {
        const uint8_t *pair = envelope->hardware + 4 * i;
        if (revision >= ota_u16(pair) && revision <= ota_u16(pair + 2)) return true;
    }
    return envelope->hardware_pairs == 0;
}

static bool is_counter_jump(const struct ota_device *device, uint32_t counter) {
    uint32_t largest = device->config->largest_counter_step;
    return largest != 0 && counter - device->security_counter > largest;
}

static bool is_new_enough(const uint32_t running[3], const uint8_t *required_version) {
    for (uint32_t i = 0; required_version && i < 3; i++) {
        uint32_t required = ota_u32(required_version + 4 * i);
        if (running[i] != required) return running[i] > required;
    }
    return true;
}

static bool has_battery(const struct ota_device *device, uint8_t minimum) {
    if (!device->port->battery) return true;
    uint8_t level = device->port->battery(device->context);
    return level == OTA_NO_BATTERY || level >= minimum;
}

enum ota_status ota_check_envelope(struct ota_device *device) {
    const struct ota_config *config = device->config;
    const struct ota_port *port = device->port;
    uint8_t digest[OTA_DIGEST_SIZE];
    if (!hash(device, device->envelope_size, digest) || memcmp(digest, device->object_prefix, OTA_PREFIX_SIZE) != 0)
        return OTA_DIGEST_MISMATCH;

    struct ota_envelope envelope;
    enum ota_status form = ota_envelope_parse(device->envelope, device->envelope_size, &envelope);
    if (form != OTA_OK) return form;
    if (!is_trusted(device, &envelope)) return OTA_UNTRUSTED;

    const struct ota_manifest *manifest = &envelope.manifest;
    if (!hash(device, envelope.manifest_size, device->manifest_digest)) return OTA_DIGEST_MISMATCH;
    envelope.manifest.digest = device->manifest_digest;
    if (!is_product(config, manifest)) return OTA_WRONG_PRODUCT;
    if (!is_for_hardware(&envelope, config->hardware)) return OTA_WRONG_HARDWARE;
    if (manifest->security_counter < device->security_counter) return OTA_TOO_OLD;
    if (port->too_old && port->too_old(device->context, manifest)) return OTA_TOO_OLD;
    if (!is_new_enough(device->version, envelope.required_version)) return OTA_REQUIRES_NEWER;
    if (config->image_format != OTA_FORMAT_ANY && manifest->image_format != config->image_format) return OTA_WRONG_FORMAT;
    if (manifest->image_size > config->largest_image) return OTA_TOO_LARGE;
    if (!has_battery(device, envelope.minimum_battery)) return OTA_BATTERY_LOW;
    if (is_counter_jump(device, manifest->security_counter)) return OTA_REFUSED;
    if (port->permits && !port->permits(device->context, manifest)) return OTA_REFUSED;
    return OTA_OK;
}
