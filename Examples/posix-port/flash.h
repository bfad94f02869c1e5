/* Flash in a file. Firmware has a driver of the chip in its place. */
#ifndef FLASH_H
#define FLASH_H

#include <stdbool.h>
#include <stdint.h>

enum { PAGE_SIZE = 4096, WRITE_UNIT = 4, SLOT_SIZE = 16 * PAGE_SIZE }; /* 64 is a multiple of WRITE_UNIT */
/* The areas, as offsets in the file. The area of the bootloader and the one of the core's records have two pages. */
enum { BOOT_AREA = 0, RECORD_AREA = 2 * PAGE_SIZE, SLOTS = 4 * PAGE_SIZE, FLASH_BYTES = SLOTS + 2 * SLOT_SIZE };

/* Opens the file, or creates an erased one. Each write and each erase has two steps: the power can fail in its middle,
 * and directly after it. At step `cut_at` (from 1; 0: never) the process ends with status 75. */
bool flash_open(const char *path, unsigned long cut_at);
/* On flash with ECC, a power cut can leave a unit whose read is an error (on STM32, an NMI or a bus fault). The driver
 * catches it and returns zeros in the place of the unit: no record and no image is valid with them. */
bool flash_read(uint32_t offset, void *bytes, uint32_t count);
/* Writes whole write units, only on erased bytes, at most a page. The bytes are durable when it returns. */
bool flash_write(uint32_t offset, const void *bytes, uint32_t count);
bool flash_erase(uint32_t offset); /* one page, at its first byte */

#endif
