#include "ota_ed25519.h"

#include <string.h>

#include "field.h"
#include "sha512.h"

/* A point of the curve -x^2 + y^2 = 1 + d x^2 y^2 in extended coordinates: x = X / Z, y = Y / Z, x y = T / Z (RFC 8032,
 * 5.1.4). */
struct point {
    struct ota_field x, y, z, t;
};

static const struct ota_field one = {{1}};
/* The constant d of the curve, and a square root of -1. */
static const struct ota_field d = {
    {0x135978a3u, 0x75eb4dcau, 0x4141d8abu, 0x00700a4du, 0x7779e898u, 0x8cc74079u, 0x2b6ffe73u, 0x52036ceeu}};
static const struct ota_field root_of_minus_one = {
    {0x4a0ea0b0u, 0xc4ee1b27u, 0xad2fe478u, 0x2f431806u, 0x3dfbd7a7u, 0x2b4d0099u, 0x4fc1df0bu, 0x2b832480u}};
static const struct point base = {
    {{0x8f25d51au, 0xc9562d60u, 0x9525a7b2u, 0x692cc760u, 0xfdd6dc5cu, 0xc0a4e231u, 0xcd6e53feu, 0x216936d3u}},
    {{0x66666658u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u, 0x66666666u}},
    {{1}},
    {{0xa5b7dda3u, 0x6dde8ab3u, 0x775152f5u, 0x20f09f80u, 0x64abe37du, 0x66ea4e8eu, 0xd78b7665u, 0x67875f0fu}}};
/* The group order L. */
static const uint32_t order[OTA_WORDS] = {0x5cf5d3edu, 0x5812631au, 0xa2f79cd6u, 0x14def9deu, 0x00000000u, 0x00000000u, 0x00000000u, 0x10000000u};

/* ---- Points ---- */

/* The formula of RFC 8032, 5.1.4. It is complete: it also doubles a point, and adds the neutral point. */
static void add(struct point *sum, const struct point *p, const struct point *q) {
    struct ota_field a, b, c, e;
    ota_field_subtract(&a, &p->y, &p->x);
    ota_field_subtract(&b, &q->y, &q->x);
    ota_field_multiply(&a, &a, &b);
    ota_field_add(&b, &p->y, &p->x);
    ota_field_add(&c, &q->y, &q->x);
    ota_field_multiply(&b, &b, &c);
    ota_field_multiply(&c, &p->t, &q->t);
    ota_field_multiply(&c, &c, &d);
    ota_field_add(&c, &c, &c);
    ota_field_multiply(&e, &p->z, &q->z);
    ota_field_add(&e, &e, &e);
    /* The names of RFC 8032: a = A, b = B, c = C, e = D. */
    struct ota_field f, g;
    ota_field_subtract(&f, &e, &c);
    ota_field_add(&g, &e, &c);
    ota_field_subtract(&e, &b, &a);
    ota_field_add(&b, &b, &a); /* H */
    ota_field_multiply(&sum->x, &e, &f);
    ota_field_multiply(&sum->y, &g, &b);
    ota_field_multiply(&sum->t, &e, &b);
    ota_field_multiply(&sum->z, &f, &g);
}

/* Writes the encoding of a point (RFC 8032, 5.1.2). */
static void encode(const struct point *point, uint8_t bytes[32]) {
    struct ota_field x, y;
    ota_field_invert(&y, &point->z);
    ota_field_multiply(&x, &point->x, &y);
    ota_field_multiply(&y, &point->y, &y);
    ota_field_reduce(&x);
    ota_field_reduce(&y);
    y.words[OTA_WORDS - 1] |= x.words[0] << 31;
    for (uint32_t i = 0; i < 32; i++) bytes[i] = (uint8_t)(y.words[i / 4] >> 8 * (i % 4));
}

/* Finds x with v x^2 = u (RFC 8032, 5.1.3). Returns false if there is none. */
static bool square_root(struct ota_field *x, const struct ota_field *u, const struct ota_field *v) {
    struct ota_field cube, check;
    ota_field_multiply(&check, v, v);
    ota_field_multiply(&cube, &check, v);  /* v^3 */
    ota_field_multiply(&check, &cube, &cube);
    ota_field_multiply(&check, &check, v); /* v^7 */
    ota_field_multiply(&check, &check, u);
    ota_field_power(&check, &check);
    ota_field_multiply(x, &check, &cube);
    ota_field_multiply(x, x, u);
    ota_field_multiply(&check, x, x);
    ota_field_multiply(&check, &check, v);
    ota_field_subtract(&cube, &check, u);
    if (ota_field_is_zero(&cube)) return true;
    ota_field_multiply(x, x, &root_of_minus_one);
    ota_field_add(&check, &check, u);
    return ota_field_is_zero(&check);
}

/* Decodes a point, and negates it. Returns false if the bytes are not the canonical encoding of a point. It accepts x = 0
 * with the sign 1, because both points with x = 0 have a small order. */
