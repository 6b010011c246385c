/* SPDX-License-Identifier: Apache-2.0 */
/* bp_model_compile: an ONNX file becomes an artifact with code for each target. build_graph is the
 * list of passes. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/onnx/import.h"
#include "graph/ops/control.h"

#define MAX_TARGETS   16
#define MAX_COMPILERS 16

static int dump_bytes(const BpBuild *build, const char *name, const char *data, size_t size) {
  char *path;
  FILE *file;
  int failed;
  if (!build->options->dump_dir)
    return 0;
  path = g_strdup_printf("%s/%s%s", build->options->dump_dir, build->dump_prefix, name);
  file = fopen(path, "we");
  failed = !file || fwrite(data, 1, size, file) != size;
  failed |= file && fclose(file);
  if (failed)
    bp_error_raise(BP_ERROR_IO, "cannot write the dump '%s': %s", path, strerror(errno));
  g_free(path);
  return failed ? -1 : 0;
}

int bp__build_dump(const BpBuild *build, const char *name, const char *text) {
  return dump_bytes(build, name, text, strlen(text));
}

static int dump_graph(const BpBuild *build, const BpGraph *graph, const char *name) {
  char *text = build->options->dump_dir ? bp__graph_print(graph) : NULL;
  int status = build->options->dump_dir ? (text ? bp__build_dump(build, name, text) : -1) : 0;
  free(text);
  return status;
}

static int dump_module(const BpBuild *build, const BpIrModule *module) {
  char *text = build->options->dump_dir ? bp_ir_print(module) : NULL;
  int status =
      build->options->dump_dir ? (text ? bp__build_dump(build, "module.ir", text) : -1) : 0;
  bp_str_free(text);
  return status;
}

/* Writes the source of a module and of what it imports as KIND.txt, or KIND.FORMAT where the module
 * knows a format by the name of its language. A kind that keeps no source has no file. */
static int dump_sources(const BpBuild *build, BpModule *code) {
  static const char *const formats[] = {"c", "ll", "cl", "glsl", "cu", ""};
  int status = 0;
  if (!build->options->dump_dir)
    return 0;
  for (size_t i = 0, found = 0; i < G_N_ELEMENTS(formats) && !found && !status; i++) {
    BpOwnedBytes source = {0};
    found = !bp_module_get_source(code, formats[i], &source) && source.data;
    if (!found)
      bp_error_clear();
    char *name = g_strconcat(bp_module_kind(code), ".", *formats[i] ? formats[i] : "txt", NULL);
    status = found ? dump_bytes(build, name, source.data, source.size) : 0;
    g_free(name);
    bp_owned_bytes_clear(&source);
  }
  for (size_t i = 0; i < bp_module_num_imports(code) && !status; i++)
    status = dump_sources(build, bp_module_get_import(code, i));
  return status;
}

int bp__build_report(const BpBuild *build, const char *stage, int32_t done, int32_t total) {
  const BpCompileOptions *options = build->options;
  if (!options->progress || !options->progress(options->progress_context, stage, done, total))
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME,
                        "BpCompileOptions::progress cancelled the compilation (%s, %d of %d)",
                        stage, done, total);
}

/* ---- One target -------------------------------------------------------------------------- */

/* A member of the limits; 0 where there are none, or where an older program's end before it. */
#define LIMIT(limits, member)                                                                      \
  ((limits) && (limits)->struct_size >= offsetof(BpCompileLimits, member) + sizeof(int64_t)        \
       ? (limits)->member                                                                          \
       : 0)

static int set_budget(const BpCompileOptions *options, BpGraphBudget *budget) {
  size_t needed = offsetof(BpCompileOptions, limits) + sizeof(options->limits);
  const BpCompileLimits *limits = options->struct_size >= needed ? options->limits : NULL;
  budget->most_nodes = LIMIT(limits, nodes);
  budget->most_bytes = LIMIT(limits, constant_bytes);
  budget->most_work = LIMIT(limits, fold_work);
  budget->most_functions = LIMIT(limits, functions);
  if (budget->most_nodes < 0 || budget->most_bytes < 0 || budget->most_work < 0 ||
      budget->most_functions < 0)
    return bp_error_raise(BP_ERROR_VALUE, "a limit of compiling is negative; 0 is the default");
  return 0;
}

static int optimize_graph(const BpBuild *build, BpGraph *graph);

