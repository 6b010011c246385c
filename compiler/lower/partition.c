/* SPDX-License-Identifier: Apache-2.0 */
/* Loop partitioning: if a condition inside a loop changes as the loop's variable grows, the loop is
 * divided into a loop before the change and a loop after it, and neither has the condition. So a
 * loop of its own copies each part of a concatenation, and the padding of a picture has other loops
 * than the inside. Halide and TVM partition loops, too.
 *
 * A condition is a comparison, minimum or maximum of indices. The innermost serial loop on whose
 * variable a condition depends decides it, because outer loops may contain much other code. A
 * condition that also depends on variables of vectors and unrolled loops is decided except in the
 * few iterations in which their lanes differ. A condition that no surrounding loop decides, because
 * all its variables are outside, becomes an IF around the loop.
 *
 * The growth of the code is limited. The pass counts the writes, and the elements that vectors load
 * one by one, because such a vector is as much code as many writes. */

#include "compiler/lower/lowering.h"

/* The maximum number of writes added to a function; the writes of an unrolled loop count once for
 * each iteration. */
#define MAX_GROWTH 512
/* The number of writes that a write in an innermost loop without vectors counts for. Compilers make
 * vectors of such a loop themselves: the loop becomes as much code as many writes. */
#define SCALAR_LOOP_WRITES 8
/* The maximum number of elements loaded one by one that are added to a function. */
#define MAX_GATHERED 512
/* Both limits for divisions that save little, in a function whose vectors load elements one by one:
 * each such division only saves a minimum or maximum of an index outside of the innermost loop. */
#define MAX_INDEX_GROWTH   32
#define MAX_INDEX_GATHERED 128
/* The maximum number of conditions of one loop that are examined. */
#define MAX_CHOICES 32

typedef struct Partition {
  BpLowering *lowering;
  int64_t growth;    /* writes added so far */
  int64_t gathered;  /* elements loaded one by one that were added so far */
  bool has_gathered; /* whether the function had such elements before the pass */
} Partition;

/* A comparison, MIN, MAX or switch that chooses its first side exactly if `difference` >= 0. */
typedef struct Choice {
  const BpIrNode *node, *difference;
  const BpIrNode *seen; /* the node with values for names; variables of lanes are free */
} Choice;

/* The conditions in the body of one loop. */
typedef struct Scan {
  Partition *partition;
  BpIrMap
      values; /* values of names in the body; variables of vectors and unrolled loops are free */
  BpIrMap others; /* variable of an inner serial loop -> a free variable of its range */
  Choice choices[MAX_CHOICES];
  int32_t count;
  bool is_foreign; /* whether the body has a statement that is not divided */
  bool is_spent;   /* whether a division would have exceeded MAX_GROWTH */
} Scan;

static const BpIrNode *partition_statement(Partition *partition, const BpIrNode *node);

static const BpIrNode *simplified(const Partition *partition, const BpIrNode *node) {
  return bp__index_simplify(&partition->lowering->index, node);
}

static const BpIrNode *binary(const Partition *partition, int32_t kind, const BpIrNode *a,
                              const BpIrNode *b) {
  return simplified(partition, bp_ir_binary(partition->lowering->module, kind, a, b));
}

static const BpIrNode *integer(const Partition *partition, int64_t value) {
  return bp__ir_int64(partition->lowering->module, value);
}

/* ---- Finding choices --------------------------------------------------------------------- */

static bool is_thread_loop(const BpIrNode *node) {
  return node->kind == BP_IR_FOR && node->int_value == BP_IR_FOR_BOUND;
}

static bool is_lanes(const BpIrNode *loop) {
  return loop->int_value == BP_IR_FOR_VECTORIZED || loop->int_value == BP_IR_FOR_UNROLLED;
}

static bool is_order(const BpIrNode *node) {
  return node->kind >= BP_IR_LT && node->kind <= BP_IR_GE;
}

/* Whether the node is an index times a comparison, which chooses between the index and 0. */
static bool is_switch(const BpIrNode *node) {
  return node->kind == BP_IR_MUL && bp__dtype_equal(node->dtype, bp__dtype_int64()) &&
         node->operands[1]->kind == BP_IR_CAST && is_order(node->operands[1]->operands[0]);
}

/* The difference that is at least 0 where the node chooses its first side; NULL if the node is no
 * choice. */
static const BpIrNode *difference_of(const Partition *partition, const BpIrNode *node) {
  node = is_switch(node) ? node->operands[1]->operands[0] : node;
  const BpIrNode *const *x = node->operands;
  if (node->num_operands != 2 || !bp__dtype_equal(x[0]->dtype, bp__dtype_int64()))
    return NULL;
  switch (node->kind) {
  case BP_IR_LT:
    return binary(partition, BP_IR_SUB, binary(partition, BP_IR_SUB, x[1], x[0]),
                  integer(partition, 1));
  case BP_IR_LE:
  case BP_IR_MIN:
    return binary(partition, BP_IR_SUB, x[1], x[0]);
  case BP_IR_GT:
    return binary(partition, BP_IR_SUB, binary(partition, BP_IR_SUB, x[0], x[1]),
                  integer(partition, 1));
  case BP_IR_GE:
  case BP_IR_MAX:
    return binary(partition, BP_IR_SUB, x[0], x[1]);
  default:
    return NULL;
  }
}

/* ---- Where a choice changes -------------------------------------------------------------- */

/* The place where a choice changes along a loop. Before `open` one side is chosen, from `shut` on
 * the other side; between them the lanes choose differently. */
typedef struct Cut {
  const BpIrNode *open, *shut;
  bool is_first_before; /* the first side is chosen before the cut */
} Cut;

/* The known limits of a variable: at least `from`, and below `below`; NULL means no limit. */
typedef struct Facts {
  const BpIrNode *from, *below;
} Facts;

typedef struct Bounds {
  const BpIrNode *first, *end;
} Bounds;

static const BpIrNode *quotient(const Partition *partition, const BpIrNode *a, int64_t divisor) {
  return binary(partition, BP_IR_FLOORDIV, a, integer(partition, divisor));
}

/* Finds the place along a loop where the least (or greatest) value of `form`, over all values of
 * its free variables, changes its sign. Returns 1, 0 without such a place, or -1 with an error. */
static int find_place(const Partition *partition, const BpIrNode *form, const BpIrNode *var,
                      bool is_least, const BpIrNode **place, bool *is_rising) {
  BpIndexContext *index = &partition->lowering->index;
  const BpIrNode *rest;
  BpInterval sweep;
  int64_t step;
  bool is_bounded;
  if (!(form = bp__index_sign_form(index, form, var)))
    return -1;
  if (!bp__index_split(index, form, var, &step, &rest) || step == 0)
    return 0;
  if (bp__index_interval(index, rest, &sweep, &is_bounded) != 0)
    return -1;
  if (!is_bounded)
    return 0;
  int64_t shift = is_least ? 0 : sweep.extent - 1;
  rest = binary(partition, BP_IR_ADD, sweep.min, integer(partition, shift));
  *is_rising = step > 0;
  if (step > 0) /* step * var >= -rest */
    *place =
        quotient(partition, binary(partition, BP_IR_SUB, integer(partition, step - 1), rest), step);
  else /* -step * var <= rest */
    *place = binary(partition, BP_IR_ADD, quotient(partition, rest, -step), integer(partition, 1));
  return *place ? 1 : -1;
}

