#include "values.h"

#include <string.h>

/* The size of an Ed25519 signature's entry, and the bits of `required_algorithms` that are not an algorithm. */
enum { ED25519_ENTRY = 76, UNKNOWN_ALGORITHMS = 0xE1 };

static uint32_t required(const struct ota_config *config) {
    return config->required_signatures > 1 ? config->required_signatures : 1;
}

bool ota_is_enough(const struct ota_config *config, const uint8_t counts[OTA_ALGORITHMS]) {
    bool is_any_enough = false;
    for (uint32_t algorithm = OTA_ED25519; algorithm < OTA_ALGORITHMS; algorithm++) {
        if (counts[algorithm] >= required(config))
            is_any_enough = true;
        else if (config->required_algorithms & OTA_REQUIRES(algorithm))
            return false;
    }
    return is_any_enough;
}

/* Counts the trusted keys of each algorithm. Returns whether the list of the keys is valid. */
static bool count_keys(const struct ota_config *config, uint8_t counts[OTA_ALGORITHMS]) {
    if (config->key_count < 1 || config->key_count > OTA_KEYS_LARGEST) return false;
    for (uint32_t i = 0; i < config->key_count; i++) {
        uint8_t algorithm = ota_key_algorithm(config, i);
        if (ota_signature_size(algorithm) == 0) return false;
        counts[algorithm]++;
        for (uint32_t k = 0; k < i; k++) {
            const uint8_t *one = config->key_ids + OTA_PREFIX_SIZE * i, *other = config->key_ids + OTA_PREFIX_SIZE * k;
            if (memcmp(one, other, OTA_PREFIX_SIZE) == 0) return false;
        }
    }
    return true;
}

/* Checks that the device can accept a bundle: the keys can fulfil the policy, and the required signatures fit in an
 * envelope. Without required algorithms, it is enough that the shortest signatures fit. */
static enum ota_start_error check_policy(const struct ota_config *config) {
    uint8_t counts[OTA_ALGORITHMS] = {0};
    uint32_t algorithms = config->required_algorithms, signatures = 0, size = OTA_ENVELOPE_SMALLEST - ED25519_ENTRY;
    if (!count_keys(config, counts) || !ota_is_enough(config, counts)) return OTA_START_KEYS;
    for (uint32_t algorithm = OTA_ED25519; algorithm < OTA_ALGORITHMS; algorithm++) {
        if (algorithms == 0 && counts[algorithm] >= required(config)) algorithms = OTA_REQUIRES(algorithm);
        if (!(algorithms & OTA_REQUIRES(algorithm))) continue;
        signatures += required(config);
        size += required(config) * (OTA_SIGNATURE_VALUE + ota_signature_size(algorithm));
    }
    if (signatures > OTA_SIGNATURES_LARGEST || (algorithms & UNKNOWN_ALGORITHMS) != 0) return OTA_START_KEYS;
    bool is_in_range = config->largest_envelope >= size && config->largest_envelope <= OTA_ENVELOPE_LARGEST;
    return is_in_range ? OTA_START_OK : OTA_START_ENVELOPE;
}

static bool pages_are_valid(const struct ota_config *config) {
    if (config->page_size < OTA_PAGE_SMALLEST || config->page_size > OTA_PAGE_LARGEST) return false;
    uint32_t unit = config->write_unit;
    if (unit < 1 || unit > OTA_WRITE_UNIT_LARGEST || (unit & (unit - 1)) != 0 || config->page_size % unit != 0)
        return false;
    if (config->slot_size == 0 || config->slot_size % config->page_size != 0) return false;
    /* A position in the dictionary counts the bytes of the base and then the bytes of the slot, and must fit in 32
     * bits. */
    if (config->base_size > UINT32_MAX - config->slot_size) return false;
    return !config->erase_ahead || config->erase_step >= 1;
}

uint32_t ota_largest_image(const struct ota_config *config) {
    uint32_t slot = config->slot_size, page = config->page_size, unit = config->write_unit, kept = 0;
    if (config->image_format == OTA_FORMAT_MCUBOOT)
        kept = config->trial_seconds > 0 ? OTA_MCUBOOT_TRAILER(page, unit, slot / page) + page : OTA_MCUBOOT_FLAGS(unit);
    return kept < slot ? slot - kept : 0;
}

enum ota_start_error ota_config_check(const struct ota_config *config, uint32_t version[3]) {
    if (!config->product || !config->version || !config->key_ids || !config->envelope) return OTA_START_MISSING;
    if (!ota_is_product((const uint8_t *)config->product, ota_text_size(config->product, OTA_TEXT_LARGEST)))
        return OTA_START_PRODUCT;
    if (!ota_is_version((const uint8_t *)config->version, ota_text_size(config->version, OTA_TEXT_LARGEST), version))
        return OTA_START_VERSION;
    enum ota_start_error policy = check_policy(config);
    if (policy != OTA_START_OK) return policy;
    if (config->image_format > OTA_FORMAT_MCUBOOT && config->image_format != OTA_FORMAT_ANY) return OTA_START_IMAGE_FORMAT;
    if (!pages_are_valid(config)) return OTA_START_PAGES;
    if (config->largest_image < 1 || config->largest_image > ota_largest_image(config))
        return OTA_START_LARGEST_IMAGE;
    if (config->longest_data < 20 || config->longest_data > 512) return OTA_START_LONGEST_DATA;
    if (config->window < 1 || config->window > OTA_SEQUENCE_AHEAD) return OTA_START_WINDOW;
    if (config->restart_seconds < 1 || (config->on_trial && config->trial_seconds < 1)) return OTA_START_TIMES;
    return OTA_START_OK;
}
