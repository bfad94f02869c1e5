#include <stdio.h>
#include <stdlib.h>

#include "ota_device.h"

/* Prints the size of the largest image for a slot of PAGES pages of 4 KiB: largest-image PAGES. The bootloader is MCUboot with trials. */
int main(int argc, char **argv) {
    unsigned long pages = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    const struct ota_config config = {
        .image_format = OTA_FORMAT_MCUBOOT,
        .trial_seconds = 120,
        .page_size = 4096,
        .slot_size = pages < 65536 ? (uint32_t)pages * 4096 : 0,
        .write_unit = 4,
    };
    uint32_t size = ota_largest_image(&config);
    if (size == 0) {
        fputs("usage: largest-image PAGES, at most 65535 and enough for an image\n", stderr);
        return 64;
    }
    printf("%u bytes\n", (unsigned)size);
    return 0;
}
