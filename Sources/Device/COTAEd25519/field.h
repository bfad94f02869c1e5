/* The field of Curve25519: numbers modulo p = 2^255 - 19 (RFC 8032, 5.1). */
#ifndef OTA_FIELD_H
#define OTA_FIELD_H

#include <stdbool.h>
#include <stdint.h>

enum { OTA_WORDS = 8 };

/* A number below 2^256, modulo p. The least significant word is first. A result may be the same object as an operand. */
struct ota_field {
    uint32_t words[OTA_WORDS];
};

/* Reads a number of 32 bytes, the least significant byte first. */
void ota_words_read(uint32_t words[OTA_WORDS], const uint8_t bytes[32]);

void ota_field_add(struct ota_field *sum, const struct ota_field *a, const struct ota_field *b);
void ota_field_subtract(struct ota_field *difference, const struct ota_field *a, const struct ota_field *b);
void ota_field_multiply(struct ota_field *product, const struct ota_field *a, const struct ota_field *b);

/* Computes base^(2^252 - 3), for square roots and for the inverse. */
void ota_field_power(struct ota_field *power, const struct ota_field *base);
/* Computes 1 / number. The result for 0 is 0. */
void ota_field_invert(struct ota_field *inverse, const struct ota_field *number);

/* Makes the number smaller than p. */
void ota_field_reduce(struct ota_field *number);
bool ota_field_is_zero(const struct ota_field *number);

#endif
