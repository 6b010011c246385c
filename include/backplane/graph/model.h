/* SPDX-License-Identifier: Apache-2.0 */
/* Models: compile an ONNX file, load an artifact, run it.
 *
 * A BpModel is a graph with its code and parameters on its devices; it is immutable,
 * reference-counted and may be used from any thread. A BpModelContext holds the inputs, outputs and
 * intermediate storage of one run at a time, and is used by one thread at a time; contexts of one
 * model share its parameters and may run at once. A NULL where none is allowed is an error of kind
 * BP_ERROR_VALUE, an index that is not there one of kind BP_ERROR_INDEX. */
#ifndef BACKPLANE_GRAPH_MODEL_H
#define BACKPLANE_GRAPH_MODEL_H

#include <backplane/api.h>
#include <backplane/module.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Compiling --------------------------------------------------------------------------- */

/* Fixes the shape of one model input, a row of BpCompileOptions::shapes. */
typedef struct BpInputShape {
  const char *name;
  const int64_t *shape;
  int32_t ndim;
} BpInputShape;

/* Progress of a long compilation: `done` of `total` steps; stage is a short static text. 0 goes on;
 * any other value cancels: bp_model_compile fails with BP_ERROR_RUNTIME. */
typedef int (*BpProgress)(void *context, const char *stage, int32_t done, int32_t total);

/* A node that is left to the fallback: the target that refused it, and why; texts are borrowed. 0
 * goes on; any other value cancels, as for BpProgress. */
typedef int (*BpPlaced)(void *context, const char *node, const char *target, const char *why);

/* Who computes a node of a model for which graph compilers were named; the library owns it, for the
 * call. */
typedef struct BpClaimedNode {
  uint64_t struct_size; /* of the library's version: members beyond it are not there */
  const char *node;
  const char *op;
  const char *compiler; /* NULL: generated code */
  const char *function; /* of the part that the compiler compiled it into; else NULL */
  const char *why;      /* with `compiler` NULL: what each of them has against it */
  double cost;          /* nanoseconds that the compiler estimates; 0: it gave none */
} BpClaimedNode;

/* Is told each node, in order; 0 goes on; any other value cancels, as for BpProgress. */
typedef int (*BpClaimed)(void *context, const BpClaimedNode *node);

/* How long a run of a model takes with the parts that graph compilers claim, and without them. */
typedef struct BpMeasuredClaims {
  uint64_t struct_size; /* of the library's version: members beyond it are not there */
  int64_t claimed_ns;   /* the shortest of several runs */
  int64_t generated_ns;
  int32_t keeps_claimed; /* whether the artifact has claimed parts */
  int32_t is_recalled;   /* whether the times are of an earlier measurement, from the cache */
  /* With the parts alone that are faster than generated code by themselves; 0: those are all parts,
   * or none, or parts cannot be timed. Since 1.0. */
  int64_t mixed_ns;
  int32_t num_parts;  /* that graph compilers claim */
  int32_t kept_parts; /* that the artifact has */
} BpMeasuredClaims;

/* Is told the times; `measured` is borrowed for the call. */
typedef void (*BpMeasured)(void *context, const BpMeasuredClaims *measured);

/* What compiling one model for one target may cost, so that a small file from a stranger cannot ask
 * for much; 0 is the default of a member. A model that needs more nodes, bytes or functions is an
 * error that names the limit; constants that cost more than `fold_work` are computed in each run
 * instead. */
typedef struct BpCompileLimits {
  uint64_t struct_size;
  int64_t nodes;          /* operators, after expansion into others; default 200,000 */
  int64_t constant_bytes; /* of constants that the file does not contain; default 1 GiB and eight
                             times the size of the file */
  int64_t fold_work;      /* spent on computing constants, about nanoseconds; default 2^34 */
  int64_t functions;      /* different ones; a compiler takes some hundredths of a second for each;
                             default 5,000 */
} BpCompileLimits;

