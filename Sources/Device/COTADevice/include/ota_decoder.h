/*
 * The memory of the decoder for encoded images (docs/ota-profile.md), for ota_device.h.
 *
 * An encoded image is a raw LZMA2 stream with lc = lp = pb = 0. Its dictionary is flash: the running image, followed by
 * the bytes of the new image that the device already holds. Therefore the decoder needs no window in RAM.
 */
#ifndef OTA_DECODER_H
#define OTA_DECODER_H

#include <stdbool.h>
#include <stdint.h>

/* To compile the core without the decoder, define OTA_ENCODINGS as 0 for all files. */
#ifndef OTA_ENCODINGS
#define OTA_ENCODINGS 1
#endif

enum {
    OTA_LZMA_PROBABILITIES = 1775,
    /* The maximum number of encoded bytes of one symbol, including the byte that the range coder may need after it. */
    OTA_LZMA_SYMBOL_LARGEST = 21
};

/* The state of the decoder, at most 3700 bytes. Allocate the structure statically. Do not access its members, and do
 * not move it. The large members are last, as in `struct ota_device`. */
struct ota_decoder {
    uint8_t chunk; /* enum ota_chunk */
    uint8_t state; /* 0..11: the kinds of the last symbols, as in the LZMA specification */
    bool needs_properties;
    bool has_begun_chunk; /* a chunk has begun in this Data value */
    bool is_short;        /* a symbol needed more encoded bytes than its chunk has */

    /* The first `carried_size` bytes of `carried` are encoded bytes that the previous calls did not use. They may be
     * only a part of a symbol or of a chunk header. This call has already used the first `carried_used` of them. */
    uint8_t carried_used, carried_size;

    /* The bytes of the current Data value that the decoder has not used yet. Valid only during the call that decodes
     * the Data value. */
    const uint8_t *input;
    uint32_t input_size;

    uint32_t base_size; /* the number of bytes of the base, the start of the dictionary */

    /* The number of missing bytes of the current chunk: in decoded form, and in encoded form. */
    uint32_t plain_left, encoded_left;
    uint32_t range, code;
    uint32_t distances[4]; /* the distances of the last four matches, minus 1; the newest is first */

    uint8_t carried[OTA_LZMA_SYMBOL_LARGEST];
    uint16_t probabilities[OTA_LZMA_PROBABILITIES];
};

#endif