/* Finds the place along the loop where a choice changes: 1, 0 if there is none, -1 with an error.
 */
static int find_cut(const Partition *partition, const BpIrNode *var, const Choice *choice,
                    Cut *cut) {
  BpIndexContext *index = &partition->lowering->index;
  const BpIrNode *moving, *rest, *least, *most;
  BpInterval sweep;
  bool is_bounded, is_rising = false;
  if (bp__index_apart(index, choice->difference, var, &moving, &rest) != 0 ||
      bp__index_interval(index, rest, &sweep, &is_bounded) != 0)
    return -1;
  if (!is_bounded)
    return 0;
  least = binary(partition, BP_IR_ADD, moving, sweep.min);
  most = binary(partition, BP_IR_ADD, least, integer(partition, sweep.extent - 1));
  int found = find_place(partition, least, var, true, &least, &is_rising);
  if (found == 1)
    found = find_place(partition, most, var, false, &most, &is_rising);
  cut->is_first_before = !is_rising;
  cut->open = is_rising ? most : least;
  cut->shut = is_rising ? least : most;
  return found;
}

/* Limits a place to the bounds. */
static const BpIrNode *clamp(const Partition *partition, const BpIrNode *at, Bounds bounds) {
  return binary(partition, BP_IR_MIN, binary(partition, BP_IR_MAX, at, bounds.first), bounds.end);
}

static BpRange distance(const Partition *partition, const BpIrNode *from, const BpIrNode *to) {
  return bp__index_range(&partition->lowering->index, binary(partition, BP_IR_SUB, to, from));
}

/* Whether a is known to be at least b. */
static bool is_at_least(const Partition *partition, const BpIrNode *a, const BpIrNode *b) {
  const BpIrNode *condition = bp_ir_binary(partition->lowering->module, BP_IR_GE, a, b);
  return condition && bp__index_decide(&partition->lowering->index, condition) == 1;
}

static bool is_below(const Partition *partition, const BpIrNode *a, const BpIrNode *b) {
  return is_at_least(partition, b, binary(partition, BP_IR_ADD, a, integer(partition, 1)));
}

/* Limits a place to the bounds of the variable's loop. The place is an end of the loop if all
 * iterations are known to be on one side. */
static const BpIrNode *limit(const Partition *partition, const BpIrNode *at, const BpIrNode *var,
                             Bounds bounds) {
  if (is_below(partition, var, at))
    return bounds.end;
  return is_at_least(partition, var, at) ? bounds.first : clamp(partition, at, bounds);
}

/* Whether the cut, limited to the bounds, decides any iteration. */
static bool is_useful(const Partition *partition, const BpIrNode *var, Bounds bounds, Cut *cut) {
  BpRange all = distance(partition, bounds.first, bounds.end);
  BpRange apart = distance(partition, cut->open, cut->shut);
  cut->open = limit(partition, cut->open, var, bounds);
  cut->shut = apart.max == 0 ? cut->open : limit(partition, cut->shut, var, bounds);
  if (!cut->open || !cut->shut)
    return false;
  if (cut->open == bounds.end || cut->shut == bounds.first)
    return true;
  return apart.min < all.max && (distance(partition, bounds.first, cut->open).max > 0 ||
                                 distance(partition, cut->shut, bounds.end).max > 0);
}

/* ---- Scanning a loop --------------------------------------------------------------------- */

/* The variables of inner serial loops in an expression: their number, and the last variable. */
typedef struct Inner {
  const BpIrMap *others;
  const BpIrNode *var;
  int32_t count;
} Inner;

static int visit_inner(void *context, const BpIrNode *node) {
  Inner *inner = context;
  if (bp__ir_map_get(inner->others, node)) {
    inner->count += inner->var != node;
    inner->var = node;
  }
  return 0;
}

/* A choice by the variable of an inner serial loop is left to that loop, unless the choice differs
 * among lanes in each of its iterations, as at the edge of a window that is narrower than a vector.
 * The variable of such an inner loop counts as free, too. Returns 1 if this loop may decide, 0 if
 * not; -1 with an error. */
static int claim_choice(const Scan *scan, Choice *choice) {
  const Partition *partition = scan->partition;
  Inner inner = {.others = &scan->others};
  if (!choice->difference || bp__ir_visit_once(choice->difference, visit_inner, &inner) != 0)
    return -1;
  if (inner.count != 1)
    return inner.count == 0;
  BpRange range = bp__index_range(&partition->lowering->index, inner.var);
  Bounds bounds = {integer(partition, range.min), integer(partition, range.max + 1)};
  Cut cut;
  int found = bounds.first && bounds.end ? find_cut(partition, inner.var, choice, &cut) : -1;
  if (found <= 0 || is_useful(partition, inner.var, bounds, &cut))
    return found < 0 ? -1 : 0;
  choice->difference = simplified(
      partition, bp__ir_substitute(partition->lowering->module, choice->difference, &scan->others));
  return choice->difference ? 1 : -1;
}

static bool is_limit(const BpIrNode *node) {
  return node->kind == BP_IR_MIN || node->kind == BP_IR_MAX;
}

static bool is_choice(const BpIrNode *node) {
  bool chooses = is_order(node) || is_limit(node) || is_switch(node);
  return chooses && bp__dtype_equal(node->operands[0]->dtype, bp__dtype_int64());
}

static int visit_choice(void *context, const BpIrNode *node) {
  Scan *scan = context;
  const Partition *partition = scan->partition;
  if (!is_choice(node) || scan->count == MAX_CHOICES)
    return 0;
  const BpIrNode *seen = bp__ir_substitute(partition->lowering->module, node, &scan->values);
  int is_data = seen ? bp__lower_has_data(seen) : -1;
  if (is_data != 0)
    return is_data < 0 ? -1 : 0;
  if (!is_choice(seen)) /* the values of names decide the choice */
    return 0;
  Choice choice = {node, difference_of(partition, seen), seen};
  int claimed = claim_choice(scan, &choice);
  if (claimed > 0)
    scan->choices[scan->count++] = choice;
  return claimed < 0 ? -1 : 0;
}

static const BpIrNode *note_choice(BpIrRewriter *rewriter, const BpIrNode *node) {
  return visit_choice(rewriter->context, node) != 0 ? NULL : node;
}

/* The comparison of a switch is no choice of its own: skips it, and buffers. */
static int enter_scan(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  if (!is_switch(node))
    return bp__ir_skip_buffer(rewriter, node, result);
  *result = node;
  return bp__ir_rewrite(rewriter, node->operands[0]) && visit_choice(rewriter->context, node) == 0
             ? 1
             : -1;
}

/* Visits the nodes that a copy may decide. The extents of buffers are skipped, because each further
 * copy would decide a minimum in them again. */
static int scan_expression(Scan *scan, const BpIrNode *node) {
  BpIrRewriter rewriter = {.module = scan->partition->lowering->module,
                           .context = scan,
                           .enter = enter_scan,
                           .leave = note_choice};
  const BpIrNode *same = bp__ir_rewrite(&rewriter, node);
  bp__ir_rewriter_clear(&rewriter);
  return same ? 0 : -1;
}

