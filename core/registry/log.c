/* SPDX-License-Identifier: Apache-2.0 */
/* The application's log callback. */

#include "core/registry/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
  pthread_mutex_t lock;
  BpLogCallback callback;
  void *context;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

void bp_log_set_callback(BpLogCallback callback, void *context) {
  pthread_mutex_lock(&sink.lock);
  sink.callback = callback;
  sink.context = context;
  pthread_mutex_unlock(&sink.lock);
}

void bp__log(int32_t level, const char *format, ...) {
  pthread_mutex_lock(&sink.lock);
  BpLogCallback callback = sink.callback;
  void *context = sink.context;
  pthread_mutex_unlock(&sink.lock);
  if (!callback)
    return;
  va_list args;
  char *message = NULL;
  va_start(args, format);
  if (vasprintf(&message, format, args) >= 0) {
    callback(context, level, message);
    free(message);
  }
  va_end(args);
}
