/* What an application can implement if it uses otaflash on Zephyr. All functions are optional, except if a comment says so. */
#ifndef OTAFLASH_H
#define OTAFLASH_H

#include <stdbool.h>
#include <stdint.h>

/* Called at the start of a trial boot, before main() runs. Start the watchdog here: if the new image hangs, the watchdog
 * must restart the device, and MCUboot then starts the old image. Feed the watchdog from the code that must work, never
 * from a timer. */
void otaflash_trial_started(void);

/* Returns whether the self-test of the new image has passed. Until it has passed, the device answers CONFIRM with "busy".
 * It runs on the update thread. The default returns true. */
bool otaflash_self_test_passed(void);

/* Required with CONFIG_OTAFLASH_ED25519_APPLICATION. Returns whether the signature of 64 bytes is valid. It must refuse a
 * signature whose number S is not below the group order L (RFC 8032, 5.1.7). */
bool otaflash_ed25519_verify(const uint8_t public_key[32], const uint8_t *message, uint32_t count,
                             const uint8_t signature[64]);

#endif
