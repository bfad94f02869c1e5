// CRC-32 of IEEE 802.3, eight bytes at a time.
#pragma once

#include "table.hpp"

constexpr uint32_t shifted(uint32_t value, unsigned bits) {
    while (bits-- > 0) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
    return value;
}

/// Eight tables of 256 entries: the effect of a byte on the CRC if 0..7 more bytes follow it.
inline constexpr auto crcTables =
    tabulate<uint32_t, 8 * 256>([](unsigned index) { return shifted(index % 256, 8 + 8 * (index / 256)); });

inline uint32_t crc32(const uint8_t* bytes, unsigned count, uint32_t crc = 0) {
    crc = ~crc;
    for (; count >= 8; bytes += 8, count -= 8) {
        uint32_t next = 0;
        for (unsigned index = 0; index < 8; ++index) {
            const uint8_t mixed = static_cast<uint8_t>(bytes[index] ^ (index < 4 ? crc >> 8 * index : 0));
            next ^= crcTables[256 * (7 - index) + mixed];
        }
        crc = next;
    }
    for (; count > 0; ++bytes, --count) crc = crc >> 8 ^ crcTables[(crc ^ *bytes) & 0xFF];
    return ~crc;
}