/* How to compile; zero is the default of every member that has one. */
typedef struct BpCompileOptions {
  uint64_t struct_size;
  const BpTarget *const *targets; /* the artifact has code for each */
  int32_t num_targets;
  int32_t num_shapes;
  /* Shapes of inputs that the file leaves open. An initializer of the name of an input is a default
   * value of it (IR version 4 or later): a constant, unless the input's shape is given here; then
   * every run has to set the input. */
  const BpInputShape *shapes;
  uint64_t shape_size; /* with `shapes`: sizeof(BpInputShape) of the caller's headers */
  BpProgress progress; /* or NULL */
  void *progress_context;
  const char *dump_dir; /* NULL, or where graphs, IR after each pass and sources are written */
  /* Nodes that a target's code generator refuses run by this target's code, beside it: NULL, and
   * they are an error. `placed`, or NULL, is told each such node and why. */
  const BpTarget *fallback;
  BpPlaced placed;
  void *placed_context;
  const BpCompileLimits *limits; /* NULL: the defaults */
  /* Not 0: each operator becomes a function of its own, in plain loops in the order that its
   * definition has. Canonical forms, layouts, packing, fusion and schedules are left out. Slow: to
   * find out whether one of them made a result wrong. */
  int32_t is_reference;
  /* Plugins' graph compilers that may claim parts of the model, by name, "dnnl" for
   * `graph_compiler.dnnl`: each for the target of its kind of device. Of two that take a node the
   * cheaper gets it, else the first. The artifact then needs their plugins. Nodes with open extents
   * are offered to those that have BP_GRAPH_COMPILER_OPEN_EXTENTS. Since 1.0. */
  const char *const *graph_compilers;
  int32_t num_graph_compilers;
  double least_claimed; /* 0 to 1: a smaller share of nodes that are claimed is an error */
  BpClaimed claimed;    /* or NULL */
  void *claimed_context;
  /* Not 0: the model is compiled with the parts that graph compilers claim and without them, both
   * are run on devices of this machine, and each part is timed against generated code for the same
   * nodes. Where some parts are faster and others are not, the model is compiled a third time with
   * the faster ones. Each way is run for about a second; the one that is faster than generated code
   * by more than noise is kept, else the generated code. There is one target, and the shapes of the
   * inputs are known. The times are kept in the cache. least_claimed is 0. `claimed` is told the
   * nodes only where the claimed parts are kept or nothing is claimed, `measured`, or NULL, the
   * times. Since 1.0. */
  int32_t measures_claims;
  int32_t reserved; /* 0 */
  BpMeasured measured;
  void *measured_context;
  /* From 2 on: the model is cut into so many stages of about equal work, and `stage` alone, from 0
   * on, is compiled, with the parameters that it reads, as a model of its own. Stage 0 has all
   * inputs of the model; the inputs of another stage are outputs of stages before it or inputs of
   * the model, by name. Outputs of the model are outputs of the stages that compute them. Stages
   * fit together if the model, the shapes and the number of stages are equal, for any targets. More
   * stages than operators, and stages with graph compilers, are errors. Since 1.0. */
  int32_t num_stages;
  int32_t stage;
} BpCompileOptions;

/* Compiles an ONNX file. The result (transfer full) is a module of kind "backplane.graph" with the
 * graphs, the parameters and, as imports, the code; it can be exported with
 * bp_module_export_library or run with bp_model_create. All operators that are missing are named in
 * one error. */
BP_API BpModule *bp_model_compile(const char *onnx_path, const BpCompileOptions *options);

/* An initializer of a model in memory whose elements are not among the model's bytes: there its
 * data_location is EXTERNAL. Elements are as in ONNX's raw_data, and aligned as their type asks
 * for. */
typedef struct BpOnnxTensor {
  const char *name;
  const void *data;
  uint64_t size; /* bytes */
} BpOnnxTensor;

/* An ONNX model in memory. Everything is borrowed for the call. */
typedef struct BpOnnxBytes {
  uint64_t struct_size;
  const char *name; /* what errors call the model */
  const void *data; /* a ModelProto; untrusted */
  uint64_t size;
  const BpOnnxTensor *tensors; /* of which no copy is made but for the result */
  uint64_t tensor_size;        /* with `tensors`: sizeof(BpOnnxTensor) of the caller's headers */
  uint64_t num_tensors;
} BpOnnxBytes;

/* Compiles an ONNX model in memory, otherwise as bp_model_compile (transfer full). An initializer
 * with its data elsewhere that is not among the tensors is an error. Any thread. Since 1.0. */
BP_API BpModule *bp_model_compile_bytes(const BpOnnxBytes *model, const BpCompileOptions *options);

/* Whether a node of a main graph can be compiled as one of a part of the model. The library owns
 * it, for the call. */
typedef struct BpOnnxQueried {
  uint64_t struct_size; /* of the library's version: members beyond it are not there */
  uint64_t index;       /* of the node in the file */
  const char *why;      /* NULL: it can; else why not */
} BpOnnxQueried;

/* Is told each node, in order; any value but 0 ends the query. */
typedef int (*BpOnnxQueryVisit)(void *context, const BpOnnxQueried *node);

