/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest library of single operators: Relu and Add of float32 tensors of one shape, as packed
 * functions operator.example.Relu and operator.example.Add. The plugin has no device and no graph
 * compiler. Replace the loop by calls of your library. */

#include <backplane/operator_call.h>
#include <string.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=example\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=Two operators on the host\n"
                     "entry=bp_plugin_entry_example\n"
                     "provides=operator.example.Relu operator.example.Add\n");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_example(const BpHost *given, BpPlugin *plugin);

static BpPluginTables host;

static int32_t is_float32(BpDataType dtype) {
  return dtype.code == BP_DTYPE_FLOAT && dtype.bits == 32 && dtype.lanes == 1;
}

static int32_t has_shape_of(const BpOnnxValue *value, const BpOnnxValue *other) {
  return value->ndim == other->ndim &&
         !memcmp(value->shape, other->shape, (size_t)value->ndim * sizeof *value->shape);
}

/* Checks the number, types and shapes of the tensors, which the caller chose. */
static int32_t check(const BpOperatorCall *call, int32_t num_inputs) {
  if (call->num_inputs != num_inputs || call->num_outputs != 1)
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "operator %s takes %d tensors and gives one",
                           call->node.op, num_inputs);
  for (int32_t i = 0; i < call->num_values; i++) {
    if (!is_float32(call->values[i].dtype))
      return bp_plugin_raise(&host, BP_ERROR_NOT_IMPLEMENTED, "operator %s takes float32 alone",
                             call->node.op);
    if (!has_shape_of(&call->values[i], &call->values[0]))
      return bp_plugin_raise(&host, BP_ERROR_VALUE, "the tensors of operator %s differ in shape",
                             call->node.op);
  }
  return 0;
}

static float *data_of(const BpOperatorCall *call, int32_t value) {
  const BpTensorView *view = bp_part_tensor(&call->tensors[value]);
  return (float *)(void *)((char *)view->data + view->byte_offset);
}

static int compute(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const char *op = ((BpClosure *)self)->context;
  int32_t is_add = !strcmp(op, "Add");
  BpOperatorCall call;
  int64_t count = 1;
  (void)result;
  if (bp_operator_read(&host, op, args, num_args, &call) || check(&call, 1 + is_add))
    return -1;
  const float *a = data_of(&call, 0), *b = data_of(&call, is_add);
  float *to = data_of(&call, 1 + is_add); /* the outputs follow the inputs */
  for (int32_t i = 0; i < call.values[0].ndim; i++)
    count *= call.values[0].shape[i];
  for (int64_t i = 0; i < count; i++)
    to[i] = is_add ? a[i] + b[i] : a[i] > 0 ? a[i] : 0;
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register(&host, "operator.example.Relu", compute, (void *)(uintptr_t) "Relu") ||
                 bp_plugin_register(&host, "operator.example.Add", compute,
                                    (void *)(uintptr_t) "Add")
             ? -1
             : 0;
}

int32_t bp_plugin_entry_example(const BpHost *given, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(given, &host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
