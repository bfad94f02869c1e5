// The physics of a room and of what hangs in it, as functions that `tabulate` makes tables of.
#pragma once

#include "table.hpp"

/// A 12-bit converter.
constexpr unsigned converterCodes = 4096;

/// A thermistor (10 kΩ at 25 °C, or whatever the resistor above it has) between converter input and ground: hundredths
/// of a degree Celsius for each converter code, by the beta equation.
consteval auto thermistor(double beta) {
    return tabulate<int16_t, converterCodes>([beta](unsigned code) {
        const double inner = clamped(code, 1, converterCodes - 1);
        const double ratio = inner / (converterCodes - inner);
        const double kelvin = 1 / (1 / 298.15 + __builtin_log(ratio) / beta);
        return rounded(100 * clamped(kelvin - 273.15, -55, 150));
    });
}

/// A PT1000 behind an amplifier that maps 800..1824 Ω to the converter's range: hundredths of a degree Celsius, by the
/// Callendar–Van Dusen equation without its term for temperatures far below zero.
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

/// What a lamp's duty cycle (of 8191) must be for an eye to see `index` of 4095 parts of full brightness.
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

/// When in a half wave of the mains (0..8191) a triac must fire for a heater to give `index` of 4095 parts of its power:
/// the root of 1 − a/π + sin(2a)/2π = power, by bisection.
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

/// How warm the supply should be for a room of 20 °C, in hundredths of a degree: rows of 121 outside temperatures (−30 °C
/// to +30 °C in half degrees) for slopes from 0.20 to 3.35 in steps of 0.05. A radiator gives heat as the 1.3th power of
/// what it is warmer than the room.
constexpr unsigned heatingSlopes = 64, heatingColumns = 121;

consteval auto heatingCurves() {
    return tabulate<int16_t, heatingSlopes * heatingColumns>([](unsigned index) {
        const double slope = 0.2 + 0.05 * (index / heatingColumns);
        const double missing = clamped(20 - (-30 + 0.5 * (index % heatingColumns)), 0, 50);
        return rounded(100 * clamped(20 + slope * 2 * __builtin_pow(missing, 1 / 1.3), 20, 75));
    });
}
