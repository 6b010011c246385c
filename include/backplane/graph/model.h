/* SPDX-License-Identifier: Apache-2.0 */
/* Models: compile an ONNX file, load an artifact, run it.
 *
 * A BpModel is a graph with its code and parameters on its devices; it is immutable,
 * reference-counted and may be used from any thread. A BpModelContext holds the inputs, outputs and
 * intermediate storage of one run at a time, and is used by one thread at a time; contexts of one
 * model share its parameters and may run at once. A NULL where none is allowed is an error of kind
 * BP_ERROR_VALUE; an index out of range is an error of kind BP_ERROR_INDEX. */
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

/* Reports the progress of a long compilation: `done` of `total` steps; `stage` is a short static
 * text. Return 0 to continue; with any other value bp_model_compile fails with BP_ERROR_RUNTIME. */
typedef int (*BpProgress)(void *context, const char *stage, int32_t done, int32_t total);

/* Reports a node that a target refused and a fallback compiles: the node, the target that refused
 * it, and why; texts are borrowed. If several targets refuse a node, the function is called once
 * for each target. Return 0 to continue; any other value cancels, as for BpProgress. */
typedef int (*BpPlaced)(void *context, const char *node, const char *target, const char *why);

/* Reports which graph compiler, or generated code, computes a node. The library owns the structure,
 * which is valid for the call. */
typedef struct BpClaimedNode {
  uint64_t struct_size; /* size in the library's version: members beyond it do not exist */
  const char *node;
  const char *op;
  const char *compiler; /* NULL: generated code */
  const char *function; /* function of the part that contains the node; NULL for generated code */
  const char *why;      /* why each graph compiler declined, if `compiler` is NULL */
  double cost;          /* the compiler's estimate in nanoseconds; 0: none */
} BpClaimedNode;

/* Receives each node, in order. Return 0 to continue; any other value cancels, as for
 * BpProgress. */
typedef int (*BpClaimed)(void *context, const BpClaimedNode *node);

/* The time that a run of a model takes with the parts that graph compilers claim, and without
 * them. */
typedef struct BpMeasuredClaims {
  uint64_t struct_size; /* size in the library's version: members beyond it do not exist */
  int64_t claimed_ns;   /* the shortest of several runs */
  int64_t generated_ns;
  int32_t keeps_claimed; /* whether the artifact has claimed parts */
  int32_t is_recalled;   /* whether the times come from the cache, from an earlier measurement */
  /* The time with only the parts that are faster than generated code; 0 if all parts or none are
   * faster, or if parts cannot be timed. Since 1.0. */
  int64_t mixed_ns;
  int32_t num_parts;  /* number of parts that graph compilers claim */
  int32_t kept_parts; /* number of parts in the artifact */
} BpMeasuredClaims;

/* Receives the measured times; `measured` is borrowed for the call. */
typedef void (*BpMeasured)(void *context, const BpMeasuredClaims *measured);

/* Limits on the cost of compiling a model for one target, so that a small untrusted file cannot
 * demand much; 0 is the default of a member. A model that exceeds the limit of nodes, bytes or
 * functions is an error that names the limit; constants that cost more than `fold_work` are
 * computed in each run instead. */
typedef struct BpCompileLimits {
  uint64_t struct_size;
  int64_t nodes;          /* most operators, after expansion; default 200,000 */
  int64_t constant_bytes; /* most bytes of constants that the file does not contain; default 1 GiB
                           * and eight times the size of the file */
  int64_t fold_work;      /* most work on computing constants, about nanoseconds; default 2^34 */
  int64_t functions;      /* most different functions; compiling one takes some hundredths of a
                           * second; default 5,000 */
} BpCompileLimits;

