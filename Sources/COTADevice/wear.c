#include "image.h"

/*
 * Limits how often each page of the slot is erased, for all hosts together. Pages are erased in ascending order.
 * Therefore one round through the slot erases each page at most once, and is charged once (image.c). APPLY is charged
 * for the bootloader's swap. Time reduces the charges. The records keep the charges across a reboot; otherwise a host
 * could reset them with a trial. A charge is recorded before its erase. The first erase after a boot is also charged,
 * because a reset may have followed an erase of the same page.
 *
 * The core does not know the time without power. Therefore each boot reduces the charges by one point, so that a device
 * that restarts often can still be updated. A trial boot does not reduce them, because a host can cause it.
 */

static uint32_t minutes(const struct ota_device *device) {
    return device->config->wear_minutes == 0 ? OTA_WEAR_MINUTES : device->config->wear_minutes;
}

bool ota_wear_allows(const struct ota_device *device, uint32_t charge) {
    return minutes(device) == OTA_WEAR_UNLIMITED || device->wear + charge <= OTA_WEAR_LARGEST;
}

void ota_wear_charge(struct ota_device *device, uint32_t charge) {
    device->wear = (uint16_t)ota_min(device->wear + charge, OTA_WEAR_LARGEST);
}

/* Reduces the points without a timer. If the core misses a wrap of the clock, the points stay higher than necessary.
 * A caller that waited for a lock may pass a time slightly before the last one. Such a time does not reduce the
 * points. */
void ota_wear_decay(struct ota_device *device, uint32_t now) {
    if (device->wear_since - now < OTA_CLOCK_STEP_BACK) return;
    uint32_t interval = minutes(device) * (60000 / OTA_WEAR_ERASE);
    uint32_t points = (now - device->wear_since) / interval;
    device->wear = (uint16_t)(device->wear - ota_min(points, device->wear));
    device->wear_since += points * interval;
}

void ota_wear_start(struct ota_device *device, uint32_t now) {
    device->wear_since = now;
    if (minutes(device) == OTA_WEAR_UNLIMITED) device->wear = 0;
    /* record_generation is 0 if a record could not be read. Then append no record: the append would erase both record
     * pages at each boot. */
    if (device->wear == 0 || device->config->on_trial || device->record_generation == 0) return;
    device->wear--;
    /* If the append fails, this boot does not reduce the points. */
    if (!ota_record_append(device, device->held_recorded)) device->wear++;
}
