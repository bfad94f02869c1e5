/* The callbacks of the core: flash map, PSA, MCUboot, GATT and the LED. */
#include <errno.h>
#include <psa/crypto.h>
#include <string.h>
#include <zephyr/dfu/mcuboot.h>
#include <zephyr/drivers/gpio.h>
#include <zephyr/logging/log.h>
#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/reboot.h>

#include "glue.h"
#include "otaflash.h"

#ifdef CONFIG_OTAFLASH_ED25519_OWN
#include "ota_ed25519.h"
#endif
#ifdef CONFIG_OTAFLASH_ED25519_MCUBOOT
int ED25519_verify(const uint8_t *message, size_t size, const uint8_t signature[64], const uint8_t public_key[32]);
#endif

LOG_MODULE_DECLARE(otaflash, CONFIG_OTAFLASH_LOG_LEVEL);

/* ---- Flash and hash ---- */

static const struct flash_area *areas[3]; /* enum ota_area */

static bool read_flash(void *context, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count) {
    ARG_UNUSED(context);
    return flash_area_read(areas[area], (off_t)offset, bytes, count) == 0;
}

static bool write_flash(void *context, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    ARG_UNUSED(context);
    return flash_area_write(areas[area], (off_t)offset, bytes, count) == 0;
}

static bool erase_flash(void *context, enum ota_area area, uint32_t offset) {
    ARG_UNUSED(context);
    return flash_area_erase(areas[area], (off_t)offset, DT_PROP(DT_CHOSEN(zephyr_flash), erase_block_size)) == 0;
}

static psa_hash_operation_t hash;
static bool hash_is_good;

static void start_hash(void *context) {
    ARG_UNUSED(context);
    (void)psa_hash_abort(&hash);
    hash = psa_hash_operation_init();
    hash_is_good = psa_hash_setup(&hash, PSA_ALG_SHA_256) == PSA_SUCCESS;
}

static void update_hash(void *context, const uint8_t *bytes, uint32_t count) {
    ARG_UNUSED(context);
    hash_is_good = hash_is_good && psa_hash_update(&hash, bytes, count) == PSA_SUCCESS;
}

static bool finish_hash(void *context, uint8_t digest[OTA_DIGEST_SIZE]) {
    ARG_UNUSED(context);
    size_t size = 0;
    return hash_is_good && psa_hash_finish(&hash, digest, OTA_DIGEST_SIZE, &size) == PSA_SUCCESS && size == OTA_DIGEST_SIZE;
}

bool otaflash_slot_has(const struct otaflash_image *image) {
    static uint8_t bytes[256];
    uint8_t digest[OTA_DIGEST_SIZE];
    if (image->image_size > areas[OTA_AREA_BASE]->fa_size) return false;
    start_hash(NULL);
    for (uint32_t offset = 0; offset < image->image_size;) {
        uint32_t count = MIN(sizeof bytes, image->image_size - offset);
        if (!read_flash(NULL, OTA_AREA_BASE, offset, bytes, count)) return false;
        update_hash(NULL, bytes, count);
        offset += count;
    }
    return finish_hash(NULL, digest) && memcmp(digest, image->image_digest, sizeof digest) == 0;
}

static bool verify(void *context, uint8_t key, enum ota_algorithm algorithm, const uint8_t *message, uint32_t count,
                   const uint8_t *signature, uint32_t signature_size) {
    ARG_UNUSED(context);
    if (algorithm != OTA_ED25519 || signature_size != 64) return false;
#if defined(CONFIG_OTAFLASH_ED25519_OWN)
    return ota_ed25519_verify(otaflash_key(key), message, count, signature, signature_size);
#elif defined(CONFIG_OTAFLASH_ED25519_MCUBOOT)
    return ED25519_verify(message, count, signature, otaflash_key(key)) == 1;
#else
    return otaflash_ed25519_verify(otaflash_key(key), message, count, signature);
#endif
}

/* ---- Connections and notifications ---- */

/* Only the update thread uses these variables. Each connection holds a reference from the event "connected" until the
 * event "disconnected" was handled, so that the stack does not use its index again. */
static struct bt_conn *connections[CONFIG_BT_MAX_CONN];
static bool has_begun[CONFIG_BT_MAX_CONN];
/* One answer and one Progress of each connection. */
static struct {
    uint16_t connection, count;
    enum ota_characteristic characteristic;
    uint8_t bytes[OTA_NOTIFICATION_LARGEST];
} outbox[2 * CONFIG_BT_MAX_CONN];
static uint32_t outbox_count;

struct bt_conn *otaflash_port_connection(uint16_t index, struct bt_conn *connection) {
    struct bt_conn *old = connections[index];
    connections[index] = connection;
    has_begun[index] = false;
    return old;
}

static bool notify(void *context, uint16_t connection, enum ota_characteristic characteristic, const uint8_t *bytes,
                   uint16_t count) {
    ARG_UNUSED(context);
    for (uint32_t i = 0; i < outbox_count; i++) {
        if (outbox[i].connection == connection && outbox[i].characteristic == characteristic) return false;
    }
    outbox[outbox_count].connection = connection;
    outbox[outbox_count].characteristic = characteristic;
    outbox[outbox_count].count = count;
    memcpy(outbox[outbox_count].bytes, bytes, count);
    outbox_count++;
    return true;
}

static void begun(void *context, uint16_t connection) {
    ARG_UNUSED(context);
    has_begun[connection] = true;
}

