#include "device_fuzz.h"

#include "ota_ed25519.h"

#include <string.h>

enum { KEY = 32, SIGNATURE = 64, HALF = 32 };

/* RFC 8032, section 7.1, test 2. No other message and signature of this key are known. */
static const uint8_t known_key[KEY] = {0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a,
                                       0xa7, 0x4d, 0x1b, 0x7e, 0xbc, 0x9c, 0x98, 0x2c, 0xcf, 0x2e, 0xc4,
                                       0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c};
static const uint8_t known_signature[SIGNATURE] = {
    0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40,
    0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda,
    0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15, 0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c,
    0x38, 0x7b, 0x2e, 0xae, 0xb4, 0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00};
static const uint8_t known_message = 0x72;

/* The group order L, the least significant byte first. */
static const uint8_t order[HALF] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7,
                                    0xa2, 0xde, 0xf9, 0xde, 0x14, 0,    0,    0,    0,    0,    0,
                                    0,    0,    0,    0,    0,    0,    0,    0,    0,    0x10};

const char *ed25519_fuzz(const uint8_t *bytes, size_t count) {
    if (count < KEY + SIGNATURE) return NULL;
    const uint8_t *message = bytes + KEY + SIGNATURE;
    uint32_t message_size = (uint32_t)(count - KEY - SIGNATURE);
    uint8_t signature[SIGNATURE];
    memcpy(signature, bytes + KEY, SIGNATURE);
    if (!ota_ed25519_verify(bytes, message, message_size, signature, SIGNATURE)) return NULL;
    if (memcmp(bytes, known_key, KEY) == 0 &&
        (message_size != 1 || *message != known_message || memcmp(signature, known_signature, SIGNATURE) != 0))
        return "ed25519: a forged signature is valid";
    uint32_t carry = 0;
    for (int i = 0; i < HALF; i++) {
        carry += (uint32_t)signature[HALF + i] + order[i];
        signature[HALF + i] = (uint8_t)carry;
        carry >>= 8;
    }
    if (ota_ed25519_verify(bytes, message, message_size, signature, SIGNATURE))
        return "ed25519: the signature is still valid with S + L";
    return NULL;
}
