#include "world.h"

#include <assert.h>
#include <psa/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zephyr/dfu/mcuboot.h>
#include <zephyr/drivers/gpio.h>
#include <zephyr/settings/settings.h>
#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/reboot.h>

#include "otaflash.h"

struct world world = {.writes_left = -1, .has_buffer = true, .self_test = true};

/* A durable write that follows. The power fails before it, or after it: before the next one. */
static void write_durably(void) {
    if (world.writes_left == 0) longjmp(world.power, 1);
    if (world.writes_left > 0) world.writes_left--;
}

static bool fails(const char *function) {
    if (!world.fails || strcmp(world.fails, function) != 0) return false;
    world.fails = NULL;
    return true;
}

/* ---- Flash, settings and bootloader ---- */

static const struct flash_area areas[] = {{0, SLOT}, {1, SLOT}, {2, 0x2000}};

static uint8_t *memory(const struct flash_area *area) {
    return area->fa_id == 2 ? world.record : world.slots[area->fa_id];
}

int flash_area_open(uint8_t id, const struct flash_area **fa) {
    *fa = &areas[id];
    return fails(__func__) ? -ENODEV : 0;
}

int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len) {
    assert((size_t)off + len <= fa->fa_size);
    memcpy(dst, memory(fa) + off, len);
    return fails(__func__) ? -EIO : 0;
}

int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len) {
    assert(fa->fa_id != 0 && off % 4 == 0 && len % 4 == 0 && (size_t)off + len <= fa->fa_size);
    assert(world.locks == 1 || world.starts);
    if (fa->fa_id == 1 && fails(__func__)) return -EIO;
    memcpy(memory(fa) + off, src, len);
    return 0;
}

int flash_area_erase(const struct flash_area *fa, off_t off, size_t len) {
    assert(fa->fa_id != 0 && off % 4096 == 0 && len == 4096 && (size_t)off + len <= fa->fa_size);
    assert(world.locks == 1 || world.starts);
    if (fa->fa_id == 1 && fails(__func__)) return -EIO;
    memset(memory(fa) + off, 0xFF, len);
    return 0;
}

int settings_subsys_init(void) { return fails(__func__) ? -EIO : 0; }

static ssize_t read_setting(void *argument, void *data, size_t len) {
    memcpy(data, argument, len);
    return (ssize_t)len;
}

int settings_load_subtree_direct(const char *subtree, settings_load_direct_cb cb, void *param) {
    size_t prefix = strlen(subtree);
    if (fails(__func__)) return -EIO;
    for (int i = 0; i < STORED; i++) {
        if (world.settings[i].size > 0 && strncmp(world.settings[i].name, subtree, prefix) == 0)
            cb(world.settings[i].name + prefix + 1, world.settings[i].size, read_setting, world.settings[i].value, param);
    }
    return 0;
}

static int slot_of(const char *name) {
    for (int i = 0; i < STORED; i++) {
        if (world.settings[i].size > 0 && strcmp(world.settings[i].name, name) == 0) return i;
    }
    for (int i = 0; i < STORED; i++) {
        if (world.settings[i].size == 0) return i;
    }
    assert(0);
    return 0;
}

int settings_save_one(const char *name, const void *value, size_t val_len) {
    int slot = slot_of(name);
    assert(val_len <= sizeof world.settings[0].value);
    if (fails(__func__)) return -EIO;
    write_durably();
    (void)snprintf(world.settings[slot].name, sizeof world.settings[slot].name, "%s", name);
    memcpy(world.settings[slot].value, value, val_len);
    world.settings[slot].size = val_len;
    return 0;
}

int settings_delete(const char *name) {
    if (fails(__func__)) return -EIO;
    write_durably();
    world.settings[slot_of(name)].size = 0;
    return 0;
}

bool boot_is_img_confirmed(void) { return world.boot != BOOT_TRIAL; }

int boot_write_img_confirmed(void) {
    if (fails(__func__)) return -EIO;
    write_durably();
    if (world.boot == BOOT_TRIAL) world.has_permanent = true;
    if (world.boot == BOOT_TRIAL) world.boot = BOOT_NONE;
    return 0;
}

int boot_request_upgrade(int permanent) {
    if (fails(__func__)) return -EIO;
    write_durably();
    world.boot = permanent ? BOOT_PERMANENT : BOOT_TEST;
    if (permanent) world.has_permanent = true;
    return 0;
}

