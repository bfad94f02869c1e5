#include "image.h"

#if OTA_ENCODINGS

#include <string.h>

/*
 * The symbols of LZMA with lc = lp = pb = 0, as in the LZMA specification (lzma-specification.txt of the LZMA SDK). A
 * symbol is a literal or a match. A literal is one byte. A match is a length and a distance in the dictionary. A range
 * decoder decodes each bit with an adaptive probability.
 */

enum { STATES = 12, STATE_MATCH = 7, DISTANCE_STATES = 4, SLOT_BITS = 6, ALIGN_BITS = 4 };
/* If a distance slot is FIRST_MODEL_SLOT or higher, more bits follow the slot. If it is also below END_MODEL_SLOT, each
 * of these bits has a probability. */
enum { FIRST_MODEL_SLOT = 4, END_MODEL_SLOT = 14 };

/* The indexes in a set of probabilities for the length of a match. LENGTH_SIZE is the size of the set. */
enum { CHOICE = 0, CHOICE_2 = 1, LOW = 2, MIDDLE = LOW + 8, HIGH = MIDDLE + 8, LENGTH_SIZE = HIGH + 256 };
enum { LENGTH_SMALLEST = 2 };

/* The index in `probabilities` at which each set of probabilities starts. */
enum {
    IS_MATCH = 0,
    IS_REPEATED = IS_MATCH + STATES,
    IS_NOT_DISTANCE_0 = IS_REPEATED + STATES,
    IS_NOT_DISTANCE_1 = IS_NOT_DISTANCE_0 + STATES,
    IS_NOT_DISTANCE_2 = IS_NOT_DISTANCE_1 + STATES,
    IS_LONG = IS_NOT_DISTANCE_2 + STATES,
    DISTANCE_SLOT = IS_LONG + STATES,
    DISTANCE_BITS = DISTANCE_SLOT + (DISTANCE_STATES << SLOT_BITS),
    DISTANCE_ALIGN = DISTANCE_BITS + 1 + 128 - END_MODEL_SLOT,
    LENGTH = DISTANCE_ALIGN + (1 << ALIGN_BITS),
    REPEATED_LENGTH = LENGTH + LENGTH_SIZE,
    LITERAL = REPEATED_LENGTH + LENGTH_SIZE,
    ALL = LITERAL + 0x300
};
typedef char ota_probabilities_fit[(int)ALL == (int)OTA_LZMA_PROBABILITIES ? 1 : -1];

/* ---- The range decoder ---- */

enum { PROBABILITY_BITS = 11, MOVE_BITS = 5 };
static const uint32_t range_smallest = 1u << 24;

uint8_t ota_lzma_input(struct ota_decoder *decoder) {
    bool is_carried = decoder->carried_used < decoder->carried_size;
    if (decoder->encoded_left == 0 || (!is_carried && decoder->input_size == 0)) {
        decoder->is_short = true;
        return 0;
    }
    decoder->encoded_left--;
    if (is_carried) return decoder->carried[decoder->carried_used++];
    decoder->input_size--;
    return *decoder->input++;
}

static void normalize(struct ota_decoder *decoder) {
    if (decoder->range >= range_smallest) return;
    decoder->range <<= 8;
    decoder->code = decoder->code << 8 | ota_lzma_input(decoder);
}

static uint32_t bit(struct ota_decoder *decoder, uint32_t place) {
    uint16_t *probability = &decoder->probabilities[place];
    normalize(decoder);
    uint32_t bound = (decoder->range >> PROBABILITY_BITS) * *probability;
    if (decoder->code < bound) {
        decoder->range = bound;
        *probability = (uint16_t)(*probability + (((1u << PROBABILITY_BITS) - *probability) >> MOVE_BITS));
        return 0;
    }
    decoder->range -= bound;
    decoder->code -= bound;
    *probability = (uint16_t)(*probability - (*probability >> MOVE_BITS));
    return 1;
}

/* Decodes `count` bits that have no probability. The highest bit is the first. */
static uint32_t direct_bits(struct ota_decoder *decoder, uint32_t count) {
    uint32_t value = 0;
    for (; count > 0; count--) {
        normalize(decoder);
        decoder->range >>= 1;
        bool is_set = decoder->code >= decoder->range;
        if (is_set) decoder->code -= decoder->range;
        value = value << 1 | is_set;
    }
    return value;
}

/* Decodes a number of `bits` bits with a tree of probabilities. The highest bit is the first. */
static uint32_t tree(struct ota_decoder *decoder, uint32_t place, uint32_t bits) {
    uint32_t node = 1;
    for (uint32_t i = 0; i < bits; i++) node = node << 1 | bit(decoder, place + node);
    return node - (1u << bits);
}

/* Like `tree`, but the lowest bit is the first. */
static uint32_t reverse_tree(struct ota_decoder *decoder, uint32_t place, uint32_t bits) {
    uint32_t node = 1, value = 0;
    for (uint32_t i = 0; i < bits; i++) {
        uint32_t next = bit(decoder, place + node);
        node = node << 1 | next;
        value |= next << i;
    }
    return value;
}

/* ---- The symbols ---- */

void ota_lzma_reset(struct ota_decoder *decoder) {
    decoder->state = 0;
    memset(decoder->distances, 0, sizeof decoder->distances);
    for (uint32_t i = 0; i < OTA_LZMA_PROBABILITIES; i++) decoder->probabilities[i] = 1u << (PROBABILITY_BITS - 1);
}

