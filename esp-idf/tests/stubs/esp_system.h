#ifndef ESP_SYSTEM_H
#define ESP_SYSTEM_H
void esp_restart(void);
#endif
