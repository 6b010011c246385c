/* SPDX-License-Identifier: Apache-2.0 */
/* Texel buffers: read-only parameters of a kernel, in dialects that declare and load them in a
 * special way. Each load goes into a variable, so an element that a block of statements reads
 * several times is loaded once. If the index of every access to a buffer tells which of four
 * neighbours it reads, the four neighbours are loaded together. A texel buffer is not written, and
 * a load out of bounds is harmless, so a load may come earlier than its use, or without a use. */
#include "compiler/emit/emit.h"

#include <string.h>

#define GROUP 4 /* number of neighbours that are loaded together */
/* The maximum number of texels kept in variables at a time. */
#define MOST_TEXELS 512
/* The maximum number of steps through an index, including steps from a variable to its value. */
#define DEEPEST 1000

/* A texel in a variable, `first` elements after the element at `base`. */
struct BpTexel {
  const BpSymbol *symbol;
  const BpIrNode *base;
  int64_t first;
  const char *name;
};

static int constant(BpEmitter *e, const BpIrNode *node, int64_t *value) {
  if (e->ir->kind(node) != BP_IR_INT_IMM)
    return 0;
  *value = e->ir->int_value(node);
  return 1;
}

/* Stores the result for a node: expressions are graphs, with too many paths to compute it for each
 * path. */
static void keep(BpEmitter *e, BpPointerMap *map, const BpIrNode *node, const void *known) {
  if (bp_pointer_map_set(map, node, (void *)(uintptr_t)known) != 0)
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
}

static int64_t remainder_in_group(int64_t value) {
  return value & (GROUP - 1);
}

/* ---- The place of an element in its group ------------------------------------------------ */

static int64_t group_place(BpEmitter *e, const BpIrNode *node, int32_t depth);

static int64_t place_of_sum(BpEmitter *e, const BpIrNode *node, int32_t depth) {
  int64_t a = group_place(e, e->ir->operand(node, 0), depth);
  int64_t b = group_place(e, e->ir->operand(node, 1), depth);
  int32_t kind = e->ir->kind(node);
  if (a < 0 || b < 0 || ((kind == BP_IR_MIN || kind == BP_IR_MAX) && a != b))
    return -1;
  return kind == BP_IR_ADD   ? remainder_in_group(a + b)
         : kind == BP_IR_SUB ? remainder_in_group(a - b)
                             : a;
}

static int64_t place_of_product(BpEmitter *e, const BpIrNode *node, int32_t depth) {
  int64_t a = group_place(e, e->ir->operand(node, 0), depth);
  int64_t b = group_place(e, e->ir->operand(node, 1), depth);
  if (a == 0 || b == 0)
    return 0;
  return a < 0 || b < 0 ? -1 : remainder_in_group(a * b);
}

static int64_t find_place(BpEmitter *e, const BpIrNode *node, int32_t depth) {
  int64_t value = 0;
  switch (e->ir->kind(node)) {
  case BP_IR_INT_IMM:
    return remainder_in_group(e->ir->int_value(node));
  case BP_IR_VAR: {
    const BpIrNode *bound = bp_pointer_map_get(&e->lets, node);
    return bound ? group_place(e, bound, depth) : -1;
  }
  case BP_IR_CAST:
    return group_place(e, e->ir->operand(node, 0), depth);
  case BP_IR_ADD:
  case BP_IR_SUB:
  case BP_IR_MIN:
  case BP_IR_MAX:
    return place_of_sum(e, node, depth);
  case BP_IR_MUL:
    return place_of_product(e, node, depth);
  case BP_IR_MOD:
  case BP_IR_FLOORMOD:
    return constant(e, e->ir->operand(node, 1), &value) && remainder_in_group(value) == 0
               ? group_place(e, e->ir->operand(node, 0), depth)
               : -1;
  default:
    return -1;
  }
}

/* The remainder of an index divided by the group's size; -1 if unknown. */
static int64_t group_place(BpEmitter *e, const BpIrNode *node, int32_t depth) {
  BpDataType dtype = e->ir->dtype(node);
  if (depth == 0 || dtype.lanes != 1 || (dtype.code != BP_DTYPE_INT && dtype.code != BP_DTYPE_UINT))
    return -1;
  static const int8_t places[GROUP + 1] = {-1, 0, 1, 2, 3};
  const int8_t *known = bp_pointer_map_get(&e->places, node);
  if (!known) {
    known = &places[find_place(e, node, depth - 1) + 1];
    keep(e, &e->places, node, known);
  }
  return *known;
}

/* ---- Which parameters -------------------------------------------------------------------- */

typedef struct Search {
  BpEmitter *e;
  const BpIrNode *buffer;
  int32_t allowed;  /* number of operands seen so far that refer to the buffer as loads do */
  int32_t is_known; /* whether the place in the group is known for every load */
  uint32_t places;  /* a bit for each place of the group that a load reads */
} Search;

static int32_t enter_let(void *context, const BpIrNode *node) {
  BpEmitter *e = context;
  if (e->ir->kind(node) != BP_IR_LET)
    return 0;
  const BpIrNode *var = e->ir->operand(node, 0), *value = e->ir->operand(node, 1);
  const BpIrNode *other = bp_pointer_map_get(&e->lets, var);
  /* A variable that is bound to two values has no known value and stays a variable. */
  if (bp_pointer_map_set(&e->lets, var, (void *)(uintptr_t)(other && other != value ? var : value)))
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
  return 0;
}

