/* SPDX-License-Identifier: Apache-2.0 */
/* Legalisation: changes a module so that the target's kind accepts it, or fails. */

#include <backplane/object.h>

#include "compiler/lower/passes.h"

/* The IR level in which a construct was introduced. */
static int32_t level_of(int32_t kind) {
  (void)kind;
  return 1;
}

typedef struct LevelCheck {
  const char *kind, *function;
  int32_t level;
} LevelCheck;

static int check_level(void *context, const BpIrNode *node) {
  const LevelCheck *check = context;
  if (level_of(node->kind) <= check->level)
    return 0;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "IR function '%s': construct %s is of IR level %d, and target kind '%s' "
                        "accepts level %d; update the plugin that provides it",
                        check->function, bp__ir_kind_name(node->kind), level_of(node->kind),
                        check->kind, check->level);
}

static bool has_axes(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_THREAD_AXES, 0) != 0;
}

static bool lacks_axes(const BpTarget *target) {
  return !has_axes(target);
}

static bool has_vectors(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_VECTOR_BITS, 0) > 0;
}

static bool has_vectors_alone(const BpTarget *target) {
  return has_vectors(target) && !has_axes(target);
}

static bool has_axes_alone(const BpTarget *target) {
  return has_axes(target) && !has_vectors(target);
}

static bool lacks_int64(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_SUPPORTS_INT64, 1) == 0;
}

static bool lacks_byte_dot(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_BYTE_DOT, 0) == 0;
}

static bool has_short_indices(const BpTarget *target) {
  return bp_target_get_int(target, BP_TARGET_INDEX_BITS, 64) == 32 || lacks_int64(target);
}

/* The legalisation steps in the order in which they run; a step whose `wanted` is NULL runs for
 * every target. docs/ir.md describes each step. */
static const struct {
  const char *name;
  const BpIrNode *(*run)(BpIrModule *module, const BpIrNode *function);
  bool (*wanted)(const BpTarget *target);
} passes[] = {
    {"mark_kernels", bp__pass_mark_kernels, has_axes},
    {"serialize_grids", bp__pass_serialize_grids, lacks_axes},
    {"simplify", bp__pass_simplify, NULL},
    {"guard", bp__pass_guard, NULL},
    {"shuffle", bp__pass_shuffle, has_vectors_alone},
    {"gather", bp__pass_gather, has_vectors},
    {"expand_by_doubles", bp__pass_expand_by_doubles, has_vectors_alone},
    {"expand_intrinsics", bp__pass_expand_intrinsics, has_axes},
    {"expand_dots", bp__pass_expand_dots, lacks_byte_dot},
    {"scalarize", bp__pass_scalarize, has_axes_alone},
    {"share_indices", bp__pass_share_indices, has_axes_alone},
    {"name_shared", bp__pass_name_shared, NULL},
    {"narrow", bp__pass_narrow, has_short_indices},
    {"refuse_int64", bp__pass_refuse_int64, lacks_int64},
};

static const BpIrNode *run_passes(BpIrModule *module, const BpIrNode *function,
                                  const BpTarget *target) {
  for (size_t i = 0; function && i < sizeof passes / sizeof *passes; i++) {
    if (passes[i].wanted && !passes[i].wanted(target))
      continue;
    function = passes[i].run(module, function);
    if (function && bp__ir_verify_pass(function, passes[i].name) != 0)
      return NULL;
  }
  return function;
}

static int legalize_function(BpIrModule *result, const BpIrNode *function, const BpTarget *target,
                             const LevelCheck *check) {
  LevelCheck of_function = *check;
  of_function.function = function->str_value;
  if (bp__ir_verify_function(function) || bp__ir_visit_once(function, check_level, &of_function))
    return -1;
  BpIrMap done = {0};
  function = bp__ir_copy(result, function, &done);
  bp__ir_map_clear(&done);
  /* before passes narrow indices, whose limits are known as int64 */
  if (!function || bp__check_iterations(result, function, target) != 0)
    return -1;
  function = run_passes(result, function, target);
  return function ? bp_ir_module_add(result, function) : -1;
}

BpIrModule *bp__legalize(const BpIrModule *module, const BpTarget *target) {
  const BpTargetKind *kind = bp_target_kind_info(bp_target_kind(target));
  BpIrModule *result = kind ? bp_ir_module_create() : NULL;
  if (!result)
    return NULL;
  LevelCheck check = {.kind = kind->name, .level = kind->ir_level};
  for (int32_t i = 0; i < bp__ir_module_num_functions(module); i++)
    if (legalize_function(result, bp__ir_module_function(module, i), target, &check)) {
      bp_object_release(result);
      return NULL;
    }
  return result;
}

int bp__legalize_packed(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  if (num_args != 2 || args[0].type_index != BP_TYPE_IR_MODULE ||
      args[1].type_index != BP_TYPE_TARGET)
    return bp_error_raise(BP_ERROR_TYPE, "compiler.legalize takes an IR module and a target");
  BpIrModule *legal = bp__legalize((const BpIrModule *)(void *)args[0].v_obj,
                                   (const BpTarget *)(void *)args[1].v_obj);
  if (!legal)
    return -1;
  *result = (BpValue){.type_index = BP_TYPE_IR_MODULE};
  result->v_obj = (BpObject *)(void *)legal;
  return 0;
}
