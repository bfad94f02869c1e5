/* Layer 4 of the core (values.h lists the layers): the requests. */
#ifndef OTA_REQUESTS_H
#define OTA_REQUESTS_H

#include "session.h"

/* The request is not finished, and a later poll answers it. This value is not a status of the profile. */
#define OTA_LATER ((enum ota_status)0xFF)

/* ---- check_envelope.c ---- */

/* Checks whether this device may install the image that the received envelope describes. Sets `manifest_digest`. */
enum ota_status ota_check_envelope(struct ota_device *device);

/* ---- job.c ---- */

/* Starts the job of a request. Later polls do the work and then answer the request. */
void ota_job_start(struct ota_device *device, enum ota_job job, uint8_t opcode, uint8_t tag);
/* Does one step of the current job. Returns the status for the answer, or OTA_LATER if the job needs more steps. */
enum ota_status ota_job_step(struct ota_device *device);

/* ---- data.c ---- */

/* Returns whether `sequence` is the expected one and `fits` is true. `fits` states whether the chunk fits in the rest
 * of the object. If earlier chunks are missing, or the expected chunk does not fit, this function rewinds: it increases
 * the expected sequence by OTA_SEQUENCE_JUMP and requests a Progress notification. It ignores a stale sequence. */
bool ota_sequence_is_next(struct ota_connection *connection, uint16_t sequence, bool fits);

#endif
