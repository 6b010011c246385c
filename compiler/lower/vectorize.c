/* SPDX-License-Identifier: Apache-2.0 */
/* Vectorisation: the body of a vectorised loop is written once, with the iterations as lanes. A
 * condition that differs between lanes becomes a mask on the stores, and on the loads that could be
 * outside their buffer; accumulation into one element becomes a reduction of the lanes. The number
 * of lanes is rounded up to a power of two, and the spare lanes are masked off. A loop that cannot
 * be vectorised runs serially. */

#include "compiler/lower/lowering.h"

#define MAX_LANES 64

typedef struct Lanes {
  BpLowering *lowering;
  const BpIrNode *var;
  int64_t extent; /* extent of the loop, at most `count` */
  uint16_t count;
  const BpIrNode *spare; /* mask of the lanes below `extent`; NULL for all lanes */
  const BpIrNode *mask;  /* mask of the lanes that run; NULL for all lanes */
  bool may_be_none;      /* perhaps no lane runs: do not evaluate expressions common to all lanes */
  BpIrMap *named;        /* a name whose value differs between lanes -> the name of the vector */
  BpIrMap done;          /* expressions evaluated with `mask` */
  bool does_not_fit;
} Lanes;

static const BpIrNode *vector_of(Lanes *lanes, const BpIrNode *node);
static const BpIrNode *vector_statement(Lanes *lanes, const BpIrNode *node);

static const BpIrNode *give_up(Lanes *lanes) {
  lanes->does_not_fit = true;
  return NULL;
}

static bool is_vector(const BpIrNode *node) {
  return node->dtype.lanes > 1;
}

static const BpIrNode *spread(const Lanes *lanes, const BpIrNode *node) {
  return bp_ir_broadcast(lanes->lowering->module, node, lanes->count);
}

static const BpIrNode *both(const Lanes *lanes, const BpIrNode *a, const BpIrNode *b) {
  if (!a || !b)
    return a ? a : b;
  return bp_ir_binary(lanes->lowering->module, BP_IR_AND, spread(lanes, a), spread(lanes, b));
}

static int visit_named(void *context, const BpIrNode *node) {
  const Lanes *lanes = context;
  return node->kind == BP_IR_VAR && bp__ir_map_get(lanes->named, node) ? 1 : 0;
}

/* Whether a node uses a name that holds a vector: 1, 0, or -1 with an error. */
static int uses_named(Lanes *lanes, const BpIrNode *node) {
  return lanes->named->size == 0 ? 0 : bp__ir_visit_once(node, visit_named, lanes);
}

/* Whether a node's value differs between lanes: 1, 0, or -1 with an error. */
static int differs(Lanes *lanes, const BpIrNode *node) {
  int uses = bp__ir_uses(node, lanes->var);
  return uses == 0 ? uses_named(lanes, node) : uses;
}

/* ---- Expressions ------------------------------------------------------------------------- */

/* An index that is linear in the lane, as a scalar or ramp; NULL if the index is not linear. */
static const BpIrNode *linear_index(Lanes *lanes, const BpIrNode *node) {
  BpLowering *lowering = lanes->lowering;
  int64_t multiple;
  const BpIrNode *rest;
  if (!bp__dtype_equal(node->dtype, bp__dtype_int64()) || uses_named(lanes, node) != 0 ||
      !bp__index_split(&lowering->index, node, lanes->var, &multiple, &rest))
    return NULL;
  return bp_ir_ramp(lowering->module, rest, bp__ir_int64(lowering->module, multiple), lanes->count);
}

/* The number of elements of a buffer; 0 if an extent is open. */
static int64_t buffer_size(const BpIrNode *buffer) {
  int64_t size = 1, extent;
  for (int32_t i = 0; i < buffer->num_operands; i++)
    size *= bp__ir_const_int(buffer->operands[i], &extent) ? extent : 0;
  return size;
}

