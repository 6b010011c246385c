/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled model in memory: the builder makes it, an artifact file stores it and the executors
 * run it. The builder (graph/build) fills a BpGraphArtifact and calls bp__graph_module_create;
 * graph/exec implements that, its serial form and its execution.
 *
 * A graph is JSON in TVM's published form (nodes, arg_nodes, heads, node_row_ptr, attrs), with
 * these properties on top of it, which the loader checks before it relies on them:
 *
 * - op of a node is "null" (an input or a parameter) or "tvm_op". Of the latter, func_name "__nop"
 *   is a view: its one output has the storage_id of its one input and as many bytes. Every other
 *   func_name is a function of the target's code module, called with the views of its inputs, then
 *   of its outputs, all compact, of exactly the shapes and types given; flatten_data is "0". A
 *   kernel has attrs.launch, whole numbers with a space between them, which it gets as ints after
 *   its tensors.
 * - attrs.device_index, of a graph on two devices, has the device type of each entry; all entries
 *   of a storage_id, and all tensors of a function, have the same. func_name "__copy" copies its
 *   one input to its one output, which has another. Inputs and heads are on the target's device.
 * - A node name that the target's `params` list has is a parameter; the other arg_nodes are the
 *   model's inputs, named as in the ONNX file, in its order.
 * - attrs.output_names, ["list_str", [...]], names the heads in order. A head is never a "null"
 *   node.
 * - attrs.node_names, ["list_str", [...]], has for each node the names of the model's nodes that
 *   became it, with line ends between. It is for people; nothing reads it but tools.
 * - attrs.work, ["list_str", [...]], has for each node how often the bodies of its loops run, a
 *   multiply-add of a product being once, as a whole number, or "" where that is not known. For
 *   people too.
 * - attrs.channels, ["list_str", [...]], has for each node whose first output is channel-blocked,
 *   (n, c / b, h, w, b), how many channels c that has without the spare ones of its last block;
 * else
 *   "". For people too.
 * - The storage_id of an input or a parameter is its own: no other entry has it, but for views of
 *   it. All other entries of one storage_id take turns in memory as large as the largest of them:
 *   none is overwritten before its last reader, or at all if it is a head.
 * - A function never has an output in the storage of one of its inputs or of another output. */
#ifndef BACKPLANE_GRAPH_EXEC_ARTIFACT_H
#define BACKPLANE_GRAPH_EXEC_ARTIFACT_H

#include <backplane/module.h>
#include <backplane/tensor.h>

/* A parameter of a graph: the name of a "null" node, and the tensor that it is. */
typedef struct BpGraphParam {
  const char *name;
  uint32_t tensor; /* index into BpGraphArtifact::tensors */
} BpGraphParam;

/* The model as compiled for one target. */
typedef struct BpGraphTarget {
  const char *target; /* canonical text, as bp_target_format writes it */
  int32_t device_type;
  int32_t num_params;
  const BpGraphParam *params;
  const char *graph_json;
  BpModule *code; /* functions by name */
} BpGraphTarget;

typedef struct BpGraphArtifact {
  const BpGraphTarget *targets;
  BpTensor *const *tensors; /* on the CPU, compact; equal ones once, whatever target uses them */
  uint32_t num_targets;
  uint32_t num_tensors;
} BpGraphArtifact;

/* Makes the module of kind "backplane.graph" (transfer full). Texts are copied, tensors retained;
 * the code modules become its imports, in the order of the targets. */
BpModule *bp__graph_module_create(const BpGraphArtifact *artifact);

#endif
