#include "device_fuzz.h"

#include "bench.h"

#include <stdlib.h>

/* The settings: 4 bytes for the bench, the size of the base, the number of plain bytes before the stream, the release,
 * and the sizes of the values. */
enum { BENCH = 4, BASE = BENCH, HELD, RELEASE, SIZE, SETTINGS };

/* Sends a value, and checks the work that it caused. */
static void send_checked(struct bench *bench, const uint8_t *bytes, uint32_t count, uint32_t image_size) {
    uint32_t held = bench->device.held_offset, reads = bench->flash.reads, changes = bench->flash.changes;
    send_value(bench, 1, bytes, count);
    if (bench->device.held_offset < held) held = bench->device.held_offset;
    uint32_t plain = bench->device.held_offset - held, pages = plain / bench->config.page_size + 1;
    find(bench, bench->device.held_offset <= image_size, "decoder: more bytes than the image has");
    find(bench, bench->flash.reads - reads <= plain + 2 + pages, "decoder: too many reads for a value");
    find(bench, bench->flash.changes - changes <= 6 * pages, "decoder: too many writes and erases for a value");
    uint8_t state = bench->device.state, status = bench->device.status;
    find(bench, state == OTA_STATE_IMAGE || (state == OTA_STATE_ACCEPTED && status == OTA_NOT_DECODED),
         "decoder: another state than image, or accepted after a failure");
}

static void send_image(struct bench *bench, const uint8_t *settings, const uint8_t *bytes, size_t count) {
    const struct release *release = &bench->releases[settings[RELEASE] % RELEASES];
    ota_device_connected(&bench->device, 1, bench->now);
    ota_device_subscribed(&bench->device, 1, OTA_CONTROL, true, bench->now);
    settle(bench);
    (void)submit(bench, 1, release);
    (void)begin(bench, 1, OTA_OBJECT_IMAGE, release, UINT32_MAX);
    uint32_t held = 7u * settings[HELD];
    while (bench->device.held_offset < held && send_next(bench, 1, release, held - bench->device.held_offset)) {}
    int status = begin_encoded(bench, 1, UINT32_MAX, 9u * settings[BASE]);
    find(bench, status == OTA_OK, "decoder: BEGIN is refused");
    for (uint32_t i = 0; count > 0 && bench->device.state == OTA_STATE_IMAGE && !bench->finding; i++) {
        /* The sizes repeat: two bits for each of four values. */
        static const uint8_t sizes[4] = {1, 13, 40, 255};
        uint32_t size = sizes[settings[SIZE] >> 2 * (i & 3) & 3];
        if (size > count) size = (uint32_t)count;
        if (size > bench->config.longest_data - 2u) size = bench->config.longest_data - 2u;
        send_checked(bench, bytes, size, release->image_size);
        bytes += size;
        count -= size;
    }
}

const char *decoder_fuzz(const uint8_t *bytes, size_t count) {
    if (count < SETTINGS) return NULL;
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench) return NULL;
    uint8_t settings[BENCH] = {bytes[0], (uint8_t)(bytes[1] | 32 | 64), bytes[2], 0xFF};
    bench_start(bench, settings);
    if (bench->page) send_image(bench, bytes, bytes + SETTINGS, count - SETTINGS);
    if (bench->page && !bench->finding) {
        boot(bench);
        update_correctly(bench, &bench->releases[2]);
    }
    const char *finding = bench->finding;
    free(bench->page);
    free(bench);
    return finding;
}
