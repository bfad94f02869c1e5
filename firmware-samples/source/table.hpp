// Tables that the compiler computes. The image contains the results.
#pragma once

#include <stdint.h>

template <typename Element, unsigned count>
struct Table {
    Element elements[count];

    constexpr Element operator[](unsigned index) const { return elements[index]; }
};

/// The table of `function(0)`, `function(1)` … `function(count - 1)`.
template <typename Element, unsigned count, typename Function>
consteval Table<Element, count> tabulate(Function function) {
    Table<Element, count> table{};
    for (unsigned index = 0; index < count; ++index) table.elements[index] = static_cast<Element>(function(index));
    return table;
}

constexpr int rounded(double value) { return static_cast<int>(value < 0 ? value - 0.5 : value + 0.5); }

constexpr double clamped(double value, double lowest, double highest) {
    return value < lowest ? lowest : value > highest ? highest : value;
}
