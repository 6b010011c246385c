/* SPDX-License-Identifier: Apache-2.0 */
/* Maps keyed by nodes; rewriting, substitution, copying between modules, visiting. */

#include <stdlib.h>

#include "compiler/ir/ir.h"

/* ---- Maps -------------------------------------------------------------------------------- */

/* Maps use open addressing with linear probing and are at most half full. */
static size_t slot_of(const BpIrMap *map, const BpIrNode *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
  size_t index = (size_t)(hash >> 32) & (map->capacity - 1);
  while (map->slots[2 * index] && map->slots[2 * index] != key)
    index = (index + 1) & (map->capacity - 1);
  return index;
}

const void *bp__ir_map_get(const BpIrMap *map, const BpIrNode *key) {
  if (!map->capacity)
    return NULL;
  return map->slots[2 * slot_of(map, key) + 1];
}

static int map_grow(BpIrMap *map) {
  BpIrMap larger = {NULL, map->capacity ? map->capacity * 2 : 32, map->size};
  larger.slots = calloc(larger.capacity, 2 * sizeof *larger.slots);
  if (!larger.slots)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a map of %zu IR nodes", larger.capacity);
  for (size_t i = 0; i < map->capacity; i++) {
    if (!map->slots[2 * i])
      continue;
    size_t index = slot_of(&larger, map->slots[2 * i]);
    larger.slots[2 * index] = map->slots[2 * i];
    larger.slots[2 * index + 1] = map->slots[2 * i + 1];
  }
  free(map->slots);
  *map = larger;
  return 0;
}

int bp__ir_map_set(BpIrMap *map, const BpIrNode *key, const void *value) {
  if (2 * (map->size + 1) > map->capacity && map_grow(map))
    return -1;
  size_t index = slot_of(map, key);
  if (!map->slots[2 * index])
    map->size++;
  map->slots[2 * index] = key;
  map->slots[2 * index + 1] = value;
  return 0;
}

void bp__ir_map_clear(BpIrMap *map) {
  free(map->slots);
  *map = (BpIrMap){0};
}

/* ---- Rebuilding -------------------------------------------------------------------------- */

static const BpIrNode *rebuild_function(BpIrModule *module, const BpIrNode *node,
                                        const BpIrNode *const *operands) {
  int32_t num_params = (int32_t)node->int_value;
  return bp_ir_function(module, node->str_value, operands, num_params, operands + num_params,
                        node->num_operands - num_params - 1, operands[node->num_operands - 1]);
}

static const BpIrNode *rebuild(BpIrModule *module, const BpIrNode *node,
                               const BpIrNode *const *operands) {
  switch (node->kind) {
  case BP_IR_NOT:
    return bp_ir_not(module, operands[0]);
  case BP_IR_SELECT:
    return bp__ir_select_like(module, node, operands[0], operands[1], operands[2]);
  case BP_IR_CAST:
    return bp_ir_cast(module, node->dtype, operands[0]);
  case BP_IR_REINTERPRET:
    return bp__ir_reinterpret(module, node->dtype, operands[0]);
  case BP_IR_RAMP:
    return bp_ir_ramp(module, operands[0], operands[1], node->dtype.lanes);
  case BP_IR_BROADCAST:
    return bp_ir_broadcast(module, operands[0], node->dtype.lanes);
  case BP_IR_LOAD:
    return bp_ir_load(module, operands[0], operands[1],
                      node->num_operands > 2 ? operands[2] : NULL);
  case BP_IR_STORE:
    return bp_ir_store(module, operands[0], operands[1], operands[2],
                       node->num_operands > 3 ? operands[3] : NULL);
  case BP_IR_SEQ:
    return bp_ir_seq(module, operands, node->num_operands);
  case BP_IR_FOR:
    return bp_ir_for(module, operands[0], operands[1], operands[2], (int32_t)node->int_value,
                     node->str_value, operands[3]);
  case BP_IR_IF:
    return bp_ir_if(module, operands[0], operands[1], node->num_operands > 2 ? operands[2] : NULL);
  case BP_IR_ASSERT:
    return bp__ir_assert(module, operands[0], node->str_value);
  case BP_IR_FUNCTION:
    return rebuild_function(module, node, operands);
  default:
    if (node->kind >= BP_IR_ADD && node->kind <= BP_IR_SHR && node->num_operands == 2)
      return bp_ir_binary(module, node->kind, operands[0], operands[1]);
    return bp_ir_make(module, node->kind, node->dtype, operands, node->num_operands,
                      node->int_value, node->float_value, node->str_value);
  }
}

const BpIrNode *bp__ir_with_operands(BpIrModule *module, const BpIrNode *node,
                                     const BpIrNode *const *operands) {
  bool changed = false;
  for (int32_t i = 0; i < node->num_operands; i++) {
    if (!operands[i])
      return NULL;
    changed |= operands[i] != node->operands[i];
  }
  return changed ? rebuild(module, node, operands) : node;
}

