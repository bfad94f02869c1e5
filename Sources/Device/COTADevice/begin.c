#include "requests.h"

#include <string.h>

enum { ENVELOPE = OTA_OBJECT_ENVELOPE, IMAGE = OTA_OBJECT_IMAGE, ENCODED_IMAGE = OTA_OBJECT_ENCODED_IMAGE };

/* The arguments of BEGIN: their length in bytes, and the offsets of the members. The second enum is for an encoded
 * image. */
enum { ARGUMENTS = 17, AT_SIZE = 1, AT_FROM = 5, AT_DIGEST = 9 };
enum { ENCODED_ARGUMENTS = 18, AT_ENCODING = 1, AT_ENCODED_FROM = 2, AT_BASE_SIZE = 6, AT_BASE_DIGEST = 10 };

static enum ota_status begin_envelope(struct ota_device *device, const struct ota_request *request) {
    uint32_t size = ota_u32(request->arguments + AT_SIZE);
    if (size < OTA_ENVELOPE_SMALLEST || size > device->config->largest_envelope) return OTA_BAD_ARGUMENT;
    ota_claim(device, request->connection, request->now);
    ota_enter(device, OTA_STATE_ENVELOPE);
    device->object_size = size;
    device->envelope_size = (uint16_t)size;
    memcpy(device->object_prefix, request->arguments + AT_DIGEST, OTA_PREFIX_SIZE);
    return OTA_OK;
}

/* Begins the download of the accepted image at `from` or at a lower offset. `size` is the size of the image. */
static enum ota_status begin_download(struct ota_device *device, const struct ota_request *request, uint32_t from,
                                      uint32_t size) {
    uint32_t offset = ota_image_resume(device, from, size);
    /* Refuse the download if the wear limit does not allow the erases of the download and the APPLY after it. Without
     * this check, the device could receive an image that it cannot install. */
    if (ota_image_erases_again(device, offset, size) && !ota_wear_allows(device, OTA_WEAR_ERASE + OTA_WEAR_APPLY))
        return OTA_BUSY;
    if (!ota_image_begin(device, offset)) return OTA_FLASH_FAILED;
    ota_claim(device, request->connection, request->now);
    ota_enter(device, OTA_STATE_ACCEPTED);
    device->object_size = size;
    ota_job_start(device, OTA_JOB_CRC, request->opcode, request->tag);
    return OTA_LATER;
}

static enum ota_status begin_image(struct ota_device *device, const struct ota_request *request) {
    struct ota_envelope envelope;
    uint32_t size = ota_u32(request->arguments + AT_SIZE);
    if (ota_envelope_parse(device->config->envelope, device->envelope_size, &envelope) != OTA_OK) return OTA_BAD_STATE;
    if (size != envelope.manifest.image_size ||
        memcmp(request->arguments + AT_DIGEST, envelope.manifest.image_digest, OTA_PREFIX_SIZE) != 0)
        return OTA_BAD_ARGUMENT;
    return begin_download(device, request, ota_u32(request->arguments + AT_FROM), size);
}

#if OTA_ENCODINGS

static enum ota_status begin_stream(struct ota_device *device, const struct ota_request *request) {
    struct ota_envelope envelope;
    if (ota_envelope_parse(device->config->envelope, device->envelope_size, &envelope) != OTA_OK) return OTA_BAD_STATE;
    enum ota_status status = begin_download(device, request, device->begin_from, envelope.manifest.image_size);
    if (status != OTA_LATER) return status;
    device->is_encoded = true;
    ota_decoder_start(device, device->begin_base_size);
    return OTA_LATER;
}

static enum ota_status begin_encoded_image(struct ota_device *device, const struct ota_request *request) {
    static const uint8_t zeros[OTA_PREFIX_SIZE];
    const uint8_t *arguments = request->arguments, *prefix = arguments + AT_BASE_DIGEST;
    uint32_t base_size = ota_u32(arguments + AT_BASE_SIZE);
    if (arguments[AT_ENCODING] != OTA_ENCODING_LZMA2) return OTA_BAD_ARGUMENT;
    if (base_size == 0 && memcmp(prefix, zeros, sizeof zeros) != 0) return OTA_BAD_ARGUMENT;
    if (base_size > device->config->base_size) return OTA_WRONG_BASE;
    device->begin_from = ota_u32(arguments + AT_ENCODED_FROM);
    device->begin_base_size = base_size;
    memcpy(device->begin_base_prefix, prefix, OTA_PREFIX_SIZE);
    bool is_known = base_size == device->base_size && memcmp(prefix, device->base_prefix, OTA_PREFIX_SIZE) == 0;
    if (base_size == 0 || is_known) return begin_stream(device, request);
    ota_job_start(device, OTA_JOB_BASE, request->opcode, request->tag);
    return OTA_LATER;
}

enum ota_status ota_begin_with_base(struct ota_device *device, const uint8_t digest[OTA_DIGEST_SIZE], uint32_t now) {
    struct ota_request request = {device->owner, device->job_opcode, device->job_tag, NULL, 0, now};
    if (memcmp(digest, device->begin_base_prefix, OTA_PREFIX_SIZE) != 0) return OTA_WRONG_BASE;
    device->base_size = device->begin_base_size;
    memcpy(device->base_prefix, device->begin_base_prefix, OTA_PREFIX_SIZE);
    return begin_stream(device, &request);
}

#endif

/* Returns whether the device supports encoded images. A device without this support handles an encoded image like an
 * unknown object. */
static bool has_decoder(const struct ota_device *device) {
#if OTA_ENCODINGS
    return device->config->decoder != NULL;
#else
    (void)device;
    return false;
#endif
}

enum ota_status ota_begin(struct ota_device *device, const struct ota_request *request) {
    if (device->state == OTA_STATE_TRIAL) return OTA_BAD_STATE;
    uint8_t object = request->size > 0 ? request->arguments[0] : 0;
    bool is_encoded = object == ENCODED_IMAGE && has_decoder(device);
    if ((object == IMAGE || is_encoded) && (device->state == OTA_STATE_IDLE || device->state == OTA_STATE_ENVELOPE))
        return OTA_BAD_STATE;
    if (request->size != (is_encoded ? ENCODED_ARGUMENTS : ARGUMENTS)) return OTA_BAD_ARGUMENT;
#if OTA_ENCODINGS
    if (is_encoded) return begin_encoded_image(device, request);
#endif
    if (object == ENVELOPE) return begin_envelope(device, request);
    return object == IMAGE ? begin_image(device, request) : OTA_BAD_ARGUMENT;
}
