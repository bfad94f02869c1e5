#ifndef ZEPHYR_LOGGING_LOG_H
#define ZEPHYR_LOGGING_LOG_H
void stub_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define LOG_MODULE_REGISTER(...) extern int stub_log_module
#define LOG_MODULE_DECLARE(...) extern int stub_log_module
#define LOG_DBG(...) stub_log(__VA_ARGS__)
#define LOG_INF(...) stub_log(__VA_ARGS__)
#define LOG_ERR(...) stub_log(__VA_ARGS__)
#endif
