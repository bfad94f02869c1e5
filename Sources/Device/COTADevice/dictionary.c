#include "image.h"

#if OTA_ENCODINGS

/*
 * The dictionary of an encoded image. It consists of two parts. The first part is the base: the first bytes of the
 * running image. The second part is the part of the new image that the device has received. The base and the written
 * pages are read from flash. The last page is read from the page buffer.
 */

uint32_t ota_dictionary_size(const struct ota_device *device) {
    return device->config->decoder->base_size + device->held_offset;
}

/* Copies bytes of the dictionary, from position `from` on, to the address `to`. The bytes of the dictionary are in
 * three places: the base, the written pages, and the page buffer. One call copies bytes from only one of these places.
 * `*count` is the wanted number of bytes. Sets `*count` to the number of copied bytes. */
static enum ota_status fetch(struct ota_device *device, uint32_t from, uint8_t *to, uint32_t *count) {
    const struct ota_port *port = device->port;
    uint32_t base_size = device->config->decoder->base_size;
    if (from < base_size) {
        *count = ota_min(*count, base_size - from);
        /* If the base cannot be read, the host can still send the image in another form. The host does this after a
         * second OTA_NOT_DECODED. So do not return OTA_FLASH_FAILED. */
        return port->read(device->context, OTA_AREA_BASE, from, to, *count) ? OTA_OK : OTA_NOT_DECODED;
    }
    from -= base_size;
    if (from < device->held_flushed) {
        *count = ota_min(*count, device->held_flushed - from);
        return port->read(device->context, OTA_AREA_SLOT, from, to, *count) ? OTA_OK : OTA_FLASH_FAILED;
    }
    /* The copied bytes may overlap: a byte that this loop has written can be the source of a later byte. */
    const uint8_t *source = device->page + (from - device->held_flushed);
    for (uint32_t i = 0; i < *count; i++) to[i] = source[i];
    return OTA_OK;
}

enum ota_status ota_dictionary_read(struct ota_device *device, uint32_t distance, uint8_t *byte) {
    uint32_t count = 1;
    return fetch(device, ota_dictionary_size(device) - distance - 1, byte, &count);
}

enum ota_status ota_dictionary_copy(struct ota_device *device, uint32_t distance, uint32_t count) {
    while (count > 0) {
        uint32_t part;
        uint8_t *room = ota_image_room(device, &part);
        part = ota_min(part, count);
        enum ota_status status = fetch(device, ota_dictionary_size(device) - distance - 1, room, &part);
        if (status != OTA_OK) return status;
        if (!ota_image_add(device, part)) return OTA_FLASH_FAILED;
        count -= part;
    }
    return OTA_OK;
}

#endif
