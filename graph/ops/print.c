/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the graph as text, one line for each node, for people who read dumps. */
#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <backplane/error.h>

#include "graph/ir/graph.h"
#include "graph/ops/op.h"

/* Prints a number with a point, whatever the process' locale is. */
static void print_number(FILE *out, double number) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  fputs(g_ascii_formatd(text, sizeof text, "%g", number), out);
}

static void print_value(FILE *out, const BpGraphValue *value) {
  char text[BP_VALUE_TEXT];
  if (!value)
    fputs("-", out);
  else if (value->data && value->ndim == 0)
    print_number(out, bp__value_get_float(value, 0));
  else
    fprintf(out, "%s%d: %s", value->data ? "const" : "v", value->id, bp__value_format(value, text));
}

static void print_attr(FILE *out, const BpGraphAttr *attr) {
  fprintf(out, " %s=", attr->name);
  if (attr->str)
    fputs(attr->str, out);
  for (int32_t i = 0; i < attr->count && attr->ints; i++)
    fprintf(out, "%s%" PRId64, i ? "," : "", attr->ints[i]);
  for (int32_t i = 0; i < attr->count && attr->floats; i++) {
    fputs(i ? "," : "", out);
    print_number(out, (double)attr->floats[i]);
  }
}

static void print_graph(FILE *out, const BpGraph *graph, int depth);

static void indent(FILE *out, int depth) {
  fprintf(out, "%*s", 2 * depth, "");
}

static void print_node(FILE *out, const BpGraphNode *node, int depth) {
  indent(out, depth);
  for (int32_t i = 0; i < node->num_outputs; i++) {
    fputs(i ? ", " : "", out);
    print_value(out, node->outputs[i]);
  }
  fprintf(out, " = %s", node->op->name);
  for (int32_t i = 0; i < node->num_attrs; i++)
    print_attr(out, &node->attrs[i]);
  fputs(" (", out);
  for (int32_t i = 0; i < node->num_inputs; i++) {
    fputs(i ? ", " : "", out);
    print_value(out, node->inputs[i]);
  }
  fprintf(out, ")  # %s\n", node->name);
  for (int32_t b = 0; b < node->num_bodies; b++) {
    indent(out, depth);
    fprintf(out, "body %d:\n", b);
    print_graph(out, node->bodies[b], depth + 1);
  }
}

/* The nodes of a body are indented more than the graph around it. */
static void print_graph(FILE *out, const BpGraph *graph, int depth) {
  for (size_t i = 0; i < graph->inputs.size; i++) {
    indent(out, depth);
    print_value(out, graph->inputs.items[i]);
    fprintf(out, " = input  # %s\n", ((const BpGraphValue *)graph->inputs.items[i])->name);
  }
  for (size_t i = 0; i < graph->nodes.size; i++)
    print_node(out, graph->nodes.items[i], depth);
  for (size_t i = 0; i < graph->outputs.size; i++) {
    indent(out, depth);
    fputs("output ", out);
    print_value(out, graph->outputs.items[i]);
    if (graph->output_names)
      fprintf(out, "  # %s", graph->output_names[i]);
    fputc('\n', out);
  }
}

char *bp__graph_print(const BpGraph *graph) {
  char *text = NULL;
  size_t size;
  errno = 0; /* if memory is exhausted, the C library drops text, and only errno shows it */
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while printing the graph");
    return NULL;
  }
  print_graph(out, graph, 0);
  if (fclose(out) || errno == ENOMEM) {
    free(text);
    bp_error_raise(BP_ERROR_MEMORY, "out of memory while printing the graph");
    return NULL;
  }
  return text;
}
