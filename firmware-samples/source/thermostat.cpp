// acme-thermostat for the ESP32-C3: an application that an ESP-IDF bootloader can load, without ESP-IDF.
// It is built twice: with VERSION_TEXT "1.0.0"; and with "1.1.0" and CONDENSATION_GUARD.

#include "crc32.hpp"
#include "curves.hpp"
#include "digits.hpp"
#include "text.hpp"

// The application descriptor of ESP-IDF's esp_app_desc.h: 256 bytes, first in the data that is mapped from flash.
struct ApplicationDescriptor {
    uint32_t magic, secureVersion, reserved1[2];
    char version[32], project[32], time[16], date[16], idfVersion[32];
    uint8_t elfSHA256[32];  // written by esptool
    uint16_t lowestBlockRevision, highestBlockRevision;
    uint8_t pageSizeExponent, reserved3[3];
    uint32_t reserved2[18];
};
static_assert(sizeof(ApplicationDescriptor) == 256);

extern "C" const ApplicationDescriptor descriptor __attribute__((used, section(".flash.appdesc"))) = {
    .magic = 0xABCD5432, .secureVersion = 0, .reserved1 = {}, .version = VERSION_TEXT, .project = "acme-thermostat",
    .time = "00:00:00", .date = "Jan  1 2026", .idfVersion = "none", .elfSHA256 = {}, .lowestBlockRevision = 0,
    .highestBlockRevision = 0xFFFF, .pageSizeExponent = 16, .reserved3 = {}, .reserved2 = {},
};

// Mapped from flash.
constexpr auto roomCurve = thermistor(3950);
constexpr auto floorCurve = thermistor(3435);
constexpr auto pipeCurve = platinum();
#ifdef CONDENSATION_GUARD
constexpr auto dewPointCurve = dewPoints();
#endif

// The bootloader copies this to RAM. It is needed during flash writes, when the flash cannot be mapped.
#define IN_RAM __attribute__((section(".dram0.data")))
IN_RAM constinit auto brightnessCurve = brightness();
IN_RAM constinit auto sineCurve = sine();
IN_RAM constinit auto firingCurve = firingAngle();
IN_RAM constinit auto humidityCurve = humidity();
IN_RAM constinit auto lightCurve = light();
IN_RAM constinit auto supplyCurves = heatingCurves();

namespace chip {  // ESP32-C3 Technical Reference Manual
constexpr uintptr_t uart = 0x60000000, pins = 0x60004000, timer = 0x60023000, lamp = 0x60019000, converter = 0x60040000;

unsigned convert(unsigned channel) {
    peripheral(converter + 0x4C) = 1u << 31;
    peripheral(converter + 0x20) = 1u << 31 | 1u << 29 | channel << 25 | 3u << 23;
    while ((peripheral(converter + 0x44) & 1u << 31) == 0) {}
    const uint32_t code = peripheral(converter + 0x2C) & 0xFFF;
    peripheral(converter + 0x20) = 0;
    return code;
}

/// An analogue switch at pin 10 selects the outside probe instead of the supply probe.
void selectOutside(bool outside) { peripheral(pins + (outside ? 0x08 : 0x0C)) = 1u << 10; }

/// Sixteenths of a microsecond since start, the lowest 32 bits.
uint32_t ticks() {
    peripheral(timer + 0x04) = 1u << 30;
    while ((peripheral(timer + 0x04) & 1u << 29) == 0) {}
    return peripheral(timer + 0x44);
}

/// Duty of a channel, of 8191.
void setDuty(unsigned channel, uint32_t duty) {
    const uintptr_t registers = lamp + 0x14 * channel;
    peripheral(registers + 0x08) = duty << 4;
    peripheral(registers + 0x0C) = 1u << 31;
    peripheral(registers + 0x00) = 1u << 4 | 1u << 2;
}
}  // namespace chip

void put(char character) {
    while ((peripheral(chip::uart + 0x1C) >> 16 & 0x3FF) >= 126) {}
    peripheral(chip::uart) = static_cast<uint8_t>(character);
}

/// A PI controller in hundredths of a degree and 4095ths of full power. Its integral is limited at both ends.
struct Controller {
    int integral = 0;

    unsigned power(int wanted, int measured) {
        const int error = wanted - measured;
        const int direct = error * 6 + integral / 256;
        if ((direct < 4095 || error < 0) && (direct > 0 || error > 0)) integral += error;
        return static_cast<unsigned>(direct < 0 ? 0 : direct > 4095 ? 4095 : direct);
    }
};