/* ---- Rewriting --------------------------------------------------------------------------- */

static const BpIrNode *rewrite_operands(BpIrRewriter *rewriter, const BpIrNode *node) {
  const BpIrNode *few[8];
  size_t count = (size_t)node->num_operands;
  const BpIrNode **operands = few;
  if (count > sizeof few / sizeof few[0]) {
    operands = malloc(count * sizeof *operands);
    if (!operands) {
      bp_error_raise(BP_ERROR_MEMORY, "no memory to rewrite an IR node of %zu operands", count);
      return NULL;
    }
  }
  const BpIrNode *result = node;
  for (size_t i = 0; result && i < count; i++)
    if (!(operands[i] = bp__ir_rewrite(rewriter, node->operands[i])))
      result = NULL;
  if (result)
    result = bp__ir_with_operands(rewriter->module, node, operands);
  if (operands != few)
    free(operands);
  return result;
}

const BpIrNode *bp__ir_rewrite(BpIrRewriter *rewriter, const BpIrNode *node) {
  if (!node)
    return NULL;
  const BpIrNode *result = bp__ir_map_get(&rewriter->done, node);
  if (result)
    return result;
  int rc = rewriter->enter ? rewriter->enter(rewriter, node, &result) : 0;
  if (rc < 0)
    return NULL;
  if (rc == 0) {
    result = rewrite_operands(rewriter, node);
    if (result && rewriter->leave)
      result = rewriter->leave(rewriter, result);
  }
  if (!result || bp__ir_map_set(&rewriter->done, node, result))
    return NULL;
  return result;
}

void bp__ir_rewriter_clear(BpIrRewriter *rewriter) {
  bp__ir_map_clear(&rewriter->done);
}

int bp__ir_skip_buffer(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  (void)rewriter;
  *result = node;
  return node->kind == BP_IR_BUFFER;
}

/* ---- Substitution and copying ------------------------------------------------------------ */

static int enter_substitute(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  *result = bp__ir_map_get(rewriter->context, node);
  return *result != NULL;
}

const BpIrNode *bp__ir_substitute(BpIrModule *module, const BpIrNode *node, const BpIrMap *map) {
  BpIrRewriter rewriter = {.module = module, .context = (void *)map, .enter = enter_substitute};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, node);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

const BpIrNode *bp__ir_substitute_one(BpIrModule *module, const BpIrNode *node, const BpIrNode *var,
                                      const BpIrNode *value) {
  BpIrMap map = {0};
  const BpIrNode *result =
      value && !bp__ir_map_set(&map, var, value) ? bp__ir_substitute(module, node, &map) : NULL;
  bp__ir_map_clear(&map);
  return result;
}

const BpIrNode *bp__ir_copy(BpIrModule *module, const BpIrNode *node, BpIrMap *done) {
  if (!node)
    return NULL;
  const BpIrNode *copy = bp__ir_map_get(done, node);
  if (copy)
    return copy;
  size_t count = (size_t)node->num_operands;
  const BpIrNode **operands = bp__ir_alloc(module, count * sizeof *operands);
  if (!operands)
    return NULL;
  for (size_t i = 0; i < count; i++)
    if (!(operands[i] = bp__ir_copy(module, node->operands[i], done)))
      return NULL;
  copy = bp_ir_make(module, node->kind, node->dtype, operands, node->num_operands, node->int_value,
                    node->float_value, node->str_value);
  if (!copy || bp__ir_map_set(done, node, copy))
    return NULL;
  return copy;
}

/* ---- Visiting ---------------------------------------------------------------------------- */

typedef struct OnceVisit {
  BpIrMap seen;
  int (*visit)(void *context, const BpIrNode *node);
  void *context;
} OnceVisit;

static int visit_once(OnceVisit *once, const BpIrNode *node) {
  if (bp__ir_map_get(&once->seen, node))
    return 0;
  if (bp__ir_map_set(&once->seen, node, node))
    return -1;
  for (int32_t i = 0; i < node->num_operands; i++) {
    int rc = visit_once(once, node->operands[i]);
    if (rc)
      return rc;
  }
  return once->visit(once->context, node);
}

int bp__ir_visit_once(const BpIrNode *node, int (*visit)(void *context, const BpIrNode *node),
                      void *context) {
  OnceVisit once = {.visit = visit, .context = context};
  int rc = visit_once(&once, node);
  bp__ir_map_clear(&once.seen);
  return rc;
}

static int is_part(void *context, const BpIrNode *node) {
  return node == context;
}

int bp__ir_uses(const BpIrNode *node, const BpIrNode *part) {
  return bp__ir_visit_once(node, is_part, (void *)part);
}