void world_boot(void) {
    static uint8_t swap[SLOT];
    if (world.boot == BOOT_NONE) return;
    memcpy(swap, world.slots[0], SLOT);
    memcpy(world.slots[0], world.slots[1], SLOT);
    memcpy(world.slots[1], swap, SLOT);
    world.boot = world.boot == BOOT_TEST ? BOOT_TRIAL : BOOT_NONE;
}

void sys_reboot(int type) {
    assert(type == SYS_REBOOT_COLD);
    world.reboots++;
}

/* ---- Hash and signature ---- */

static void start_lanes(uint64_t lanes[4]) {
    for (uint64_t i = 0; i < 4; i++) lanes[i] = 0xCBF29CE484222325u + i;
}
static void absorb(uint64_t lanes[4], const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (int lane = 0; lane < 4; lane++) lanes[lane] = (lanes[lane] ^ bytes[i]) * 0x100000001B3u;
    }
}
static void squeeze(const uint64_t lanes[4], uint8_t digest[32]) {
    for (size_t i = 0; i < 32; i++) digest[i] = (uint8_t)(lanes[i / 8] >> 8 * (i % 8));
}

static uint64_t psa_lanes[4];

psa_status_t psa_crypto_init(void) {
    /* It needs more than 1 KB of stack: never on the main thread. */
    assert(world.starts);
    return fails(__func__) ? -1 : PSA_SUCCESS;
}
psa_hash_operation_t psa_hash_operation_init(void) { return (psa_hash_operation_t){NULL}; }
psa_status_t psa_hash_abort(psa_hash_operation_t *operation) {
    operation->context = NULL;
    return PSA_SUCCESS;
}
psa_status_t psa_hash_setup(psa_hash_operation_t *operation, psa_algorithm_t alg) {
    assert(alg == PSA_ALG_SHA_256 && operation->context == NULL);
    if (fails(__func__)) return -1;
    operation->context = psa_lanes;
    start_lanes(psa_lanes);
    return PSA_SUCCESS;
}
psa_status_t psa_hash_update(psa_hash_operation_t *operation, const uint8_t *input, size_t input_length) {
    assert(operation->context == psa_lanes);
    if (fails(__func__)) return -1;
    absorb(psa_lanes, input, input_length);
    return PSA_SUCCESS;
}
psa_status_t psa_hash_finish(psa_hash_operation_t *operation, uint8_t *hash, size_t hash_size, size_t *hash_length) {
    assert(operation->context == psa_lanes && hash_size == 32);
    operation->context = NULL;
    squeeze(psa_lanes, hash);
    *hash_length = 32;
    return PSA_SUCCESS;
}

void world_digest(const uint8_t *bytes, size_t count, uint8_t digest[32]) {
    uint64_t lanes[4];
    start_lanes(lanes);
    absorb(lanes, bytes, count);
    squeeze(lanes, digest);
}

/* A signature of the tests is the digest of the message, and the key. */
bool otaflash_ed25519_verify(const uint8_t public_key[32], const uint8_t *message, uint32_t count,
                             const uint8_t signature[64]) {
    uint8_t digest[32];
    world_digest(message, count, digest);
    return memcmp(digest, signature, sizeof digest) == 0 && memcmp(public_key, signature + 32, 32) == 0;
}

void otaflash_trial_started(void) { world.trials++; }
bool otaflash_self_test_passed(void) { return world.self_test; }

/* ---- Kernel ---- */

int k_msgq_put(struct k_msgq *msgq, const void *data, k_timeout_t timeout) {
    assert(timeout.ticks == 0);
    if (msgq->used == msgq->places) return -ENOMSG;
    memcpy(msgq->write, data, msgq->size);
    msgq->write += msgq->size;
    if (msgq->write == msgq->end) msgq->write = msgq->start;
    msgq->used++;
    return 0;
}
int k_msgq_get(struct k_msgq *msgq, void *data, k_timeout_t timeout) {
    (void)timeout;
    assert(world.locks == 0);
    if (msgq->used == 0) return -EAGAIN;
    memcpy(data, msgq->read, msgq->size);
    msgq->read += msgq->size;
    if (msgq->read == msgq->end) msgq->read = msgq->start;
    msgq->used--;
    return 0;
}
uint32_t k_msgq_num_free_get(struct k_msgq *msgq) { return msgq->places - msgq->used; }