/* Whether the index is inside the buffer in every lane, including spare lanes. */
static bool stays_inside(Lanes *lanes, const BpIrNode *buffer, const BpIrNode *index) {
  BpIndexContext *context = &lanes->lowering->index;
  BpRange range;
  if (index->kind == BP_IR_RAMP) {
    int64_t stride;
    if (!bp__ir_const_int(index->operands[1], &stride))
      return false;
    range = bp__index_range(context, index->operands[0]);
    *(stride < 0 ? &range.min : &range.max) += stride * (lanes->count - 1);
  } else if (is_vector(index)) {
    return false;
  } else {
    range = bp__index_range(context, index);
  }
  return range.min >= 0 && range.max < buffer_size(buffer);
}

static const BpIrNode *vector_load(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode *buffer = node->operands[0];
  const BpIrNode *index = vector_of(lanes, node->operands[1]);
  const BpIrNode *mask = NULL;
  if (!index || (node->num_operands > 2 && !(mask = vector_of(lanes, node->operands[2]))))
    return NULL;
  if (is_vector(index)) {
    if (lanes->mask && !stays_inside(lanes, buffer, index))
      mask = both(lanes, mask, lanes->mask);
    return bp_ir_load(module, buffer, index, mask ? spread(lanes, mask) : NULL);
  }
  /* All lanes load one element; if it may be outside its buffer, the lanes' mask guards the
   * load. */
  if (lanes->may_be_none && !stays_inside(lanes, buffer, index))
    return give_up(lanes);
  if (!mask || !is_vector(mask))
    return bp_ir_load(module, buffer, index, mask);
  if (!stays_inside(lanes, buffer, index))
    return bp_ir_load(module, buffer, spread(lanes, index), mask);
  return bp_ir_select(module, mask, bp_ir_load(module, buffer, index, NULL),
                      bp__ir_number(module, node->dtype, 0));
}

static const BpIrNode *vector_call(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode *args[8];
  bool any = false;
  if (node->int_value != BP_IR_CALL_INTRINSIC || node->num_operands > 8)
    return give_up(lanes);
  for (int32_t i = 0; i < node->num_operands; i++) {
    if (!(args[i] = vector_of(lanes, node->operands[i])))
      return NULL;
    any |= is_vector(args[i]);
  }
  for (int32_t i = 0; i < node->num_operands && any; i++)
    args[i] = spread(lanes, args[i]);
  BpDataType dtype = bp__dtype_with_lanes(node->dtype, any ? lanes->count : 1);
  return bp_ir_call(module, dtype, BP_IR_CALL_INTRINSIC, node->str_value, args, node->num_operands);
}

static const BpIrNode *vector_operation(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode *x[3];
  if (node->num_operands > 3)
    return give_up(lanes);
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!(x[i] = vector_of(lanes, node->operands[i])))
      return NULL;
  if (node->kind >= BP_IR_ADD && node->kind <= BP_IR_SHR && node->num_operands == 2)
    return bp_ir_binary(module, node->kind, x[0], x[1]);
  switch (node->kind) {
  case BP_IR_NOT:
    return bp_ir_not(module, x[0]);
  case BP_IR_SELECT:
    return bp_ir_select(module, x[0], x[1], x[2]);
  case BP_IR_CAST:
    return bp_ir_cast(module, bp__dtype_with_lanes(node->dtype, x[0]->dtype.lanes), x[0]);
  case BP_IR_REINTERPRET:
    return bp__ir_reinterpret(module, bp__dtype_with_lanes(node->dtype, x[0]->dtype.lanes), x[0]);
  default:
    return give_up(lanes);
  }
}

/* A comparison of integers whose difference changes by one from lane to lane, as a comparison of
 * the lane number in 32 bits: lane < n, or lane >= n. Returns NULL without an error for a
 * comparison of another form. */
