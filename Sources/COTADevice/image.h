/* Layer 2 of the core (values.h): the download in the slot, its records, and the wear of the slot. */
#ifndef OTA_IMAGE_H
#define OTA_IMAGE_H

#include "values.h"

/* ---- record.c ---- */

/* Reads the newest record into `held_digest`, `held_recorded` and `wear`. False: a record could not be read. Then the
 * device holds no bytes, and `wear` is the wear of the newest readable record. */
bool ota_record_load(struct ota_device *device);

/* Returns the number of pages from one record to the next, for an image of `size` bytes. */
uint32_t ota_record_interval(const struct ota_device *device, uint32_t size);

/* Appends a record: `offset` bytes of the image `held_digest` are in flash. False: the flash failed. */
bool ota_record_append(struct ota_device *device, uint32_t offset);

/* ---- wear.c ---- */

/* The charges for an erase of the slot and for an APPLY, and the largest sum of charges. MCUboot's swap using move
 * erases a page twice for the swap and twice for the swap back. */
enum { OTA_WEAR_ERASE = 8, OTA_WEAR_APPLY = 4 * OTA_WEAR_ERASE, OTA_WEAR_LARGEST = OTA_WEAR_BURST * OTA_WEAR_ERASE };

/* A time that is earlier than the last one by less than this is out of order. Milliseconds. */
enum { OTA_CLOCK_STEP_BACK = 60000 };

/* Whether the wear limit allows this charge now. */
bool ota_wear_allows(const struct ota_device *device, uint32_t charge);
void ota_wear_charge(struct ota_device *device, uint32_t charge);
/* Reduces the charges by the time since the last call. */
void ota_wear_decay(struct ota_device *device, uint32_t now);
/* Starts the count after `ota_record_load`. */
void ota_wear_start(struct ota_device *device, uint32_t now);

/* ---- image.c ---- */

/* Returns the offset at which a BEGIN at `from` resumes an image of `size` bytes of the accepted manifest. Changes
 * nothing. */
uint32_t ota_image_resume(const struct ota_device *device, uint32_t from, uint32_t size);

/* Whether an image of `size` bytes, resumed at `offset`, erases a page that may have been erased since the last
 * charge. */
bool ota_image_erases_again(const struct ota_device *device, uint32_t offset, uint32_t size);

/* Resumes the image at `offset`. False: the flash failed, and the state is unchanged. */
bool ota_image_begin(struct ota_device *device, uint32_t offset);

/* Stores the bytes that follow `held_offset`. False: the flash failed. Then the device holds only the bytes in
 * flash. */
bool ota_image_write(struct ota_device *device, const uint8_t *bytes, uint32_t count);

/* Discards the held bytes durably. False: the flash failed, and the bytes are still held. */
bool ota_image_discard(struct ota_device *device);

/* Erases the next page of the image before its bytes arrive. False: the flash failed. */
bool ota_image_erase_next(struct ota_device *device);

#endif