static int32_t enter_use(void *context, const BpIrNode *node) {
  Search *search = context;
  BpEmitter *e = search->e;
  if (node == search->buffer)
    return --search->allowed < 0 ? -1 : 1;
  if (e->ir->kind(node) != BP_IR_LOAD || e->ir->operand(node, 0) != search->buffer)
    return 0;
  search->allowed++;
  int64_t place = group_place(e, e->ir->operand(node, 1), DEEPEST);
  search->is_known &= place >= 0;
  search->places |= place >= 0 ? 1u << place : 0;
  return 0;
}

int32_t bp__texel_lanes(BpEmitter *e, const BpIrNode *function, const BpIrNode *buffer) {
  BpDataType dtype = e->ir->dtype(buffer);
  const BpIrNode *body = e->ir->operand(function, e->ir->num_operands(function) - 1);
  Search search = {e, buffer, 0, 1, 0};
  BpIrVisitor uses = {sizeof(uses), &search, enter_use, NULL};
  BpIrVisitor lets = {sizeof(lets), e, enter_let, NULL};
  if (!e->dialect->texel_param || dtype.bits != 32 || dtype.lanes != 1 ||
      !e->ir->find_attr(function, BP_IR_ATTR_NOALIAS))
    return 0;
  e->ir->visit(body, &lets);
  if (e->ir->visit(body, &uses) != 0)
    return 0;
  return search.is_known && search.places == (1u << GROUP) - 1 ? GROUP : 1;
}

/* ---- Loads ------------------------------------------------------------------------------- */

/* Whether an expression has the same value wherever its variables are in scope. */
static int is_stable(BpEmitter *e, const BpIrNode *node) {
  static const int8_t answers[] = {0, 1};
  int32_t kind = e->ir->kind(node);
  const int8_t *known = bp_pointer_map_get(&e->stable, node);
  if (known)
    return *known;
  int is = kind != BP_IR_LOAD && kind != BP_IR_CALL;
  for (int32_t i = 0; is && i < e->ir->num_operands(node); i++)
    is = is_stable(e, e->ir->operand(node, i));
  keep(e, &e->stable, node, &answers[is]);
  return is;
}

/* Whether two stable integer expressions have the same text. */
static int is_same(BpEmitter *e, const BpIrNode *a, const BpIrNode *b) {
  int32_t kind = e->ir->kind(a), count = e->ir->num_operands(a);
  if (a == b || bp_pointer_map_get(&e->same, a) == b)
    return 1;
  if (kind != e->ir->kind(b) || kind == BP_IR_VAR || kind == BP_IR_FLOAT_IMM ||
      count != e->ir->num_operands(b) || e->ir->int_value(a) != e->ir->int_value(b) ||
      !bp__same_dtype(e->ir->dtype(a), e->ir->dtype(b)))
    return 0;
  for (int32_t i = 0; i < count; i++)
    if (!is_same(e, e->ir->operand(a, i), e->ir->operand(b, i)))
      return 0;
  if (count > 0)
    keep(e, &e->same, a, b);
  return 1;
}

/* Separates the constants from a sum. */
static const BpIrNode *without_constant(BpEmitter *e, const BpIrNode *node, int64_t *sum) {
  int64_t value = 0;
  *sum = 0;
  while (e->ir->kind(node) == BP_IR_ADD && constant(e, e->ir->operand(node, 1), &value) &&
         !__builtin_add_overflow(*sum, value, sum))
    node = e->ir->operand(node, 0);
  return node;
}

static const char *find_texel(BpEmitter *e, const BpTexel *wanted) {
  for (int32_t i = 0; i < e->num_texels; i++) {
    const BpTexel *texel = &e->texels[i];
    if (texel->symbol == wanted->symbol && texel->first == wanted->first &&
        is_same(e, texel->base, wanted->base))
      return texel->name;
  }
  return NULL;
}

static const char *load_texel(BpEmitter *e, const BpTexel *texel) {
  const BpSymbol *symbol = texel->symbol;
  const char *index = bp__index(e, texel->base).text;
  if (e->dialect->index_type && e->ir->dtype(texel->base).bits > 32)
    index = bp__apply(e, e->dialect->cast, e->dialect->index_type, index);
  if (texel->first)
    index = bp__format(e, "(%s + (%lld))", index, (long long)texel->first);
  if (symbol->texel_lanes > 1)
    index = bp__format(e, "%s / %d", index, symbol->texel_lanes);
  const char *type = bp__apply(e, e->dialect->texel_type, bp__type(e, symbol->dtype));
  const char *name = bp__unique_name(e, e->ir->str_value(symbol->node));
  bp__line(e, "const %s %s = %s;", type, name,
           bp__apply(e, e->dialect->texel_load, symbol->expr.text, bp__bare(e, index)));
  return name;
}

/* Allocates the list of kept texels on the first call. */
static int make_room(BpEmitter *e) {
  if (!e->texels)
    e->texels = bp__arena_alloc(e, sizeof(*e->texels) * MOST_TEXELS);
  return e->texels && e->num_texels < MOST_TEXELS;
}

BpExpr bp__texel_element(BpEmitter *e, const BpSymbol *symbol, const BpIrNode *index) {
  BpTexel texel = {.symbol = symbol};
  int64_t sum = 0, place = 0;
  texel.base = without_constant(e, index, &sum);
  if (symbol->texel_lanes > 1) /* `base` alone may be at any place in a group */
    place = remainder_in_group(group_place(e, texel.base, DEEPEST) + sum);
  texel.first = sum - place;
  int is_kept = is_stable(e, texel.base) && make_room(e);
  texel.name = is_kept ? find_texel(e, &texel) : NULL;
  if (!texel.name) {
    texel.name = load_texel(e, &texel);
    if (is_kept)
      e->texels[e->num_texels++] = texel;
  }
  return (BpExpr){bp__apply(e, e->dialect->texel_lane, texel.name, bp__format(e, "%d", (int)place)),
                  0, 1};
}
