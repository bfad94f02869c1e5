#ifndef ZEPHYR_SYS_UTIL_H
#define ZEPHYR_SYS_UTIL_H
#define ARG_UNUSED(x) (void)(x)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define BUILD_ASSERT(expression, ...) _Static_assert(expression, "" __VA_ARGS__)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define STRINGIFY(x) STRINGIFY_(x)
#define STRINGIFY_(x) #x
#define __aligned(n) __attribute__((aligned(n)))
#define __weak __attribute__((weak))
#endif
