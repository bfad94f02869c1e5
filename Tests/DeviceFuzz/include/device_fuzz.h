/* The device core among arbitrary hosts, a flash that fails and a power that goes: what bytes make of it. */
#ifndef DEVICE_FUZZ_H
#define DEVICE_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Plays what the bytes say (device_fuzz.c has the list) on a device of its own, then heals the device and updates it as an
 * honest host does. Returns what was not as it must be, a constant text, or NULL:
 *
 *   - nothing is marked for boot but a signed image, byte for byte, and it is still so when it boots;
 *   - the flash is used as NOR flash may be, within the areas, whatever fails;
 *   - the core starts again after any power cut, ends every request in bounded polls, and can be updated.
 */
const char *device_fuzz(const uint8_t *bytes, size_t count);

#endif
