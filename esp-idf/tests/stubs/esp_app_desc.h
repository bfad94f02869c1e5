#ifndef ESP_APP_DESC_H
#define ESP_APP_DESC_H
#include <stdint.h>
typedef struct {
    char version[32];
    char project_name[32];
    uint8_t app_elf_sha256[32];
    uint8_t stub_rest[160];
} esp_app_desc_t;
const esp_app_desc_t *esp_app_get_description(void);
#endif