static int scan_statement(Scan *scan, const BpIrNode *node);

/* The variable of a loop over lanes is replaced by a free variable of its range. The variable of a
 * serial loop stays itself until claim_choice replaces it. */
static int scan_loop(Scan *scan, const BpIrNode *loop) {
  BpIndexContext *index = &scan->partition->lowering->index;
  const BpIrNode *var = loop->operands[0];
  BpRange range = bp__index_range(index, var);
  const BpIrNode *seen = bp_ir_var(index->module, var->str_value, var->dtype);
  if (!seen || bp__index_set_range(index, seen, range.min, range.max, true) != 0 ||
      bp__ir_map_set(is_lanes(loop) ? &scan->values : &scan->others, var, seen) != 0)
    return -1;
  return scan_statement(scan, loop->operands[3]);
}

/* A name for an index is replaced by its value; any other name holds data, which is treated like
 * loaded data. */
static int scan_let(Scan *scan, const BpIrNode *let) {
  const BpIrNode *var = let->operands[0], *value = let->operands[1];
  int is_data = !bp__dtype_equal(var->dtype, bp__dtype_int64());
  if (!is_data)
    is_data = bp__lower_has_data(value);
  if (is_data < 0)
    return -1;
  if (is_data && scan_expression(scan, value) != 0)
    return -1;
  value = bp__ir_substitute(scan->partition->lowering->module, value, &scan->values);
  return value && bp__ir_map_set(&scan->values, var, value) == 0
             ? scan_statement(scan, let->operands[2])
             : -1;
}

static int scan_statement(Scan *scan, const BpIrNode *node) {
  int rc = 0;
  switch (node->kind) {
  case BP_IR_FOR:
    scan->is_foreign |= is_thread_loop(node);
    return scan_loop(scan, node);
  case BP_IR_LET:
    return scan_let(scan, node);
  case BP_IR_ALLOCATE:
    return scan_statement(scan, node->operands[1]);
  case BP_IR_EVALUATE:
    return scan_expression(scan, node);
  case BP_IR_IF:
    rc = scan_expression(scan, node->operands[0]);
    for (int32_t i = 1; i < node->num_operands && rc == 0; i++)
      rc = scan_statement(scan, node->operands[i]);
    return rc;
  case BP_IR_SEQ:
    for (int32_t i = 0; i < node->num_operands && rc == 0; i++)
      rc = scan_statement(scan, node->operands[i]);
    return rc;
  default:
    scan->is_foreign = true;
    return 0;
  }
}

/* ---- Weight ------------------------------------------------------------------------------ */

/* The size of the code for a statement, after unrolling. */
typedef struct Weight {
  int64_t writes;
  int64_t gathered; /* elements that vectors load one by one */
} Weight;

/* The surrounding loops whose iterations become the lanes of a vector. */
typedef struct Lanes {
  BpIrMap vars; /* a variable that differs among lanes -> itself if it is linear in the number of
                 * the lane, else its value */
  int64_t count;
  int64_t gathered; /* elements that vectors of the visited expression load one by one */
  bool has_failed;  /* an error was raised */
} Lanes;

static int visit_lane(void *context, const BpIrNode *node) {
  return bp__ir_map_get(context, node) != NULL;
}

/* Visits an expression; returns whether `visit` stopped. */
static bool finds(Lanes *lanes, const BpIrNode *node,
                  int (*visit)(void *context, const BpIrNode *node), void *context) {
  int found = bp__ir_visit_once(node, visit, context);
  lanes->has_failed |= found < 0;
  return found > 0;
}

static bool differs(Lanes *lanes, const BpIrNode *node) {
  return finds(lanes, node, visit_lane, &lanes->vars);
}

/* Stops at a part that makes an index other than linear in the number of the lane. */
static int visit_jump(void *context, const BpIrNode *node) {
  Lanes *lanes = context;
  const BpIrNode *value = bp__ir_map_get(&lanes->vars, node);
  switch (node->kind) {
  case BP_IR_DIV:
  case BP_IR_MOD:
  case BP_IR_FLOORDIV:
  case BP_IR_FLOORMOD:
  case BP_IR_MIN:
  case BP_IR_MAX:
  case BP_IR_SELECT:
  case BP_IR_CALL:
    return differs(lanes, node);
  case BP_IR_MUL:
    return is_switch(node) && differs(lanes, node);
  default:
    return value && value != node;
  }
}

/* Whether an index may be other than linear in the number of the lane. */
static bool jumps(Lanes *lanes, const BpIrNode *index) {
  return finds(lanes, index, visit_jump, lanes);
}

/* Notes a variable that differs among lanes. */
static void add_lane_var(Lanes *lanes, const BpIrNode *var, const BpIrNode *value) {
  lanes->has_failed |= bp__ir_map_set(&lanes->vars, var, value) != 0;
}

static int visit_read(void *context, const BpIrNode *node) {
  Lanes *lanes = context;
  bool is_gathered = false;
  if (node->kind != BP_IR_CALL || strcmp(node->str_value, BP__TE_READ) != 0)
    return 0;
  for (int32_t i = 1; i < node->num_operands && !is_gathered; i++)
    is_gathered = jumps(lanes, node->operands[i]);
  lanes->gathered += is_gathered ? lanes->count : 0;
  return 0;
}

/* Whether a statement contains a loop, or a serial loop if `is_serial`. */
static bool has_loop(const BpIrNode *node, bool is_serial) {
  bool has = node->kind == BP_IR_FOR && (!is_serial || node->int_value == BP_IR_FOR_SERIAL);
  if (node->kind != BP_IR_FOR && node->kind != BP_IR_LET && node->kind != BP_IR_ALLOCATE &&
      node->kind != BP_IR_IF && node->kind != BP_IR_SEQ)
    return false;
  for (int32_t i = 0; i < node->num_operands && !has; i++)
    has = has_loop(node->operands[i], is_serial);
  return has;
}

static Weight weight_of(Lanes *lanes, const BpIrNode *node);

static Weight weight_of_loop(Lanes *lanes, const BpIrNode *loop) {
  const BpIrNode *const *x = loop->operands;
  int64_t outer = lanes->count;
  if (loop->int_value == BP_IR_FOR_VECTORIZED) {
    add_lane_var(lanes, x[0], x[0]);
    lanes->count *= x[2]->int_value;
  }
  Weight weight = weight_of(lanes, x[3]);
  lanes->count = outer;
  if (loop->int_value == BP_IR_FOR_SERIAL && !has_loop(x[3], false))
    weight.writes *= SCALAR_LOOP_WRITES;
  if (loop->int_value != BP_IR_FOR_UNROLLED)
    return weight;
  int64_t times = x[2]->int_value;
  if (times > MAX_GROWTH)
    return (Weight){times, times};
  return (Weight){weight.writes * times, weight.gathered * times};
}

static Weight weight_of_let(Lanes *lanes, const BpIrNode *let) {
  const BpIrNode *const *x = let->operands;
  if (lanes->count > 1 && differs(lanes, x[1]))
    add_lane_var(lanes, x[0], jumps(lanes, x[1]) ? x[1] : x[0]);
  return weight_of(lanes, x[2]);
}

