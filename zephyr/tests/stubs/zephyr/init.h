#ifndef ZEPHYR_INIT_H
#define ZEPHYR_INIT_H
#define SYS_INIT(function, level, priority) int (*const stub_init)(void) = function
extern int (*const stub_init)(void);
#endif
