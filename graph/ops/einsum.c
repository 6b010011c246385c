/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum, built from other operators: operands are multiplied one after the other, as matrix
 * products over summed indices, and an index is summed over as soon as no later operand has it. */
#include <string.h>

#include "graph/ops/rows.h"

/* Labels of axes: letters, and numbers from ELLIPSIS on for the axes of an ellipsis, counted from
 * the last axis. */
#define ELLIPSIS 256

/* A list of axes by their labels. */
typedef struct Labels {
  int32_t count;
  int32_t at[BP_GRAPH_MAX_NDIM];
} Labels;

/* A factor: a value and the labels of its axes. */
typedef struct Term {
  BpGraphValue *value;
  Labels labels;
} Term;

typedef struct Einsum {
  BpGraph *graph;
  const BpGraphNode *node;
  Term *terms; /* a term for each input */
  Labels out;
} Einsum;

static int32_t find_label(const Labels *labels, int32_t label) {
  for (int32_t i = 0; i < labels->count; i++)
    if (labels->at[i] == label)
      return i;
  return -1;
}

/* ---- The equation ------------------------------------------------------------------------ */

static int is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int add_label(const BpGraphNode *node, Labels *labels, int32_t label) {
  if (labels->count == BP_GRAPH_MAX_NDIM)
    return bp__op_error(node, "a term of its equation has more than %d dimensions",
                        BP_GRAPH_MAX_NDIM);
  labels->at[labels->count++] = label;
  return 0;
}

/* Reads labels from `*text` up to the end of a term; an ellipsis stands for `open` axes. Returns
 * whether the term has an ellipsis, or -1 with an error. */
static int read_labels(const BpGraphNode *node, const char **text, int32_t open, Labels *labels) {
  int has_ellipsis = 0;
  labels->count = 0;
  for (; **text && **text != ',' && **text != '-'; (*text)++) {
    if (**text == ' ')
      continue;
    if (is_letter(**text)) {
      if (add_label(node, labels, **text))
        return -1;
      continue;
    }
    if (has_ellipsis || strncmp(*text, "...", 3))
      return bp__op_bad(node, "its equation is not understood at '%s'", *text);
    has_ellipsis = 1;
    *text += 2;
    for (int32_t i = open - 1; i >= 0; i--)
      if (add_label(node, labels, ELLIPSIS + i))
        return -1;
  }
  return has_ellipsis;
}

/* Labels the axes of an operand; `*most` is raised to the number of axes of the operand's
 * ellipsis. */
static int read_term(const BpGraphNode *node, const char **text, Term *term, int32_t *most) {
  const char *again = *text;
  int has_ellipsis = read_labels(node, text, 0, &term->labels);
  int32_t open = term->value->ndim - term->labels.count;
  if (has_ellipsis < 0)
    return -1;
  if (has_ellipsis ? open < 0 : open != 0)
    return bp__op_bad(node, "an operand of %d dimensions has %d labels in its equation",
                      term->value->ndim, term->labels.count);
  if (has_ellipsis && open > *most)
    *most = open;
  return read_labels(node, &again, open, &term->labels) < 0 ? -1 : 0;
}

static int32_t count_label(const Einsum *einsum, int32_t label) {
  int32_t count = 0;
  for (int32_t i = 0; i < einsum->node->num_inputs; i++)
    for (int32_t k = 0; k < einsum->terms[i].labels.count; k++)
      count += einsum->terms[i].labels.at[k] == label;
  return count;
}

/* The result of an equation without an output has the axes of the ellipsis, then the labels that
 * occur once, in alphabetical order. */
static int implied_output(Einsum *einsum, int32_t most) {
  einsum->out.count = 0;
  for (int32_t i = most - 1; i >= 0; i--)
    if (add_label(einsum->node, &einsum->out, ELLIPSIS + i))
      return -1;
  for (int32_t c = 'A'; c <= 'z'; c++)
    if (is_letter((char)c) && count_label(einsum, c) == 1 &&
        add_label(einsum->node, &einsum->out, c))
      return -1;
  return 0;
}

