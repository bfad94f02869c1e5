#include "values.h"

#include <string.h>

enum { FORMAT_VERSION = 2, HEADER_SIZE = 64, MANIFEST_LARGEST = 1024, CRITICAL = 0x8000 };
enum { UNKNOWN_SIGNATURE_LARGEST = 8000 };

enum field_type {
    FIELD_VERSION = 0x0002,
    FIELD_MINIMUM_BATTERY = 0x0004,
    FIELD_SOURCE = 0x0006,
    FIELD_PRODUCT = 0x8001,
    FIELD_HARDWARE = 0x8003,
    FIELD_REQUIRES = 0x8005
};

static bool is_zero(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] != 0) return false;
    }
    return true;
}

static bool parse_header(const uint8_t *bytes, uint32_t size, struct ota_envelope *envelope) {
    static const uint8_t magic[4] = {'O', 'T', 'A', 'F'};
    static const uint64_t latest = 253402300799; /* the last second of the year 9999 */
    struct ota_manifest *manifest = &envelope->manifest;
    if (size < HEADER_SIZE || memcmp(bytes, magic, sizeof magic) != 0 || bytes[4] != FORMAT_VERSION) return false;
    manifest->image_format = bytes[5];
    envelope->manifest_size = ota_u16(bytes + 6);
    manifest->image_size = ota_u32(bytes + 8);
    manifest->security_counter = ota_u32(bytes + 16);
    manifest->created = ota_u64(bytes + 24);
    manifest->image_digest = bytes + 32;
    return manifest->image_format <= OTA_FORMAT_NORDIC_DFU && envelope->manifest_size >= HEADER_SIZE &&
           envelope->manifest_size <= MANIFEST_LARGEST && envelope->manifest_size <= size && manifest->image_size > 0 &&
           is_zero(bytes + 12, 4) && is_zero(bytes + 20, 4) && manifest->created <= latest;
}

/* Parses the list of hardware revisions: pairs of the lowest and the highest revision, both inclusive. The pairs are in
 * ascending order, with at least one revision between two pairs. */
static bool parse_hardware(const uint8_t *value, uint32_t size, struct ota_envelope *envelope) {
    if (size < 4 || size > 64 || size % 4 != 0) return false;
    uint32_t free_from = 0;
    for (uint32_t i = 0; i < size; i += 4) {
        uint32_t lowest = ota_u16(value + i), highest = ota_u16(value + i + 2);
        if (lowest > highest || lowest < free_from) return false;
        free_from = highest + 2;
    }
    envelope->hardware = value;
    envelope->hardware_pairs = (uint8_t)(size / 4);
    return true;
}

static enum ota_status parse_field(uint32_t type, const uint8_t *value, uint32_t size, struct ota_envelope *envelope) {
    struct ota_manifest *manifest = &envelope->manifest;
    uint32_t numbers[3];
    bool is_valid = true;
    switch (type) {
    case FIELD_VERSION:
        is_valid = ota_is_version(value, size, numbers);
        manifest->version = (const char *)value;
        manifest->version_size = (uint8_t)size;
        break;
    case FIELD_MINIMUM_BATTERY:
        is_valid = size == 1 && value[0] <= 100;
        if (is_valid) envelope->minimum_battery = value[0];
        break;
    case FIELD_SOURCE:
        is_valid = ota_is_source(value, size);
        manifest->source = (const char *)value;
        manifest->source_size = (uint8_t)size;
        break;
    case FIELD_PRODUCT:
        is_valid = ota_is_product(value, size);
        manifest->product = (const char *)value;
        manifest->product_size = (uint8_t)size;
        break;
    case FIELD_HARDWARE: is_valid = parse_hardware(value, size, envelope); break;
    case FIELD_REQUIRES:
        is_valid = size == 12;
        envelope->required_version = value;
        break;
    default: return type & CRITICAL ? OTA_UNKNOWN_CRITICAL : OTA_OK;
    }
    return is_valid ? OTA_OK : OTA_MALFORMED;
}

/* Parses the fields of the manifest. Continues after an unknown critical field: if a later field is malformed, the
 * result must be OTA_MALFORMED and not OTA_UNKNOWN_CRITICAL. */
static enum ota_status parse_fields(const uint8_t *bytes, struct ota_envelope *envelope) {
    enum ota_status status = OTA_OK;
    uint32_t end = envelope->manifest_size, smallest = 0;
    for (uint32_t at = HEADER_SIZE; at < end;) {
        if (end - at < 4) return OTA_MALFORMED;
        uint32_t type = ota_u16(bytes + at), size = ota_u16(bytes + at + 2);
        at += 4;
        if (type < smallest || size > end - at) return OTA_MALFORMED;
        enum ota_status field = parse_field(type, bytes + at, size, envelope);
        if (field == OTA_MALFORMED) return field;
        if (field != OTA_OK) status = field;
        smallest = type + 1;
        at += size;
    }
    return envelope->manifest.version && envelope->manifest.product ? status : OTA_MALFORMED;
}

uint32_t ota_signature_size(uint32_t algorithm) {
    static const uint16_t sizes[] = {0, 64, 2420, 3309, 4627};
    return algorithm < sizeof sizes / sizeof sizes[0] ? sizes[algorithm] : 0;
}

/* A signature of an unknown algorithm is skipped, like a signature by an unknown key. */
static bool is_signature_size(uint32_t algorithm, uint32_t size) {
    uint32_t expected = ota_signature_size(algorithm);
    return expected ? size == expected : size >= 1 && size <= UNKNOWN_SIGNATURE_LARGEST;
}

static bool parse_signatures(const uint8_t *bytes, uint32_t size, struct ota_envelope *envelope) {
    if (size < 4 || bytes[0] < 1 || bytes[0] > OTA_SIGNATURES_LARGEST || !is_zero(bytes + 1, 3)) return false;
    envelope->signature_count = bytes[0];
    envelope->signatures = bytes + 4;
    const uint8_t *entry = bytes + 4, *end = bytes + size, *last = NULL;
    for (uint32_t i = 0; i < envelope->signature_count; i++) {
        if (end - entry < OTA_SIGNATURE_VALUE || entry[1] != 0) return false;
        uint32_t signature_size = ota_u16(entry + OTA_SIGNATURE_SIZE);
        if (!is_signature_size(entry[0], signature_size)) return false;
        if (signature_size > (uint32_t)(end - entry) - OTA_SIGNATURE_VALUE) return false;
        if (last && memcmp(last + OTA_SIGNATURE_KEY, entry + OTA_SIGNATURE_KEY, OTA_PREFIX_SIZE) >= 0) return false;
        last = entry;
        entry = ota_signature_next(entry);
    }
    return entry == end;
}

enum ota_status ota_envelope_parse(const uint8_t *bytes, uint32_t size, struct ota_envelope *envelope) {
    memset(envelope, 0, sizeof *envelope);
    if (!parse_header(bytes, size, envelope)) return OTA_MALFORMED;
    uint32_t manifest_size = envelope->manifest_size;
    if (!parse_signatures(bytes + manifest_size, size - manifest_size, envelope)) return OTA_MALFORMED;
    return parse_fields(bytes, envelope);
}
