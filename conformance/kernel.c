/* SPDX-License-Identifier: Apache-2.0 */
/* Code built for the plugin's target, its arguments and its calls. */
#include "conformance/kernel.h"

#include <string.h>

/* ---- The target -------------------------------------------------------------------------- */

/* Finds the device's own target, if the plugin has the generator for it. */
static char *target_of_device(const Kit *kit) {
  BpTarget *target = kit->api ? bp_target_from_device(kit->device) : NULL;
  char *text = NULL;
  if (target && g_strv_contains((const char *const *)kit->targets, bp_target_kind(target)))
    text = bp_target_format(target);
  bp_error_clear();
  bp_object_release(target);
  return text;
}

/* Opens the plugin's device of the type, or a device of the host or of another plugin. */
static void open_target_device(Kit *kit, int32_t device_type) {
  int32_t count = 0;
  const char *why = "";
  kit->target_device = (BpDevice){device_type, 0};
  if (kit->api && BP_DEVICE_TYPE_OF_CODE(kit->device.device_type) == device_type) {
    kit->target_device = kit->device;
    kit->target_api = kit->api;
    return;
  }
  if (device_type == BP_DEVICE_CPU)
    return;
  kit->target_api = bp_device_api(device_type);
  KIT_TRUE(kit->target_api, "the target's device: %s", bp_error_message());
  KIT_OK(bp_device_count(device_type, &count, &why), "get_device_count");
  if (count == 0)
    bp__kit_absent("no device here for the target: %s", why);
}

static void open_own_device(Kit *kit) {
  if (!kit->kinds[0])
    return;
  bp__kit_require_device(kit);
  bp__kit_open_device(kit);
}

void bp__kit_open_target(Kit *kit) {
  if (kit->target)
    return;
  open_own_device(kit);
  char *text = kit->target_option ? NULL : target_of_device(kit);
  kit->target = bp_target_parse(kit->target_option ? kit->target_option
                                : text             ? text
                                                   : kit->targets[0]);
  bp_str_free(text);
  KIT_TRUE(kit->target, "the target: %s", bp_error_message());
  open_target_device(kit, bp_target_device_type(kit->target));
  KIT_OK(bp_device_set_current(kit->target_device, NULL), "set_device");
}

gboolean bp__kit_runs_on_host(const Kit *kit) {
  return bp_target_device_type(kit->target) == BP_DEVICE_CPU;
}

gboolean bp__kit_has_threads(const Kit *kit) {
  return bp_target_get_int(kit->target, BP_TARGET_THREAD_AXES, 0) != 0;
}

int64_t bp__kit_block(const Kit *kit, int64_t wanted) {
  int64_t most = bp_target_get_int(kit->target, BP_TARGET_MAX_NUM_THREADS, 1);
  while (bp__kit_has_threads(kit) && wanted > 1 && wanted > most)
    wanted /= 2;
  return wanted;
}

/* ---- Code -------------------------------------------------------------------------------- */

static BpIrModule *legalize(const Kit *kit, BpIrModule *module) {
  BpFunction *function = NULL;
  BpValue args[2] = {{.type_index = BP_TYPE_IR_MODULE}, {.type_index = BP_TYPE_TARGET}}, legal;
  args[0].v_obj = (BpObject *)(void *)module;
  args[1].v_obj = (BpObject *)(void *)kit->target;
  int rc = bp_registry_get("compiler.legalize", &function) ||
           bp_function_call(function, args, 2, &legal);
  bp_object_release(function);
  return rc ? NULL : (BpIrModule *)(void *)legal.v_obj;
}

KitCode bp__kit_try_build(const Kit *kit, const char *text) {
  KitCode code = {.ir = bp_ir_parse(text, strlen(text))};
  KIT_TRUE(code.ir && bp_ir_verify(code.ir) == 0, "the kit's own IR: %s\n%s", bp_error_message(),
           text);
  code.legal = legalize(kit, code.ir);
  code.module = code.legal ? bp_target_build(code.ir, kit->target) : NULL;
  if (!code.module)
    bp__kit_code_clear(&code);
  return code;
}

KitCode bp__kit_build(const Kit *kit, const char *text) {
  KitCode code = bp__kit_try_build(kit, text);
  KIT_TRUE(code.module, "target %s refuses: %s\n%s", bp_target_kind(kit->target),
           bp_error_message(), text);
  bp__kit_go_on(); /* a check may build hundreds of programs, and a compiler may be slow */
  return code;
}

void bp__kit_code_clear(KitCode *code) {
  bp_object_release(code->module);
  bp_object_release(code->legal);
  bp_object_release(code->ir);
  *code = (KitCode){NULL, NULL, NULL};
}

BpFunction *bp__kit_function(BpModule *module, const char *name) {
  BpFunction *function = NULL;
  KIT_OK(bp_module_get_function(module, name, 1, &function), "get_function");
  KIT_TRUE(function, "the function %s is not in the module", name);
  return function;
}

/* ---- Arguments --------------------------------------------------------------------------- */

#define MARGIN      256 /* guard bytes after a tensor */
#define MARGIN_BYTE 0xa7

void bp__kit_buffer_create(const Kit *kit, KitBuffer *buffer, BpDataType dtype, int64_t extent) {
  *buffer = (KitBuffer){.extent = extent, .bytes = (uint64_t)extent * bp_dtype_bytes(dtype)};
  KIT_OK(bp_device_alloc(
             kit->target_device,
             &(BpAllocation){sizeof(BpAllocation), buffer->bytes + MARGIN, 256, dtype, 0, NULL},
             &buffer->handle),
         "alloc_data_space");
  buffer->view = (BpTensorView){
      .data = buffer->handle, .device = kit->target_device, .ndim = 1, .dtype = dtype};
  buffer->view.shape = &buffer->extent;
}

