#include "world.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "esp_log.h"
#include "esp_system.h"
#include "esp_timer.h"
#include "freertos/queue.h"
#include "freertos/semphr.h"
#include "freertos/task.h"
#include "glue.h"
#include "nvs.h"
#include "ota_ed25519.h"
#include "psa/crypto.h"

struct world world;

/* A durable write that follows. The power fails before it, or after it: before the next one. */
static void write_durably(void) {
    if (world.writes_left == 0) longjmp(world.power, 1);
    if (world.writes_left > 0) world.writes_left--;
}

static bool fails(const char *function) {
    if (!world.fails || strcmp(world.fails, function) != 0) return false;
    if (!world.fails_always) world.fails = NULL;
    return true;
}

/* ---- Flash: a write needs erased bytes, and erased bytes of an encrypted partition are not 0xFF ---- */

static size_t index_of(const esp_partition_t *partition) {
    assert(partition >= world.partitions && partition < world.partitions + PARTITIONS);
    return (size_t)(partition - world.partitions);
}

const esp_partition_t *esp_partition_find_first(esp_partition_type_t type, esp_partition_subtype_t subtype,
                                                const char *label) {
    static const esp_partition_t otadata = {.type = ESP_PARTITION_TYPE_DATA, .size = 0x2000};
    assert(type == ESP_PARTITION_TYPE_DATA);
    if (!label) return subtype != ESP_PARTITION_SUBTYPE_DATA_OTA || world.lacks_otadata ? NULL : &otadata;
    assert(subtype == ESP_PARTITION_SUBTYPE_ANY);
    return fails(__func__) || strcmp(world.partitions[RECORDS].label, label) != 0 ? NULL : &world.partitions[RECORDS];
}

esp_err_t esp_partition_read(const esp_partition_t *partition, size_t src_offset, void *dst, size_t size) {
    size_t index = index_of(partition);
    assert(src_offset + size <= partition->size);
    for (size_t i = 0; i < size; i++) {
        uint8_t erased = partition->encrypted ? (uint8_t)(0x5A ^ (src_offset + i)) : 0xFF;
        bool is_written = world.is_written[index][src_offset + i];
        ((uint8_t *)dst)[i] = is_written ? world.flash[index][src_offset + i] : erased;
    }
    return fails(__func__) ? ESP_FAIL : ESP_OK;
}

esp_err_t esp_partition_write(const esp_partition_t *partition, size_t dst_offset, const void *src, size_t size) {
    size_t index = index_of(partition);
    assert(dst_offset + size <= partition->size && (world.locks == 1 || world.starts) && (int)index != world.running);
    if (partition->encrypted) assert(dst_offset % 16 == 0 && size % 16 == 0);
    if (index != RECORDS && fails(__func__)) return ESP_FAIL;
    for (size_t i = 0; i < size; i++) {
        assert(!world.is_written[index][dst_offset + i]);
        world.is_written[index][dst_offset + i] = true;
        world.flash[index][dst_offset + i] = ((const uint8_t *)src)[i];
    }
    return ESP_OK;
}

esp_err_t esp_partition_erase_range(const esp_partition_t *partition, size_t offset, size_t size) {
    size_t index = index_of(partition);
    assert(offset % 4096 == 0 && size == 4096 && offset + size <= partition->size && (int)index != world.running);
    assert(world.locks == 1 || world.starts);
    if (index != RECORDS && fails(__func__)) return ESP_FAIL;
    memset(&world.is_written[index][offset], 0, size);
    return ESP_OK;
}

/* ---- NVS ---- */

static int place_of(const char *key) {
    for (int i = 0; i < STORED; i++) {
        if (world.staged[i].size == 0 || strcmp(world.staged[i].name, key) == 0) return i;
    }
    assert(0);
    return 0;
}

esp_err_t nvs_open(const char *namespace_name, nvs_open_mode_t open_mode, nvs_handle_t *out_handle) {
    assert(strcmp(namespace_name, "otaflash") == 0 && open_mode == NVS_READWRITE);
    memcpy(world.staged, world.stored, sizeof world.staged);
    *out_handle = 7;
    return fails(__func__) ? ESP_FAIL : ESP_OK;
}

