/* Layer 4 of the core (values.h lists the layers): the requests. */
#ifndef OTA_REQUESTS_H
#define OTA_REQUESTS_H

#include "session.h"

/* The result for a request that is not finished. A later poll answers the request. This value is not a status of the
 * profile. */
#define OTA_LATER ((enum ota_status)0xFF)

struct ota_request {
    struct ota_connection *connection;
    uint8_t opcode, tag;
    const uint8_t *arguments;
    uint16_t size; /* the number of bytes of `arguments` */
    uint32_t now;
};

/* ---- check_envelope.c ---- */

/* Does the next step of the check whether this device may install the image that the received envelope describes. A step
 * verifies at most one signature. Returns OTA_LATER, OTA_OK or the reason of the refusal. Sets `manifest_digest`, but only
 * if the envelope is well-formed and trusted. */
enum ota_status ota_check_envelope(struct ota_device *device);

/* ---- begin.c ---- */

/* Handles BEGIN. Returns the status of the answer, or OTA_LATER if a job continues the request. */
enum ota_status ota_begin(struct ota_device *device, const struct ota_request *request);
#if OTA_ENCODINGS
/* Continues the BEGIN of an encoded image. `digest` is the SHA-256 of the first `begin_base_size` bytes of the running
 * image. Returns the status of the request, or OTA_LATER. */
enum ota_status ota_begin_with_base(struct ota_device *device, const uint8_t digest[OTA_DIGEST_SIZE], uint32_t now);
#endif

/* ---- job.c ---- */

/* Does one step of the current job. Returns the status for the answer, or OTA_LATER if the job needs more steps. */
enum ota_status ota_job_step(struct ota_device *device, uint32_t now);

/* ---- data.c ---- */

/* Returns true if `sequence` is the expected sequence and `fits` is true. `fits` states whether the chunk fits in the
 * rest of the object. If earlier chunks are missing, or if the expected chunk does not fit, this function rewinds: it
 * increases the expected sequence by OTA_SEQUENCE_JUMP and requests a Progress notification. If `sequence` is stale,
 * the function only returns false. */
bool ota_sequence_is_next(struct ota_connection *connection, uint16_t sequence, bool fits);

#endif
