/* The tests of the glue, with a real core and a simulated Zephyr (world.c). scripts/test-zephyr-glue builds and runs them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zephyr/init.h>

#include "otaflash.h"
#include "world.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("FAILED  %s, line %d: %s\n", __func__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

enum { INFO = 2, CONTROL = 4, DATA = 7, PROGRESS = 9, CONTROL_CCC = 5, PROGRESS_CCC = 10 };
enum { IMAGE = 9000, PLACES_FOR_DATA = 2 * CONFIG_OTAFLASH_WINDOW };

static struct bt_conn hosts[2] = {{.index = 0}, {.index = 1}};
static const struct bt_gatt_attr *attribute(int index) { return &otaflash_service.attrs[index]; }

static void settle(void) {
    for (int i = 0; i < 200; i++) otaflash_queue_step();
}

static ssize_t write_attribute(struct bt_conn *host, int index, const void *bytes, uint16_t size) {
    return attribute(index)->write(host, attribute(index), bytes, size, 0, 0);
}

static void subscribe(struct bt_conn *host, int ccc, bool on) {
    const struct STUB_CCC *managed = attribute(ccc)->user_data;
    ssize_t written = managed->cfg_write(host, attribute(ccc), on ? BT_GATT_CCC_NOTIFY : 0);
    if (written == 2) host->subscribed[ccc == CONTROL_CCC ? 0 : 1] = on;
}

static void connect(struct bt_conn *host) {
    memset(host->subscribed, 0, sizeof host->subscribed);
    otaflash_callbacks.connected(host, 0);
}

static void disconnect(struct bt_conn *host) { otaflash_callbacks.disconnected(host, 0x13); }

/* Starts the device with an image of zeros in the primary slot. */
static void start(void) {
    memset(&world, 0, sizeof world);
    memset(hosts, 0, sizeof hosts);
    hosts[1].index = 1;
    memset(world.record, 0xFF, sizeof world.record);
    world.writes_left = -1;
    world.has_buffer = world.self_test = true;
    CHECK(stub_init() == 0 && otaflash_is_running());
}

/* ---- Connections, attributes and the queue ---- */

static void holds_a_reference_until_the_disconnection_was_handled(void) {
    start();
    connect(&hosts[0]);
    CHECK(hosts[0].references == 1);
    settle();
    CHECK(hosts[0].references == 1);
    disconnect(&hosts[0]);
    CHECK(hosts[0].references == 1);
    settle();
    CHECK(hosts[0].references == 0);
    /* A failed connection is no connection. */
    otaflash_callbacks.connected(&hosts[0], 0x3E);
    CHECK(hosts[0].references == 0);
}

static void answers_wrong_requests_with_att_errors(void) {
    const uint8_t sync[2] = {OTA_SYNC, 7};
    uint8_t value[OTAFLASH_LONGEST + 1] = {0}, bytes[300];
    start();
    connect(&hosts[0]);
    settle();
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == -OTA_ATT_NOT_SUBSCRIBED);
    subscribe(&hosts[0], CONTROL_CCC, true);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 1) == -OTA_ATT_INVALID_LENGTH);
    CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == -OTA_ATT_INVALID_LENGTH);
    CHECK(attribute(DATA)->write(&hosts[0], attribute(DATA), value, 4, 1, 0) == -OTA_ATT_INVALID_OFFSET);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 1 && world.notified[0] == (0x80 | OTA_SYNC) && world.notified[1] == 7);
    CHECK(world.notified_attribute == attribute(CONTROL));
    ssize_t count = attribute(INFO)->read(&hosts[0], attribute(INFO), bytes, sizeof bytes, 0);
    CHECK(count > 50);
    CHECK(attribute(INFO)->read(&hosts[0], attribute(INFO), bytes, sizeof bytes, 10) == count - 10);
    CHECK(attribute(INFO)->read(&hosts[0], attribute(INFO), bytes, sizeof bytes, 300) == -OTA_ATT_INVALID_OFFSET);
    disconnect(&hosts[0]);
    settle();
}

static void restores_the_subscriptions_of_a_bonded_host(void) {
    const uint8_t sync[2] = {OTA_SYNC, 8};
    start();
    connect(&hosts[0]);
    hosts[0].subscribed[0] = true; /* by the stack, from the bond */
    otaflash_callbacks.security_changed(&hosts[0], BT_SECURITY_L2, BT_SECURITY_ERR_SUCCESS);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 1);
    disconnect(&hosts[0]);
    settle();
}

static void drops_only_data_if_the_queue_is_full(void) {
    uint8_t value[20] = {0};
    const uint8_t sync[2] = {OTA_SYNC, 9};
    int accepted = 0;
    start();
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    settle();
    /* A flood of Data is accepted by the stack's callback, but leaves the places for requests. */
    for (int i = 0; i < 100; i++) CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == sizeof value);
    /* A flood of requests gets an error, but leaves the places for connections. */
    while (write_attribute(&hosts[0], CONTROL, sync, 2) == 2) accepted++;
    CHECK(accepted >= 4 && accepted <= 4 * CONFIG_BT_MAX_CONN);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == -OTA_ATT_INSUFFICIENT_RESOURCES);
    connect(&hosts[1]);
    disconnect(&hosts[0]);
    disconnect(&hosts[1]);
    settle();
    CHECK(hosts[0].references == 0 && hosts[1].references == 0);
}

