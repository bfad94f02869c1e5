#include "session.h"

#include <stddef.h>

void ota_enter(struct ota_device *device, enum ota_state state) {
    device->state = (uint8_t)state;
    device->status = OTA_OK;
    device->object_size = device->object_offset = device->object_crc = 0;
#if OTA_ENCODINGS
    device->is_encoded = false;
#endif
}

void ota_abort_image(struct ota_device *device, enum ota_status status) {
    ota_enter(device, OTA_STATE_ACCEPTED);
    device->status = (uint8_t)status;
    ota_notify_progress(device->owner);
}

void ota_advance_time(struct ota_device *device, uint32_t now) {
    if (device->owner && device->job == OTA_JOB_NONE && ota_is_reached(device->heard_at + OTA_OWNER_SILENCE, now))
        device->owner_silent = true;
    ota_wear_decay(device, now);
    if (device->trial_running && ota_is_reached(device->trial_ends_at, now)) ota_schedule_reboot(device, NULL, now);
}

void ota_schedule_reboot(struct ota_device *device, struct ota_connection *leaver, uint32_t when) {
    device->reboot = OTA_REBOOT_WANTED;
    device->reboot_at = when;
    device->leaver = leaver;
}

void ota_job_start(struct ota_device *device, enum ota_job job, uint8_t opcode, uint8_t tag) {
    device->job = (uint8_t)job;
    device->job_opcode = opcode;
    device->job_tag = tag;
    device->job_offset = 0;
    if (job == OTA_JOB_HASH || job == OTA_JOB_BASE) device->port->hash_start(device->context);
}