static const BpIrNode *lane_comparison(Lanes *lanes, const BpIrNode *node) {
  BpLowering *lowering = lanes->lowering;
  BpIrModule *module = lowering->module;
  int64_t step;
  const BpIrNode *rest;
  if (node->kind < BP_IR_LT || node->kind > BP_IR_GE ||
      !bp__dtype_equal(node->operands[0]->dtype, bp__dtype_int64()) || uses_named(lanes, node) != 0)
    return NULL;
  if (!bp__index_split_difference(&lowering->index, node->operands[0], node->operands[1],
                                  lanes->var, &step, &rest) ||
      (step != 1 && step != -1))
    return NULL;
  /* The comparison is "difference < limit" or its opposite, where difference = rest + step *
   * lane. */
  int64_t limit = node->kind == BP_IR_LE || node->kind == BP_IR_GT;
  bool is_below = node->kind == BP_IR_LT || node->kind == BP_IR_LE;
  const BpIrNode *bound = bp__ir_int64(module, step > 0 ? limit : 1 - limit);
  const BpIrNode *count = step > 0 ? bp_ir_binary(module, BP_IR_SUB, bound, rest)
                                   : bp_ir_binary(module, BP_IR_ADD, rest, bound);
  count = bp_ir_binary(module, BP_IR_MIN, count, bp__ir_int64(module, lanes->count));
  count = bp_ir_binary(module, BP_IR_MAX, count, bp__ir_int64(module, 0));
  BpDataType int32 = bp__dtype(BP_DTYPE_INT, 32, 1);
  count = bp_ir_cast(module, int32, bp__index_simplify(&lowering->index, count));
  const BpIrNode *lane =
      bp_ir_ramp(module, bp_ir_int(module, int32, 0), bp_ir_int(module, int32, 1), lanes->count);
  return bp_ir_binary(module, (step > 0) == is_below ? BP_IR_LT : BP_IR_GE, lane, count);
}

static const BpIrNode *make_vector(Lanes *lanes, const BpIrNode *node) {
  if (is_vector(node))
    return give_up(lanes);
  const BpIrNode *comparison = lane_comparison(lanes, node);
  if (comparison)
    return comparison;
  const BpIrNode *linear = linear_index(lanes, node);
  if (linear)
    return linear;
  switch (node->kind) {
  case BP_IR_LOAD:
    return vector_load(lanes, node);
  case BP_IR_CALL:
    return vector_call(lanes, node);
  default:
    return vector_operation(lanes, node);
  }
}

/* Whether a node loads one element for all lanes that may be outside its buffer; a callback of
 * bp__ir_visit_once. */
static int visit_unsafe_load(void *context, const BpIrNode *node) {
  return node->kind == BP_IR_LOAD &&
         (node->num_operands > 2 || !stays_inside(context, node->operands[0], node->operands[1]));
}

/* Whether an expression common to all lanes can be evaluated even if no lane runs. */
static bool may_always_happen(Lanes *lanes, const BpIrNode *node) {
  return !lanes->may_be_none || bp__ir_visit_once(node, visit_unsafe_load, lanes) == 0;
}

/* The expression for all lanes: a vector, or a scalar that all lanes share. */
static const BpIrNode *vector_of(Lanes *lanes, const BpIrNode *node) {
  const BpIrNode *known = bp__ir_map_get(&lanes->done, node);
  if (known || (known = bp__ir_map_get(lanes->named, node)))
    return known;
  int uses = differs(lanes, node);
  if (uses == 0 && !may_always_happen(lanes, node))
    return give_up(lanes);
  const BpIrNode *result = uses > 0 ? make_vector(lanes, node) : uses < 0 ? NULL : node;
  return result && bp__ir_map_set(&lanes->done, node, result) == 0 ? result : NULL;
}

/* ---- Stores ------------------------------------------------------------------------------ */

static const char *reduce_word(int32_t kind) {
  switch (kind) {
  case BP_IR_ADD:
    return "add";
  case BP_IR_MUL:
    return "mul";
  case BP_IR_MIN:
    return "min";
  case BP_IR_MAX:
    return "max";
  default:
    return NULL;
  }
}