/* Asks of each node of the main graph whether it can be compiled, for code generators that refuse
 * nothing. What a node that cannot gives is taken from the model's value_info, else unknown, and
 * then no node that reads it can be compiled. What `visit` returned, or -1 with an error: the bytes
 * are no model. Any thread. Since 1.0. */
BP_API int bp_onnx_query(const BpOnnxBytes *model, BpOnnxQueryVisit visit, void *context);

/* ---- Loading and running ----------------------------------------------------------------- */

typedef struct BpModel BpModel;
typedef struct BpModelContext BpModelContext;

/* The most devices that a model of this version uses: a graph that was compiled with a fallback
 * runs on two. */
#define BP_MODEL_MAX_DEVICES 2

/* Opens the module of a model (transfer full): `path` is that of an exported library; or, for what
 * TVM up to 0.19 wrote as several files, that of the graph (NAME.json) or of the folder that has it
 * and no other. Beside the graph lie NAME.so and NAME.params, or only one file .so and .params
 * each; there may be no parameters. */
BP_API BpModule *bp_model_open(const char *path);
/* The same with each file named; params_path may be NULL. */
BP_API BpModule *bp_model_open_parts(const char *graph_path, const char *library_path,
                                     const char *params_path);

/* Makes a model from a module that bp_model_compile made or bp_model_open opened (transfer full):
 * of kind "backplane.graph", or of kinds that TVM made: "relax.VMExecutable" (graph/relax.h), and
 * "GraphExecutorFactory" until 0.19.
 * The first device is the model's, where its inputs and outputs are; a graph of TVM's may have some
 * of them on its second one. A graph that runs on a second kind of device takes the first of that
 * kind among the others. A module without code for the model's device, or a graph that needs a kind
 * of which none was given, is an error that says so. */
BP_API BpModel *bp_model_create(BpModule *module, const BpDevice *devices, size_t num_devices);
/* The same of what bp_model_open opens. */
BP_API BpModel *bp_model_load(const char *path, const BpDevice *devices, size_t num_devices);
/* The same in one call for the commonest wish: chooses devices, opens or compiles, and makes the
 * model (transfer full, bp_model_release). `path` ends in ".onnx", or is one that bp_model_open
 * takes. `preferences` and `report` (may be NULL) are as for bp_device_select. An ONNX file is
 * compiled for `options->targets`; if there are none, or `options` is NULL, for the first device
 * that is there of those preferred. Nodes for `options->fallback` run on the next device of
 * its kind in `preferences`. What was compiled before chooses among the devices that it has code
 * for, and ignores `options`. NULL with an error; *report is NULL then. Any thread. */
BP_API BpModel *bp_model_load_for(const char *path, const char *preferences,
                                  const BpCompileOptions *options, char **report);
/* One more reference (returned), and one less: the last one frees it. Any thread; NULL is
 * ignored. */
BP_API BpModel *bp_model_retain(BpModel *model);
BP_API void bp_model_release(BpModel *model);
/* Picks the devices for such a module: the model's as bp_device_select does (see
 * backplane/device.h for preferences and report), among the kinds of device that the module has
 * code for; of the other kind that its graph needs there, the first in the same list. `devices` has
 * room for `capacity` devices, of which *num_devices are written. A model that needs more devices
 * than that is BP_ERROR_VALUE. */
BP_API int bp_model_select_devices(BpModule *module, const char *preferences, BpDevice *devices,
                                   size_t capacity, size_t *num_devices, char **report);

/* Describes an input or output: name, dtype, shape. The library owns it, with the model. In a model
 * that TVM compiled, an extent of -1 is known only in a run, and ndim -1 means that the type is
 * unknown: such an input takes any tensor, such an output has the type that the run gives it. */
typedef struct BpModelTensorInfo {
  uint64_t struct_size; /* of the library's version: members beyond it are not there */
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  const int64_t *shape;
} BpModelTensorInfo;
/* A default is an input that has a value in the file: see BpCompileOptions.shapes. */
#define BP_TENSOR_INPUT   0
#define BP_TENSOR_OUTPUT  1
#define BP_TENSOR_DEFAULT 2
/* Receives the inputs and then the outputs, each with its BP_TENSOR_*, until it returns a value
 * other than 0. `info` is borrowed for the call. */
typedef int (*BpTensorVisit)(void *visitor, int32_t role, const BpModelTensorInfo *info);
/* Those of a module that bp_model_create takes, with no device: of several targets those of the
 * first. What `visit` returned, or -1. */
BP_API int bp_model_visit_tensors(BpModule *module, BpTensorVisit visit, void *visitor);
/* Those that an ONNX file tells, with nothing compiled: an extent that it leaves open is -1, and so
 * is ndim where it gives no shape. */
