/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering: every group becomes tensor expressions, a schedule, and a function of the IR module.
 * Groups with equal computations (same.c) share a function. Constants are arguments, so layers of
 * equal shapes share a function. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/ops/control.h"
#include "graph/ops/expr.h"
#include "graph/ops/op.h"

#define MAX_NAME 64

/* ---- Names ------------------------------------------------------------------------------- */

/* The name of a group's function: "fused_conv_add_relu", made unique by a number. */
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
      text[used++] = g_ascii_tolower(op[k]);
    text[used] = '\0';
  }
  /* Host code of several targets ends up in one library. */
  if (group->place != BP_PLACE_TARGET)
    return bp__arena_printf(arena, "beside_%s_%s_%zu", bp_target_kind(build->target), text, number);
  return bp__arena_printf(arena, "%s_%zu", text, number);
}

/* ---- Tensor expressions ------------------------------------------------------------------ */

typedef struct Lowering {
  BpTe *te;
  const BpGraph *graph;
  BpOpSymbols symbols;
  const BpGroup *group;
  BpTeTensor **args;    /* tensor of each argument of the group, then of its outputs */
  BpTeTensor ***values; /* tensor of each output of each node of the group */
  BpTransformStages *transforms;
} Lowering;

/* The body of a constant of one element that is written into the code. */
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

/* The tensor that a node of the group computes. */
static BpTeTensor *computed_tensor(const Lowering *lowering, const BpGraphValue *value) {
  int32_t node = bp__list_index(&lowering->group->nodes, value->producer);
  return lowering->values[node][bp__value_output_index(value)];
}

/* Whether nodes of the group read a value before it is rounded. An output of the group is stored
 * rounded. A value that a step or a copy of elements reads is rounded for all its readers: x minus
 * Floor(x) must not be negative. */
static bool passes_unrounded(const BpGroup *group, const BpGraphValue *value) {
  if (bp__list_index(&group->outputs, value) >= 0)
    return false;
  for (size_t i = 0; i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    for (int32_t k = 0; k < node->num_inputs; k++)
      if (node->inputs[k] == value && !bp__op_is_continuous(node))
        return false;
  }
  return true;
}

static BpTeTensor *input_tensor(const Lowering *lowering, BpGraphValue *value) {
  int32_t arg = bp__list_index(&lowering->group->args, value);
  if (arg >= 0)
    return lowering->args[arg];
  return bp__build_is_immediate(value) ? immediate(lowering->te, value)
                                       : computed_tensor(lowering, value);
}

static BpOpCompute operation(Lowering *lowering, const BpGraphNode *node,
                             BpTeTensor *const *inputs) {
  return (BpOpCompute){.te = lowering->te,
                       .node = node,
                       .inputs = inputs,
                       .extents = (BpExtents *)(uintptr_t)&lowering->graph->extents,
                       .symbols = &lowering->symbols,
                       .transforms = lowering->transforms};
}

static int compute_node(Lowering *lowering, const BpGraphNode *node, BpTeTensor **outputs) {
  BpTeTensor *inputs[BP_OP_MAX_INPUTS] = {NULL};
  BpOpCompute op = operation(lowering, node, inputs);
  for (int32_t k = 0; k < node->num_inputs; k++) {
    BpGraphValue *value = bp__op_argument(node, k);
    if (value && !(inputs[k] = input_tensor(lowering, value)))
      return -1;
  }
  if (node->op->compute(&op, outputs) != 0)
    return -1;
  for (int32_t k = 0; k < node->num_outputs; k++)
    if (!passes_unrounded(lowering->group, node->outputs[k]) &&
        !(outputs[k] = bp__op_round(&op, k, outputs[k])))
      return -1;
  return 0;
}

static int compute_group(Lowering *lowering) {
  const BpGroup *group = lowering->group;
  for (size_t i = 0; i < group->args.size; i++) {
    const BpOpCompute op = operation(lowering, NULL, NULL);
    lowering->args[i] = bp__op_placeholder(&op, "arg", group->args.items[i]);
    if (!lowering->args[i])
      return -1;
  }
  for (size_t i = 0; i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    if (compute_node(lowering, node, lowering->values[i]) != 0)
      return bp_error_add_context("node '%s' (%s)", node->name, node->op->name);
  }
  for (size_t i = 0; i < group->outputs.size; i++)
    lowering->args[group->args.size + i] = computed_tensor(lowering, group->outputs.items[i]);
  return 0;
}

/* ---- Functions --------------------------------------------------------------------------- */

typedef struct Dump {
  const BpBuild *build;
  const char *function;
  BpError *error; /* error of the first file that could not be written */
} Dump;

