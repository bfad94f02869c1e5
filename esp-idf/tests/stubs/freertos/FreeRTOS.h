#ifndef FREERTOS_H
#define FREERTOS_H
#include <stdint.h>
typedef int BaseType_t;
typedef unsigned int UBaseType_t;
typedef uint32_t TickType_t;
typedef uint8_t StackType_t; /* of ESP-IDF: the depth of a stack is in bytes */
typedef struct stub_queue {
    uint8_t *memory;
    UBaseType_t places, size, used;
} StaticQueue_t;
typedef struct stub_semaphore {
    int count;
} StaticSemaphore_t;
typedef struct stub_task {
    int unused;
} StaticTask_t;
#define pdTRUE 1
#define pdFALSE 0
#define portMAX_DELAY 0xffffffffUL
#define portTICK_PERIOD_MS ((TickType_t)10)
#endif
