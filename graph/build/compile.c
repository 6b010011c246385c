/* SPDX-License-Identifier: Apache-2.0 */
/* bp_model_compile: an ONNX file becomes an artifact with code for each target. build_target
 * and build_graph are the steps for one target. */
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
#include "graph/build/choose.h"
#include "graph/build/options.h"
#include "graph/io/argument.h"
#include "graph/onnx/import.h"
#include "graph/ops/control.h"

/* ---- One target -------------------------------------------------------------------------- */

/* Whether the graph may have extents that are known only when the model runs. An artifact for
 * several targets has a graph for each target, all with the same shapes. */
static int takes_open_extents(const BpBuild *build) {
  return build->options->num_targets == 1;
}

static bool has_sequence(const BpList *values) {
  for (size_t i = 0; i < values->size; i++)
    if (((const BpGraphValue *)values->items[i])->sequence)
      return true;
  return false;
}

/* Whether a run must decide something: extents, bodies, sequences, or checks of extents. */
static bool needs_program(const BpGraph *graph) {
  if (bp__graph_is_open(graph) || bp__graph_has_control(graph) || has_sequence(&graph->inputs) ||
      has_sequence(&graph->outputs))
    return true;
  for (size_t i = 0; i < graph->nodes.size; i++)
    if (bp__op_is_bind(graph->nodes.items[i]))
      return true;
  return false;
}

/* Imports the model and optimizes its graph. */
static int build_graph(const BpBuild *build, const OnnxModel *model, BpGraph *graph) {
  const BpCompileOptions *options = build->options;
  if (bp__options_budget(options, &graph->budget) ||
      (takes_open_extents(build) && bp__graph_can_be_open(graph)))
    return -1;
  const BpInputShape *shapes = bp__options_shapes(options, &graph->arena);
  graph->has_sources = build->num_compilers > 0;
  if (!shapes || bp__onnx_import(graph, model, shapes, options->num_shapes))
    return -1;
  bp__graph_remove_dead(graph);
  if (bp__build_release(build, graph) || bp__build_dump_graph(build, graph, "imported.txt") ||
      bp__build_passes(build, graph))
    return -1;
  return bp__build_dump_graph(build, graph, "optimized.txt");
}

/* Adds to the error that a fallback may run the nodes that the target rejects. Callers request a
 * fallback in different ways: a program with BpCompileOptions::fallback, a command with options. */
static BpModule *refuse(const BpBuild *build) {
  if (build->num_places == 1 && bp_target_device_type(build->target) != BP_DEVICE_CPU &&
      bp_error_is(BP_ERROR_NOT_IMPLEMENTED))
    bp_error_add_context(
        "target %s refuses a part of the model, which another target may run as the fallback",
        bp_target_kind(build->target));
  return NULL;
}

/* Makes the module with the target's generator. If graph compilers took every node, the target
 * needs no generator: the module of their first part is used. */
static BpModule *generate(const BpBuild *build, BpIrModule *ir) {
  if (build->parts->size > 0 && bp_ir_table()->num_functions(ir) == 0)
    return bp_object_retain(build->parts->items[0]);
  return bp_target_build(ir, build->target);
}