static int32_t reduction_of_kind(int32_t kind) {
  return kind == BP_IR_ADD   ? BP_TE_SUM
         : kind == BP_IR_MUL ? BP_TE_PROD
         : kind == BP_IR_MIN ? BP_TE_MIN
                             : BP_TE_MAX;
}

static bool loads_same(const BpIrNode *node, const BpIrNode *store) {
  return node->kind == BP_IR_LOAD && node->num_operands == 2 &&
         node->operands[0] == store->operands[0] &&
         bp__ir_equal(node->operands[1], store->operands[1]);
}

/* Vectorises element = element op value, where all lanes accumulate into one element: the lanes are
 * reduced first. */
static const BpIrNode *vector_accumulate(Lanes *lanes, const BpIrNode *store) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode *sum = store->operands[2];
  const char *word = reduce_word(sum->kind);
  if (!word || bp__dtype_is_bool(sum->dtype))
    return give_up(lanes);
  int32_t at = loads_same(sum->operands[0], store) ? 0 : 1;
  if (!loads_same(sum->operands[at], store))
    return give_up(lanes);
  const BpIrNode *value = vector_of(lanes, sum->operands[!at]);
  if (!value)
    return NULL;
  value = spread(lanes, value);
  if (lanes->mask)
    value = bp_ir_select(module, lanes->mask, value,
                         bp__te_reduce_identity(module, reduction_of_kind(sum->kind), sum->dtype));
  value = bp_ir_binary(module, sum->kind, sum->operands[at], bp__ir_reduce(module, word, value));
  return bp_ir_store(module, store->operands[0], store->operands[1], value, NULL);
}

/* Whether the spare lanes of a store write only spare elements at the end of a row. */
static bool spares_fit(Lanes *lanes, const BpIrNode *buffer, const BpIrNode *index) {
  BpLowering *lowering = lanes->lowering;
  const BpIrNode *valid = bp__ir_map_get(&lowering->valid, buffer);
  if (!valid || index->kind != BP_IR_RAMP || !bp__ir_is_int_value(index->operands[1], 1))
    return false;
  const BpIrNode *row = buffer->operands[buffer->num_operands - 1];
  const BpIrNode *column = bp_ir_binary(lowering->module, BP_IR_MOD, index->operands[0], row);
  if (!column)
    return false;
  BpRange range = bp__index_range(&lowering->index, column);
  return range.min + lanes->extent >= valid->int_value &&
         range.max + lanes->count <= row->int_value;
}

/* ---- Masks of all lanes ------------------------------------------------------------------ */

/* The maximum number of conditions of one store that become branches. */
#define MAX_BRANCHES 8

typedef struct MaskSearch {
  Lanes *lanes;
  const BpIrNode *found;
} MaskSearch;

/* Sets `found` to a condition in a mask that is the same in all lanes, if the mask has one. */
static int search_mask(MaskSearch *search, const BpIrNode *mask) {
  if (mask->kind == BP_IR_AND || mask->kind == BP_IR_OR || mask->kind == BP_IR_NOT) {
    for (int32_t i = 0; i < mask->num_operands && !search->found; i++)
      if (search_mask(search, mask->operands[i]) != 0)
        return -1;
    return 0;
  }
  int uses = differs(search->lanes, mask);
  if (uses == 0 && mask->num_operands > 0)
    search->found = mask;
  return uses < 0 ? -1 : 0;
}

static int visit_mask(void *context, const BpIrNode *node) {
  MaskSearch *search = context;
  if (node->kind != BP_IR_LOAD || node->num_operands < 3 || search->found)
    return 0;
  return search_mask(search, node->operands[2]);
}

typedef struct Assumption {
  const BpIrNode *condition, *opposite;
  bool holds;
} Assumption;