static void dump_pass(void *context, const char *pass, const char *text) {
  Dump *dump = context;
  char name[2 * MAX_NAME];
  snprintf(name, sizeof(name), "%s.%s.ir", dump->function, pass);
  if (!dump->error && bp__build_dump(dump->build, name, text))
    dump->error = bp_error_take();
}

/* Returns the status of the lowering, or -1 with the error of the file that could not be written:
 * dump_pass returns nothing. */
static int end_dump(Dump *dump, int status) {
  if (!dump->error)
    return status;
  bp_error_put(dump->error);
  return -1;
}

static int begin_lowering(Lowering *lowering) {
  const BpGroup *group = lowering->group;
  size_t count = (size_t)bp__extents_count(&lowering->graph->extents);
  int failed = 0;
  lowering->te = bp_te_create();
  lowering->args = calloc(group->args.size + group->outputs.size, sizeof(BpTeTensor *));
  lowering->values = calloc(group->nodes.size, sizeof(BpTeTensor **));
  lowering->symbols.vars = calloc(count + 1, sizeof(*lowering->symbols.vars));
  lowering->symbols.places = calloc(count + 1, sizeof(*lowering->symbols.places));
  for (size_t i = 0; lowering->values && i < group->nodes.size; i++) {
    const BpGraphNode *node = group->nodes.items[i];
    lowering->values[i] = calloc((size_t)node->num_outputs, sizeof(BpTeTensor *));
    failed |= !lowering->values[i];
  }
  if (lowering->te && lowering->args && lowering->values && lowering->symbols.vars &&
      lowering->symbols.places && !failed)
    return 0;
  return bp_error_raise(BP_ERROR_MEMORY, "out of memory while lowering '%s'", group->function);
}

static void end_lowering(Lowering *lowering) {
  for (size_t i = 0; lowering->values && i < lowering->group->nodes.size; i++)
    free(lowering->values[i]);
  free(lowering->values);
  free(lowering->args);
  free(lowering->symbols.vars);
  free(lowering->symbols.places);
  bp_te_free(lowering->te);
}

/* The number of steps of the group's loops; 0 if only a run knows it. */
static double count_work(const Lowering *lowering) {
  const BpGroup *group = lowering->group;
  double work = bp_te_work(lowering->te);
  for (size_t i = 0; i < group->args.size + group->outputs.size; i++) {
    const BpGraphValue *value =
        i < group->args.size ? group->args.items[i] : group->outputs.items[i - group->args.size];
    if (bp__value_is_open(value))
      return 0;
  }
  return isfinite(work) ? work : 0;
}

/* Schedules a group. The compiler's schedules analyse the computation, except for transforms, whose
 * stages only the operator knows: ConvWinograd sets `transforms`, which is zero in other groups. */
static int schedule_group(const BpBuild *build, BpTe *te, const BpTransformStages *transforms,
                          BpTeTensor *const *outputs, int32_t num_outputs) {
  if (build->is_reference)
    return 0;
  if (transforms->product)
    return bp_schedule_transformed(te, build->target, transforms, outputs[0]);
  return bp_schedule_auto(te, outputs, num_outputs, build->target);
}

/* Stores in the group the symbols that its function takes as arguments. */
static int keep_symbols(const Lowering *lowering, BpGroups *groups, BpGroup *group) {
  size_t size = (size_t)lowering->symbols.count * sizeof(*group->symbols);
  int32_t *places = bp__arena_alloc(&groups->arena, size + 1);
  if (!places)
    return -1;
  memcpy(places, lowering->symbols.places, size);
  group->symbols = places;
  group->num_symbols = lowering->symbols.count;
  return 0;
}

static int lower_function(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                          BpGroup *group, BpIrModule *module) {
  Dump dump = {build, group->function, NULL};
  BpLowerOptions options = {.struct_size = sizeof(options),
                            .target = build->target,
                            .dump = build->options->dump_dir ? dump_pass : NULL,
                            .dump_context = &dump};
  BpTransformStages transforms = {0};
  Lowering lowering = {.graph = graph, .group = group, .transforms = &transforms};
  int32_t inputs = (int32_t)group->args.size, outputs = (int32_t)group->outputs.size;
  int status = -1;
  if (!begin_lowering(&lowering) && !compute_group(&lowering) &&
      !keep_symbols(&lowering, groups, group)) {
    group->work = count_work(&lowering);
    status = schedule_group(build, lowering.te, &transforms, lowering.args + inputs, outputs);
    if (!status)
      status = bp_te_lower(lowering.te, group->function, lowering.args, inputs + outputs, &options,
                           module);
  }
  end_lowering(&lowering);
  return end_dump(&dump, status);
}

