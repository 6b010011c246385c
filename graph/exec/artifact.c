/* SPDX-License-Identifier: Apache-2.0 */
/* The module of kind "backplane.graph": graphs and parameters, with the code as its imports. The
 * bytes of the module are:
 *
 *   u64 magic, u64 version
 *   u64 n, n tensors                          parameters, shared by the targets
 *   u64 m, m x { str target, u64 device type, str graph JSON, u64 p, p x { str name, u64 tensor } }
 *
 * with strings as a u64 length and bytes, and tensors in TVM's form of saved arrays, but with
 * aligned data. Import i of the module is the code of target i. */
#include "graph/exec/artifact.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/exec/graph_module.h"
#include "graph/io/stream.h"

#define MAGIC      0x48504152474E5042ull /* "BPNGRAPH" */
#define VERSION    2
#define MIN_TENSOR 40 /* bytes of the head of a saved scalar */
#define MIN_TARGET 32

/* ---- Context ----------------------------------------------------------------------------- */

static void clear_target(BpGraphVariant *target) {
  for (uint32_t i = 0; target->param_names && i < target->num_params; i++)
    free(target->param_names[i]);
  free(target->target);
  free(target->graph_json);
  free(target->param_names);
  free(target->param_tensors);
  bp__graph_free(atomic_load_explicit(&target->graph, memory_order_relaxed));
}

void bp__graph_content_free(BpGraphContent *content) {
  if (!content)
    return;
  for (uint32_t i = 0; content->targets && i < content->num_targets; i++)
    clear_target(&content->targets[i]);
  for (uint32_t i = 0; content->tensors && i < content->num_tensors; i++)
    bp_object_release(content->tensors[i]);
  free(content->targets);
  free(content->tensors);
  free(content->factory_name);
  free(content);
}

static void destroy(void *context) {
  bp__graph_content_free(context);
}

BpGraphContent *bp__graph_content_create(uint32_t num_targets, uint32_t num_tensors) {
  BpGraphContent *content = calloc(1, sizeof(*content));
  if (content) {
    content->num_targets = num_targets;
    content->num_tensors = num_tensors;
    content->targets = calloc((size_t)num_targets + 1, sizeof(*content->targets));
    content->tensors = calloc((size_t)num_tensors + 1, sizeof(*content->tensors));
    if (content->targets && content->tensors)
      return content;
  }
  destroy(content);
  bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph with %u parameters", num_tensors);
  return NULL;
}

int bp__graph_variant_create_params(BpGraphVariant *target, uint32_t count) {
  target->num_params = count;
  target->param_names = calloc((size_t)count + 1, sizeof(*target->param_names));
  target->param_tensors = calloc((size_t)count + 1, sizeof(*target->param_tensors));
  if (target->param_names && target->param_tensors)
    return 0;
  return bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph with %u parameters", count);
}

static int copy_target(BpGraphVariant *target, const BpGraphTarget *from) {
  if (bp__graph_variant_create_params(target, (uint32_t)from->num_params) < 0)
    return -1;
  target->device_type = from->device_type;
  target->target = strdup(from->target);
  target->graph_json = strdup(from->graph_json);
  int complete = target->target && target->graph_json;
  for (uint32_t i = 0; complete && i < target->num_params; i++) {
    target->param_names[i] = strdup(from->params[i].name);
    target->param_tensors[i] = from->params[i].tensor;
    complete = target->param_names[i] != NULL;
  }
  return complete ? 0 : bp_error_raise(BP_ERROR_MEMORY, "no memory for a graph");
}

/* ---- Serial form ------------------------------------------------------------------------- */

static void write_content(BpStreamWriter *writer, const BpGraphContent *content) {
  bp__stream_write_u64(writer, MAGIC);
  bp__stream_write_u64(writer, VERSION);
  bp__stream_write_u64(writer, content->num_tensors);
  for (uint32_t i = 0; i < content->num_tensors; i++)
    bp__stream_write_aligned_tensor(writer, &content->tensors[i]->view);
  bp__stream_write_u64(writer, content->num_targets);
  for (uint32_t i = 0; i < content->num_targets; i++) {
    const BpGraphVariant *target = &content->targets[i];
    bp__stream_write_str(writer, target->target);
    bp__stream_write_u64(writer, (uint64_t)target->device_type);
    bp__stream_write_str(writer, target->graph_json);
    bp__stream_write_u64(writer, target->num_params);
    for (uint32_t p = 0; p < target->num_params; p++) {
      bp__stream_write_str(writer, target->param_names[p]);
      bp__stream_write_u64(writer, target->param_tensors[p]);
    }
  }
}

static int save_to_bytes(void *context, BpOwnedBytes *bytes) {
  BpStreamWriter writer = {NULL, 0};
  write_content(&writer, context);
  writer.data = malloc(writer.size);
  if (!writer.data)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %zu bytes of a saved graph", writer.size);
  writer.size = 0;
  write_content(&writer, context);
  *bytes = (BpOwnedBytes){writer.data, writer.size, free};
  return 0;
}

