#include "requests.h"

#include <string.h>

bool ota_sequence_is_next(struct ota_connection *connection, uint16_t sequence, bool fits) {
    uint16_t ahead = (uint16_t)(sequence - connection->next);
    if (ahead == 0 && fits) return true;
    if (ahead <= OTA_SEQUENCE_AHEAD) {
        connection->next = (uint16_t)(connection->next + OTA_SEQUENCE_JUMP);
        ota_notify_progress(connection);
    }
    return false;
}

/* Returns whether `count` more bytes fit in the rest of the object. The number of encoded bytes of an image is known
 * only when all of them are decoded. So for an encoded image, returns whether the image is still incomplete. */
static bool fits(const struct ota_device *device, uint32_t count) {
#if OTA_ENCODINGS
    if (device->is_encoded) return ota_decoder_is_open(device);
#endif
    return count <= device->object_size - device->object_offset;
}

static enum ota_status store(struct ota_device *device, const uint8_t *bytes, uint32_t count) {
    if (device->state == OTA_STATE_ENVELOPE) {
        memcpy(device->config->envelope + device->object_offset, bytes, count);
        return OTA_OK;
    }
#if OTA_ENCODINGS
    if (device->is_encoded) return ota_decoder_write(device, bytes, count);
#endif
    return ota_image_write(device, bytes, count) ? OTA_OK : OTA_FLASH_FAILED;
}

static void accept_chunk(struct ota_device *device, struct ota_connection *connection, const uint8_t *bytes,
                         uint32_t count) {
    enum ota_status status = store(device, bytes, count);
    if (status != OTA_OK) {
        ota_abort_image(device, status);
        return;
    }
    device->object_offset += count;
    device->object_crc = ota_crc32(device->object_crc, bytes, count);

    connection->next++;
    connection->chunks_unreported++;
    uint32_t cadence = device->config->window / 4;
    if (connection->chunks_unreported >= (cadence > 1 ? cadence : 1)) ota_notify_progress(connection);
}

void ota_device_write_data(struct ota_device *device, uint16_t connection, const uint8_t *bytes, uint16_t count,
                           uint32_t now) {
    if (device->reboot == OTA_REBOOT_DONE) return;
    ota_advance_time(device, now);
    struct ota_connection *writer = ota_find(device, connection);
    if (!writer || writer != device->owner) return;
    ota_note_activity(device, writer, now);
    if (ota_object_is_open(device) && count >= 3 && count <= device->config->longest_data) {
        if (ota_sequence_is_next(writer, ota_u16(bytes), fits(device, count - 2u)))
            accept_chunk(device, writer, bytes + 2, count - 2u);
    }
    ota_send_pending(device);
}
