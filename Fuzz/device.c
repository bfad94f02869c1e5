/* COTADevice with libFuzzer. scripts/fuzz builds it with sanitizers. */
#include "device_fuzz.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const char *finding = device_fuzz(bytes, count);
    if (finding) {
        fprintf(stderr, "device: %s\n", finding);
        abort();
    }
    return 0;
}