static int check_output(const Einsum *einsum, int32_t most) {
  for (int32_t i = 0; i < einsum->out.count; i++)
    if (find_label(&einsum->out, einsum->out.at[i]) != i || !count_label(einsum, einsum->out.at[i]))
      return bp__op_bad(einsum->node, "a label of its output occurs twice, or in no operand");
  for (int32_t i = 0; i < most; i++)
    if (find_label(&einsum->out, ELLIPSIS + i) < 0)
      return bp__op_error(einsum->node, "its output has no '...', which an operand has");
  return 0;
}

static int read_equation(Einsum *einsum) {
  const BpGraphNode *node = einsum->node;
  const char *text = bp__node_str(node, "equation", "");
  int32_t most = 0;
  for (int32_t i = 0; i < node->num_inputs; i++) {
    if (!(einsum->terms[i].value = node->inputs[i]))
      return bp__op_bad(node, "input %d is missing", i);
    if (read_term(node, &text, &einsum->terms[i], &most))
      return -1;
    if ((*text == ',') != (i + 1 < node->num_inputs))
      return bp__op_bad(node, "its equation has another number of terms than its %d inputs",
                        node->num_inputs);
    text += *text == ',';
  }
  if (*text) {
    if (strncmp(text, "->", 2))
      return bp__op_bad(node, "its equation is not understood at '%s'", text);
    text += 2;
    if (read_labels(node, &text, most, &einsum->out) < 0)
      return -1;
    if (*text)
      return bp__op_bad(node, "its equation goes on after its output, at '%s'", text);
  } else if (implied_output(einsum, most)) {
    return -1;
  }
  return check_output(einsum, most);
}

/* ---- One term ---------------------------------------------------------------------------- */

/* Transposes the axes of a term into the order of `labels`, which contains all of them. */
static int arrange(const Einsum *einsum, Term *term, const Labels *labels) {
  int64_t perm[BP_GRAPH_MAX_NDIM];
  int32_t moved = 0;
  for (int32_t i = 0; i < labels->count; i++) {
    perm[i] = find_label(&term->labels, labels->at[i]);
    moved |= perm[i] != i;
  }
  if (moved)
    term->value = bp__op_transpose(einsum->graph, einsum->node, term->value, perm, labels->count);
  term->labels = *labels;
  return term->value ? 0 : -1;
}

/* Takes the elements whose indices along axes `a` < `b` are equal: if these axes are last and
 * fused, every element at a multiple of extent + 1. */
static int take_diagonal(const Einsum *einsum, Term *term, int32_t a, int32_t b) {
  const BpGraphValue *in = term->value;
  int64_t perm[BP_GRAPH_MAX_NDIM], shape[BP_GRAPH_MAX_NDIM], n = in->shape[a], label;
  int32_t rest = 0, ndim = in->ndim;
  if (bp__extent_is_open(n) || bp__extent_is_open(in->shape[b]))
    return bp__op_error(einsum->node, "a label that an operand has twice names an open extent, "
                                      "which is not supported");
  if (in->shape[b] != n)
    return bp__op_bad(einsum->node, "a label names extents of %lld and %lld", (long long)n,
                      (long long)in->shape[b]);
  label = term->labels.at[a];
  for (int32_t i = 0; i < ndim; i++) {
    if (i == a || i == b)
      continue;
    perm[rest] = i;
    shape[rest] = in->shape[i];
    term->labels.at[rest++] = term->labels.at[i];
  }
  perm[rest] = a;
  perm[rest + 1] = b;
  shape[rest] = n * n;
  term->labels.at[rest] = (int32_t)label;
  term->labels.count = rest + 1;
  term->value = bp__op_transpose(einsum->graph, einsum->node, term->value, perm, ndim);
  term->value = bp__op_reshape(einsum->graph, einsum->node, term->value, shape, rest + 1);
  int64_t bounds[] = {0, n * n, rest, n + 1};
  BpGraphValue *inputs[5] = {term->value};
  for (int32_t i = 0; i < 4; i++)
    inputs[i + 1] = bp__graph_int_vector(einsum->graph, &bounds[i], 1);
  term->value = bp__op_apply(einsum->graph, "", "Slice", einsum->node->name, inputs, 5, NULL, 0);
  return term->value ? 0 : -1;
}