BP_API int bp_onnx_visit_tensors(const char *onnx_path, BpTensorVisit visit, void *visitor);
/* Whether all operators of an ONNX file's main graph can be compiled: 0, or -1 with an error that
 * names those that cannot. Bodies of functions and of subgraphs are checked when they are compiled.
 * Any thread. */
BP_API int bp_onnx_check_operators(const char *onnx_path);
/* An ONNX file as JSON (transfer full, bp_str_free), with nothing compiled: an object with
 * "ir_version", "producer", "producer_version" (null where the file has none), "operator_sets"
 * ({domain, version}), "inputs" and "outputs" ({name, dtype, shape}), "parameters" and
 * "parameter_bytes" of the initializers, and "nodes" of the main graph: {name, operator, domain,
 * computed, outputs}. "computed" says how, or is null: the importer lacks the operator. Outputs of
 * nodes have the types and shapes that the importer infers, null where it does not, for which
 * "incomplete" gives the reason. An extent is a number, or text for one that is open: the name of a
 * symbol or an expression of such. Members may be added. NULL with an error. Any thread. Since
 * 0.6. */
BP_API char *bp_onnx_describe(const char *onnx_path);
/* The operators that are computed, as JSON (transfer full, bp_str_free): an object with
 * "oldest_version" and "newest_version" of ONNX's operator sets, and "operators": {name, domain,
 * since (version of the operator set), computed, open_extents ("all", "input 0", "none")}. Any
 * thread. Since 1.0. */
BP_API char *bp_onnx_list_operators(void);
BP_API int32_t bp_model_num_inputs(const BpModel *model);
/* Borrowed from the model; NULL with an error. Any thread. */
BP_API const BpModelTensorInfo *bp_model_input_info(const BpModel *model, int32_t index);
BP_API int32_t bp_model_num_outputs(const BpModel *model);
BP_API const BpModelTensorInfo *bp_model_output_info(const BpModel *model, int32_t index);
/* The devices that it uses, the model's first; borrowed. */
BP_API const BpDevice *bp_model_devices(const BpModel *model, size_t *num_devices);
/* The targets that its module has code for, of which the device's is used, in full text (borrowed
 * from the model); none are known of what TVM compiled. NULL, and no error raised, for an index out
 * of range. */
BP_API int32_t bp_model_num_targets(const BpModel *model);
BP_API const char *bp_model_target(const BpModel *model, int32_t index);
/* Bytes of its parameters, and of the storage that each context plans: where extents are open, for
 * those that are likely, and 0 where TVM compiled the model. */
BP_API void bp_model_memory(const BpModel *model, uint64_t *parameters, uint64_t *planned);
/* The bytes of storage that each context plans, as an expression of the open extents: "256*n+1024"
 * (borrowed from the model). *likely becomes the extents for which bp_model_memory says them,
 * "n=64" (borrowed; may be NULL). NULL (no error raised) where all shapes are known or TVM compiled
 * the model. Any thread. Since 1.0. */
BP_API const char *bp_model_planned_expression(const BpModel *model, const char **likely);

/* ---- Specialised code -------------------------------------------------------------------- */

/* How many shapes a model can be specialised for. */
#define BP_MODEL_MAX_SPECIALIZED 8

/* Compiles the ONNX file of a model with open extents once more, for the shapes that the options
 * give its inputs. From then on each run with inputs of these shapes uses that code; all other runs
 * use the general code, and so do runs with a cache bound, or with an input in the memory of an
 * output of the run before. A context keeps intermediate storage for each code that it has run.
 *
 * `model` was compiled from the file at `onnx_path`, which has not changed since. `options` are
 * those that it was compiled with, but for the shapes; without targets the model's device says the
 * target. Parameters that both have are those of `model`. The code is in the compile cache as any
 * other. Any thread, while contexts of the model run. A model that has code for these shapes
 * already stays as it is, which is no error.
 *
 * 0, or -1 with an error, and the model is as before. BP_ERROR_VALUE: the model has no open
 * extents, the shapes leave all of them open or are not those of its inputs, or it is specialised
 * for BP_MODEL_MAX_SPECIALIZED shapes. Since 1.0. */
BP_API int bp_model_specialize(BpModel *model, const char *onnx_path,
                               const BpCompileOptions *options);

