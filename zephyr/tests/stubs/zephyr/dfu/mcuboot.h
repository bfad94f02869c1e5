#ifndef ZEPHYR_DFU_MCUBOOT_H
#define ZEPHYR_DFU_MCUBOOT_H
#include <stdbool.h>
#define BOOT_UPGRADE_TEST 0
#define BOOT_UPGRADE_PERMANENT 1
bool boot_is_img_confirmed(void);
int boot_write_img_confirmed(void);
int boot_request_upgrade(int permanent);
#endif