int k_mutex_lock(struct k_mutex *mutex, k_timeout_t timeout) {
    (void)timeout;
    assert(mutex->held == 0);
    world.locks = mutex->held = 1;
    world.locked++;
    return 0;
}
int k_mutex_unlock(struct k_mutex *mutex) {
    assert(mutex->held == 1);
    world.locks = mutex->held = 0;
    return 0;
}

/* The new thread runs while the caller waits for the semaphore, until it gives it. */
static k_thread_entry_t entry;
static void *entry_parameter;
static jmp_buf started;

int k_sem_take(struct k_sem *sem, k_timeout_t timeout) {
    assert(timeout.ticks < 0 && entry && sem->count == 0);
    world.starts = true;
    if (setjmp(started) == 0) entry(entry_parameter, NULL, NULL);
    world.starts = false;
    assert(sem->count == 1);
    sem->count = 0;
    return 0;
}
void k_sem_give(struct k_sem *sem) {
    sem->count++;
    longjmp(started, 1);
}

k_tid_t k_thread_create(struct k_thread *new_thread, k_thread_stack_t *stack, size_t stack_size, k_thread_entry_t start,
                        void *p1, void *p2, void *p3, int prio, uint32_t options, k_timeout_t delay) {
    (void)stack, (void)p2, (void)p3, (void)prio, (void)options, (void)delay;
    assert(stack_size == CONFIG_OTAFLASH_STACK_SIZE);
    entry = start;
    entry_parameter = p1;
    return new_thread;
}
struct k_work_delayable *k_work_delayable_from_work(struct k_work *work) { return (struct k_work_delayable *)work; }
int k_work_schedule(struct k_work_delayable *dwork, k_timeout_t delay) {
    (void)dwork, (void)delay;
    return 0;
}
int k_work_reschedule(struct k_work_delayable *dwork, k_timeout_t delay) { return k_work_schedule(dwork, delay); }
int gpio_pin_configure_dt(const struct gpio_dt_spec *spec, gpio_flags_t extra_flags) {
    (void)spec, (void)extra_flags;
    return 0;
}
int gpio_pin_set_dt(const struct gpio_dt_spec *spec, int value) {
    (void)spec, (void)value;
    return 0;
}
uint32_t k_uptime_get_32(void) { return world.now++; }

void stub_log(const char *format, ...) {
    va_list arguments;
    if (!getenv("OTAFLASH_LOG")) return;
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("\n");
}

/* ---- Bluetooth. The functions that can wait must not be called under the core's lock. ---- */

struct bt_conn *bt_conn_ref(struct bt_conn *conn) {
    conn->references++;
    return conn;
}
void bt_conn_unref(struct bt_conn *conn) {
    /* The last release can resume advertising and wait for the controller. */
    assert(conn->references > 0 && world.locks == 0);
    conn->references--;
}
uint8_t bt_conn_index(const struct bt_conn *conn) { return conn->index; }

static int request(void) {
    assert(world.locks == 0);
    world.requests++;
    return 0;
}
int bt_conn_le_data_len_update(struct bt_conn *conn, const struct bt_conn_le_data_len_param *param) {
    (void)conn, (void)param;
    return request();
}
int bt_conn_le_phy_update(struct bt_conn *conn, const struct bt_conn_le_phy_param *param) {
    (void)conn, (void)param;
    return request();
}
int bt_conn_le_param_update(struct bt_conn *conn, const struct bt_le_conn_param *param) {
    (void)conn, (void)param;
    return request();
}
int bt_gatt_notify(struct bt_conn *conn, const struct bt_gatt_attr *attr, const void *data, uint16_t len) {
    assert(world.locks == 0 && conn->references > 0 && len <= sizeof world.notified);
    if (!world.has_buffer || conn == world.blocked) return -ENOMEM;
    world.notifications++;
    world.notified_attribute = attr;
    world.notified_size = len;
    memcpy(world.notified, data, len);
    return 0;
}
bool bt_gatt_is_subscribed(struct bt_conn *conn, const struct bt_gatt_attr *attr, uint16_t ccc_type) {
    assert(ccc_type == BT_GATT_CCC_NOTIFY);
    return conn->subscribed[attr->user_data == (void *)OTA_CONTROL ? 0 : 1];
}
