#include "image.h"

#include <string.h>

/*
 * A record: magic u16, wear u16, generation u32, manifest SHA-256, offset u32, CRC-32 of the 44 bytes before it. Records
 * are appended; the valid one of the highest generation counts. A full page is left only after the other one was erased
 * and its first record read back, so that at any instant of a power cut the newest record, or the one before it, is there.
 *
 * A record with a wrong CRC is skipped: a power cut tore it, and no erase followed. A record that cannot be read is not
 * skipped. It may be the newest one, which lowered the offset before an erase. An older record would then count erased
 * bytes. Therefore no offset is believed. The wear of the newest readable record still counts.
 */
enum { RECORD_SIZE = 48, AT_WEAR = 2, AT_GENERATION = 4, AT_DIGEST = 8, AT_OFFSET = 40, AT_CRC = 44 };

/* "R2". Records of another layout are not valid: the area is erased before the first record of this one is written. */
static const uint16_t magic = 0x3252;

/* Bytes from one record to the next: whole write units. */
static uint32_t stride(const struct ota_device *device) {
    return ota_round_up(RECORD_SIZE, device->config->write_unit);
}

static uint32_t records_per_page(const struct ota_device *device) { return device->config->page_size / stride(device); }

/* How often one download may erase each record page, apart from the erase for its first record. The wear limit counts
 * the slot's erases only, so the record pages must not wear much faster. */
enum { ERASES = 2 };

uint32_t ota_record_interval(const struct ota_device *device, uint32_t size) {
    uint32_t records = ERASES * OTA_RECORD_PAGES * records_per_page(device);
    uint32_t page_size = device->config->page_size;
    return ota_round_up(ota_round_up(size, page_size) / page_size, records) / records;
}

static uint32_t place(const struct ota_device *device, uint32_t page, uint32_t index) {
    return page * device->config->page_size + index * stride(device);
}

/* 0 is no record's generation: it stands for "none is known". */
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

/* Counted modulo 2^32; no two records that are there at a time are far apart. */
static bool is_newer(uint32_t generation, uint32_t than) { return generation - than - 1 < 0x7FFFFFFF; }

static void nothing_known(struct ota_device *device) {
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
    nothing_known(device);
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
        nothing_known(device);
        device->wear = wear;
        return false;
    }
    /* What is not blank behind the newest record was torn by a power cut, and is not written again. */
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
        /* Where nothing is known a page may hold what could not be read: neither may come back with a higher
         * generation. */
        if (device->record_generation == 0 && !erase_page(device, page)) return false;
        page ^= 1;
        index = 0;
        if (!erase_page(device, page)) return false;
    }
    /* A generation is spent even if the write fails: the record may be there after all. */
    if (++device->record_generation == 0) device->record_generation = 1;
    bool written = write_record(device, page, index, offset);
    if (written || page == device->record_page) {
        device->record_page = page;
        device->record_index = index + 1;
    }
    if (written) device->held_recorded = offset;
    return written;
}
