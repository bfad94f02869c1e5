#include "device_fuzz.h"

#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* The first byte is the policy: bit 0 requires Ed25519, bit 1 ML-DSA-44. */
enum { POLICY, SETTINGS };

static const uint8_t key_ids[2 * OTA_PREFIX_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9};
static const uint8_t algorithms[2] = {OTA_ED25519, OTA_ML_DSA_44};

static int send_envelope(struct bench *bench, const uint8_t *bytes, uint32_t count) {
    uint8_t begin[19] = {OTA_BEGIN, 0x31, OTA_OBJECT_ENVELOPE}, finish[2] = {OTA_FINISH, 0x32}, digest[OTA_DIGEST_SIZE];
    for (int i = 0; i < 4; i++) begin[3 + i] = (uint8_t)(count >> 8 * i);
    digest_of(bytes, count, digest);
    memcpy(begin + 11, digest, OTA_PREFIX_SIZE);
    if (request(bench, 1, begin, sizeof begin) != OTA_OK) return -1;
    for (uint32_t at = 0, most = bench->config.longest_data - 2u; at < count; at += most)
        send_value(bench, 1, bytes + at, count - at);
    return request(bench, 1, finish, sizeof finish);
}

static void check_envelope(struct bench *bench, uint8_t policy, const uint8_t *bytes, uint32_t count) {
    struct ota_config *config = &bench->config;
    config->key_ids = key_ids;
    config->key_algorithms = algorithms;
    config->key_count = 2;
    if (policy & 1) config->required_algorithms |= OTA_REQUIRES(OTA_ED25519);
    if (policy & 2) config->required_algorithms |= OTA_REQUIRES(OTA_ML_DSA_44);
    /* The memory has exactly the size of the envelope, so that the sanitizer detects an access beyond its end. */
    config->largest_envelope = (uint16_t)(count < OTA_ENVELOPE_LARGEST ? count : OTA_ENVELOPE_LARGEST);
    config->envelope = malloc(config->largest_envelope);
    if (!config->envelope) return;
    if (ota_device_start(&bench->device, config, &bench->port, bench, bench->page, bench->now) != OTA_START_ENVELOPE) {
        ota_device_connected(&bench->device, 1, bench->now);
        ota_device_subscribed(&bench->device, 1, OTA_CONTROL, true, bench->now);
        int status = send_envelope(bench, bytes, count);
        bool is_accepted = bench->device.state == OTA_STATE_ACCEPTED;
        find(bench, is_accepted == (status == OTA_OK), "envelope: the status differs from the state");
        find(bench, !is_accepted || bench->verified != 0, "envelope: accepted without a valid signature");
        find(bench, !is_accepted || (bench->verified & config->required_algorithms) == config->required_algorithms,
             "envelope: accepted without the required algorithms");
        find(bench, bench->flash.changes == 0, "envelope: the check changes the flash");
    }
    free(config->envelope);
}

const char *envelope_fuzz(const uint8_t *bytes, size_t count) {
    static const uint8_t settings[4] = {3, 1, 2, 0xFF};
    if (count <= SETTINGS || count > OTA_ENVELOPE_LARGEST) return NULL;
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench) return NULL;
    bench_start(bench, settings);
    bench->flash.changes = 0;
    if (bench->page) check_envelope(bench, bytes[POLICY], bytes + SETTINGS, (uint32_t)count - SETTINGS);
    const char *finding = bench->finding;
    free(bench->page);
    free(bench);
    return finding;
}