bool ota_lzma_start(struct ota_decoder *decoder) {
    bool is_valid = ota_lzma_input(decoder) == 0;
    decoder->range = UINT32_MAX;
    decoder->code = 0;
    for (uint32_t i = 1; i < OTA_LZMA_START; i++) decoder->code = decoder->code << 8 | ota_lzma_input(decoder);
    return is_valid;
}

bool ota_lzma_ends(struct ota_decoder *decoder) {
    normalize(decoder);
    return !decoder->is_short && decoder->encoded_left == 0 && decoder->code == 0;
}

static uint32_t length(struct ota_decoder *decoder, uint32_t place) {
    if (bit(decoder, place + CHOICE) == 0) return LENGTH_SMALLEST + tree(decoder, place + LOW, 3);
    if (bit(decoder, place + CHOICE_2) == 0) return LENGTH_SMALLEST + 8 + tree(decoder, place + MIDDLE, 3);
    return LENGTH_SMALLEST + 16 + tree(decoder, place + HIGH, 8);
}

static uint32_t distance(struct ota_decoder *decoder, uint32_t match_length) {
    uint32_t set = ota_min(match_length - LENGTH_SMALLEST, DISTANCE_STATES - 1);
    uint32_t slot = tree(decoder, DISTANCE_SLOT + (set << SLOT_BITS), SLOT_BITS);
    if (slot < FIRST_MODEL_SLOT) return slot;
    uint32_t bits = (slot >> 1) - 1, value = (2 | (slot & 1)) << bits;
    if (slot < END_MODEL_SLOT) return value + reverse_tree(decoder, DISTANCE_BITS + value - slot, bits);
    value += direct_bits(decoder, bits - ALIGN_BITS) << ALIGN_BITS;
    return value + reverse_tree(decoder, DISTANCE_ALIGN, ALIGN_BITS);
}

/* Decodes which of the last four distances a match uses, and moves that distance to the front. */
static void repeat_distance(struct ota_decoder *decoder, bool is_distance_0) {
    uint32_t *distances = decoder->distances;
    if (is_distance_0) return;
    uint32_t used = 1;
    if (bit(decoder, IS_NOT_DISTANCE_1 + decoder->state) != 0)
        used = 2 + bit(decoder, IS_NOT_DISTANCE_2 + decoder->state);
    uint32_t repeated = distances[used];
    memmove(distances + 1, distances, used * sizeof *distances);
    distances[0] = repeated;
}

/* Decodes the length and the distance of a match. Returns the length; `distances[0]` is the distance. */
static uint32_t match(struct ota_decoder *decoder) {
    uint8_t state = decoder->state;
    bool is_after_match = state >= STATE_MATCH;
    if (bit(decoder, IS_REPEATED + state) == 0) {
        memmove(decoder->distances + 1, decoder->distances, 3 * sizeof *decoder->distances);
        uint32_t match_length = length(decoder, LENGTH);
        decoder->distances[0] = distance(decoder, match_length);
        decoder->state = is_after_match ? 10 : 7;
        return match_length;
    }
    bool is_distance_0 = bit(decoder, IS_NOT_DISTANCE_0 + state) == 0;
    if (is_distance_0 && bit(decoder, IS_LONG + state) == 0) {
        decoder->state = is_after_match ? 11 : 9;
        return 1;
    }
    repeat_distance(decoder, is_distance_0);
    decoder->state = is_after_match ? 11 : 8;
    return length(decoder, REPEATED_LENGTH);
}

/* Decodes a literal. After a match, the probabilities of the literal depend on `expected`: the byte that would continue
 * the match. */
static uint8_t literal(struct ota_decoder *decoder, uint32_t expected) {
    uint32_t symbol = 1, mask = decoder->state >= STATE_MATCH ? 0x100 : 0;
    while (symbol < 0x100) {
        expected <<= 1;
        uint32_t branch = expected & mask;
        uint32_t next = bit(decoder, LITERAL + mask + branch + symbol);
        symbol = symbol << 1 | next;
        mask &= next != 0 ? branch : ~branch;
    }
    decoder->state = (uint8_t)(decoder->state < 4 ? 0 : decoder->state < 10 ? decoder->state - 3 : decoder->state - 6);
    return (uint8_t)symbol;
}

static enum ota_status literal_symbol(struct ota_device *device) {
    struct ota_decoder *decoder = device->config->decoder;
    uint8_t expected = 0;
    if (decoder->state >= STATE_MATCH) {
        enum ota_status status = ota_dictionary_read(device, decoder->distances[0], &expected);
        if (status != OTA_OK) return status;
    }
    uint8_t byte = literal(decoder, expected);
    if (decoder->is_short) return OTA_NOT_DECODED;
    decoder->plain_left--;
    return ota_image_write(device, &byte, 1) ? OTA_OK : OTA_FLASH_FAILED;
}

enum ota_status ota_lzma_symbol(struct ota_device *device) {
    struct ota_decoder *decoder = device->config->decoder;
    if (bit(decoder, IS_MATCH + decoder->state) == 0) return literal_symbol(device);
    uint32_t count = match(decoder);
    /* LZMA's end mark is a match with the distance 2^32, so this check refuses it, too. */
    if (decoder->is_short || count > decoder->plain_left || decoder->distances[0] >= ota_dictionary_size(device))
        return OTA_NOT_DECODED;
    decoder->plain_left -= count;
    return ota_dictionary_copy(device, decoder->distances[0], count);
}

#endif