/* Options of compiling; a member that may be left out is 0 by default. */
typedef struct BpCompileOptions {
  uint64_t struct_size;
  const BpTarget *const *targets; /* the artifact contains code for each */
  int32_t num_targets;
  int32_t num_shapes;
  /* Shapes of inputs whose shapes the file leaves open. An initializer with the name of an input is
   * the input's default value (IR version 4 or later). The default value is a constant, unless
   * `shapes` has the input's shape; then every run has to set the input. */
  const BpInputShape *shapes;
  uint64_t shape_size; /* sizeof(BpInputShape) of the caller's headers, if `shapes` is set */
  BpProgress progress; /* or NULL */
  void *progress_context;
  const char *dump_dir; /* NULL, or the folder for dumps of graphs, IR passes and sources */
  /* The target of nodes that a code generator refuses: they run on its device. NULL: a node that a
   * code generator refuses is an error. `placed`, or NULL, is called for each such node with the
   * reason. */
  const BpTarget *fallback;
  BpPlaced placed;
  void *placed_context;
  const BpCompileLimits *limits; /* NULL: the defaults */
  /* Not 0: each operator becomes a function of its own, in plain loops in the order of its
   * definition. Such plain code has no canonical forms, layouts, packing, fusion or schedules. A
   * model without optimisations is slow; it shows whether an optimisation made a result wrong. */
  int32_t is_reference;
  /* Plugins' graph compilers that may claim parts of the model, by name, "dnnl" for
   * `graph_compiler.dnnl`: each for the target of its kind of device. If two graph compilers take a
   * node, the cheaper one gets it, else the first. The artifact needs the plugins of the graph
   * compilers that got nodes. Nodes with open extents are offered to graph compilers that have
   * BP_GRAPH_COMPILER_OPEN_EXTENTS. Since 1.0. */
  const char *const *graph_compilers;
  int32_t num_graph_compilers;
  double least_claimed; /* 0 to 1: it is an error if a smaller share of the nodes is claimed */
  BpClaimed claimed;    /* or NULL */
  void *claimed_context;
  /* Not 0: the model is compiled with the parts that graph compilers claim and without them, both
   * are run on devices of this machine, and each part is timed against generated code for the same
   * nodes. If some parts are faster and others are not, the model is compiled a third time with
   * only the faster parts. Each variant runs for about a second; the variant that is faster than
   * generated code by more than noise is kept, else the generated code. The comparison needs
   * exactly one target, known input shapes, and least_claimed 0. The times are kept in the cache.
   * `claimed` receives the nodes only if the claimed parts are kept or nothing is claimed;
   * `measured`, or NULL, receives the times. Since 1.0. */
  int32_t measures_claims;
  int32_t reserved; /* 0 */
  BpMeasured measured;
  void *measured_context;
  /* From 2 on: the number of stages of about equal work that the model is cut into. Only stage
   * `stage`, from 0 on, is compiled, with the parameters that it reads, as a model of its own.
   * Stage 0 has all inputs of the model; the inputs of another stage are outputs of earlier stages
   * or inputs of the model, by name. Outputs of the model are outputs of the stages that compute
   * them. Stages fit together if they were compiled from equal models, shapes and numbers of
   * stages, for any targets. More stages than operators, stages with graph compilers, and a stage
   * that would only check values are errors. Since 1.0. */
  int32_t num_stages;
  int32_t stage;
  /* Several fallbacks, instead of `fallback`: a node that the target refuses is compiled for the
   * first fallback that takes it; the last fallback takes all remaining nodes. Each target has a
   * device of its own, except targets for the CPU, which share it. At most BP_MODEL_MAX_DEVICES - 1
   * fallbacks. Since 1.0. */
  const BpTarget *const *fallbacks;
  int32_t num_fallbacks;
  int32_t reserved_fallbacks; /* 0 */
} BpCompileOptions;

/* Compiles an ONNX file. The result (transfer full) is a module of kind "backplane.graph" with the
 * graphs, the parameters and, as imports, the code; it can be exported with
 * bp_module_export_library or run with bp_model_create. One error names all unsupported
 * operators. */
BP_API BpModule *bp_model_compile(const char *onnx_path, const BpCompileOptions *options);

/* An initializer whose elements are outside the model's bytes; in the bytes its data_location is
 * EXTERNAL. Elements are as in ONNX's raw_data, with the alignment of their type. */