static int enter_assumption(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  const Assumption *assumption = rewriter->context;
  if (!bp__dtype_is_bool(node->dtype))
    return 0;
  bool is_same = bp__ir_equal(node, assumption->condition);
  if (!is_same && !bp__ir_equal(node, assumption->opposite))
    return 0;
  *result = bp__ir_bool(rewriter->module, is_same == assumption->holds);
  return *result ? 1 : -1;
}

/* Simplifies loads whose mask is known; a callback of the rewriter. */
static const BpIrNode *leave_assumption(BpIrRewriter *rewriter, const BpIrNode *node) {
  int64_t known;
  if (node->kind != BP_IR_LOAD || node->num_operands < 3 ||
      !bp__ir_const_int(node->operands[2], &known))
    return node;
  return known ? bp_ir_load(rewriter->module, node->operands[0], node->operands[1], NULL)
               : bp__ir_number(rewriter->module, node->dtype, 0);
}

/* A store in which a condition is assumed to be true or false. */
static const BpIrNode *assume(BpIrModule *module, const BpIrNode *store, const BpIrNode *condition,
                              bool holds) {
  Assumption assumption = {condition, bp_ir_not(module, condition), holds};
  BpIrRewriter rewriter = {.module = module,
                           .context = &assumption,
                           .enter = enter_assumption,
                           .leave = leave_assumption};
  const BpIrNode *result = assumption.opposite ? bp__ir_rewrite(&rewriter, store) : NULL;
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

static const BpIrNode *store_lanes(Lanes *lanes, const BpIrNode *store);

/* Vectorises a store. A store that loads from two places, one of them masked off in all lanes,
 * becomes a branch: the masked place may be far outside its buffer, where even a masked load is
 * slow. Sums are not divided, because their elements are in registers. */
static const BpIrNode *vector_store(Lanes *lanes, const BpIrNode *store, int32_t branches) {
  BpIrModule *module = lanes->lowering->module;
  MaskSearch search = {.lanes = lanes};
  int sums = bp__ir_uses(store->operands[2], store->operands[0]);
  if (sums == 0 && branches < MAX_BRANCHES)
    sums = bp__ir_visit_once(store->operands[2], visit_mask, &search);
  if (sums < 0)
    return NULL;
  if (!search.found)
    return store_lanes(lanes, store);
  const BpIrNode *sides[2];
  for (int32_t i = 0; i < 2; i++) {
    const BpIrNode *side = assume(module, store, search.found, !i);
    if (!side || !(sides[i] = vector_store(lanes, side, branches + 1)))
      return NULL;
  }
  return bp_ir_if(module, search.found, sides[0], sides[1]);
}

static const BpIrNode *store_lanes(Lanes *lanes, const BpIrNode *store) {
  BpIrModule *module = lanes->lowering->module;
  if (store->num_operands > 3)
    return give_up(lanes);
  const BpIrNode *index = vector_of(lanes, store->operands[1]);
  if (!index)
    return NULL;
  if (!is_vector(index)) {
    if (lanes->may_be_none)
      return give_up(lanes);
    int uses = differs(lanes, store->operands[2]);
    if (uses == 0 && !bp__ir_uses(store->operands[2], store->operands[0]))
      return bp_ir_store(module, store->operands[0], index, store->operands[2], NULL);
    return uses < 0 ? NULL : vector_accumulate(lanes, store);
  }
  const BpIrNode *value = vector_of(lanes, store->operands[2]);
  if (!value)
    return NULL;
  bool is_whole = lanes->mask == lanes->spare && spares_fit(lanes, store->operands[0], index);
  return bp_ir_store(module, store->operands[0], index, spread(lanes, value),
                     is_whole ? NULL : lanes->mask);
}

/* ---- Conditions -------------------------------------------------------------------------- */

/* Splits a condition a < b where b - a decreases from lane to lane: *first is the condition of the
 * first lane, *mask the lanes in which it is true, counted in 32 bits. */
static bool falling_condition(Lanes *lanes, const BpIrNode *condition, const BpIrNode **first,
                              const BpIrNode **mask) {
  BpLowering *lowering = lanes->lowering;
  BpIrModule *module = lowering->module;
  int64_t multiple;
  const BpIrNode *rest;
  if (condition->kind != BP_IR_LT || is_vector(condition) || uses_named(lanes, condition) != 0 ||
      !bp__index_split_difference(&lowering->index, condition->operands[1], condition->operands[0],
                                  lanes->var, &multiple, &rest) ||
      multiple != -1)
    return false;
  BpDataType int32 = bp__dtype(BP_DTYPE_INT, 32, 1);
  const BpIrNode *some = bp_ir_binary(module, BP_IR_MIN, rest, bp__ir_int64(module, lanes->count));
  const BpIrNode *lane =
      bp_ir_ramp(module, bp_ir_int(module, int32, 0), bp_ir_int(module, int32, 1), lanes->count);
  *first = bp_ir_binary(module, BP_IR_GT, rest, bp__ir_int64(module, 0));
  *mask = bp_ir_binary(module, BP_IR_LT, lane, bp_ir_cast(module, int32, some));
  if (*first && bp__index_decide(&lowering->index, *first) == 1)
    *first = bp__ir_bool(module, true);
  return true;
}

/* Splits a condition: *first tells whether the first lane runs, *mask which lanes run. */
static bool lane_condition(Lanes *lanes, const BpIrNode *condition, const BpIrNode **first,
                           const BpIrNode **mask) {
  BpIrModule *module = lanes->lowering->module;
  if (differs(lanes, condition) == 0) {
    *first = condition;
    *mask = NULL;
    return true;
  }
  if (condition->kind != BP_IR_AND)
    return falling_condition(lanes, condition, first, mask);
  const BpIrNode *first_a, *first_b, *mask_a, *mask_b;
  if (!lane_condition(lanes, condition->operands[0], &first_a, &mask_a) ||
      !lane_condition(lanes, condition->operands[1], &first_b, &mask_b))
    return false;
  *first = bp_ir_binary(module, BP_IR_AND, first_a, first_b);
  *mask = both(lanes, mask_a, mask_b);
  return true;
}

static const BpIrNode *under_mask(Lanes *lanes, const BpIrNode *mask, const BpIrNode *body) {
  Lanes masked = *lanes;
  masked.mask = both(lanes, lanes->mask, mask);
  masked.done = (BpIrMap){0};
  const BpIrNode *result = vector_statement(&masked, body);
  bp__ir_map_clear(&masked.done);
  lanes->does_not_fit |= masked.does_not_fit;
  return result;
}

/* Whether a statement stores to a buffer that the mask, the context, reads. */
static int visit_store(void *context, const BpIrNode *node) {
  return node->kind == BP_IR_STORE ? bp__ir_uses(context, node->operands[0]) : 0;
}

/* A name for a mask whose condition the branches may change; the mask itself if they do not; NULL
 * with an error. */
static const BpIrNode *name_mask(const Lanes *lanes, const BpIrNode *mask, const BpIrNode *node) {
  int changes = 0;
  for (int32_t i = 1; mask && i < node->num_operands && changes == 0; i++)
    changes = bp__ir_visit_once(node->operands[i], visit_store, (void *)(uintptr_t)mask);
  if (!mask || changes <= 0)
    return changes < 0 ? NULL : mask;
  return bp_ir_var(lanes->lowering->module, "mask", mask->dtype);
}

/* `body` inside of the LET of a mask's name, if the mask has one. */
static const BpIrNode *with_mask(const Lanes *lanes, const BpIrNode *name, const BpIrNode *mask,
                                 const BpIrNode *body) {
  return body && name != mask ? bp_ir_let(lanes->lowering->module, name, mask, body) : body;
}

static const BpIrNode *mask_branches(Lanes *outer, const BpIrNode *mask, const BpIrNode *node) {
  BpIrModule *module = outer->lowering->module;
  Lanes inner = *outer, *lanes = &inner;
  inner.may_be_none = true;
  const BpIrNode *parts[2] = {mask ? under_mask(lanes, mask, node->operands[1]) : NULL, NULL};
  if (parts[0] && node->num_operands > 2)
    parts[1] = under_mask(lanes, bp_ir_not(module, mask), node->operands[2]);
  outer->does_not_fit |= inner.does_not_fit;
  if (!parts[0] || node->num_operands == 2)
    return parts[0];
  return parts[1] ? bp_ir_seq(module, parts, 2) : NULL;
}

/* Makes masks from any condition: each branch runs in the lanes that choose it. */
static const BpIrNode *masked_if(Lanes *lanes, const BpIrNode *node) {
  const BpIrNode *mask = vector_of(lanes, node->operands[0]);
  const BpIrNode *name = name_mask(lanes, mask, node);
  return with_mask(lanes, name, mask, mask_branches(lanes, name, node));
}

/* Vectorises an IF. If the lanes that run are the first lanes, the first lane tells whether any
 * lane runs. */
static const BpIrNode *vector_if(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode *condition = node->operands[0];
  int uses = differs(lanes, condition);
  if (uses < 0)
    return NULL;
  if (!uses && !may_always_happen(lanes, condition))
    return give_up(lanes);
  if (!uses) {
    const BpIrNode *otherwise =
        node->num_operands > 2 ? vector_statement(lanes, node->operands[2]) : NULL;
    if (node->num_operands > 2 && !otherwise)
      return NULL;
    return bp_ir_if(module, condition, vector_statement(lanes, node->operands[1]), otherwise);
  }
  const BpIrNode *first, *mask;
  if (node->num_operands > 2 || !lane_condition(lanes, condition, &first, &mask))
    return masked_if(lanes, node);
  const BpIrNode *name = name_mask(lanes, mask, node);
  const BpIrNode *body = name ? under_mask(lanes, name, node->operands[1]) : NULL;
  return bp_ir_if(module, first, with_mask(lanes, name, mask, body), NULL);
}

/* ---- Statements -------------------------------------------------------------------------- */

static const BpIrNode *vector_seq(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode **parts = bp__ir_alloc(module, (size_t)(node->num_operands + 1) * sizeof *parts);
  if (!parts)
    return NULL;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!(parts[i] = vector_statement(lanes, node->operands[i])))
      return NULL;
  return bp_ir_seq(module, parts, node->num_operands);
}

