/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and allocations. A small local array whose indices are all constant becomes
 * variables, one for each run of elements, so that a register tile is in registers even if the
 * language's compiler would keep an array in memory. */
#include "compiler/emit/emit.h"

#include <stdlib.h>
#include <string.h>

/* The size in bytes up to which arrays are on the stack; larger arrays are in the host's
 * workspace. */
#define STACK_LIMIT 16384
/* The maximum number of variables that one array becomes. */
#define MOST_SLOTS 256

/* ---- Access ------------------------------------------------------------------------------ */

/* An access to elements of a buffer. */
typedef struct Access {
  BpSymbol *symbol;
  const BpIrNode *index;
  BpDataType dtype;     /* type of the value */
  int32_t lanes;        /* lanes of the index */
  const BpIrNode *base; /* first index if the index is a ramp of stride 1, else NULL */
} Access;

static int constant(BpEmitter *e, const BpIrNode *node, int64_t *value) {
  if (e->ir->kind(node) != BP_IR_INT_IMM)
    return 0;
  *value = e->ir->int_value(node);
  return 1;
}

static int open_access(BpEmitter *e, const BpIrNode *buffer, const BpIrNode *index,
                       BpDataType dtype, Access *access) {
  BpSymbol *symbol = bp__symbol(e, buffer);
  if (!symbol)
    return -1;
  *access = (Access){symbol, index, dtype, e->ir->dtype(index).lanes, NULL};
  if (symbol->dtype.lanes > 1 && access->lanes > 1) {
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a vector of indices into %s, whose elements are vectors",
             e->ir->str_value(buffer));
    return -1;
  }
  int64_t stride = 0;
  if (e->ir->kind(index) == BP_IR_RAMP && constant(e, e->ir->operand(index, 1), &stride) &&
      stride == 1)
    access->base = e->ir->operand(index, 0);
  return 0;
}

static const BpSlot *find_slot(BpEmitter *e, const Access *access) {
  int64_t first = 0;
  if (!constant(e, access->base ? access->base : access->index, &first))
    return NULL;
  for (int32_t i = 0; i < access->symbol->num_slots; i++) {
    if (access->symbol->slots[i].first == first)
      return &access->symbol->slots[i];
  }
  return NULL;
}

/* The largest power of two that is at most `most` and divides `value`, which is not 0. */
static int64_t power_in(int64_t value, int64_t most) {
  uint64_t power = (uint64_t)value & -(uint64_t)value;
  return power < (uint64_t)most ? (int64_t)power : most;
}

/* Whether an integer is certainly a multiple of a power of two, examining `depth` levels. */
static int is_multiple(BpEmitter *e, const BpIrNode *node, int64_t power, int32_t depth) {
  int32_t kind = e->ir->kind(node), code = e->ir->dtype(node).code;
  int64_t value = 0;
  if (power <= 1)
    return 1;
  if (depth-- == 0 || (code != BP_DTYPE_INT && code != BP_DTYPE_UINT))
    return 0;
  if (kind == BP_IR_INT_IMM)
    return e->ir->int_value(node) % power == 0;
  if (kind == BP_IR_VAR) {
    const BpSymbol *symbol = bp_pointer_map_get(&e->symbols, node);
    return symbol && symbol->value && is_multiple(e, symbol->value, power, depth);
  }
  if (kind == BP_IR_CAST)
    return is_multiple(e, e->ir->operand(node, 0), power, depth);
  if (kind == BP_IR_ADD || kind == BP_IR_SUB)
    return is_multiple(e, e->ir->operand(node, 0), power, depth) &&
           is_multiple(e, e->ir->operand(node, 1), power, depth);
  if (kind != BP_IR_MUL)
    return 0;
  const BpIrNode *a = e->ir->operand(node, 0), *b = e->ir->operand(node, 1);
  if (constant(e, b, &value) && value != 0)
    return is_multiple(e, a, power / power_in(value, power), depth);
  return is_multiple(e, a, power, depth) || is_multiple(e, b, power, depth);
}

