/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of open extents, which are polynomials with integer coefficients over atoms. */
#include "graph/ir/extent.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>

#define MAX_TERMS   12
#define MAX_FACTORS 8

typedef enum Kind { SYMBOL, SUM, QUOTIENT, LEAST, GREATEST } Kind;

/* A term: a number times atoms; the factors are the atoms' places, sorted. */
typedef struct Term {
  int64_t multiple;
  int32_t num_factors;
  int32_t factors[MAX_FACTORS];
} Term;

/* A sum: constant + terms, sorted by their factors; no term is 0. */
typedef struct Sum {
  int64_t constant;
  int32_t count;
  bool is_none;
  Term terms[MAX_TERMS];
} Sum;

typedef struct Expression {
  Kind kind;
  const char *key;  /* SYMBOL: identifies the symbol, together with `is_made` */
  bool is_made;     /* SYMBOL: the compiler chose the key, not the model */
  const char *name; /* SYMBOL: the key, changed if another symbol has that name */
  int64_t likely;   /* SYMBOL */
  int64_t least;    /* SYMBOL */
  int64_t a, b;     /* operands of QUOTIENT, LEAST, GREATEST; `a`: definition of a SYMBOL */
  Sum sum;          /* SUM */
} Expression;

int64_t bp__extents_at(int32_t index) {
  return INT64_MIN + 1 + index;
}

static int32_t place_of(int64_t extent) {
  return (int32_t)(extent - INT64_MIN - 1);
}

static const Expression *expression_at(const BpExtents *extents, int32_t place) {
  return extents->expressions->items[place];
}

int32_t bp__extents_count(const BpExtents *extents) {
  return extents->expressions ? (int32_t)extents->expressions->size : 0;
}

const char *bp__extents_symbol_name(const BpExtents *extents, int32_t index) {
  const Expression *expression = expression_at(extents, index);
  return expression->kind == SYMBOL ? expression->name : NULL;
}

int64_t bp__extents_likely(const BpExtents *extents, int32_t index) {
  return expression_at(extents, index)->likely;
}

bool bp__extents_any_open(const int64_t *extents, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (bp__extent_is_open(extents[i]))
      return true;
  return false;
}

/* ---- The table --------------------------------------------------------------------------- */

static bool terms_equal(const Term *a, const Term *b) {
  return a->num_factors == b->num_factors &&
         !memcmp(a->factors, b->factors, (size_t)a->num_factors * sizeof(*a->factors));
}

static bool sums_equal(const Sum *a, const Sum *b) {
  bool equal = a->constant == b->constant && a->count == b->count;
  for (int32_t i = 0; equal && i < a->count; i++)
    equal = a->terms[i].multiple == b->terms[i].multiple && terms_equal(&a->terms[i], &b->terms[i]);
  return equal;
}

static bool expressions_equal(const Expression *a, const Expression *b) {
  if (a->kind != b->kind)
    return false;
  if (a->kind == SYMBOL)
    return a->is_made == b->is_made && !strcmp(a->key, b->key);
  return a->kind == SUM ? sums_equal(&a->sum, &b->sum) : a->a == b->a && a->b == b->b;
}

static bool has_name(const BpExtents *extents, const char *name) {
  for (int32_t i = 0; i < bp__extents_count(extents); i++)
    if (expression_at(extents, i)->kind == SYMBOL && !strcmp(expression_at(extents, i)->name, name))
      return true;
  return false;
}

/* Gives a symbol memory of its own for its key, and a name that no other symbol has: a model may
 * call a symbol as the compiler calls another. */
static int name_symbol(const BpExtents *extents, Expression *symbol) {
  symbol->key = bp__arena_strdup(extents->arena, symbol->key);
  symbol->name = symbol->key;
  while (symbol->name && has_name(extents, symbol->name))
    symbol->name = bp__arena_printf(extents->arena, "%s'", symbol->name);
  return symbol->name ? 0 : -1;
}