static int read_target(BpStreamReader *reader, BpGraphVariant *target, uint32_t num_tensors) {
  uint64_t device_type;
  uint32_t count;
  target->target = bp__stream_read_str(reader);
  if (!target->target || bp__stream_read_u64(reader, &device_type) < 0)
    return -1;
  if (device_type > INT32_MAX)
    return bp_error_raise(BP_ERROR_FORMAT, "%s: an impossible device type", reader->what);
  target->device_type = (int32_t)device_type;
  target->graph_json = bp__stream_read_str(reader);
  if (!target->graph_json || bp__stream_read_count(reader, 16, &count) < 0 ||
      bp__graph_variant_create_params(target, count) < 0)
    return -1;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t tensor;
    target->param_names[i] = bp__stream_read_str(reader);
    if (!target->param_names[i] || bp__stream_read_u64(reader, &tensor) < 0)
      return -1;
    if (tensor >= num_tensors)
      return bp_error_raise(BP_ERROR_FORMAT, "%s: parameter '%s' is tensor %" PRIu64 " of %u",
                            reader->what, target->param_names[i], tensor, num_tensors);
    target->param_tensors[i] = (uint32_t)tensor;
  }
  return 0;
}

static int read_targets(BpStreamReader *reader, BpGraphContent *content) {
  uint32_t count;
  if (bp__stream_read_count(reader, MIN_TARGET, &count) < 0)
    return -1;
  free(content->targets);
  content->targets = calloc((size_t)count + 1, sizeof(*content->targets));
  if (!content->targets)
    return bp_error_raise(BP_ERROR_MEMORY, "%s: no memory for %u targets", reader->what, count);
  content->num_targets = count;
  for (uint32_t i = 0; i < count; i++)
    if (read_target(reader, &content->targets[i], content->num_tensors) < 0)
      return -1;
  return bp__stream_read_end(reader);
}

static BpGraphContent *read_content(BpStreamReader *reader) {
  uint64_t magic, version;
  uint32_t num_tensors;
  if (bp__stream_read_u64(reader, &magic) < 0 || bp__stream_read_u64(reader, &version) < 0)
    return NULL;
  if (magic != MAGIC || version != VERSION) {
    bp_error_raise(BP_ERROR_FORMAT,
                   "%s: version %" PRIu64 ", and this library reads version %d; "
                   "compile the model again",
                   reader->what, magic == MAGIC ? version : 0, VERSION);
    return NULL;
  }
  if (bp__stream_read_count(reader, MIN_TENSOR, &num_tensors) < 0)
    return NULL;
  BpGraphContent *content = bp__graph_content_create(0, num_tensors);
  if (!content)
    return NULL;
  int status = 0;
  for (uint32_t i = 0; status == 0 && i < num_tensors; i++) {
    content->tensors[i] = bp__stream_read_tensor(reader);
    status = content->tensors[i] ? 0 : -1;
  }
  if (status == 0 && read_targets(reader, content) == 0)
    return content;
  destroy(content);
  return NULL;
}

/* ---- The module -------------------------------------------------------------------------- */

static int get_function(void *context, const char *name, BpFunction **function) {
  (void)context;
  (void)name;
  *function = NULL;
  return 0;
}

static int get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE;
  return 0;
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = BP_GRAPH_KIND,
    .get_function = get_function,
    .get_property = get_property,
    .save_to_bytes = save_to_bytes,
    .destroy = destroy,
};

/* The global function runtime.module.loadbinary_backplane.graph. */
static int load_from_bytes(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  BpByteArray bytes;
  if (num_args < 1 || bp_value_view_str(&args[0], &bytes) < 0)
    return bp_error_raise(BP_ERROR_TYPE, "the loader of " BP_GRAPH_KIND " takes bytes");
  BpStreamReader reader = {bytes.data, bytes.size, 0, "saved graph",
                           bp__stream_owner(args, num_args)};
  BpGraphContent *content = read_content(&reader);
  BpModule *module = content ? bp_module_create(&api, content) : NULL;
  if (!module)
    return -1;
  result->type_index = BP_TYPE_MODULE;
  result->v_obj = (BpObject *)(void *)module;
  return 0;
}

int bp__graph_module_register(void) {
  return bp__graph_register("runtime.module.loadbinary_" BP_GRAPH_KIND, load_from_bytes);
}

BpModule *bp__graph_module_create(const BpGraphArtifact *artifact) {
  BpGraphContent *content = bp__graph_content_create(artifact->num_targets, artifact->num_tensors);
  if (!content)
    return NULL;
  for (uint32_t i = 0; i < artifact->num_tensors; i++)
    content->tensors[i] = bp_object_retain(artifact->tensors[i]);
  for (uint32_t i = 0; i < artifact->num_targets; i++)
    if (copy_target(&content->targets[i], &artifact->targets[i]) < 0) {
      destroy(content);
      return NULL;
    }
  BpModule *module = bp_module_create(&api, content);
  for (uint32_t i = 0; module && i < artifact->num_targets; i++)
    if (bp_module_import(module, artifact->targets[i].code) < 0) {
      bp_object_release(module);
      module = NULL;
    }
  return module;
}

const BpCallGraph *bp__graph_variant_graph(BpGraphVariant *variant) {
  BpCallGraph *there = atomic_load_explicit(&variant->graph, memory_order_acquire);
  BpCallGraph *graph = there ? NULL : bp__graph_parse(variant->graph_json);
  if (there || !graph)
    return there;
  if (atomic_compare_exchange_strong_explicit(&variant->graph, &there, graph, memory_order_acq_rel,
                                              memory_order_acquire))
    return graph;
  bp__graph_free(graph); /* another thread stored its graph first */
  return there;
}

const BpGraphContent *bp__graph_module_content(BpModule *module) {
  const BpGraphContent *content = bp_module_get_context(module, &api);
  return content ? content : bp__factory_content(module);
}