typedef struct BpOnnxTensor {
  const char *name;
  const void *data;
  uint64_t size; /* bytes */
} BpOnnxTensor;

/* An ONNX model in memory. All pointers are borrowed for the call. */
typedef struct BpOnnxBytes {
  uint64_t struct_size;
  const char *name; /* name of the model in errors */
  const void *data; /* a ModelProto; untrusted */
  uint64_t size;
  const BpOnnxTensor *tensors; /* elements are copied only into the result */
  uint64_t tensor_size; /* sizeof(BpOnnxTensor) of the caller's headers, if `tensors` is set */
  uint64_t num_tensors;
} BpOnnxBytes;

/* Compiles an ONNX model in memory; otherwise as bp_model_compile (transfer full). An initializer
 * whose data_location is EXTERNAL and that is not among `tensors` is an error. Any thread. Since
 * 1.0. */
BP_API BpModule *bp_model_compile_bytes(const BpOnnxBytes *model, const BpCompileOptions *options);

/* Reports whether a node of the main graph can be compiled as part of the model. The library owns
 * the structure, which is valid for the call. */
typedef struct BpOnnxQueried {
  uint64_t struct_size; /* size in the library's version: members beyond it do not exist */
  uint64_t index;       /* index of the node in the file */
  const char *why;      /* why the node cannot be compiled; NULL if it can */
} BpOnnxQueried;

/* Receives each node, in order. Any value but 0 ends the query. */
typedef int (*BpOnnxQueryVisit)(void *context, const BpOnnxQueried *node);

/* Finds out for each node of the main graph whether it can be compiled, for code generators that
 * refuse no construct. The types of the outputs of a node that cannot be compiled are taken from
 * the model's value_info; if value_info lacks them, no node that reads the outputs can be compiled.
 * Returns the value that `visit` returned, or -1 with an error: the bytes are not a model. Any
 * thread. Since 1.0. */
BP_API int bp_onnx_query(const BpOnnxBytes *model, BpOnnxQueryVisit visit, void *context);

/* ---- Loading and running ----------------------------------------------------------------- */

typedef struct BpModel BpModel;
typedef struct BpModelContext BpModelContext;

/* The most devices that a model of this version uses. Later versions may use more. A caller whose
 * array is too small for a model gets an error. */
#define BP_MODEL_MAX_DEVICES 8

/* Opens the module of a model (transfer full). `path` is an exported library. For a model that TVM
 * up to 0.19 wrote as several files, `path` is the graph (NAME.json) or a folder with exactly one
 * graph. Beside the graph lie NAME.so and NAME.params, or only one file .so and .params each; there
 * may be no parameters. */
BP_API BpModule *bp_model_open(const char *path);
/* Opens a model of several files, each named; params_path may be NULL. */
BP_API BpModule *bp_model_open_parts(const char *graph_path, const char *library_path,
                                     const char *params_path);

/* Makes a model from a module that bp_model_compile made or bp_model_open opened (transfer full):
 * of kind "backplane.graph", or of a kind of TVM: "relax.VMExecutable" (graph/relax.h), and
 * "GraphExecutorFactory" until 0.19.
 * The first device is the model's device, which has its inputs and outputs; a graph of TVM may have
 * some of them on other devices. A graph that runs on several devices takes the first devices of
 * each kind, in the order of the list, on any machine. A device that is given twice counts once. It
 * is an error if the module has no code for the model's device, or if the graph needs a device that
 * is not among the devices. */
BP_API BpModel *bp_model_create(BpModule *module, const BpDevice *devices, size_t num_devices);
/* Opens a file with bp_model_open, and makes a model from the module (transfer full). */
BP_API BpModel *bp_model_load(const char *path, const BpDevice *devices, size_t num_devices);
/* Chooses devices, and opens or compiles a model for them, in one call (transfer full,
 * bp_model_release). `path` ends in ".onnx", or is a path for bp_model_open. `preferences` and
 * `report` (may be NULL) are as for bp_device_select. An ONNX file is compiled for
 * `options->targets`; if there are none, or `options` is NULL, for the first preferred device that
 * exists. Nodes for fallbacks run on the next devices of their kinds in `preferences`. A compiled
 * model chooses among the devices that it has code for, and ignores `options`. NULL with an error,
 * and then *report is NULL. Any thread. */
