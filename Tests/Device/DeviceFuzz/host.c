#include "bench.h"

#include <stdlib.h>
#include <string.h>

static uint32_t number(const uint8_t *bytes, int count) {
    uint32_t value = 0;
    for (int i = count - 1; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

/* Reads Progress on a connection. Sets `progress` to zeros if there is no such connection. */
static void read_progress(struct bench *bench, uint16_t connection, uint8_t progress[12]) {
    uint16_t size;
    memset(progress, 0, 12);
    (void)ota_device_read(&bench->device, connection, OTA_PROGRESS, 0, progress, 12, &size);
}

int request(struct bench *bench, uint16_t connection, const uint8_t *bytes, uint16_t count) {
    uint8_t before[12], after[12];
    read_progress(bench, connection, before);
    bench->answer_size = 0;
    if (ota_device_write_control(&bench->device, connection, bytes, count, bench->now) != OTA_ATT_OK) return -1;
    settle(bench);
    if (bench->answer_size == 0 || bench->answer[0] != (0x80 | bytes[0]) || bench->answer[1] != bytes[1]) return -1;
    read_progress(bench, connection, after);
    find(bench, bench->answer[2] != OTA_WRONG_BASE || memcmp(before, after, sizeof before) == 0,
         "BEGIN: a refused base changes the position");
    return bench->answer[2];
}

int begin(struct bench *bench, uint16_t connection, enum ota_object object, const struct release *release,
          uint32_t from) {
    uint8_t bytes[19] = {OTA_BEGIN, 0x11, (uint8_t)object};
    bool is_image = object == OTA_OBJECT_IMAGE;
    uint32_t size = is_image ? release->image_size : release->manifest_size + 80;
    uint8_t digest[OTA_DIGEST_SIZE];
    digest_of(is_image ? release->image : release->envelope, size, digest);
    for (int i = 0; i < 4; i++) {
        bytes[3 + i] = (uint8_t)(size >> 8 * i);
        bytes[7 + i] = (uint8_t)(from >> 8 * i);
    }
    memcpy(bytes + 11, digest, OTA_PREFIX_SIZE);
    return request(bench, connection, bytes, sizeof bytes);
}

int begin_encoded(struct bench *bench, uint16_t connection, uint32_t from, uint32_t base_size) {
    uint8_t bytes[20] = {OTA_BEGIN, 0x12, OTA_OBJECT_ENCODED_IMAGE, OTA_ENCODING_LZMA2}, digest[OTA_DIGEST_SIZE];
    if (base_size > SLOT_SIZE) base_size = SLOT_SIZE;
    for (int i = 0; i < 4; i++) {
        bytes[4 + i] = (uint8_t)(from >> 8 * i);
        bytes[8 + i] = (uint8_t)(base_size >> 8 * i);
    }
    digest_of(bench->flash.slots[bench->running], base_size, digest);
    if (base_size > 0) memcpy(bytes + 12, digest, OTA_PREFIX_SIZE);
    return request(bench, connection, bytes, sizeof bytes);
}

void send_value(struct bench *bench, uint16_t connection, const uint8_t *bytes, uint32_t count) {
    uint8_t progress[12];
    uint16_t size;
    if (ota_device_read(&bench->device, connection, OTA_PROGRESS, 0, progress, sizeof progress, &size) != OTA_ATT_OK)
        return;
    if (count > bench->config.longest_data - 2u) count = bench->config.longest_data - 2u;
    uint8_t *value = malloc(2 + count);
    if (!value) return;
    memcpy(value, progress + 2, 2);
    memcpy(value + 2, bytes, count);
    ota_device_write_data(&bench->device, connection, value, (uint16_t)(2 + count), bench->now);
    free(value);
    settle(bench);
}

bool send_next(struct bench *bench, uint16_t connection, const struct release *release, uint32_t count) {
    uint8_t progress[12], chunk[512];
    uint16_t size;
    if (ota_device_read(&bench->device, connection, OTA_PROGRESS, 0, progress, sizeof progress, &size) != OTA_ATT_OK)
        return false;
    bool is_image = progress[0] == OTA_STATE_IMAGE;
    if (!is_image && progress[0] != OTA_STATE_ENVELOPE) return false;
    uint32_t offset = number(progress + 4, 4), end = is_image ? release->image_size : release->manifest_size + 80;
    if (offset >= end) return false;
    uint32_t longest = bench->config.longest_data - 2u, left = end - offset;
    if (count > longest) count = longest;
    if (count > left) count = left;
    memcpy(chunk, progress + 2, 2);
    memcpy(chunk + 2, (is_image ? release->image : release->envelope) + offset, count);
    ota_device_write_data(&bench->device, connection, chunk, (uint16_t)(2 + count), bench->now);
    settle(bench);
    return true;
}

static int simple(struct bench *bench, uint16_t connection, uint8_t opcode) {
    uint8_t bytes[2] = {opcode, 0x22};
    return request(bench, connection, bytes, sizeof bytes);
}

int submit(struct bench *bench, uint16_t connection, const struct release *release) {
    int status = begin(bench, connection, OTA_OBJECT_ENVELOPE, release, 0);
    if (status != OTA_OK) return status;
    for (int i = 0; i < 20 && send_next(bench, connection, release, 512); i++) {}
    return simple(bench, connection, OTA_FINISH);
}

/* Sends BEGIN to resume the image. */
static int begin_image(struct bench *bench, const struct release *release) {
    int status = begin(bench, 1, OTA_OBJECT_IMAGE, release, UINT32_MAX);
    if (status != OTA_OK || bench->answer_size < 13) return status;
    uint32_t offset = number(bench->answer + 5, 4);
    find(bench, offset <= release->image_size, "BEGIN: an offset beyond the image");
    return status;
}

static int try_image(struct bench *bench, const struct release *release) {
    int status = begin_image(bench, release);
    if (status != OTA_OK) return status;
    for (uint32_t i = 0; i <= release->image_size && send_next(bench, 1, release, 512); i++) {}
    return simple(bench, 1, OTA_FINISH);
}

void update_correctly(struct bench *bench, const struct release *release) {
    ota_device_connected(&bench->device, 1, bench->now);
    ota_device_subscribed(&bench->device, 1, OTA_CONTROL, true, bench->now);
    settle(bench);
    find(bench, submit(bench, 1, release) == OTA_OK, "recovery: the envelope is refused");
    int status = try_image(bench, release);
    /* The device held bytes of another image, and has discarded them now. */
    if (status == OTA_DIGEST_MISMATCH) status = try_image(bench, release);
    find(bench, status == OTA_OK, "recovery: the image is refused");
    uint8_t apply[3] = {OTA_APPLY, 0x33, bench->config.trial_seconds == 0};
    find(bench, request(bench, 1, apply, sizeof apply) == OTA_OK, "recovery: APPLY is refused");
    ota_device_disconnected(&bench->device, 1, bench->now);
    settle(bench);
    if (bench->trial == TRIAL_RUNNING) {
        ota_device_connected(&bench->device, 1, bench->now);
        ota_device_subscribed(&bench->device, 1, OTA_CONTROL, true, bench->now);
        find(bench, simple(bench, 1, OTA_CONFIRM) == OTA_OK, "recovery: CONFIRM is refused");
    }
    find(bench, bench->installed[bench->permanent] == release && bench->running == bench->permanent,
         "recovery: the new image is not permanent");
}
