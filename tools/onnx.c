/* SPDX-License-Identifier: Apache-2.0 */
/* Facts from the importer: `backplane operators`, and the description of an ONNX file. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

static const char *member(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  return text ? text : "";
}

static gint64 number(const json_t *object, const char *name) {
  return json_integer_value(json_object_get(object, name));
}

/* Parses a JSON document of the library, and releases its text (transfer full); NULL with an
 * error. */
static json_t *parse_document(char *text) {
  json_t *document = text ? json_loads(text, 0, NULL) : NULL;
  if (text && !document)
    bp_error_raise(BP_ERROR_MEMORY, "no memory for what the library describes");
  bp_str_free(text);
  return document;
}

/* Returns "com.microsoft::Gelu", or only the name for an operator of ONNX's own domain (transfer
 * full). */
static char *full_name(const char *domain, const char *name) {
  return g_strdup_printf("%s%s%s", domain, *domain ? "::" : "", name);
}

/* ---- Operators --------------------------------------------------------------------------- */

/* Whether the operator is requested, by its name with or without its domain; without requests all
 * operators are. */
static gboolean is_wanted(const json_t *op, char *const *names) {
  char *full = full_name(member(op, "domain"), member(op, "name"));
  gboolean is = !*names;
  for (; *names; names++)
    is |= strcmp(*names, full) == 0 || strcmp(*names, member(op, "name")) == 0;
  g_free(full);
  return is;
}

/* Returns the operator whose name differs only in case, else the nearest name; NULL: none is
 * near. */
static const char *nearest_operator(const json_t *all, const char *mistyped) {
  GPtrArray *words = g_ptr_array_new();
  const char *found = NULL;
  const json_t *op;
  size_t index;
  json_array_foreach(all, index, op) {
    g_ptr_array_add(words, (char *)member(op, "name"));
    if (!found && g_ascii_strcasecmp(member(op, "name"), mistyped) == 0)
      found = member(op, "name");
  }
  g_ptr_array_add(words, NULL);
  if (!found)
    found = nearest_word(mistyped, (const char *const *)words->pdata);
  g_ptr_array_unref(words);
  return found;
}

/* Keeps only the requested operators of the list. 0, or -1 with an error if one does not exist. */
static int select_operators(json_t *document, char *const *names) {
  json_t *all = json_object_get(document, "operators"), *kept = json_array(), *op;
  size_t index;
  json_array_foreach(all, index, op) if (is_wanted(op, names)) json_append(kept, json_incref(op));
  for (; *names; names++) {
    gboolean is_there = FALSE;
    json_array_foreach(kept, index, op) is_there |= is_wanted(op, (char *[]){*names, NULL});
    if (!is_there) {
      const char *nearest = nearest_operator(all, *names);
      json_decref(kept);
      return bp_error_raise(
          BP_ERROR_NOT_FOUND, "there is no operator '%s'%s%s%s; `backplane operators` lists all",
          *names, nearest ? "; the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
    }
  }
  json_add(document, "operators", kept);
  return 0;
}

static void print_operators(const json_t *document) {
  static const char *const headers[] = {"OPERATOR", "FROM VERSION", "COMPUTED", "OPEN EXTENTS",
                                        NULL};
  Table *table = table_new(headers);
  const json_t *op;
  size_t index;
  json_array_foreach(json_object_get(document, "operators"), index, op) {
    char *name = full_name(member(op, "domain"), member(op, "name"));
    char *since = g_strdup_printf("%" G_GINT64_FORMAT, number(op, "since"));
    table_add(table, name, since, member(op, "computed"), member(op, "open_extents"));
    g_free(since);
    g_free(name);
  }
  table_print(table);
}

static int list_operators(char *const *names, gboolean json) {
  json_t *document = parse_document(bp_onnx_list_operators());
  int status = EXIT_OK;
  if (!document || select_operators(document, names) < 0)
    status = command_fail(json);
  else if (json)
    command_print_json(json_incref(document));
  else
    print_operators(document);
  json_decref(document);
  return status;
}

int cmd_operators(int argc, char **argv) {
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(&argc, &argv, entries, "[NAME...]",
                     "Lists the supported operators of ONNX, or those named.",
                     "Open extents: whether an operator takes tensors whose extents are known only "
                     "in a run: all of them, only the first, or none."))
    return EXIT_USAGE;
  return list_operators(argv + 1, json);
}