static Weight weight_of(Lanes *lanes, const BpIrNode *node) {
  Weight total = {0};
  switch (node->kind) {
  case BP_IR_FOR:
    return weight_of_loop(lanes, node);
  case BP_IR_LET:
    return weight_of_let(lanes, node);
  case BP_IR_ALLOCATE:
    return weight_of(lanes, node->operands[1]);
  case BP_IR_IF:
  case BP_IR_SEQ:
    for (int32_t i = node->kind == BP_IR_IF; i < node->num_operands && total.writes < MAX_GROWTH;
         i++) {
      Weight weight = weight_of(lanes, node->operands[i]);
      total.writes += weight.writes;
      total.gathered += weight.gathered;
    }
    return total;
  case BP_IR_EVALUATE:
    lanes->gathered = 0;
    if (lanes->count > 1)
      finds(lanes, node, visit_read, lanes);
    return (Weight){1, lanes->gathered};
  default:
    return (Weight){1, 0};
  }
}

/* Weighs a statement. Returns 0, or -1 with an error. */
static int weigh(const BpIrNode *node, Weight *weight) {
  Lanes lanes = {.count = 1};
  *weight = weight_of(&lanes, node);
  bp__ir_map_clear(&lanes.vars);
  return lanes.has_failed ? -1 : 0;
}

/* Sets the growth if `parts` replace `node`, at least 0. Returns 0, or -1 with an error. */
static int weigh_growth(const BpIrNode *node, const BpIrNode *const *parts, int32_t count,
                        Weight *growth) {
  Weight whole, part;
  if (weigh(node, &whole) != 0)
    return -1;
  *growth = (Weight){-whole.writes, -whole.gathered};
  for (int32_t i = 0; i < count; i++) {
    if (weigh(parts[i], &part) != 0)
      return -1;
    growth->writes += part.writes;
    growth->gathered += part.gathered;
  }
  growth->writes = growth->writes > 0 ? growth->writes : 0;
  growth->gathered = growth->gathered > 0 ? growth->gathered : 0;
  return 0;
}

/* Returns 1 if `parts` may replace `node`, and counts their growth; 0 if not; -1 with an error.
 * `saves_little` says that the choice is a minimum or maximum of an index outside of the innermost
 * loop. */
static int can_afford(Scan *scan, const BpIrNode *node, const BpIrNode *const *parts, int32_t count,
                      bool saves_little) {
  Partition *partition = scan->partition;
  bool is_limited = saves_little && partition->has_gathered;
  int64_t max_writes = is_limited ? MAX_INDEX_GROWTH : MAX_GROWTH;
  int64_t max_gathered = is_limited ? MAX_INDEX_GATHERED : MAX_GATHERED;
  Weight growth;
  if (weigh_growth(node, parts, count, &growth) != 0)
    return -1;
  scan->is_spent = partition->growth + growth.writes > MAX_GROWTH;
  if ((growth.writes > 0 && partition->growth + growth.writes > max_writes) ||
      (growth.gathered > 0 && partition->gathered + growth.gathered > max_gathered))
    return 0;
  partition->growth += growth.writes;
  partition->gathered += growth.gathered;
  return 1;
}

/* ---- Copies with decided choices --------------------------------------------------------- */

typedef struct Copy {
  Partition *partition;
  const Scan *scan;
  const BpIrNode *difference; /* difference of the decided choice; NULL: none */
  bool is_first;              /* the difference is at least 0 in this copy */
} Copy;

/* Whether the copy decides a choice with a given difference: 1 first side, 0 second, -1 unknown. */
static int is_decided(const Copy *copy, const BpIrNode *difference) {
  BpIndexContext *index = &copy->partition->lowering->index;
  const BpIrNode *zero = integer(copy->partition, 0);
  int64_t apart;
  if (copy->difference && bp__index_difference(index, difference, copy->difference, &apart) &&
      apart == 0)
    return copy->is_first;
  if (is_at_least(copy->partition, difference, zero))
    return 1;
  return is_below(copy->partition, difference, zero) ? 0 : -1;
}

/* Copies a LET: a new name with the narrower range that its value has in the part. */
static const BpIrNode *copy_let(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Copy *copy = rewriter->context;
  BpIndexContext *index = &copy->partition->lowering->index;
  const BpIrNode *var = node->operands[0];
  const BpIrNode *value = simplified(copy->partition, bp__ir_rewrite(rewriter, node->operands[1]));
  const BpIrNode *fresh = bp_ir_var(rewriter->module, var->str_value, var->dtype);
  if (!value || !fresh)
    return NULL;
  if (bp__index_set_name(index, fresh, value) < 0 ||
      bp__index_limit(index, fresh, bp__index_range(index, var)) != 0 ||
      bp__ir_map_set(&rewriter->done, var, fresh) != 0)
    return NULL;
  return bp_ir_let(rewriter->module, fresh, value, bp__ir_rewrite(rewriter, node->operands[2]));
}

static int enter_copy(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  const Copy *copy = rewriter->context;
  *result = NULL;
  if (node->kind == BP_IR_BUFFER) {
    *result = node;
  } else if (node->kind == BP_IR_LET) {
    *result = copy_let(rewriter, node);
  } else {
    int32_t i = 0;
    while (i < copy->scan->count && copy->scan->choices[i].node != node)
      i++;
    int decided = i < copy->scan->count ? is_decided(copy, copy->scan->choices[i].difference) : -1;
    if (decided < 0)
      return 0;
    if (bp__dtype_is_bool(node->dtype))
      *result = bp__ir_bool(rewriter->module, decided);
    else if (is_switch(node) && !decided)
      *result = bp__ir_int64(rewriter->module, 0);
    else
      *result = bp__ir_rewrite(rewriter, node->operands[!decided]);
  }
  return *result ? 1 : -1;
}

/* Whether a node accesses a buffer otherwise than to store or prefetch elements. */
static int visit_use(void *context, const BpIrNode *node) {
  bool is_access = node->kind == BP_IR_CALL && node->num_operands > 0 &&
                   node->operands[0] == (const BpIrNode *)context;
  return is_access && strcmp(node->str_value, BP__TE_WRITE) != 0 &&
         strcmp(node->str_value, BP__TE_PREFETCH) != 0;
}

static const BpIrNode *leave_unread(BpIrRewriter *rewriter, const BpIrNode *node) {
  bool is_access = node->kind == BP_IR_EVALUATE && node->operands[0]->num_operands > 0 &&
                   node->operands[0]->operands[0] == (const BpIrNode *)rewriter->context;
  bool is_empty = (node->kind == BP_IR_FOR && bp__ir_is_nothing(node->operands[3])) ||
                  (node->kind == BP_IR_LET && bp__ir_is_nothing(node->operands[2]));
  return is_access || is_empty ? bp__ir_nothing(rewriter->module) : node;
}

/* The body of an allocation without the statements that compute the buffer, if the copy does not
 * read it. */
