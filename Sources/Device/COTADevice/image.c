#include "image.h"

#include <string.h>

/*
 * The download. The device has received `held_offset` bytes. The first `held_flushed` bytes are in flash: whole pages,
 * or the whole image. The other bytes are in the page buffer.
 *
 * The core erases a page and then writes it. After each page of a small image, or after every few pages of a large
 * image, the core appends a record with the new offset. `held_recorded` is the offset in the newest record. If
 * `held_recorded` is higher than the start of a page, the core appends a record with a lower offset before it erases
 * this page. Therefore a record never counts erased bytes as received.
 */

static bool erase_page(struct ota_device *device, uint32_t offset) {
    bool is_charged = offset == 0 || offset < device->round_end;
    if (is_charged) {
        ota_wear_charge(device, OTA_WEAR_ERASE);
        device->was_charged = true;
    }
    device->round_end = offset + device->config->page_size;
    /* Append the record with the wear points before the erase. If the record followed the erase, a reset between the
     * two would lose the points. */
    uint32_t recorded = ota_min(offset, device->held_recorded);
    if ((is_charged || recorded < device->held_recorded) && !ota_record_append(device, recorded)) return false;
    if (!device->port->erase(device->context, OTA_AREA_SLOT, offset)) return false;
    device->erased_until = offset + device->config->page_size;
    return true;
}

bool ota_image_erase_next(struct ota_device *device) { return erase_page(device, device->erased_until); }

/* Returns whether the core appends a record after the page that ends at `offset`. */
static bool is_recorded_at(const struct ota_device *device, uint32_t offset) {
    uint32_t pages = ota_record_interval(device, device->object_size);
    return offset == device->object_size || offset / device->config->page_size % pages == 0;
}

/* Writes `count` bytes of the page buffer: a whole page, or the last bytes of the image. */
static bool flush(struct ota_device *device, uint32_t count) {
    uint32_t offset = device->held_flushed;
    if (device->erased_until <= offset && !erase_page(device, offset)) return false;
    uint32_t padded = ota_round_up(count, device->config->write_unit);
    memset(device->page + count, 0xFF, padded - count);
    if (!device->port->write(device->context, OTA_AREA_SLOT, offset, device->page, padded)) {
        device->erased_until = offset;
        return false;
    }
    device->held_flushed = offset + count;
    return !is_recorded_at(device, device->held_flushed) || ota_record_append(device, device->held_flushed);
}

uint8_t *ota_image_room(const struct ota_device *device, uint32_t *count) {
    uint32_t buffered = device->held_offset - device->held_flushed;
    *count = device->config->page_size - buffered;
    return device->page + buffered;
}

bool ota_image_add(struct ota_device *device, uint32_t count) {
    device->held_offset += count;
    uint32_t buffered = device->held_offset - device->held_flushed;
    bool is_whole = buffered == device->config->page_size || device->held_offset == device->object_size;
    if (is_whole && !flush(device, buffered)) {
        device->held_offset = device->held_flushed;
        return false;
    }
    return true;
}

bool ota_image_write(struct ota_device *device, const uint8_t *bytes, uint32_t count) {
    while (count > 0) {
        uint32_t part;
        uint8_t *room = ota_image_room(device, &part);
        part = ota_min(part, count);
        memcpy(room, bytes, part);
        if (!ota_image_add(device, part)) return false;
        bytes += part;
        count -= part;
    }
    return true;
}

/* Returns the number of bytes in flash that can be kept for an image of `size` bytes. If the image is complete, these
 * are all bytes. If the image is not complete, these are only whole pages. The recorded offset may be inside a page,
 * because firmware with another page size may have written the record. */
static uint32_t usable(const struct ota_device *device, uint32_t size) {
    if (device->held_flushed == size) return size;
    return ota_round_down(ota_min(device->held_flushed, size), device->config->page_size);
}

uint32_t ota_image_resume(const struct ota_device *device, uint32_t from, uint32_t size) {
    if (memcmp(device->held_digest, device->manifest_digest, OTA_DIGEST_SIZE) != 0) return 0;
    uint32_t flushed = usable(device, size);
    if (flushed != device->held_flushed) return ota_round_down(ota_min(from, flushed), device->config->page_size);
    if (from >= flushed) return ota_min(from, device->held_offset);
    return ota_round_down(from, device->config->page_size);
}

bool ota_image_erases_again(const struct ota_device *device, uint32_t offset, uint32_t size) {
    uint32_t next = offset;
    if (memcmp(device->held_digest, device->manifest_digest, OTA_DIGEST_SIZE) == 0 && offset >= device->held_flushed)
        next = device->erased_until > device->held_flushed ? device->erased_until : device->held_flushed;
    return next < size && (next == 0 || next < device->round_end);
}

bool ota_image_begin(struct ota_device *device, uint32_t offset) {
    if (memcmp(device->held_digest, device->manifest_digest, OTA_DIGEST_SIZE) != 0) {
        if (!ota_image_discard(device)) return false;
        memcpy(device->held_digest, device->manifest_digest, OTA_DIGEST_SIZE);
    }
    if (offset < device->held_flushed) {
        /* The download continues at an offset below the end of the bytes in flash. The pages from this offset on
         * contain old data, so the core must erase these pages again. */
        device->held_flushed = offset;
        device->erased_until = offset;
    }
    device->held_offset = offset;
    return true;
}

bool ota_image_discard(struct ota_device *device) {
    /* Append a record with offset 0 if a record with a higher offset may be in flash. The record of a failed append may
     * be in flash, although `held_recorded` does not have its offset (record.c). So check `held_flushed`, too. */
    if ((device->held_recorded > 0 || device->held_flushed > 0) && !ota_record_append(device, 0)) return false;
    device->held_offset = device->held_flushed = device->erased_until = 0;
    return true;
}