/* One specialised code of a model; the library owns it, for the call. */
typedef struct BpSpecializedModel {
  uint64_t struct_size;            /* of the library's version */
  const BpModelTensorInfo *inputs; /* with the shapes for which it runs; -1: any extent */
  uint64_t input_size;             /* with `inputs`: the size of one */
  int32_t num_inputs;
  int32_t reserved;         /* 0 */
  uint64_t runs;            /* that used it, of all contexts */
  uint64_t parameter_bytes; /* that it reads */
  uint64_t shared_bytes;    /* of these: parameters of the general code */
} BpSpecializedModel;
/* Is told each, in the order of specialising, until it returns a value other than 0. */
typedef int (*BpSpecializedVisit)(void *visitor, const BpSpecializedModel *specialized);
/* What `visit` returned, or -1 with an error. Any thread. Since 1.0. */
BP_API int bp_model_visit_specialized(const BpModel *model, BpSpecializedVisit visit,
                                      void *visitor);

/* ---- Contexts ---------------------------------------------------------------------------- */

/* A context (transfer full, bp_model_context_free, which ignores NULL); it keeps the model
 * alive. */
BP_API BpModelContext *bp_model_context_create(BpModel *model);
BP_API void bp_model_context_free(BpModelContext *context);
/* Copies a tensor of any device in; name, dtype and shape are checked. */
BP_API int bp_model_set_input(BpModelContext *context, const char *name, const BpTensorView *value);
/* Uses the caller's memory instead, on the model's device, and keeps the tensor alive until the
 * input is set again or the context is freed. */
BP_API int bp_model_bind_input(BpModelContext *context, const char *name, BpTensor *value);
/* Keeps an input that grows from run to run, such as the keys of a language model, in memory with
 * room for more rows than it has: where a model computes `output` as Concat(`input`, new), and
 * nothing else reads `input`, a run writes the new rows behind the others, and its result is the
 * input of the next run. Nothing else is copied.
 *
 * `memory` is a compact tensor on the model's device, of the input's type and shape except for the
 * dimension of the Concat, where it has as many rows as there is room for. `length` of them are the
 * input of the next run; after a run that succeeded, that is all rows that the output then has. The
 * output of a run is a tensor of these rows, with strides, in `memory`. All outputs with an equal
 * number of rows are kept this way with equal room, or none of them. A run that needs more rows
 * than there is room for, or memory that another input overlaps, is an error of the run, which
 * writes nothing.
 *
 * The context keeps the tensor until the input is set or bound again. The context's thread.
 * BP_ERROR_VALUE where the model does not compute the output this way, or all its shapes were known
 * when it was compiled, and for memory of another type, shape or device. Since 1.0. */
BP_API int bp_model_bind_cache(BpModelContext *context, const char *input, const char *output,
                               BpTensor *memory, int64_t length);
/* The rows of a cache that are the input of the next run; -1 with BP_ERROR_VALUE where none is
 * bound. The context's thread. Since 1.0. */
BP_API int64_t bp_model_cache_length(BpModelContext *context, const char *input);
/* Sets how many rows of a cache are the input of the next run: fewer, to go back to a shorter text,
 * or more, which the caller wrote. The context's thread. Since 1.0. */
BP_API int bp_model_set_cache_length(BpModelContext *context, const char *input, int64_t length);
/* Queues the graph; allocates nothing and looks nothing up. Every input must have been set. */
BP_API int bp_model_run(BpModelContext *context);
/* Stops the run of the context that is in progress, or else its next one, where a loop of the model
 * begins an iteration, or a function of a Relax executable calls another of its functions:
 * bp_model_run fails with BP_ERROR_RUNTIME, and the context can run again. A run that reaches
 * neither ends as ever. Any thread; the context must not be freed meanwhile.
 * Since 1.0. */
BP_API int bp_model_cancel(BpModelContext *context);
/* Waits, and gives an output (transfer none), valid until the next run. Before a run, and after one
 * that failed, BP_ERROR_VALUE. */
BP_API BpTensor *bp_model_get_output(BpModelContext *context, int32_t index);

/* ---- Looking inside ---------------------------------------------------------------------- */

/* Times each operator of one run, waiting after each; `visit` gets the node's name, the function
 * and nanoseconds, in order, until it returns non-zero, which is no error, but the outputs are not
 * valid then. With dump_dir every intermediate is written there as NODE.npy. A node whose name, or
 * file, is another's is numbered ("3:add"). Each call of a function by a Relax executable counts as
 * a node ("3-fused_add"), and so does a part that was compiled as a whole. */
BP_API int bp_model_profile(BpModelContext *context, const char *dump_dir,
                            int (*visit)(void *visitor, const char *node, const char *function,
                                         int64_t start_ns, int64_t duration_ns),
                            void *visitor);
/* The graph, in TVM's published JSON form (transfer full, bp_str_free). */
BP_API char *bp_model_graph_json(const BpModel *model);

#ifdef __cplusplus
}
#endif

#endif
