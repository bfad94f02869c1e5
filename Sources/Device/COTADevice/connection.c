#include "session.h"

#include <string.h>

struct ota_connection *ota_find(struct ota_device *device, uint16_t handle) {
    for (uint32_t i = 0; i < OTA_MAX_CONNECTIONS; i++) {
        struct ota_connection *connection = &device->connections[i];
        if (connection->in_use && connection->handle == handle) return connection;
    }
    return NULL;
}

void ota_note_activity(struct ota_device *device, const struct ota_connection *connection, uint32_t now) {
    if (device->owner != connection) return;
    device->heard_at = now;
    device->owner_silent = false;
}

void ota_claim(struct ota_device *device, struct ota_connection *connection, uint32_t now) {
    device->owner = connection;
    ota_note_activity(device, connection, now);
    connection->next = (uint16_t)(connection->next + OTA_SEQUENCE_JUMP);
    connection->progress_due = false;
    connection->chunks_unreported = 0;
    if (!connection->has_begun && device->port->begun) device->port->begun(device->context, connection->handle);
    connection->has_begun = true;
}

void ota_release(struct ota_device *device) {
    device->owner = NULL;
    device->job = OTA_JOB_NONE;
    if (device->state != OTA_STATE_TRIAL) ota_enter(device, OTA_STATE_IDLE);
}

static void end(struct ota_device *device, struct ota_connection *connection, uint32_t now) {
    if (device->owner == connection) ota_release(device);
    if (device->leaver == connection) ota_schedule_reboot(device, NULL, now);
    connection->in_use = false;
}

bool ota_device_connected(struct ota_device *device, uint16_t connection, uint32_t now) {
    if (device->reboot == OTA_REBOOT_DONE) return false;
    ota_advance_time(device, now);
    struct ota_connection *place = ota_find(device, connection);
    if (place) end(device, place, now);
    for (uint32_t i = 0; !place && i < OTA_MAX_CONNECTIONS; i++) {
        if (!device->connections[i].in_use) place = &device->connections[i];
    }
    if (!place) return false;
    memset(place, 0, sizeof *place);
    place->in_use = true;
    place->handle = connection;
    place->info_counter = device->security_counter;
    place->info_held_offset = device->held_offset;
    memcpy(place->info_held_prefix, device->held_digest, OTA_PREFIX_SIZE);
    return true;
}

void ota_device_disconnected(struct ota_device *device, uint16_t connection, uint32_t now) {
    if (device->reboot == OTA_REBOOT_DONE) return;
    ota_advance_time(device, now);
    struct ota_connection *gone = ota_find(device, connection);
    if (gone) end(device, gone, now);
}

void ota_device_subscribed(struct ota_device *device, uint16_t connection, enum ota_characteristic characteristic,
                           bool on, uint32_t now) {
    if (device->reboot == OTA_REBOOT_DONE) return;
    ota_advance_time(device, now);
    struct ota_connection *subscriber = ota_find(device, connection);
    if (!subscriber) return;
    if (characteristic == OTA_CONTROL) {
        subscriber->control_on = on;
        if (!on) subscriber->answer_size = 0;
    } else if (characteristic == OTA_PROGRESS) {
        subscriber->progress_on = on;
        if (!on) subscriber->progress_due = false;
    }
}
