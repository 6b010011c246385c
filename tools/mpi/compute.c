/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a rank that computes items. */
#include "tools/mpi/mpi.h"

#include <string.h>

#include <backplane/object.h>

struct Computer {
  BpModel *model; /* `model` and `route` are borrowed */
  const Route *route;
  BpModelContext *context;
  GAsyncQueue *items, *results; /* of GByteArray */
  GThread *thread;
};

/* The address of this variable is the last entry of the queue, after all items. */
static char no_more;

static gboolean has_input(const BpModel *model, const char *name) {
  for (int32_t i = 0; i < bp_model_num_inputs(model); i++)
    if (strcmp(bp_model_input_info(model, i)->name, name) == 0)
      return TRUE;
  return FALSE;
}

/* A stage also gets tensors that only later stages read. */
static int set_inputs(Computer *self, const GPtrArray *got) {
  int status = 0;
  for (guint i = 0; i < got->len && status == 0; i++) {
    const NamedTensor *named = got->pdata[i];
    if (has_input(self->model, named->name))
      status = bp_model_set_input(self->context, named->name, &named->tensor->view);
  }
  return status;
}

/* Finds a tensor that the rank passes on: an output of its model, or a tensor that it received
 * (borrowed). */
static const BpTensor *find_tensor(Computer *self, const GPtrArray *got, const char *name) {
  for (int32_t i = 0; i < bp_model_num_outputs(self->model); i++)
    if (strcmp(bp_model_output_info(self->model, i)->name, name) == 0)
      return bp_model_get_output(self->context, i);
  for (guint i = 0; i < got->len; i++)
    if (strcmp(((const NamedTensor *)got->pdata[i])->name, name) == 0)
      return ((const NamedTensor *)got->pdata[i])->tensor;
  bp_error_raise(BP_ERROR_FORMAT, "no stage up to here gives '%s'", name);
  return NULL;
}

static int add_outputs(Computer *self, const GPtrArray *got, GByteArray *result) {
  for (char **name = self->route->passed; *name; name++) {
    const BpTensor *tensor = find_tensor(self, got, *name);
    if (!tensor || message_add_tensor(result, *name, &tensor->view) < 0)
      return -1;
  }
  return 0;
}

static GByteArray *compute(Computer *self, const GByteArray *item) {
  GByteArray *result = message_create(message_header(item)->item);
  gint64 start = g_get_monotonic_time();
  GPtrArray *got = message_tensors(item);
  int status = got ? set_inputs(self, got) : -1;
  if (status == 0)
    status = bp_model_run(self->context);
  if (status == 0)
    status = add_outputs(self, got, result);
  if (got)
    g_ptr_array_unref(got);
  if (status < 0) {
    message_fail(result, bp_error_is(BP_ERROR_DEVICE_LOST) ? MESSAGE_LOST : MESSAGE_FAILED,
                 bp_error_message());
    bp_error_clear();
  }
  message_header(result)->nanoseconds =
      message_header(item)->nanoseconds + (g_get_monotonic_time() - start) * 1000;
  return result;
}

static gpointer compute_all(gpointer computer) {
  Computer *self = computer;
  for (gpointer item; (item = g_async_queue_pop(self->items)) != &no_more;) {
    g_async_queue_push(self->results, compute(self, item));
    g_byte_array_unref(item);
  }
  return NULL;
}

Computer *computer_start(BpModel *model, const Route *route) {
  BpModelContext *context = bp_model_context_create(model);
  if (!context)
    return NULL;
  Computer *self = g_new0(Computer, 1);
  self->model = model;
  self->route = route;
  self->context = context;
  self->items = g_async_queue_new_full((GDestroyNotify)g_byte_array_unref);
  self->results = g_async_queue_new_full((GDestroyNotify)g_byte_array_unref);
  self->thread = g_thread_new("compute", compute_all, self);
  return self;
}

void computer_give(Computer *computer, GByteArray *item) {
  g_async_queue_push(computer->items, item);
}

GByteArray *computer_take(Computer *computer) {
  return g_async_queue_try_pop(computer->results);
}

void computer_stop(Computer *computer) {
  if (!computer)
    return;
  g_async_queue_push(computer->items, &no_more);
  g_thread_join(computer->thread);
  g_async_queue_unref(computer->items);
  g_async_queue_unref(computer->results);
  bp_model_context_free(computer->context);
  g_free(computer);
}
