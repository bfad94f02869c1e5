#ifndef TASK_H
#define TASK_H
#include "freertos/FreeRTOS.h"
typedef struct stub_task *TaskHandle_t;
typedef void (*TaskFunction_t)(void *arg);
TaskHandle_t xTaskCreateStatic(TaskFunction_t pxTaskCode, const char * const pcName, const uint32_t ulStackDepth, void * const pvParameters, UBaseType_t uxPriority, StackType_t * const puxStackBuffer, StaticTask_t * const pxTaskBuffer);
void vTaskDelete(TaskHandle_t xTaskToDelete);
#endif