static const BpIrNode *vector_for(Lanes *lanes, const BpIrNode *node) {
  for (int32_t i = 1; i < 3; i++)
    if (differs(lanes, node->operands[i]) != 0 || !may_always_happen(lanes, node->operands[i]))
      return give_up(lanes);
  return bp_ir_for(lanes->lowering->module, node->operands[0], node->operands[1], node->operands[2],
                   (int32_t)node->int_value, node->str_value,
                   vector_statement(lanes, node->operands[3]));
}

static int visit_load(void *context, const BpIrNode *node) {
  (void)context;
  return node->kind == BP_IR_LOAD;
}

/* Whether a value must have a name: 1, 0, or -1 with an error. A value read from memory is read at
 * the LET, because later statements may store to the same place, and a number is computed only
 * once. Indices and conditions are evaluated at their uses, unless they are loaded. */
static int wants_name(const BpIrNode *value) {
  bool is_taken_apart =
      bp__dtype_is_bool(value->dtype) || bp__dtype_equal(value->dtype, bp__dtype_int64());
  return is_taken_apart ? bp__ir_visit_once(value, visit_load, NULL) : 1;
}

/* Replaces a name of a scalar by the name of a vector. */
static const BpIrNode *name_vector(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  const BpIrNode *value = vector_of(lanes, node->operands[1]);
  if (!value)
    return NULL;
  const BpIrNode *var = bp_ir_var(module, node->operands[0]->str_value, value->dtype);
  if (!var || bp__ir_map_set(lanes->named, node->operands[0], var) != 0)
    return NULL;
  return bp_ir_let(module, var, value, vector_statement(lanes, node->operands[2]));
}