static const BpIrNode *without_unread(BpIrModule *module, const BpIrNode *allocate) {
  const BpIrNode *buffer = allocate->operands[0];
  int is_used = bp__ir_visit_once(allocate->operands[1], visit_use, (void *)buffer);
  if (is_used != 0)
    return is_used < 0 ? NULL : allocate;
  BpIrRewriter rewriter = {.module = module, .context = (void *)buffer, .leave = leave_unread};
  const BpIrNode *body = bp__ir_rewrite(&rewriter, allocate->operands[1]);
  bp__ir_rewriter_clear(&rewriter);
  return body;
}

/* A sequence without the prefetches of buffers that it no longer reads. */
static const BpIrNode *without_prefetches(BpIrModule *module, const BpIrNode *seq) {
  const BpIrNode **kept = bp__ir_alloc(module, (size_t)seq->num_operands * sizeof *kept);
  int32_t count = 0;
  for (int32_t i = 0; kept && i < seq->num_operands; i++) {
    const BpIrNode *part = seq->operands[i];
    int is_used = 1;
    if (bp__lower_evaluates(part, BP__TE_PREFETCH))
      is_used = bp__ir_visit_once(seq, visit_use, (void *)part->operands[0]->operands[0]);
    if (is_used < 0)
      return NULL;
    if (is_used)
      kept[count++] = part;
  }
  if (kept && count < seq->num_operands)
    return bp_ir_seq(module, kept, count);
  return kept ? seq : NULL;
}

/* Simplifies conditions that the ranges of variables now decide, and removes statements that are
 * empty or compute what the copy does not read. */
static const BpIrNode *leave_copy(BpIrRewriter *rewriter, const BpIrNode *node) {
  const Copy *copy = rewriter->context;
  BpIndexContext *index = &copy->partition->lowering->index;
  if (node->kind == BP_IR_MIN || node->kind == BP_IR_MAX)
    return simplified(copy->partition, node);
  if (node->kind == BP_IR_ALLOCATE)
    return without_unread(rewriter->module, node);
  if (node->kind == BP_IR_SEQ)
    return without_prefetches(rewriter->module, node);
  if (node->kind == BP_IR_IF && node->num_operands == 2 && bp__ir_is_nothing(node->operands[1]))
    return node->operands[1];
  if (!bp__dtype_is_bool(node->dtype) || node->dtype.lanes != 1 || node->kind >= BP_IR_SEQ)
    return node;
  int known = bp__index_decide(index, node);
  return known < 0 ? node : bp__ir_bool(rewriter->module, known);
}

/* `node` with `value` for `var`, and the choice that `copy` decides. */
static const BpIrNode *make_copy(Copy *copy, const BpIrNode *node, const BpIrNode *var,
                                 const BpIrNode *value) {
  BpIrRewriter rewriter = {.module = copy->partition->lowering->module,
                           .context = copy,
                           .enter = enter_copy,
                           .leave = leave_copy};
  bool failed = !value || (var && bp__ir_map_set(&rewriter.done, var, value) != 0);
  const BpIrNode *result = failed ? NULL : bp__ir_rewrite(&rewriter, node);
  bp__ir_rewriter_clear(&rewriter);
  return result;
}

/* ---- Dividing a loop --------------------------------------------------------------------- */

/* Assumes that a variable is below `end`, until the assumptions are reset. */
static void assume_below(const Partition *partition, const BpIrNode *var, const BpIrNode *end) {
  bp__index_assume(
      &partition->lowering->index,
      binary(partition, BP_IR_SUB, binary(partition, BP_IR_SUB, end, var), integer(partition, 1)));
}

/* Assumes a condition, or the contrary of a comparison, unless it depends on data, which the
 * statements inside may change. */
static void assume_condition(const Partition *partition, const BpIrNode *condition, bool holds) {
  if (condition->kind == BP_IR_AND && holds) {
    assume_condition(partition, condition->operands[0], true);
    assume_condition(partition, condition->operands[1], true);
    return;
  }
  if (bp__lower_has_data(condition) != 0)
    return;
  const BpIrNode *difference = difference_of(partition, condition);
  if (difference && !holds)
    difference = binary(partition, BP_IR_SUB, integer(partition, -1), difference);
  bp__index_assume(&partition->lowering->index, difference);
}

/* Some iterations of a loop. */
typedef struct Part {
  Copy copy;
  Bounds bounds;
  Facts facts; /* limits of the loop's variable */
  const BpIrNode
      *value; /* value of the loop's variable in the part; NULL if there is no iteration */
  const BpIrNode *node;
} Part;

/* Assumes of `value` all that is assumed of a variable. */
static int move_assumptions(const Partition *partition, const BpIrNode *var,
                            const BpIrNode *value) {
  BpIndexContext *index = &partition->lowering->index;
  int32_t count = index->num_assumed;
  for (int32_t i = 0; i < count; i++) {
    const BpIrNode *known = index->assumed[i];
    const BpIrNode *moved = bp__ir_substitute_one(index->module, known, var, value);
    if (!moved)
      return -1;
    if (moved != known)
      bp__index_assume(index, moved);
  }
  return 0;
}

/* Assumes the facts of a part, until the assumptions are reset, and for the variable's value in the
 * part all that is assumed of the variable. */
static int assume_facts(const Partition *partition, const BpIrNode *var, const Part *part) {
  BpIndexContext *index = &partition->lowering->index;
  if (part->facts.from)
    bp__index_assume(index, binary(partition, BP_IR_SUB, var, part->facts.from));
  if (part->facts.below)
    assume_below(partition, var, part->facts.below);
  return move_assumptions(partition, var, part->value);
}

/* Makes the node of a part, with the choice that its copy decides. */
static int make_part(Part *part, const BpIrNode *loop) {
  const Partition *partition = part->copy.partition;
  BpIndexContext *index = &partition->lowering->index;
  BpIrModule *module = partition->lowering->module;
  const BpIrNode *first = part->bounds.first, *end = part->bounds.end, *var = loop->operands[0];
  const BpIrNode *extent = binary(partition, BP_IR_SUB, end, first);
  int32_t num_assumed = index->num_assumed;
  if (!extent)
    return -1;
  if (bp__index_range(index, extent).max <= 0) {
    part->node = bp__ir_nothing(module);
    return part->node ? 0 : -1;
  }
  bool is_one = bp__ir_is_int_value(extent, 1);
  part->value = is_one ? first : bp_ir_var(module, var->str_value, var->dtype);
  if (!part->value ||
      (!is_one && bp__index_set_range(index, part->value, bp__index_range(index, first).min,
                                      bp__index_range(index, end).max - 1, false)))
    return -1;
  if (assume_facts(partition, var, part) != 0)
    return -1;
  const BpIrNode *body = make_copy(&part->copy, loop->operands[3], var, part->value);
  bp__index_reset(index, num_assumed);
  part->node =
      is_one ? body : bp_ir_for(module, part->value, first, extent, BP_IR_FOR_SERIAL, "", body);
  return part->node ? 0 : -1;
}

static const BpIrNode *partition_inside(Partition *partition, const BpIrNode *loop);