/* ---- Files ------------------------------------------------------------------------------- */

static gboolean has_word(const json_t *shape) {
  gboolean is_found = FALSE;
  const json_t *extent;
  size_t index;
  json_array_foreach(shape, index, extent) {
    const char *symbol = json_string_value(extent);
    is_found |= symbol && strlen(symbol) > 1;
  }
  return is_found;
}

/* Formats a shape: "nx3x224x224", or "batch x 3 x 224 x 224", since "batchx3" is hard to read; "?"
 * for an extent without a name and for an unknown shape (transfer full). */
static char *shape_text(const json_t *shape) {
  GString *text = g_string_new(NULL);
  const char *by = has_word(shape) ? " x " : "x";
  const json_t *extent;
  size_t index;
  json_array_foreach(shape, index, extent) {
    const char *symbol = json_string_value(extent);
    gboolean is_expression = symbol && strpbrk(symbol, "+-*/(, ");
    g_string_append(text, index ? by : "");
    if (json_is_integer(extent))
      g_string_append_printf(text, "%" G_GINT64_FORMAT, (gint64)json_integer_value(extent));
    else
      g_string_append_printf(text, is_expression ? "(%s)" : "%s", symbol ? symbol : "?");
  }
  if (json_array_size(shape) == 0)
    g_string_append(text, json_is_array(shape) ? "scalar" : "?");
  return g_string_free(text, FALSE);
}

/* Formats a type, "float32 1x10" (transfer full). */
static char *type_text(const json_t *tensor) {
  const char *dtype = member(tensor, "dtype");
  char *shape = shape_text(json_object_get(tensor, "shape"));
  const char *kind = member(tensor, "kind");
  gboolean is_list = *kind && strcmp(kind, "tensor") != 0;
  char *text = g_strdup_printf("%s%s%s %s", is_list ? kind : "", is_list ? " of " : "",
                               *dtype ? dtype : "?", shape);
  g_free(shape);
  return text;
}

static int compare_counts(gconstpointer a, gconstpointer b) {
  gint64 first = number(a, "count"), second = number(b, "count");
  return (first < second) - (first > second);
}

/* Adds "operators" to the document: each operator with its number of nodes and how it is computed,
 * the most frequent first. */
static void count_operators(json_t *document) {
  json_t *counts = json_object(), *list = json_array(), *node, *entry;
  size_t index;
  const char *key;
  json_array_foreach(json_object_get(document, "nodes"), index, node) {
    char *name = full_name(member(node, "domain"), member(node, "operator"));
    json_t *known = json_object_get(counts, name);
    if (!known) {
      known = json_object();
      json_add_str(known, "name", name);
      json_add(known, "computed", json_incref(json_object_get(node, "computed")));
      json_add(counts, name, known);
    }
    json_add_int(known, "count", number(known, "count") + 1);
    g_free(name);
  }
  GList *sorted = NULL;
  json_object_foreach(counts, key, entry) sorted = g_list_prepend(sorted, entry);
  sorted = g_list_sort(g_list_reverse(sorted), compare_counts);
  for (GList *place = sorted; place; place = place->next)
    json_append(list, json_incref(place->data));
  g_list_free(sorted);
  json_decref(counts);
  json_add(document, "operators", list);
}

static void add_tensors(Table *table, const char *role, const json_t *tensors) {
  const json_t *tensor;
  size_t index;
  json_array_foreach(tensors, index, tensor) {
    char *type = type_text(tensor);
    char *text = g_strdup_printf("%s: %s", member(tensor, "name"), type);
    table_add(table, role, text);
    g_free(text);
    g_free(type);
  }
}