static int optimize_bodies(const BpBuild *build, const BpGraph *graph) {
  for (size_t i = 0; i < graph->nodes.size; i++) {
    const BpGraphNode *node = graph->nodes.items[i];
    for (int32_t b = 0; b < node->num_bodies; b++)
      if (optimize_graph(build, node->bodies[b]))
        return -1;
  }
  return 0;
}

/* The passes that make the graph faster, in order, and then its bodies. */
static int optimize_graph(const BpBuild *build, BpGraph *graph) {
  return bp__build_fold_scales(graph) || bp__build_canonical(graph) ||
                 bp__build_layout(graph, build->target) || bp__build_pack(graph, build->target) ||
                 optimize_bodies(build, graph)
             ? -1
             : 0;
}

/* Whether extents may be known only when the model runs. An artifact for several targets has one
 * graph for each, all of the same shapes. */
static int takes_open_extents(const BpBuild *build) {
  return build->options->num_targets == 1;
}

/* Numbers below those that a file may have stand for open extents inside of the graph. */
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

/* The shapes of inputs, whose rows may be longer than this version's, or NULL with an error. */
static const BpInputShape *read_shapes(const BpCompileOptions *options, BpArena *arena) {
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

/* Whether something is left to a run: extents, bodies, or a check of what only a run knows. */
static bool needs_program(const BpGraph *graph) {
  if (bp__graph_is_open(graph) || bp__graph_has_control(graph))
    return true;
  for (size_t i = 0; i < graph->nodes.size; i++)
    if (bp__op_is_bind(graph->nodes.items[i]))
      return true;
  return false;
}

/* Lets graph compilers claim parts, if any were named. */
static int claim_parts(const BpBuild *build, BpGraph *graph) {
  if (build->num_compilers > 0 && needs_program(graph))
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "graph compilers take graphs all of whose shapes are known, and this "
                          "model has open extents, bodies (If, Loop, Scan) or shapes that depend "
                          "on data; give the shapes of its inputs, or leave the graph compilers "
                          "out");
  return build->num_compilers > 0 ? bp__build_claim(build, graph) : 0;
}

/* The passes over the graph, in order. */
static int build_graph(const BpBuild *build, const OnnxModel *model, BpGraph *graph) {
  const BpCompileOptions *options = build->options;
  if (set_budget(options, &graph->budget) ||
      (takes_open_extents(build) && bp__graph_can_be_open(graph)))
    return -1;
  const BpInputShape *shapes = read_shapes(options, &graph->arena);
  graph->has_sources = build->num_compilers > 0;
  if (!shapes || bp__onnx_import(graph, model, shapes, options->num_shapes))
    return -1;
  bp__graph_remove_dead(graph);
  if (dump_graph(build, graph, "imported.txt") || claim_parts(build, graph) ||
      (!build->is_reference && optimize_graph(build, graph)) || bp__build_own_outputs(graph))
    return -1;
  return dump_graph(build, graph, "optimized.txt");
}

/* Says of what the target refused that code for the CPU may run it. How to ask for that depends on
 * the caller: a program has BpCompileOptions::fallback, a command has options. */
static BpModule *refuse(const BpBuild *build) {
  if (!build->fallback && bp_target_device_type(build->target) != BP_DEVICE_CPU &&
      bp_error_is(BP_ERROR_NOT_IMPLEMENTED))
    bp_error_add_context(
        "target %s refuses a part of the model, which another target may run as the fallback",
        bp_target_kind(build->target));
  return NULL;
}

/* What the target's generator makes; where nothing is left to it, the first part that a graph
 * compiler compiled: its target needs no generator. */
static BpModule *generate(const BpBuild *build, BpIrModule *ir) {
  if (build->parts->size > 0 && bp_ir_table()->num_functions(ir) == 0)
    return bp_object_retain(build->parts->items[0]);
  return bp_target_build(ir, build->target);
}

/* Makes the fallback's code, if there is any, and the parts imports of the code. */
static int import_others(const BpBuild *build, BpIrModule *beside, BpModule *code) {
  if (bp_ir_table()->num_functions(beside) > 0) {
    BpModule *module = bp_target_build(beside, build->fallback);
    int status = module ? bp_module_import(code, module) : -1;
    bp_object_release(module);
    if (status)
      return -1;
  }
  for (size_t i = 0; i < build->parts->size; i++)
    if (build->parts->items[i] != code && bp_module_import(code, build->parts->items[i]))
      return -1;
  return 0;
}