/* Partitions a part; a part between the places, whose choice differs among lanes, only inside. */
static const BpIrNode *partition_part(const Part *part, const BpIrNode *var) {
  Partition *partition = part->copy.partition;
  BpIndexContext *index = &partition->lowering->index;
  int32_t num_assumed = index->num_assumed;
  if (part->value && assume_facts(partition, var, part) != 0)
    return NULL;
  const BpIrNode *node = part->copy.difference ? partition_statement(partition, part->node)
                                               : partition_inside(partition, part->node);
  bp__index_reset(index, num_assumed);
  return node;
}

/* Names a place that is not constant and no end of the loop: *let is the variable, or NULL. */
static const BpIrNode *name_place(Partition *partition, const BpIrNode *place, Bounds bounds,
                                  const BpIrNode **let) {
  BpIndexContext *index = &partition->lowering->index;
  *let = NULL;
  if (place->num_operands == 0 || place == bounds.first || place == bounds.end)
    return place;
  *let = bp_ir_var(index->module, "cut", bp__dtype_int64());
  BpRange first = bp__index_range(index, bounds.first), end = bp__index_range(index, bounds.end);
  return *let && bp__index_set_range(index, *let, first.min, end.max, false) == 0 ? *let : NULL;
}

static int visit_open(void *context, const BpIrNode *node) {
  const BpLowering *lowering = context;
  for (int32_t i = lowering->num_args; i < lowering->num_params; i++)
    if (lowering->params[i] == node)
      return 1;
  return 0;
}

/* Whether the choice is a minimum or maximum of open extents: outside of an innermost loop it costs
 * less than the copies of the loop that would do without it. Returns 1, 0 or -1 with an error. */
static int is_open_limit(const Partition *partition, const Choice *choice) {
  return is_limit(choice->node)
             ? bp__ir_visit_once(choice->difference, visit_open, partition->lowering)
             : 0;
}

/* Whether a branch around a loop is worth less than the code of a second version of the loop: 1, 0
 * or -1 with an error. A switch of an index pays where the loop is innermost and moves the index.
 */
static int saves_nothing(const Partition *partition, const BpIrNode *loop, const Choice *choice) {
  if (!is_switch(choice->node))
    return is_open_limit(partition, choice);
  if (has_loop(loop->operands[3], true))
    return 1;
  int uses = bp__ir_uses(choice->seen, loop->operands[0]);
  int is_free = bp__index_has_free(&partition->lowering->index, choice->seen);
  return uses < 0 || is_free < 0 ? -1 : !uses && !is_free;
}

/* Splits the loop into up to three loops at a cut, which is also given limited to the bounds;
 * returns the loop unchanged if the code would grow too much. */
static const BpIrNode *split_loop(Scan *scan, const BpIrNode *loop, const Choice *choice,
                                  Bounds bounds, const Cut *cut, const Cut *limited) {
  Partition *partition = scan->partition;
  BpIrModule *module = partition->lowering->module;
  const BpIrNode *nodes[3], *open_let, *shut_let = NULL;
  bool saves_little = is_limit(choice->node) && has_loop(loop->operands[3], true);
  int is_open = saves_little ? is_open_limit(partition, choice) : 0;
  if (is_open != 0)
    return is_open < 0 ? NULL : loop;
  const BpIrNode *open = name_place(partition, limited->open, bounds, &open_let), *shut = open;
  if (limited->shut != limited->open)
    shut = name_place(partition, limited->shut, bounds, &shut_let);
  if (!open || !shut)
    return NULL;
  Part parts[3] = {{.copy = {partition, scan, choice->difference, cut->is_first_before},
                    .bounds = {bounds.first, open},
                    .facts = {NULL, cut->open}},
                   {.copy = {partition, scan, NULL, false},
                    .bounds = {open, shut},
                    .facts = {cut->open, cut->shut}},
                   {.copy = {partition, scan, choice->difference, !cut->is_first_before},
                    .bounds = {shut, bounds.end},
                    .facts = {cut->shut, NULL}}};
  for (int32_t i = 0; i < 3; i++) {
    if (make_part(&parts[i], loop) != 0)
      return NULL;
    nodes[i] = parts[i].node;
  }
  int affords = can_afford(scan, loop, nodes, 3, saves_little);
  if (affords <= 0)
    return affords < 0 ? NULL : loop;
  for (int32_t i = 0; i < 3; i++)
    if (!(nodes[i] = partition_part(&parts[i], loop->operands[0])))
      return NULL;
  const BpIrNode *all = bp_ir_seq(module, nodes, 3);
  if (shut_let)
    all = bp_ir_let(module, shut_let, limited->shut, all);
  return open_let ? bp_ir_let(module, open_let, limited->open, all) : all;
}

/* Whether the choice uses no variable that the loop or a construct inside it binds: 1, 0, or -1
 * with an error. */
static int is_outside(const Partition *partition, const BpIrNode *var, const Choice *choice) {
  int uses = bp__ir_uses(choice->difference, var);
  int is_free = bp__index_has_free(&partition->lowering->index, choice->difference);
  return uses < 0 || is_free < 0 ? -1 : !uses && !is_free;
}

/* The loop where the choice is on one side. */
static const BpIrNode *copy_on_side(const Scan *scan, const BpIrNode *loop, const Choice *choice,
                                    bool is_first) {
  Copy copy = {scan->partition, scan, choice->difference, is_first};
  return make_copy(&copy, loop, NULL, loop);
}

/* Makes two versions of the loop, with a branch before them, or only one if the choice is known;
 * returns the loop unchanged if the code would grow too much. */
static const BpIrNode *unswitch_loop(Scan *scan, const BpIrNode *loop, const Choice *choice) {
  Partition *partition = scan->partition;
  BpIndexContext *index = &partition->lowering->index;
  int32_t num_assumed = index->num_assumed;
  const BpIrNode *parts[2], *branch;
  const BpIrNode *condition =
      binary(partition, BP_IR_GE, choice->difference, integer(partition, 0));
  if (!condition)
    return NULL;
  int known = bp__index_decide(index, condition);
  bool saves_little = is_limit(choice->node);
  int is_kept = known < 0 ? saves_nothing(partition, loop, choice) : 0;
  if (is_kept < 0)
    return NULL;
  /* A branch around one vector saves too little. */
  if (is_kept || (known < 0 && saves_little && partition->has_gathered && is_lanes(loop)))
    return loop;
  if (known >= 0) {
    const BpIrNode *only = copy_on_side(scan, loop, choice, known);
    return only ? partition_statement(partition, only) : NULL;
  }
  for (int32_t i = 0; i < 2; i++) {
    assume_condition(partition, condition, !i);
    parts[i] = copy_on_side(scan, loop, choice, !i);
    bp__index_reset(index, num_assumed);
    if (!parts[i])
      return NULL;
  }
  int affords = can_afford(scan, loop, parts, 2, saves_little || is_switch(choice->node));
  if (affords <= 0)
    return affords < 0 ? NULL : loop;
  branch = bp_ir_if(index->module, condition, parts[0], parts[1]);
  return branch ? partition_statement(partition, branch) : NULL;
}

/* Whether a loop runs the last tile of a split, if there is one: from a / n to b / n, and b exceeds
 * a by at most n. */
