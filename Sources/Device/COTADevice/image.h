/* Layer 2 of the core (values.h lists the layers): the download in the slot, its records and its decoder, and the wear
 * of the slot. */
#ifndef OTA_IMAGE_H
#define OTA_IMAGE_H

#include "values.h"

/* ---- record.c ---- */

/* Reads the newest record into `held_digest`, `held_recorded` and `wear`. Returns false if a record could not be read.
 * In this case `held_recorded` is 0, so no download can be resumed, and `wear` is from the newest readable record. */
bool ota_record_load(struct ota_device *device);

/* Returns the interval of the records for an image of `size` bytes, in pages. The core appends a record each time it
 * has written this number of pages of the image. */
uint32_t ota_record_interval(const struct ota_device *device, uint32_t size);

/* Appends a record. The record states that the first `offset` bytes of the download (`held_digest`) are in flash.
 * Returns false if the flash failed. */
bool ota_record_append(struct ota_device *device, uint32_t offset);

/* ---- wear.c ---- */

/* The wear points of a round of erases (wear.c), the wear points of an APPLY, and the maximum sum of the points. An
 * APPLY counts as four rounds, because MCUboot's swap using move erases each page twice for the trial and twice for the
 * roll back. */
enum { OTA_WEAR_ERASE = 8, OTA_WEAR_APPLY = 4 * OTA_WEAR_ERASE, OTA_WEAR_LARGEST = OTA_WEAR_BURST * OTA_WEAR_ERASE };

/* A limit in milliseconds, for a `now` that is lower than the `now` of an earlier call. If the difference is below this
 * limit, the calls were out of order. If the difference is not below the limit, the clock has wrapped. */
enum { OTA_CLOCK_STEP_BACK = 60000 };

/* Returns whether the wear limit allows `charge` more points. */
bool ota_wear_allows(const struct ota_device *device, uint32_t charge);
void ota_wear_charge(struct ota_device *device, uint32_t charge);
/* Reduces the wear points according to the time since the last call. */
void ota_wear_decay(struct ota_device *device, uint32_t now);
/* Starts the wear limit at `now` with the points that `ota_record_load` has read. A boot that is not a trial boot
 * reduces the points by one, if the core can append a record with the new sum. */
void ota_wear_start(struct ota_device *device, uint32_t now);

/* ---- image.c ---- */

/* Returns the offset at which the download of the accepted image begins or resumes. The offset is at most `from`, which
 * the host sent in BEGIN. `size` is the size of the image. */
uint32_t ota_image_resume(const struct ota_device *device, uint32_t from, uint32_t size);

/* Returns whether the download of an image of `size` bytes from `offset` must start a new round of erases (wear.c). The
 * core charges wear points only for a new round. */
bool ota_image_erases_again(const struct ota_device *device, uint32_t offset, uint32_t size);

/* Begins or resumes the download of the accepted image at `offset`, which `ota_image_resume` has returned. First
 * discards the received bytes if they are of another image. Returns false if the flash failed. In this case the device
 * keeps the received bytes. */
bool ota_image_begin(struct ota_device *device, uint32_t offset);

/* Returns the address in the page buffer for the next bytes of the image. Sets `*count` to the number of bytes up to
 * the end of the page, at least 1. */
uint8_t *ota_image_room(const struct ota_device *device, uint32_t *count);

/* Adds `count` bytes to the received image. Before the call, the caller has written these bytes to the address that
 * `ota_image_room` returned. `count` must not be more than the number of missing bytes of the image. Writes the page
 * to flash if the page or the image is complete. Returns false if the flash failed. In this case the core discards the
 * bytes in the page buffer and keeps only the bytes in flash. */
bool ota_image_add(struct ota_device *device, uint32_t count);

/* Stores the next `count` bytes of the image, from `held_offset` on. `count` must not be more than the number of
 * missing bytes of the image. Returns false after a flash error, like `ota_image_add`. */
bool ota_image_write(struct ota_device *device, const uint8_t *bytes, uint32_t count);

/* Discards the received bytes, and appends a record with offset 0 if necessary. Returns false if the flash failed. In
 * this case the device keeps the bytes. */
bool ota_image_discard(struct ota_device *device);

/* Erases the next page of the slot before its bytes arrive (`erase_ahead`). Returns false if the flash failed. */
bool ota_image_erase_next(struct ota_device *device);

#if OTA_ENCODINGS

/* ---- dictionary.c ---- */

/* Returns the number of bytes of the dictionary. */
uint32_t ota_dictionary_size(const struct ota_device *device);

/* Reads the byte that is `distance` + 1 bytes before the end of the dictionary. `distance` must be below the size of
 * the dictionary. Returns OTA_OK, OTA_FLASH_FAILED, or OTA_NOT_DECODED if the base could not be read. */
enum ota_status ota_dictionary_read(struct ota_device *device, uint32_t distance, uint8_t *byte);

/* Appends `count` bytes of the dictionary to the image. The first byte is `distance` + 1 bytes before the end of the
 * dictionary. `distance` must be below the size of the dictionary. `count` must not be more than the number of missing
 * bytes of the image. Returns OTA_OK, OTA_FLASH_FAILED, or OTA_NOT_DECODED if the base could not be read. */
enum ota_status ota_dictionary_copy(struct ota_device *device, uint32_t distance, uint32_t count);

/* ---- lzma.c ---- */

/* Returns the next encoded byte of the chunk. If no byte is at hand (decoder.c), or if the chunk has no byte left,
 * returns 0 and sets `is_short`. */
uint8_t ota_lzma_input(struct ota_decoder *decoder);

/* Resets the state and the probabilities. */
void ota_lzma_reset(struct ota_decoder *decoder);
/* Starts the range coder with the first OTA_LZMA_START encoded bytes of a chunk. Returns whether these bytes are
 * valid. */
enum { OTA_LZMA_START = 5 };
bool ota_lzma_start(struct ota_decoder *decoder);
/* Decodes one symbol, and appends its bytes to the image: at least 1, and at most `plain_left`. Returns OTA_OK,
 * OTA_NOT_DECODED or OTA_FLASH_FAILED. The caller ensures that all encoded bytes of the symbol are at hand
 * (decoder.c). */
enum ota_status ota_lzma_symbol(struct ota_device *device);
/* Returns whether the chunk ends correctly. The caller has already decoded all plain bytes of the chunk. */
bool ota_lzma_ends(struct ota_decoder *decoder);

/* ---- decoder.c ---- */

/* Starts an encoded image at `held_offset`. The first `base_size` bytes of the running image are its base. */
void ota_decoder_start(struct ota_device *device, uint32_t base_size);

/* Returns whether the encoded image is incomplete: bytes of the image are missing, or the current chunk has not
 * ended. */
bool ota_decoder_is_open(const struct ota_device *device);

/* Decodes the next `count` bytes of the encoded image, and stores the image's bytes. Returns OTA_OK, OTA_NOT_DECODED or
 * OTA_FLASH_FAILED. Decodes at most two chunks, so the work of one call is bounded. */
enum ota_status ota_decoder_write(struct ota_device *device, const uint8_t *bytes, uint32_t count);

#endif

#endif
