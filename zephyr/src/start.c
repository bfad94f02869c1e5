/* The configuration of the core, and its start before the Bluetooth stack. */
#include <errno.h>
#include <zephyr/devicetree.h>
#include <zephyr/dfu/mcuboot.h>
#include <zephyr/drivers/flash.h>
#include <zephyr/init.h>
#include <zephyr/logging/log.h>
#include <zephyr/sys/reboot.h>
#include <zephyr/sys/util.h>

#include "glue.h"
#include "otaflash.h"
#include "otaflash_keys.h"

#if __has_include(<zephyr/app_version.h>)
#include <zephyr/app_version.h>
#elif __has_include(<app_version.h>)
#include <app_version.h>
#else
#error "otaflash: the application has no version. Add a file VERSION beside prj.conf (zephyr/sample/VERSION is an example)"
#endif

LOG_MODULE_REGISTER(otaflash, CONFIG_OTAFLASH_LOG_LEVEL);

/* Zephyr 4.4 renamed FIXED_PARTITION_EXISTS and FIXED_PARTITION_SIZE. */
#define HAS_PARTITION(label) DT_NODE_EXISTS(DT_NODELABEL(label))
#define BYTES_OF(label) DT_REG_SIZE(DT_NODELABEL(label))
#if !HAS_PARTITION(slot0_partition) || !HAS_PARTITION(slot1_partition)
#error "otaflash: the devicetree needs slot0_partition and slot1_partition, as MCUboot does"
#endif
#if !HAS_PARTITION(storage_partition)
#error "otaflash: the devicetree needs a storage_partition for the settings (zephyr/sample/boards has examples)"
#endif
#if !HAS_PARTITION(otaflash_partition)
#error "otaflash: the devicetree needs an otaflash_partition of two erase pages (zephyr/sample/boards has examples)"
#endif

#define VERSION_TEXT \
    STRINGIFY(APP_VERSION_MAJOR) "." STRINGIFY(APP_VERSION_MINOR) "." STRINGIFY(APP_PATCHLEVEL)
#define FLASH_NODE DT_CHOSEN(zephyr_flash)

enum {
    PAGE_SIZE = DT_PROP(FLASH_NODE, erase_block_size),
    WRITE_UNIT = DT_PROP(FLASH_NODE, write_block_size),
    SLOT_SIZE = BYTES_OF(slot1_partition),
    PAGES = SLOT_SIZE / PAGE_SIZE,
    /* MCUboot's default is 128, or the number of pages with CONFIG_BOOT_MAX_IMG_SECTORS_AUTO. */
    AUTOMATIC_SECTORS = PAGES > 128 ? PAGES : 128,
    SECTORS = CONFIG_OTAFLASH_BOOTLOADER_SECTORS > 0 ? CONFIG_OTAFLASH_BOOTLOADER_SECTORS : AUTOMATIC_SECTORS,
    LARGEST = OTA_MCUBOOT_LARGEST_IMAGE(SLOT_SIZE, PAGE_SIZE, WRITE_UNIT, SECTORS)
};
/* The size of a page and the write unit come from the chosen flash. Between it and a partition is the node of the
 * partitions. DT_MTD_FROM_FIXED_PARTITION would be the controller of an internal flash. */
#define IS_ON_CHOSEN_FLASH(label) DT_SAME_NODE(DT_GPARENT(DT_NODELABEL(label)), FLASH_NODE)
BUILD_ASSERT(IS_ON_CHOSEN_FLASH(slot1_partition) && IS_ON_CHOSEN_FLASH(otaflash_partition),
             "otaflash: slot1_partition and otaflash_partition must be on the chosen flash, zephyr,flash");
BUILD_ASSERT(BYTES_OF(otaflash_partition) == OTA_RECORD_PAGES * PAGE_SIZE,
             "otaflash: otaflash_partition must have exactly two erase pages");
BUILD_ASSERT(CONFIG_BT_MAX_CONN <= 8, "otaflash: CONFIG_BT_MAX_CONN is at most 8");
BUILD_ASSERT(CONFIG_BT_L2CAP_TX_MTU >= OTAFLASH_LONGEST + 3, "otaflash: CONFIG_BT_L2CAP_TX_MTU is at least 498");
BUILD_ASSERT(CONFIG_BT_BUF_ACL_RX_SIZE >= OTAFLASH_LONGEST + 7, "otaflash: CONFIG_BT_BUF_ACL_RX_SIZE is at least 502");

static uint8_t envelope[OTA_ENVELOPE_DEFAULT];
#ifdef CONFIG_OTAFLASH_ENCODED
static struct ota_decoder decoder;
#endif

static struct ota_config config = {
    .product = CONFIG_OTAFLASH_PRODUCT,
    .version = VERSION_TEXT,
    .key_ids = key_ids,
    .key_count = sizeof key_ids / OTA_PREFIX_SIZE,
    .envelope = envelope,
    .largest_envelope = sizeof envelope,
    .image_format = OTA_FORMAT_MCUBOOT,
    .hardware = CONFIG_OTAFLASH_HARDWARE,
    .largest_image = LARGEST,
    .longest_data = OTAFLASH_LONGEST,
    .window = CONFIG_OTAFLASH_WINDOW,
    .restart_seconds = CONFIG_OTAFLASH_RESTART_SECONDS,
    .trial_seconds = CONFIG_OTAFLASH_TRIAL_SECONDS,
    .page_size = PAGE_SIZE,
    .slot_size = SLOT_SIZE,
    .write_unit = WRITE_UNIT,
#ifdef CONFIG_OTAFLASH_ENCODED
    .decoder = &decoder,
    .base_size = LARGEST,
#endif
    .wear_minutes = CONFIG_OTAFLASH_WEAR_MINUTES,
};

__weak void otaflash_trial_started(void) {}

/* Runs on the update thread. */
static int start_on_thread(void) {
    int error = otaflash_port_init();
    if (!error) error = otaflash_store_load(&config, config.on_trial);
    if (!error) error = otaflash_queue_start(&config);
    LOG_INF("version %s, on trial: %d, counter %u, error %d", config.version, config.on_trial, config.security_counter, error);
    return error;
}

static int start(void) {
    config.on_trial = !boot_is_img_confirmed();
    if (config.on_trial) otaflash_trial_started();
    int error = otaflash_queue_run(start_on_thread);
    /* Without a running core, only this code can end the trial: MCUboot starts the old image after any reboot. */
    if (error && config.on_trial) sys_reboot(SYS_REBOOT_COLD);
    return error;
}

/* At this level the drivers and the scheduler run, and main() has not started the Bluetooth stack yet. */
SYS_INIT(start, APPLICATION, CONFIG_APPLICATION_INIT_PRIORITY);

const uint8_t *otaflash_key(uint8_t index) { return public_keys[index]; }