static int take_diagonals(const Einsum *einsum, Term *term) {
  for (int32_t b = 1; b < term->labels.count; b++) {
    int32_t a = find_label(&term->labels, term->labels.at[b]);
    if (a == b)
      continue;
    if (take_diagonal(einsum, term, a, b))
      return -1;
    b = 0;
  }
  return 0;
}

/* Whether the output, or a term from `next` on, has the label. */
static int is_needed(const Einsum *einsum, int32_t label, int32_t next) {
  int needed = find_label(&einsum->out, label) >= 0;
  for (int32_t i = next; i < einsum->node->num_inputs; i++)
    needed |= find_label(&einsum->terms[i].labels, label) >= 0;
  return needed;
}

/* Sums over the axes that neither `other` (or NULL), a later term nor the output has. */
static int sum_out(const Einsum *einsum, Term *term, const Term *other, int32_t next) {
  int64_t axes[BP_GRAPH_MAX_NDIM];
  int32_t count = 0, kept = 0;
  BpGraphAttr keepdims = bp__attr_int(einsum->graph, "keepdims", 0);
  for (int32_t i = 0; i < term->labels.count; i++) {
    int32_t label = term->labels.at[i];
    if ((other && find_label(&other->labels, label) >= 0) || is_needed(einsum, label, next))
      term->labels.at[kept++] = label;
    else
      axes[count++] = i;
  }
  term->labels.count = kept;
  if (count == 0)
    return 0;
  BpGraphValue *inputs[] = {term->value, bp__graph_int_vector(einsum->graph, axes, count)};
  term->value =
      bp__op_apply(einsum->graph, "", "ReduceSum", einsum->node->name, inputs, 2, &keepdims, 1);
  return term->value ? 0 : -1;
}

/* ---- Two terms --------------------------------------------------------------------------- */

/* Drops an axis of extent 1 that the other term has with a longer extent. Two axes with a common
 * label must have one extent, which a run checks if it is open. */
static int drop_single(const Einsum *einsum, Term *term, const Term *other) {
  int64_t shape[BP_GRAPH_MAX_NDIM], same[BP_GRAPH_MAX_NDIM] = {0};
  int32_t kept = 0, count = term->labels.count;
  for (int32_t i = 0; i < count; i++) {
    int32_t at = find_label(&other->labels, term->labels.at[i]);
    int64_t extent = term->value->shape[i], its = at < 0 ? extent : other->value->shape[at];
    same[i] = extent == 1 || its == 1 ? extent : its;
    if (extent == 1 && its != 1)
      continue;
    shape[kept] = same[i];
    term->labels.at[kept++] = term->labels.at[i];
  }
  term->labels.count = kept;
  term->value = bp__op_as_shape(einsum->graph, einsum->node, term->value, same,
                                "a label of its equation names different extents");
  if (term->value && kept < count)
    term->value = bp__op_reshape(einsum->graph, einsum->node, term->value, shape, kept);
  return term->value ? 0 : -1;
}

/* The axes of a pair of terms: common axes that stay, summed axes, and axes of only one term. */
typedef struct Pair {
  Labels batch, summed, left, right;
} Pair;

static void push(Labels *labels, int32_t label) {
  labels->at[labels->count++] = label;
}

static void split_axes(const Einsum *einsum, const Term *a, const Term *b, int32_t next,
                       Pair *pair) {
  memset(pair, 0, sizeof(*pair));
  for (int32_t i = 0; i < a->labels.count; i++) {
    int32_t label = a->labels.at[i];
    push(find_label(&b->labels, label) < 0 ? &pair->left
         : is_needed(einsum, label, next)  ? &pair->batch
                                           : &pair->summed,
         label);
  }
  for (int32_t i = 0; i < b->labels.count; i++)
    if (find_label(&a->labels, b->labels.at[i]) < 0)
      push(&pair->right, b->labels.at[i]);
}

static void append(Labels *labels, const Labels *more) {
  for (int32_t i = 0; i < more->count; i++)
    push(labels, more->at[i]);
}

