/* SPDX-License-Identifier: Apache-2.0 */
/* The lowering driver: turns a schedule into a function of an IR module, pass by pass. */

#include "compiler/ir/argument.h"
#include "compiler/lower/lowering.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The lowering passes in the order in which they run. docs/lowering.md describes each pass. */
static const struct {
  const char *name;
  const BpIrNode *(*run)(BpLowering *lowering, const BpIrNode *body);
  bool is_optional; /* the IR has its final form also without the pass */
} passes[] = {
    {"build", bp__lower_build, false},     {"partition", bp__lower_partition, true},
    {"flatten", bp__lower_flatten, false}, {"vectorize", bp__lower_vectorize, true},
    {"turn", bp__lower_turn, true},        {"unroll", bp__lower_unroll, true},
    {"jam", bp__lower_jam, true},          {"tidy", bp__lower_tidy, true},
};

/* An attribute with the positions of the streamed outputs; NULL if no output is streamed. */
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

/* The body after checks that the open extents have the ranges on which the passes relied. */
static const BpIrNode *check_open_extents(BpLowering *lowering, const BpIrNode *body) {
  BpIrModule *module = lowering->module;
  const BpIrNode *zero = bp__ir_int64(module, 0);
  for (const BpTeOpenExtent *open = lowering->te->open_extents; open; open = open->next) {
    char text[128];
    const BpIrNode *var = bp__ir_copy(module, open->var, &lowering->copied);
    const BpIrNode *most = bp__ir_int64(module, open->greatest);
    const BpIrNode *is_inside =
        bp_ir_binary(module, BP_IR_AND, bp_ir_binary(module, BP_IR_GE, var, zero),
                     bp_ir_binary(module, BP_IR_LE, var, most));
    snprintf(text, sizeof text, "open extent %.60s is 0 to %lld", open->var->str_value,
             (long long)open->greatest);
    body = bp_ir_seq(module, (const BpIrNode *[]){bp__ir_assert(module, is_inside, text), body}, 2);
  }
  return body;
}

static const BpIrNode *make_function(BpLowering *lowering, const BpIrNode *body) {
  const BpIrNode *one = bp__ir_int64(lowering->module, 1), *streamed;
  if (streamed_attr(lowering, &streamed) != 0 || !(body = check_open_extents(lowering, body)))
    return NULL;
  const BpIrNode *attrs[] = {bp__ir_attr(lowering->module, BP_IR_ATTR_NOALIAS, &one, 1), streamed};
  return bp_ir_function(lowering->module, lowering->name, lowering->params, lowering->num_params,
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

/* The size of BpLowerOptions in its first version, and the maximum in any version; other sizes were
 * not set by the caller. */
#define LEAST_OPTIONS_SIZE (offsetof(BpLowerOptions, without) + sizeof(const char *))
#define MOST_OPTIONS_SIZE  4096

/* Fails if options of a later header request a feature that is unknown in this version of the
 * library. */
static int check_options(const BpLowerOptions *options) {
  if (options &&
      (options->struct_size < LEAST_OPTIONS_SIZE || options->struct_size > MOST_OPTIONS_SIZE))
    return bp_error_raise(BP_ERROR_VALUE,
                          "BpLowerOptions::struct_size is %" PRIu64
                          "; set it to sizeof(BpLowerOptions), here %zu",
                          options->struct_size, sizeof *options);
  for (uint64_t at = sizeof *options; options && at < options->struct_size; at++)
    if (((const char *)options)[at])
      return bp_error_raise(BP_ERROR_VALUE,
                            "BpLowerOptions has a member set at byte %" PRIu64
                            ", which this version of Backplane does not know: it knows %zu bytes; "
                            "leave the member 0 or install a newer version",
                            at, sizeof *options);
  return 0;
}

static int check_left_out(const char *without) {
  for (size_t i = 0; without && i < sizeof passes / sizeof *passes; i++)
    if (passes[i].is_optional && strcmp(passes[i].name, without) == 0)
      return 0;
  return without ? bp_error_raise(BP_ERROR_VALUE,
                                  "there is no pass '%s' that can be left out of lowering; "
                                  "partition, vectorize, turn, unroll, jam and tidy can",
                                  without)
                 : 0;
}

static const BpIrNode *run_passes(BpLowering *lowering) {
  const BpIrNode *body = bp__ir_nothing(lowering->module), *function = NULL;
  const char *without = lowering->options ? lowering->options->without : NULL;
  if (!body || check_left_out(without) != 0 || bp__lower_normalize(lowering) != 0)
    return NULL;
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    if (without && strcmp(passes[i].name, without) == 0)
      continue;
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
  if (!BP_NOT_NULL(te) || !BP_NOT_NULL(name) || !BP_NOT_NULL(module) || !BP_IS_LIST(args, num_args))
    return -1;
  BpLowering lowering = {.te = te,
                         .module = module,
                         .options = options,
                         .name = name,
                         .args = args,
                         .num_args = num_args,
                         .index = {.module = module}};
  const BpIrNode *function = check_options(options) == 0 ? run_passes(&lowering) : NULL;
  bp__ir_map_clear(&lowering.copied);
  bp__ir_map_clear(&lowering.by_buffer);
  bp__ir_map_clear(&lowering.valid);
  bp__ir_map_clear(&lowering.of_block);
  bp__index_clear(&lowering.index);
  if (!function)
    return bp_error_add_context("lowering %s", name);
  return bp_ir_module_add(module, function);
}
