#include "device.h"

#include "otaflash_keys.h"

struct hook_values hook_values;
bool encrypts;

static void trial_started(void) { hook_values.trials++; }
static bool self_test_passed(void) { return hook_values.self_test; }
static uint8_t battery(void) { return hook_values.battery; }
static bool permits(const struct ota_manifest *manifest) { return hook_values.permits && manifest->image_size > 0; }
static void identify(uint8_t seconds) { hook_values.seconds = seconds; }
const struct otaflash_hooks test_hooks = {trial_started, self_test_passed, battery, permits, identify};

void settle(void) {
    for (int i = 0; i < 200; i++) otaflash_queue_step();
}

/* ---- The device ---- */

static struct release first;

void flash_image(int partition, const struct release *release) {
    memcpy(world.flash[partition], release->image, IMAGE);
    memset(world.is_written[partition], 1, IMAGE);
}

bool runs(const struct release *release) {
    return memcmp(world.flash[world.running], release->image, release->size) == 0;
}

void prepare(bool factory) {
    memset(&world, 0, sizeof world);
    hook_values = (struct hook_values){.self_test = true, .permits = true, .battery = OTA_NO_BATTERY};
    for (int i = 0; i < PARTITIONS; i++) {
        world.partitions[i] = (esp_partition_t){
            .type = ESP_PARTITION_TYPE_APP, .subtype = (esp_partition_subtype_t)(0x0F + i), .size = SLOT, .erase_size = 4096};
        world.partitions[i].encrypted = encrypts;
    }
    world.partitions[RECORDS] =
        (esp_partition_t){.type = ESP_PARTITION_TYPE_DATA, .size = RECORD, .erase_size = 4096, .label = "otaflash"};
    world.writes_left = -1;
    world.has_mbuf = world.has_buffer = world.has_rollback = true;
    world.blocked = BLE_HS_CONN_HANDLE_NONE;
    world.has_factory = factory;
    make(&first, 1, 1, "1.0.0");
    flash_image(factory ? FACTORY : OTA_0, &first);
}

void restart(void) {
    world_boot();
    CHECK(otaflash_start(&test_hooks) == ESP_OK);
}

void start(void) {
    prepare(false);
    restart();
}

/* ---- Hosts ---- */

static void report(struct ble_gap_event event) { (void)world.listener->fn(&event, world.listener->arg); }

void connect(uint16_t handle) {
    report((struct ble_gap_event){.type = BLE_GAP_EVENT_CONNECT, .connect = {.conn_handle = handle}});
}

void disconnect(uint16_t handle) {
    /* NimBLE first ends the subscriptions. */
    change_subscription(handle, OTA_CONTROL, false, BLE_GAP_SUBSCRIBE_REASON_TERM);
    report((struct ble_gap_event){.type = BLE_GAP_EVENT_DISCONNECT, .disconnect = {.conn = {.conn_handle = handle}}});
}

void change_subscription(uint16_t handle, enum ota_characteristic characteristic, bool on, uint8_t reason) {
    uint16_t attribute = *characteristic_at(characteristic)->val_handle;
    report((struct ble_gap_event){
        .type = BLE_GAP_EVENT_SUBSCRIBE,
        .subscribe = {.conn_handle = handle, .attr_handle = attribute, .reason = reason, .cur_notify = on}});
}

void subscribe(uint16_t handle, enum ota_characteristic characteristic, bool on) {
    change_subscription(handle, characteristic, on, BLE_GAP_SUBSCRIBE_REASON_WRITE);
}

const struct ble_gatt_chr_def *characteristic_at(enum ota_characteristic characteristic) {
    const struct ble_gatt_chr_def *found = &world.service->characteristics[characteristic - OTA_INFO];
    CHECK(found->uuid->type == 128 && ((const ble_uuid128_t *)found->uuid)->value[12] == characteristic);
    return found;
}

int write_value(uint16_t handle, enum ota_characteristic characteristic, const void *bytes, uint16_t size) {
    const struct ble_gatt_chr_def *definition = characteristic_at(characteristic);
    struct os_mbuf value = {.om_len = size};
    struct ble_gatt_access_ctxt context = {.op = BLE_GATT_ACCESS_OP_WRITE_CHR, .om = &value};
    memcpy(value.stub_bytes, bytes, size);
    return definition->access_cb(handle, 0, &context, definition->arg);
}

