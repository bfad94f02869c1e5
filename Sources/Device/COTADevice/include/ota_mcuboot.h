/* Sizes of MCUboot's slots, for ota_device.h. */
#ifndef OTA_MCUBOOT_H
#define OTA_MCUBOOT_H

/*
 * OTA_MCUBOOT_TRAILER is the size in bytes of the pages with MCUboot's trailer, at the end of a slot. The image must
 * not use these pages. `max_sectors` is the bootloader's CONFIG_BOOT_MAX_IMG_SECTORS. With
 * CONFIG_BOOT_MAX_IMG_SECTORS_AUTO, use the number of sectors of the slot. The trailer has three marks for each sector,
 * and each mark has the size of a write unit. Flags, sizes and a magic follow the marks (OTA_MCUBOOT_FLAGS). An
 * encrypted image has a larger trailer, which this macro does not compute.
 */
#define OTA_MCUBOOT_FLAGS(write_unit) ((write_unit) <= 8u ? 56u : (write_unit) <= 16u ? 96u : 6u * (write_unit))
#define OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) \
    ((3u * (max_sectors) * (write_unit) + OTA_MCUBOOT_FLAGS(write_unit) + (page_size)-1u) / (page_size) * (page_size))

/* The value of `ota_config.largest_image` for MCUboot's swap modes, in bytes: the size of the slot minus the trailer and
 * minus one page. The mode "swap using move" needs this page. */
#define OTA_MCUBOOT_LARGEST_IMAGE(slot_size, page_size, write_unit, max_sectors) \
    ((slot_size)-OTA_MCUBOOT_TRAILER(page_size, write_unit, max_sectors) - (page_size))

#endif
