/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: every group becomes tensor expressions, a schedule, and a function of the IR module.
 * Groups that say the same (operators, attributes, shapes, written-in numbers) share a function:
 * constants are arguments, so layers of one shape do. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/build/schedule.h"
#include "graph/ops/expr.h"
#include "graph/ops/op.h"

#define MAX_NAME   64
#define MAX_INPUTS 64

/* ---- What a group says ------------------------------------------------------------------- */

/* How a group names a value: its argument, or its node; -1 for what is neither. */
static int32_t index_in(const BpList *list, const void *item) {
  for (size_t i = 0; i < list->size; i++)
    if (list->items[i] == item)
      return (int32_t)i;
  return -1;
}

static void describe_input(FILE *out, const BpGroup *group, const BpGraphValue *value,
                           int is_argument) {
  char text[BP_VALUE_TEXT];
  int64_t bytes = value ? bp__value_num_bytes(value) : 0;
  if (!value) {
    fputs(" -", out);
  } else if (value->data && (!is_argument || bp__build_is_immediate(value))) {
    fprintf(out, " %s =", bp__value_format(value, text));
    for (int64_t i = 0; i < bytes; i++)
      fprintf(out, "%02x", ((const uint8_t *)value->data)[i]);
  } else if (index_in(&group->args, value) >= 0) {
    fprintf(out, " a%d %s", index_in(&group->args, value), bp__value_format(value, text));
  } else {
    fprintf(out, " n%d", index_in(&group->nodes, value->producer));
  }
}

static void describe_attr(FILE *out, const BpGraphAttr *attr) {
  fprintf(out, " %s=%s", attr->name, attr->str ? attr->str : "");
  for (int32_t i = 0; i < attr->count && attr->ints; i++)
    fprintf(out, "%" PRId64 ",", attr->ints[i]);
  for (int32_t i = 0; i < attr->count && attr->floats; i++)
    fprintf(out, "%a,", (double)attr->floats[i]);
}

/* A text that two groups have in common exactly if they can share a function (free). */
static char *describe(const BpGroup *group) {
  char *text = NULL, shape[BP_VALUE_TEXT];
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (out)
    fprintf(out, "%d\n", group->place);
  for (size_t i = 0; out && i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    fprintf(out, "%s %d %s", node->op->name, node->version,
            bp__value_format(node->outputs[0], shape));
    for (int32_t k = 0; k < node->num_attrs; k++)
      describe_attr(out, &node->attrs[k]);
    for (int32_t k = 0; k < node->num_inputs; k++)
      describe_input(out, group, node->inputs[k], bp__op_argument(node, k) != NULL);
    fputc('\n', out);
  }
  if (!out || fclose(out)) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while naming a function");
    free(text);
    return NULL;
  }
  return text;
}

/* "fused_conv_add_relu", made unique by a number. */
static const char *function_name(const BpBuild *build, BpArena *arena, const BpGroup *group,
                                 size_t number) {
  char text[MAX_NAME] = "fused";
  size_t used = strlen(text);
  for (size_t i = 0; i < group->nodes.size; i++) {
    const char *op = ((const BpGraphNode *)group->nodes.items[i])->op->name;
    if (used + strlen(op) + 2 > sizeof(text))
      break;
    text[used++] = '_';
    for (size_t k = 0; op[k]; k++)
      text[used++] = (char)tolower(op[k]);
    text[used] = '\0';
  }
  /* Host code of several targets ends up in one library. */
  if (group->place == BP_PLACE_FALLBACK)
    return bp__arena_printf(arena, "beside_%s_%s_%zu", bp_target_kind(build->target), text, number);
  return bp__arena_printf(arena, "%s_%zu", text, number);
}

/* ---- Tensor expressions ------------------------------------------------------------------ */

typedef struct Lowering {
  BpTe *te;
  const BpGroup *group;
  BpTeTensor **args;  /* by argument of the group, then the output */
  BpTeTensor **nodes; /* by node of the group */
  BpTransformStages *transforms;
} Lowering;

