#include "device.h"

#include "otaflash_keys.h"

struct bt_conn hosts[2] = {{.index = 0}, {.index = 1}};

const struct bt_gatt_attr *attribute(int index) { return &otaflash_service.attrs[index]; }

void settle(void) {
    for (int i = 0; i < 200; i++) otaflash_queue_step();
}

ssize_t write_attribute(struct bt_conn *host, int index, const void *bytes, uint16_t size) {
    return attribute(index)->write(host, attribute(index), bytes, size, 0, 0);
}

void subscribe(struct bt_conn *host, int ccc, bool on) {
    const struct STUB_CCC *managed = attribute(ccc)->user_data;
    ssize_t written = managed->cfg_write(host, attribute(ccc), on ? BT_GATT_CCC_NOTIFY : 0);
    if (written == 2) host->subscribed[ccc == CONTROL_CCC ? 0 : 1] = on;
}

void connect(struct bt_conn *host) {
    memset(host->subscribed, 0, sizeof host->subscribed);
    otaflash_callbacks.connected(host, 0);
}

void disconnect(struct bt_conn *host) { otaflash_callbacks.disconnected(host, 0x13); }

void prepare(void) {
    memset(&world, 0, sizeof world);
    memset(hosts, 0, sizeof hosts);
    hosts[1].index = 1;
    memset(world.record, 0xFF, sizeof world.record);
    world.writes_left = -1;
    world.has_buffer = world.self_test = true;
}

void start(void) {
    prepare();
    CHECK(stub_init() == 0 && otaflash_is_running());
}

static uint8_t *put(uint8_t *at, uint32_t value, int count) {
    for (int i = 0; i < count; i++) *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint8_t *put_text(uint8_t *at, uint16_t type, const char *text) {
    at = put(put(at, type, 2), (uint32_t)strlen(text), 2);
    memcpy(at, text, strlen(text));
    return at + strlen(text);
}

void make(struct release *release, uint8_t image, uint32_t counter, const char *version) {
    memset(release, 0, sizeof *release);
    release->counter = counter;
    release->version = version;
    for (int i = 0; i < IMAGE; i++) release->image[i] = (uint8_t)(i * 7 + image);
    memcpy(release->manifest, "OTAF\2\2", 6);
    put(release->manifest + 8, IMAGE, 4);
    put(release->manifest + 16, counter, 4);
    world_digest(release->image, IMAGE, release->manifest + 32);
    uint8_t *end = put_text(put_text(release->manifest + 64, 0x0002, version), 0x8001, CONFIG_OTAFLASH_PRODUCT);
    release->manifest_size = (uint16_t)(end - release->manifest);
    put(release->manifest + 6, release->manifest_size, 2);
}

int request(const uint8_t *bytes, uint16_t size) {
    world.notifications = 0;
    if (write_attribute(&hosts[0], CONTROL, bytes, size) != size) return -1;
    settle();
    return world.notifications > 0 && world.notified[0] == (0x80 | bytes[0]) ? world.notified[2] : -1;
}

int send_object(uint8_t object, const uint8_t *bytes, uint32_t size) {
    uint8_t begin[19] = {OTA_BEGIN, 1, object}, finish[2] = {OTA_FINISH, 2}, digest[32], progress[12], value[202];
    put(begin + 3, size, 4);
    world_digest(bytes, size, digest);
    memcpy(begin + 11, digest, 8);
    int status = request(begin, sizeof begin);
    for (uint32_t at = 0; status == OTA_OK && at < size;) {
        uint32_t count = MIN(200, size - at);
        CHECK(attribute(PROGRESS)->read(&hosts[0], attribute(PROGRESS), progress, 12, 0) == 12);
        memcpy(value, progress + 2, 2);
        memcpy(value + 2, bytes + at, count);
        CHECK(write_attribute(&hosts[0], DATA, value, (uint16_t)(2 + count)) == (ssize_t)(2 + count));
        settle();
        at += count;
    }
    return status == OTA_OK ? request(finish, sizeof finish) : status;
}

int send_envelope(const struct release *release, int key, bool is_valid) {
    uint8_t envelope[300];
    memcpy(envelope, release->manifest, release->manifest_size);
    uint8_t *end = put(put(put(envelope + release->manifest_size, 1, 4), OTA_ED25519, 2), 64, 2);
    memcpy(end, key_ids + 8 * key, 8);
    world_digest(release->manifest, release->manifest_size, end + 8);
    memcpy(end + 40, public_keys[key], 32);
    if (!is_valid) end[8] ^= 1;
    return send_object(OTA_OBJECT_ENVELOPE, envelope, (uint32_t)(end + 72 - envelope));
}
