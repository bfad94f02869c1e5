/* Stub: the part of Zephyr's kernel that the glue uses. scripts/check-device-ports compares it with a Zephyr tree. */
#ifndef ZEPHYR_KERNEL_H
#define ZEPHYR_KERNEL_H
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <zephyr/devicetree.h>
#include <zephyr/sys/util.h>

typedef struct {
    int64_t ticks;
} k_timeout_t;
#define K_FOREVER ((k_timeout_t){-1})
#define K_NO_WAIT ((k_timeout_t){0})
#define K_MSEC(ms) ((k_timeout_t){(ms)})
#define K_PRIO_PREEMPT(x) (x)

struct k_msgq {
    char *start, *end, *read, *write;
    size_t size;
    uint32_t places, used;
};
/* Without parentheses, as in Zephyr. */
#define K_MSGQ_DEFINE(name, message_size, places, align) \
    static char name##_buffer[(places) * (message_size)]; \
    struct k_msgq name = {name##_buffer, name##_buffer + (places * message_size), name##_buffer, name##_buffer, \
                          message_size, places, 0}
int k_msgq_put(struct k_msgq *msgq, const void *data, k_timeout_t timeout);
int k_msgq_get(struct k_msgq *msgq, void *data, k_timeout_t timeout);
uint32_t k_msgq_num_free_get(struct k_msgq *msgq);

struct k_mutex {
    int held;
};
#define K_MUTEX_DEFINE(name) struct k_mutex name
int k_mutex_lock(struct k_mutex *mutex, k_timeout_t timeout);
int k_mutex_unlock(struct k_mutex *mutex);

struct k_sem {
    unsigned int count;
};
#define K_SEM_DEFINE(name, initial_count, count_limit) struct k_sem name = {initial_count}
int k_sem_take(struct k_sem *sem, k_timeout_t timeout);
void k_sem_give(struct k_sem *sem);

struct k_thread {
    int unused;
};
typedef struct k_thread *k_tid_t;
typedef char k_thread_stack_t;
typedef void (*k_thread_entry_t)(void *p1, void *p2, void *p3);
#define K_THREAD_STACK_DEFINE(name, size) k_thread_stack_t name[size]
#define K_THREAD_STACK_SIZEOF(name) sizeof(name)
k_tid_t k_thread_create(struct k_thread *new_thread, k_thread_stack_t *stack, size_t stack_size, k_thread_entry_t entry,
                        void *p1, void *p2, void *p3, int prio, uint32_t options, k_timeout_t delay);

struct k_work {
    int unused;
};
struct k_work_delayable {
    struct k_work work;
    void (*handler)(struct k_work *work);
};
#define K_WORK_DELAYABLE_DEFINE(name, function) struct k_work_delayable name = {.handler = function}
struct k_work_delayable *k_work_delayable_from_work(struct k_work *work);
int k_work_schedule(struct k_work_delayable *dwork, k_timeout_t delay);
int k_work_reschedule(struct k_work_delayable *dwork, k_timeout_t delay);

uint32_t k_uptime_get_32(void);
#endif