/* One element, written into the code. */
static const BpIrNode *immediate_body(BpTe *te, const BpIrNode *const *axes, void *context) {
  const BpGraphValue *value = context;
  (void)axes;
  if (bp__dtype_is_float(value->dtype))
    return bp_ir_float(bp_te_ir(te), value->dtype, bp__value_get_float(value, 0));
  return bp_ir_int(bp_te_ir(te), value->dtype, bp__value_get_int(value, 0));
}

static BpTeTensor *immediate(BpTe *te, BpGraphValue *value) {
  BpTeTensor *tensor =
      bp_te_compute(te, "number", value->shape, value->ndim, immediate_body, value);
  return tensor && !bp_te_compute_inline(bp_te_stage(te, tensor)) ? tensor : NULL;
}

static BpTeTensor *input_tensor(const Lowering *lowering, BpGraphValue *value) {
  if (bp__build_is_immediate(value))
    return immediate(lowering->te, value);
  if (index_in(&lowering->group->args, value) >= 0)
    return lowering->args[index_in(&lowering->group->args, value)];
  return lowering->nodes[index_in(&lowering->group->nodes, value->producer)];
}

static BpTeTensor *compute_node(const Lowering *lowering, const BpGraphNode *node) {
  BpTeTensor *inputs[MAX_INPUTS] = {NULL};
  BpOpCompute op = {lowering->te, node, inputs, lowering->transforms};
  if (node->num_inputs > MAX_INPUTS) {
    bp__op_error(node, "it has %d inputs, at most %d work", node->num_inputs, MAX_INPUTS);
    return NULL;
  }
  for (int32_t k = 0; k < node->num_inputs; k++) {
    BpGraphValue *value = bp__op_argument(node, k);
    if (value && !(inputs[k] = input_tensor(lowering, value)))
      return NULL;
  }
  return bp__op_compute(&op);
}

static int compute_group(const Lowering *lowering) {
  const BpGroup *group = lowering->group;
  for (size_t i = 0; i < group->args.size; i++) {
    const BpGraphValue *value = group->args.items[i];
    lowering->args[i] =
        bp_te_placeholder(lowering->te, "arg", value->dtype, value->shape, value->ndim);
    if (!lowering->args[i])
      return -1;
  }
  for (size_t i = 0; i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    lowering->nodes[i] = compute_node(lowering, node);
    if (!lowering->nodes[i])
      return bp_error_add_context("node '%s' (%s)", node->name, node->op->name);
  }
  lowering->args[group->args.size] = lowering->nodes[group->nodes.size - 1];
  return 0;
}

/* ---- Functions --------------------------------------------------------------------------- */

typedef struct Dump {
  const BpBuild *build;
  const char *function;
} Dump;

static void dump_pass(void *context, const char *pass, const char *text) {
  const Dump *dump = context;
  char name[2 * MAX_NAME];
  snprintf(name, sizeof(name), "%s.%s.ir", dump->function, pass);
  if (bp__build_dump(dump->build, name, text))
    bp_error_clear();
}

static int lower_function(const BpBuild *build, const BpGroup *group, BpIrModule *module) {
  Dump dump = {build, group->function};
  BpLowerOptions options = {.struct_size = sizeof(options),
                            .target = build->target,
                            .dump = build->options->dump_dir ? dump_pass : NULL,
                            .dump_context = &dump};
  BpTe *te = bp_te_create();
  BpTransformStages transforms = {0};
  Lowering lowering = {.te = te, .group = group, .transforms = &transforms};
  int32_t count = (int32_t)group->args.size + 1;
  int status = -1;
  lowering.args = calloc((size_t)count, sizeof(BpTeTensor *));
  lowering.nodes = calloc(group->nodes.size, sizeof(BpTeTensor *));
  if (!lowering.args || !lowering.nodes)
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while lowering '%s'", group->function);
  else if (te && !compute_group(&lowering) &&
           !bp__build_schedule(build, te, &transforms, lowering.nodes[group->nodes.size - 1]))
    status = bp_te_lower(te, group->function, lowering.args, count, &options, module);
  free(lowering.args);
  free(lowering.nodes);
  bp_te_free(te);
  return status;
}

