/* The device under test: the glue and a real core, in the world of world.c. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"
#include "otaflash.h"
#include "world.h"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("FAILED  %s, line %d: %s\n", __func__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)
#define RUN(test) \
    do { \
        test(); \
        printf("ok      %s\n", #test); \
    } while (0)

enum { IMAGE = 9000 };
enum { HOST = 3, OTHER = 4 }; /* the handles of two connections */
enum { INVALID_OFFSET = 0x07, INVALID_LENGTH = 0x0D, UNLIKELY = 0x0E };

/* A release whose bytes all depend on a number (docs/bundle-format.md). */
struct release {
    uint8_t image[IMAGE], manifest[200];
    uint16_t manifest_size;
    uint32_t size, counter;
    const char *version;
};

/* What the hooks of the tests return, and received. */
extern struct hook_values {
    bool self_test, permits;
    uint8_t battery, seconds;
    int trials;
} hook_values;
extern const struct otaflash_hooks test_hooks;
extern bool encrypts; /* the flash of the next device is encrypted */

/* A device with an image in ota_0, before its first start. With `factory`, the image is in the factory partition. */
void prepare(bool factory);
/* `prepare`, and starts the bootloader and the firmware. */
void start(void);
/* Starts the bootloader and the firmware again. */
void restart(void);
/* Writes an image into a partition, as a programmer does. */
void flash_image(int partition, const struct release *release);
/* Returns whether this image runs. */
bool runs(const struct release *release);
void settle(void);

void connect(uint16_t handle);
void disconnect(uint16_t handle);
void subscribe(uint16_t handle, enum ota_characteristic characteristic, bool on);
/* `subscribe` for a reason of NimBLE. */
void change_subscription(uint16_t handle, enum ota_characteristic characteristic, bool on, uint8_t reason);
/* Returns an ATT error or 0. */
int write_value(uint16_t handle, enum ota_characteristic characteristic, const void *bytes, uint16_t size);
/* Returns the number of bytes, or a negative ATT error. */
int read_value(uint16_t handle, enum ota_characteristic characteristic, void *bytes, uint16_t offset);
const struct ble_gatt_chr_def *characteristic_at(enum ota_characteristic characteristic);

void make(struct release *release, uint8_t image, uint32_t counter, const char *version);
/* Sends a request from HOST. Returns the status in the answer, or -1. */
int request(const uint8_t *bytes, uint16_t size);
/* Sends BEGIN from HOST. Returns its status. */
int begin_object(uint8_t object, const uint8_t *bytes, uint32_t size, uint32_t *offset);
/* Sends the bytes from `at` to `end`. */
void send_bytes(const uint8_t *bytes, uint32_t at, uint32_t end);
/* Sends an object from HOST. Returns the status of BEGIN or FINISH. */
int send_object(uint8_t object, const uint8_t *bytes, uint32_t size);
/* Sends the envelope of a release with a signature by the trusted key at this index. `is_valid` false: a wrong one. */
int send_envelope(const struct release *release, int key, bool is_valid);
/* Installs a release up to APPLY, from a new connection of HOST. Returns the status of the first refused request. */
int install(const struct release *release);
/* Sends CONFIRM from a new connection of HOST. Returns the status. */
int confirm(void);

void test_updates(void);
void test_power_cuts(void);

#endif