/* The target's code, with the fallback's and that of graph compilers as imports. */
static BpModule *build_code(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                            BpIrModule *const irs[2]) {
  if (!irs[0] || !irs[1] || bp__build_functions(build, graph, groups, irs) ||
      dump_module(build, irs[0]))
    return refuse(build);
  if (bp__build_report(build, "code", 0, 1))
    return NULL;
  BpModule *code = generate(build, irs[0]);
  if (!code)
    return refuse(build);
  if (import_others(build, irs[1], code) || dump_sources(build, code) ||
      bp__build_report(build, "code", 1, 1)) {
    bp_object_release(code);
    code = NULL;
  }
  return code;
}

/* Everything of one target that lives until the artifact is made. */
typedef struct TargetBuild {
  BpGraph graph;
  BpGroups groups;
  BpIrModule *irs[2]; /* by place; hold the descriptions of kernels */
  BpList parts;       /* BpModule, owned: what graph compilers compiled */
  char *text;         /* of the target */
  char *json;
  BpModule *code;
  BpModule *program; /* of a graph with open extents; it has the code, and there is no JSON */
  BpGraphParam *params;
  int32_t num_params;
} TargetBuild;

static int try_code(const BpBuild *build, TargetBuild *result) {
  if (bp__build_groups(build, &result->graph, &result->groups))
    return -1;
  for (int i = 0; i < 2; i++)
    result->irs[i] = bp_ir_module_create();
  result->code = build_code(build, &result->graph, &result->groups, result->irs);
  return result->code ? 0 : -1;
}

static void forget_groups(TargetBuild *result) {
  bp__groups_clear(&result->groups);
  result->groups = (BpGroups){0};
  for (int i = 0; i < 2; i++) {
    bp_object_release(result->irs[i]);
    result->irs[i] = NULL;
  }
}

/* Fuses nodes and builds their code. What the target refuses of it is not fused another time. */
static int build_fused(const BpBuild *build, TargetBuild *result) {
  while (try_code(build, result)) {
    int is_refused = bp_error_is(BP_ERROR_NOT_IMPLEMENTED);
    BpError *refusal = bp_error_take();
    if (!is_refused || bp__build_keep_apart(build, &result->graph, &result->groups) <= 0) {
      bp_error_put(refusal);
      return -1;
    }
    bp_object_release(refusal);
    forget_groups(result);
  }
  return 0;
}

static int build_target(const BpBuild *build, const OnnxModel *model, BpParamTable *params,
                        TargetBuild *result) {
  BpMemoryPlan plan = {0};
  int status = -1;
  result->text = bp_target_format(build->target);
  if (!result->text || build_graph(build, model, &result->graph) ||
      bp__build_place(build, &result->graph) || build_fused(build, result))
    return -1;
  if (needs_program(&result->graph)) {
    result->program = bp__build_program(&result->graph, &result->groups, result->code);
    return result->program ? 0 : -1;
  }
  if (!bp__build_kernels(&result->graph, &result->groups) &&
      !bp__build_copies(&result->graph, &result->groups) &&
      !bp__build_plan(&result->graph, &result->groups, &plan))
    result->json = bp__build_json(build, &result->graph, &result->groups, &plan, params,
                                  &result->params, &result->num_params);
  if (result->json)
    status = bp__build_dump(build, "graph.json", result->json);
  bp__plan_clear(&plan);
  return status;
}

static void clear_target(TargetBuild *target) {
  bp_object_release(target->code);
  bp_object_release(target->program);
  for (int i = 0; i < 2; i++)
    bp_object_release(target->irs[i]);
  for (size_t i = 0; i < target->parts.size; i++)
    bp_object_release(target->parts.items[i]);
  bp__list_free(&target->parts);
  bp_str_free(target->text);
  g_free(target->json);
  bp__groups_clear(&target->groups);
  bp__graph_clear(&target->graph);
}

/* ---- The artifact ------------------------------------------------------------------------ */

static BpModule *make_artifact(const BpCompileOptions *options, const TargetBuild *built,
                               const BpParamTable *params) {
  if (built[0].program)
    return bp_object_retain(built[0].program);
  BpGraphTarget targets[MAX_TARGETS];
  BpGraphArtifact artifact = {targets, (BpTensor *const *)params->tensors.items,
                              (uint32_t)options->num_targets, (uint32_t)params->tensors.size};
  for (int32_t i = 0; i < options->num_targets; i++)
    targets[i] = (BpGraphTarget){.target = built[i].text,
                                 .device_type = bp_target_device_type(options->targets[i]),
                                 .num_params = built[i].num_params,
                                 .params = built[i].params,
                                 .graph_json = built[i].json,
                                 .code = built[i].code};
  return bp__graph_module_create(&artifact);
}

