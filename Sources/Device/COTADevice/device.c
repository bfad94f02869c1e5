#include "requests.h"

#include <string.h>

/* ota_device.h documents this maximum size, for 4 connections. */
enum { ADDED = (OTA_MAX_CONNECTIONS - 4) * (int)sizeof(struct ota_connection) };
typedef char ota_device_is_small[(int)sizeof(struct ota_device) - ADDED < 640 ? 1 : -1];

static bool is_complete(const struct ota_port *port) {
    return port->read && port->write && port->erase && port->hash_start && port->hash_update && port->hash_finish &&
           port->verify && port->notify && port->mark && port->confirm && port->roll_back && port->reboot;
}

enum ota_start_error ota_device_start(struct ota_device *device, const struct ota_config *config,
                                      const struct ota_port *port, void *context, uint8_t *page, uint32_t now) {
    uint32_t version[3];
    if (!config || !port || !page || !is_complete(port)) return OTA_START_MISSING;
    enum ota_start_error error = ota_config_check(config, version);
    if (error != OTA_START_OK) return error;

    memset(device, 0, sizeof *device);
    device->config = config;
    device->port = port;
    device->context = context;
    device->page = page;
    device->security_counter = config->security_counter;
    /* The core does not know which pages were erased before this boot. Every offset is lower than this value, so the
     * first erase after a boot is charged (wear.c) at every offset. */
    device->round_end = UINT32_MAX;
    memcpy(device->version, version, sizeof version);
    if (config->on_trial) {
        device->state = OTA_STATE_TRIAL;
        device->trial_running = true;
        device->trial_ends_at = now + 1000u * config->trial_seconds;
    }
    bool is_readable = ota_record_load(device);
    /* An APPLY for a trial keeps the record of the download, because the slot may contain the downloaded image again
     * after a trial without CONFIRM. But if the image of the record runs, the slot contains another image. In this case
     * the core does not use the offset in the record. */
    bool is_running =
        config->running_digest && memcmp(device->held_digest, config->running_digest, OTA_DIGEST_SIZE) == 0;
    if (!is_running && !config->on_trial)
        device->held_offset = device->held_flushed = device->held_recorded;
    ota_wear_start(device, now);
    return is_readable ? OTA_START_OK : OTA_START_FLASH;
}

enum ota_state ota_device_state(const struct ota_device *device) { return (enum ota_state)device->state; }

static void reboot(struct ota_device *device) {
    device->reboot = OTA_REBOOT_DONE;
    if (device->state == OTA_STATE_TRIAL) device->port->roll_back(device->context);
    device->port->reboot(device->context);
}

/* Returns the shorter of `wait` and the time until `when`. Returns 0 if `when` has passed. */
static uint32_t wait_for(uint32_t wait, uint32_t when, uint32_t now) {
    return ota_is_reached(when, now) ? 0 : ota_min(wait, when - now);
}

/* The core stores only one answer for each connection. Therefore a job waits until the stack has accepted the last
 * answer to the owner. */
static bool job_can_continue(const struct ota_device *device) {
    return device->job != OTA_JOB_NONE && device->owner->answer_size == 0;
}

static uint32_t next_wait(const struct ota_device *device, uint32_t now) {
    if (job_can_continue(device)) return 0;
    uint32_t wait = ota_is_pending(device) ? OTA_NOTIFY_RETRY : OTA_FOREVER;
    if (device->reboot == OTA_REBOOT_WANTED) wait = wait_for(wait, device->reboot_at, now);
    if (device->trial_running) wait = wait_for(wait, device->trial_ends_at, now);
    if (device->owner && device->job == OTA_JOB_NONE && !device->owner_silent)
        wait = wait_for(wait, device->heard_at + OTA_OWNER_SILENCE, now);
    return wait;
}

static void step_job(struct ota_device *device, uint32_t now) {
    enum ota_status status = ota_job_step(device, now);
    if (status == OTA_LATER) return;
    device->job = OTA_JOB_NONE;
    ota_answer(device, device->owner, device->job_opcode, device->job_tag, status);
    /* The position in the answer to BEGIN counts the bytes of the image. All later positions of an encoded image count
     * the bytes of the stream. After a refused BEGIN, the object that was open before is still open. */
    if (status == OTA_OK && device->job_opcode == OTA_BEGIN && ota_is_encoded(device))
        device->object_offset = device->object_crc = 0;
    /* The host was silent only because it waited for this answer. So restart the time limit for its silence. */
    ota_note_activity(device, device->owner, now);
}

uint32_t ota_device_poll(struct ota_device *device, uint32_t now) {
    if (device->reboot == OTA_REBOOT_DONE) return OTA_FOREVER;
    ota_advance_time(device, now);
    ota_send_pending(device);
    if (device->reboot == OTA_REBOOT_WANTED && ota_is_reached(device->reboot_at, now)) {
        reboot(device);
        return OTA_FOREVER;
    }
    if (job_can_continue(device)) {
        step_job(device, now);
        ota_send_pending(device);
    }
    return next_wait(device, now);
}
