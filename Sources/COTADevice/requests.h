/* Layer 4 of the core (values.h lists the layers): the requests. */
#ifndef OTA_REQUESTS_H
#define OTA_REQUESTS_H

#include "session.h"

/* A value that is no status of the profile. It means that the request is not finished, and that a later poll answers
 * it. */
#define OTA_LATER ((enum ota_status)0xFF)

/* ---- check_envelope.c ---- */

/* Checks whether this device may install the received envelope. Sets `manifest_digest`. */
enum ota_status ota_check_envelope(struct ota_device *device);

/* ---- job.c ---- */

/* Starts the job of a request that later polls answer. */
void ota_job_start(struct ota_device *device, enum ota_job job, uint8_t opcode, uint8_t tag);
/* Does one step of the current job. Returns the status for the answer, or OTA_LATER if the job needs more steps. */
enum ota_status ota_job_step(struct ota_device *device);

/* ---- data.c ---- */

/* Returns whether the sequence is the expected one and the chunk fits. If a chunk is missing or does not fit, rewinds
 * the connection. */
bool ota_sequence_is_next(struct ota_connection *connection, uint16_t sequence, bool fits);

#endif
