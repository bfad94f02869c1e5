// acme-beacon for the STM32WB55's Cortex-M4: sends measurements on a serial line. MCUboot starts it from its slot.
// It is built twice: with VERSION_TEXT "1.0.0"; and with "1.1.0" and OUTSIDE_PROBE.

#include "crc32.hpp"
#include "curves.hpp"
#include "text.hpp"

constexpr auto roomCurve = thermistor(3950);
constexpr auto humidityCurve = humidity();
#ifdef OUTSIDE_PROBE
constexpr auto outsideCurve = platinum();
#endif

namespace chip {  // RM0434
constexpr uintptr_t serial = 0x40013800, converter = 0x50040000, systemTimer = 0xE000E010, vectorTable = 0xE000ED08;

void startConverter() {
    peripheral(converter + 0x08) = 0;
    peripheral(converter + 0x08) = 1u << 28;
    for (unsigned wait = 0; wait < 1000; ++wait) __asm__ volatile("");  // 20 µs for its regulator
    peripheral(converter + 0x08) = 1u << 28 | 1u << 0;
    while ((peripheral(converter) & 1u << 0) == 0) {}
}

unsigned convert(unsigned channel) {
    peripheral(converter + 0x30) = channel << 6;
    peripheral(converter + 0x08) = 1u << 28 | 1u << 2 | 1u << 0;
    while ((peripheral(converter) & 1u << 2) == 0) {}
    return peripheral(converter + 0x40) & 0xFFF;
}
}  // namespace chip

void put(char character) {
    while ((peripheral(chip::serial + 0x1C) & 1u << 7) == 0) {}
    peripheral(chip::serial + 0x28) = static_cast<uint8_t>(character);
}

/// The content of one line, little-endian as in memory.
struct Measurement {
    uint32_t count;
    int16_t room;
    uint16_t humidity;
    int16_t outside;
    uint16_t reserved;
};

static volatile uint32_t seconds;

extern "C" void systemTick() { seconds = seconds + 1; }

extern "C" [[noreturn]] void run() {
    print("acme-beacon " VERSION_TEXT "\r\n");
    chip::startConverter();
    peripheral(chip::systemTimer + 4) = 4'000'000 - 1;  // the clock after reset: 4 MHz
    peripheral(chip::systemTimer) = 7;
    for (uint32_t told = 0;;) {
        while (seconds == told) __asm__ volatile("wfi");
        told = seconds;
        Measurement measurement = {
            .count = told, .room = roomCurve[chip::convert(5)], .humidity = humidityCurve[chip::convert(6)],
            .outside = 0, .reserved = 0,
        };
#ifdef OUTSIDE_PROBE
        measurement.outside = outsideCurve[chip::convert(7)];
#endif
        print(told);
        print(" room ");
        printHundredths(measurement.room);
        print(" humidity ");
        printHundredths(measurement.humidity);
#ifdef OUTSIDE_PROBE
        print(" outside ");
        printHundredths(measurement.outside);
#endif
        print(" check ");
        print(crc32(reinterpret_cast<const uint8_t*>(&measurement), sizeof measurement), 16);
        print("\r\n");
    }
}

extern "C" uint32_t bssStart[], bssEnd[], stackTop[], vectors[];

extern "C" [[noreturn]] void reset() {
    peripheral(chip::vectorTable) = reinterpret_cast<uintptr_t>(vectors);
    for (uint32_t* word = bssStart; word < bssEnd; ++word) *word = 0;
    run();
}

extern "C" [[noreturn]] void fault() {
    while (true) {}
}

__asm__(
    ".section .vectors, \"a\"\n.global vectors\nvectors:\n.word stackTop, reset\n"
    ".rept 13\n.word fault\n.endr\n.word systemTick\n.rept 63\n.word fault\n.endr\n.text\n");
