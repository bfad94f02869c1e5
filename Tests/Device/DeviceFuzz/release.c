#include "bench.h"

#include <string.h>

/* Four FNV-1a hashes replace SHA-256. The test only needs that different bytes have different digests. */
void hash_start(uint64_t hash[4]) {
    for (uint64_t lane = 0; lane < 4; lane++) hash[lane] = 0xCBF29CE484222325u + lane;
}

void hash_update(uint64_t hash[4], const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t lane = 0; lane < 4; lane++) hash[lane] = (hash[lane] ^ bytes[i]) * 0x100000001B3u;
    }
}

void hash_finish(const uint64_t hash[4], uint8_t digest[OTA_DIGEST_SIZE]) {
    for (uint32_t i = 0; i < OTA_DIGEST_SIZE; i++) digest[i] = (uint8_t)(hash[i / 8] >> 8 * (i % 8));
}

void digest_of(const uint8_t *bytes, uint32_t count, uint8_t digest[OTA_DIGEST_SIZE]) {
    uint64_t hash[4];
    hash_start(hash);
    hash_update(hash, bytes, count);
    hash_finish(hash, digest);
}

const uint8_t key_id[OTA_PREFIX_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8};

static uint8_t *put(uint8_t *at, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint8_t *put_field(uint8_t *at, uint32_t type, const char *text) {
    uint32_t size = (uint32_t)strlen(text);
    at = put(put(at, type, 2), size, 2);
    memcpy(at, text, size);
    return at + size;
}

/* Makes a release according to the bundle format. The security counters are 5, 6 and 7. */
void release_make(struct release *release, uint8_t number) {
    static const uint32_t sizes[RELEASES] = {700, IMAGE_LARGEST, 256};
    static const char *const versions[RELEASES] = {"1.1.0", "1.2.0", "1.3.0"};
    release->counter = 5u + number;
    release->image_size = sizes[number];
    for (uint32_t i = 0; i < release->image_size; i++) release->image[i] = (uint8_t)(i * (7u + 2u * number) >> 3);
    uint8_t *manifest = release->envelope;
    memcpy(manifest, "OTAF\2\0", 6);
    put(manifest + 8, release->image_size, 4);
    put(manifest + 16, release->counter, 4);
    digest_of(release->image, release->image_size, manifest + 32);
    uint8_t *end = put_field(put_field(manifest + 64, 0x0002, versions[number]), 0x8001, "demo");
    release->manifest_size = (uint32_t)(end - manifest);
    put(manifest + 6, release->manifest_size, 2);
    digest_of(manifest, release->manifest_size, release->digest);
    end = put(put(put(end, 1, 4), OTA_ED25519, 2), SIGNATURE_SIZE, 2);
    memcpy(end, key_id, OTA_PREFIX_SIZE);
    memcpy(end + 8, release->digest, OTA_DIGEST_SIZE);
    memset(end + 40, number, 32);
}
