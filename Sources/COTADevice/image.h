/* Layer 2 of the core (values.h lists the layers): the download in the slot, its records, and the wear of the slot. */
#ifndef OTA_IMAGE_H
#define OTA_IMAGE_H

#include "values.h"

/* ---- record.c ---- */

/* Reads the newest record into `held_digest`, `held_recorded` and `wear`. Returns false if a record could not be
 * read. Then the device has no partial upload, and `wear` is that of the newest readable record. */
bool ota_record_load(struct ota_device *device);

/* Returns the number of image pages that are written between two progress records, for an image of `size` bytes. */
uint32_t ota_record_interval(const struct ota_device *device, uint32_t size);

/* Appends a record with the progress of the image with the digest `held_digest`: its first `offset` bytes are in flash. Returns
 * false if the flash failed. */
bool ota_record_append(struct ota_device *device, uint32_t offset);

/* ---- wear.c ---- */

/* The wear points for an erase of the slot and for an APPLY, and the largest sum of points. An APPLY counts as four
 * erases, because MCUboot's swap using move erases a page twice for the swap and twice for the swap back. */
enum { OTA_WEAR_ERASE = 8, OTA_WEAR_APPLY = 4 * OTA_WEAR_ERASE, OTA_WEAR_LARGEST = OTA_WEAR_BURST * OTA_WEAR_ERASE };

/* Milliseconds. If the time decreases by less than this, the calls were out of order. If it decreases by more, the
 * clock has wrapped. */
enum { OTA_CLOCK_STEP_BACK = 60000 };

/* Returns whether the wear limit allows this number of points more. */
bool ota_wear_allows(const struct ota_device *device, uint32_t charge);
void ota_wear_charge(struct ota_device *device, uint32_t charge);
/* Reduces the wear points according to the time since the last call. */
void ota_wear_decay(struct ota_device *device, uint32_t now);
/* Starts the count of wear points with the value that `ota_record_load` has read. */
void ota_wear_start(struct ota_device *device, uint32_t now);

/* ---- image.c ---- */

/* Returns the offset at which BEGIN with the argument `from` resumes the image of the accepted manifest, which has
 * `size` bytes. Changes nothing. */
uint32_t ota_image_resume(const struct ota_device *device, uint32_t from, uint32_t size);

/* Returns whether an image of `size` bytes, resumed at `offset`, will erase a page whose last erase is already in the
 * wear points of this round. */
bool ota_image_erases_again(const struct ota_device *device, uint32_t offset, uint32_t size);

/* Resumes the image at `offset`. Returns false if the flash failed; then the state is unchanged. */
bool ota_image_begin(struct ota_device *device, uint32_t offset);

/* Stores the bytes that follow `held_offset`. Returns false if the flash failed; then only the bytes in flash are
 * left. */
bool ota_image_write(struct ota_device *device, const uint8_t *bytes, uint32_t count);

/* Discards the received bytes, also in the record. Returns false if the flash failed; then the device still has the
 * bytes. */
bool ota_image_discard(struct ota_device *device);

/* Erases the next page of the image before its bytes arrive. Returns false if the flash failed. */
bool ota_image_erase_next(struct ota_device *device);

#endif
