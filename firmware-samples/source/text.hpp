// Writes text and numbers to a serial port, one character at a time. Also defines two routines that a compiler may call.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" inline __attribute__((used)) void* memset(void* target, int value, size_t count) {
    for (size_t index = 0; index < count; ++index) static_cast<uint8_t*>(target)[index] = static_cast<uint8_t>(value);
    return target;
}

extern "C" inline __attribute__((used)) void* memcpy(void* target, const void* source, size_t count) {
    for (size_t index = 0; index < count; ++index)
        static_cast<uint8_t*>(target)[index] = static_cast<const uint8_t*>(source)[index];
    return target;
}

inline volatile uint32_t& peripheral(uintptr_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

/// Provided by the program: sends one character.
void put(char character);

inline void print(const char* text) {
    while (*text != 0) put(*text++);
}

inline void print(uint32_t value, unsigned base = 10) {
    char digits[11];
    unsigned count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) > 0);
    while (count > 0) put(digits[--count]);
}

/// Hundredths, as in `-3.07`.
inline void printHundredths(int value) {
    if (value < 0) put('-');
    const uint32_t magnitude = static_cast<uint32_t>(value < 0 ? -value : value);
    print(magnitude / 100);
    put('.');
    put(static_cast<char>('0' + magnitude / 10 % 10));
    put(static_cast<char>('0' + magnitude % 10));
}