/* Whether the vector is aligned, so that it may be read or written in one piece. */
static int is_aligned(BpEmitter *e, const Access *access) {
  BpDataType dtype = access->dtype;
  int64_t size = (int64_t)(dtype.bits + 7) / 8 * dtype.lanes, lane = size / dtype.lanes;
  int64_t wanted = size < e->dialect->vector_alignment ? size : e->dialect->vector_alignment;
  return wanted > 0 && is_multiple(e, access->base, wanted / lane, 12);
}

/* The type of a vector in memory: a mask is stored as bytes. */
static BpDataType memory_dtype(BpDataType dtype) {
  return bp__is_bool(dtype) && dtype.lanes > 1 ? bp__dtype(BP_DTYPE_UINT, 8, dtype.lanes) : dtype;
}

/* Converts a vector from its form in memory to a value, or from a value to its form in memory. */
static BpExpr from_memory(BpEmitter *e, BpDataType dtype, BpExpr value) {
  if (!bp__is_bool(dtype) || dtype.lanes == 1)
    return value;
  return bp__is_not_zero(e, memory_dtype(dtype), value);
}

static BpExpr to_memory(BpEmitter *e, BpDataType dtype, BpExpr value) {
  if (!bp__is_bool(dtype) || dtype.lanes == 1)
    return value;
  BpExpr bytes = bp__mask_to(e, value, dtype.lanes, 8);
  const char *type = bp__type(e, memory_dtype(dtype));
  BpExpr one = bp__constant(e, bp__dtype(BP_DTYPE_INT, 8, dtype.lanes), 1);
  const char *bits = bp__format(e, "(%s & %s)", bytes.text, one.text);
  return bp__text(bp__apply(e, e->dialect->vector_bits, type, bits));
}

/* The index of each lane; the array is in the arena; NULL on failure. */
static const char **lane_indices(BpEmitter *e, const Access *access) {
  const char **places = bp__arena_alloc(e, sizeof(*places) * (size_t)access->lanes);
  if (!places)
    return NULL;
  BpDataType dtype = e->ir->dtype(access->index);
  int64_t stride = 0;
  int is_ramp = e->ir->kind(access->index) == BP_IR_RAMP &&
                constant(e, e->ir->operand(access->index, 1), &stride);
  const BpIrNode *node = is_ramp ? e->ir->operand(access->index, 0) : access->index;
  BpExpr index = bp__atom(e, bp__index(e, node), is_ramp ? bp__scalar(dtype) : dtype);
  for (int32_t i = 0; i < access->lanes; i++) {
    if (!is_ramp)
      places[i] = bp__lane(e, index, dtype, i).text;
    else
      places[i] =
          i == 0 ? index.text : bp__format(e, "%s + %lld", index.text, (long long)(i * stride));
  }
  return places;
}

static BpExpr zero_of(BpEmitter *e, BpDataType dtype) {
  BpDataType compute = bp__compute_dtype(e, dtype);
  BpDataType integer = bp__dtype(BP_DTYPE_INT, 32, 1);
  return bp__cast(e, dtype, compute, bp__cast(e, compute, integer, bp__text("0")));
}

/* ---- Masks as bits ----------------------------------------------------------------------- */

/* As lane_count for int64, whose difference may exceed int64; at most all lanes. */
static const char *lane_count_of_long(BpEmitter *e, const BpIrNode *first_node,
                                      const BpIrNode *end_node, int64_t step, int32_t lanes) {
  BpDataType dtype = e->ir->dtype(end_node);
  const char *first = bp__atom(e, bp__expr(e, first_node), dtype).text;
  const char *end = bp__atom(e, bp__expr(e, end_node), dtype).text;
  const char *last = bp__format(e, "(((unsigned long long)%s - (unsigned long long)%s - 1) / %lld)",
                                end, first, (long long)step);
  last = bp__atom(e, bp__text(last), bp__dtype(BP_DTYPE_UINT, 64, 1)).text;
  return bp__format(e, "(%s <= %s ? 0 : %s < %d ? (int)%s + 1 : %d)", end, first, last, lanes, last,
                    lanes);
}

