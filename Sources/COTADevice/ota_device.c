#include "ota_device.h"
typedef int ota_placeholder;