int read_value(uint16_t handle, enum ota_characteristic characteristic, void *bytes, uint16_t offset) {
    const struct ble_gatt_chr_def *definition = characteristic_at(characteristic);
    struct os_mbuf value = {0};
    struct ble_gatt_access_ctxt context = {.op = BLE_GATT_ACCESS_OP_READ_CHR, .om = &value};
    int error = definition->access_cb(handle, 0, &context, definition->arg);
    /* NimBLE applies the offset. */
    if (error == 0 && offset > value.om_len) error = INVALID_OFFSET;
    if (error != 0) return -error;
    memcpy(bytes, value.stub_bytes + offset, value.om_len - offset);
    return value.om_len - offset;
}

/* ---- Updates ---- */

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
    release->size = IMAGE;
    release->counter = counter;
    release->version = version;
    for (int i = 0; i < IMAGE; i++) release->image[i] = (uint8_t)(i * 7 + image);
    release->image[0] = 0xE9;
    memset(release->image + 64, 0, 32);
    memcpy(release->image + 64, version, strlen(version));
    memcpy(release->manifest, "OTAF\2\1", 6);
    put(release->manifest + 8, IMAGE, 4);
    put(release->manifest + 16, counter, 4);
    world_digest(release->image, IMAGE, release->manifest + 32);
    uint8_t *end = put_text(put_text(release->manifest + 64, 0x0002, version), 0x8001, "acme-beacon");
    release->manifest_size = (uint16_t)(end - release->manifest);
    put(release->manifest + 6, release->manifest_size, 2);
}

int request(const uint8_t *bytes, uint16_t size) {
    world.notifications = 0;
    if (write_value(HOST, OTA_CONTROL, bytes, size) != 0) return -1;
    settle();
    return world.notifications > 0 && world.notified[0] == (0x80 | bytes[0]) ? world.notified[2] : -1;
}

int begin_object(uint8_t object, const uint8_t *bytes, uint32_t size, uint32_t *offset) {
    uint8_t begin[19] = {OTA_BEGIN, 1, object}, digest[32];
    put(begin + 3, size, 4);
    put(begin + 7, *offset, 4);
    world_digest(bytes, size, digest);
    memcpy(begin + 11, digest, 8);
    int status = request(begin, sizeof begin);
    memcpy(offset, world.notified + 5, 4);
    return status;
}

void send_bytes(const uint8_t *bytes, uint32_t at, uint32_t end) {
    uint8_t progress[12], value[202];
    while (at < end) {
        uint32_t count = end - at < 200 ? end - at : 200;
        CHECK(read_value(HOST, OTA_PROGRESS, progress, 0) == 12);
        memcpy(value, progress + 2, 2);
        memcpy(value + 2, bytes + at, count);
        CHECK(write_value(HOST, OTA_DATA, value, (uint16_t)(2 + count)) == 0);
        settle();
        at += count;
    }
}

int send_object(uint8_t object, const uint8_t *bytes, uint32_t size) {
    uint8_t finish[2] = {OTA_FINISH, 2};
    uint32_t offset = 0;
    int status = begin_object(object, bytes, size, &offset);
    if (status != OTA_OK) return status;
    send_bytes(bytes, offset, size);
    return request(finish, sizeof finish);
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

int install(const struct release *release) {
    const uint8_t apply[3] = {OTA_APPLY, 3, OTA_BOOT_TRIAL};
    connect(HOST);
    subscribe(HOST, OTA_CONTROL, true);
    int status = send_envelope(release, 1, true);
    if (status == OTA_OK) status = send_object(OTA_OBJECT_IMAGE, release->image, release->size);
    if (status == OTA_OK) status = request(apply, sizeof apply);
    disconnect(HOST);
    settle();
    return status;
}

int confirm(void) {
    const uint8_t bytes[2] = {OTA_CONFIRM, 4};
    connect(HOST);
    subscribe(HOST, OTA_CONTROL, true);
    int status = request(bytes, sizeof bytes);
    disconnect(HOST);
    settle();
    return status;
}