/* The text of the number of first lanes in which a ramp is below a number that all lanes share. The
 * number of lanes may be negative or larger than the vector. `stride` multiplies the number.
 * Returns NULL for any other comparison. */
static const char *lane_count(BpEmitter *e, const BpIrNode *mask, int32_t stride) {
  const BpIrNode *ramp = e->ir->operand(mask, 0), *limit = e->ir->operand(mask, 1);
  int64_t first = 0, step = 0;
  if (e->ir->kind(ramp) != BP_IR_RAMP || e->ir->kind(limit) != BP_IR_BROADCAST ||
      e->ir->dtype(ramp).code != BP_DTYPE_INT || !constant(e, e->ir->operand(ramp, 1), &step) ||
      step < 1)
    return NULL;
  int is_count = step == 1 && constant(e, e->ir->operand(ramp, 0), &first) && first == 0;
  if (e->ir->dtype(ramp).bits == 64 && (!is_count || stride > 1))
    return lane_count_of_long(e, e->ir->operand(ramp, 0), e->ir->operand(limit, 0), step,
                              e->ir->dtype(mask).lanes);
  const char *end = bp__expr(e, e->ir->operand(limit, 0)).text;
  if (is_count)
    return end;
  /* Where the difference is negative, its quotient is negative or 0. */
  return bp__format(e,
                    "((long long)((unsigned long long)%s - (unsigned long long)%s + %lldULL) / "
                    "%lldLL)",
                    end, bp__expr(e, e->ir->operand(ramp, 0)).text, (long long)(step - 1),
                    (long long)step);
}

/* A mask as an unsigned integer with a bit for each element from the first lane's to the last
 * lane's, where lanes are `stride` elements apart; bits of elements between set lanes may be set,
 * too. Returns NULL if the mask can only be tested lane by lane. */
static const char *mask_bits(BpEmitter *e, const BpIrNode *mask, int32_t stride) {
  int32_t kind = e->ir->kind(mask);
  if (!e->dialect->first_bits || (e->ir->dtype(mask).lanes - 1) * stride >= 64)
    return NULL;
  if (kind == BP_IR_BROADCAST)
    return bp__format(e, "(0ULL - %s)", bp__expr(e, e->ir->operand(mask, 0)).text);
  if (kind == BP_IR_LT || kind == BP_IR_GE) {
    const char *count = lane_count(e, mask, stride), *bits;
    if (!count)
      return NULL;
    if (stride > 1) /* the lane count may be an int */
      count = bp__format(e, "(long long)%s * %d - %d", count, stride,
                         kind == BP_IR_LT ? stride - 1 : 0);
    bits = bp__apply(e, e->dialect->first_bits, bp__bare(e, count));
    return kind == BP_IR_GE ? bp__format(e, "~%s", bits) : bits;
  }
  if (kind != BP_IR_AND && kind != BP_IR_OR)
    return NULL;
  const char *a = mask_bits(e, e->ir->operand(mask, 0), stride);
  const char *b = a ? mask_bits(e, e->ir->operand(mask, 1), stride) : NULL;
  return b ? bp__format(e, "(%s %s %s)", a, kind == BP_IR_AND ? "&" : "|", b) : NULL;
}

/* The condition of a mask that is the same in all lanes; NULL for any other mask. */
static const char *uniform_mask(BpEmitter *e, const BpIrNode *mask) {
  if (!mask || e->ir->kind(mask) != BP_IR_BROADCAST)
    return NULL;
  return bp__expr(e, e->ir->operand(mask, 0)).text;
}