static void keeps_the_order_of_the_events(void) {
    uint8_t value[20] = {0};
    const uint8_t sync[2] = {OTA_SYNC, 10};
    start();
    /* All events wait in the queue before the thread runs. */
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    CHECK(write_attribute(&hosts[0], DATA, value, sizeof value) == sizeof value);
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    disconnect(&hosts[0]);
    connect(&hosts[1]);
    settle();
    CHECK(world.notifications == 1 && world.notified[1] == 10);
    CHECK(hosts[0].references == 0 && hosts[1].references == 1);
    disconnect(&hosts[1]);
    settle();
}

static void sends_a_notification_again_if_the_stack_had_no_buffer(void) {
    const uint8_t sync[2] = {OTA_SYNC, 11};
    start();
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    settle();
    world.has_buffer = false;
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    settle();
    CHECK(world.notifications == 0);
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 1);
    /* A notification for a connection that has ended is discarded. */
    world.has_buffer = false;
    CHECK(write_attribute(&hosts[0], CONTROL, sync, 2) == 2);
    disconnect(&hosts[0]);
    settle();
    world.has_buffer = true;
    settle();
    CHECK(world.notifications == 1 && hosts[0].references == 0);
}

/* ---- Updates ---- */

struct release {
    uint8_t image[IMAGE], manifest[200];
    uint16_t manifest_size;
    uint32_t counter;
    const char *version;
};

