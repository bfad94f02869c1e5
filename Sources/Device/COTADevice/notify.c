#include "session.h"

#include <string.h>

void ota_put_position(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes) {
    bool is_open = ota_object_is_open(device);
    ota_put_u16(bytes, connection->next);
    ota_put_u32(bytes + 2, is_open ? device->object_offset : 0);
    ota_put_u32(bytes + 6, is_open ? device->object_crc : 0);
}

void ota_put_progress(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes) {
    bytes[0] = device->state;
    bytes[1] = device->status;
    ota_put_position(device, connection, bytes + 2);
}

void ota_answer(struct ota_device *device, struct ota_connection *connection, uint8_t opcode, uint8_t tag,
                enum ota_status status) {
    if (!connection->control_on) return;
    connection->answer[0] = (uint8_t)(0x80 | opcode);
    connection->answer[1] = tag;
    connection->answer[2] = (uint8_t)status;
    connection->answer_size = 3;
    if (status == OTA_OK && (opcode == OTA_BEGIN || opcode == OTA_SYNC)) {
        ota_put_position(device, connection, connection->answer + 3);
        connection->answer_size += OTA_POSITION_SIZE;
    }
}

void ota_notify_progress(struct ota_connection *connection) {
    connection->progress_due = connection->progress_on;
    connection->chunks_unreported = 0;
}

/* Offers the waiting notifications of a connection to the stack. The answer goes first, because the position in the
 * answer is older than the position in Progress. */
static void offer(struct ota_device *device, struct ota_connection *connection) {
    const struct ota_port *port = device->port;
    uint16_t handle = connection->handle;
    if (connection->answer_size > 0) {
        if (!port->notify(device->context, handle, OTA_CONTROL, connection->answer, connection->answer_size)) return;
        connection->answer_size = 0;
    }
    if (connection->progress_due) {
        uint8_t bytes[OTA_PROGRESS_SIZE];
        ota_put_progress(device, connection, bytes);
        if (!port->notify(device->context, handle, OTA_PROGRESS, bytes, sizeof bytes)) return;
        connection->progress_due = false;
        connection->chunks_unreported = 0;
    }
}

void ota_send_pending(struct ota_device *device) {
    for (uint32_t i = 0; i < OTA_MAX_CONNECTIONS; i++) {
        if (device->connections[i].in_use) offer(device, &device->connections[i]);
    }
}

bool ota_is_pending(const struct ota_device *device) {
    for (uint32_t i = 0; i < OTA_MAX_CONNECTIONS; i++) {
        const struct ota_connection *connection = &device->connections[i];
        if (connection->in_use && (connection->answer_size > 0 || connection->progress_due)) return true;
    }
    return false;
}