/* ---- Elements ---------------------------------------------------------------------------- */

/* The text of a buffer's element in the language's syntax. */
static const char *element(BpEmitter *e, const Access *access, const char *index) {
  const char *type = e->dialect->index_type;
  if (type && e->ir->dtype(access->index).bits > 32)
    index = bp__apply(e, e->dialect->cast, type, index);
  return bp__format(e, "%s[%s]", access->symbol->expr.text, index);
}

static int is_byte_bool(BpEmitter *e, BpDataType dtype) {
  return bp__is_bool(dtype) && dtype.lanes == 1 && (e->dialect->flags & BP_DIALECT_STRICT_BOOL);
}

/* ---- Loads ------------------------------------------------------------------------------- */

static BpExpr load_lanes(BpEmitter *e, const Access *access, const BpIrNode *mask_node) {
  BpExpr *lanes = bp__arena_alloc(e, sizeof(*lanes) * access->dtype.lanes);
  BpExpr mask = {"", 0, 1};
  if (mask_node)
    mask = bp__atom(e, bp__expr(e, mask_node), e->ir->dtype(mask_node));
  const char **places = lane_indices(e, access);
  if (!lanes || !places)
    return bp__text("");
  BpDataType scalar = bp__scalar(access->dtype);
  for (int32_t i = 0; i < access->dtype.lanes; i++) {
    if (!mask_node)
      lanes[i] = bp__text(element(e, access, places[i]));
    else
      lanes[i] = bp__text(bp__format(e, "(%s ? %s : %s)",
                                     bp__lane(e, mask, e->ir->dtype(mask_node), i).text,
                                     element(e, access, places[i]), zero_of(e, scalar).text));
  }
  return bp__make_vector(e, access->dtype, lanes);
}

static BpExpr load_scalar(BpEmitter *e, const Access *access, const BpIrNode *mask) {
  const char *value;
  if (access->symbol->texel_lanes) {
    BpExpr texel = bp__texel_element(e, access->symbol, access->index);
    if (!mask)
      return texel;
    value = texel.text;
  } else {
    value = element(e, access, bp__bare(e, bp__index(e, access->index).text));
  }
  if (is_byte_bool(e, access->dtype))
    value = bp__apply(e, e->dialect->cast, bp__type(e, access->dtype), value);
  if (!mask)
    return from_memory(e, access->dtype, bp__text(value));
  if (access->dtype.lanes > 1)
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "a masked load of a vector element"));
  return bp__text(bp__format(e, "(%s ? %s : %s)", bp__expr(e, mask).text, value,
                             zero_of(e, access->dtype).text));
}

/* Whether the lanes are every second element, and two overlapping vectors hold all lanes. */
static int is_every_second(BpEmitter *e, const Access *access) {
  int64_t stride = 0;
  return e->dialect->vector_shuffle && !access->symbol->texel_lanes && access->lanes > 2 &&
         access->lanes <= 32 && !bp__is_bool(access->dtype) &&
         e->ir->kind(access->index) == BP_IR_RAMP &&
         constant(e, e->ir->operand(access->index, 1), &stride) && stride == 2;
}

/* Loads two vectors, the second one from the end of the first, and takes the lanes out of them. The
 * loads do not read beyond the last lane or, with a mask, before the first and after the last set
 * lane. */