/* Makes the fallbacks' code, if there is any, and the parts imports of the code. */
static int import_others(const BpBuild *build, BpIrModule *const *irs, BpModule *code) {
  for (int32_t i = 1; i < build->num_places; i++) {
    if (bp_ir_table()->num_functions(irs[i]) == 0)
      continue;
    BpModule *module = bp_target_build(irs[i], build->chain[i]);
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

/* The target's code, with that of fallbacks and of graph compilers as imports. */
static BpModule *build_code(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                            BpIrModule *const *irs) {
  if (bp__build_functions(build, graph, groups, irs) || bp__build_dump_module(build, irs[0]))
    return refuse(build);
  if (bp__build_report(build, "code", 0, 1))
    return NULL;
  BpModule *code = generate(build, irs[0]);
  if (!code)
    return refuse(build);
  if (import_others(build, irs, code) || bp__build_dump_sources(build, code) ||
      bp__build_report(build, "code", 1, 1)) {
    bp_object_release(code);
    code = NULL;
  }
  return code;
}

/* The data of one target that lives until the artifact is made. */
typedef struct TargetBuild {
  BpGraph graph;
  BpGroups groups;
  BpIrModule *irs[BP_BUILD_MAX_PLACES]; /* kernels' descriptions, by place */
  BpList parts; /* the modules (BpModule) that graph compilers made; owned */
  char *text;   /* text of the target */
  char *json;
  BpModule *code;
  BpModule *program; /* program of a graph with open extents, with the code and without JSON */
  BpGraphParam *params;
  int32_t num_params;
} TargetBuild;

static int try_code(const BpBuild *build, TargetBuild *result) {
  if (bp__build_groups(build, &result->graph, &result->groups) ||
      bp__build_share_numbers(build, &result->graph, &result->groups))
    return -1;
  for (int32_t i = 0; i < build->num_places; i++)
    if (!(result->irs[i] = bp_ir_module_create()))
      return -1;
  result->code = build_code(build, &result->graph, &result->groups, result->irs);
  return result->code ? 0 : -1;
}

static void forget_groups(TargetBuild *result) {
  bp__groups_clear(&result->groups);
  result->groups = (BpGroups){0};
  for (int i = 0; i < BP_BUILD_MAX_PLACES; i++) {
    bp_object_release(result->irs[i]);
    result->irs[i] = NULL;
  }
}

/* Fuses nodes and builds their code. The nodes of a fused function that the target rejects are not
 * fused again. */
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
  if (!result->text || build_graph(build, model, &result->graph) || build_fused(build, result))
    return -1;
  if (build->is_program || needs_program(&result->graph)) {
    result->program = bp__build_program(build, &result->graph, &result->groups, result->code);
    return result->program ? 0 : -1;
  }
  if (!bp__build_kernels(&result->graph, &result->groups) &&
      !bp__build_copies(build, &result->graph, &result->groups) &&
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
  for (int i = 0; i < BP_BUILD_MAX_PLACES; i++)
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
  BpGraphTarget targets[BP_BUILD_MAX_TARGETS];
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

/* A call of the compiler: the model, and the options. */
typedef struct Request {
  const OnnxModel *model;
  OnnxFile *spent; /* the model's file if it is not used again; or NULL */
  const BpCompileOptions *options;
  const BpPartChoice *choice; /* choice for a single target; or NULL */
  bool is_program;
  const int32_t *ordinals; /* ordinals for a single target; or NULL */
} Request;

/* Compiles a model for each target. */
static BpModule *compile_as(const Request *request) {
  const BpCompileOptions *options = request->options;
  const BpGraphCompilerApi *compilers[BP_BUILD_MAX_COMPILERS];
  int32_t num_compilers;
  TargetBuild built[BP_BUILD_MAX_TARGETS] = {0};
  BpParamTable params = {0};
  BpModule *artifact = NULL;
  int status = bp__options_compilers(options, compilers, &num_compilers);
  for (int32_t i = 0; i < options->num_targets && !status; i++) {
    char prefix[64];
    int32_t num_claimed = 0;
    const BpTarget *chain[BP_BUILD_MAX_PLACES] = {options->targets[i]};
    bool is_used[BP_BUILD_MAX_PLACES] = {true};
    BpBuild build = {
        .options = options,
        .target = options->targets[i],
        .chain = chain,
        .num_places = 1 + bp__options_fallbacks(options, chain + 1),
        .is_used = is_used,
        .ordinals = request->ordinals,
        .is_reference = HAS_MEMBER(options, is_reference) && options->is_reference,
        .is_program = request->is_program,
        .dump_prefix = prefix,
        .compilers = compilers,
        .num_compilers = num_compilers,
        .parts = &built[i].parts,
        .num_claimed = &num_claimed,
        .choice = request->choice,
        .spent = i + 1 == options->num_targets ? request->spent : NULL,
    };
    snprintf(prefix, sizeof(prefix), "%d-%s-", i, bp_target_kind(options->targets[i]));
    status = build_target(&build, request->model, &params, &built[i]);
  }
  if (!status)
    artifact = make_artifact(options, built, &params);
  for (int32_t i = 0; i < options->num_targets; i++)
    clear_target(&built[i]);
  bp__params_clear(&params);
  return artifact;
}

static BpModule *compile(const OnnxModel *model, const BpCompileOptions *options,
                         const BpPartChoice *choice) {
  return compile_as(&(Request){.model = model, .options = options, .choice = choice});
}

/* Compiles a model in a file; NULL, with an error, also if the file is not open. */
static BpModule *compile_file(OnnxFile *file, int is_open, Request *request) {
  const BpCompileOptions *options = request->options;
  BpModule *artifact = NULL;
  request->model = file->model;
  if (is_open && HAS_MEMBER(options, measured_context) && options->measures_claims) {
    artifact = bp__build_choose(file->path, file->model, options, compile);
  } else if (is_open) {
    request->spent = file;
    artifact = compile_as(request);
  }
  if (artifact && bp__onnx_check_files(file)) {
    bp_object_release(artifact);
    artifact = NULL;
  }
  if (!artifact && file->model)
    bp_error_add_context("cannot compile '%s'", file->path);
  bp__onnx_close_file(file);
  return artifact;
}

BpModule *bp_model_compile(const char *onnx_path, const BpCompileOptions *options) {
  OnnxFile file;
  if (!onnx_path || !options || options->num_targets < 1 ||
      options->num_targets > BP_BUILD_MAX_TARGETS) {
    bp_error_raise(BP_ERROR_VALUE, "compiling takes a path and 1 to %d targets",
                   BP_BUILD_MAX_TARGETS);
    return NULL;
  }
  if (bp__compile_options_check(options) < 0 || bp__options_check_targets(options) < 0 ||
      bp__options_check_stages(options) < 0 || bp__options_check_fallbacks(options) < 0)
    return NULL;
  int status = bp__onnx_open_file(onnx_path, &file);
  return compile_file(&file, status == 0, &(Request){.options = options});
}

BpModule *bp__build_compile_program(const char *onnx_path, const BpCompileOptions *options,
                                    const int32_t *ordinals) {
  OnnxFile file = {.path = onnx_path};
  int status = bp__onnx_open_file(onnx_path, &file);
  Request request = {.options = options, .is_program = true, .ordinals = ordinals};
  return compile_file(&file, status == 0, &request);
}

BpModule *bp_model_compile_bytes(const BpOnnxBytes *model, const BpCompileOptions *options) {
  OnnxMemory memory = {0};
  if (!options || options->num_targets < 1 || options->num_targets > BP_BUILD_MAX_TARGETS) {
    bp_error_raise(BP_ERROR_VALUE, "compiling takes 1 to %d targets", BP_BUILD_MAX_TARGETS);
    return NULL;
  }
  if (HAS_MEMBER(options, measured_context) && options->measures_claims) {
    bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                   "BpCompileOptions::measures_claims is for models in files; leave it out");
    return NULL;
  }
  BpModule *artifact =
      bp__compile_options_check(options) < 0 || bp__options_check_targets(options) < 0 ||
              bp__options_check_stages(options) < 0 || bp__options_check_fallbacks(options) < 0 ||
              bp__onnx_open_memory(model, &memory)
          ? NULL
          : compile(memory.model, options, NULL);
  bp__onnx_close_memory(&memory);
  if (!artifact)
    bp_error_add_context("cannot compile '%s'", model && model->name ? model->name : "");
  return artifact;
}
