#define _POSIX_C_SOURCE 200809L
#include "flash.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int file = -1;
static unsigned long step, power_cut;

bool flash_open(const char *path, unsigned long cut_at) {
    power_cut = cut_at;
    file = open(path, O_RDWR | O_CREAT, 0666);
    if (file < 0) return false;
    off_t size = lseek(file, 0, SEEK_END);
    uint8_t erased[PAGE_SIZE];
    memset(erased, 0xFF, sizeof erased);
    for (; size >= 0 && size < FLASH_BYTES; size += PAGE_SIZE)
        if (pwrite(file, erased, sizeof erased, size) != (ssize_t)sizeof erased) return false;
    return size == FLASH_BYTES;
}

bool flash_read(uint32_t offset, void *bytes, uint32_t count) {
    return offset <= FLASH_BYTES && count <= FLASH_BYTES - offset &&
           pread(file, bytes, count, (off_t)offset) == (ssize_t)count;
}

/* Changes the bytes. A power cut in the middle leaves the second half as it was, except a unit that cannot be read. */
static bool change(uint32_t offset, const void *bytes, uint32_t count) {
    static const uint8_t unreadable[WRITE_UNIT];
    bool is_torn = ++step == power_cut;
    uint32_t part = is_torn ? count / 2 / WRITE_UNIT * WRITE_UNIT : count;
    bool done = pwrite(file, bytes, part, (off_t)offset) == (ssize_t)part && fdatasync(file) == 0;
    if (is_torn) done = pwrite(file, unreadable, WRITE_UNIT, (off_t)(offset + part)) == WRITE_UNIT;
    if (is_torn || ++step == power_cut) _exit(75);
    return done;
}

bool flash_write(uint32_t offset, const void *bytes, uint32_t count) {
    /* The flash of a microcontroller cannot set a bit again without an erase. Some flash refuses a second write. */
    uint8_t old[PAGE_SIZE];
    if (offset % WRITE_UNIT != 0 || count % WRITE_UNIT != 0 || count > sizeof old) return false;
    if (!flash_read(offset, old, count)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (old[i] != 0xFF) return false;
    return change(offset, bytes, count);
}

bool flash_erase(uint32_t offset) {
    if (offset % PAGE_SIZE != 0 || offset >= FLASH_BYTES) return false;
    uint8_t erased[PAGE_SIZE];
    memset(erased, 0xFF, sizeof erased);
    return change(offset, erased, sizeof erased);
}
