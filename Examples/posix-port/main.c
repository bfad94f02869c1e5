/*
 * An example port of the device core. README.md lists what real firmware replaces. The "Bluetooth stack" is a pair of
 * pipes. stdin has the events of the stack, and stdout has the notifications and the answers: frames of { length u16,
 * kind u8, value }, little-endian. The length counts kind and value.
 *
 *   stdin:  c connection u16 (connected)        d connection u16 (disconnected)
 *           s connection u16, characteristic u8, on u8 (subscribed)
 *           w connection u16, value (write of Control)      v connection u16, value (write of Data)
 *           r connection u16, characteristic u8 (read)
 *   stdout: b (booted: all connections are gone)
 *           n connection u16, characteristic u8, value (notification)
 *           a ATT error u8, value (the answer to w and r)
 *
 *     posix-port FLASH-FILE [POWER-CUT]
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "boot.h"
#include "flash.h"
#include "ota_device.h"
#include "ota_ed25519.h"
#include "release_key.h" /* otaflash inspect release.pub.pem --c-array > release_key.h */

static struct boot state;
static bool wants_reboot;

/* ---- The port ---- */

static int running_slot(void) { return state.trial == TRIAL_RUNS ? 1 - state.permanent : state.permanent; }

static uint32_t start_of(enum ota_area area) {
    int slot = area == OTA_AREA_BASE ? running_slot() : 1 - running_slot();
    return area == OTA_AREA_RECORD ? (uint32_t)RECORD_AREA : SLOTS + (uint32_t)slot * SLOT_SIZE;
}

static bool read_flash(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count) {
    (void)context;
    return flash_read(start_of(area) + offset, bytes, count);
}

static bool write_flash(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    (void)context;
    return flash_write(start_of(area) + offset, bytes, count);
}

static bool erase_flash(void *context, enum ota_area area, uint32_t offset) {
    (void)context;
    return flash_erase(start_of(area) + offset);
}

static void hash_start(void *context) {
    (void)context;
    sha256_start();
}

static void hash_update(void *context, const uint8_t *bytes, uint32_t count) {
    (void)context;
    sha256_update(bytes, count);
}

static bool hash_finish(void *context, uint8_t digest[OTA_DIGEST_SIZE]) {
    (void)context;
    return sha256_finish(digest);
}

static bool verify(void *context, uint8_t key, enum ota_algorithm algorithm, const uint8_t *message, uint32_t count,
                   const uint8_t *signature, uint32_t signature_size) {
    (void)context;
    (void)key; /* there is one key */
    return algorithm == OTA_ED25519 && ota_ed25519_verify(public_key, message, count, signature, signature_size);
}

static bool put_frame(char kind, const uint8_t *head, size_t head_size, const uint8_t *bytes, size_t count) {
    size_t length = 1 + head_size + count;
    putchar((int)(length & 0xFF));
    putchar((int)(length >> 8));
    putchar(kind);
    for (size_t i = 0; i < head_size; i++) putchar(head[i]);
    for (size_t i = 0; i < count; i++) putchar(bytes[i]);
    return fflush(stdout) == 0;
}

static bool notify(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count) {
    (void)context;
    uint8_t head[] = {(uint8_t)connection, (uint8_t)(connection >> 8), (uint8_t)characteristic};
    return put_frame('n', head, sizeof head, bytes, count); /* a real stack has few buffers: false if none is free */
}

static bool mark(void *context, enum ota_boot how, const struct ota_manifest *manifest) {
    (void)context;
    if (how != OTA_BOOT_TRIAL) return false; /* `permanent_allowed` is not set */
    struct image image = {.size = manifest->image_size, .counter = manifest->security_counter};
    memcpy(image.digest, manifest->image_digest, sizeof image.digest);
    memcpy(image.manifest, manifest->digest, sizeof image.manifest);
    memcpy(image.version, manifest->version, manifest->version_size);
    return boot_mark(&state, &image);
}

static bool confirm(void *context, uint32_t security_counter, const uint8_t *digest) {
    (void)context;
    (void)security_counter; /* the record of the image has both */
    (void)digest;
    return boot_confirm(&state);
}

static void roll_back(void *context) { (void)context; /* nothing: every boot without CONFIRM rolls back */ }

static void reboot(void *context) {
    (void)context;
    wants_reboot = true;
}

static void identify(void *context, uint8_t seconds) {
    (void)context;
    fprintf(stderr, "blinks for %u s\n", seconds);
}

/* Real firmware also has `self_test_passed`: the core answers CONFIRM with "busy" until the new image works. */
static const struct ota_port port = {
    .read = read_flash,           .write = write_flash,         .erase = erase_flash, .hash_start = hash_start,
    .hash_update = hash_update,   .hash_finish = hash_finish,   .verify = verify,     .notify = notify,
    .mark = mark,                 .confirm = confirm,           .roll_back = roll_back, .reboot = reboot,
    .identify = identify,
};