static const BpIrNode *vector_let(Lanes *lanes, const BpIrNode *node) {
  BpIrModule *module = lanes->lowering->module;
  int uses = differs(lanes, node->operands[1]);
  if (uses == 0 && !may_always_happen(lanes, node->operands[1]))
    return give_up(lanes);
  if (uses == 0)
    return bp_ir_let(module, node->operands[0], node->operands[1],
                     vector_statement(lanes, node->operands[2]));
  int named = uses < 0 ? -1 : wants_name(node->operands[1]);
  if (named != 0)
    return named < 0 ? NULL : name_vector(lanes, node);
  const BpIrNode *body =
      bp__ir_substitute_one(module, node->operands[2], node->operands[0], node->operands[1]);
  return body ? vector_statement(lanes, body) : NULL;
}

static const BpIrNode *vector_statement(Lanes *lanes, const BpIrNode *node) {
  switch (node->kind) {
  case BP_IR_SEQ:
    return vector_seq(lanes, node);
  case BP_IR_FOR:
    return vector_for(lanes, node);
  case BP_IR_STORE:
    return vector_store(lanes, node, 0);
  case BP_IR_IF:
    return vector_if(lanes, node);
  case BP_IR_LET:
    return vector_let(lanes, node);
  default:
    return give_up(lanes);
  }
}

