/* SPDX-License-Identifier: Apache-2.0 */
/* The error of each thread, and the log callback. */

#include "core/registry/argument.h"
#include "core/registry/log.h"
#include "core/registry/object.h"
#include "core/system/lock.h"

#include <backplane/error.h>
#include <glib.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An error and its text. The members after BpError are later additions of tvm-ffi; they stay NULL,
 * for code that reads them. */
typedef struct ErrorObject {
  BpError error;
  void *cause_chain;
  void *extra_context;
  char *backtrace; /* allocated separately, because it may be replaced */
  char text[];     /* the kind, a NUL, the message, a NUL */
} ErrorObject;

static void keep_static_error(void *self, int flags) {
  (void)self;
  (void)flags;
}

static void keep_backtrace(BpObject *self, const BpByteArray *backtrace, int32_t update_mode) {
  (void)self;
  (void)backtrace;
  (void)update_mode;
}

/* Raised if there is no memory for an error; never freed. */
static ErrorObject no_memory = {
    .error = {.header = {.combined_count = (1ull << 32) + 1,
                         .type_index = BP_TYPE_ERROR,
                         .deleter = keep_static_error},
              .kind = {BP_ERROR_MEMORY, sizeof BP_ERROR_MEMORY - 1},
              .message = {"memory is exhausted", sizeof "memory is exhausted" - 1},
              .backtrace = {"", 0},
              .update_backtrace = keep_backtrace},
};

static _Thread_local BpError *raised;

/* A thread that ends with an error raised must not leak it: the key's destructor frees it. */
static pthread_key_t thread_key;
static int thread_key_works;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

static void drop_thread_error(void *error) {
  raised = NULL;
  bp_object_release(error);
}

static void create_thread_key(void) {
  thread_key_works = !pthread_key_create(&thread_key, drop_thread_error);
}

static void set_raised(BpError *error) {
  BpError *old = raised;
  pthread_once(&thread_key_once, create_thread_key);
  if (thread_key_works)
    pthread_setspecific(thread_key, error);
  raised = error;
  bp_object_release(old);
}

static void delete_error(void *self, int flags) {
  ErrorObject *object = self;
  if (flags & BP_DELETER_STRONG)
    free(object->backtrace);
  if (flags & BP_DELETER_WEAK)
    free(object);
}

/* tvm-ffi's protocol: update_mode 0 replaces the backtrace, 1 appends to it. */
static void update_backtrace(BpObject *self, const BpByteArray *backtrace, int32_t update_mode) {
  ErrorObject *object = (ErrorObject *)self;
  size_t kept = update_mode == 1 ? object->error.backtrace.size : 0;
  char *text = malloc(kept + backtrace->size + 1);
  if (!text)
    return;
  if (kept)
    memcpy(text, object->error.backtrace.data, kept);
  if (backtrace->size)
    memcpy(text + kept, backtrace->data, backtrace->size);
  text[kept + backtrace->size] = '\0';
  free(object->backtrace);
  object->backtrace = text;
  object->error.backtrace = (BpByteArray){text, kept + backtrace->size};
}

/* Messages quote file names, sources and damaged files, which may be truncated: a byte that is not
 * valid UTF-8 becomes '?'. */
static void make_utf8(char *text) {
  const char *invalid;
  for (; !g_utf8_validate(text, -1, &invalid); ++text) {
    text += invalid - text;
    *text = '?';
  }
}

static BpError *error_create(const char *kind, const char *message) {
  size_t kind_size = strlen(kind), message_size = strlen(message);
  ErrorObject *object = malloc(sizeof *object + kind_size + message_size + 2);
  if (!object)
    return bp_object_retain(&no_memory);
  *object = (ErrorObject){.error = {.kind = {object->text, kind_size},
                                    .message = {object->text + kind_size + 1, message_size},
                                    .backtrace = {"", 0},
                                    .update_backtrace = update_backtrace}};
  memcpy(object->text, kind, kind_size + 1);
  memcpy(object->text + kind_size + 1, message, message_size + 1);
  make_utf8(object->text + kind_size + 1);
  bp__object_init(&object->error.header, BP_TYPE_ERROR, delete_error);
  return &object->error;
}

int bp_error_raise(const char *kind, const char *format, ...) {
  if (!BP_NOT_NULL(kind) || !BP_NOT_NULL(format))
    return -1;
  va_list args;
  char *message = NULL;
  va_start(args, format);
  int size = vasprintf(&message, format, args);
  va_end(args);
  if (size < 0) {
    set_raised(bp_object_retain(&no_memory));
    return -1;
  }
  set_raised(error_create(kind, message));
  free(message);
  return -1;
}

int bp_error_add_context(const char *format, ...) {
  va_list args;
  char *context = NULL, *message = NULL;
  if (!raised || !format)
    return -1;
  va_start(args, format);
  int size = vasprintf(&context, format, args);
  va_end(args);
  if (size < 0)
    return -1;
  /* Other code may hold a reference to the error, so it is replaced by a new error. */
  if (asprintf(&message, "%s: %.*s", context, (int)raised->message.size, raised->message.data) >=
      0) {
    BpError *error = error_create(bp_error_kind(), message);
    set_raised(error);
    free(message);
  }
  free(context);
  return -1;
}

const char *bp_error_message(void) {
  return raised ? raised->message.data : "";
}

const char *bp_error_kind(void) {
  return raised ? raised->kind.data : "";
}

int bp_error_is(const char *kind) {
  return raised && kind && !strcmp(bp_error_kind(), kind);
}

void bp_error_clear(void) {
  if (raised)
    set_raised(NULL);
}

BpError *bp_error_take(void) {
  BpError *error = bp_object_retain(raised);
  bp_error_clear();
  return error;
}

void bp_error_put(BpError *error) {
  set_raised(error);
}

/* ---- The log ----------------------------------------------------------------------------- */

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
