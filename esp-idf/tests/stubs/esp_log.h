#ifndef ESP_LOG_H
#define ESP_LOG_H
__attribute__((format(printf, 2, 3))) void stub_log(const char *tag, const char *format, ...);
#define ESP_LOGE(tag, format, ...) stub_log(tag, format, ##__VA_ARGS__)
#define ESP_LOGW(tag, format, ...) stub_log(tag, format, ##__VA_ARGS__)
#define ESP_LOGI(tag, format, ...) stub_log(tag, format, ##__VA_ARGS__)
#define ESP_LOGD(tag, format, ...) stub_log(tag, format, ##__VA_ARGS__)
#endif
