/* Fuzz targets: the device core with arbitrary hosts, flash failures and power cuts, its decoder, its check of an envelope,
 * and the Ed25519 verifier. */
#ifndef DEVICE_FUZZ_H
#define DEVICE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Runs the actions of the bytes (listed in device_fuzz.c) on a new device. Then it removes all faults and updates the
 * device according to the profile. Returns NULL, or a constant text that names the first violation. It checks:
 *
 *   - Only a signed image is marked for boot, byte for byte. It is still unchanged when it boots.
 *   - The core uses the flash as NOR flash, within its areas, also after failures.
 *   - The core starts again after any power cut, ends every request in a limited number of polls, and can be updated.
 */
const char *device_fuzz(const uint8_t *bytes, size_t count);

/*
 * Sends the bytes as an encoded image, in Data values that the first bytes choose, and checks in addition:
 *
 *   - The work for each value is limited: the flash operations, and the number of decoded bytes.
 *   - The device decodes, rewinds or reports that it cannot decode the stream. It never holds more bytes than the image
 *     has.
 */
const char *decoder_fuzz(const uint8_t *bytes, size_t count);

/*
 * Sends the bytes after the first one as an envelope to a device with an Ed25519 key and an ML-DSA-44 key. The first byte
 * is the policy. It checks that the device accepts only an envelope with the valid signatures that its policy requires,
 * and changes no flash.
 */
const char *envelope_fuzz(const uint8_t *bytes, size_t count);

/*
 * Verifies a signature: the bytes are a public key, a signature and a message. It checks that a valid signature is invalid
 * with S + L, and that no other signature than the known one is valid for a key of RFC 8032.
 */
const char *ed25519_fuzz(const uint8_t *bytes, size_t count);

#endif