static BpExpr load_every_second(BpEmitter *e, const Access *access, const char *bits) {
  const char *type = bp__type(e, access->dtype), *name = access->symbol->expr.text;
  const char *lanes = bp__format(e, "%d", access->lanes), *parts[2];
  BpDataType dtype = bp__scalar(e->ir->dtype(access->index));
  BpExpr first = bp__atom(e, bp__index(e, e->ir->operand(access->index, 0)), dtype);
  BpText picks = {NULL, 0, 0};
  for (int32_t i = 0; i < 2; i++) {
    const char *index = i ? bp__format(e, "(%s + %d)", first.text, access->lanes - 1) : first.text;
    const char *form = bits ? e->dialect->vector_load_bits : e->dialect->vector_load;
    const char *part = bits && i ? bp__format(e, "(%s >> %d)", bits, access->lanes - 1) : bits;
    parts[i] = bp__apply(e, form, type, name, index, lanes, part ? part : "");
  }
  for (int32_t i = 0; i < access->lanes; i++)
    bp__appendf(e, &picks, "%s%d", i ? ", " : "", 2 * i < access->lanes ? 2 * i : 2 * i + 1);
  const char *text = bp__apply(e, e->dialect->vector_shuffle, type, parts[0], parts[1],
                               picks.data ? picks.data : "");
  bp__text_free(&picks);
  return bp__text(text);
}

BpExpr bp__load(BpEmitter *e, const BpIrNode *node) {
  Access access;
  const BpIrNode *mask = e->ir->operand(node, 2);
  if (open_access(e, e->ir->operand(node, 0), e->ir->operand(node, 1), e->ir->dtype(node),
                  &access) != 0)
    return bp__text("");
  if (access.symbol->slots) {
    const BpSlot *slot = find_slot(e, &access);
    return (BpExpr){slot ? slot->name : "", bp__is_bool(access.dtype) ? 32 : 0, 1};
  }
  if (access.lanes == 1)
    return load_scalar(e, &access, mask);
  int is_run = access.base != NULL, is_second = !is_run && is_every_second(e, &access);
  const char *bits = mask && (is_run || is_second) ? mask_bits(e, mask, is_run ? 1 : 2) : NULL;
  const char *condition = bits ? NULL : uniform_mask(e, mask);
  if (is_second && (!mask || bits))
    return load_every_second(e, &access, bits);
  if (!is_run || (mask && !bits && !condition))
    return load_lanes(e, &access, mask);
  BpDataType dtype = memory_dtype(access.dtype);
  const char *index = bp__index(e, access.base).text;
  const char *lanes = bp__format(e, "%d", access.lanes);
  const char *form = bits ? e->dialect->vector_load_bits
                     : e->dialect->vector_load_aligned && is_aligned(e, &access)
                         ? e->dialect->vector_load_aligned
                         : e->dialect->vector_load;
  const char *text = bp__apply(e, form, bp__type(e, dtype), access.symbol->expr.text, index, lanes,
                               bits ? bits : "");
  if (condition)
    text = bp__format(e, "(%s ? %s : %s)", condition, text,
                      bp__splat(e, dtype, zero_of(e, bp__scalar(dtype))).text);
  return from_memory(e, access.dtype, bp__text(text));
}

BpExpr bp__address(BpEmitter *e, const BpIrNode *buffer, const BpIrNode *index) {
  BpSymbol *symbol = bp__symbol(e, buffer);
  if (!symbol)
    return bp__text("");
  if (!(e->dialect->flags & BP_DIALECT_POINTERS))
    return bp__text(bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "the address of an element"));
  const char *place = bp__index(e, index).text;
  return bp__text(bp__format(e, "(%s + %s)", symbol->expr.text, place));
}

/* ---- Stores ------------------------------------------------------------------------------ */

static void store_lanes(BpEmitter *e, const Access *access, BpExpr value,
                        const BpIrNode *mask_node) {
  BpExpr mask = {"", 0, 1};
  if (mask_node)
    mask = bp__atom(e, bp__expr(e, mask_node), e->ir->dtype(mask_node));
  value = bp__atom(e, value, access->dtype);
  const char **places = lane_indices(e, access);
  for (int32_t i = 0; places && i < access->lanes; i++) {
    const char *lane = bp__bare(e, bp__lane(e, value, access->dtype, i).text);
    if (mask_node)
      bp__line(e, "if (%s)", bp__lane(e, mask, e->ir->dtype(mask_node), i).text);
    bp__line(e, "%s%s = %s;", mask_node ? "  " : "", element(e, access, places[i]), lane);
  }
}

