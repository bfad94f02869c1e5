#include "bench.h"

#include <string.h>

/* Returns the bytes of the area and sets `*size`. The core writes to the slot that does not run. */
static uint8_t *area_bytes(struct bench *bench, enum ota_area area, uint32_t *size) {
    *size = area == OTA_AREA_SLOT   ? SLOT_SIZE
            : area == OTA_AREA_BASE ? bench->config.base_size
                                    : OTA_RECORD_PAGES * bench->flash.page_size;
    return area == OTA_AREA_SLOT   ? bench->flash.slots[1 - bench->running]
           : area == OTA_AREA_BASE ? bench->flash.slots[bench->running]
                                   : bench->flash.record;
}

static uint8_t *place(struct bench *bench, enum ota_area area, uint32_t offset, uint32_t count) {
    uint32_t size;
    uint8_t *bytes = area_bytes(bench, area, &size);
    bool is_within = offset <= size && count <= size - offset;
    find(bench, is_within, "flash: an access outside the area");
    return is_within ? bytes + offset : NULL;
}

static bool fails(const struct flash *flash, enum ota_area area, uint8_t operation) {
    if (!flash->is_powered) return true;
    bool here = (flash->failing & 8) == 0 || area == OTA_AREA_RECORD;
    return here && (flash->failing & operation) != 0;
}

/* Counts an operation. True: the power is cut during it. */
static bool is_cut(struct flash *flash) {
    if (flash->operations_left == 0 || --flash->operations_left > 0) return false;
    flash->is_powered = false;
    return true;
}

bool flash_read(struct bench *bench, enum ota_area area, uint32_t offset, uint8_t *bytes, uint32_t count) {
    const uint8_t *flash = place(bench, area, offset, count);
    bench->flash.reads++;
    if (!flash || fails(&bench->flash, area, 4)) return false;
    memcpy(bytes, flash, count);
    return true;
}

bool flash_write(struct bench *bench, enum ota_area area, uint32_t offset, const uint8_t *bytes, uint32_t count) {
    uint8_t *flash = place(bench, area, offset, count);
    uint32_t unit = bench->flash.write_unit;
    bench->flash.changes++;
    find(bench, area != OTA_AREA_BASE, "flash: a write to the running image");
    find(bench, offset % unit == 0 && count % unit == 0 && count > 0, "flash: a write of incomplete write units");
    bool failing = fails(&bench->flash, area, 1);
    if (!flash || !bench->flash.is_powered || (failing && !bench->flash.fails_halfway)) return false;
    bool cut = is_cut(&bench->flash);
    if (cut && bench->flash.moment == BEFORE) return false;
    uint32_t written = failing || (cut && bench->flash.moment == DURING) ? count / 2 : count;
    bool is_erased = true;
    for (uint32_t i = 0; i < written; i++) {
        is_erased = is_erased && flash[i] == 0xFF;
        flash[i] &= bytes[i];
    }
    find(bench, is_erased, "flash: a write on bytes that are not erased");
    return !cut && !failing;
}

bool flash_erase(struct bench *bench, enum ota_area area, uint32_t offset) {
    uint32_t page_size = bench->flash.page_size;
    uint8_t *flash = place(bench, area, offset, page_size);
    bench->flash.changes++;
    find(bench, area != OTA_AREA_BASE, "flash: an erase of the running image");
    find(bench, offset % page_size == 0, "flash: an erase that does not start at a page");
    bool failing = fails(&bench->flash, area, 2);
    if (!flash || !bench->flash.is_powered || (failing && !bench->flash.fails_halfway)) return false;
    bool cut = is_cut(&bench->flash);
    if (cut && bench->flash.moment == BEFORE) return false;
    memset(flash, 0xFF, page_size);
    if (failing || (cut && bench->flash.moment == DURING))
        memset(flash + page_size / 2, 0x3C, page_size - page_size / 2);
    return !cut && !failing;
}
