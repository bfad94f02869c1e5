#include "values.h"

/* A table for 4 bits at a time needs 64 bytes of flash. The usual table for 8 bits needs 1 KB. The smaller table is
 * fast enough: a Cortex-M4 needs about 20 cycles for each byte. At 64 MHz this is 3 MB/s, thirty times the speed of the
 * radio. */
static const uint32_t nibbles[16] = {
    0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
    0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
};

uint32_t ota_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count) {
    crc = ~crc;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibbles[crc & 15];
        crc = crc >> 4 ^ nibbles[crc & 15];
    }
    return ~crc;
}