static void store_scalar(BpEmitter *e, const Access *access, BpExpr value, const BpIrNode *mask) {
  const char *place = element(e, access, bp__bare(e, bp__index(e, access->index).text));
  const char *condition = mask ? bp__bare(e, bp__expr(e, mask).text) : NULL;
  value = to_memory(e, access->dtype, value);
  if (is_byte_bool(e, access->dtype))
    value = bp__text(bp__apply(e, e->dialect->cast, bp__memory_type(e, access->dtype), value.text));
  if (condition)
    bp__line(e, "if (%s)", condition);
  bp__line(e, "%s%s = %s;", condition ? "  " : "", place, bp__bare(e, value.text));
}

static void store_slot(BpEmitter *e, const Access *access, BpExpr value) {
  const BpSlot *slot = find_slot(e, access);
  if (bp__is_bool(access->dtype) && access->dtype.lanes > 1)
    value = bp__mask_to(e, value, access->dtype.lanes, 32);
  if (slot)
    bp__line(e, "%s = %s;", slot->name, bp__bare(e, value.text));
}

void bp__store(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *value_node = e->ir->operand(node, 2);
  const BpIrNode *mask = e->ir->operand(node, 3);
  const BpIrNode *roots[] = {e->ir->operand(node, 1), value_node, mask};
  Access access;
  bp__begin_statement(e, roots, 3);
  if (open_access(e, e->ir->operand(node, 0), roots[0], e->ir->dtype(value_node), &access) != 0)
    return;
  BpExpr value = bp__expr(e, value_node);
  const char *bits = access.lanes > 1 && access.base && mask ? mask_bits(e, mask, 1) : NULL;
  const char *condition = bits ? NULL : uniform_mask(e, mask);
  if (access.symbol->slots) {
    store_slot(e, &access, value);
  } else if (access.lanes == 1) {
    store_scalar(e, &access, value, mask);
  } else if (!access.base || (mask && !bits && !condition)) {
    store_lanes(e, &access, value, mask);
  } else {
    BpExpr bytes = to_memory(e, access.dtype, value);
    const char *index = bp__index(e, access.base).text;
    const char *type = bp__type(e, memory_dtype(access.dtype));
    const char *lanes = bp__format(e, "%d", access.lanes);
    const char *name = access.symbol->expr.text, *text = bp__bare(e, bytes.text);
    const char *form = access.symbol->is_streamed ? e->dialect->vector_stream
                       : e->dialect->vector_store_aligned && is_aligned(e, &access)
                           ? e->dialect->vector_store_aligned
                           : e->dialect->vector_store;
    if (condition)
      bp__line(e, "if (%s)", condition);
    bp__line(e, "%s%s;", condition ? "  " : "",
             bits
                 ? bp__apply(e, e->dialect->vector_store_bits, type, name, index, lanes, bits, text)
                 : bp__apply(e, form, type, name, index, lanes, text));
  }
}

/* ---- Local arrays as variables ----------------------------------------------------------- */

typedef struct SlotSearch {
  BpEmitter *e;
  const BpIrNode *buffer;
  BpSlot slots[MOST_SLOTS];
  int32_t count;
  int32_t allowed; /* number of operands so far that refer to the buffer as loads and stores do */
} SlotSearch;