/* ---- The description of the device ---- */

static struct ota_decoder decoder;
static uint8_t envelope[OTA_ENVELOPE_DEFAULT];
static struct ota_config config = {
    .product = "demo",
    .key_ids = key_id,
    .key_count = 1,
    .envelope = envelope,
    .largest_envelope = sizeof envelope,
    .image_format = OTA_FORMAT_RAW,
    .hardware = 2,
    .largest_image = SLOT_SIZE,
    .longest_data = 244,
    .window = 16,
    .restart_seconds = 2,
    .trial_seconds = 120,
    .page_size = PAGE_SIZE,
    .slot_size = SLOT_SIZE,
    .write_unit = WRITE_UNIT,
    .decoder = &decoder,
    .base_size = SLOT_SIZE,
    .largest_counter_step = 1000,
};

static void describe_boot(void) {
    const struct image *image = &state.images[running_slot()];
    static const uint8_t none[OTA_DIGEST_SIZE];
    /* Real firmware has its version and its counter as constants (docs/device-integration.md, 7). */
    config.version = image->version;
    config.running_digest = memcmp(image->manifest, none, sizeof none) == 0 ? NULL : image->manifest;
    config.security_counter = state.images[state.permanent].counter;
    config.trial_security_counter = image->counter;
    config.on_trial = state.trial == TRIAL_RUNS;
}

/* ---- The thread ---- */

static struct ota_device device;
static uint8_t page[PAGE_SIZE] __attribute__((aligned(8))); /* many flash drivers read whole words */

static uint32_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec * 1000 + (uint32_t)(now.tv_nsec / 1000000);
}

static void handle(const uint8_t *frame, size_t size) {
    uint16_t connection = size >= 3 ? (uint16_t)(frame[1] | frame[2] << 8) : 0;
    const uint8_t *bytes = frame + 3;
    uint16_t count = (uint16_t)(size >= 3 ? size - 3 : 0);
    uint32_t now = milliseconds();
    switch (size >= 3 ? frame[0] : 0) {
    case 'c': (void)ota_device_connected(&device, connection, now); break;
    case 'd': ota_device_disconnected(&device, connection, now); break;
    case 's':
        if (count != 2) break;
        ota_device_subscribed(&device, connection, (enum ota_characteristic)bytes[0], bytes[1] != 0, now);
        break;
    case 'v': ota_device_write_data(&device, connection, bytes, count, now); break;
    case 'w': {
        uint8_t error = (uint8_t)ota_device_write_control(&device, connection, bytes, count, now);
        (void)put_frame('a', &error, 1, NULL, 0);
        break;
    }
    case 'r': {
        uint8_t value[OTA_INFO_LARGEST];
        uint16_t length = 0;
        enum ota_characteristic from = count == 1 ? (enum ota_characteristic)bytes[0] : OTA_CONTROL;
        uint8_t error = (uint8_t)ota_device_read(&device, connection, from, 0, value, sizeof value, &length);
        (void)put_frame('a', &error, 1, value, error == OTA_ATT_OK ? length : 0);
        break;
    }
    default: break;
    }
}

/* Runs the firmware until it restarts (true) or stdin ends (false). Real firmware feeds its watchdog here, but only if the
 * radio and the application have reported since the last time, so that the trial of an image that hangs also ends. */
static bool run(void) {
    static uint8_t frame[UINT16_MAX];
    uint8_t length[2];
    while (!wants_reboot) {
        uint32_t wait = ota_device_poll(&device, milliseconds());
        if (wants_reboot) break;
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&input, 1, wait > 1000 ? 1000 : (int)wait) <= 0) continue;
        if (fread(length, 1, 2, stdin) != 2) return false;
        size_t size = length[0] | (size_t)length[1] << 8;
        if (fread(frame, 1, size, stdin) != size) return false;
        handle(frame, size);
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc < 2 || !flash_open(argv[1], argc > 2 ? strtoul(argv[2], NULL, 10) : 0)) {
        fputs("usage: posix-port FLASH-FILE [POWER-CUT]\n", stderr);
        return 64;
    }
    if (setvbuf(stdin, NULL, _IONBF, 0) != 0) return 70; /* poll does not see bytes in a buffer */
    do {
        wants_reboot = false;
        if (!boot(&state)) {
            fputs("no image can run: the flash or its records are damaged\n", stderr);
            return 70;
        }
        describe_boot();
        enum ota_start_error error = ota_device_start(&device, &config, &port, NULL, page, milliseconds());
        /* Without a core, only this code can end a trial: the next boot rolls back. */
        if (error != OTA_START_OK && error != OTA_START_FLASH) {
            fprintf(stderr, "the core did not start: %d\n", error);
            if (!config.on_trial) return 70;
            wants_reboot = true;
            continue;
        }
        (void)put_frame('b', NULL, 0, NULL, 0);
    } while (run());
    return 0;
}