static bool decode_negated(struct point *point, const uint8_t bytes[32]) {
    struct ota_field u = {{0}}, v;
    ota_words_read(u.words, bytes);
    uint32_t sign = u.words[OTA_WORDS - 1] >> 31;
    u.words[OTA_WORDS - 1] &= 0x7FFFFFFFu;
    point->y = u;
    ota_field_reduce(&u);
    if (memcmp(&u, &point->y, sizeof u) != 0) return false; /* y >= p */
    ota_field_multiply(&v, &u, &u);
    ota_field_subtract(&u, &v, &one);
    ota_field_multiply(&v, &v, &d);
    ota_field_add(&v, &v, &one);
    if (!square_root(&point->x, &u, &v)) return false;
    ota_field_reduce(&point->x);
    if ((point->x.words[0] & 1) == sign) {
        memset(&u, 0, sizeof u);
        ota_field_subtract(&point->x, &u, &point->x);
    }
    point->z = one;
    ota_field_multiply(&point->t, &point->x, &point->y);
    return true;
}

/* Returns whether [8]P is the neutral point. This is so exactly if the order of [4]P is 1 or 2, and only the points of
 * these orders have x = 0. */
static bool has_small_order(const struct point *point) {
    struct point multiple;
    add(&multiple, point, point);
    add(&multiple, &multiple, &multiple);
    return ota_field_is_zero(&multiple.x);
}

/* ---- Scalars: numbers modulo the group order ---- */

static bool is_below_order(const uint32_t scalar[OTA_WORDS]) {
    for (uint32_t i = OTA_WORDS; i-- > 0;) {
        if (scalar[i] != order[i]) return scalar[i] < order[i];
    }
    return false;
}

/* Computes the digest, as a number with the least significant byte first, modulo the group order: bit by bit, because
 * this takes less code and little time. */
static void reduce_digest(uint32_t scalar[OTA_WORDS], const uint8_t digest[OTA_SHA512_SIZE]) {
    memset(scalar, 0, OTA_WORDS * sizeof *scalar);
    for (uint32_t bit = 8 * OTA_SHA512_SIZE; bit-- > 0;) {
        uint32_t carry = digest[bit / 8] >> bit % 8 & 1u;
        for (uint32_t i = 0; i < OTA_WORDS; i++) {
            uint32_t high = scalar[i] >> 31;
            scalar[i] = scalar[i] << 1 | carry;
            carry = high;
        }
        if (is_below_order(scalar)) continue;
        /* Subtracts the order: adds its complement and 1. */
        uint64_t sum = 1;
        for (uint32_t i = 0; i < OTA_WORDS; i++) {
            sum += (uint64_t)scalar[i] + (uint32_t)~order[i];
            scalar[i] = (uint32_t)sum;
            sum >>= 32;
        }
    }
}

/* Computes k = SHA-512(R || A || M) modulo the group order. */
static void challenge(uint32_t scalar[OTA_WORDS], const uint8_t *r, const uint8_t *public_key, const uint8_t *message,
                      uint32_t count) {
    struct ota_sha512 hash;
    uint8_t digest[OTA_SHA512_SIZE];
    ota_sha512_start(&hash);
    ota_sha512_update(&hash, r, 32);
    ota_sha512_update(&hash, public_key, OTA_ED25519_KEY_SIZE);
    ota_sha512_update(&hash, message, count);
    ota_sha512_finish(&hash, digest);
    reduce_digest(scalar, digest);
}

/* Computes [s]B + [k]P. Both scalars are below 2^253. */
static void multiply(struct point *sum, const uint32_t s[OTA_WORDS], const uint32_t k[OTA_WORDS], const struct point *p) {
    struct point both;
    add(&both, &base, p);
    memset(sum, 0, sizeof *sum);
    sum->y = sum->z = one;
    for (uint32_t bit = 253; bit-- > 0;) {
        bool adds_base = s[bit / 32] >> bit % 32 & 1, adds_point = k[bit / 32] >> bit % 32 & 1;
        add(sum, sum, sum);
        if (adds_base && adds_point) {
            add(sum, sum, &both);
        } else if (adds_base) {
            add(sum, sum, &base);
        } else if (adds_point) {
            add(sum, sum, p);
        }
    }
}

bool ota_ed25519_verify(const uint8_t public_key[OTA_ED25519_KEY_SIZE], const uint8_t *message, uint32_t count,
                        const uint8_t *signature, uint32_t signature_size) {
    struct point negated_key, sum;
    uint32_t s[OTA_WORDS], k[OTA_WORDS];
    uint8_t r[32];
    if (signature_size != OTA_ED25519_SIGNATURE_SIZE) return false;
    ota_words_read(s, signature + 32);
    if (!is_below_order(s) || !decode_negated(&negated_key, public_key) || has_small_order(&negated_key)) return false;
    challenge(k, signature, public_key, message, count);
    /* R = [s]B - [k]A. The comparison of the bytes accepts only the canonical encoding of R. */
    multiply(&sum, s, k, &negated_key);
    encode(&sum, r);
    return memcmp(r, signature, sizeof r) == 0;
}
