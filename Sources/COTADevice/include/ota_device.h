/* see ota_device.h */