BP_API BpModel *bp_model_load_for(const char *path, const char *preferences,
                                  const BpCompileOptions *options, char **report);
/* Add a reference (and return the model), and drop a reference; dropping the last one frees the
 * model. Any thread; NULL is ignored. */
BP_API BpModel *bp_model_retain(BpModel *model);
BP_API void bp_model_release(BpModel *model);
/* Selects the devices for a model's module. The model's device is selected as by bp_device_select
 * (see backplane/device.h for preferences and report), among the kinds of device that the module
 * has code for. Further devices that the graph needs are the first of their kinds in the same list.
 * `devices` has room for `capacity` devices, of which *num_devices are written. If the model needs
 * more devices, the error is BP_ERROR_VALUE. */
BP_API int bp_model_select_devices(BpModule *module, const char *preferences, BpDevice *devices,
                                   size_t capacity, size_t *num_devices, char **report);

/* Describes an input or output: name, dtype, shape. The library owns the structure, which lives as
 * long as the model. An extent of -1 is known only in a run; ndim -1 means that the number of
 * dimensions is, and dtype.bits 0 that the type is, too: in a model that TVM compiled such an input
 * takes any tensor, and the type of such an output is known after the run. */
typedef struct BpModelTensorInfo {
  uint64_t struct_size; /* size in the library's version: members beyond it do not exist */
  const char *name;
  BpDataType dtype;
  int32_t ndim;
  const int64_t *shape;
  int32_t kind;     /* BP_MODEL_TENSOR, or a sum of the other kinds. Since 1.0. */
  int32_t reserved; /* 0 */
} BpModelTensorInfo;
/* The kinds of inputs and outputs. An optional has a value or none; the value is a tensor or, with
 * both bits, a sequence. dtype, ndim and shape are those of each tensor in a sequence or optional;
 * an extent is -1 if the tensors may differ in it. */
#define BP_MODEL_TENSOR   0
#define BP_MODEL_SEQUENCE 1
#define BP_MODEL_OPTIONAL 2
/* An input with a default has a value in the file: see BpCompileOptions.shapes. */
#define BP_TENSOR_INPUT   0
#define BP_TENSOR_OUTPUT  1
#define BP_TENSOR_DEFAULT 2
/* Receives the inputs and then the outputs, each with its BP_TENSOR_*, until it returns a value
 * other than 0. `info` is borrowed for the call. */
typedef int (*BpTensorVisit)(void *visitor, int32_t role, const BpModelTensorInfo *info);
/* Visits the inputs and outputs of a module that bp_model_create takes, without a device; if the
 * module has several targets, those of the first target. Returns the value that `visit` returned,
 * or -1 with an error. */
BP_API int bp_model_visit_tensors(BpModule *module, BpTensorVisit visit, void *visitor);
/* Visits the inputs and outputs of an ONNX file, without compiling it. An extent that the file
 * leaves open is -1, and so is ndim if the file gives no shape. */
BP_API int bp_onnx_visit_tensors(const char *onnx_path, BpTensorVisit visit, void *visitor);
/* Whether all operators of an ONNX file's main graph can be compiled: 0, or -1 with an error that
 * names the unsupported operators. Bodies of functions and of subgraphs are checked when they are
 * compiled. Any thread. */
BP_API int bp_onnx_check_operators(const char *onnx_path);
/* An ONNX file as JSON (transfer full, bp_str_free), with nothing compiled: an object with
 * "ir_version", "producer", "producer_version" (null where the file has none), "operator_sets"
 * ({domain, version}), "inputs" and "outputs" ({name, dtype, shape, kind}), "parameters" and
 * "parameter_bytes" of the initializers, "files" (paths of the files with tensors' elements, from
 * the model's folder on; since 1.0), and "nodes" of the main graph: {name, operator, domain,
 * computed, outputs}. "computed" says how the operator is computed; null if the importer lacks it.
 * Outputs of nodes have the types and shapes that the importer infers; if it cannot infer one, it
 * is null and "incomplete" gives the reason. An extent is a number; an open extent is a text: the
 * name of a symbol or an expression of symbols. Later versions may add members. NULL with an error.
 * Any thread. Since 0.6. */
