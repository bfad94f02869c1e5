/*
 * Verification of Ed25519 signatures (RFC 8032, pure Ed25519), for `ota_port.verify` of the device core, or for any other
 * firmware. It includes SHA-512. It allocates no memory, has no global state, and uses no floating point. From the C
 * library it calls only memcpy, memset and memcmp. Its stack is about 1.2 KB. docs/device-integration.md has the
 * measured sizes and times.
 *
 * It does not sign, so it handles no secret. Its time depends on its input.
 */
#ifndef OTA_ED25519_H
#define OTA_ED25519_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { OTA_ED25519_KEY_SIZE = 32, OTA_ED25519_SIGNATURE_SIZE = 64 };

/*
 * Returns whether `signature` is a valid signature of the message by the public key. These are invalid:
 *
 *   - a signature with another size than 64 bytes;
 *   - a signature whose number S is not below the group order L (RFC 8032, 5.1.7);
 *   - a signature whose point R is not in its canonical encoding;
 *   - each signature by a key that is not the canonical encoding of a point (RFC 8032, 5.1.3), or is a point of small
 *     order: for such a point, anyone can compute a valid signature.
 *
 * The equation is [S]B = R + [k]A, without the cofactor 8, and with k reduced modulo L, as in OpenSSL.
 */
bool ota_ed25519_verify(const uint8_t public_key[OTA_ED25519_KEY_SIZE], const uint8_t *message, uint32_t count,
                        const uint8_t *signature, uint32_t signature_size);

#ifdef __cplusplus
}
#endif

#endif
