#include "requests.h"

#include <string.h>

static enum ota_status sync(struct ota_device *device, const struct ota_request *request) {
    if (!ota_object_is_open(device)) return OTA_BAD_STATE;
    if (request->size != 2) return OTA_BAD_ARGUMENT;
    (void)ota_sequence_is_next(request->connection, ota_u16(request->arguments), true);
    return OTA_OK;
}

/* Returns whether the device has received all bytes of the open object. This includes the end of the last chunk of an
 * encoded image. Until then, the image accepts Data, which could end the transfer while FINISH reads the image. */
static bool is_received(const struct ota_device *device) {
#if OTA_ENCODINGS
    if (device->is_encoded) return !ota_decoder_is_open(device);
#endif
    return device->object_offset >= device->object_size;
}

static enum ota_status finish(struct ota_device *device, const struct ota_request *request) {
    if (!ota_object_is_open(device) || !is_received(device)) return OTA_BAD_STATE;
    if (request->size != 0) return OTA_BAD_ARGUMENT;
    enum ota_job job = device->state == OTA_STATE_ENVELOPE ? OTA_JOB_CHECK : OTA_JOB_HASH;
    ota_job_start(device, job, request->opcode, request->tag);
    return OTA_LATER;
}

static enum ota_status apply(struct ota_device *device, const struct ota_request *request) {
    if (device->state != OTA_STATE_VERIFIED) return OTA_BAD_STATE;
    if (request->size != 1 || request->arguments[0] > OTA_BOOT_PERMANENT) return OTA_BAD_ARGUMENT;
    enum ota_boot boot = (enum ota_boot)request->arguments[0];
    bool has_trial = device->config->trial_seconds > 0;
    if (boot == OTA_BOOT_TRIAL && !has_trial) return OTA_BAD_ARGUMENT;
    if (boot == OTA_BOOT_PERMANENT && has_trial && !device->config->permanent_allowed) return OTA_REFUSED;
    /* If `was_charged` is false, the image was received before this boot, and a host could repeat APPLY without a new
     * download. The core accepts this APPLY only if the wear limit still allows one complete update after it. Without
     * this rule, repeated APPLYs of an old image could block the update to a newer image. */
    uint32_t room = device->was_charged ? OTA_WEAR_APPLY : OTA_WEAR_APPLY + OTA_WEAR_ERASE + OTA_WEAR_APPLY;
    if (!ota_wear_allows(device, room)) return OTA_BUSY;
    struct ota_envelope envelope;
    if (ota_envelope_parse(device->config->envelope, device->envelope_size, &envelope) != OTA_OK) return OTA_BAD_STATE;
    envelope.manifest.digest = device->manifest_digest;
    if (!device->port->mark(device->context, boot, &envelope.manifest)) return OTA_FLASH_FAILED;
    ota_wear_charge(device, OTA_WEAR_APPLY);
    /* From now on the bootloader uses the slot. After a trial without CONFIRM, the slot usually contains the downloaded
     * image again. So keep the record of the download, so that a host need not send the image again. If the slot
     * contains other bytes, FINISH detects this by the digest. After a permanent installation, the slot contains
     * another image, so discard the download. In both cases the appended record also stores the wear points. Without
     * the record, they would be lost at the reboot. */
    (void)(boot == OTA_BOOT_PERMANENT ? ota_image_discard(device) : ota_record_append(device, device->held_flushed));
    ota_schedule_reboot(device, request->connection, request->now + OTA_REBOOT_DELAY);
    return OTA_OK;
}

static enum ota_status confirm(struct ota_device *device, const struct ota_request *request) {
    const struct ota_config *config = device->config;
    const struct ota_port *port = device->port;
    if (device->state != OTA_STATE_TRIAL) return OTA_BAD_STATE;
    if (request->size != 0) return OTA_BAD_ARGUMENT;
    if (port->self_test_passed && !port->self_test_passed(device->context)) return OTA_BUSY;
    if (!port->confirm(device->context, config->trial_security_counter, config->running_digest))
        return OTA_FLASH_FAILED;
    if (device->security_counter < config->trial_security_counter)
        device->security_counter = config->trial_security_counter;
    device->trial_running = false;
    ota_enter(device, OTA_STATE_IDLE);
    /* After CONFIRM the downloaded image runs, and the slot for downloads contains the old image. So discard the record
     * of the download. */
    (void)ota_image_discard(device);
    return OTA_OK;
}

static enum ota_status discard(struct ota_device *device, const struct ota_request *request) {
    if (request->size != 0) return OTA_BAD_ARGUMENT;
    if (device->state == OTA_STATE_TRIAL) {
        (void)ota_image_discard(device);
        ota_schedule_reboot(device, request->connection, request->now + OTA_REBOOT_DELAY);
        return OTA_OK;
    }
    if (!ota_image_discard(device)) return OTA_FLASH_FAILED;
    ota_enter(device, OTA_STATE_IDLE);
    return OTA_OK;
}

static enum ota_status identify(const struct ota_device *device, const struct ota_request *request) {
    if (request->size != 1) return OTA_BAD_ARGUMENT;
    if (!device->port->identify) return OTA_UNKNOWN_OPCODE;
    device->port->identify(device->context, request->arguments[0]);
    return OTA_OK;
}

/* Returns whether another connection is the owner of the update. If that owner was silent for too long, ends its
 * ownership and returns false. */
static bool has_other_owner(struct ota_device *device, const struct ota_connection *connection) {
    struct ota_connection *owner = device->owner;
    if (!owner || owner == connection) return false;
    if (!device->owner_silent) return true;
    ota_release(device);
    ota_notify_progress(owner);
    return false;
}

static enum ota_status serve(struct ota_device *device, const struct ota_request *request) {
    if (request->opcode == OTA_IDENTIFY) return identify(device, request);
    if (has_other_owner(device, request->connection) || device->job != OTA_JOB_NONE) return OTA_BUSY;
    if (request->opcode < OTA_BEGIN || request->opcode > OTA_IDENTIFY) return OTA_UNKNOWN_OPCODE;
    if (device->reboot != OTA_REBOOT_NONE) return OTA_BAD_STATE;
    switch (request->opcode) {
    case OTA_BEGIN: return ota_begin(device, request);
    case OTA_SYNC: return sync(device, request);
    case OTA_FINISH: return finish(device, request);
    case OTA_APPLY: return apply(device, request);
    case OTA_CONFIRM: return confirm(device, request);
    default: return discard(device, request);
    }
}

enum ota_att_error ota_device_write_control(struct ota_device *device, uint16_t connection, const uint8_t *bytes,
                                            uint16_t count, uint32_t now) {
    if (device->reboot == OTA_REBOOT_DONE) return OTA_ATT_INSUFFICIENT_RESOURCES;
    ota_advance_time(device, now);
    struct ota_connection *writer = ota_find(device, connection);
    if (!writer) return OTA_ATT_INSUFFICIENT_RESOURCES;
    if (!writer->control_on) return OTA_ATT_NOT_SUBSCRIBED;
    if (count < 2) return OTA_ATT_INVALID_LENGTH;
    ota_send_pending(device);
    if (writer->answer_size > 0) return OTA_ATT_INSUFFICIENT_RESOURCES;
    ota_note_activity(device, writer, now);

    struct ota_request request = {writer, bytes[0], bytes[1], bytes + 2, (uint16_t)(count - 2), now};
    enum ota_status status = serve(device, &request);
    if (status != OTA_LATER) ota_answer(device, writer, request.opcode, request.tag, status);
    ota_send_pending(device);
    return OTA_ATT_OK;
}
