#include "field.h"

/* 2^256 = 38 modulo p. */
enum { FOLD = 38 };

void ota_words_read(uint32_t words[OTA_WORDS], const uint8_t bytes[32]) {
    for (uint32_t i = 0; i < OTA_WORDS; i++) {
        const uint8_t *word = bytes + 4 * i;
        words[i] = (uint32_t)word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;
    }
}

/* Adds `carry`, and returns the new carry out of the most significant word. */
static uint64_t add_small(struct ota_field *number, uint64_t carry) {
    for (uint32_t i = 0; i < OTA_WORDS; i++) {
        carry += number->words[i];
        number->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return carry;
}

/* Adds `carry` * 2^256. `carry` is at most 38. The loop ends, because the number is small after a carry. */
static void fold(struct ota_field *number, uint64_t carry) {
    while (carry != 0) carry = add_small(number, FOLD * carry);
}

void ota_field_add(struct ota_field *sum, const struct ota_field *a, const struct ota_field *b) {
    uint64_t carry = 0;
    for (uint32_t i = 0; i < OTA_WORDS; i++) {
        carry += (uint64_t)a->words[i] + b->words[i];
        sum->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    fold(sum, carry);
}

void ota_field_subtract(struct ota_field *difference, const struct ota_field *a, const struct ota_field *b) {
    /* Adds 4p, so that no difference of two words is negative: the sum of (2^33 - 2) * 2^32i for i = 0..7, minus 74. */
    uint64_t carry = 0, addend = 0x1FFFFFFFEu - 74u;
    for (uint32_t i = 0; i < OTA_WORDS; i++) {
        carry += addend + a->words[i] - b->words[i];
        difference->words[i] = (uint32_t)carry;
        carry >>= 32;
        addend = 0x1FFFFFFFEu;
    }
    fold(difference, carry);
}

void ota_field_multiply(struct ota_field *product, const struct ota_field *a, const struct ota_field *b) {
    uint32_t wide[2 * OTA_WORDS] = {0};
    uint64_t carry = 0;
    for (uint32_t i = 0; i < OTA_WORDS; i++) {
        carry = 0;
        for (uint32_t j = 0; j < OTA_WORDS; j++) {
            /* At most (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1. */
            carry += (uint64_t)a->words[i] * b->words[j] + wide[i + j];
            wide[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        wide[i + OTA_WORDS] = (uint32_t)carry;
    }
    carry = 0;
    for (uint32_t i = 0; i < OTA_WORDS; i++) {
        carry += (uint64_t)wide[i + OTA_WORDS] * FOLD + wide[i];
        product->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    fold(product, carry);
}

static void square(struct ota_field *number, uint32_t times) {
    while (times-- > 0) ota_field_multiply(number, number, number);
}

void ota_field_power(struct ota_field *power, const struct ota_field *base) {
    /* The exponent 2^252 - 3 has 250 ones, then the digits 01. */
    struct ota_field result = *base;
    for (uint32_t i = 1; i < 250; i++) {
        square(&result, 1);
        ota_field_multiply(&result, &result, base);
    }
    square(&result, 2);
    ota_field_multiply(power, &result, base);
}

void ota_field_invert(struct ota_field *inverse, const struct ota_field *number) {
    /* p - 2 = 8 (2^252 - 3) + 3 */
    struct ota_field result;
    ota_field_power(&result, number);
    square(&result, 3);
    for (uint32_t i = 0; i < 3; i++) ota_field_multiply(&result, &result, number);
    *inverse = result;
}

void ota_field_reduce(struct ota_field *number) {
    const uint32_t high = 0x80000000u; /* 2^255 = 19 modulo p */
    uint32_t *last = &number->words[OTA_WORDS - 1];
    uint64_t nineteen = (*last & high) ? 19 : 0;
    *last &= ~high;
    (void)add_small(number, nineteen);
    /* Now the number is less than 2^255 + 19. It is p or more exactly if the number + 19 has bit 255. */
    struct ota_field sum = *number;
    (void)add_small(&sum, 19);
    if (sum.words[OTA_WORDS - 1] & high) {
        *number = sum;
        *last &= ~high;
    }
}

bool ota_field_is_zero(const struct ota_field *number) {
    struct ota_field reduced = *number;
    uint32_t bits = 0;
    ota_field_reduce(&reduced);
    for (uint32_t i = 0; i < OTA_WORDS; i++) bits |= reduced.words[i];
    return bits == 0;
}
