/* MCUboot's Ed25519 verifier, for the application. It needs a configuration of MCUboot and SHA-512 of mbedTLS, and no header
 * declares ED25519_verify. */
#define MCUBOOT_USE_MBED_TLS 1
#include "curve25519.c"