/* ---- Loops ------------------------------------------------------------------------------- */

static uint16_t round_up_lanes(int64_t extent) {
  uint16_t count = 1;
  while (count < extent)
    count = (uint16_t)(count * 2);
  return count;
}

static const BpIrNode *make_serial(BpIrModule *module, const BpIrNode *loop) {
  return bp_ir_for(module, loop->operands[0], loop->operands[1], loop->operands[2],
                   BP_IR_FOR_SERIAL, "", loop->operands[3]);
}

/* The mask of the lanes below `extent`, or NULL for all lanes. */
static const BpIrNode *spare_mask(BpIrModule *module, int64_t extent, uint16_t count) {
  BpDataType int32 = bp__dtype(BP_DTYPE_INT, 32, 1);
  if (extent == count)
    return NULL;
  const BpIrNode *lane =
      bp_ir_ramp(module, bp_ir_int(module, int32, 0), bp_ir_int(module, int32, 1), count);
  return bp_ir_binary(module, BP_IR_LT, lane, bp_ir_int(module, int32, extent));
}

static const BpIrNode *vectorize_loop(BpIrRewriter *rewriter, const BpIrNode *node) {
  BpLowering *lowering = rewriter->context;
  if (node->kind != BP_IR_FOR || node->int_value != BP_IR_FOR_VECTORIZED)
    return node;
  int64_t extent = node->operands[2]->int_value;
  if (extent > MAX_LANES)
    return make_serial(lowering->module, node);
  BpIrMap named = {0};
  Lanes lanes = {.lowering = lowering,
                 .named = &named,
                 .var = node->operands[0],
                 .extent = extent,
                 .count = round_up_lanes(extent)};
  lanes.mask = lanes.spare = spare_mask(lowering->module, extent, lanes.count);
  if (lanes.count != extent && !lanes.mask)
    return NULL;
  const BpIrNode *body = vector_statement(&lanes, node->operands[3]);
  bp__ir_map_clear(&lanes.done);
  bp__ir_map_clear(&named);
  if (!body && lanes.does_not_fit)
    return make_serial(lowering->module, node);
  return body;
}

const BpIrNode *bp__lower_vectorize(BpLowering *lowering, const BpIrNode *body) {
  BpIrRewriter rewriter = {
      .module = lowering->module, .context = lowering, .leave = vectorize_loop};
  const BpIrNode *result = bp__ir_rewrite(&rewriter, body);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}
