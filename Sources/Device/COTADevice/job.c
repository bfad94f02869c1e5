#include "requests.h"

#include <string.h>

/* The size of the read buffer on the stack, and the maximum number of bytes to read in one poll. */
enum { BUFFER = 256, STEP = 4096 };

/* Reads the next bytes of the area from `job_offset`, up to `end` and at most STEP bytes, and passes them to `use`.
 * Returns false if the flash failed. */
static bool read_step(struct ota_device *device, enum ota_area area, uint32_t end,
                      void (*use)(struct ota_device *device, const uint8_t *bytes, uint32_t count)) {
    uint8_t bytes[BUFFER];
    uint32_t step = ota_min(device->config->page_size, STEP);
    uint32_t stop = device->job_offset + ota_min(step, end - device->job_offset);
    while (device->job_offset < stop) {
        uint32_t count = ota_min(sizeof bytes, stop - device->job_offset);
        if (!device->port->read(device->context, area, device->job_offset, bytes, count)) return false;
        use(device, bytes, count);
        device->job_offset += count;
    }
    return true;
}

static void sum(struct ota_device *device, const uint8_t *bytes, uint32_t count) {
    device->object_crc = ota_crc32(device->object_crc, bytes, count);
}

static void hash(struct ota_device *device, const uint8_t *bytes, uint32_t count) {
    device->port->hash_update(device->context, bytes, count);
}

/* Ends a BEGIN of an image after a flash error. The contents of the slot are then unknown. Therefore the state becomes
 * "accepted", even if the image was verified before this BEGIN. */
static enum ota_status fail_begin(struct ota_device *device) {
    ota_abort_image(device, OTA_FLASH_FAILED);
    return OTA_FLASH_FAILED;
}

static enum ota_status open_image(struct ota_device *device) {
    device->state = OTA_STATE_IMAGE;
    return OTA_OK;
}

static enum ota_status step_crc(struct ota_device *device) {
    if (!read_step(device, OTA_AREA_SLOT, device->held_flushed, sum)) return fail_begin(device);
    if (device->job_offset < device->held_flushed) return OTA_LATER;
    sum(device, device->page, device->held_offset - device->held_flushed);
    device->object_offset = device->held_offset;
    if (!device->config->erase_ahead) return open_image(device);
    if (device->erased_until < device->held_flushed) device->erased_until = device->held_flushed;
    device->job = OTA_JOB_ERASE;
    return OTA_LATER;
}

static enum ota_status step_erase(struct ota_device *device) {
    for (uint32_t i = 0; i < device->config->erase_step && device->erased_until < device->object_size; i++) {
        if (!ota_image_erase_next(device)) return fail_begin(device);
    }
    return device->erased_until >= device->object_size ? open_image(device) : OTA_LATER;
}

static enum ota_status step_check(struct ota_device *device) {
    enum ota_status status = ota_check_envelope(device);
    if (status == OTA_LATER) return status;
    ota_enter(device, status == OTA_OK ? OTA_STATE_ACCEPTED : OTA_STATE_IDLE);
    return status;
}

static enum ota_status check_image(struct ota_device *device) {
    struct ota_envelope envelope;
    uint8_t digest[OTA_DIGEST_SIZE];
    if (device->port->hash_finish(device->context, digest) &&
        ota_envelope_parse(device->config->envelope, device->envelope_size, &envelope) == OTA_OK &&
        memcmp(digest, envelope.manifest.image_digest, OTA_DIGEST_SIZE) == 0)
        return OTA_OK;
    return OTA_DIGEST_MISMATCH;
}

static enum ota_status step_hash(struct ota_device *device) {
    enum ota_status status = OTA_OK;
    if (!read_step(device, OTA_AREA_SLOT, device->object_size, hash)) {
        status = OTA_FLASH_FAILED;
    } else {
        if (device->job_offset < device->object_size) return OTA_LATER;
        status = check_image(device);
    }
    ota_enter(device, status == OTA_OK ? OTA_STATE_VERIFIED : OTA_STATE_ACCEPTED);
    if (status == OTA_DIGEST_MISMATCH && !ota_image_discard(device)) {
        /* The record in flash could not be changed. So after a reset the device again reports the bytes of the wrong
         * image as received. FINISH then refuses the image again. */
        device->held_offset = device->held_flushed = device->erased_until = 0;
    }
    return status;
}

#if OTA_ENCODINGS
static enum ota_status step_base(struct ota_device *device, uint32_t now) {
    uint8_t digest[OTA_DIGEST_SIZE];
    if (!read_step(device, OTA_AREA_BASE, device->begin_base_size, hash)) return OTA_WRONG_BASE;
    if (device->job_offset < device->begin_base_size) return OTA_LATER;
    if (!device->port->hash_finish(device->context, digest)) return OTA_WRONG_BASE;
    return ota_begin_with_base(device, digest, now);
}
#endif

enum ota_status ota_job_step(struct ota_device *device, uint32_t now) {
    (void)now;
    switch (device->job) {
#if OTA_ENCODINGS
    case OTA_JOB_BASE: return step_base(device, now);
#endif
    case OTA_JOB_CRC: return step_crc(device);
    case OTA_JOB_ERASE: return step_erase(device);
    case OTA_JOB_CHECK: return step_check(device);
    case OTA_JOB_HASH: return step_hash(device);
    default: return OTA_LATER;
    }
}