static void print_facts(const json_t *document, const char *unsupported) {
  static const char *const headers[] = {"FACT", "VALUE", NULL};
  Table *table = table_new(headers);
  const json_t *set;
  size_t index;
  char *bytes = size_to_text((uint64_t)number(document, "parameter_bytes"));
  char *parameters =
      g_strdup_printf("%s in %" G_GINT64_FORMAT, bytes, number(document, "parameters"));
  char *nodes = g_strdup_printf("%zu", json_array_size(json_object_get(document, "nodes")));
  char *producer =
      g_strdup_printf("%s %s", member(document, "producer"), member(document, "producer_version"));
  if (*g_strstrip(producer))
    table_add(table, "producer", producer);
  json_array_foreach(json_object_get(document, "operator_sets"), index, set) {
    const char *domain = member(set, "domain");
    char *text = g_strdup_printf("%s %" G_GINT64_FORMAT, *domain ? domain : "ai.onnx",
                                 number(set, "version"));
    table_add(table, "operator_set", text);
    g_free(text);
  }
  add_tensors(table, "input", json_object_get(document, "input"));
  add_tensors(table, "output", json_object_get(document, "output"));
  table_add(table, "parameters", parameters);
  table_add(table, "nodes", nodes);
  if (*unsupported)
    table_add(table, "unsupported", unsupported);
  else if (*member(document, "incomplete"))
    table_add(table, "incomplete", member(document, "incomplete"));
  table_print(table);
  g_free(producer);
  g_free(nodes);
  g_free(parameters);
  g_free(bytes);
}

static void print_counts(const json_t *document) {
  static const char *const headers[] = {"OPERATOR", "NODES", "COMPUTED", NULL};
  Table *table = table_new(headers);
  const json_t *op;
  size_t index;
  json_array_foreach(json_object_get(document, "operators"), index, op) {
    const char *how = member(op, "computed");
    char *count = g_strdup_printf("%" G_GINT64_FORMAT, number(op, "count"));
    table_add(table, member(op, "name"), count, *how ? how : "no: it is missing");
    g_free(count);
  }
  fputc('\n', command_out());
  table_print(table);
}

static void print_nodes(const json_t *document) {
  static const char *const headers[] = {"NODE", "OPERATOR", "OUTPUT", "TYPE", NULL};
  Table *table = table_new(headers);
  const json_t *node, *output;
  size_t index, at;
  json_array_foreach(json_object_get(document, "nodes"), index, node) {
    char *op = full_name(member(node, "domain"), member(node, "operator"));
    json_array_foreach(json_object_get(node, "outputs"), at, output) {
      char *type = type_text(output);
      table_add(table, at ? "" : member(node, "name"), at ? "" : op, member(output, "name"), type);
      g_free(type);
    }
    g_free(op);
  }
  fputc('\n', command_out());
  table_print(table);
}

/* Says why operators of the file cannot be compiled; "" if all are supported (transfer full). */
static char *unsupported_operators(const char *path) {
  char *text = g_strdup(bp_onnx_check_operators(path) < 0 ? bp_error_message() : "");
  bp_error_clear();
  return text;
}

static void rename_member(json_t *object, const char *from, const char *to) {
  json_add(object, to, json_incref(json_object_get(object, from)));
  json_object_del(object, from);
}

int onnx_inspect(const char *path, gboolean lists_nodes, gboolean json) {
  json_t *document = parse_document(bp_onnx_describe(path));
  if (!document)
    return command_fail(json);
  char *unsupported = unsupported_operators(path);
  count_operators(document);
  rename_member(document, "inputs", "input"); /* names as in a compiled model */
  rename_member(document, "outputs", "output");
  if (*unsupported)
    json_add_str(document, "unsupported", unsupported);
  if (json) {
    command_print_json(json_incref(document));
  } else {
    print_facts(document, unsupported);
    print_counts(document);
    if (lists_nodes)
      print_nodes(document);
  }
  g_free(unsupported);
  json_decref(document);
  return EXIT_OK;
}
