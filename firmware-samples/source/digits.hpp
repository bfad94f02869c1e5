// Numerals for a dot-matrix display, drawn by the compiler as seven segments.
#pragma once

#include "table.hpp"

enum Glyph : unsigned { minus = 10, blank = 11, degree = 12, glyphCount = 13 };

/// The segments of a numeral: bit 0 is the top bar, then clockwise, bit 6 the middle bar.
constexpr uint8_t segments[glyphCount] = {0x3F, 0x06, 0x5B, 0x4F, 0x66, 0x6D, 0x7D, 0x07, 0x7F, 0x6F, 0x40, 0x00, 0x63};

/// All glyphs of one size, row by row, eight pixels a byte, the leftmost in the highest bit.
template <unsigned width, unsigned height>
struct Digits {
    static constexpr unsigned bytesPerRow = width / 8;
    static constexpr unsigned bytesPerGlyph = bytesPerRow * height;

    static constexpr bool isLit(unsigned glyph, unsigned column, unsigned row) {
        constexpr unsigned stroke = width / 6, gap = width / 16, right = width - gap - stroke;
        constexpr unsigned middle = (height - stroke) / 2, bottom = height - gap - stroke;
        const uint8_t lit = segments[glyph];
        const auto within = [](unsigned value, unsigned first, unsigned count) {
            return value >= first && value < first + count;
        };
        const bool bar = within(column, gap + stroke / 2, right - gap);
        const bool upper = within(row, gap + stroke / 2, middle - gap), lower = within(row, middle, bottom - middle);
        return (lit & 0x01 && bar && within(row, gap, stroke)) ||
            (lit & 0x40 && bar && within(row, middle, stroke)) ||
            (lit & 0x08 && bar && within(row, bottom, stroke)) ||
            (lit & 0x02 && upper && within(column, right, stroke)) ||
            (lit & 0x04 && lower && within(column, right, stroke)) ||
            (lit & 0x20 && upper && within(column, gap, stroke)) ||
            (lit & 0x10 && lower && within(column, gap, stroke));
    }

    static constexpr auto bitmap = tabulate<uint8_t, glyphCount * bytesPerGlyph>([](unsigned index) {
        const unsigned glyph = index / bytesPerGlyph, row = index % bytesPerGlyph / bytesPerRow;
        unsigned byte = 0;
        for (unsigned pixel = 0; pixel < 8; ++pixel)
            byte = byte << 1 | (isLit(glyph, index % bytesPerRow * 8 + pixel, row) ? 1 : 0);
        return byte;
    });
};

/// A display of 128 by 64 pixels, row by row, eight pixels a byte.
struct Display {
    uint8_t rows[64][16];

    template <unsigned width, unsigned height>
    void draw(unsigned glyph, unsigned leftByte, unsigned top) {
        using Font = Digits<width, height>;
        for (unsigned row = 0; row < height; ++row)
            for (unsigned byte = 0; byte < Font::bytesPerRow; ++byte)
                rows[top + row][leftByte + byte] =
                    Font::bitmap[glyph * Font::bytesPerGlyph + row * Font::bytesPerRow + byte];
    }

    /// Tenths as `-12.3°`, four numerals and a sign.
    template <unsigned width, unsigned height>
    void drawTenths(int tenths, unsigned leftByte, unsigned top) {
        constexpr unsigned step = width / 8;
        unsigned rest = static_cast<unsigned>(tenths < 0 ? -tenths : tenths);
        draw<width, height>(degree, leftByte + 4 * step, top);
        draw<width, height>(rest % 10, leftByte + 3 * step, top);
        rest /= 10;
        draw<width, height>(rest % 10, leftByte + 2 * step, top);
        rest /= 10;
        draw<width, height>(rest > 0 ? rest % 10 : blank, leftByte + step, top);
        draw<width, height>(tenths < 0 ? minus : blank, leftByte, top);
    }
};
