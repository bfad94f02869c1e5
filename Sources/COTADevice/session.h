/* Layer 3 of the core (values.h lists the layers): the state, the time, the connections, and their notifications. */
#ifndef OTA_SESSION_H
#define OTA_SESSION_H

#include "image.h"

/* Milliseconds. */
enum {
    OTA_REBOOT_DELAY = 2000,   /* from APPLY's answer to the reboot, if the host does not disconnect */
    OTA_OWNER_SILENCE = 30000, /* after this time without a packet, another connection may take over the update */
    OTA_NOTIFY_RETRY = 10      /* until the core offers a notification again, if no other call comes earlier */
};

enum {
    OTA_SEQUENCE_JUMP = 4096, /* a rewind and a BEGIN increase the expected sequence by this */
    OTA_POSITION_SIZE = 10,
    OTA_PROGRESS_SIZE = 12
};

enum ota_reboot { OTA_REBOOT_NONE, OTA_REBOOT_WANTED, OTA_REBOOT_DONE };

enum ota_job {
    OTA_JOB_NONE,
    OTA_JOB_CRC,   /* BEGIN image: compute the CRC of the held bytes */
    OTA_JOB_ERASE, /* BEGIN image: erase all pages of the image */
    OTA_JOB_CHECK, /* FINISH envelope */
    OTA_JOB_HASH   /* FINISH image */
};

static inline bool ota_object_is_open(const struct ota_device *device) {
    return device->state == OTA_STATE_ENVELOPE || device->state == OTA_STATE_IMAGE;
}

/* ---- notify.c ---- */

/* Writes the connection's position, OTA_POSITION_SIZE bytes. */
void ota_put_position(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes);
/* Writes the value of Progress, OTA_PROGRESS_SIZE bytes. */
void ota_put_progress(const struct ota_device *device, const struct ota_connection *connection, uint8_t *bytes);

/* Stores an answer for `ota_send_pending`. An answer to BEGIN or SYNC with the status OTA_OK contains the position. */
void ota_answer(struct ota_device *device, struct ota_connection *connection, uint8_t opcode, uint8_t tag,
                enum ota_status status);

/* Requests a Progress notification. Its value is composed when it is offered to the stack. */
void ota_notify_progress(struct ota_connection *connection);

/* Offers all waiting notifications to the stack. */
void ota_send_pending(struct ota_device *device);
/* Returns whether a notification waits for the stack. */
bool ota_is_pending(const struct ota_device *device);

/* ---- state.c ---- */

/* Closes the open object, and enters the state. */
void ota_enter(struct ota_device *device, enum ota_state state);

/* Ends the owner's transfer after a flash error: the state becomes "accepted", and Progress reports the error. */
void ota_abort_image(struct ota_device *device);

/* Returns whether `now` is at or after `when`. Both times wrap at 2^32. */
static inline bool ota_is_reached(uint32_t when, uint32_t now) { return now - when <= INT32_MAX; }

/* Ends what has reached its time limit by `now`: silent owners, trials and pending reboots. Every public function
 * that receives a time calls this first. */
void ota_advance_time(struct ota_device *device, uint32_t now);

/* Reboots at `when`, or when `leaver` disconnects. A reboot during a trial rolls back. */
void ota_schedule_reboot(struct ota_device *device, struct ota_connection *leaver, uint32_t when);

/* ---- connection.c ---- */

/* Returns the connection with this handle, or NULL. */
struct ota_connection *ota_find(struct ota_device *device, uint16_t handle);

/* Restarts the time limit for the owner's silence, if this connection is the owner. */
void ota_note_activity(struct ota_device *device, const struct ota_connection *connection, uint32_t now);

/* Makes the connection the owner of the update, after an accepted BEGIN. Its expected sequence jumps. */
void ota_claim(struct ota_device *device, struct ota_connection *connection, uint32_t now);

/* Removes the owner, and ends its object and its job. */
void ota_release(struct ota_device *device);

#endif
