/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the options of a compilation. */
#include "graph/build/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "graph/io/argument.h"

/* The sizes of BpCompileOptions and BpCompileLimits in their first version. */
#define LEAST_OPTIONS offsetof(BpCompileOptions, fallback)
#define LEAST_LIMITS  (offsetof(BpCompileLimits, functions) + sizeof(int64_t))

int bp__options_budget(const BpCompileOptions *options, BpGraphBudget *budget) {
  const BpCompileLimits none = {0};
  const BpCompileLimits *given = HAS_MEMBER(options, limits) ? options->limits : NULL;
  const BpCompileLimits *limits = given ? given : &none;
  budget->most_nodes = limits->nodes;
  budget->most_bytes = limits->constant_bytes;
  budget->most_work = limits->fold_work;
  budget->most_functions = limits->functions;
  if (budget->most_nodes < 0 || budget->most_bytes < 0 || budget->most_work < 0 ||
      budget->most_functions < 0)
    return bp_error_raise(BP_ERROR_VALUE, "a limit of compiling is negative; 0 is the default");
  return 0;
}

/* The least int64 numbers stand for open extents inside the graph, so an input shape may not
 * contain them. */
static int check_input_shape(const BpInputShape *input) {
  if (!input->name || (input->ndim > 0 && !input->shape))
    return bp_error_raise(BP_ERROR_VALUE, "BpInputShape::%s is NULL",
                          input->name ? "shape" : "name");
  for (int32_t i = 0; i < input->ndim && i < BP_GRAPH_MAX_NDIM; i++)
    if (input->shape[i] < 0)
      return bp_error_raise(BP_ERROR_VALUE,
                            "input '%s': extent %d is %" PRId64 ", which is negative", input->name,
                            i, input->shape[i]);
  return 0;
}

/* Each row of the shapes may be longer than BpInputShape in this version. */
const BpInputShape *bp__options_shapes(const BpCompileOptions *options, BpArena *arena) {
  size_t count = options->num_shapes > 0 ? (size_t)options->num_shapes : 0;
  BpInputShape *own = bp__arena_alloc_array(arena, count + 1, sizeof(*own));
  if (count && !options->shapes) {
    bp_error_raise(BP_ERROR_VALUE, "BpCompileOptions::shapes is NULL, and num_shapes is %zu",
                   count);
    return NULL;
  }
  if (count && options->shape_size < sizeof(*own)) {
    bp_error_raise(BP_ERROR_VALUE,
                   "BpCompileOptions::shape_size is %" PRIu64 "; set it to sizeof(BpInputShape), "
                   "here %zu",
                   options->shape_size, sizeof(*own));
    return NULL;
  }
  for (size_t i = 0; own && i < count; i++) {
    memcpy(&own[i], (const char *)options->shapes + i * options->shape_size, sizeof(*own));
    if (check_input_shape(&own[i]))
      return NULL;
  }
  return own;
}

static int raise_useless(const BpGraphCompilerApi *api) {
  char device[64];
  bp_device_format((BpDevice){api->device_type, 0}, device, sizeof device);
  return bp_error_raise(BP_ERROR_VALUE,
                        "graph compiler %s compiles for devices of kind %.*s, and no target is of "
                        "that kind",
                        api->name, (int)strcspn(device, ":"), device);
}

int bp__options_compilers(const BpCompileOptions *options, const BpGraphCompilerApi **compilers,
                          int32_t *count) {
  *count = HAS_MEMBER(options, claimed_context) ? options->num_graph_compilers : 0;
  if (*count < 0 || *count > BP_BUILD_MAX_COMPILERS)
    return bp_error_raise(BP_ERROR_VALUE, "%d graph compilers are named; at most %d are possible",
                          *count, BP_BUILD_MAX_COMPILERS);
  if (*count > 0 && !(options->least_claimed >= 0 && options->least_claimed <= 1))
    return bp_error_raise(BP_ERROR_VALUE, "least_claimed is %g; it is from 0 to 1",
                          options->least_claimed);
  if (*count > 0 && options->is_reference)
    return bp_error_raise(
        BP_ERROR_VALUE,
        "is_reference compiles each operator by itself, and graph_compilers compile "
        "parts of many operators; set only one of them");
  if (*count > 0 && !options->graph_compilers)
    return bp_error_raise(BP_ERROR_VALUE,
                          "BpCompileOptions::graph_compilers is NULL, and num_graph_compilers is "
                          "%d",
                          *count);
  for (int32_t i = 0; i < *count; i++) {
    int fits = 0;
    if (!options->graph_compilers[i])
      return bp_error_raise(BP_ERROR_VALUE, "graph compiler %d has no name", i);
    compilers[i] = bp__graph_compiler_find(options->graph_compilers[i]);
    if (!compilers[i])
      return -1;
    for (int32_t k = 0; k < options->num_targets; k++)
      fits |= bp_target_device_type(options->targets[k]) == compilers[i]->device_type;
    for (int32_t k = 0; k < i; k++)
      if (compilers[k] == compilers[i])
        return bp_error_raise(BP_ERROR_VALUE, "graph compiler %s is named twice",
                              compilers[i]->name);
    if (!fits)
      return raise_useless(compilers[i]);
  }
  return 0;
}

