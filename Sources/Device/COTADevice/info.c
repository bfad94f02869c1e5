#include "session.h"

#include <string.h>

/* The types of the items in Info. */
enum {
    INFO_PROTOCOL = 1,
    INFO_PRODUCT = 2,
    INFO_HARDWARE = 3,
    INFO_COUNTER = 4,
    INFO_IMAGE = 5,
    INFO_RECEIVE = 6,
    INFO_TIMES = 7,
    INFO_KEYS = 8,
    INFO_RUNNING = 9,
    INFO_HELD = 10,
    INFO_ENCODINGS = 11,
    INFO_ENVELOPE = 12,
    PROTOCOL_VERSION = 1
};

/* Appends an item, increases `*size`, and returns a pointer to the item's value. The function needs no bounds check,
 * because all items of Info together have at most OTA_INFO_LARGEST bytes. */
static uint8_t *add(uint8_t *info, uint16_t *size, uint8_t type, uint8_t value_size) {
    uint8_t *item = info + *size;
    item[0] = type;
    item[1] = value_size;
    *size = (uint16_t)(*size + 2 + value_size);
    return item + 2;
}

/* Composes the value of Info. A long read has several parts, and a download can make progress between them. All parts
 * must belong to the same value. Therefore numbers that change are stored in `connection` when it begins. */
static uint16_t compose(const struct ota_config *config, const struct ota_connection *connection, uint8_t *info) {
    uint16_t size = 0;
    uint8_t product_size = (uint8_t)ota_text_size(config->product, OTA_TEXT_LARGEST);
    uint8_t keys_size = (uint8_t)(OTA_PREFIX_SIZE * config->key_count);
    *add(info, &size, INFO_PROTOCOL, 1) = PROTOCOL_VERSION;
    memcpy(add(info, &size, INFO_PRODUCT, product_size), config->product, product_size);
    ota_put_u16(add(info, &size, INFO_HARDWARE, 2), config->hardware);
    ota_put_u32(add(info, &size, INFO_COUNTER, 4), connection->info_counter);
    uint8_t *value = add(info, &size, INFO_IMAGE, 5);
    value[0] = config->image_format;
    ota_put_u32(value + 1, config->largest_image);
    value = add(info, &size, INFO_RECEIVE, 4);
    ota_put_u16(value, config->longest_data);
    ota_put_u16(value + 2, config->window);
    value = add(info, &size, INFO_TIMES, 4);
    ota_put_u16(value, config->restart_seconds);
    ota_put_u16(value + 2, config->trial_seconds);
    memcpy(add(info, &size, INFO_KEYS, keys_size), config->key_ids, keys_size);
    if (config->running_digest)
        memcpy(add(info, &size, INFO_RUNNING, OTA_PREFIX_SIZE), config->running_digest, OTA_PREFIX_SIZE);
    if (connection->info_held_offset > 0) {
        value = add(info, &size, INFO_HELD, OTA_PREFIX_SIZE + 4);
        memcpy(value, connection->info_held_prefix, OTA_PREFIX_SIZE);
        ota_put_u32(value + OTA_PREFIX_SIZE, connection->info_held_offset);
    }
#if OTA_ENCODINGS
    if (config->decoder) {
        value = add(info, &size, INFO_ENCODINGS, 5);
        value[0] = OTA_ENCODING_LZMA2;
        ota_put_u32(value + 1, config->base_size);
    }
#endif
    if (config->largest_envelope != OTA_ENVELOPE_DEFAULT)
        ota_put_u16(add(info, &size, INFO_ENVELOPE, 2), config->largest_envelope);
    return size;
}

enum ota_att_error ota_device_read(struct ota_device *device, uint16_t connection,
                                   enum ota_characteristic characteristic, uint16_t offset, uint8_t *bytes,
                                   uint16_t capacity, uint16_t *count) {
    uint8_t value[OTA_INFO_LARGEST];
    uint16_t size = 0;
    *count = 0;
    struct ota_connection *reader = ota_find(device, connection);
    if (!reader || device->reboot == OTA_REBOOT_DONE) return OTA_ATT_INSUFFICIENT_RESOURCES;
    switch (characteristic) {
    case OTA_INFO: size = compose(device->config, reader, value); break;
    case OTA_PROGRESS:
        ota_put_progress(device, reader, value);
        size = OTA_PROGRESS_SIZE;
        break;
    case OTA_VERSION:
        size = (uint16_t)ota_text_size(device->config->version, OTA_TEXT_LARGEST);
        memcpy(value, device->config->version, size);
        break;
    case OTA_CONTROL:
    case OTA_DATA:
    default: return OTA_ATT_READ_NOT_PERMITTED;
    }
    if (offset > size) return OTA_ATT_INVALID_OFFSET;
    *count = (uint16_t)ota_min(capacity, size - (uint32_t)offset);
    memcpy(bytes, value + offset, *count);
    return OTA_ATT_OK;
}