esp_err_t nvs_set_blob(nvs_handle_t handle, const char *key, const void *value, size_t length) {
    int place = place_of(key);
    assert(handle == 7 && strlen(key) < 16 && length <= sizeof world.staged[0].value);
    if (fails(__func__)) return ESP_ERR_NVS_NOT_ENOUGH_SPACE;
    (void)snprintf(world.staged[place].name, sizeof world.staged[place].name, "%s", key);
    memcpy(world.staged[place].value, value, length);
    world.staged[place].size = length;
    return ESP_OK;
}

esp_err_t nvs_get_blob(nvs_handle_t handle, const char *key, void *out_value, size_t *length) {
    int place = place_of(key);
    assert(handle == 7);
    if (fails(__func__)) return ESP_FAIL;
    if (world.staged[place].size == 0) return ESP_ERR_NVS_NOT_FOUND;
    if (world.staged[place].size > *length) return ESP_FAIL;
    *length = world.staged[place].size;
    memcpy(out_value, world.staged[place].value, *length);
    return ESP_OK;
}

esp_err_t nvs_set_u32(nvs_handle_t handle, const char *key, uint32_t value) {
    return fails(__func__) ? ESP_ERR_NVS_NOT_ENOUGH_SPACE : nvs_set_blob(handle, key, &value, sizeof value);
}

esp_err_t nvs_get_u32(nvs_handle_t handle, const char *key, uint32_t *out_value) {
    size_t size = sizeof *out_value;
    return fails(__func__) ? ESP_FAIL : nvs_get_blob(handle, key, out_value, &size);
}

esp_err_t nvs_commit(nvs_handle_t handle) {
    assert(handle == 7);
    if (fails(__func__)) return ESP_FAIL;
    write_durably();
    memcpy(world.stored, world.staged, sizeof world.stored);
    return ESP_OK;
}

/* ---- Bootloader: the rules of ESP-IDF 6.0.2, esp_ota_ops.c and bootloader_utility.c ---- */

static bool is_valid(int entry) {
    return world.otadata[entry].sequence != 0 && world.otadata[entry].state != ESP_OTA_IMG_INVALID &&
           world.otadata[entry].state != ESP_OTA_IMG_ABORTED;
}

static int active(void) {
    if (is_valid(0) && is_valid(1)) return world.otadata[0].sequence > world.otadata[1].sequence ? 0 : 1;
    return is_valid(0) ? 0 : is_valid(1) ? 1 : -1;
}

static int partition_of(int entry) { return world.otadata[entry].sequence % 2 == 1 ? OTA_0 : OTA_1; }

/* Erases the sector and writes it. */
static void rewrite(int entry, uint32_t sequence, esp_ota_img_states_t state) {
    write_durably();
    world.otadata[entry].sequence = 0;
    write_durably();
    world.otadata[entry].sequence = sequence;
    world.otadata[entry].state = state;
}

static bool is_image(int partition) { return world.flash[partition][0] == 0xE9 && world.is_written[partition][0]; }

void world_boot(void) {
    for (int i = 0; i < 2; i++) {
        if (world.has_rollback && world.otadata[i].sequence != 0 && world.otadata[i].state == ESP_OTA_IMG_PENDING_VERIFY)
            rewrite(i, world.otadata[i].sequence, ESP_OTA_IMG_ABORTED);
    }
    int entry = active();
    world.running = entry >= 0 ? partition_of(entry) : world.has_factory ? FACTORY : OTA_0;
    int refused = world.running;
    if (entry >= 0 && world.has_rollback && world.otadata[entry].state == ESP_OTA_IMG_NEW)
        rewrite(entry, world.otadata[entry].sequence, ESP_OTA_IMG_PENDING_VERIFY);
    /* The bootloader of a device without factory partition writes the entry of the first image. */
    if (world.running == OTA_0 && world.otadata[0].sequence == 0 && world.otadata[1].sequence == 0)
        rewrite(0, 1, ESP_OTA_IMG_VALID);
    if (refused != FACTORY && refused == world.damaged) world.running = refused == OTA_0 ? OTA_1 : OTA_0;
    world.restarted = false;
}