/* The number of output elements of a node, with likely values for open extents. */
static double likely_elements(const BpGraph *graph, const BpGraphNode *node) {
  double sum = 0;
  for (int32_t i = 0; i < node->num_outputs; i++) {
    double count = 1;
    for (int32_t d = 0; d < node->outputs[i]->ndim; d++)
      count *= (double)bp__extent_likely(&graph->extents, node->outputs[i]->shape[d]);
    sum += count;
  }
  return sum;
}

/* The number of steps of a node's loops; negative with an error if its loops cannot be counted. */
static double loop_steps(const BpGraph *graph, BpGraphNode *node) {
  BpTransformStages transforms = {0};
  BpGroup group = {.function = "node"};
  Lowering lowering = {.graph = graph, .group = &group, .transforms = &transforms};
  double work = -1;
  if (!bp__build_group_of(&group, node) && !begin_lowering(&lowering) && !compute_group(&lowering))
    work = bp_te_work(lowering.te);
  end_lowering(&lowering);
  bp__group_clear(&group);
  return work;
}

double bp__build_work(const BpGraph *graph, BpGraphNode *node) {
  double work = 0;
  if (node->op->fusion == BP_FUSE_VIEW)
    return 0;
  for (int32_t b = 0; b < node->num_bodies; b++)
    for (size_t i = 0; i < node->bodies[b]->nodes.size; i++)
      work += bp__build_work(node->bodies[b], node->bodies[b]->nodes.items[i]);
  if (bp__op_is_control(node))
    return work;
  work = loop_steps(graph, node);
  if (work < 0)
    bp_error_clear();
  return work >= 0 && isfinite(work) ? work : likely_elements(graph, node);
}

static int has_thread_axes(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_THREAD_AXES, 0) != 0;
}

int bp__build_has_kernels(const BpTarget *target) {
  return has_thread_axes(target) || bp_target_device_type(target) != BP_DEVICE_CPU;
}

/* Copies a list of kernels without launches: functions without thread axes are called, because
 * legalisation turns their grids into loops. */
static const BpKernelList *without_launches(BpGroups *groups, const BpKernelList *list) {
  size_t count = (size_t)list->num_kernels;
  BpKernelList *own = bp__arena_alloc(&groups->arena, sizeof(*own));
  BpKernelLaunch *kernels = bp__arena_alloc_array(&groups->arena, count, sizeof(*kernels));
  if (!own || !kernels)
    return NULL;
  for (size_t i = 0; i < count; i++) {
    kernels[i] = *bp_kernel_list_get(list, (int32_t)i);
    kernels[i].num_launch = 0;
  }
  *own = *list;
  own->kernels = kernels;
  own->kernel_size = sizeof(*kernels);
  return own;
}

/* Lowers a group to the kernels that do its work. */
static int lower_device(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                        BpGroup *group, BpIrModule *module) {
  const BpKernelList *kernels = NULL;
  BpIrModule *whole = bp_ir_module_create();
  if (whole && !lower_function(build, graph, groups, group, whole))
    kernels = bp_ir_split_kernels(whole, group->function, (int32_t)group->outputs.size, module);
  if (kernels && !has_thread_axes(build->target))
    kernels = without_launches(groups, kernels);
  group->kernels = kernels;
  bp_object_release(whole);
  return kernels ? 0 : -1;
}

static int lower_group(const BpBuild *build, const BpGraph *graph, BpGroups *groups, BpGroup *group,
                       BpIrModule *module) {
  int status = bp__build_has_kernels(build->target)
                   ? lower_device(build, graph, groups, group, module)
                   : lower_function(build, graph, groups, group, module);
  return status ? bp_error_add_context("while generating '%s'", group->function) : 0;
}

/* Gives the group a function: the function of an equal group if one exists. */
static int name_group(const BpBuild *build, const BpGraph *graph, BpGroups *groups, BpGroup *group,
                      GHashTable *known, BpIrModule *const *modules) {
  BpBuild own = *build;
  own.target = build->chain[group->place];
  group->function = bp__build_part_function(group->nodes.items[0]);
  if (group->function)
    return 0;
  const BpGroup *equal = g_hash_table_lookup(known, group);
  if (equal) {
    group->function = equal->function;
    group->kernels = equal->kernels;
    group->symbols = equal->symbols;
    group->num_symbols = equal->num_symbols;
    group->work = equal->work;
    return 0;
  }
  if (bp__graph_check_functions(graph, g_hash_table_size(known) + 1))
    return -1;
  group->function = function_name(build, &groups->arena, group, g_hash_table_size(known));
  g_hash_table_insert(known, group, group);
  if (!group->function)
    return -1;
  return lower_group(&own, graph, groups, group, modules[group->place]);
}