/// The measurements of one second: temperatures in hundredths of a degree, humidity in hundredths of a per cent.
struct Climate {
    int room, floor, supply, outside, humidity;

    static Climate measured() {
        Climate climate;
        climate.room = roomCurve[chip::convert(0)];
        climate.floor = floorCurve[chip::convert(1)];
        climate.supply = pipeCurve[chip::convert(2)];
        chip::selectOutside(true);
        climate.outside = pipeCurve[chip::convert(2)];
        chip::selectOutside(false);
        climate.humidity = humidityCurve[chip::convert(3)];
        return climate;
    }

    int wantedSupply(unsigned slope) const {
        const int column = (outside + 3000) / 50;
        return supplyCurves[slope * heatingColumns + static_cast<unsigned>(column < 0 ? 0 : column > 120 ? 120 : column)];
    }

#ifdef CONDENSATION_GUARD
    int dewPoint() const {
        const int row = (room + 1000) / 50, column = (humidity + 50) / 100;
        const unsigned inside = static_cast<unsigned>(row < 0 ? 0 : row > 120 ? 120 : row);
        return dewPointCurve[inside * dewPointColumns + static_cast<unsigned>(column)];
    }
#endif
};

static Display display;
static uint32_t bootCount __attribute__((section(".dram0.bss")));

static void show(const Climate& climate) {
    display.drawTenths<16, 32>(climate.room / 10, 0, 0);
    display.drawTenths<8, 16>(climate.floor / 10, 10, 0);
    display.drawTenths<8, 16>(climate.supply / 10, 10, 16);
    display.drawTenths<24, 32>(climate.humidity / 10, 0, 32);
}

static void report(const Climate& climate, unsigned power) {
    print("room ");
    printHundredths(climate.room);
    print(" floor ");
    printHundredths(climate.floor);
    print(" supply ");
    printHundredths(climate.supply);
    print(" outside ");
    printHundredths(climate.outside);
    print(" humidity ");
    printHundredths(climate.humidity);
#ifdef CONDENSATION_GUARD
    print(" dew point ");
    printHundredths(climate.dewPoint());
#endif
    print(" power ");
    print(power);
    print(" display ");
    print(crc32(&display.rows[0][0], sizeof display), 16);
    print("\r\n");
}

/// The lamp fades in and out once in four seconds. Its brightness follows the light in the room.
static void breathe(uint32_t step) {
    const int wave = 32768 + sineCurve[step % converterCodes];
    const uint32_t light = lightCurve[chip::convert(4)];
    chip::setDuty(1, brightnessCurve[static_cast<uint32_t>(wave) * light / 73728 & 4095]);
}

extern "C" [[noreturn]] void run() {
    constexpr int comfortable = 2100;
    constexpr unsigned slope = 16;  // 1.00
    Controller controller;
    print("acme-thermostat " VERSION_TEXT ", boot ");
    print(++bootCount);
    print("\r\n");
    for (uint32_t second = 0;; ++second) {
        const Climate climate = Climate::measured();
        int wanted = comfortable;
#ifdef CONDENSATION_GUARD
        const int dry = climate.dewPoint() + 200;
        if (climate.floor < dry) wanted += dry - climate.floor;
#endif
        const bool tooWarm = climate.floor > 2900 || climate.supply > climate.wantedSupply(slope);
        const unsigned power = tooWarm ? 0 : controller.power(wanted, climate.room);
        chip::setDuty(0, firingCurve[power]);
        show(climate);
        report(climate, power);
        for (uint32_t step = 0, start = chip::ticks(); step < 1024; ++step) {
            breathe(second % 4 * 1024 + step);
            while (chip::ticks() - start < step * 15625) {}
        }
    }
}

extern "C" uint32_t bssStart[], bssEnd[];

/// The entry point for the bootloader, in RAM as in any ESP-IDF application.
extern "C" __attribute__((naked, section(".iram0.text"))) void start() {
    __asm__ volatile(
        ".option push\n .option norelax\n la gp, __global_pointer$\n .option pop\n"
        "la sp, stackTop\n la t0, bssStart\n la t1, bssEnd\n"
        "1: bgeu t0, t1, 2f\n sw zero, 0(t0)\n addi t0, t0, 4\n j 1b\n"
        "2: la t0, run\n jr t0\n");
}
