/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a model's nodes: by name, as those of a call inside a function, and as bodies.
 */

#include <string.h>

#include "graph/onnx/scope.h"

const OnnxAttribute *bp__onnx_find_attribute(OnnxAttribute *const *list, size_t count,
                                             const char *name) {
  for (size_t i = 0; i < count; i++)
    if (!is_empty(list[i]->name) && !strcmp(list[i]->name, name))
      return list[i];
  return NULL;
}

int bp__scope_resolve_attribute(const Scope *scope, const OnnxAttribute *from,
                                const OnnxAttribute **result) {
  OnnxAttribute *copy;
  *result = is_empty(from->ref_attr_name) ? from : NULL;
  for (size_t i = 0; i < scope->num_actuals && !*result; i++) {
    if (strcmp(scope->actuals[i]->name, from->ref_attr_name))
      continue;
    copy = bp__arena_alloc(&scope->import->graph->arena, sizeof(*copy));
    if (!copy)
      return -1;
    *copy = *scope->actuals[i];
    copy->name = from->name;
    *result = copy;
  }
  return 0;
}

int bp__scope_find_body(const Scope *scope, const OnnxAttribute *attribute,
                        const OnnxGraph **body) {
  *body = NULL;
  if (bp__scope_resolve_attribute(scope, attribute, &attribute))
    return -1;
  if (!attribute || !attribute->has_g)
    return 0;
  OnnxGraph *graph = g_hash_table_lookup(scope->import->branches, attribute->g.data);
  if (!graph) {
    graph = bp__onnx_decode_graph(scope->import->graph, &attribute->g);
    if (graph)
      g_hash_table_insert(scope->import->branches, attribute->g.data, graph);
  }
  *body = graph;
  return graph ? 0 : -1;
}