void bp__kit_buffer_free(const Kit *kit, KitBuffer *buffer) {
  KIT_OK(bp_device_free(kit->target_device, buffer->handle), "free_data_space");
}

void bp__kit_buffer_set(const Kit *kit, KitBuffer *buffer, const void *data, void *stream) {
  uint8_t *all = g_malloc(buffer->bytes + MARGIN);
  BpCopy copy = {
      .struct_size = sizeof(BpCopy), .from = all, .from_device = KIT_HOST, .to = buffer->handle};
  copy.to_device = kit->target_device;
  copy.size = buffer->bytes + MARGIN;
  memcpy(all, data, buffer->bytes);
  memset(all + buffer->bytes, MARGIN_BYTE, MARGIN);
  KIT_OK(bp_device_copy(&copy, stream), "a copy from the host to the device");
  buffer->is_set = TRUE;
  g_free(all);
}

void bp__kit_buffer_get(const Kit *kit, const KitBuffer *buffer, void *data, void *stream) {
  uint8_t *all = g_malloc(buffer->bytes + MARGIN);
  BpCopy copy = {.struct_size = sizeof(BpCopy),
                 .from = buffer->handle,
                 .from_device = kit->target_device,
                 .to = all};
  copy.to_device = KIT_HOST;
  copy.size = buffer->bytes + MARGIN;
  KIT_OK(bp_device_copy(&copy, stream), "a copy from the device to the host");
  KIT_OK(bp_stream_sync(kit->target_device, stream), "stream_sync");
  for (uint64_t i = 0; i < MARGIN && buffer->is_set; i++)
    KIT_TRUE(all[buffer->bytes + i] == MARGIN_BYTE,
             "a function wrote beyond its tensor of %" G_GUINT64_FORMAT
             " bytes: byte %" G_GUINT64_FORMAT " behind its end has changed",
             buffer->bytes, i);
  memcpy(data, all, buffer->bytes);
  g_free(all);
}

BpValue bp__kit_buffer_value(KitBuffer *buffer) {
  BpValue value = {.type_index = BP_TYPE_TENSOR_VIEW};
  value.v_view = &buffer->view;
  return value;
}

void bp__kit_args_add(KitArgs *args, BpValue value) {
  args->values[args->count++] = value;
}

void bp__kit_args_add_int(KitArgs *args, int64_t value) {
  bp__kit_args_add(args, (BpValue){.type_index = BP_TYPE_INT, .v_int64 = value});
}

void bp__kit_args_add_launch(KitArgs *args, const KitCode *code, const char *name,
                             int64_t varying) {
  const BpIrTable *ir = bp_ir_table();
  const BpIrNode *kernel = bp_ir_module_find(code->legal, name);
  for (int32_t i = (int32_t)ir->int_value(kernel); i < ir->num_operands(kernel); i++) {
    const BpIrNode *attr = ir->operand(kernel, i);
    if (ir->kind(attr) != BP_IR_ATTR || strcmp(ir->str_value(attr), BP_IR_ATTR_LAUNCH) != 0)
      continue;
    const BpIrNode *extent = ir->operand(attr, 1);
    bp__kit_args_add_int(args, ir->kind(extent) == BP_IR_INT_IMM ? ir->int_value(extent) : varying);
  }
}

int bp__kit_launch(BpFunction *function, const KitArgs *args) {
  BpValue result = {.type_index = BP_TYPE_NONE};
  int rc = bp_function_call(function, args->values, args->count, &result);
  if (rc == 0)
    bp_value_clear(&result);
  return rc;
}

void bp__kit_call(const Kit *kit, BpFunction *function, const KitArgs *args, void *stream) {
  KIT_OK(bp__kit_launch(function, args), "the call of a function");
  KIT_OK(bp_stream_sync(kit->target_device, stream), "stream_sync after a call");
}

/* ---- Comparing with the interpreter ------------------------------------------------------ */

static void interpret(const KitCode *code, const char *name, int32_t *data, int64_t extent) {
  BpTensorView view = {.data = data, .device = KIT_HOST, .ndim = 1, .dtype = KIT_INT32};
  BpValue arg = {.type_index = BP_TYPE_TENSOR_VIEW};
  view.shape = &extent;
  arg.v_view = &view;
  KIT_OK(bp_ir_interpret(code->ir, name, &arg, 1), "the interpreter");
}

void bp__kit_expect_agrees(const Kit *kit, const char *text, const char *name, int64_t extent) {
  KitCode code = bp__kit_build(kit, text);
  KitBuffer buffer;
  KitArgs args = {.count = 0};
  BpFunction *function = bp__kit_function(code.module, name);
  int32_t *expected = g_new(int32_t, (gsize)extent), *got = g_new0(int32_t, (gsize)extent);
  memset(expected, 0xff, (size_t)extent * sizeof *expected);
  bp__kit_buffer_create(kit, &buffer, KIT_INT32, extent);
  bp__kit_buffer_set(kit, &buffer, expected, NULL);
  bp__kit_args_add(&args, bp__kit_buffer_value(&buffer));
  bp__kit_args_add_launch(&args, &code, name, extent);
  bp__kit_call(kit, function, &args, NULL);
  bp__kit_buffer_get(kit, &buffer, got, NULL);
  interpret(&code, name, expected, extent);
  for (int64_t i = 0; i < extent; i++)
    KIT_TRUE(got[i] == expected[i], "%s: element %" G_GINT64_FORMAT " is %d and not %d\n%s", name,
             i, got[i], expected[i], text);
  bp__kit_buffer_free(kit, &buffer);
  bp_object_release(function);
  bp__kit_code_clear(&code);
  g_free(expected);
  g_free(got);
}
