/* SPDX-License-Identifier: Apache-2.0 */
/* The application's log callback. */

#include "core/registry/log.h"

#include "core/system/lock.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
  BpLogCallback callback;
  void *context;
} sink;

void bp_log_set_callback(BpLogCallback callback, void *context) {
  bp__lock(BP__LOCK_STATE);
  sink.callback = callback;
  sink.context = context;
  bp__unlock(BP__LOCK_STATE);
}

void bp__log(int32_t level, const char *format, ...) {
  bp__lock(BP__LOCK_STATE);
  BpLogCallback callback = sink.callback;
  void *context = sink.context;
  bp__unlock(BP__LOCK_STATE);
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