int bp__compile_options_check(const BpCompileOptions *options) {
  if (bp__check_sized("BpCompileOptions", options, LEAST_OPTIONS, sizeof(*options)))
    return -1;
  if ((HAS_MEMBER(options, reserved) && options->reserved) ||
      (HAS_MEMBER(options, reserved_fallbacks) && options->reserved_fallbacks))
    return bp_error_raise(BP_ERROR_VALUE, "BpCompileOptions: a reserved member is not 0");
  if (options->dump_dir && !*options->dump_dir)
    return bp_error_raise(BP_ERROR_VALUE,
                          "BpCompileOptions::dump_dir is empty; the current folder is \".\"");
  const BpCompileLimits *limits = HAS_MEMBER(options, limits) ? options->limits : NULL;
  return limits ? bp__check_sized("BpCompileLimits", limits, LEAST_LIMITS, sizeof(*limits)) : 0;
}

int bp__compile_options_copy(const BpCompileOptions *given, BpCompileOptions *options) {
  *options = (BpCompileOptions){.struct_size = sizeof(*options)};
  if (!given)
    return 0;
  if (bp__compile_options_check(given))
    return -1;
  size_t size = given->struct_size < sizeof(*options) ? given->struct_size : sizeof(*options);
  memcpy(options, given, size);
  options->struct_size = sizeof(*options);
  return 0;
}

/* Fails for two targets of one kind: a device runs the code for its kind, so one of them would
 * never run. */
int bp__options_check_targets(const BpCompileOptions *options) {
  for (int32_t i = 0; i < options->num_targets; i++) {
    if (!options->targets || !options->targets[i])
      return bp_error_raise(BP_ERROR_VALUE, "target %d of %d is NULL", i, options->num_targets);
    for (int32_t k = 0; k < i; k++)
      if (bp_target_device_type(options->targets[i]) == bp_target_device_type(options->targets[k]))
        return bp_error_raise(BP_ERROR_VALUE,
                              "targets %s and %s are both code for one kind of device, and an "
                              "artifact holds one for each; compile a file for each",
                              bp_target_kind(options->targets[k]),
                              bp_target_kind(options->targets[i]));
  }
  return 0;
}

int bp__options_check_fallbacks(const BpCompileOptions *options) {
  if (!HAS_MEMBER(options, reserved_fallbacks) || !options->num_fallbacks)
    return 0;
  if (options->num_fallbacks < 0 || options->num_fallbacks >= BP_MODEL_MAX_DEVICES)
    return bp_error_raise(BP_ERROR_VALUE, "%d fallbacks are given; at most %d are possible",
                          options->num_fallbacks, BP_MODEL_MAX_DEVICES - 1);
  if (options->fallback)
    return bp_error_raise(BP_ERROR_VALUE, "BpCompileOptions::fallback and fallbacks are both set; "
                                          "leave out one of them");
  for (int32_t i = 0; i < options->num_fallbacks; i++)
    if (!options->fallbacks || !options->fallbacks[i])
      return bp_error_raise(BP_ERROR_VALUE, "fallback %d of %d is NULL", i, options->num_fallbacks);
  return 0;
}

int32_t bp__options_fallbacks(const BpCompileOptions *options, const BpTarget **fallbacks) {
  int32_t count = HAS_MEMBER(options, reserved_fallbacks) ? options->num_fallbacks : 0;
  for (int32_t i = 0; i < count; i++)
    fallbacks[i] = options->fallbacks[i];
  if (!count && HAS_MEMBER(options, placed_context) && options->fallback)
    fallbacks[count++] = options->fallback;
  return count;
}

int bp__options_check_stages(const BpCompileOptions *options) {
  if (!HAS_MEMBER(options, stage) || (options->num_stages == 0 && options->stage == 0))
    return 0;
  if (options->num_stages < 1 || options->stage < 0 || options->stage >= options->num_stages)
    return bp_error_raise(BP_ERROR_VALUE, "stage %d of %d: stages are numbered from 0 on",
                          options->stage, options->num_stages);
  if (options->num_stages > 1 && options->num_graph_compilers > 0)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "graph compilers cannot claim parts of a stage; leave out the graph "
                          "compilers or the stages");
  return 0;
}