/* Requests full-length packets, 2M PHY, an interval of 15 ms and a supervision timeout of 4 s. */
static void request_speed(struct bt_conn *connection) {
    int length = 0, phy = 0;
    if (IS_ENABLED(CONFIG_BT_USER_DATA_LEN_UPDATE))
        length = bt_conn_le_data_len_update(connection, BT_LE_DATA_LEN_PARAM_MAX);
    if (IS_ENABLED(CONFIG_BT_USER_PHY_UPDATE)) phy = bt_conn_le_phy_update(connection, BT_CONN_LE_PHY_PARAM_2M);
    int interval = bt_conn_le_param_update(connection, BT_LE_CONN_PARAM(12, 12, 0, 400));
    LOG_DBG("data length %d, PHY %d, interval %d", length, phy, interval);
}

bool otaflash_port_send(void) {
    uint32_t kept = 0;
    bool waits[CONFIG_BT_MAX_CONN] = {false};
    /* The notifications of a connection that has ended are discarded here, before the next event can use its index. */
    for (uint32_t i = 0; i < outbox_count; i++) {
        uint16_t index = outbox[i].connection;
        /* After any error except -ENOMEM, the connection has ended or the host has unsubscribed. */
        if (!waits[index] && connections[index])
            waits[index] = bt_gatt_notify(connections[index], otaflash_attribute(outbox[i].characteristic),
                                          outbox[i].bytes, outbox[i].count) == -ENOMEM;
        if (waits[index]) outbox[kept++] = outbox[i];
    }
    outbox_count = kept;
    for (uint16_t i = 0; i < CONFIG_BT_MAX_CONN; i++) {
        if (has_begun[i] && connections[i]) request_speed(connections[i]);
        has_begun[i] = false;
    }
    return kept == 0;
}

/* ---- Bootloader ---- */

static bool mark(void *context, enum ota_boot boot, const struct ota_manifest *manifest) {
    ARG_UNUSED(context);
    if (!otaflash_store_marked(manifest, boot)) return false;
    int error = boot_request_upgrade(boot == OTA_BOOT_PERMANENT ? BOOT_UPGRADE_PERMANENT : BOOT_UPGRADE_TEST);
    if (error) {
        LOG_ERR("boot_request_upgrade: %d", error);
        return false;
    }
    /* If this write fails, the start of the new image repeats it. */
    if (boot == OTA_BOOT_PERMANENT) (void)otaflash_store_counter(manifest->security_counter);
    return true;
}

static bool confirm(void *context, uint32_t counter, const uint8_t *digest) {
    ARG_UNUSED(context);
    ARG_UNUSED(digest);
    /* Never raise the counter before the bootloader's mark: without the mark, the old image must stay bootable. */
    if (!otaflash_store_confirming()) return false;
    if (boot_write_img_confirmed() != 0 || !otaflash_store_counter(counter)) return false;
    otaflash_store_confirmed();
    return true;
}

static void roll_back(void *context) { ARG_UNUSED(context); /* MCUboot starts the old image after any reboot. */ }

static void reboot(void *context) {
    ARG_UNUSED(context);
    sys_reboot(SYS_REBOOT_COLD);
}

__weak bool otaflash_self_test_passed(void) { return true; }
static bool self_test_passed(void *context) {
    ARG_UNUSED(context);
    return otaflash_self_test_passed();
}

/* ---- Identify ---- */

#if defined(CONFIG_OTAFLASH_IDENTIFY) && DT_NODE_HAS_STATUS(DT_ALIAS(led0), okay)
static const struct gpio_dt_spec led = GPIO_DT_SPEC_GET(DT_ALIAS(led0), gpios);
static uint32_t blinks;

static void blink(struct k_work *work) {
    (void)gpio_pin_set_dt(&led, blinks % 2);
    if (blinks == 0) return;
    blinks--;
    (void)k_work_schedule(k_work_delayable_from_work(work), K_MSEC(250));
}
static K_WORK_DELAYABLE_DEFINE(blinking, blink);

static void identify(void *context, uint8_t seconds) {
    ARG_UNUSED(context);
    (void)gpio_pin_configure_dt(&led, GPIO_OUTPUT_INACTIVE);
    blinks = 4u * seconds;
    (void)k_work_reschedule(&blinking, K_NO_WAIT);
}
#else
#define identify NULL
#endif

const struct ota_port otaflash_port = {
    .read = read_flash,
    .write = write_flash,
    .erase = erase_flash,
    .hash_start = start_hash,
    .hash_update = update_hash,
    .hash_finish = finish_hash,
    .verify = verify,
    .notify = notify,
    .mark = mark,
    .confirm = confirm,
    .roll_back = roll_back,
    .reboot = reboot,
    .self_test_passed = self_test_passed,
    .identify = identify,
    .begun = begun,
};

#ifndef PARTITION_ID /* Zephyr before 4.4 */
#define PARTITION_ID(label) FIXED_PARTITION_ID(label)
#endif

int otaflash_port_init(void) {
    if (flash_area_open(PARTITION_ID(slot1_partition), &areas[OTA_AREA_SLOT]) != 0 ||
        flash_area_open(PARTITION_ID(otaflash_partition), &areas[OTA_AREA_RECORD]) != 0 ||
        flash_area_open(PARTITION_ID(slot0_partition), &areas[OTA_AREA_BASE]) != 0)
        return -ENODEV;
    return psa_crypto_init() == PSA_SUCCESS ? 0 : -EIO;
}