static uint8_t *put(uint8_t *at, uint32_t value, int count) {
    for (int i = 0; i < count; i++) *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static uint8_t *put_text(uint8_t *at, uint16_t type, const char *text) {
    at = put(put(at, type, 2), (uint32_t)strlen(text), 2);
    memcpy(at, text, strlen(text));
    return at + strlen(text);
}

/* A release whose bytes all depend on `number` (docs/bundle-format.md). */
static void make(struct release *release, uint8_t number, const char *version) {
    memset(release, 0, sizeof *release);
    release->counter = number;
    release->version = version;
    for (int i = 0; i < IMAGE; i++) release->image[i] = (uint8_t)(i * 7 + number);
    memcpy(release->manifest, "OTAF\2\2", 6);
    put(release->manifest + 8, IMAGE, 4);
    put(release->manifest + 16, number, 4);
    world_digest(release->image, IMAGE, release->manifest + 32);
    uint8_t *end = put_text(put_text(release->manifest + 64, 0x0002, version), 0x8001, CONFIG_OTAFLASH_PRODUCT);
    release->manifest_size = (uint16_t)(end - release->manifest);
    put(release->manifest + 6, release->manifest_size, 2);
}

static int request(const uint8_t *bytes, uint16_t size) {
    world.notifications = 0;
    if (write_attribute(&hosts[0], CONTROL, bytes, size) != size) return -1;
    settle();
    return world.notifications > 0 && world.notified[0] == (0x80 | bytes[0]) ? world.notified[2] : -1;
}

static int send_object(uint8_t object, const uint8_t *bytes, uint32_t size) {
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

static void updates_over_gatt_and_ends_the_trial_with_confirm(void) {
    static struct release release;
    uint8_t envelope[300], key_id[8] = {0x21, 0xfe, 0x31, 0xdf, 0xa1, 0x54, 0xa2, 0x61};
    const uint8_t apply[3] = {OTA_APPLY, 3, 0}, confirm[2] = {OTA_CONFIRM, 4};
    start();
    make(&release, 2, "1.0.0");
    memcpy(envelope, release.manifest, release.manifest_size);
    uint8_t *end = put(put(put(envelope + release.manifest_size, 1, 4), OTA_ED25519, 2), 64, 2);
    memcpy(end, key_id, 8);
    memset(end + 8, 0, 64);
    world_digest(release.manifest, release.manifest_size, end + 8);
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    CHECK(send_object(OTA_OBJECT_ENVELOPE, envelope, (uint32_t)(end + 72 - envelope)) == OTA_OK);
    CHECK(world.requests == 3);
    CHECK(send_object(OTA_OBJECT_IMAGE, release.image, IMAGE) == OTA_OK);
    CHECK(request(apply, sizeof apply) == OTA_OK && world.boot == BOOT_TEST);
    disconnect(&hosts[0]);
    settle();
    CHECK(world.reboots == 1);

    world_boot();
    CHECK(stub_init() == 0 && world.trials == 1 && memcmp(world.slots[0], release.image, IMAGE) == 0);
    connect(&hosts[0]);
    subscribe(&hosts[0], CONTROL_CCC, true);
    world.self_test = false;
    CHECK(request(confirm, 2) == OTA_BUSY && world.boot == BOOT_TRIAL);
    world.self_test = true;
    CHECK(request(confirm, 2) == OTA_OK && world.boot == BOOT_NONE);
    disconnect(&hosts[0]);
    settle();
    CHECK(stub_init() == 0 && world.trials == 1);
}

static void reboots_if_a_trial_ends_without_confirm(void) {
    start();
    world.boot = BOOT_TRIAL;
    /* The trial time ends without CONFIRM. */
    CHECK(stub_init() == 0);
    world.now += 121000;
    settle();
    CHECK(world.reboots == 1);
    world_boot();
    CHECK(stub_init() == 0 && world.boot == BOOT_NONE);
}

/* ---- Power cuts between mark, confirm and the stored records ---- */

static struct ota_config config;

/* Starts the bootloader and loads the records. Checks what they report about the image that runs. */
static void boot(const struct release *const releases[3]) {
    world_boot();
    const struct release *runs = NULL, *other = NULL;
    for (int i = 0; i < 3; i++) {
        if (memcmp(world.slots[0], releases[i]->image, IMAGE) == 0) runs = releases[i];
        if (memcmp(world.slots[1], releases[i]->image, IMAGE) == 0) other = releases[i];
    }
    CHECK(runs && other);
    bool on_trial = world.boot == BOOT_TRIAL;
    memset(&config, 0, sizeof config);
    config.version = runs->version;
    CHECK(otaflash_store_load(&config, on_trial) == 0);
    uint8_t digest[32];
    world_digest(runs->manifest, runs->manifest_size, digest);
    CHECK(config.running_digest && memcmp(config.running_digest, digest, 32) == 0);
    /* On trial, the old image must stay bootable, and a permanent image has its own counter. */
    CHECK(config.security_counter == (on_trial ? other->counter : runs->counter));
    CHECK(!on_trial || config.trial_security_counter == runs->counter);
}

static bool mark(const struct release *release, enum ota_boot how) {
    uint8_t digest[32];
    world_digest(release->manifest, release->manifest_size, digest);
    memcpy(world.slots[1], release->image, IMAGE);
    struct ota_manifest manifest = {
        .digest = digest,
        .image_digest = release->manifest + 32,
        .image_size = IMAGE,
        .security_counter = release->counter,
        .version = release->version,
        .version_size = (uint8_t)strlen(release->version),
    };
    return otaflash_port.mark(NULL, how, &manifest);
}

static void confirm(void) {
    if (world.boot == BOOT_TRIAL) CHECK(otaflash_port.confirm(NULL, config.trial_security_counter, config.running_digest));
}

/* Plays an update with a power cut before the write with this number. Returns whether the power failed. */
static bool play(int cut, enum ota_boot how, const char *version, bool confirms) {
    static struct release releases[3];
    static const struct release *const all[3] = {&releases[0], &releases[1], &releases[2]};
    volatile bool failed = false;
    start();
    make(&releases[0], 5, "1.0.0");
    make(&releases[1], 6, version);
    make(&releases[2], 7, "1.2.0");
    memcpy(world.slots[1], releases[2].image, IMAGE);
    /* The first release was installed from a bundle, without a power cut. */
    CHECK(mark(&releases[0], OTA_BOOT_PERMANENT));
    memcpy(world.slots[0], releases[2].image, IMAGE);
    boot(all);
    memcpy(world.slots[1], releases[1].image, IMAGE);
    world.writes_left = cut;
    if (setjmp(world.power) == 0) {
        CHECK(mark(&releases[1], how));
        boot(all);
        if (confirms) confirm();
        boot(all);
    } else {
        failed = true;
    }
    world.writes_left = -1;
    boot(all);
    boot(all);
    /* The next update succeeds. */
    CHECK(mark(&releases[2], OTA_BOOT_TRIAL));
    boot(all);
    CHECK(world.boot == BOOT_TRIAL);
    confirm();
    boot(all);
    CHECK(config.security_counter == 7 && !config.on_trial);
    return failed;
}

static void survives_a_power_cut_between_each_two_writes(void) {
    static const char *const versions[] = {"1.1.0", "1.0.0"};
    int cuts = 0;
    for (int how = OTA_BOOT_TRIAL; how <= OTA_BOOT_PERMANENT; how++) {
        for (int version = 0; version < 2; version++) {
            for (int confirms = 0; confirms < 2; confirms++) {
                for (int cut = 0; play(cut, (enum ota_boot)how, versions[version], confirms); cut++) cuts++;
            }
        }
    }
    CHECK(cuts >= 24);
    printf("        %d power cuts\n", cuts);
}

#define RUN(test) \
    do { \
        test(); \
        printf("ok      %s\n", #test); \
    } while (0)

int main(void) {
    RUN(holds_a_reference_until_the_disconnection_was_handled);
    RUN(answers_wrong_requests_with_att_errors);
    RUN(restores_the_subscriptions_of_a_bonded_host);
    RUN(drops_only_data_if_the_queue_is_full);
    RUN(keeps_the_order_of_the_events);
    RUN(sends_a_notification_again_if_the_stack_had_no_buffer);
    RUN(updates_over_gatt_and_ends_the_trial_with_confirm);
    RUN(reboots_if_a_trial_ends_without_confirm);
    RUN(survives_a_power_cut_between_each_two_writes);
    return 0;
}
