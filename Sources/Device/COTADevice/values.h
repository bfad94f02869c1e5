/*
 * Layer 1 of the core: functions that use only their arguments. They do not use `struct ota_device`.
 *
 * The list shows the layers and their files, from the lowest layer to the highest. Each header includes only the layer
 * below it. A function calls only functions of its own file, and of files that are earlier in the list. `scripts/lint`
 * checks that the calls between the files form no circle.
 *
 *   1 values.h    crc32.c, text.c, config.c (checks a configuration), envelope.c (parses an envelope)
 *   2 image.h     record.c (the download's offset across a power cut), wear.c (limits the erases), image.c (the slot),
 *                 dictionary.c, lzma.c, decoder.c (encoded images)
 *   3 session.h   notify.c (answers and Progress), state.c (states, time, reboot), connection.c (connections, owner)
 *   4 requests.h  check_envelope.c (accepts or refuses an envelope), begin.c (opens an object), job.c (requests that
 *                 take several polls), data.c (sequences and chunks), control.c (requests)
 *   5             info.c (the readable values), device.c (start and poll)
 */
#ifndef OTA_VALUES_H
#define OTA_VALUES_H

#include "ota_device.h"

/* A sequence that is ahead of the expected one by more than this number (modulo 2^16) is stale: its chunk was sent
 * before a rewind or a BEGIN. Therefore a window must not be larger than this number. */
enum { OTA_SEQUENCE_AHEAD = 2047 };

/* ---- Numbers, little-endian ---- */

static inline uint16_t ota_u16(const uint8_t *bytes) { return (uint16_t)(bytes[0] | (uint16_t)(bytes[1] << 8)); }

static inline uint32_t ota_u32(const uint8_t *bytes) { return ota_u16(bytes) | (uint32_t)ota_u16(bytes + 2) << 16; }

static inline uint64_t ota_u64(const uint8_t *bytes) { return ota_u32(bytes) | (uint64_t)ota_u32(bytes + 4) << 32; }

static inline void ota_put_u16(uint8_t *bytes, uint16_t value) {
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

static inline void ota_put_u32(uint8_t *bytes, uint32_t value) {
    ota_put_u16(bytes, (uint16_t)value);
    ota_put_u16(bytes + 2, (uint16_t)(value >> 16));
}

static inline uint32_t ota_min(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Rounds up or down to a multiple of `unit`. */
static inline uint32_t ota_round_up(uint32_t value, uint32_t unit) {
    return value % unit == 0 ? value : value + (unit - value % unit);
}
static inline uint32_t ota_round_down(uint32_t value, uint32_t unit) { return value - value % unit; }

/* ---- crc32.c ---- */

/* Adds `count` bytes to the CRC-32 (IEEE 802.3) `crc`, and returns the new CRC. Start with `crc` 0. */
uint32_t ota_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count);

/* ---- text.c ---- */

bool ota_is_product(const uint8_t *text, uint32_t size);
/* Returns whether the text is a version of SemVer 2.0.0 with 5..63 bytes. Writes its three numbers, which are below
 * 2^32, to `numbers`. */
bool ota_is_version(const uint8_t *text, uint32_t size, uint32_t numbers[3]);
/* Returns whether the text is UTF-8 with 1..127 bytes and without control characters. */
bool ota_is_source(const uint8_t *text, uint32_t size);
/* Returns the length in bytes of a text that ends with NUL, or `largest` + 1 if the text is longer than `largest`. */
uint32_t ota_text_size(const char *text, uint32_t largest);

/* ---- config.c ---- */

/* A number for each algorithm. The index is the algorithm. */
enum { OTA_ALGORITHMS = OTA_ML_DSA_87 + 1 };

/* Returns the algorithm of a trusted key. `key` is below `key_count`. */
static inline uint8_t ota_key_algorithm(const struct ota_config *config, uint32_t key) {
    return config->key_algorithms ? config->key_algorithms[key] : OTA_ED25519;
}

/* Returns whether these numbers of signatures by trusted keys fulfil the device's policy. */
bool ota_is_enough(const struct ota_config *config, const uint8_t counts[OTA_ALGORITHMS]);

/* Checks the configuration. Writes the three numbers of its firmware version to `version`. */
enum ota_start_error ota_config_check(const struct ota_config *config, uint32_t version[3]);

/* ---- envelope.c ---- */

/* A well-formed envelope. Its pointers point into the envelope's bytes. The parser does not verify the signatures. */
struct ota_envelope {
    struct ota_manifest manifest; /* the parser does not set its `digest` */
    uint32_t manifest_size;
    const uint8_t *hardware; /* pairs of u16 */
    uint8_t hardware_pairs;
    const uint8_t *required_version; /* three u32, or NULL */
    uint8_t minimum_battery;         /* per cent; 0: no minimum */
    const uint8_t *signatures;
    uint8_t signature_count;
};

/* The entry of a signature in an envelope: its first byte is the algorithm. These are the offsets of the signature's size
 * (u16), of the key id, and of the signature. The next entry follows the signature. */
enum { OTA_SIGNATURE_SIZE = 2, OTA_SIGNATURE_KEY = 4, OTA_SIGNATURE_VALUE = 12 };

/* Returns the size of a signature of this algorithm, or 0 if the algorithm is unknown. */
uint32_t ota_signature_size(uint32_t algorithm);

/* Returns the entry after `entry`. */
static inline const uint8_t *ota_signature_next(const uint8_t *entry) {
    return entry + OTA_SIGNATURE_VALUE + ota_u16(entry + OTA_SIGNATURE_SIZE);
}

/* Returns OTA_OK, OTA_MALFORMED or OTA_UNKNOWN_CRITICAL. */
enum ota_status ota_envelope_parse(const uint8_t *bytes, uint32_t size, struct ota_envelope *envelope);

#endif
