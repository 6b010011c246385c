/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering driver: from a schedule to a function of an IR module, pass by pass. */

#include "compiler/lower/lowering.h"

#include <stdlib.h>

/* In the order in which they run. docs/lowering.md says what each does. */
static const struct {
  const char *name;
  const BpIrNode *(*run)(BpLowering *lowering, const BpIrNode *body);
} passes[] = {
    {"build", bp__lower_build},         {"flatten", bp__lower_flatten},
    {"vectorize", bp__lower_vectorize}, {"unroll", bp__lower_unroll},
    {"tidy", bp__lower_tidy},
};

/* The positions of the outputs that are streamed, as an attribute; NULL: there are none. */
static int streamed_attr(BpLowering *lowering, const BpIrNode **attr) {
  BpIrModule *module = lowering->module;
  const BpIrNode **positions =
      bp__ir_alloc(module, (size_t)(lowering->num_args + 1) * sizeof *positions);
  int32_t count = 0;
  *attr = NULL;
  if (!positions)
    return -1;
  for (int32_t i = 0; i < lowering->num_args; i++)
    if (lowering->args[i]->stage && lowering->args[i]->stage->is_streamed)
      positions[count++] = bp__ir_int64(module, i);
  if (count == 0)
    return 0;
  *attr = bp__ir_attr(module, BP_IR_ATTR_STREAMED, positions, count);
  return *attr ? 0 : -1;
}

static const BpIrNode *make_function(BpLowering *lowering, const BpIrNode *body) {
  const BpIrNode *one = bp__ir_int64(lowering->module, 1), *streamed;
  if (streamed_attr(lowering, &streamed) != 0)
    return NULL;
  const BpIrNode *attrs[] = {bp__ir_attr(lowering->module, BP_IR_ATTR_NOALIAS, &one, 1), streamed};
  return bp_ir_function(lowering->module, lowering->name, lowering->params, lowering->num_args,
                        attrs, streamed ? 2 : 1, body);
}

static int dump(BpLowering *lowering, const char *pass, const BpIrNode *function) {
  const BpLowerOptions *options = lowering->options;
  if (!options || !options->dump)
    return 0;
  char *text = bp__ir_print_node(function);
  if (!text)
    return -1;
  options->dump(options->dump_context, pass, text);
  free(text);
  return 0;
}

static const BpIrNode *run_passes(BpLowering *lowering) {
  const BpIrNode *body = bp__ir_nothing(lowering->module), *function = NULL;
  if (!body || bp__lower_normalize(lowering) != 0)
    return NULL;
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    body = passes[i].run(lowering, body);
    function = body ? make_function(lowering, body) : NULL;
    if (!function || dump(lowering, passes[i].name, function) != 0 ||
        bp__ir_verify_pass(function, passes[i].name) != 0)
      return NULL;
  }
  return function;
}

int bp_te_lower(BpTe *te, const char *name, BpTeTensor *const *args, int32_t num_args,
                const BpLowerOptions *options, BpIrModule *module) {
  BpLowering lowering = {.te = te,
                         .module = module,
                         .options = options,
                         .name = name,
                         .args = args,
                         .num_args = num_args,
                         .index = {.module = module}};
  const BpIrNode *function = run_passes(&lowering);
  bp__ir_map_clear(&lowering.copied);
  bp__ir_map_clear(&lowering.by_buffer);
  bp__ir_map_clear(&lowering.valid);
  bp__ir_map_clear(&lowering.of_block);
  bp__index_clear(&lowering.index);
  if (!function)
    return bp_error_add_context("lowering %s", name);
  return bp_ir_module_add(module, function);
}
