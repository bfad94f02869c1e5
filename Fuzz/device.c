/* COTADevice and COTAEd25519 with libFuzzer: the targets device, decoder, envelope and ed25519. scripts/fuzz builds them with
 * sanitizers. */
#include "device_fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const char *target = getenv("FUZZ_TARGET");
    if (!target) target = "device";
    const char *(*run)(const uint8_t *bytes, size_t count) = device_fuzz;
    if (strcmp(target, "decoder") == 0) run = decoder_fuzz;
    if (strcmp(target, "envelope") == 0) run = envelope_fuzz;
    if (strcmp(target, "ed25519") == 0) run = ed25519_fuzz;
    const char *finding = run(bytes, count);
    if (finding) {
        fprintf(stderr, "%s: %s\n", target, finding);
        abort();
    }
    return 0;
}
