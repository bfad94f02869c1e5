#include "image.h"

#if OTA_ENCODINGS

#include <string.h>

/*
 * The chunks of a raw LZMA2 stream. A chunk starts with a control byte:
 *
 *   0x01, 0x02    a copied chunk: u16 plain size - 1, then the plain bytes. 0x01 resets the dictionary.
 *   0x80..0xFF    an LZMA chunk: u16 plain size - 1, u16 encoded size - 1, then the encoded bytes. The lowest 5 bits of
 *                 the control byte are the highest bits of the plain size. From 0xA0 on, the chunk resets the state and
 *                 the probabilities. From 0xC0 on, a byte with the properties precedes the encoded bytes. From 0xE0 on,
 *                 the chunk resets the dictionary.
 *
 * The sizes are big-endian. At a reset of the dictionary, this decoder does not change the dictionary. It only refuses
 * an LZMA chunk without properties after 0x01. The stream ends when the image is complete, so the stream has no end
 * mark (0x00).
 *
 * The length of a symbol is not known in advance. So the decoder begins a symbol only when the bytes of the longest
 * symbol, or the rest of the chunk, are at hand (`at_hand`). It begins a chunk only when the whole header is at hand.
 * Otherwise it carries all bytes at hand over to the next Data value.
 */
enum {
    COPY_AND_RESET = 0x01,
    COPY = 0x02,
    LZMA = 0x80,
    RESET_STATE = 0xA0,
    NEW_PROPERTIES = 0xC0,
    RESET_DICTIONARY = 0xE0
};
enum { COPY_HEADER = 3, LZMA_HEADER = 5, PROPERTIES = 0 };
/* The maximum size of an LZMA chunk in plain bytes. It bounds the time that the device needs for a Data value. */
enum { PLAIN_LARGEST = 16384 };

/* CHUNK_LZMA_START is an LZMA chunk whose range coder has not started, because its first bytes are not at hand yet. */
enum ota_chunk { CHUNK_NONE, CHUNK_COPIED, CHUNK_LZMA_START, CHUNK_LZMA };

typedef char ota_decoder_is_small[sizeof(struct ota_decoder) <= 3700 ? 1 : -1];

static uint32_t carried(const struct ota_decoder *decoder) {
    return (uint32_t)(decoder->carried_size - decoder->carried_used);
}

/* Returns the number of encoded bytes at hand: the bytes carried from earlier Data values, and the unused bytes of the
 * current Data value. */
static uint32_t at_hand(const struct ota_decoder *decoder) { return carried(decoder) + decoder->input_size; }

/* Returns a pointer to the next bytes, and sets `*count` to their number. At least one byte must be at hand. */
static const uint8_t *peek(const struct ota_decoder *decoder, uint32_t *count) {
    bool is_carried = carried(decoder) > 0;
    *count = is_carried ? carried(decoder) : decoder->input_size;
    return is_carried ? decoder->carried + decoder->carried_used : decoder->input;
}

static uint32_t size_minus_1(struct ota_decoder *decoder) {
    uint32_t high = ota_lzma_input(decoder);
    return high << 8 | ota_lzma_input(decoder);
}

static bool begin_copied(struct ota_decoder *decoder, uint8_t control, uint32_t lacking) {
    decoder->needs_properties = decoder->needs_properties || control == COPY_AND_RESET;
    decoder->plain_left = 1 + size_minus_1(decoder);
    decoder->chunk = CHUNK_COPIED;
    return decoder->plain_left <= lacking;
}

static bool begin_lzma(struct ota_decoder *decoder, uint8_t control, uint32_t lacking) {
    decoder->plain_left = 1 + ((control & 0x1Fu) << 16 | size_minus_1(decoder));
    uint32_t encoded_size = 1 + size_minus_1(decoder);
    if (control >= NEW_PROPERTIES) {
        if (ota_lzma_input(decoder) != PROPERTIES) return false;
        decoder->needs_properties = false;
    }
    if (decoder->needs_properties || encoded_size < OTA_LZMA_START) return false;
    if (decoder->plain_left > PLAIN_LARGEST || decoder->plain_left > lacking) return false;
    if (control >= RESET_STATE) ota_lzma_reset(decoder);
    decoder->encoded_left = encoded_size;
    decoder->chunk = CHUNK_LZMA_START;
    return true;
}

static uint32_t header_size(uint8_t control) {
    return control < LZMA ? COPY_HEADER : LZMA_HEADER + (control >= NEW_PROPERTIES);
}