static bool is_last_tile(const Partition *partition, const BpIrNode *loop) {
  const BpIrNode *extent = loop->operands[2];
  const BpIrNode *const *tiles = extent->operands;
  int64_t factors[2], apart;
  if (extent->kind != BP_IR_SUB || !bp__ir_equal(tiles[1], loop->operands[1]))
    return false;
  for (int32_t i = 0; i < 2; i++)
    if (tiles[i]->kind != BP_IR_DIV || !bp__ir_const_int(tiles[i]->operands[1], &factors[i]))
      return false;
  return factors[0] == factors[1] &&
         bp__index_difference(&partition->lowering->index, tiles[0]->operands[0],
                              tiles[1]->operands[0], &apart) &&
         apart <= factors[0];
}

/* Divides the loop by a choice; returns the loop unchanged if the choice does not divide it, or the
 * code would grow too much. */
static const BpIrNode *divide_loop(Scan *scan, const BpIrNode *loop, const Choice *choice,
                                   Bounds bounds) {
  const Partition *partition = scan->partition;
  Cut cut;
  int outside = is_outside(partition, loop->operands[0], choice);
  if (outside != 0)
    return outside < 0 ? NULL : unswitch_loop(scan, loop, choice);
  if (loop->int_value != BP_IR_FOR_SERIAL || is_last_tile(partition, loop))
    return loop;
  int found = find_cut(partition, loop->operands[0], choice, &cut);
  if (found < 0)
    return NULL;
  Cut limited = cut;
  return found && is_useful(partition, loop->operands[0], bounds, &limited)
             ? split_loop(scan, loop, choice, bounds, &cut, &limited)
             : loop;
}

/* ---- Branches inside a loop -------------------------------------------------------------- */

/* A choice of lanes may be in a small part of a loop: the last tile of a row stores fewer elements
 * than it computes. Such a part gets a branch inside the loop, to a version for the iterations in
 * which all lanes choose the first side: the other version is all that the loop's division would
 * save, at the price of the whole body. */

static int visit_same(void *context, const BpIrNode *node) {
  return node == context;
}

static bool has_node(const BpIrNode *in, const BpIrNode *node) {
  return bp__ir_visit_once(in, visit_same, (void *)(uintptr_t)node) != 0;
}

/* The outermost loop over lanes that contains all uses of a node in a statement; NULL if there is
 * none. *has_serial is set if the statement has a serial loop around it. */
static const BpIrNode *lanes_around(const BpIrNode *statement, const BpIrNode *node,
                                    bool *has_serial) {
  const BpIrNode *next = NULL;
  int32_t first = statement->kind == BP_IR_SEQ ? 0 : statement->num_operands - 1;
  if (statement->kind == BP_IR_FOR && is_lanes(statement))
    return statement;
  if (statement->kind != BP_IR_FOR && statement->kind != BP_IR_LET && statement->kind != BP_IR_IF &&
      statement->kind != BP_IR_ALLOCATE && statement->kind != BP_IR_SEQ)
    return NULL;
  for (int32_t i = 0; i < statement->num_operands; i++) {
    if (!has_node(statement->operands[i], node))
      continue;
    if (next || i < first)
      return NULL;
    next = statement->operands[i];
  }
  *has_serial |= statement->kind == BP_IR_FOR;
  return next ? lanes_around(next, node, has_serial) : NULL;
}

/* The minimum number of writes beside the branch that a division would copy. */
#define MIN_BESIDE 16

/* Sets *lanes to the loop over lanes that gets a branch for the choice, or to NULL, and *is_inner
 * to whether the branch belongs into an inner loop. Returns 0, or -1 with an error. */
static int find_lanes(const Partition *partition, const BpIrNode *loop, const Choice *choice,
                      const BpIrNode **lanes, bool *is_inner) {
  Weight whole, part;
  *is_inner = false;
  *lanes = NULL;
  if (loop->int_value != BP_IR_FOR_SERIAL || !is_order(choice->node))
    return 0;
  int is_free = bp__index_has_free(&partition->lowering->index, choice->difference);
  if (is_free <= 0)
    return is_free;
  *lanes = lanes_around(loop->operands[3], choice->node, is_inner);
  if (!*lanes)
    return 0;
  if (weigh(loop->operands[3], &whole) != 0 || weigh(*lanes, &part) != 0)
    return -1;
  if (part.writes * 2 > whole.writes || whole.writes - part.writes < MIN_BESIDE)
    *lanes = NULL;
  return 0;
}

/* Assumes that all lanes choose the first side, and adds that condition to *all. Returns 0, or -1
 * with an error. */
static int assume_first(const Partition *partition, const Choice *choice, const BpIrNode **all) {
  BpIndexContext *index = &partition->lowering->index;
  BpInterval sweep;
  bool is_bounded;
  if (bp__index_interval(index, choice->difference, &sweep, &is_bounded) != 0)
    return -1;
  if (!is_bounded)
    return 0;
  const BpIrNode *condition = binary(partition, BP_IR_GE, sweep.min, integer(partition, 0));
  bp__index_assume(index, sweep.min);
  *all = *all ? bp_ir_binary(index->module, BP_IR_AND, *all, condition) : condition;
  return *all ? 0 : -1;
}

/* The loop with a branch to a version of `lanes` in which all lanes choose the first side. */
static const BpIrNode *add_branch(Scan *scan, const BpIrNode *loop, const BpIrNode *lanes) {
  Partition *partition = scan->partition;
  BpIndexContext *index = &partition->lowering->index;
  Copy copy = {partition, scan, NULL, true};
  int32_t num_assumed = index->num_assumed;
  const BpIrNode *all = NULL;
  int rc = 0;
  for (int32_t i = 0; i < scan->count && rc == 0; i++)
    if (is_order(scan->choices[i].node) && has_node(lanes, scan->choices[i].node))
      rc = assume_first(partition, &scan->choices[i], &all);
  const BpIrNode *version = rc ? NULL : make_copy(&copy, lanes, NULL, lanes);
  bp__index_reset(index, num_assumed);
  if (!version || !all)
    return version ? loop : NULL;
  int affords = can_afford(scan, lanes, (const BpIrNode *[]){lanes, version}, 2, false);
  if (affords <= 0)
    return affords < 0 ? NULL : loop;
  const BpIrNode *branch = bp_ir_if(index->module, all, version, lanes);
  return branch ? bp__ir_substitute_one(index->module, loop, lanes, branch) : NULL;
}

static const BpIrNode *decide_loop(Partition *partition, const BpIrNode *loop, Scan *scan) {
  const BpIrNode *min = loop->operands[1], *branched = NULL;
  Bounds bounds = {min, binary(partition, BP_IR_ADD, min, loop->operands[2])};
  if (!bounds.end)
    return NULL;
  for (int32_t i = 0; i < scan->count && !scan->is_spent; i++) {
    const BpIrNode *lanes;
    bool is_inner;
    if (find_lanes(partition, loop, &scan->choices[i], &lanes, &is_inner) != 0)
      return NULL;
    if (lanes && !is_inner && !branched)
      branched = lanes;
    if (lanes)
      continue;
    const BpIrNode *divided = divide_loop(scan, loop, &scan->choices[i], bounds);
    if (divided != loop)
      return divided;
  }
  if (branched && !(loop = add_branch(scan, loop, branched)))
    return NULL;
  return partition_inside(partition, loop);
}

