#include "requests.h"

#include <string.h>

static bool hash(const struct ota_device *device, uint32_t count, uint8_t digest[OTA_DIGEST_SIZE]) {
    device->port->hash_start(device->context);
    device->port->hash_update(device->context, device->config->envelope, count);
    return device->port->hash_finish(device->context, digest);
}

/* Returns the index of the key with this id in the configuration, or key_count if the key is not trusted. */
static uint8_t find_key(const struct ota_config *config, const uint8_t *id) {
    uint8_t key = 0;
    while (key < config->key_count && memcmp(config->key_ids + OTA_PREFIX_SIZE * key, id, OTA_PREFIX_SIZE) != 0)
        key++;
    return key;
}

/* Returns whether the signatures by trusted keys are enough if all of them are valid. The algorithm of such a signature
 * must be the algorithm of its key. ota_envelope_parse has checked that no two signatures have the same key. */
static bool can_be_trusted(const struct ota_config *config, const struct ota_envelope *envelope) {
    uint8_t counts[OTA_ALGORITHMS] = {0};
    const uint8_t *entry = envelope->signatures;
    for (uint32_t i = 0; i < envelope->signature_count; i++, entry = ota_signature_next(entry)) {
        uint8_t key = find_key(config, entry + OTA_SIGNATURE_KEY);
        if (key == config->key_count) continue;
        if (entry[0] != ota_key_algorithm(config, key)) return false;
        counts[entry[0]]++;
    }
    return ota_is_enough(config, counts);
}

/* Verifies the next signature by a trusted key, from index `job_offset` - 1 on. Returns OTA_OK if no such signature is
 * left. */
static enum ota_status verify_next(struct ota_device *device, const struct ota_envelope *envelope) {
    const uint8_t *entry = envelope->signatures;
    for (uint32_t i = 0; i < envelope->signature_count; i++, entry = ota_signature_next(entry)) {
        uint8_t key = find_key(device->config, entry + OTA_SIGNATURE_KEY);
        if (i + 1 < device->job_offset || key == device->config->key_count) continue;
        device->job_offset = i + 2;
        bool is_valid = device->port->verify(device->context, key, (enum ota_algorithm)entry[0], device->config->envelope,
                                             envelope->manifest_size, entry + OTA_SIGNATURE_VALUE,
                                             ota_u16(entry + OTA_SIGNATURE_SIZE));
        return is_valid ? OTA_LATER : OTA_UNTRUSTED;
    }
    return OTA_OK;
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

static bool is_intact(const struct ota_device *device) {
    uint8_t digest[OTA_DIGEST_SIZE];
    return hash(device, device->envelope_size, digest) && memcmp(digest, device->object_prefix, OTA_PREFIX_SIZE) == 0;
}

static enum ota_status check_manifest(struct ota_device *device, struct ota_envelope *envelope) {
    const struct ota_config *config = device->config;
    const struct ota_port *port = device->port;
    struct ota_manifest *manifest = &envelope->manifest;
    if (!hash(device, envelope->manifest_size, device->manifest_digest)) return OTA_DIGEST_MISMATCH;
    manifest->digest = device->manifest_digest;
    if (!is_product(config, manifest)) return OTA_WRONG_PRODUCT;
    if (!is_for_hardware(envelope, config->hardware)) return OTA_WRONG_HARDWARE;
    if (manifest->security_counter < device->security_counter) return OTA_TOO_OLD;
    if (port->too_old && port->too_old(device->context, manifest)) return OTA_TOO_OLD;
    if (!is_new_enough(device->version, envelope->required_version)) return OTA_REQUIRES_NEWER;
    if (manifest->image_format == OTA_FORMAT_NORDIC_DFU) return OTA_WRONG_FORMAT;
    if (config->image_format != OTA_FORMAT_ANY && manifest->image_format != config->image_format) return OTA_WRONG_FORMAT;
    if (manifest->image_size > config->largest_image) return OTA_TOO_LARGE;
    if (!has_battery(device, envelope->minimum_battery)) return OTA_BATTERY_LOW;
    if (is_counter_jump(device, manifest->security_counter)) return OTA_REFUSED;
    if (port->permits && !port->permits(device->context, manifest)) return OTA_REFUSED;
    return OTA_OK;
}

enum ota_status ota_check_envelope(struct ota_device *device) {
    struct ota_envelope envelope;
    bool is_first = device->job_offset == 0;
    if (is_first && !is_intact(device)) return OTA_DIGEST_MISMATCH;
    enum ota_status status = ota_envelope_parse(device->config->envelope, device->envelope_size, &envelope);
    if (status != OTA_OK) return status;
    if (is_first) {
        device->job_offset = 1;
        return can_be_trusted(device->config, &envelope) ? OTA_LATER : OTA_UNTRUSTED;
    }
    status = verify_next(device, &envelope);
    return status == OTA_OK ? check_manifest(device, &envelope) : status;
}