/* Begins the next chunk if its whole header is at hand. If the header is incomplete, sets `*is_waiting` to true. */
static enum ota_status begin_chunk(struct ota_device *device, bool *is_waiting) {
    struct ota_decoder *decoder = device->config->decoder;
    uint32_t count, lacking = device->object_size - device->held_offset;
    uint8_t control = *peek(decoder, &count);
    if (carried(decoder) == 0) {
        /* The control byte is in the current Data value, not in an earlier one. Only one chunk may begin in a Data
         * value. */
        if (decoder->has_begun_chunk) return OTA_NOT_DECODED;
        decoder->has_begun_chunk = true;
    }
    if (lacking == 0 || (control != COPY_AND_RESET && control != COPY && control < LZMA)) return OTA_NOT_DECODED;
    if (at_hand(decoder) < header_size(control)) {
        *is_waiting = true;
        return OTA_OK;
    }
    decoder->encoded_left = header_size(control);
    (void)ota_lzma_input(decoder);
    bool is_valid =
        control < LZMA ? begin_copied(decoder, control, lacking) : begin_lzma(decoder, control, lacking);
    return is_valid ? OTA_OK : OTA_NOT_DECODED;
}

/* Writes the bytes at hand of a copied chunk to the image. */
static enum ota_status step_copied(struct ota_device *device) {
    struct ota_decoder *decoder = device->config->decoder;
    uint32_t count;
    const uint8_t *bytes = peek(decoder, &count);
    count = ota_min(count, decoder->plain_left);
    if (carried(decoder) > 0) {
        decoder->carried_used = (uint8_t)(decoder->carried_used + count);
    } else {
        decoder->input += count;
        decoder->input_size -= count;
    }
    decoder->plain_left -= count;
    if (decoder->plain_left == 0) decoder->chunk = CHUNK_NONE;
    return ota_image_write(device, bytes, count) ? OTA_OK : OTA_FLASH_FAILED;
}

/* Does the next step of an LZMA chunk: starts the range coder, decodes a symbol, or checks the end of the chunk. If the
 * necessary bytes are not at hand, only sets `*is_waiting` to true. */
static enum ota_status step_lzma(struct ota_device *device, bool *is_waiting) {
    struct ota_decoder *decoder = device->config->decoder;
    if (at_hand(decoder) < ota_min(decoder->encoded_left, OTA_LZMA_SYMBOL_LARGEST)) {
        *is_waiting = true;
        return OTA_OK;
    }
    if (decoder->chunk == CHUNK_LZMA_START) {
        decoder->chunk = CHUNK_LZMA;
        return ota_lzma_start(decoder) ? OTA_OK : OTA_NOT_DECODED;
    }
    if (decoder->plain_left > 0) return ota_lzma_symbol(device);
    decoder->chunk = CHUNK_NONE;
    return ota_lzma_ends(decoder) ? OTA_OK : OTA_NOT_DECODED;
}

/* Carries the bytes at hand over to the next Data value. Their number is less than OTA_LZMA_SYMBOL_LARGEST. */
static void carry(struct ota_decoder *decoder) {
    uint8_t count = (uint8_t)carried(decoder);
    memmove(decoder->carried, decoder->carried + decoder->carried_used, count);
    memcpy(decoder->carried + count, decoder->input, decoder->input_size);
    decoder->carried_used = 0;
    decoder->carried_size = (uint8_t)(count + decoder->input_size);
}

void ota_decoder_start(struct ota_device *device, uint32_t base_size) {
    struct ota_decoder *decoder = device->config->decoder;
    decoder->base_size = base_size;
    decoder->chunk = CHUNK_NONE;
    decoder->needs_properties = true;
    decoder->is_short = false;
    decoder->plain_left = decoder->carried_used = decoder->carried_size = 0;
}

bool ota_decoder_is_open(const struct ota_device *device) {
    return device->held_offset < device->object_size || device->config->decoder->chunk != CHUNK_NONE;
}

enum ota_status ota_decoder_write(struct ota_device *device, const uint8_t *bytes, uint32_t count) {
    struct ota_decoder *decoder = device->config->decoder;
    bool is_waiting = false;
    decoder->input = bytes;
    decoder->input_size = count;
    decoder->has_begun_chunk = false;
    while (!is_waiting) {
        enum ota_status status = OTA_OK;
        if (decoder->chunk >= CHUNK_LZMA_START) {
            status = step_lzma(device, &is_waiting);
        } else if (at_hand(decoder) == 0) {
            is_waiting = true;
        } else if (decoder->chunk == CHUNK_COPIED) {
            status = step_copied(device);
        } else {
            status = begin_chunk(device, &is_waiting);
        }
        if (status != OTA_OK) return status;
    }
    carry(decoder);
    return OTA_OK;
}

#endif
