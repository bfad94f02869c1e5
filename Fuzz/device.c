/* COTADevice with libFuzzer: the targets device and decoder. scripts/fuzz builds them with sanitizers. */
#include "device_fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const char *target = getenv("FUZZ_TARGET");
    bool is_decoder = target && strcmp(target, "decoder") == 0;
    const char *finding = is_decoder ? decoder_fuzz(bytes, count) : device_fuzz(bytes, count);
    if (finding) {
        fprintf(stderr, "%s: %s\n", is_decoder ? "decoder" : "device", finding);
        abort();
    }
    return 0;
}
