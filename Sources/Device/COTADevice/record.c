#include "image.h"

#include <string.h>

/*
 * The layout of a record, little-endian: magic u16, wear u16, generation u32, manifest SHA-256, offset u32, CRC-32 of
 * the 44 bytes before it.
 *
 * The core appends records to one of two pages. It uses the valid record with the highest generation. When a page is
 * full, the core erases the other page, writes a record there, and reads it back. The core erases the full page only
 * after these three steps. Therefore, after a power cut at any moment, the newest record or the record before it is
 * valid.
 *
 * The core ignores a record with a wrong CRC: a power cut interrupted the write of this record, so no erase of the slot
 * followed. A record that the flash cannot read is different: it may be the newest record, with a lower offset that
 * the core recorded before an erase. An older record would then count erased bytes as received. Therefore, if a record
 * cannot be read, the core does not use the offset of any record. It still uses the wear points of the newest readable
 * record.
 */
enum { RECORD_SIZE = 48, AT_WEAR = 2, AT_GENERATION = 4, AT_DIGEST = 8, AT_OFFSET = 40, AT_CRC = 44 };

/* "R2". A record with another layout has another magic and is not valid. If there are only such records, the core
 * erases both pages before it writes its first record. */
static const uint16_t magic = 0x3252;

/* Returns the distance in bytes from the start of one record to the start of the next record, a multiple of the write
 * unit. */
static uint32_t stride(const struct ota_device *device) {
    return ota_round_up(RECORD_SIZE, device->config->write_unit);
}

static uint32_t records_per_page(const struct ota_device *device) { return device->config->page_size / stride(device); }

/* The maximum number of erases of each record page during one download. The erase for the first record is not counted.
 * The number is small, because the wear limit counts the erases of the slot, but not the erases of the record pages. */
enum { ERASES = 2 };

uint32_t ota_record_interval(const struct ota_device *device, uint32_t size) {
    uint32_t records = ERASES * OTA_RECORD_PAGES * records_per_page(device);
    uint32_t page_size = device->config->page_size;
    return ota_round_up(ota_round_up(size, page_size) / page_size, records) / records;
}

static uint32_t place(const struct ota_device *device, uint32_t page, uint32_t index) {
    return page * device->config->page_size + index * stride(device);
}

/* Returns whether the bytes are a valid record. Generation 0 is not valid, because `record_generation` 0 means that
 * no record is known. */
static bool is_record(const uint8_t *bytes) {
    return ota_u16(bytes) == magic && ota_u32(bytes + AT_GENERATION) != 0 &&
           ota_u32(bytes + AT_CRC) == ota_crc32(0, bytes, AT_CRC);
}

static bool is_blank(const uint8_t *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] != 0xFF) return false;
    }
    return true;
}

/* Returns whether `generation` is newer than `than`. The generations wrap at 2^32. The comparison is correct because
 * the generations of the records in flash differ by much less than 2^31. */
static bool is_newer(uint32_t generation, uint32_t than) { return generation - than - 1 < 0x7FFFFFFF; }

static void reset_records(struct ota_device *device) {
    device->record_generation = 0;
    device->record_page = OTA_RECORD_PAGES - 1;
    device->record_index = records_per_page(device);
    device->held_recorded = 0;
    device->wear = 0;
}

bool ota_record_load(struct ota_device *device) {
    uint8_t bytes[OTA_WRITE_UNIT_LARGEST];
    uint32_t end[OTA_RECORD_PAGES] = {0, 0};
    bool is_readable = true;
    reset_records(device);
    for (uint32_t page = 0; page < OTA_RECORD_PAGES; page++) {
        for (uint32_t index = 0; index < records_per_page(device); index++) {
            if (!device->port->read(device->context, OTA_AREA_RECORD, place(device, page, index), bytes,
                                    stride(device))) {
                is_readable = false;
                continue;
            }
            if (is_blank(bytes, stride(device))) continue;
            end[page] = index + 1;
            uint32_t generation = ota_u32(bytes + AT_GENERATION);
            if (!is_record(bytes) ||
                (device->record_generation != 0 && !is_newer(generation, device->record_generation)))
                continue;
            device->record_generation = generation;
            device->record_page = (uint8_t)page;
            device->wear = ota_u16(bytes + AT_WEAR);
            device->held_recorded = ota_u32(bytes + AT_OFFSET);
            memcpy(device->held_digest, bytes + AT_DIGEST, OTA_DIGEST_SIZE);
        }
    }
    if (!is_readable) {
        uint16_t wear = device->wear;
        reset_records(device);
        device->wear = wear;
        return false;
    }
    /* A power cut may have interrupted the write of a record after the newest one. The next record goes after the bytes
     * of the interrupted write, because bytes that are not blank cannot be written again. */
    if (device->record_generation != 0) device->record_index = end[device->record_page];
    return true;
}

/* Writes the record and reads it back. */
static bool write_record(struct ota_device *device, uint32_t page, uint32_t index, uint32_t offset) {
    uint8_t bytes[OTA_WRITE_UNIT_LARGEST], back[OTA_WRITE_UNIT_LARGEST];
    uint32_t at = place(device, page, index), count = stride(device);
    memset(bytes, 0xFF, sizeof bytes);
    ota_put_u16(bytes, magic);
    ota_put_u16(bytes + AT_WEAR, device->wear);
    ota_put_u32(bytes + AT_GENERATION, device->record_generation);
    memcpy(bytes + AT_DIGEST, device->held_digest, OTA_DIGEST_SIZE);
    ota_put_u32(bytes + AT_OFFSET, offset);
    ota_put_u32(bytes + AT_CRC, ota_crc32(0, bytes, AT_CRC));
    return device->port->write(device->context, OTA_AREA_RECORD, at, bytes, count) &&
           device->port->read(device->context, OTA_AREA_RECORD, at, back, count) && memcmp(bytes, back, count) == 0;
}

static bool erase_page(const struct ota_device *device, uint32_t page) {
    return device->port->erase(device->context, OTA_AREA_RECORD, place(device, page, 0));
}

bool ota_record_append(struct ota_device *device, uint32_t offset) {
    uint8_t page = device->record_page;
    uint32_t index = device->record_index;
    if (index == records_per_page(device)) {
        /* If no record is known, each page may contain a record that could not be read. Its generation may be higher
         * than the generation of the new record. Therefore erase both pages. */
        if (device->record_generation == 0 && !erase_page(device, page)) return false;
        page ^= 1;
        index = 0;
        if (!erase_page(device, page)) return false;
    }
    /* Use a new generation even if the last write failed, because the record of that write may be in flash. */
    if (++device->record_generation == 0) device->record_generation = 1;
    bool written = write_record(device, page, index, offset);
    if (written || page == device->record_page) {
        device->record_page = page;
        device->record_index = index + 1;
    }
    /* A record whose write failed may still be valid in flash. Such a record does no harm, because the bytes that it
     * counts are in the slot. Before the core erases one of these bytes, it appends a record with a lower offset
     * (image.c). */
    if (written) device->held_recorded = offset;
    return written;
}
