/* SPDX-License-Identifier: Apache-2.0 */
/* What graph compilers claim of a model: the options that name them, and the report. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

/* Nodes of one operator that the same compiler claims, or none for the same reasons. */
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

/* The names that the options give, each of which may be several with commas (g_strfreev). */
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

void claims_print(const ClaimReport *report) {
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

void claims_add_json(json_t *root, const ClaimReport *report) {
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