BP_API char *bp_onnx_describe(const char *onnx_path);
/* The supported operators, as JSON (transfer full, bp_str_free): an object with "oldest_version"
 * and "newest_version" of ONNX's operator sets, and "operators": {name, domain, since (version of
 * the operator set), computed, open_extents ("all", "input 0", "none"), attributes (their names),
 * least_inputs, most_inputs and most_outputs (-1: any number)}. Later versions may add members. Any
 * thread. Since 1.0. */
BP_API char *bp_onnx_list_operators(void);
BP_API int32_t bp_model_num_inputs(const BpModel *model);
/* Returns a tensor's description, borrowed from the model; NULL with an error. Any thread. */
BP_API const BpModelTensorInfo *bp_model_input_info(const BpModel *model, int32_t index);
BP_API int32_t bp_model_num_outputs(const BpModel *model);
BP_API const BpModelTensorInfo *bp_model_output_info(const BpModel *model, int32_t index);
/* Returns the devices that the model uses, borrowed: the model's device, then the others in the
 * order in which bp_model_create got them. */
BP_API const BpDevice *bp_model_devices(const BpModel *model, size_t *num_devices);
/* Returns the targets that the model's module has code for, as full text (borrowed from the model);
 * the model uses the target of its device. A model that TVM compiled has no known targets. NULL,
 * and no error raised, for an index out of range. */
BP_API int32_t bp_model_num_targets(const BpModel *model);
BP_API const char *bp_model_target(const BpModel *model, int32_t index);
/* Gives the bytes of the model's parameters, and of the storage that each context plans. With open
 * extents the storage is the one for likely extents; it is 0 for a model that TVM compiled. */
BP_API void bp_model_memory(const BpModel *model, uint64_t *parameters, uint64_t *planned);
/* The bytes of storage that each context plans, as an expression of the open extents: "256*n+1024"
 * (borrowed from the model). *likely becomes the extents that bp_model_memory assumes, "n=64"
 * (borrowed; may be NULL). NULL (no error raised) if all shapes are known or TVM compiled the
 * model. Any thread. Since 1.0. */
BP_API const char *bp_model_planned_expression(const BpModel *model, const char **likely);

/* ---- Specialised code -------------------------------------------------------------------- */

/* The most shapes that a model can be specialised for. */
#define BP_MODEL_MAX_SPECIALIZED 8

/* Compiles the ONNX file of a model with open extents once more, for the shapes that the options
 * give its inputs. Each later run with inputs of these shapes uses the specialised code; all other
 * runs, and runs with a bound cache, use the general code. A context keeps intermediate storage for
 * each code that it has run.
 *
 * `model` was compiled from the file at `onnx_path`, which must not have changed. `options` are the
 * options that it was compiled with, except for the shapes; without targets the target is that of
 * the model's device. Parameters that several codes of a model use are shared. The code is kept in
 * the compile cache like any other. Any thread, also while contexts of the model run. If the model
 * already has code for these shapes, the call does nothing, which is no error.
 *
 * 0, or -1 with an error, and the model is unchanged. BP_ERROR_VALUE: the model has no open
 * extents, the shapes leave all extents open or do not fit its inputs, or the model is already
 * specialised for BP_MODEL_MAX_SPECIALIZED shapes. Since 1.0. */
BP_API int bp_model_specialize(BpModel *model, const char *onnx_path,
                               const BpCompileOptions *options);

/* Describes one specialised code of a model. The library owns the structure, which is valid for the
 * call. */