const esp_partition_t *esp_ota_get_running_partition(void) { return &world.partitions[world.running]; }

const esp_partition_t *esp_ota_get_boot_partition(void) {
    int entry = active();
    if (fails(__func__)) return NULL;
    return &world.partitions[entry >= 0 ? partition_of(entry) : world.has_factory ? FACTORY : OTA_0];
}

const esp_partition_t *esp_ota_get_next_update_partition(const esp_partition_t *start_from) {
    assert(!start_from);
    return fails(__func__) ? &world.partitions[world.running] : &world.partitions[world.running == OTA_0 ? OTA_1 : OTA_0];
}

/* An image has its ELF digest at byte 32, and its version at byte 64. */
esp_err_t esp_ota_get_partition_description(const esp_partition_t *partition, esp_app_desc_t *app_desc) {
    size_t index = index_of(partition);
    if (fails(__func__) || !is_image((int)index)) return ESP_ERR_NOT_FOUND;
    memset(app_desc, 0, sizeof *app_desc);
    memcpy(app_desc->app_elf_sha256, &world.flash[index][32], 32);
    memcpy(app_desc->version, &world.flash[index][64], 31);
    memcpy(app_desc->project_name, "acme-beacon", 12);
    return ESP_OK;
}

const esp_app_desc_t *esp_app_get_description(void) {
    static esp_app_desc_t description;
    const char *kept = world.fails;
    world.fails = NULL;
    (void)esp_ota_get_partition_description(esp_ota_get_running_partition(), &description);
    world.fails = kept;
    return &description;
}

esp_err_t esp_ota_get_state_partition(const esp_partition_t *partition, esp_ota_img_states_t *ota_state) {
    if (partition == &world.partitions[FACTORY]) return ESP_ERR_NOT_SUPPORTED;
    for (int i = 0; i < 2; i++) {
        if (world.otadata[i].sequence == 0 || &world.partitions[partition_of(i)] != partition) continue;
        *ota_state = world.otadata[i].state;
        return ESP_OK;
    }
    return ESP_ERR_NOT_FOUND;
}

esp_err_t esp_ota_set_boot_partition(const esp_partition_t *partition) {
    int index = (int)index_of(partition), entry = active(), next = 0;
    if (fails(__func__) || !is_image(index)) return ESP_FAIL;
    uint32_t sequence = index == OTA_0 ? 1 : 2;
    if (entry >= 0) {
        bool is_same = partition_of(entry) == index;
        next = is_same && !world.has_old_rules ? entry : !entry;
        sequence = world.otadata[entry].sequence + (is_same ? 0 : 1);
    }
    rewrite(next, sequence, ESP_OTA_IMG_NEW);
    return ESP_OK;
}

esp_err_t esp_ota_mark_app_valid_cancel_rollback(void) {
    int entry = active();
    if (fails(__func__) || entry < 0) return ESP_FAIL;
    if (world.otadata[entry].state != ESP_OTA_IMG_VALID) rewrite(entry, world.otadata[entry].sequence, ESP_OTA_IMG_VALID);
    return ESP_OK;
}

esp_err_t esp_ota_mark_app_invalid_rollback_and_reboot(void) {
    int entry = active();
    if (fails(__func__) || entry < 0 || (!is_valid(!entry) && !world.has_factory)) return ESP_FAIL;
    rewrite(entry, world.otadata[entry].sequence, ESP_OTA_IMG_INVALID);
    esp_restart();
    return ESP_OK;
}