/* Whether the options have `member`: an older program's end before it. */
#define HAS_MEMBER(options, member)                                                                \
  ((options)->struct_size >= offsetof(BpCompileOptions, member) + sizeof((options)->member))

static int raise_useless(const BpGraphCompilerApi *api) {
  char device[64];
  bp_device_format((BpDevice){api->device_type, 0}, device, sizeof device);
  return bp_error_raise(BP_ERROR_VALUE,
                        "graph compiler %s compiles for devices of kind %.*s, and no target is of "
                        "that kind",
                        api->name, (int)strcspn(device, ":"), device);
}

/* The tables of the graph compilers that the options name, each of which can serve a target. */
static int find_compilers(const BpCompileOptions *options, const BpGraphCompilerApi **compilers,
                          int32_t *count) {
  *count = HAS_MEMBER(options, claimed_context) ? options->num_graph_compilers : 0;
  if (*count < 0 || *count > MAX_COMPILERS)
    return bp_error_raise(BP_ERROR_VALUE, "%d graph compilers are named; at most %d are possible",
                          *count, MAX_COMPILERS);
  if (*count > 0 && !(options->least_claimed >= 0 && options->least_claimed <= 1))
    return bp_error_raise(BP_ERROR_VALUE, "least_claimed is %g; it is from 0 to 1",
                          options->least_claimed);
  if (*count > 0 && options->is_reference)
    return bp_error_raise(BP_ERROR_VALUE,
                          "is_reference compiles each operator by itself, and graph compilers were "
                          "named, which compile parts of many; leave one out");
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

static BpModule *compile(const OnnxModel *model, const BpCompileOptions *options) {
  const BpGraphCompilerApi *compilers[MAX_COMPILERS];
  int32_t num_compilers;
  TargetBuild built[MAX_TARGETS] = {0};
  BpParamTable params = {0};
  BpModule *artifact = NULL;
  int status = find_compilers(options, compilers, &num_compilers);
  for (int32_t i = 0; i < options->num_targets && !status; i++) {
    char prefix[64];
    BpBuild build = {
        .options = options,
        .target = options->targets[i],
        .fallback = HAS_MEMBER(options, placed_context) ? options->fallback : NULL,
        .is_reference = HAS_MEMBER(options, is_reference) && options->is_reference,
        .dump_prefix = prefix,
        .compilers = compilers,
        .num_compilers = num_compilers,
        .parts = &built[i].parts,
    };
    snprintf(prefix, sizeof(prefix), "%d-%s-", i, bp_target_kind(options->targets[i]));
    status = build_target(&build, model, &params, &built[i]);
  }
  if (!status)
    artifact = make_artifact(options, built, &params);
  for (int32_t i = 0; i < options->num_targets; i++)
    clear_target(&built[i]);
  bp__params_clear(&params);
  return artifact;
}

/* A device runs the code for its kind: of two, one would never run. */
static int check_targets(const BpCompileOptions *options) {
  for (int32_t i = 1; i < options->num_targets; i++)
    for (int32_t k = 0; k < i; k++)
      if (bp_target_device_type(options->targets[i]) == bp_target_device_type(options->targets[k]))
        return bp_error_raise(BP_ERROR_VALUE,
                              "targets %s and %s are both code for one kind of device, and an "
                              "artifact holds one for each; compile a file for each",
                              bp_target_kind(options->targets[k]),
                              bp_target_kind(options->targets[i]));
  return 0;
}

BpModule *bp_model_compile(const char *onnx_path, const BpCompileOptions *options) {
  OnnxModel *model;
  BpModule *artifact;
  if (!onnx_path || !options || options->num_targets < 1 || options->num_targets > MAX_TARGETS) {
    bp_error_raise(BP_ERROR_VALUE, "compiling takes a path and 1 to %d targets", MAX_TARGETS);
    return NULL;
  }
  model = check_targets(options) < 0 ? NULL : bp__onnx_read(onnx_path);
  if (!model)
    return NULL;
  artifact = bp__onnx_load_data(model, onnx_path) ? NULL : compile(model, options);
  bp__onnx_free(model);
  if (!artifact)
    bp_error_add_context("cannot compile '%s'", onnx_path);
  return artifact;
}
