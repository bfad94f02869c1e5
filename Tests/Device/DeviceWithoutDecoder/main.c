/*
 * Tests the device core without the decoder for encoded images (OTA_ENCODINGS 0). SwiftPM builds each C target once, with
 * the decoder, so this program is not a target: scripts/test-without-decoder builds it.
 *
 * The program uses the device of Tests/Device/DeviceFuzz. Its arguments are files with inputs of the fuzz target `device`.
 */
#include "bench.h"
#include "device_fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if OTA_ENCODINGS
#error "Define OTA_ENCODINGS as 0."
#endif

enum { RANDOM_INPUTS = 20000, INPUT_LARGEST = 4096, INFO_ENCODINGS = 11 };

static int failures;

static void expect(bool holds, const char *behaviour) {
    if (holds) return;
    fprintf(stderr, "FAILED: %s\n", behaviour);
    failures++;
}

static struct bench *connected_bench(void) {
    /* The configuration has a decoder and a base. */
    static const uint8_t settings[4] = {2, 1 | 32 | 64, 2, 0xFF};
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench) exit(2);
    bench_start(bench, settings);
    if (!bench->page) exit(2);
    ota_device_connected(&bench->device, 1, bench->now);
    ota_device_subscribed(&bench->device, 1, OTA_CONTROL, true, bench->now);
    settle(bench);
    return bench;
}

static void end(struct bench *bench) {
    expect(bench->finding == NULL, bench->finding ? bench->finding : "");
    free(bench->page);
    free(bench);
}

static void info_offers_no_encoding(void) {
    struct bench *bench = connected_bench();
    uint8_t info[OTA_INFO_LARGEST];
    uint16_t count = 0;
    expect(ota_device_read(&bench->device, 1, OTA_INFO, 0, info, sizeof info, &count) == OTA_ATT_OK && count > 2,
           "Info can be read");
    for (uint32_t at = 0; at + 2 <= count; at += 2u + info[at + 1])
        expect(info[at] != INFO_ENCODINGS, "Info contains no encodings, although a decoder is configured");
    end(bench);
}

static void read_progress(struct bench *bench, uint8_t progress[12]) {
    uint16_t count = 0;
    expect(ota_device_read(&bench->device, 1, OTA_PROGRESS, 0, progress, 12, &count) == OTA_ATT_OK && count == 12,
           "Progress can be read");
}

static void begin_of_an_encoded_image_is_refused(void) {
    struct bench *bench = connected_bench();
    const struct release *release = &bench->releases[1];
    uint8_t before[12], after[12];
    read_progress(bench, before);
    expect(begin_encoded(bench, 1, 0, 0) == OTA_BAD_ARGUMENT, "BEGIN of an encoded image: bad argument in state idle");
    read_progress(bench, after);
    expect(memcmp(before, after, sizeof before) == 0, "the refused BEGIN does not change the state idle");

    expect(submit(bench, 1, release) == OTA_OK, "the envelope is accepted");
    expect(begin(bench, 1, OTA_OBJECT_IMAGE, release, UINT32_MAX) == OTA_OK, "BEGIN of the plain image is accepted");
    expect(send_next(bench, 1, release, 300), "the image is open");
    read_progress(bench, before);
    expect(begin_encoded(bench, 1, UINT32_MAX, 0) == OTA_BAD_ARGUMENT,
           "BEGIN of an encoded image: bad argument while an image is open");
    expect(begin_encoded(bench, 1, UINT32_MAX, SLOT_SIZE) == OTA_BAD_ARGUMENT,
           "BEGIN of a delta: bad argument while an image is open");
    read_progress(bench, after);
    expect(memcmp(before, after, sizeof before) == 0, "the refused BEGIN does not change the open image");
    end(bench);
}

static void plain_update_succeeds(void) {
    struct bench *bench = connected_bench();
    update_correctly(bench, &bench->releases[1]);
    end(bench);
}

static void play(const char *name, const uint8_t *bytes, size_t count) {
    const char *finding = device_fuzz(bytes, count);
    if (!finding) return;
    fprintf(stderr, "%s: ", name);
    expect(false, finding);
}

static void play_file(const char *path) {
    static uint8_t bytes[INPUT_LARGEST];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    play(path, bytes, count);
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void play_random_inputs(void) {
    uint64_t state = 1;
    for (uint32_t i = 0; i < RANDOM_INPUTS && failures == 0; i++) {
        uint8_t bytes[400];
        char name[40];
        for (uint32_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)(next_random(&state) >> 24);
        snprintf(name, sizeof name, "random input %u", (unsigned)i);
        play(name, bytes, 4 + next_random(&state) % (sizeof bytes - 4));
    }
}

int main(int count, char **arguments) {
    info_offers_no_encoding();
    begin_of_an_encoded_image_is_refused();
    plain_update_succeeds();
    for (int i = 1; i < count; i++) play_file(arguments[i]);
    play_random_inputs();
    if (failures > 0) return 1;
    printf("ok: 3 tests, %d inputs of the corpus and %d random inputs\n", count - 1, (int)RANDOM_INPUTS);
    return 0;
}