typedef struct BpSpecializedModel {
  uint64_t struct_size;            /* size in the library's version */
  const BpModelTensorInfo *inputs; /* inputs and the shapes of this code; -1: any extent */
  uint64_t input_size;             /* size of an element of `inputs` */
  int32_t num_inputs;
  int32_t reserved;         /* 0 */
  uint64_t runs;            /* number of runs with this code, in all contexts */
  uint64_t parameter_bytes; /* bytes of the parameters that this code reads */
  uint64_t shared_bytes;    /* bytes of parameters shared with the general code */
} BpSpecializedModel;
/* Receives each specialised code, in the order of specialising, until it returns a value other than
 * 0. */
typedef int (*BpSpecializedVisit)(void *visitor, const BpSpecializedModel *specialized);
/* Visits the specialised codes. Returns the value that `visit` returned, or -1 with an error. Any
 * thread. Since 1.0. */
BP_API int bp_model_visit_specialized(const BpModel *model, BpSpecializedVisit visit,
                                      void *visitor);

/* ---- Contexts ---------------------------------------------------------------------------- */

/* Makes a context (transfer full, bp_model_context_free, which ignores NULL); the context keeps the
 * model alive. */
BP_API BpModelContext *bp_model_context_create(BpModel *model);
BP_API void bp_model_context_free(BpModelContext *context);
/* Queues the context's later work, copies of inputs and runs, on a stream of the model's first
 * device; NULL is its default stream. Before the first call the context has a stream of its own.
 * The stream goes on after all work that the context has queued. The caller keeps the stream until
 * the context has another one or is freed.
 *
 * With bp_model_get_queued_output runs of several contexts are queued one after the other, and the
 * host does not wait. A run still waits where it needs a result: for a shape that depends on data,
 * for a condition, and for nodes that the host computes.
 *
 * A model with open extents is a program. The work of a program is queued on the default stream,
 * after the work of the given stream; the given stream then waits for it. bp_stream_sync of the
 * default stream raises a failure.
 *
 * 0, or -1 with an error: BP_ERROR_VALUE if the stream is not one of the model's first device; the
 * context is as before. The context's thread. Since 1.0. */
BP_API int bp_model_set_stream(BpModelContext *context, void *stream);
/* Copies a tensor of any device into an input; name, dtype and shape are checked. BP_ERROR_VALUE if
 * the input is a sequence or an optional; bp_model_bind_input and bp_model_get_output fail in the
 * same way. */
BP_API int bp_model_set_input(BpModelContext *context, const char *name, const BpTensorView *value);
/* Copies tensors of any device into an input that is a sequence or an optional; the types and
 * shapes are checked. `values` are `count` tensors: those of the sequence, or the one of an
 * optional tensor. A `count` of BP_MODEL_NO_VALUE is an optional without a value. Returns 0,
 * or -1 with an error, and the input is as before: BP_ERROR_VALUE if it is a tensor. The context's
 * thread. Since 1.0. */
#define BP_MODEL_NO_VALUE (-1)
BP_API int bp_model_set_input_list(BpModelContext *context, const char *name,
                                   const BpTensorView *const *values, int64_t count);
/* Sets an input to the caller's memory, on the model's device, without a copy. Keeps the tensor
 * alive until the input is set again or the context is freed. If all shapes are known, an output of
 * the same context is copied: the next run writes its memory. */
BP_API int bp_model_bind_input(BpModelContext *context, const char *name, BpTensor *value);
/* Keeps an input that grows from run to run, such as the keys of a language model, in memory with
 * room for more rows than it has. If a model computes `output` as Concat(`input`, new), and no
 * other node reads `input`, a run writes only the new rows, after the existing ones, and the output
 * is the input of the next run. The existing rows are not copied.
 *
 * `memory` is a compact tensor on the model's device, of the input's type and shape except for the
 * dimension of the Concat, where it has as many rows as there is room for. The first `length` rows
 * are the input of the next run; after a successful run, all rows of its output are. The output of
 * a run is a tensor of these rows, with strides, in `memory`. Outputs with an equal number of rows
 * are all kept in bound memory, with equal room, or none of them is. A run that needs more rows
 * than there is room for, or whose cache overlaps another input, fails without writing.
 *
 * The context keeps the tensor until the input is set or bound again. The context's thread.
 * BP_ERROR_VALUE if the model does not compute `output` as such a Concat, if all its shapes were
 * known when it was compiled, or if the memory has another type, shape or device. Since 1.0. */