/* The place of an expression, which is added to the table if it is new. */
static int64_t intern(BpExtents *extents, const Expression *expression) {
  for (size_t i = 0; i < extents->expressions->size; i++)
    if (expressions_equal(extents->expressions->items[i], expression))
      return bp__extents_at((int32_t)i);
  Expression *copy = bp__arena_alloc(extents->arena, sizeof(*copy));
  if (!copy)
    return BP_EXTENT_NONE;
  *copy = *expression;
  if (copy->kind == SYMBOL && name_symbol(extents, copy))
    return BP_EXTENT_NONE;
  return bp__list_push(extents->expressions, copy)
             ? BP_EXTENT_NONE
             : bp__extents_at((int32_t)extents->expressions->size - 1);
}

int64_t bp__extent_symbol(BpExtents *extents, const char *name, int64_t likely) {
  return intern(extents,
                &(Expression){.kind = SYMBOL, .key = name, .likely = likely, .a = BP_EXTENT_NONE});
}

int64_t bp__extent_make_symbol(BpExtents *extents, const char *key, int64_t likely) {
  return intern(
      extents,
      &(Expression){
          .kind = SYMBOL, .key = key, .is_made = true, .likely = likely, .a = BP_EXTENT_NONE});
}

int64_t bp__extents_definition(const BpExtents *extents, int32_t index) {
  const Expression *expression = expression_at(extents, index);
  return expression->kind == SYMBOL ? expression->a : BP_EXTENT_NONE;
}

/* ---- Sums -------------------------------------------------------------------------------- */

static Sum sum_of(const BpExtents *extents, int64_t extent) {
  if (extent == BP_EXTENT_NONE)
    return (Sum){.is_none = true};
  if (!bp__extent_is_open(extent))
    return (Sum){.constant = extent};
  const Expression *expression = expression_at(extents, place_of(extent));
  if (expression->kind == SUM)
    return expression->sum;
  Sum sum = {.count = 1};
  sum.terms[0] = (Term){1, 1, {place_of(extent)}};
  return sum;
}

static int refuse(Sum *sum) {
  sum->is_none = true;
  return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "the arithmetic of open extents becomes too large; give the shapes of the "
                        "inputs (--shape)");
}

static int compare_terms(const Term *a, const Term *b) {
  if (a->num_factors != b->num_factors)
    return b->num_factors - a->num_factors;
  for (int32_t i = 0; i < a->num_factors; i++)
    if (a->factors[i] != b->factors[i])
      return a->factors[i] - b->factors[i];
  return 0;
}

static void add_term(Sum *sum, const Term *term) {
  int32_t at = 0;
  if (term->multiple == 0)
    return;
  while (at < sum->count && compare_terms(&sum->terms[at], term) < 0)
    at++;
  if (at < sum->count && terms_equal(&sum->terms[at], term)) {
    if (__builtin_add_overflow(sum->terms[at].multiple, term->multiple, &sum->terms[at].multiple))
      refuse(sum);
    if (sum->terms[at].multiple == 0)
      memmove(&sum->terms[at], &sum->terms[at + 1],
              (size_t)(--sum->count - at) * sizeof(*sum->terms));
    return;
  }
  if (sum->count == MAX_TERMS) {
    refuse(sum);
    return;
  }
  memmove(&sum->terms[at + 1], &sum->terms[at], (size_t)(sum->count++ - at) * sizeof(*sum->terms));
  sum->terms[at] = *term;
}

/* Computes sum + other * factor in `sum`. */
static void add_scaled(Sum *sum, const Sum *other, int64_t factor) {
  int64_t constant;
  sum->is_none |= other->is_none;
  if (sum->is_none)
    return;
  if (__builtin_mul_overflow(other->constant, factor, &constant) ||
      __builtin_add_overflow(sum->constant, constant, &sum->constant))
    refuse(sum);
  for (int32_t i = 0; i < other->count && !sum->is_none; i++) {
    Term term = other->terms[i];
    if (__builtin_mul_overflow(term.multiple, factor, &term.multiple))
      refuse(sum);
    else
      add_term(sum, &term);
  }
}

static int compare_places(const void *a, const void *b) {
  return *(const int32_t *)a - *(const int32_t *)b;
}