/* Records an access to an element; returns -1 if a variable cannot hold the element. */
static int32_t add_slot(SlotSearch *search, const BpIrNode *index, BpDataType dtype) {
  const BpIrTable *ir = search->e->ir;
  int64_t first = 0;
  int64_t stride = 0;
  if (ir->kind(index) == BP_IR_RAMP) {
    if (!constant(search->e, ir->operand(index, 1), &stride) || stride != 1)
      return -1;
    index = ir->operand(index, 0);
  }
  int is_vector_element = ir->dtype(search->buffer).lanes > 1;
  int64_t length = is_vector_element ? 1 : dtype.lanes;
  if (!constant(search->e, index, &first))
    return -1;
  for (int32_t i = 0; i < search->count; i++) {
    const BpSlot *slot = &search->slots[i];
    int64_t slot_length = is_vector_element ? 1 : slot->dtype.lanes;
    if (slot->first == first && slot_length == length)
      return 0;
    if (slot->first < first + length && first < slot->first + slot_length)
      return -1;
  }
  if (search->count == MOST_SLOTS)
    return -1;
  search->slots[search->count++] = (BpSlot){first, dtype, NULL};
  return 0;
}

static int32_t enter_node(void *context, const BpIrNode *node) {
  SlotSearch *search = context;
  const BpIrTable *ir = search->e->ir;
  int32_t kind = ir->kind(node);
  if (node == search->buffer)
    return --search->allowed < 0 ? -1 : 1;
  if (kind == BP_IR_FOR && ir->int_value(node) == BP_IR_FOR_PARALLEL)
    return -1;
  if ((kind != BP_IR_LOAD && kind != BP_IR_STORE) || ir->operand(node, 0) != search->buffer)
    return 0;
  search->allowed++;
  int is_load = kind == BP_IR_LOAD;
  if (ir->operand(node, is_load ? 2 : 3))
    return -1;
  BpDataType dtype = ir->dtype(is_load ? node : ir->operand(node, 2));
  return add_slot(search, ir->operand(node, 1), dtype);
}

static int become_variables(BpEmitter *e, const BpIrNode *buffer, const BpIrNode *body,
                            BpSymbol *symbol) {
  SlotSearch *search = calloc(1, sizeof(*search));
  if (!search) {
    bp__fail(e, BP_ERROR_MEMORY, "out of memory");
    return 0;
  }
  search->e = e;
  search->buffer = buffer;
  BpIrVisitor visitor = {sizeof(visitor), search, enter_node, NULL};
  int fits = e->ir->visit(body, &visitor) == 0;
  if (fits) {
    symbol->num_slots = search->count;
    symbol->slots = bp__arena_alloc(e, sizeof(BpSlot) * (size_t)(search->count + 1));
    fits = symbol->slots != NULL;
  }
  for (int32_t i = 0; fits && i < search->count; i++) {
    BpSlot slot = search->slots[i];
    slot.name = bp__unique_name(e, e->ir->str_value(buffer));
    bp__line(e, "%s %s;", bp__value_type(e, slot.dtype, 32), slot.name);
    symbol->slots[i] = slot;
  }
  free(search);
  return fits;
}

/* ---- Allocation -------------------------------------------------------------------------- */

int64_t bp__buffer_elements(BpEmitter *e, const BpIrNode *buffer) {
  int64_t elements = 1;
  for (int32_t i = 0; i < e->ir->num_operands(buffer); i++) {
    int64_t extent = 0;
    if (!constant(e, e->ir->operand(buffer, i), &extent) || extent < 0)
      return -1;
    if (__builtin_mul_overflow(elements, extent, &elements))
      return -1;
  }
  return elements;
}

static int64_t element_bytes(BpDataType dtype) {
  return (int64_t)(dtype.bits + 7) / 8 * dtype.lanes;
}