BP_API int bp_model_bind_cache(BpModelContext *context, const char *input, const char *output,
                               BpTensor *memory, int64_t length);
/* Returns the number of rows of a cache that are the input of the next run; -1 with BP_ERROR_VALUE
 * if no cache is bound. The context's thread. Since 1.0. */
BP_API int64_t bp_model_cache_length(BpModelContext *context, const char *input);
/* Sets how many rows of a cache are the input of the next run: fewer, to go back to a shorter text,
 * or more, which the caller wrote. The context's thread. Since 1.0. */
BP_API int bp_model_set_cache_length(BpModelContext *context, const char *input, int64_t length);
/* Queues the graph; the call allocates no memory and performs no look-ups. Every input must have
 * been set. */
BP_API int bp_model_run(BpModelContext *context);
/* Stops the context's current run, or else its next run. The run stops where a loop of the model
 * begins an iteration, or a function of a Relax executable calls another of its functions:
 * bp_model_run fails with BP_ERROR_RUNTIME, and the context can run again. A run that reaches
 * neither place ends normally. Any thread; the context must not be freed during the call.
 * Since 1.0. */
BP_API int bp_model_cancel(BpModelContext *context);
/* Waits for the run and returns an output (transfer none), whose elements are valid until the next
 * run. A reference to the output keeps its memory when the context is freed. BP_ERROR_VALUE before
 * the first run, and after a run that failed. */
BP_API BpTensor *bp_model_get_output(BpModelContext *context, int32_t index);
/* Waits for the run and gives the number of tensors in an output that is a sequence or an optional:
 * BP_MODEL_NO_VALUE for an optional without a value. 0, or -1 with an error: BP_ERROR_VALUE before
 * the first run, after a run that failed, and for a tensor. The context's thread. Since 1.0. */
BP_API int bp_model_get_output_length(BpModelContext *context, int32_t index, int64_t *length);
/* Waits for the run and returns a tensor in an output that is a sequence or an optional (transfer
 * none), valid until the next run. NULL with an error, as for bp_model_get_output_length, and
 * BP_ERROR_INDEX if the position is outside the output. The context's thread. Since 1.0. */
BP_API BpTensor *bp_model_get_output_item(BpModelContext *context, int32_t index, int64_t position);
/* Returns an output as bp_model_get_output does, but does not wait: the output is valid for later
 * work on the stream of bp_model_set_stream. The context's thread. Since 1.0. */
BP_API BpTensor *bp_model_get_queued_output(BpModelContext *context, int32_t index);

/* ---- Looking inside ---------------------------------------------------------------------- */

/* Times each operator of one run, waiting after each; `visit` gets the node's name, the function
 * and nanoseconds, in order, until it returns non-zero. A non-zero return of `visit` is no error,
 * but the outputs are then not valid. `visit` may run other contexts of the model; it must not free
 * this context, and functions that would change the context fail with BP_ERROR_NOT_READY. If
 * dump_dir is not NULL, every intermediate result is written to that folder as NODE.npy; a file of
 * that name that is no .npy file is an error, and stays. A node with the name or the file name of
 * another node gets a number ("3:add"). Each call of a function by a Relax executable counts as a
 * node, with a number ("3:add", or "3-fused_add" if TVM compiled it), and so does a part that was
 * compiled as a whole. */
BP_API int bp_model_profile(BpModelContext *context, const char *dump_dir,
                            int (*visit)(void *visitor, const char *node, const char *function,
                                         int64_t start_ns, int64_t duration_ns),
                            void *visitor);
/* Returns the graph in TVM's published JSON form (transfer full, bp_str_free). */
BP_API char *bp_model_graph_json(const BpModel *model);

#ifdef __cplusplus
}
#endif

#endif