/* Computes sum + other * term in `sum`. */
static void add_product(Sum *sum, const Sum *other, const Term *by) {
  for (int32_t i = 0; i < other->count && !sum->is_none; i++) {
    Term term = other->terms[i];
    if (term.num_factors + by->num_factors > MAX_FACTORS ||
        __builtin_mul_overflow(term.multiple, by->multiple, &term.multiple)) {
      refuse(sum);
      return;
    }
    memcpy(term.factors + term.num_factors, by->factors,
           (size_t)by->num_factors * sizeof(*by->factors));
    term.num_factors += by->num_factors;
    qsort(term.factors, (size_t)term.num_factors, sizeof(*term.factors), compare_places);
    add_term(sum, &term);
  }
  Term alone = *by;
  if (other->constant == 0 || sum->is_none)
    return;
  if (__builtin_mul_overflow(alone.multiple, other->constant, &alone.multiple))
    refuse(sum);
  else
    add_term(sum, &alone);
}

/* The extent for a sum: a number or an expression. */
static int64_t extent_of(BpExtents *extents, const Sum *sum) {
  if (sum->is_none)
    return BP_EXTENT_NONE;
  if (sum->count == 0) {
    if (bp__extent_is_open(sum->constant)) {
      Sum large = *sum;
      refuse(&large);
      return BP_EXTENT_NONE;
    }
    return sum->constant;
  }
  const Term *first = &sum->terms[0];
  if (sum->count == 1 && sum->constant == 0 && first->multiple == 1 && first->num_factors == 1)
    return bp__extents_at(first->factors[0]);
  return intern(extents, &(Expression){.kind = SUM, .sum = *sum});
}

int64_t bp__extent_product(BpExtents *extents, const int64_t *factors, int32_t count) {
  int64_t product = 1;
  for (int32_t i = 0; i < count; i++)
    product = bp__extent_multiply(extents, product, factors[i]);
  return product;
}

/* ---- Quotients, minima and maxima -------------------------------------------------------- */

/* Divides a term by `by`; false if the term lacks a factor of `by`. */
static bool divide_term(Term *term, const Term *by) {
  if (term->multiple % by->multiple != 0)
    return false;
  term->multiple /= by->multiple;
  for (int32_t i = 0; i < by->num_factors; i++) {
    int32_t at = 0;
    while (at < term->num_factors && term->factors[at] != by->factors[i])
      at++;
    if (at == term->num_factors)
      return false;
    memmove(&term->factors[at], &term->factors[at + 1],
            (size_t)(--term->num_factors - at) * sizeof(*term->factors));
  }
  return true;
}

/* The first term of a sum; the constant if the sum has no term. */
static Term leading_term(const Sum *sum) {
  return sum->count > 0 ? sum->terms[0] : (Term){sum->constant, 0, {0}};
}

/* Computes sum += other * by, where `by` may be a number. */
static void add_multiple(Sum *sum, const Sum *other, const Term *by) {
  if (by->num_factors > 0)
    add_product(sum, other, by);
  else
    add_scaled(sum, other, by->multiple);
}

/* Divides x by `by` by long division; false if the remainder is not 0. */
static bool divide_exactly(const Sum *x, const Sum *by, Sum *quotient) {
  const Sum one = {.constant = 1};
  const Term divisor = leading_term(by);
  Sum rest = *x;
  *quotient = (Sum){0};
  while ((rest.count > 0 || rest.constant != 0) && divisor.multiple > 0) {
    Term term = leading_term(&rest);
    if (!divide_term(&term, &divisor))
      return false;
    add_multiple(quotient, &one, &term);
    term.multiple = -term.multiple;
    add_multiple(&rest, by, &term);
    if (rest.is_none || quotient->is_none) {
      bp_error_clear();
      return false;
    }
  }
  return divisor.multiple > 0;
}

