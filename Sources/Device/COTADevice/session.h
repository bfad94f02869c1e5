/* Layer 3 of the core (values.h lists the layers): the state, the time, the connections, and their notifications. */
#ifndef OTA_SESSION_H
#define OTA_SESSION_H

#include "image.h"

/* Times in milliseconds. */
enum {
    OTA_REBOOT_DELAY = 2000,   /* from APPLY, or DISCARD of a trial, to the reboot; a disconnection ends the delay */
    OTA_OWNER_SILENCE = 30000, /* after this time without a write by the owner, another connection may take over */
    OTA_NOTIFY_RETRY = 10      /* until the next poll if the stack had no buffer for a notification */
};

enum {
    OTA_SEQUENCE_JUMP = 4096, /* a rewind and a BEGIN add this to the expected sequence, to make late chunks stale */
    OTA_POSITION_SIZE = 10,
    OTA_PROGRESS_SIZE = 12
};

enum ota_reboot { OTA_REBOOT_NONE, OTA_REBOOT_WANTED, OTA_REBOOT_DONE };

enum ota_job {
    OTA_JOB_NONE,
    OTA_JOB_BASE,  /* BEGIN encoded image: compare the base with the running image */
    OTA_JOB_CRC,   /* BEGIN image: compute the CRC of the received bytes */
    OTA_JOB_ERASE, /* BEGIN image: erase all pages of the image */
    OTA_JOB_CHECK, /* FINISH envelope: check the envelope */
    OTA_JOB_HASH   /* FINISH image: compare the image's digest */
};

/* Returns whether the open object, or the object that a job is opening, is an encoded image. */
static inline bool ota_is_encoded(const struct ota_device *device) {
#if OTA_ENCODINGS
    return device->is_encoded;
#else
    (void)device;
    return false;
#endif
}

static inline bool ota_object_is_open(const struct ota_device *device) {
    return device->state == OTA_STATE_ENVELOPE || device->state == OTA_STATE_IMAGE;
}

/* ---- notify.c ---- */

/* Writes the connection's position, OTA_POSITION_SIZE bytes: the expected sequence, the offset and the CRC-32. */
void ota_put_position(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes);
/* Writes the value of Progress, OTA_PROGRESS_SIZE bytes. */
void ota_put_progress(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes);

/* Stores an answer. `ota_send_pending` sends the stored answer. An answer to BEGIN or SYNC with the status OTA_OK
 * contains the position. */
void ota_answer(struct ota_device *device, struct ota_connection *connection, uint8_t opcode, uint8_t tag,
                enum ota_status status);

/* Requests a Progress notification. `ota_send_pending` composes its value, so the value has the newest position. */
void ota_notify_progress(struct ota_connection *connection);

/* Offers all waiting notifications to the stack. If the stack has no buffer for a notification, keeps it. */
void ota_send_pending(struct ota_device *device);
/* Returns whether a notification waits for a buffer of the stack. */
bool ota_is_pending(const struct ota_device *device);

/* ---- state.c ---- */

/* Closes the open object, sets the status in Progress to OTA_OK, and enters the state. */
void ota_enter(struct ota_device *device, enum ota_state state);

/* Ends the owner's transfer after a flash error, or because the encoded image cannot be decoded: the state becomes
 * "accepted", and Progress reports the status. */
void ota_abort_image(struct ota_device *device, enum ota_status status);

/* Returns whether `now` is at or after `when`. The times wrap at 2^32, and must differ by less than 2^31 ms. */
static inline bool ota_is_reached(uint32_t when, uint32_t now) { return now - when <= INT32_MAX; }

/* Starts the job of a request. Later polls do the work (job.c) and then answer the request. */
void ota_job_start(struct ota_device *device, enum ota_job job, uint8_t opcode, uint8_t tag);

/* Applies the time limits that have passed at `now`: marks a silent owner, reduces the wear points, and schedules the
 * reboot at the end of a trial. Each public function that receives a time calls this function first. The only exception
 * is ota_device_start. */
void ota_advance_time(struct ota_device *device, uint32_t now);

/* Schedules a reboot at `when`, or earlier if `leaver` disconnects. `leaver` may be NULL. A reboot during a trial rolls
 * back. */
void ota_schedule_reboot(struct ota_device *device, struct ota_connection *leaver, uint32_t when);

/* ---- connection.c ---- */

/* Returns the connection with this handle, or NULL. */
struct ota_connection *ota_find(struct ota_device *device, uint16_t handle);

/* Restarts the time limit for the owner's silence (OTA_OWNER_SILENCE), if this connection is the owner. */
void ota_note_activity(struct ota_device *device, const struct ota_connection *connection, uint32_t now);

/* Makes the connection the owner of the update, after an accepted BEGIN. Increases the connection's expected sequence
 * by OTA_SEQUENCE_JUMP. */
void ota_claim(struct ota_device *device, struct ota_connection *connection, uint32_t now);

/* Ends the ownership of the update, and the owner's object and job. */
void ota_release(struct ota_device *device);

#endif
