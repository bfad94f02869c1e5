/* A device for the tests of the glue: the functions of Zephyr's stub headers, over a flash, settings and a bootloader. */
#ifndef WORLD_H
#define WORLD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "glue.h"

enum { SLOT = 0x20000, STORED = 4 };

struct bt_conn {
    uint8_t index;
    int references;
    bool subscribed[2]; /* Control, Progress */
};

struct world {
    uint8_t slots[2][SLOT], record[0x2000];
    struct {
        char name[32];
        uint8_t value[200];
        size_t size;
    } settings[STORED];
    enum { BOOT_NONE, BOOT_TEST, BOOT_PERMANENT, BOOT_TRIAL } boot;

    /* The number of durable writes until the power cut, which jumps to `power`. Negative: no power cut. */
    int writes_left;
    jmp_buf power;

    /* The name of the function whose next call fails, or NULL. */
    const char *fails;

    int locks, locked, reboots, trials; /* locks that are held, calls of k_mutex_lock */
    bool starts; /* the update thread starts, so the core needs no lock */
    uint32_t now;
    bool has_buffer, self_test;
    const struct bt_conn *blocked; /* the stack has no buffer for this connection */
    bool has_permanent; /* the bootloader's permanent mark or confirmation was written */
    int requests; /* of connection parameters */
    /* The last notification. */
    int notifications;
    uint8_t notified[20];
    const struct bt_gatt_attr *notified_attribute;
    uint16_t notified_size;
};

extern struct world world;
extern const struct bt_conn_cb otaflash_callbacks;
extern const struct bt_gatt_service_static otaflash_service;

/* Starts the bootloader, which swaps the slots if an image is marked or a trial has failed. */
void world_boot(void);
/* Replaces SHA-256. */
void world_digest(const uint8_t *bytes, size_t count, uint8_t digest[32]);

#endif
