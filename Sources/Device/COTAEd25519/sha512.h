/* SHA-512 (FIPS 180-4), for ed25519.c. */
#ifndef OTA_SHA512_H
#define OTA_SHA512_H

#include <stdint.h>

enum { OTA_SHA512_SIZE = 64 };

struct ota_sha512 {
    uint64_t state[8];
    uint64_t block[16]; /* the bytes of the current block, as big-endian words */
    uint64_t count;     /* the number of bytes so far */
};

void ota_sha512_start(struct ota_sha512 *hash);
void ota_sha512_update(struct ota_sha512 *hash, const uint8_t *bytes, uint32_t count);
void ota_sha512_finish(struct ota_sha512 *hash, uint8_t digest[OTA_SHA512_SIZE]);

#endif
