/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing generated code with the reference interpreter. */
#include "conformance/judge.h"

#include <math.h>
#include <string.h>

#include "conformance/programs.h"

/* ---- Numbers, converted by the interpreter ----------------------------------------------- */

void bp__judge_convert(const char *from, const char *to, void *source, void *result,
                       int64_t count) {
  char *text = g_strdup_printf(
      "(module (function \"f\" (buffer A %s global n:int64) (buffer B %s global n) n"
      " (for i:int64 0 n serial (store B i (cast %s (load A i))))))",
      from, to, to);
  BpIrModule *module = bp_ir_parse(text, strlen(text));
  KIT_TRUE(module, "the kit's own IR: %s", bp_error_message());
  BpTensorView views[2] = {{.data = source, .device = KIT_HOST, .ndim = 1},
                           {.data = result, .device = KIT_HOST, .ndim = 1}};
  BpValue args[3] = {{.type_index = BP_TYPE_TENSOR_VIEW}, {.type_index = BP_TYPE_TENSOR_VIEW}};
  for (int i = 0; i < 2; i++) {
    views[i].dtype = bp__program_dtype(i ? to : from);
    views[i].shape = &count;
    args[i].v_view = &views[i];
  }
  args[2] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = count};
  KIT_OK(bp_ir_interpret(module, "f", args, 3), "the interpreter");
  bp_object_release(module);
  g_free(text);
}

double bp__judge_number(const char *type, const void *data, int64_t index) {
  double number = 0;
  size_t size = bp__program_dtype(type).bits / 8;
  char element[8] = {0};
  memcpy(element, (const char *)data + (size_t)index * size, size);
  bp__judge_convert(type, "float64", element, &number, 1);
  return number;
}

/* The largest accepted error of a float, relative to the expected value. */
static double tolerance_of(BpDataType dtype) {
  if (dtype.code == BP_DTYPE_BFLOAT)
    return 0x1p-7;
  return dtype.bits == 16 ? 0x1p-10 : dtype.bits == 32 ? 4e-6 : 1e-13;
}

gboolean bp__judge_agrees(const char *type, const void *got, const void *expected, int64_t index,
                          double slack) {
  BpDataType dtype = bp__program_dtype(type);
  size_t size = dtype.bits / 8, at = (size_t)index * size;
  if (memcmp((const char *)got + at, (const char *)expected + at, size) == 0)
    return TRUE;
  if (bp__program_letter(dtype) != 'f')
    return FALSE;
  double smallest = dtype.bits == 64                                   ? 0x1p-1022
                    : dtype.bits == 16 && dtype.code == BP_DTYPE_FLOAT ? 0x1p-14
                                                                       : 0x1p-126;
  double x = bp__judge_number(type, got, index), y = bp__judge_number(type, expected, index);
  if (isnan(y) || isinf(y))
    return isnan(y) ? isnan(x) != 0 : x == y;
  double magnitude = y < 0 ? -y : y, apart = x < y ? y - x : x - y;
  return apart <= MAX(tolerance_of(dtype) * magnitude + smallest, slack);
}

/* ---- Running ----------------------------------------------------------------------------- */

void *bp__judge_add(Judged *call, const char *type, int64_t extent) {
  size_t size = (size_t)extent * (bp__program_dtype(type).bits / 8) + 1;
  int i = call->num_buffers++;
  call->types[i] = type;
  call->extents[i] = extent;
  call->sent[i] = g_malloc(size);
  call->got[i] = g_malloc(size);
  call->expected[i] = g_malloc(size);
  memset(call->sent[i], bp__program_letter(bp__program_dtype(type)) == 'b' ? 1 : 0x55, size);
  return call->sent[i];
}

void bp__judge_clear(Judged *call) {
  for (int i = 0; i < call->num_buffers; i++) {
    g_free(call->sent[i]);
    g_free(call->got[i]);
    g_free(call->expected[i]);
  }
  call->num_buffers = 0;
}

static size_t bytes_of(const Judged *call, int i) {
  return (size_t)call->extents[i] * (bp__program_dtype(call->types[i]).bits / 8);
}

static void run_on_device(const Kit *kit, const KitCode *code, const char *name, Judged *call) {
  KitBuffer buffers[KIT_MOST_ARGS];
  KitArgs args = {.count = 0};
  BpFunction *function = bp__kit_function(code->module, name);
  for (int i = 0; i < call->num_buffers; i++) {
    bp__kit_buffer_create(kit, &buffers[i], bp__program_dtype(call->types[i]), call->extents[i]);
    bp__kit_buffer_set(kit, &buffers[i], call->sent[i], NULL);
    bp__kit_args_add(&args, bp__kit_buffer_value(&buffers[i]));
  }
  if (call->scalar.type_index != BP_TYPE_NONE)
    bp__kit_args_add(&args, call->scalar);
  bp__kit_args_add_launch(&args, code, name, 1);
  KIT_TRUE(bp__kit_launch(function, &args) == 0, "the call of %s: %s: %s", name, bp_error_kind(),
           bp_error_message());
  KIT_OK(bp_stream_sync(kit->target_device, NULL), "stream_sync after a call");
  for (int i = 0; i < call->num_buffers; i++) {
    bp__kit_buffer_get(kit, &buffers[i], call->got[i], NULL);
    bp__kit_buffer_free(kit, &buffers[i]);
  }
  bp_object_release(function);
}

static void run_interpreted(const KitCode *code, const char *name, Judged *call) {
  BpTensorView views[KIT_MOST_ARGS];
  BpValue args[KIT_MOST_ARGS + 1];
  for (int i = 0; i < call->num_buffers; i++) {
    memcpy(call->expected[i], call->sent[i], bytes_of(call, i));
    views[i] = (BpTensorView){.data = call->expected[i], .device = KIT_HOST, .ndim = 1};
    views[i].dtype = bp__program_dtype(call->types[i]);
    views[i].shape = &call->extents[i];
    args[i] = (BpValue){.type_index = BP_TYPE_TENSOR_VIEW};
    args[i].v_view = &views[i];
  }
  args[call->num_buffers] = call->scalar;
  KIT_OK(bp_ir_interpret(code->ir, name, args,
                         call->num_buffers + (call->scalar.type_index != BP_TYPE_NONE)),
         "the interpreter");
}

/* Compares all buffers except the last; most of them are only inputs. */
static void expect_others(const Judged *call, const char *name) {
  for (int i = 0; i + 1 < call->num_buffers; i++)
    for (int64_t k = 0; k < call->extents[i]; k++)
      KIT_TRUE(bp__judge_agrees(call->types[i], call->got[i], call->expected[i], k, call->slack),
               "%s leaves %.17g and not %.17g in element %" G_GINT64_FORMAT " of its argument %d",
               name, bp__judge_number(call->types[i], call->got[i], k),
               bp__judge_number(call->types[i], call->expected[i], k), k, i);
}

int64_t bp__judge_run(const Kit *kit, const KitCode *code, const char *name, Judged *call) {
  int last = call->num_buffers - 1;
  run_on_device(kit, code, name, call);
  run_interpreted(code, name, call);
  expect_others(call, name);
  for (int64_t k = 0; k < call->extents[last]; k++)
    if (!bp__judge_agrees(call->types[last], call->got[last], call->expected[last], k, call->slack))
      return k;
  return -1;
}