static int64_t floor_quotient(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Moves from x to the quotient the multiples of a number: floor((n * q + r) / n) is q + floor(r /
 * n). The multiples that remain in x are at least 0 and less than the number. */
static void divide_parts(Sum *x, int64_t number, Sum *quotient) {
  int32_t left = 0;
  *quotient = (Sum){.constant = floor_quotient(x->constant, number)};
  x->constant -= quotient->constant * number;
  for (int32_t i = 0; i < x->count; i++) {
    Term whole = x->terms[i], rest = whole;
    whole.multiple = floor_quotient(whole.multiple, number);
    rest.multiple -= whole.multiple * number;
    add_term(quotient, &whole);
    if (rest.multiple)
      x->terms[left++] = rest;
  }
  x->count = left;
}

static int64_t divide_by_number(BpExtents *extents, const Sum *x, int64_t number) {
  Sum rest = *x, quotient;
  divide_parts(&rest, number, &quotient);
  int64_t whole = extent_of(extents, &quotient), part = extent_of(extents, &rest);
  if (whole == BP_EXTENT_NONE || part == BP_EXTENT_NONE)
    return BP_EXTENT_NONE;
  if (bp__extent_is_open(part))
    part = intern(extents, &(Expression){.kind = QUOTIENT, .a = part, .b = number});
  else
    part = floor_quotient(part, number);
  return bp__extent_add(extents, whole, part);
}

int64_t bp__extent_divide(BpExtents *extents, int64_t a, int64_t b) {
  Sum x = sum_of(extents, a), y = sum_of(extents, b), quotient;
  if (x.is_none || y.is_none)
    return BP_EXTENT_NONE;
  if (x.count == 0 && y.count == 0)
    return floor_quotient(a, b);
  if (divide_exactly(&x, &y, &quotient))
    return extent_of(extents, &quotient);
  if (y.count == 0 && b > 0)
    return divide_by_number(extents, &x, b);
  return intern(extents, &(Expression){.kind = QUOTIENT, .a = a, .b = b});
}

bool bp__extent_divides(const BpExtents *extents, int64_t a, int64_t b) {
  Sum x = sum_of(extents, a), y = sum_of(extents, b), quotient;
  return !x.is_none && !y.is_none && divide_exactly(&x, &y, &quotient);
}

/* The lower bound of an expression without a known lower bound. */
#define UNBOUNDED INT64_MIN

static int64_t lower_bound(const BpExtents *extents, int64_t extent);

/* The lower bound of an atom, or UNBOUNDED. */
static int64_t atom_bound(const BpExtents *extents, int32_t place) {
  const Expression *atom = expression_at(extents, place);
  if (atom->kind == SYMBOL)
    return atom->least;
  int64_t a = lower_bound(extents, atom->a), b = lower_bound(extents, atom->b);
  if (atom->kind == GREATEST)
    return a > b ? a : b;
  if (atom->kind == LEAST)
    return a < b ? a : b;
  if (a != UNBOUNDED && !bp__extent_is_open(atom->b) && atom->b > 0)
    return floor_quotient(a, atom->b);
  return a >= 0 && b >= 0 ? 0 : UNBOUNDED;
}

/* The lower bound of a sum; UNBOUNDED if a term may be any negative number. */
static int64_t sum_bound(const BpExtents *extents, const Sum *sum) {
  int64_t bound = sum->constant;
  if (sum->is_none)
    return UNBOUNDED;
  for (int32_t i = 0; i < sum->count; i++) {
    int64_t product = sum->terms[i].multiple;
    bool fits = product > 0;
    for (int32_t k = 0; k < sum->terms[i].num_factors && fits; k++) {
      int64_t factor = atom_bound(extents, sum->terms[i].factors[k]);
      fits = factor >= 0 && !__builtin_mul_overflow(product, factor, &product);
    }
    if (!fits || __builtin_add_overflow(bound, product, &bound))
      return UNBOUNDED;
  }
  return bound;
}

static int64_t lower_bound(const BpExtents *extents, int64_t extent) {
  Sum sum = sum_of(extents, extent);
  return sum_bound(extents, &sum);
}

static bool sum_is_not_negative(const BpExtents *extents, const Sum *sum) {
  return sum_bound(extents, sum) >= 0;
}

/* ---- Sums and products of extents --------------------------------------------------------- */

static int64_t name_expression(BpExtents *extents, int64_t extent);

/* A symbol for an extent that is a sum of more than `most_terms` terms, or the extent itself. An
 * extent that may be negative gets no symbol: symbols are at least 0. */
static int64_t shortened(BpExtents *extents, int64_t extent, int32_t most_terms) {
  Sum sum = sum_of(extents, extent);
  return sum.count > most_terms && sum_is_not_negative(extents, &sum)
             ? name_expression(extents, extent)
             : extent;
}

static Sum add(const BpExtents *extents, int64_t a, int64_t b) {
  Sum sum = sum_of(extents, a), other = sum_of(extents, b);
  add_scaled(&sum, &other, 1);
  return sum;
}

static Sum subtract(const BpExtents *extents, int64_t a, int64_t b) {
  Sum sum = sum_of(extents, a), other = sum_of(extents, b);
  add_scaled(&sum, &other, -1);
  return sum;
}

static Sum multiply(const BpExtents *extents, int64_t a, int64_t b) {
  Sum x = sum_of(extents, a), y = sum_of(extents, b), product = {.is_none = x.is_none || y.is_none};
  add_scaled(&product, &x, y.constant);
  for (int32_t i = 0; i < y.count && !product.is_none; i++)
    add_product(&product, &x, &y.terms[i]);
  return product;
}

/* The result of an operation. If the result has too many terms, the operation is repeated with
 * operands that are shortened to `most_terms` terms. */
static int64_t computed(BpExtents *extents,
                        Sum (*operation)(const BpExtents *extents, int64_t a, int64_t b), int64_t a,
                        int64_t b, int32_t most_terms) {
  Sum sum = operation(extents, a, b);
  if (sum.is_none && a != BP_EXTENT_NONE && b != BP_EXTENT_NONE) {
    bp_error_clear();
    a = shortened(extents, a, most_terms);
    b = shortened(extents, b, most_terms);
    sum = operation(extents, a, b);
  }
  return extent_of(extents, &sum);
}

int64_t bp__extent_add(BpExtents *extents, int64_t a, int64_t b) {
  return computed(extents, add, a, b, MAX_TERMS / 2);
}

int64_t bp__extent_subtract(BpExtents *extents, int64_t a, int64_t b) {
  return computed(extents, subtract, a, b, MAX_TERMS / 2);
}

int64_t bp__extent_multiply(BpExtents *extents, int64_t a, int64_t b) {
  return computed(extents, multiply, a, b, 1);
}

/* a - b as a sum that is not added to the table. */
static Sum difference(const BpExtents *extents, int64_t a, int64_t b) {
  Sum sum = subtract(extents, a, b);
  if (sum.is_none)
    bp_error_clear();
  return sum;
}

bool bp__extent_at_least(BpExtents *extents, int64_t a, int64_t b) {
  Sum sum = difference(extents, a, b);
  return sum_is_not_negative(extents, &sum);
}

bool bp__extent_differs(BpExtents *extents, int64_t a, int64_t b) {
  Sum sum = difference(extents, a, b), other = difference(extents, b, a);
  if (sum.is_none || other.is_none)
    return false;
  sum.constant--;
  other.constant--;
  return sum_is_not_negative(extents, &sum) || sum_is_not_negative(extents, &other);
}

static int64_t choose(BpExtents *extents, Kind kind, int64_t a, int64_t b) {
  if (a == BP_EXTENT_NONE || b == BP_EXTENT_NONE)
    return BP_EXTENT_NONE;
  if (bp__extent_at_least(extents, a, b))
    return kind == GREATEST ? a : b;
  if (bp__extent_at_least(extents, b, a))
    return kind == GREATEST ? b : a;
  return intern(extents, &(Expression){.kind = kind, .a = a < b ? a : b, .b = a < b ? b : a});
}

int64_t bp__extent_min(BpExtents *extents, int64_t a, int64_t b) {
  return choose(extents, LEAST, a, b);
}

int64_t bp__extent_max(BpExtents *extents, int64_t a, int64_t b) {
  return choose(extents, GREATEST, a, b);
}

/* ---- Symbols for expressions ------------------------------------------------------------- */

static const void *likely_number(void *context, int64_t number) {
  (void)context;
  return (const void *)(intptr_t)number;
}

static const void *likely_symbol(void *context, int32_t index) {
  return (const void *)(intptr_t)expression_at(context, index)->likely;
}

static const void *likely_result(void *context, BpExtentOp op, const void *a, const void *b) {
  int64_t x = (int64_t)(intptr_t)a, y = (int64_t)(intptr_t)b, result = 0;
  bool overflows = false;
  (void)context;
  if (op == BP_EXTENT_ADD)
    overflows = __builtin_add_overflow(x, y, &result);
  else if (op == BP_EXTENT_MULTIPLY)
    overflows = __builtin_mul_overflow(x, y, &result);
  else if (op == BP_EXTENT_DIVIDE)
    result = floor_quotient(x, y ? y : 1);
  else
    result = (op == BP_EXTENT_MIN) == (x < y) ? x : y;
  return (const void *)(intptr_t)(overflows ? 0 : result);
}

int64_t bp__extent_likely(const BpExtents *extents, int64_t extent) {
  BpExtentFold fold = {likely_number, likely_symbol, likely_result, (void *)(uintptr_t)extents};
  return (int64_t)(intptr_t)bp__extent_fold(extents, extent, &fold);
}

static bool is_of_symbols(const BpExtents *extents, const Sum *sum) {
  for (int32_t i = 0; i < sum->count; i++)
    for (int32_t k = 0; k < sum->terms[i].num_factors; k++)
      if (expression_at(extents, sum->terms[i].factors[k])->kind != SYMBOL)
        return false;
  return true;
}

/* The symbol that is defined as a given open extent. */
static int64_t name_expression(BpExtents *extents, int64_t extent) {
  Sum sum = sum_of(extents, extent);
  char text[48], key[80];
  int64_t least = sum_bound(extents, &sum), likely = bp__extent_likely(extents, extent);
  /* The text may be cut; the number, the place of the expression, makes the key unique. */
  snprintf(key, sizeof(key), "%s#%" PRId32, bp__extent_format(extents, extent, text, sizeof(text)),
           place_of(extent));
  return intern(extents, &(Expression){.kind = SYMBOL,
                                       .key = key,
                                       .is_made = true,
                                       .likely = likely > 0 ? likely : 1,
                                       .least = least > 0 ? least : 0,
                                       .a = extent});
}

int64_t bp__extent_name(BpExtents *extents, int64_t extent) {
  return shortened(extents, extent, 1);
}

int64_t bp__extent_define(BpExtents *extents, int64_t extent) {
  Sum sum = sum_of(extents, extent);
  return extent == BP_EXTENT_NONE || is_of_symbols(extents, &sum)
             ? extent
             : name_expression(extents, extent);
}

void bp__extent_require(BpExtents *extents, int64_t extent) {
  Sum sum = sum_of(extents, extent);
  const Term *term = &sum.terms[0];
  if (sum.is_none || sum.count != 1 || term->num_factors != 1 || term->multiple < 1)
    return;
  Expression *symbol = extents->expressions->items[term->factors[0]];
  int64_t least = -floor_quotient(sum.constant, term->multiple);
  if (symbol->kind == SYMBOL && least > symbol->least)
    symbol->least = least;
}

/* ---- As expressions of IR, and as text --------------------------------------------------- */

void bp__extent_mark_symbols(const BpExtents *extents, int64_t extent, bool *marked) {
  if (!bp__extent_is_open(extent))
    return;
  const Expression *expression = expression_at(extents, place_of(extent));
  if (expression->kind == SYMBOL && expression->a == BP_EXTENT_NONE)
    marked[place_of(extent)] = true;
  else if (expression->kind == SYMBOL)
    bp__extent_mark_symbols(extents, expression->a, marked);
  if (expression->kind > SUM) {
    bp__extent_mark_symbols(extents, expression->a, marked);
    bp__extent_mark_symbols(extents, expression->b, marked);
  }
  for (int32_t i = 0; expression->kind == SUM && i < expression->sum.count; i++)
    for (int32_t k = 0; k < expression->sum.terms[i].num_factors; k++)
      bp__extent_mark_symbols(extents, bp__extents_at(expression->sum.terms[i].factors[k]), marked);
}

static const void *fold_sum(const BpExtents *extents, const Sum *sum, const BpExtentFold *fold) {
  const void *result = NULL;
  for (int32_t i = 0; i < sum->count; i++) {
    const Term *term = &sum->terms[i];
    const void *product = NULL;
    for (int32_t k = 0; k < term->num_factors; k++) {
      const void *factor = bp__extent_fold(extents, bp__extents_at(term->factors[k]), fold);
      product = k > 0 ? fold->apply(fold->context, BP_EXTENT_MULTIPLY, product, factor) : factor;
    }
    if (term->multiple != 1)
      product = fold->apply(fold->context, BP_EXTENT_MULTIPLY, product,
                            fold->number(fold->context, term->multiple));
    result = i > 0 ? fold->apply(fold->context, BP_EXTENT_ADD, result, product) : product;
  }
  return sum->constant ? fold->apply(fold->context, BP_EXTENT_ADD, result,
                                     fold->number(fold->context, sum->constant))
                       : result;
}

const void *bp__extent_fold(const BpExtents *extents, int64_t extent, const BpExtentFold *fold) {
  static const BpExtentOp ops[] = {
      [QUOTIENT] = BP_EXTENT_DIVIDE, [LEAST] = BP_EXTENT_MIN, [GREATEST] = BP_EXTENT_MAX};
  if (!bp__extent_is_open(extent))
    return fold->number(fold->context, extent);
  const Expression *expression = expression_at(extents, place_of(extent));
  if (expression->kind == SYMBOL)
    return fold->symbol(fold->context, place_of(extent));
  if (expression->kind == SUM)
    return fold_sum(extents, &expression->sum, fold);
  return fold->apply(fold->context, ops[expression->kind],
                     bp__extent_fold(extents, expression->a, fold),
                     bp__extent_fold(extents, expression->b, fold));
}

/* Appends to a text as many characters as fit. */
static void append(char *text, size_t size, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s", more);
}

static void append_number(char *text, size_t size, int64_t value) {
  char number[24];
  snprintf(number, sizeof(number), "%" PRId64, value);
  append(text, size, number);
}

static void append_extent(const BpExtents *extents, int64_t extent, char *text, size_t size);

static void append_sum(const BpExtents *extents, const Sum *sum, char *text, size_t size) {
  for (int32_t i = 0; i < sum->count; i++) {
    const Term *term = &sum->terms[i];
    append(text, size, i > 0 && term->multiple > 0 ? "+" : "");
    if (term->multiple == -1)
      append(text, size, "-");
    else if (term->multiple != 1)
      append_number(text, size, term->multiple);
    for (int32_t k = 0; k < term->num_factors; k++) {
      append(text, size, k > 0 || llabs(term->multiple) != 1 ? "*" : "");
      append_extent(extents, bp__extents_at(term->factors[k]), text, size);
    }
  }
  append(text, size, sum->constant > 0 ? "+" : "");
  if (sum->constant)
    append_number(text, size, sum->constant);
}

static void append_extent(const BpExtents *extents, int64_t extent, char *text, size_t size) {
  static const char *const names[] = {[QUOTIENT] = "floor(", [LEAST] = "min(", [GREATEST] = "max("};
  if (!bp__extent_is_open(extent)) {
    append_number(text, size, extent);
    return;
  }
  const Expression *expression = expression_at(extents, place_of(extent));
  if (expression->kind == SYMBOL)
    append(text, size, expression->name);
  else if (expression->kind == SUM)
    append_sum(extents, &expression->sum, text, size);
  else {
    append(text, size, names[expression->kind]);
    append_extent(extents, expression->a, text, size);
    append(text, size, expression->kind == QUOTIENT ? "/" : ", ");
    append_extent(extents, expression->b, text, size);
    append(text, size, ")");
  }
}

char *bp__extent_format(const BpExtents *extents, int64_t extent, char *text, size_t size) {
  *text = '\0';
  append_extent(extents, extent, text, size);
  return text;
}