static int has_thread_axes(const BpBuild *build) {
  return bp_target_get_int(build->target, BP_TARGET_THREAD_AXES, 0) != 0;
}

/* Functions without thread axes are called, not launched: legalisation makes their grids loops. */
static int forget_launches(BpGroups *groups, BpKernelList *list) {
  size_t count = (size_t)list->num_kernels;
  BpKernelLaunch *kernels = bp__arena_alloc_array(&groups->arena, count, sizeof(*kernels));
  for (size_t i = 0; kernels && i < count; i++) {
    kernels[i] = list->kernels[i];
    kernels[i].num_launch = 0;
  }
  list->kernels = kernels;
  return kernels ? 0 : -1;
}

/* As the kernels that do its work. */
static int lower_device(const BpBuild *build, BpGroups *groups, BpGroup *group,
                        BpIrModule *module) {
  BpKernelList *kernels = bp__arena_alloc(&groups->arena, sizeof(*kernels));
  BpIrModule *whole = kernels ? bp_ir_module_create() : NULL;
  int status = -1;
  if (whole && !lower_function(build, group, whole))
    status = bp_ir_split_kernels(whole, group->function, 1, module, kernels);
  if (!status && !has_thread_axes(build))
    status = forget_launches(groups, kernels);
  group->kernels = kernels;
  bp_object_release(whole);
  return status;
}

static int lower_group(const BpBuild *build, BpGroups *groups, BpGroup *group, BpIrModule *module) {
  int is_device = has_thread_axes(build) || bp_target_device_type(build->target) != BP_DEVICE_CPU;
  int status =
      is_device ? lower_device(build, groups, group, module) : lower_function(build, group, module);
  return status ? bp_error_add_context("while generating '%s'", group->function) : 0;
}

/* Gives the group a function, that of an equal group if there is one. */
static int name_group(const BpBuild *build, BpGroups *groups, BpGroup *group, GHashTable *known,
                      BpIrModule *const modules[2]) {
  const BpBuild beside = {build->options, build->fallback, NULL, build->dump_prefix};
  char *text = describe(group);
  if (!text)
    return -1;
  const BpGroup *equal = g_hash_table_lookup(known, text);
  if (equal) {
    group->function = equal->function;
    group->kernels = equal->kernels;
    free(text);
    return 0;
  }
  group->function = function_name(build, &groups->arena, group, g_hash_table_size(known));
  g_hash_table_insert(known, text, group);
  if (!group->function)
    return -1;
  return lower_group(group->place == BP_PLACE_FALLBACK ? &beside : build, groups, group,
                     modules[group->place]);
}

int bp__build_can_run(const BpBuild *build, BpGraphNode *node, char *why, size_t size) {
  BpGroups groups = {0};
  BpGroup group = {0};
  BpIrModule *ir = bp_ir_module_create();
  BpModule *code = NULL;
  if (ir && bp__build_group_of(&group, node) == 0) {
    group.function = "node";
    if (lower_group(build, &groups, &group, ir) == 0)
      code = bp_target_build(ir, build->target);
  }
  int can_run = code ? 1 : bp_error_is(BP_ERROR_NOT_IMPLEMENTED) ? 0 : -1;
  if (can_run == 0) {
    snprintf(why, size, "%s", bp_error_message());
    bp_error_clear();
  }
  bp_object_release(code);
  bp_object_release(ir);
  bp__list_free(&group.nodes);
  bp__list_free(&group.args);
  bp__arena_free(&groups.arena);
  return can_run;
}

int bp__build_functions(const BpBuild *build, BpGroups *groups, BpIrModule *const modules[2]) {
  GHashTable *known = g_hash_table_new_full(g_str_hash, g_str_equal, free, NULL);
  int status = 0;
  for (size_t i = 0; i < groups->groups.size && !status; i++) {
    BpGroup *group = groups->groups.items[i];
    if (!group->view_of)
      status = name_group(build, groups, group, known, modules);
    if (build->options->progress)
      build->options->progress(build->options->progress_context, "lowering", (int32_t)i + 1,
                               (int32_t)groups->groups.size);
  }
  g_hash_table_destroy(known);
  return status;
}
