/* The device under test: the glue and a real core, in the world of world.c. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zephyr/init.h>

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

enum { INFO = 2, CONTROL = 4, DATA = 7, PROGRESS = 9, CONTROL_CCC = 5, PROGRESS_CCC = 10 };
enum { IMAGE = 9000 };

/* A release whose bytes all depend on a number (docs/bundle-format.md). */
struct release {
    uint8_t image[IMAGE], manifest[200];
    uint16_t manifest_size;
    uint32_t counter;
    const char *version;
};

extern struct bt_conn hosts[2];

/* Starts the device with an image of zeros in the primary slot. */
void start(void);
/* The world of `start`, without the start of the device. */
void prepare(void);
void settle(void);
const struct bt_gatt_attr *attribute(int index);
ssize_t write_attribute(struct bt_conn *host, int index, const void *bytes, uint16_t size);
void subscribe(struct bt_conn *host, int ccc, bool on);
void connect(struct bt_conn *host);
void disconnect(struct bt_conn *host);

void make(struct release *release, uint8_t image, uint32_t counter, const char *version);
/* Sends a request from the first host. Returns the status in the answer, or -1. */
int request(const uint8_t *bytes, uint16_t size);
/* Sends an object from the first host. Returns the status of BEGIN or FINISH. */
int send_object(uint8_t object, const uint8_t *bytes, uint32_t size);
/* Sends the envelope of a release with a signature by the trusted key at this index. `is_valid` false: a wrong one. */
int send_envelope(const struct release *release, int key, bool is_valid);

void test_updates(void);
void test_power_cuts(void);

#endif
