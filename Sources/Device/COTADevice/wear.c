#include "image.h"

/*
 * Limits how often each page of the slot is erased. The limit applies to all hosts together. `device->wear` is a sum of
 * points. A charge adds points, and time reduces them. The core refuses a BEGIN or an APPLY whose charge would exceed
 * OTA_WEAR_LARGEST.
 *
 * A round is a series of erases at ascending offsets. A round erases each page at most once, so the core charges only
 * the first erase of a round (image.c). The first erase after a boot starts a new round, because the core does not know
 * which pages were erased before the boot. The core also charges APPLY, because the bootloader's swap erases pages.
 *
 * The records (record.c) keep the points across a reboot. Without the records, a host could set the points to 0 with a
 * trial. The core records a charge before the erase. If the record followed the erase, a reboot between the two would
 * lose the charge.
 *
 * The core does not know how long the device was without power. Therefore each boot reduces the points by one, so that
 * a device that restarts often can still be updated. A trial boot does not reduce the points, because a host can cause
 * a trial boot.
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

/* Reduces the points by the time that has passed, without a timer. If the core is not called for more than 2^32 ms, it
 * misses a wrap of the clock, and the points stay higher than necessary. A caller that waited for a lock may pass a
 * `now` that is slightly lower than the `now` of an earlier call. In this case the points do not change. */
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
    /* record_generation is 0 if no record exists, or if a record could not be read. In both cases append no record:
     * after a failed read, the append would erase both record pages, and would do so again at each boot. */
    if (device->wear == 0 || device->config->on_trial || device->record_generation == 0) return;
    device->wear--;
    /* If the append fails, this boot does not reduce the points. */
    if (!ota_record_append(device, device->held_recorded)) device->wear++;
}