/* ---- Names ------------------------------------------------------------------------------- */

/* Gives one of two LETs that bind the same variable a variable of its own. Otherwise the LETs could
 * share a body, and a comparison of the variable in the body would be decided for both LETs by the
 * value of one. */
typedef struct Separation {
  BpIrRewriter rewriter; /* first member, because callbacks cast the rewriter to a Separation */
  BpIndexContext *index;
  BpIrMap names; /* a variable -> the variable that the surrounding LET binds */
} Separation;

static const BpIrNode *separate_let(Separation *separation, const BpIrNode *let) {
  BpIrRewriter *rewriter = &separation->rewriter;
  const BpIrNode *const *x = let->operands, *var = x[0];
  const BpIrNode *value = bp__ir_rewrite(rewriter, x[1]);
  if (bp__ir_map_get(&separation->names, var)) {
    var = bp_ir_var(rewriter->module, var->str_value, var->dtype);
    if (!var || bp__index_set_like(separation->index, var, x[0]) != 0)
      return NULL;
    bp__ir_map_clear(&rewriter->done); /* `done` contains results for the other variable */
  }
  if (bp__ir_map_set(&separation->names, x[0], var) != 0)
    return NULL;
  return bp__ir_with_operands(rewriter->module, let,
                              (const BpIrNode *[]){var, value, bp__ir_rewrite(rewriter, x[2])});
}

static int enter_separation(BpIrRewriter *rewriter, const BpIrNode *node, const BpIrNode **result) {
  Separation *separation = (Separation *)rewriter;
  if (node->kind == BP_IR_LET) {
    *result = separate_let(separation, node);
    return *result ? 1 : -1;
  }
  *result = node->kind == BP_IR_BUFFER ? node : bp__ir_map_get(&separation->names, node);
  return *result != NULL;
}

static const BpIrNode *separate_names(BpLowering *lowering, const BpIrNode *body) {
  Separation separation = {.rewriter = {.module = lowering->module, .enter = enter_separation},
                           .index = &lowering->index};
  const BpIrNode *result = bp__ir_rewrite(&separation.rewriter, body);
  bp__ir_rewriter_clear(&separation.rewriter);
  bp__ir_map_clear(&separation.names);
  return result;
}

/* ---- Walking ----------------------------------------------------------------------------- */

/* Partitions the loops inside a loop, or inside its divided parts. */
static const BpIrNode *partition_inside(Partition *partition, const BpIrNode *loop) {
  BpIndexContext *index = &partition->lowering->index;
  int32_t num_assumed = index->num_assumed;
  if (loop->kind != BP_IR_FOR)
    return partition_statement(partition, loop);
  const BpIrNode *const *x = loop->operands;
  if (x[2]->kind != BP_IR_INT_IMM)
    assume_below(partition, x[0], binary(partition, BP_IR_ADD, x[1], x[2]));
  const BpIrNode *operands[] = {x[0], x[1], x[2], partition_statement(partition, x[3])};
  bp__index_reset(index, num_assumed);
  return bp__ir_with_operands(partition->lowering->module, loop, operands);
}

/* Partitions the body of a LET. The names of fused axes are remainders, and the loop over the fused
 * axis has no iteration if the divisor is 0. A second name of a variable is like the variable. */
static const BpIrNode *partition_let(Partition *partition, const BpIrNode *let) {
  BpIndexContext *index = &partition->lowering->index;
  const BpIrNode *const *x = let->operands;
  int32_t num_assumed = index->num_assumed;
  bool is_remainder = x[1]->kind == BP_IR_MOD || x[1]->kind == BP_IR_FLOORMOD;
  if (is_remainder && x[1]->operands[1]->kind != BP_IR_INT_IMM &&
      bp__index_range(index, x[1]).min >= 0)
    assume_below(partition, x[0], x[1]->operands[1]);
  if (x[1]->kind == BP_IR_VAR && move_assumptions(partition, x[1], x[0]) != 0)
    return NULL;
  const BpIrNode *operands[] = {x[0], x[1], partition_statement(partition, x[2])};
  bp__index_reset(index, num_assumed);
  return bp__ir_with_operands(partition->lowering->module, let, operands);
}

static const BpIrNode *partition_loop(Partition *partition, const BpIrNode *loop) {
  bool is_thread = is_thread_loop(loop);
  /* Threads that run in lock-step would run all versions one after another. */
  if (is_thread && strncmp(loop->str_value, "threadIdx", 9) == 0)
    return loop;
  Scan scan = {.partition = partition};
  const BpIrNode *result = NULL;
  if (is_thread)
    return partition_inside(partition, loop);
  if (scan_statement(&scan, loop->operands[3]) == 0)
    result =
        scan.is_foreign ? partition_inside(partition, loop) : decide_loop(partition, loop, &scan);
  bp__ir_map_clear(&scan.values);
  bp__ir_map_clear(&scan.others);
  return result;
}

static const BpIrNode *partition_if(Partition *partition, const BpIrNode *node) {
  BpIndexContext *index = &partition->lowering->index;
  const BpIrNode *operands[3] = {node->operands[0]};
  int32_t num_assumed = index->num_assumed;
  int known = bp__index_decide(index, node->operands[0]);
  if (known == 1)
    return partition_statement(partition, node->operands[1]);
  if (known == 0)
    return node->num_operands > 2 ? partition_statement(partition, node->operands[2])
                                  : bp__ir_nothing(index->module);
  for (int32_t i = 1; i < node->num_operands; i++) {
    assume_condition(partition, node->operands[0], i == 1);
    operands[i] = partition_statement(partition, node->operands[i]);
    bp__index_reset(index, num_assumed);
    if (!operands[i])
      return NULL;
  }
  return bp__ir_with_operands(index->module, node, operands);
}

static const BpIrNode *partition_statement(Partition *partition, const BpIrNode *node) {
  BpIrModule *module = partition->lowering->module;
  int32_t first = node->kind != BP_IR_SEQ;
  switch (node->kind) {
  case BP_IR_FOR:
    return partition_loop(partition, node);
  case BP_IR_LET:
    return partition_let(partition, node);
  case BP_IR_IF:
    return partition_if(partition, node);
  case BP_IR_SEQ:
  case BP_IR_ALLOCATE:
    break;
  default:
    return node;
  }
  const BpIrNode **operands =
      bp__ir_alloc(module, (size_t)(node->num_operands + 1) * sizeof *operands);
  if (!operands)
    return NULL;
  for (int32_t i = 0; i < node->num_operands; i++)
    if (!(operands[i] =
              i < first ? node->operands[i] : partition_statement(partition, node->operands[i])))
      return NULL;
  return bp__ir_with_operands(module, node, operands);
}

const BpIrNode *bp__lower_partition(BpLowering *lowering, const BpIrNode *body) {
  Partition partition = {.lowering = lowering};
  body = separate_names(lowering, body);
  if (!body)
    return NULL;
  Weight weight;
  if (weigh(body, &weight) != 0)
    return NULL;
  partition.has_gathered = weight.gathered > 0;
  return partition_statement(&partition, body);
}