/* Arranges the axes as `batch`, `first` and `last`, and fuses each of the lists to one axis. */
static BpGraphValue *as_matrix(const Einsum *einsum, Term *term, const Labels *batch,
                               const Labels *first, const Labels *last) {
  int64_t shape[3] = {1, 1, 1};
  Labels order = *batch;
  append(&order, first);
  append(&order, last);
  if (arrange(einsum, term, &order))
    return NULL;
  for (int32_t i = 0; i < order.count; i++) {
    int64_t *extent = &shape[i < batch->count ? 0 : i < batch->count + first->count ? 1 : 2];
    *extent = bp__extent_multiply(&einsum->graph->extents, *extent, term->value->shape[i]);
    if (*extent == BP_EXTENT_NONE)
      return NULL;
  }
  int32_t skip = batch->count == 0;
  return bp__op_reshape(einsum->graph, einsum->node, term->value, shape + skip, 3 - skip);
}

static int64_t extent_of(const Term *a, const Term *b, int32_t label) {
  int32_t at = find_label(&a->labels, label);
  return at >= 0 ? a->value->shape[at] : b->value->shape[find_label(&b->labels, label)];
}

/* Reshapes the term to the axes of `all`; an axis whose label the term lacks has extent 1. */
static BpGraphValue *spread(const Einsum *einsum, Term *term, const Labels *all) {
  int64_t shape[BP_GRAPH_MAX_NDIM];
  Labels order = {0};
  for (int32_t i = 0; i < all->count; i++)
    if (find_label(&term->labels, all->at[i]) >= 0)
      push(&order, all->at[i]);
  if (arrange(einsum, term, &order))
    return NULL;
  for (int32_t i = 0; i < all->count; i++) {
    int32_t at = find_label(&term->labels, all->at[i]);
    shape[i] = at < 0 ? 1 : term->value->shape[at];
  }
  return bp__op_reshape(einsum->graph, einsum->node, term->value, shape, all->count);
}

/* Replaces `a` by the product of both terms; `next` is the first of the remaining terms. */
static int multiply(const Einsum *einsum, Term *a, Term *b, int32_t next) {
  BpGraph *graph = einsum->graph;
  Labels all;
  Pair pair;
  if (drop_single(einsum, a, b) || drop_single(einsum, b, a) || sum_out(einsum, a, b, next) ||
      sum_out(einsum, b, a, next))
    return -1;
  split_axes(einsum, a, b, next, &pair);
  all = pair.batch;
  if (all.count + pair.left.count + pair.right.count > BP_GRAPH_MAX_NDIM)
    return bp__op_error(einsum->node, "a product has more than %d dimensions", BP_GRAPH_MAX_NDIM);
  append(&all, &pair.left);
  append(&all, &pair.right);
  if (pair.summed.count == 0) {
    a->value =
        bp__op_binary(graph, einsum->node, "Mul", spread(einsum, a, &all), spread(einsum, b, &all));
  } else {
    int64_t shape[BP_GRAPH_MAX_NDIM];
    for (int32_t i = 0; i < all.count; i++)
      shape[i] = extent_of(a, b, all.at[i]);
    BpGraphValue *product = bp__op_binary(
        graph, einsum->node, "MatMul", as_matrix(einsum, a, &pair.batch, &pair.left, &pair.summed),
        as_matrix(einsum, b, &pair.batch, &pair.summed, &pair.right));
    a->value = bp__op_reshape(graph, einsum->node, product, shape, all.count);
  }
  a->labels = all;
  return a->value ? 0 : -1;
}

BP_ROW_EXPAND(einsum) {
  Einsum einsum = {.graph = graph, .node = node};
  einsum.terms =
      bp__arena_alloc_array(&graph->arena, (size_t)node->num_inputs, sizeof(*einsum.terms));
  if (!einsum.terms || read_equation(&einsum))
    return -1;
  for (int32_t i = 0; i < node->num_inputs; i++)
    if (take_diagonals(&einsum, &einsum.terms[i]))
      return -1;
  Term *result = &einsum.terms[0];
  for (int32_t i = 1; i < node->num_inputs; i++)
    if (multiply(&einsum, result, &einsum.terms[i], i + 1))
      return -1;
  if (sum_out(&einsum, result, NULL, node->num_inputs) || arrange(&einsum, result, &einsum.out))
    return -1;
  node->outputs[0] = result->value;
  return 0;
}
