/* A device for the tests of the glue: the functions of the stub headers, over a flash, NVS and the bootloader. */
#ifndef WORLD_H
#define WORLD_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "esp_ota_ops.h"
#include "host/ble_hs.h"

enum { SLOT = 0x10000, RECORD = 0x2000, STORED = 4 };
enum { FACTORY, OTA_0, OTA_1, RECORDS, PARTITIONS };

struct world {
    esp_partition_t partitions[PARTITIONS];
    uint8_t flash[PARTITIONS][SLOT];
    bool is_written[PARTITIONS][SLOT]; /* since the last erase */
    /* The two sectors of the partition otadata. `sequence` 0: erased. */
    struct {
        uint32_t sequence;
        esp_ota_img_states_t state;
    } otadata[2];
    struct {
        char name[16];
        uint8_t value[80];
        size_t size;
    } stored[STORED], staged[STORED]; /* durable, and set but not committed */
    int running; /* the index of the partition */
    bool has_factory, has_rollback; /* has_rollback: of the bootloader */
    bool lacks_otadata;             /* the partition table has no such line */
    bool has_old_rules;             /* of esp_ota_set_boot_partition, before ESP-IDF 6.0 */
    int damaged;                    /* the partition whose image the bootloader refuses; FACTORY: none */

    /* The number of durable writes until the power cut, which jumps to `power`. Negative: no power cut. */
    int writes_left;
    jmp_buf power;
    /* The name of the function whose next call fails, or NULL. `fails_always`: all of its calls. */
    const char *fails;
    bool fails_always;

    int locks, locked; /* the mutexes that are held, and how often one was taken */
    bool starts;       /* the update task starts, so the core needs no lock */
    int polls;         /* of the update task since the idle task could run */
    bool restarted;
    uint32_t now; /* milliseconds */

    bool has_mbuf, has_buffer; /* for a new notification, and to send it */
    uint16_t blocked;          /* the stack has no buffer for this handle */
    int mbufs;                 /* not freed */
    int requests;              /* of connection parameters */
    uint16_t mtu;
    /* The last notification. */
    int notifications;
    uint8_t notified[20];
    uint16_t notified_handle, notified_attribute, notified_size;

    const struct ble_gatt_svc_def *service;
    struct ble_gap_event_listener *listener;
};

extern struct world world;

/* Starts the bootloader. */
void world_boot(void);
/* Replaces SHA-256. */
void world_digest(const uint8_t *bytes, size_t count, uint8_t digest[32]);

#endif
