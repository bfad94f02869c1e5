#include "ota_device.h"

enum ota_state ota_device_state(const struct ota_device *device) { return (enum ota_state)device->state; }
