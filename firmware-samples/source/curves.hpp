// The physics of a room, its sensors, its lamp and its heater. `tabulate` makes tables of these functions.
#pragma once

#include "table.hpp"

/// The number of codes of a 12-bit converter.
constexpr unsigned converterCodes = 4096;

/// Hundredths of a degree Celsius for each converter code, by the beta equation. A thermistor lies between the converter's
/// input and ground. At 25 °C it has the resistance of the resistor above it (10 kΩ).
consteval auto thermistor(double beta) {
    return tabulate<int16_t, converterCodes>([beta](unsigned code) {
        const double inner = clamped(code, 1, converterCodes - 1);
        const double ratio = inner / (converterCodes - inner);
        const double kelvin = 1 / (1 / 298.15 + __builtin_log(ratio) / beta);
        return rounded(100 * clamped(kelvin - 273.15, -55, 150));
    });
}

/// Hundredths of a degree Celsius from a PT1000, by the Callendar–Van Dusen equation without its term for temperatures
/// below zero. An amplifier maps 800..1824 Ω to the converter's range.
consteval auto platinum() {
    return tabulate<int16_t, converterCodes>([](unsigned code) {
        constexpr double a = 3.9083e-3, b = -5.775e-7;
        const double resistance = (800 + code * 0.25) / 1000;
        return rounded(100 * (-a + __builtin_sqrt(a * a - 4 * b * (1 - resistance))) / (2 * b));
    });
}

/// Relative humidity in hundredths of a per cent from an HIH-4030 at 3.3 V.
consteval auto humidity() {
    return tabulate<uint16_t, converterCodes>([](unsigned code) {
        return rounded(100 * clamped((code * 3.3 / converterCodes - 0.958) / 0.03068, 0, 100));
    });
}

/// Brightness of a room in thousandths of a decade, from a photodiode.
consteval auto light() {
    return tabulate<uint16_t, converterCodes>([](unsigned code) {
        return rounded(1000 * __builtin_log10(1 + code * 10.0));
    });
}

/// Dew points in hundredths of a degree Celsius by the Magnus formula: rows of 101 relative humidities (0..100 %) for
/// temperatures from −10 °C to +50 °C in half degrees.
constexpr unsigned dewPointRows = 121, dewPointColumns = 101;

consteval auto dewPoints() {
    return tabulate<int16_t, dewPointRows * dewPointColumns>([](unsigned index) {
        const double temperature = -10 + 0.5 * (index / dewPointColumns);
        const double humidity = clamped(index % dewPointColumns, 1, 100) / 100;
        const double gamma = __builtin_log(humidity) + 17.62 * temperature / (243.12 + temperature);
        return rounded(100 * 243.12 * gamma / (17.62 - gamma));
    });
}

/// The duty cycle of a lamp (of 8191) at which an eye perceives `index`/4095 of full brightness.
consteval auto brightness() {
    return tabulate<uint16_t, converterCodes>([](unsigned index) {
        return rounded(8191 * __builtin_pow(index / 4095.0, 2.2));
    });
}

/// One turn of a sine in 4096 steps, ±32767.
consteval auto sine() {
    return tabulate<int16_t, converterCodes>([](unsigned index) {
        return rounded(32767 * __builtin_sin(index * 2 * 3.14159265358979323846 / converterCodes));
    });
}

/// The firing angle of a triac in a half wave of the mains (0..8191) at which a heater gives `index`/4095 of its power.
/// It is the root of 1 − a/π + sin(2a)/2π = power, found by bisection.
consteval auto firingAngle() {
    return tabulate<uint16_t, converterCodes>([](unsigned index) {
        constexpr double pi = 3.14159265358979323846;
        double lowest = 0, highest = pi;
        for (int step = 0; step < 16; ++step) {
            const double angle = (lowest + highest) / 2;
            const double power = 1 - angle / pi + __builtin_sin(2 * angle) / (2 * pi);
            (power > index / 4095.0 ? lowest : highest) = angle;
        }
        return rounded(8191 * (lowest + highest) / 2 / pi);
    });
}

/// The supply temperature for a room of 20 °C, in hundredths of a degree. Each row has 121 outside temperatures (−30 °C to
/// +30 °C in half degrees). The rows are slopes from 0.20 to 3.35 in steps of 0.05. The heat of a radiator is proportional
/// to the 1.3th power of its temperature difference to the room.
constexpr unsigned heatingSlopes = 64, heatingColumns = 121;

consteval auto heatingCurves() {
    return tabulate<int16_t, heatingSlopes * heatingColumns>([](unsigned index) {
        const double slope = 0.2 + 0.05 * (index / heatingColumns);
        const double missing = clamped(20 - (-30 + 0.5 * (index % heatingColumns)), 0, 50);
        return rounded(100 * clamped(20 + slope * 2 * __builtin_pow(missing, 1 / 1.3), 20, 75));
    });
}
