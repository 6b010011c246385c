/* SPDX-License-Identifier: Apache-2.0 */
/* The table of reasons, and the reason for a thread's error. */

#include "parts/plugins/reasons.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  char code[27];
  char error_kind[14];
} rows[] = {
#define ROW(name, code, kind) {code, BP_ERROR_##kind},
    BP_REASONS(ROW)
#undef ROW
};

/* With the model initial-exec the loader has reserved the memory of the thread-local variables.
 * With another model the first access of a thread would allocate memory, and end the process if
 * there is none. */
static _Thread_local Reason remembered __attribute__((tls_model("initial-exec"))) = NUM_REASONS;

const char *bp__reason_code(Reason reason) {
  return rows[reason].code;
}

Reason bp__reason_by_code(const char *code) {
  int reason = 0;
  while (reason < NUM_REASONS && strcmp(rows[reason].code, code))
    reason++;
  return (Reason)reason;
}

int bp__reason_raise(Reason reason, const char *format, ...) {
  va_list arguments;
  char *message = NULL;
  va_start(arguments, format);
  int length = vasprintf(&message, format, arguments);
  va_end(arguments);
  remembered = reason;
  if (length < 0)
    return bp_error_raise(BP_ERROR_MEMORY, "%s", rows[reason].code);
  bp_error_raise(rows[reason].error_kind, "%s", message);
  free(message);
  return -1;
}

void bp__reason_note(Reason reason) {
  if (remembered == NUM_REASONS)
    remembered = reason;
}

Reason bp__reason_take(Reason otherwise) {
  Reason reason = remembered == NUM_REASONS ? otherwise : remembered;
  remembered = NUM_REASONS;
  return reason;
}
