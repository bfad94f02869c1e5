#include "values.h"

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static bool is_letter(uint8_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

uint32_t ota_text_size(const char *text, uint32_t largest) {
    uint32_t size = 0;
    while (size <= largest && text[size] != 0)
        size++;
    return size;
}

bool ota_is_product(const uint8_t *text, uint32_t size) {
    if (size < 1 || size > OTA_TEXT_LARGEST) return false;
    for (uint32_t i = 0; i < size; i++) {
        uint8_t c = text[i];
        if (!is_digit(c) && !is_letter(c) && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

/* ---- SemVer ---- */

/* Reads a decimal number below 2^32 without leading zeros. Returns the number of its digits, or 0 if the text does not
 * start with such a number. */
static uint32_t read_number(const uint8_t *text, uint32_t size, uint32_t *number) {
    uint64_t value = 0;
    uint32_t digits = 0;
    while (digits < size && is_digit(text[digits])) {
        value = value * 10 + (uint64_t)(text[digits] - '0');
        if (value > UINT32_MAX) return 0;
        digits++;
    }
    if (digits > 1 && text[0] == '0') return 0;
    *number = (uint32_t)value;
    return digits;
}

/* Reads identifiers that are separated by dots, up to the character `end` or the end of the text. Returns their length
 * in bytes, or 0 if they are malformed. In a pre-release (`is_build` is false), an identifier that consists only of
 * digits must not have a leading zero. */
static uint32_t read_identifiers(const uint8_t *text, uint32_t size, bool is_build, uint8_t end) {
    uint32_t i = 0;
    for (;;) {
        uint32_t start = i;
        bool all_digits = true;
        while (i < size && (is_digit(text[i]) || is_letter(text[i]) || text[i] == '-')) {
            if (!is_digit(text[i])) all_digits = false;
            i++;
        }
        if (i == start) return 0;
        if (!is_build && all_digits && i - start > 1 && text[start] == '0') return 0;
        if (i == size || text[i] == end) return i;
        if (text[i] != '.') return 0;
        i++;
    }
}

bool ota_is_version(const uint8_t *text, uint32_t size, uint32_t numbers[3]) {
    if (size < 5 || size > OTA_TEXT_LARGEST) return false;
    uint32_t i = 0;
    for (int part = 0; part < 3; part++) {
        if (part > 0) {
            if (i == size || text[i] != '.') return false;
            i++;
        }
        uint32_t digits = read_number(text + i, size - i, &numbers[part]);
        if (digits == 0) return false;
        i += digits;
    }
    if (i < size && text[i] == '-') {
        uint32_t bytes = read_identifiers(text + i + 1, size - i - 1, false, '+');
        if (bytes == 0) return false;
        i += 1 + bytes;
    }
    if (i < size && text[i] == '+') {
        uint32_t bytes = read_identifiers(text + i + 1, size - i - 1, true, 0);
        if (bytes == 0) return false;
        i += 1 + bytes;
    }
    return i == size;
}

/* ---- UTF-8 ---- */

/* Reads one character of UTF-8. Returns its length in bytes, or 0 if it is not well-formed (Unicode standard, table
 * 3-7). */
static uint32_t read_character(const uint8_t *text, uint32_t size, uint32_t *character) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = text[0];
    uint32_t bytes = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (bytes > size || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4) return 0;
    uint32_t value = bytes == 1 ? lead : lead & (0xFFu >> (bytes + 1));
    for (uint32_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (text[i] & 0x3Fu);
    }
    if (value < smallest[bytes] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
    *character = value;
    return bytes;
}

bool ota_is_source(const uint8_t *text, uint32_t size) {
    if (size < 1 || size > 127) return false;
    for (uint32_t i = 0; i < size;) {
        uint32_t character = 0;
        uint32_t bytes = read_character(text + i, size - i, &character);
        if (bytes == 0 || character < 0x20 || (character >= 0x7F && character <= 0x9F)) return false;
        i += bytes;
    }
    return true;
}