/* The shutdown handlers of the application can wait for NimBLE's task, and this task can wait for a lock. */
void esp_restart(void) {
    assert(world.locks == 0);
    world.restarted = true;
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
bool ota_ed25519_verify(const uint8_t public_key[32], const uint8_t *message, uint32_t count, const uint8_t *signature,
                        uint32_t signature_size) {
    uint8_t digest[32];
    assert(signature_size == 64);
    world_digest(message, count, digest);
    return memcmp(digest, signature, sizeof digest) == 0 && memcmp(public_key, signature + 32, 32) == 0;
}

/* ---- FreeRTOS ---- */

QueueHandle_t xQueueCreateStatic(UBaseType_t uxQueueLength, UBaseType_t uxItemSize, uint8_t *pucQueueStorage,
                                 StaticQueue_t *pxQueueBuffer) {
    *pxQueueBuffer = (StaticQueue_t){pucQueueStorage, uxQueueLength, uxItemSize, 0};
    return pxQueueBuffer;
}
BaseType_t xQueueSend(QueueHandle_t xQueue, const void *pvItemToQueue, TickType_t xTicksToWait) {
    assert(xTicksToWait == 0 && world.locks == 1);
    if (xQueue->used == xQueue->places) return pdFALSE;
    memcpy(xQueue->memory + xQueue->used++ * xQueue->size, pvItemToQueue, xQueue->size);
    return pdTRUE;
}
BaseType_t xQueueReceive(QueueHandle_t xQueue, void *const pvBuffer, TickType_t xTicksToWait) {
    assert(world.locks == 0);
    world.polls = xTicksToWait == 0 ? world.polls + 1 : 0;
    /* Each poll reads and hashes 4 KiB, and the watchdog of the idle task restarts the device after 5 s. */
    assert(world.polls <= 8);
    if (xQueue->used == 0) return pdFALSE;
    memcpy(pvBuffer, xQueue->memory, xQueue->size);
    memmove(xQueue->memory, xQueue->memory + xQueue->size, --xQueue->used * xQueue->size);
    return pdTRUE;
}
UBaseType_t uxQueueSpacesAvailable(const QueueHandle_t xQueue) { return xQueue->places - xQueue->used; }

/* The new task runs while the caller waits for the binary semaphore, until the task gives it. */
static TaskFunction_t entry_point;
static void *entry_parameter;
static SemaphoreHandle_t binary;
static jmp_buf started;

SemaphoreHandle_t xSemaphoreCreateMutexStatic(StaticSemaphore_t *pxMutexBuffer) {
    pxMutexBuffer->count = 1;
    return pxMutexBuffer;
}
SemaphoreHandle_t xSemaphoreCreateBinaryStatic(StaticSemaphore_t *pxStaticSemaphore) {
    pxStaticSemaphore->count = 0;
    return binary = pxStaticSemaphore;
}
BaseType_t xSemaphoreTake(SemaphoreHandle_t xSemaphore, TickType_t xBlockTime) {
    assert(xBlockTime == portMAX_DELAY);
    if (xSemaphore == binary) {
        world.starts = true;
        if (setjmp(started) == 0) entry_point(entry_parameter);
        world.starts = false;
    } else {
        world.locks++;
        world.locked++;
    }
    assert(xSemaphore->count == 1);
    xSemaphore->count = 0;
    return pdTRUE;
}
BaseType_t xSemaphoreGive(SemaphoreHandle_t xSemaphore) {
    assert(xSemaphore->count == 0);
    xSemaphore->count = 1;
    if (xSemaphore == binary) longjmp(started, 1);
    world.locks--;
    return pdTRUE;
}
TaskHandle_t xTaskCreateStatic(TaskFunction_t pxTaskCode, const char *const pcName, const uint32_t ulStackDepth,
                               void *const pvParameters, UBaseType_t uxPriority, StackType_t *const puxStackBuffer,
                               StaticTask_t *const pxTaskBuffer) {
    (void)pcName, (void)puxStackBuffer;
    assert(ulStackDepth == CONFIG_OTAFLASH_STACK_SIZE && uxPriority == CONFIG_OTAFLASH_TASK_PRIORITY);
    entry_point = pxTaskCode;
    entry_parameter = pvParameters;
    return pxTaskBuffer;
}
void vTaskDelete(TaskHandle_t xTaskToDelete) { (void)xTaskToDelete; }
int64_t esp_timer_get_time(void) { return 1000 * (int64_t)world.now++; }
const char *esp_err_to_name(esp_err_t code) { return code == ESP_OK ? "ESP_OK" : "an error"; }

void stub_log(const char *tag, const char *format, ...) {
    va_list arguments;
    if (!getenv("OTAFLASH_LOG")) return;
    (void)printf("%s: ", tag);
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("\n");
}

/* ---- NimBLE. Its functions have locks of their own, so the caller must not hold one. ---- */

int os_mbuf_append(struct os_mbuf *m, const void *data, uint16_t len) {
    if (fails(__func__)) return 1;
    memcpy(m->stub_bytes + m->om_len, data, len);
    m->om_len = (uint16_t)(m->om_len + len);
    return 0;
}
struct os_mbuf *ble_hs_mbuf_from_flat(const void *buf, uint16_t len) {
    assert(world.locks == 0);
    struct os_mbuf *value = world.has_mbuf ? calloc(1, sizeof *value) : NULL;
    if (!value) return NULL;
    world.mbufs++;
    memcpy(value->stub_bytes, buf, value->om_len = len);
    return value;
}
int ble_hs_mbuf_to_flat(const struct os_mbuf *om, void *flat, uint16_t max_len, uint16_t *out_copy_len) {
    assert(om->om_len <= max_len && !out_copy_len);
    memcpy(flat, om->stub_bytes, om->om_len);
    return fails(__func__) ? 1 : 0;
}
int ble_att_set_preferred_mtu(uint16_t mtu) {
    world.mtu = mtu;
    return fails(__func__) ? 1 : 0;
}
int ble_gatts_count_cfg(const struct ble_gatt_svc_def *defs) {
    assert(defs[0].type == BLE_GATT_SVC_TYPE_PRIMARY && defs[1].type == 0);
    return fails(__func__) ? 1 : 0;
}
int ble_gatts_add_svcs(const struct ble_gatt_svc_def *svcs) {
    world.service = svcs;
    for (int i = 0; svcs->characteristics[i].uuid; i++) {
        if (svcs->characteristics[i].val_handle) *svcs->characteristics[i].val_handle = (uint16_t)(40 + 3 * i);
    }
    return fails(__func__) ? 1 : 0;
}
int ble_gap_event_listener_register(struct ble_gap_event_listener *listener, ble_gap_event_fn *fn, void *arg) {
    listener->fn = fn;
    listener->arg = arg;
    world.listener = listener;
    return fails(__func__) ? 1 : 0;
}
int ble_gatts_notify_custom(uint16_t conn_handle, uint16_t att_handle, struct os_mbuf *om) {
    bool is_sent = world.has_buffer && conn_handle != world.blocked;
    assert(world.locks == 0 && om->om_len <= sizeof world.notified);
    if (is_sent) {
        world.notifications++;
        world.notified_handle = conn_handle;
        world.notified_attribute = att_handle;
        world.notified_size = om->om_len;
        memcpy(world.notified, om->stub_bytes, om->om_len);
    }
    free(om);
    world.mbufs--;
    /* NimBLE reports the attempt to the listeners at once, on the task of the caller. */
    struct ble_gap_event event = {.type = BLE_GAP_EVENT_NOTIFY_TX};
    (void)world.listener->fn(&event, world.listener->arg);
    return is_sent ? 0 : BLE_HS_ENOMEM;
}
static int request(void) {
    assert(world.locks == 0);
    world.requests++;
    return BLE_HS_ENOTCONN;
}
int ble_gap_set_data_len(uint16_t conn_handle, uint16_t tx_octets, uint16_t tx_time) {
    (void)conn_handle, (void)tx_octets, (void)tx_time;
    return request();
}
int ble_gap_set_prefered_le_phy(uint16_t conn_handle, uint8_t tx_phys_mask, uint8_t rx_phys_mask, uint16_t phy_opts) {
    (void)conn_handle, (void)tx_phys_mask, (void)rx_phys_mask, (void)phy_opts;
    return request();
}
int ble_gap_update_params(uint16_t conn_handle, const struct ble_gap_upd_params *params) {
    (void)conn_handle, (void)params;
    return request();
}