/* Checks a group as bp__build_can_run does; the group's function has a name. */
static int can_run_group(const BpBuild *build, const BpGraph *graph, BpGroup *group, char *why,
                         size_t size) {
  BpGroups groups = {0};
  BpIrModule *ir = bp_ir_module_create();
  BpModule *code = NULL;
  if (ir && lower_group(build, graph, &groups, group, ir) == 0)
    code = bp_target_build(ir, build->target);
  int can_run = code ? 1 : bp_error_is(BP_ERROR_NOT_IMPLEMENTED) ? 0 : -1;
  if (can_run == 0) {
    snprintf(why, size, "%s", bp_error_message());
    bp_error_clear();
  }
  bp_object_release(code);
  bp_object_release(ir);
  bp__arena_free(&groups.arena);
  group->kernels = NULL;
  group->symbols = NULL;
  group->num_symbols = 0;
  return can_run;
}

int bp__build_can_run(const BpBuild *build, const BpGraph *graph, BpGraphNode *node, char *why,
                      size_t size) {
  BpGroup group = {0};
  int can_run = -1;
  if (bp__build_group_of(&group, node) == 0) {
    group.function = "node";
    can_run = can_run_group(build, graph, &group, why, size);
  }
  bp__group_clear(&group);
  return can_run;
}

static int lower_alone(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                       BpGraphNode *node, size_t number, BpIrModule *ir) {
  BpGroup group = {0};
  int status = bp__build_group_of(&group, node);
  if (!status)
    group.function = function_name(build, &groups->arena, &group, number);
  status = group.function ? lower_group(build, graph, groups, &group, ir) : -1;
  bp__group_clear(&group);
  return status;
}

int bp__build_can_run_all(const BpBuild *build, const BpGraph *graph, const BpList *nodes) {
  BpGroups groups = {0};
  BpIrModule *ir = bp_ir_module_create();
  BpModule *code = NULL;
  int status = ir ? 0 : -1;
  for (size_t i = 0; i < nodes->size && !status; i++)
    status = lower_alone(build, graph, &groups, nodes->items[i], i, ir);
  if (!status)
    code = bp_target_build(ir, build->target);
  int can_run = code ? 1 : bp_error_is(BP_ERROR_MEMORY) ? -1 : 0;
  if (can_run == 0)
    bp_error_clear();
  bp_object_release(code);
  bp_object_release(ir);
  bp__arena_free(&groups.arena);
  return can_run;
}

static int keep_bodies_apart(const BpBuild *build, const BpGroup *group) {
  const BpGraphNode *node = bp__group_control(group);
  int num_apart = 0;
  for (int32_t b = 0; b < node->num_bodies; b++) {
    int in_body = bp__build_keep_apart(build, node->bodies[b], &group->bodies[b]);
    if (in_body < 0)
      return -1;
    num_apart += in_body;
  }
  return num_apart;
}

int bp__build_keep_apart(const BpBuild *build, const BpGraph *graph, BpGroups *groups) {
  int num_apart = 0;
  for (size_t i = 0; i < groups->groups.size; i++) {
    BpGroup *group = groups->groups.items[i];
    char why[1024];
    int in_bodies = group->bodies ? keep_bodies_apart(build, group) : 0;
    if (in_bodies < 0)
      return -1;
    num_apart += in_bodies;
    if (group->view_of || group->place >= MAX(build->num_places - 1, 1) || group->nodes.size < 2)
      continue;
    BpBuild own = *build;
    own.target = build->chain[group->place];
    group->function = group->function ? group->function : "fused";
    int can_run = can_run_group(&own, graph, group, why, sizeof(why));
    if (can_run < 0)
      return -1;
    for (size_t k = 0; k < group->nodes.size && !can_run; k++)
      ((BpGraphNode *)group->nodes.items[k])->is_alone = 1;
    num_apart += !can_run;
  }
  return num_apart;
}

static int name_groups(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                       GHashTable *known, BpIrModule *const *modules) {
  int status = 0;
  for (size_t i = 0; i < groups->groups.size && !status; i++) {
    BpGroup *group = groups->groups.items[i];
    const BpGraphNode *control = bp__group_control(group);
    if (!group->view_of && !control && !bp__group_append(group))
      status = name_group(build, graph, groups, group, known, modules);
    for (int32_t b = 0; control && b < control->num_bodies && !status; b++)
      status = name_groups(build, control->bodies[b], &group->bodies[b], known, modules);
    if (!status)
      status = bp__build_report(build, "lowering", (int32_t)i + 1, (int32_t)groups->groups.size);
  }
  return status;
}

int bp__build_functions(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                        BpIrModule *const *modules) {
  GHashTable *known = g_hash_table_new(bp__group_hash, bp__group_equal);
  int status = name_groups(build, graph, groups, known, modules);
  g_hash_table_destroy(known);
  return status;
}
