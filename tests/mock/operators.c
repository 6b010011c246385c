/* SPDX-License-Identifier: Apache-2.0 */
/* A library of two operators for tests, without a graph compiler: Relu and Add of float32 tensors
 * of one shape. tests/conformance/test-operators.sh builds it, and copies with a DEFECT. */
#include <backplane/operator_call.h>
#include <string.h>

#define RIGHT      0
#define WRONG      1 /* results are off by one */
#define OVERWRITES 2 /* the first input is overwritten */
#define UNCHECKED  3 /* shapes are not compared */
#define ABSENT     4 /* Add is declared, but not registered */
#define ANY_CALL   5 /* a malformed call succeeds */
#ifndef DEFECT
#define DEFECT RIGHT
#endif

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=mockops\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=Two operators, for tests\n"
                     "entry=bp_plugin_entry_mockops\n"
                     "provides=operator.mockops.Relu operator.mockops.Add\n");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_mockops(const BpHost *host, BpPlugin *plugin);

static BpPluginTables host;

static int32_t check(const BpOperatorCall *call, int32_t num_inputs) {
  const BpOnnxValue *first = &call->values[0];
  if (call->num_inputs != num_inputs || call->num_outputs != 1)
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "operator %s takes %d tensors and gives one",
                           call->node.op, num_inputs);
  for (int32_t i = 0; i < call->num_values; i++) {
    const BpOnnxValue *value = &call->values[i];
    if (value->dtype.code != BP_DTYPE_FLOAT || value->dtype.bits != 32 || value->dtype.lanes != 1)
      return bp_plugin_raise(&host, BP_ERROR_NOT_IMPLEMENTED, "operator %s takes float32 alone",
                             call->node.op);
    if (DEFECT != UNCHECKED &&
        (value->ndim != first->ndim ||
         memcmp(value->shape, first->shape, (size_t)first->ndim * sizeof(int64_t))))
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
  if (bp_operator_read(&host, op, args, num_args, &call) != 0)
    return DEFECT == ANY_CALL ? 0 : -1;
  if (check(&call, 1 + is_add) != 0)
    return -1;
  float *a = data_of(&call, 0), *b = data_of(&call, is_add), *to = data_of(&call, 1 + is_add);
  for (int32_t i = 0; i < call.values[1 + is_add].ndim; i++)
    count *= call.values[1 + is_add].shape[i];
  for (int64_t i = 0; i < count; i++)
    to[i] = is_add ? a[i] + b[i] : a[i] > 0 ? a[i] : 0;
  if (DEFECT == WRONG)
    to[count - 1] += 1;
  if (DEFECT == OVERWRITES)
    a[0] += 1;
  return 0;
}

static int32_t initialize(void *context) {
  (void)context;
  if (bp_plugin_register(&host, "operator.mockops.Relu", compute, (void *)(uintptr_t) "Relu") != 0)
    return -1;
  return DEFECT == ABSENT ? 0
                          : bp_plugin_register(&host, "operator.mockops.Add", compute,
                                               (void *)(uintptr_t) "Add");
}

int32_t bp_plugin_entry_mockops(const BpHost *given, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(given, &host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
