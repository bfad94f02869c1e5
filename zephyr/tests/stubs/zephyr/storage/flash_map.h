#ifndef ZEPHYR_STORAGE_FLASH_MAP_H
#define ZEPHYR_STORAGE_FLASH_MAP_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
struct flash_area {
    uint8_t fa_id;
    size_t fa_size;
};
enum { STUB_slot0_partition, STUB_slot1_partition, STUB_otaflash_partition, STUB_storage_partition };
#ifdef STUB_ZEPHYR_4
#define PARTITION_ID(label) STUB_##label
#else
#define FIXED_PARTITION_ID(label) STUB_##label
#endif
int flash_area_open(uint8_t id, const struct flash_area **fa);
int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len);
int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len);
int flash_area_erase(const struct flash_area *fa, off_t off, size_t len);
#endif
