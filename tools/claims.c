/* SPDX-License-Identifier: Apache-2.0 */
/* Graph compilers' claims on a model: the options that name the compilers, and the report. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/object.h>

/* Nodes of one operator that the same compiler claims, or that no compiler claims for the same
 * reasons. */
typedef struct ClaimRow {
  char *op;
  char *compiler; /* NULL: none */
  char *why;
  int32_t nodes;
} ClaimRow;

static void row_free(void *data) {
  ClaimRow *row = data;
  g_free(row->op);
  g_free(row->compiler);
  g_free(row->why);
  g_free(row);
}

void claims_clear(ClaimReport *report) {
  if (report->rows)
    g_ptr_array_unref(report->rows);
  json_decref(report->placed);
  *report = (ClaimReport){.rows = NULL};
}

int claims_add(void *context, const BpClaimedNode *node) {
  ClaimReport *report = context;
  ClaimRow *row = NULL;
  if (!report->rows)
    report->rows = g_ptr_array_new_with_free_func(row_free);
  report->nodes++;
  report->claimed += node->compiler != NULL;
  for (guint i = 0; i < report->rows->len && !row; i++) {
    ClaimRow *other = report->rows->pdata[i];
    if (!g_strcmp0(other->op, node->op) && !g_strcmp0(other->compiler, node->compiler) &&
        !g_strcmp0(other->why, node->why))
      row = other;
  }
  if (!row) {
    row = g_new0(ClaimRow, 1);
    *row = (ClaimRow){g_strdup(node->op), g_strdup(node->compiler), g_strdup(node->why), 0};
    g_ptr_array_add(report->rows, row);
  }
  row->nodes++;
  return 0;
}

void claims_note_times(void *context, const BpMeasuredClaims *measured) {
  ((ClaimReport *)context)->measured = *measured;
}

static gboolean is_graph_compiler(const char *name) {
  char *registered = g_strconcat("graph_compiler.", name, NULL);
  BpFunction *function = NULL;
  gboolean is_one = bp_registry_get(registered, &function) == 0 && function;
  bp_object_release(function);
  bp_error_clear();
  g_free(registered);
  return is_one;
}

static gboolean is_target(const char *text) {
  char *kind = g_strndup(text, strcspn(text, " "));
  gboolean is_one = bp_target_kind_info(kind) != NULL;
  bp_error_clear();
  g_free(kind);
  return is_one;
}

void claims_take_names(char **targets, OnnxOptions *options) {
  if (!targets[0] || strpbrk(*targets, "{\""))
    return; /* JSON also contains commas */
  GPtrArray *names = g_ptr_array_new(), *left = g_ptr_array_new();
  char **words = g_strsplit(*targets, ",", -1);
  for (char **word = words; *word; word++)
    g_ptr_array_add(!is_target(*word) && is_graph_compiler(*word) ? names : left, *word);
  g_ptr_array_add(left, NULL);
  if (names->len > 0 && left->len > 1) {
    g_free(*targets);
    *targets = g_strjoinv(",", (char **)left->pdata);
    guint count = options->graph_compilers ? g_strv_length(options->graph_compilers) : 0;
    options->graph_compilers = g_renew(char *, options->graph_compilers, count + names->len + 1);
    for (guint i = 0; i < names->len; i++)
      options->graph_compilers[count + i] = g_strdup(names->pdata[i]);
    options->graph_compilers[count + names->len] = NULL;
    options->measures = TRUE;
  }
  g_ptr_array_free(names, TRUE);
  g_ptr_array_free(left, TRUE);
  g_strfreev(words);
}

/* Returns the names in the options; an option may list several names, with commas (g_strfreev). */
char **claims_names(char *const *options) {
  GPtrArray *names = g_ptr_array_new();
  for (; options && *options; options++) {
    char **words = g_strsplit(*options, ",", -1);
    for (char **word = words; *word; word++)
      if (*g_strstrip(*word))
        g_ptr_array_add(names, g_strdup(*word));
    g_strfreev(words);
  }
  g_ptr_array_add(names, NULL);
  return (char **)g_ptr_array_free(names, FALSE);
}

static void print_times(const BpMeasuredClaims *measured) {
  fprintf(stderr, "backplane: %.3f ms with the claimed parts, %.3f ms without",
          (double)measured->claimed_ns / 1e6, (double)measured->generated_ns / 1e6);
  if (measured->mixed_ns > 0)
    fprintf(stderr, ", %.3f ms with the parts that are faster", (double)measured->mixed_ns / 1e6);
  fprintf(stderr, "%s: %d of %d parts are kept\n",
          measured->is_recalled ? " (measured before)" : "", measured->kept_parts,
          measured->num_parts);
}

void claims_print(const ClaimReport *report) {
  if (report->measured.struct_size)
    print_times(&report->measured);
  if (!report->rows)
    return;
  fprintf(stderr, "backplane: graph compilers claim %d of %d nodes\n", report->claimed,
          report->nodes);
  for (guint i = 0; i < report->rows->len; i++) {
    const ClaimRow *row = report->rows->pdata[i];
    if (!row->compiler)
      command_print(stderr, "backplane: %s (%d node%s) is generated code: %s\n", row->op,
                    row->nodes, row->nodes == 1 ? "" : "s", row->why);
  }
}

void claims_set_taker(ClaimReport *report, const char *node, const char *taker) {
  for (size_t i = 0; i < json_array_size(report->placed); i++) {
    json_t *object = json_array_get(report->placed, i);
    if (strcmp(json_string_value(json_object_get(object, "node")), node) == 0)
      json_add_str(object, "runs_as", taker);
  }
}

void claims_add_placed(ClaimReport *report, const char *node, const char *target, const char *why) {
  json_t *object = json_object();
  json_add_str(object, "node", node);
  json_add_str(object, "target", target);
  json_add_str(object, "why", why);
  if (!report->placed)
    report->placed = json_array();
  json_append(report->placed, object);
}

static void add_times_json(json_t *root, const BpMeasuredClaims *measured) {
  json_t *object = json_object();
  json_add(object, "claimed_ms", json_real((double)measured->claimed_ns / 1e6));
  json_add(object, "generated_ms", json_real((double)measured->generated_ns / 1e6));
  if (measured->mixed_ns > 0)
    json_add(object, "mixed_ms", json_real((double)measured->mixed_ns / 1e6));
  json_add_int(object, "parts", measured->num_parts);
  json_add_int(object, "kept_parts", measured->kept_parts);
  json_add(object, "keeps_claimed", json_boolean(measured->keeps_claimed));
  json_add(object, "recalled", json_boolean(measured->is_recalled));
  json_add(root, "measured_claims", object);
}

void claims_add_json(json_t *root, const ClaimReport *report) {
  if (report->placed)
    json_add(root, "placed", json_incref(report->placed));
  if (report->measured.struct_size)
    add_times_json(root, &report->measured);
  if (!report->rows)
    return;
  json_t *claims = json_object(), *rows = json_array();
  json_add_int(claims, "nodes", report->nodes);
  json_add_int(claims, "claimed", report->claimed);
  for (guint i = 0; i < report->rows->len; i++) {
    const ClaimRow *row = report->rows->pdata[i];
    json_t *object = json_object();
    json_add_str(object, "op", row->op);
    json_add_int(object, "nodes", row->nodes);
    json_add_str(object, row->compiler ? "compiler" : "why",
                 row->compiler ? row->compiler : row->why);
    json_append(rows, object);
  }
  json_add(claims, "operators", rows);
  json_add(root, "claims", claims);
}
