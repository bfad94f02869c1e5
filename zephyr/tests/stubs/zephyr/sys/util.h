#ifndef ZEPHYR_SYS_UTIL_H
#define ZEPHYR_SYS_UTIL_H
#define ARG_UNUSED(x) (void)(x)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define BUILD_ASSERT(expression, ...) _Static_assert(expression, "" __VA_ARGS__)
#define IS_ENABLED(config) STUB_ENABLED(config)
#define STUB_ENABLED(value) STUB_ENABLED_TEXT(STUB_PLACE_##value)
#define STUB_ENABLED_TEXT(place) STUB_SECOND(place 1, 0, 0)
#define STUB_SECOND(first, second, ...) second
#define STUB_PLACE_1 0,
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define STRINGIFY(x) STRINGIFY_(x)
#define STRINGIFY_(x) #x
#define __aligned(n) __attribute__((aligned(n)))
#define __weak __attribute__((weak))
#endif
