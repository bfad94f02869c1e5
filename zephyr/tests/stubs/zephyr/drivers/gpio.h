#ifndef ZEPHYR_DRIVERS_GPIO_H
#define ZEPHYR_DRIVERS_GPIO_H
#include <stdint.h>
typedef uint32_t gpio_flags_t;
struct gpio_dt_spec {
    int unused;
};
#define GPIO_DT_SPEC_GET(node, property) {0}
#define GPIO_OUTPUT_INACTIVE 0
int gpio_pin_configure_dt(const struct gpio_dt_spec *spec, gpio_flags_t extra_flags);
int gpio_pin_set_dt(const struct gpio_dt_spec *spec, int value);
#endif
