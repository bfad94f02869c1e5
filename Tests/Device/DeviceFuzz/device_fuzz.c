#include "device_fuzz.h"

#include "bench.h"

#include <stdlib.h>
#include <string.h>

struct input {
    const uint8_t *bytes;
    size_t left;
};

static uint8_t take(struct input *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->bytes++;
}

static uint32_t take_number(struct input *input) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value = value << 8 | take(input);
    return value;
}

/* Writes a value from memory of exactly its size, so that the sanitizer detects a read beyond the end. */
static void write_raw(struct bench *bench, struct input *input, uint16_t connection, bool is_control) {
    size_t count = take(input);
    if (!is_control) count *= 3;
    if (count > input->left) count = input->left;
    uint8_t *value = malloc(count > 0 ? count : 1);
    if (!value) return;
    for (size_t i = 0; i < count; i++) value[i] = take(input);
    if (is_control) {
        (void)ota_device_write_control(&bench->device, connection, value, (uint16_t)count, bench->now);
    } else {
        ota_device_write_data(&bench->device, connection, value, (uint16_t)count, bench->now);
    }
    free(value);
}

static void read_value(struct bench *bench, struct input *input, uint16_t connection) {
    enum ota_characteristic characteristic = (enum ota_characteristic)(take(input) & 7);
    uint16_t offset = (uint16_t)(2 * take(input)), capacity = (uint16_t)(2 * take(input)), count = 0;
    uint8_t *value = malloc(capacity > 0 ? capacity : 1);
    if (!value) return;
    (void)ota_device_read(&bench->device, connection, characteristic, offset, value, capacity, &count);
    find(bench, count <= capacity, "read: more bytes than the capacity");
    free(value);
}

static void fail(struct bench *bench, uint8_t what) {
    bench->flash.failing = what & 15;
    bench->flash.fails_halfway = (what & 128) != 0;
    bench->mark_fails = (what & 16) != 0;
    bench->confirm_fails = (what & 32) != 0;
    bench->hash_fails = (what & 64) != 0;
}

static void set_policy(struct bench *bench, uint8_t what) {
    bench->has_buffers = (what & 1) == 0;
    bench->self_test_passed = (what & 2) == 0;
    bench->is_too_old = (what & 4) != 0;
    bench->permits = (what & 8) == 0;
}

static void cut_power(struct bench *bench, uint8_t what) {
    bench->flash.operations_left = 1u + what / 3u;
    bench->flash.moment = (enum moment)(what % 3);
}

/* Sends a well-formed request. The input chooses opcode and arguments. */
static void ask(struct bench *bench, struct input *input, uint16_t connection) {
    static const uint16_t sizes[8] = {2, 2, 4, 2, 3, 2, 2, 3};
    uint8_t opcode = take(input) & 7;
    uint8_t bytes[4] = {opcode, 1, take(input), take(input)};
    (void)request(bench, connection, bytes, sizes[opcode]);
}

/* Sends the next bytes of the input as a Data value with the expected sequence. */
static void send_stream(struct bench *bench, struct input *input, uint16_t connection) {
    size_t count = 2u * take(input);
    if (count > input->left) count = input->left;
    const uint8_t *bytes = input->bytes;
    input->bytes += count;
    input->left -= count;
    send_value(bench, connection, bytes, (uint32_t)count);
}

/* Sends the next bytes of an encoded image as a copied chunk. */
static void send_copied(struct bench *bench, const struct release *release, uint32_t count) {
    uint8_t chunk[3 + UINT8_MAX + 1] = {2, 0, (uint8_t)count};
    uint32_t offset = bench->device.held_offset, longest = bench->config.longest_data;
    count++;
    if (3 + count > longest - 2 || offset > release->image_size || count > release->image_size - offset) return;
    memcpy(chunk + 3, release->image + offset, count);
    send_value(bench, 1, chunk, 3 + count);
}

/* Does one step. Its first byte chooses the action; the two highest bits choose the connection or the release.
 * Arguments follow. */
static void step(struct bench *bench, struct input *input) {
    uint8_t what = take(input);
    uint16_t connection = (uint16_t)(1 + (what >> 6));
    const struct release *release = &bench->releases[(what >> 6) % RELEASES];
    uint32_t now = bench->now;
    switch (what & 0x1F) {
    case 0: (void)ota_device_connected(&bench->device, connection, now); break;
    case 1: ota_device_disconnected(&bench->device, connection, now); break;
    case 2: {
        uint8_t argument = take(input);
        ota_device_subscribed(&bench->device, connection, (enum ota_characteristic)(argument & 7), argument < 200, now);
        break;
    }
    case 3: write_raw(bench, input, connection, true); break;
    case 4: write_raw(bench, input, connection, false); break;
    case 5: ask(bench, input, connection); break;
    case 6: (void)submit(bench, 1, release); break;
    case 7: (void)begin(bench, 1, OTA_OBJECT_IMAGE, release, UINT32_MAX); break;
    case 8: (void)begin(bench, 1, OTA_OBJECT_IMAGE, release, 4u * take(input)); break;
    case 9: (void)send_next(bench, 1, release, 1u + take(input)); break;
    case 10: {
        for (int i = take(input); i > 0 && send_next(bench, 1, release, 512); i--) {}
        break;
    }
    case 11: bench->now += take_number(input); break;
    case 12: bench->now += 100u * take(input); break;
    case 13: read_value(bench, input, connection); break;
    case 14: fail(bench, take(input)); break;
    case 15: set_policy(bench, take(input)); break;
    case 16: cut_power(bench, take(input)); break;
    case 17: boot(bench); break;
    case 18: {
        uint32_t from = 4u * take(input), base_size = 16u * take(input);
        (void)begin_encoded(bench, connection, what & 0x20 ? UINT32_MAX : from, base_size);
        break;
    }
    case 19: send_stream(bench, input, connection); break;
    case 20: send_copied(bench, release, take(input)); break;
    default: break;
    }
    settle(bench);
}

/* Removes all faults, ends a running trial, and waits until the wear limit allows all erases again. */
static void recover(struct bench *bench) {
    fail(bench, 0);
    set_policy(bench, 0);
    bench->flash.operations_left = 0;
    bench->now += 120000;
    settle(bench);
    boot(bench);
    bench->now += OTA_WEAR_BURST * OTA_WEAR_MINUTES * 60000u;
    settle(bench);
}

const char *device_fuzz(const uint8_t *bytes, size_t count) {
    if (count < 4) return NULL;
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench) return NULL;
    struct input input = {bytes + 4, count - 4};
    bench_start(bench, bytes);
    while (bench->page && input.left > 0 && !bench->finding) step(bench, &input);
    if (bench->page && !bench->finding) {
        recover(bench);
        update_correctly(bench, &bench->releases[2]);
    }
    const char *finding = bench->finding;
    free(bench->page);
    free(bench);
    return finding;
}
