#ifndef ZEPHYR_SYS_REBOOT_H
#define ZEPHYR_SYS_REBOOT_H
#define SYS_REBOOT_COLD 1
void sys_reboot(int type);
#endif