static void allocate_array(BpEmitter *e, const BpIrNode *buffer, BpSymbol *symbol,
                           int64_t elements) {
  int is_shared = e->ir->int_value(buffer) == BP_IR_SCOPE_SHARED;
  const char *form = is_shared && !(e->dialect->flags & BP_DIALECT_HOST) ? e->dialect->shared_array
                                                                         : e->dialect->local_array;
  if (!form || elements < 0) {
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "an array %s of %s", e->ir->str_value(buffer),
             form ? "unknown size" : "this scope");
    return;
  }
  const char *count = bp__format(e, "%lld", (long long)(elements > 0 ? elements : 1));
  BpDataType dtype = memory_dtype(symbol->dtype);
  const char *text = bp__apply(e, form, bp__memory_type(e, dtype), symbol->expr.text, count);
  if (is_shared && !(e->dialect->flags & BP_DIALECT_HOST)) {
    int is_global = (e->dialect->flags & BP_DIALECT_SHARED_GLOBAL) != 0;
    symbol->is_shared = 1;
    bp__appendf(e, is_global ? &e->before : &e->opening, "%s%s;\n", is_global ? "" : "  ", text);
  } else {
    bp__line(e, "%s;", text);
  }
}

/* Allocates an array in the host's workspace and frees it after the body, also if the body
 * fails. */
static void allocate_workspace(BpEmitter *e, const BpIrNode *buffer, BpSymbol *symbol,
                               const BpIrNode *body) {
  const char *size = bp__format(e, "%lldULL", (long long)element_bytes(symbol->dtype));
  int32_t count = e->ir->num_operands(buffer);
  const BpIrNode *roots[64];
  for (int32_t i = 0; i < count && i < 64; i++)
    roots[i] = e->ir->operand(buffer, i);
  bp__begin_statement(e, roots, count < 64 ? count : 64);
  for (int32_t i = 0; i < count; i++)
    size = bp__format(e, "%s * (unsigned long long)%s", size,
                      bp__index(e, e->ir->operand(buffer, i)).text);
  const char *type = bp__type(e, memory_dtype(symbol->dtype));
  const char *name = symbol->expr.text;
  bp__line(e, "%s *restrict %s = bp_workspace_alloc(%s);", type, name, size);
  bp__line(e, "if (!%s)", name);
  bp__line(e, "  %s", bp__leave(e));
  int32_t outer = e->cleanup;
  e->cleanup = e->next_name++;
  int32_t label = e->cleanup;
  bp__note_name(e, label, bp__format(e, "leave_%d", label));
  bp__stmt(e, body);
  e->cleanup = outer;
  bp__line(e, "leave_%d: __attribute__((unused));", label);
  bp__line(e, "bp_workspace_free(%s);", name);
  bp__line(e, "if (rc)");
  bp__line(e, "  %s", bp__leave(e));
}

void bp__allocate(BpEmitter *e, const BpIrNode *node) {
  const BpIrNode *buffer = e->ir->operand(node, 0);
  const BpIrNode *body = e->ir->operand(node, 1);
  BpSymbol *symbol = bp__declare(e, buffer, e->ir->dtype(buffer));
  if (!symbol)
    return;
  int64_t scope = e->ir->int_value(buffer);
  int64_t elements = bp__buffer_elements(e, buffer);
  int64_t bytes = 0;
  int is_large = elements < 0 ||
                 __builtin_mul_overflow(elements, element_bytes(symbol->dtype), &bytes) ||
                 bytes > STACK_LIMIT;
  int is_host = (e->dialect->flags & BP_DIALECT_HOST) != 0;
  int32_t num_texels = e->num_texels;
  bp__line(e, "{");
  e->indent++;
  if (scope == BP_IR_SCOPE_LOCAL && !is_large && become_variables(e, buffer, body, symbol)) {
    bp__stmt(e, body);
  } else if (is_host && is_large) {
    allocate_workspace(e, buffer, symbol, body);
  } else if (scope == BP_IR_SCOPE_GLOBAL && !is_host) {
    bp__fail(e, BP_ERROR_NOT_IMPLEMENTED, "memory %s allocated in a kernel",
             e->ir->str_value(buffer));
  } else {
    allocate_array(e, buffer, symbol, elements);
    bp__stmt(e, body);
  }
  e->indent--;
  e->num_texels = num_texels;
  bp__line(e, "}");
  bp__undeclare(e, buffer);
}
