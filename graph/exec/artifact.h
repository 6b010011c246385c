/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled model in memory: the builder makes it, an artifact file stores it and the executors
 * run it. The builder (graph/build) fills a BpGraphArtifact and calls bp__graph_module_create;
 * graph/exec implements that function, the serial form and the execution.
 *
 * A graph is JSON in TVM's published form (nodes, arg_nodes, heads, node_row_ptr, attrs), with
 * further properties, which the loader checks:
 *
 * - op of a node is "null" (an input or a parameter) or "tvm_op". A "tvm_op" with func_name "__nop"
 *   is a view: its one output has the storage_id and the number of bytes of its one input. Every
 *   other func_name is a function of the target's code module, called with the views of its inputs,
 *   then of its outputs, all compact, of exactly the shapes and types given; flatten_data is "0". A
 *   kernel has attrs.launch, integers separated by spaces, which are passed to it as ints after its
 *   tensors.
 * - attrs.device_index, of a graph on two devices, has the device type of each entry; all entries
 *   of a storage_id, and all tensors of a function, have the same device type. func_name "__copy"
 *   copies its one input to its one output, which has the other device type. Inputs and heads are
 *   on the target's device.
 * - A node whose name is in the target's `params` list is a parameter; the other arg_nodes are the
 *   model's inputs, with the names and the order of the ONNX file.
 * - attrs.output_names, ["list_str", [...]], names the heads in order. A head is never a "null"
 *   node.
 * - attrs.node_names, ["list_str", [...]], has for each node the names of the model's nodes from
 *   which it was made, separated by line breaks. Only tools read attrs.node_names, for people.
 * - attrs.work, ["list_str", [...]], has for each node the number of iterations of its loops, as an
 *   integer, or "" if the number is unknown; a multiply-add of a product is one iteration. Only
 *   tools read attrs.work.
 * - attrs.channels, ["list_str", [...]], has for each node whose first output is channel-blocked,
 *   (n, c / b, h, w, b), the number of channels c without the spare channels of the last block;
 *   else "". Only tools read attrs.channels.
 * - The storage_id of an input or a parameter is used by no other entry except its views. All other
 *   entries of one storage_id share memory as large as the largest of them: none is overwritten
 *   before its last reader, and a head is never overwritten.
 * - A function never has an output in the storage of one of its inputs or of another output. */
#ifndef BACKPLANE_GRAPH_EXEC_ARTIFACT_H
#define BACKPLANE_GRAPH_EXEC_ARTIFACT_H

#include <backplane/module.h>
#include <backplane/tensor.h>

/* A parameter of a graph: the name of a "null" node, and the node's tensor. */
typedef struct BpGraphParam {
  const char *name;
  uint32_t tensor; /* index into BpGraphArtifact::tensors */
} BpGraphParam;

/* A model compiled for one target. */
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
  BpTensor *const *tensors; /* compact tensors on the CPU; equal ones are stored only once */
  uint32_t num_targets;
  uint32_t num_tensors;
} BpGraphArtifact;

/* Makes the module of kind "backplane.graph" (transfer full). Texts are copied, tensors retained;
 * the code modules become its imports, in the order of the targets. */
BpModule *bp__graph_module_create(const BpGraphArtifact *artifact);

#endif
