/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's operators for the CPU. claim.c says which nodes of a model oneDNN takes; compile.c
 * writes a part as steps, with the nodes after a step as its post-operations; resolve.c replaces
 * open extents with the extents of a run; plan.c makes primitives of the steps and packs weights
 * into the layout that each primitive prefers; module.c runs them. */
#ifndef BP_PLUGINS_DNNL_H
#define BP_PLUGINS_DNNL_H

#include <backplane/graph_compiler.h>
#include <backplane/operator_call.h>
#include <backplane/part_module.h>
#include <backplane/plugin_helpers.h>
#include <oneapi/dnnl/dnnl.h>

#include "../common/common.h"

#define BP_DNNL_MAX_NDIM    6
#define BP_DNNL_MAX_SPATIAL 3

extern BpPluginTables bp_dnnl_host;

/* ---- The library (loader.c) -------------------------------------------------------------- */

#define BP_DNNL_FUNCTIONS(SYMBOL)                                                                  \
  SYMBOL(dnnl_convolution_forward_desc_init)                                                       \
  SYMBOL(dnnl_dilated_convolution_forward_desc_init)                                               \
  SYMBOL(dnnl_eltwise_forward_desc_init)                                                           \
  SYMBOL(dnnl_binary_desc_init)                                                                    \
  SYMBOL(dnnl_matmul_desc_init)                                                                    \
  SYMBOL(dnnl_pooling_v2_forward_desc_init)                                                        \
  SYMBOL(dnnl_softmax_forward_desc_init)                                                           \
  SYMBOL(dnnl_engine_create)                                                                       \
  SYMBOL(dnnl_engine_destroy)                                                                      \
  SYMBOL(dnnl_memory_create)                                                                       \
  SYMBOL(dnnl_memory_desc_equal)                                                                   \
  SYMBOL(dnnl_memory_desc_get_size)                                                                \
  SYMBOL(dnnl_memory_desc_init_by_strides)                                                         \
  SYMBOL(dnnl_memory_desc_init_by_tag)                                                             \
  SYMBOL(dnnl_memory_destroy)                                                                      \
  SYMBOL(dnnl_memory_set_data_handle)                                                              \
  SYMBOL(dnnl_post_ops_append_eltwise)                                                             \
  SYMBOL(dnnl_post_ops_append_sum)                                                                 \
  SYMBOL(dnnl_post_ops_create)                                                                     \
  SYMBOL(dnnl_post_ops_destroy)                                                                    \
  SYMBOL(dnnl_primitive_attr_create)                                                               \
  SYMBOL(dnnl_primitive_attr_destroy)                                                              \
  SYMBOL(dnnl_primitive_attr_set_post_ops)                                                         \
  SYMBOL(dnnl_primitive_attr_set_scratchpad_mode)                                                  \
  SYMBOL(dnnl_primitive_create)                                                                    \
  SYMBOL(dnnl_primitive_desc_create)                                                               \
  SYMBOL(dnnl_primitive_desc_destroy)                                                              \
  SYMBOL(dnnl_primitive_desc_query_md)                                                             \
  SYMBOL(dnnl_primitive_destroy)                                                                   \
  SYMBOL(dnnl_primitive_execute)                                                                   \
  SYMBOL(dnnl_reorder_primitive_desc_create)                                                       \
  SYMBOL(dnnl_stream_create)                                                                       \
  SYMBOL(dnnl_stream_destroy)                                                                      \
  SYMBOL(dnnl_stream_wait)

typedef struct BpDnnlLibrary {
#define BP_DNNL_MEMBER(name) __typeof__(&name) name;
  BP_DNNL_FUNCTIONS(BP_DNNL_MEMBER)
#undef BP_DNNL_MEMBER
} BpDnnlLibrary;
extern BpDnnlLibrary bp_dnnl;

/* Opens the library, once; NULL, or why it cannot be used. Any thread. */
const char *bp_dnnl_load(void);
/* The CPU engine of the open library. */
extern dnnl_engine_t bp_dnnl_engine;
/* Raises an error for a status that is not success; returns -1. */
int32_t bp_dnnl_raise(dnnl_status_t status, const char *call);
#define BP_DNNL_CALL(function, ...)                                                                \
  ({                                                                                               \
    dnnl_status_t status_ = bp_dnnl.function(__VA_ARGS__);                                         \
    status_ == dnnl_success ? 0 : bp_dnnl_raise(status_, #function);                               \
  })

/* ---- Operators (claim.c) ----------------------------------------------------------------- */

typedef enum BpDnnlKind {
  BP_DNNL_CONV,
  BP_DNNL_MATMUL, /* and Gemm */
  BP_DNNL_POOL,
  BP_DNNL_SOFTMAX,
  BP_DNNL_RELU,
  BP_DNNL_ADD,
  BP_DNNL_NUM_KINDS
} BpDnnlKind;

/* An extent that is known only when the part runs. */
#define BP_DNNL_OPEN (-1)

/* A window's sizes, by spatial dimension. Where the input's extent is known, pad_end extends to the
 * end of the last window; where it is open, pad_end is the value in the model. */
typedef struct BpDnnlWindow {
  int64_t kernel[BP_DNNL_MAX_SPATIAL];
  int64_t strides[BP_DNNL_MAX_SPATIAL];
  int64_t dilations[BP_DNNL_MAX_SPATIAL]; /* 1: none */
  int64_t pad_begin[BP_DNNL_MAX_SPATIAL];
  int64_t pad_end[BP_DNNL_MAX_SPATIAL];
} BpDnnlWindow;

/* A step of a part in its saved form. Tensors are numbers; -1 means none. */
typedef struct BpDnnlStep {
  int32_t kind; /* BpDnnlKind */
  int32_t src, weights, bias;
  int32_t sum; /* a tensor added to the result before relu */
  int32_t dst;
  int32_t relu;         /* 1: negative results become 0 */
  int32_t algorithm;    /* of pooling: dnnl_alg_kind_t */
  int32_t is_global;    /* the pooling window is the whole input */
  int32_t axis;         /* axis of softmax */
  int32_t groups;       /* groups of a convolution */
  int32_t transposes_a; /* the product transposes operand a */
  int32_t transposes_b;
  BpDnnlWindow window;
} BpDnnlStep;

/* The operators: ONNX's name, the function of claim.c that reads the node, and the number of
 * required inputs. A new kind of step is also checked in module.c (check_kind) and planned in
 * plan.c. Samples are in conformance/operators.c, tests in tests/plugins/test-dnnl.c. */
#define BP_DNNL_OPERATORS(OPERATOR)                                                                \
  OPERATOR(Conv, read_conv, 2)                                                                     \
  OPERATOR(MaxPool, read_pool, 1)                                                                  \
  OPERATOR(AveragePool, read_pool, 1)                                                              \
  OPERATOR(GlobalAveragePool, read_pool, 1)                                                        \
  OPERATOR(MatMul, read_matmul, 2)                                                                 \
  OPERATOR(Gemm, read_gemm, 2)                                                                     \
  OPERATOR(Softmax, read_softmax, 1)                                                               \
  OPERATOR(Relu, read_relu, 1)                                                                     \
  OPERATOR(Add, read_add, 2)

/* Reads a node as a step without tensors. Returns NULL, or why oneDNN does not take the node
 * (static). */
const char *bp_dnnl_read_node(const BpGraphTable *table, const BpOnnxGraph *graph,
                              const BpOnnxNode *node, BpDnnlStep *step);
/* Checks the window of a step that bp_dnnl_read_node read, for nodes with known extents. Returns
 * NULL, or an explanation if ONNX's shape inference gives another output (static). The step's
 * padding is computed from the output, which is right for the nodes of a model. */
const char *bp_dnnl_check_window(const BpGraphTable *table, const BpOnnxGraph *graph,
                                 const BpOnnxNode *node, const BpDnnlStep *step);
/* The node that reads the value, if it is the only reader and the value is not an output of the
 * graph; else -1. */
int32_t bp_dnnl_only_reader(const BpGraphTable *table, const BpOnnxGraph *graph, int32_t value);
/* The slots of BpGraphCompilerApi. */
int32_t bp_dnnl_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                      BpClaims *claims);
/* Compiles the nodes of a graph, which a table reads, into a module (transfer full). */
int32_t bp_dnnl_compile_part(const BpGraphTable *table, const BpOnnxGraph *part,
                             const char *function, BpModule **module);
int32_t bp_dnnl_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                        const char *function, BpModule **module);

/* ---- Programs (compile.c) ---------------------------------------------------------------- */

#define BP_DNNL_INNER    0
#define BP_DNNL_CONSTANT 1 /* the elements are at `offset` of the data */

/* The first tensors are the inputs, then come the outputs, and then the others. */
typedef struct BpDnnlTensor {
  int32_t ndim;
  int32_t place;                  /* BP_DNNL_*, of tensors that are neither input nor output */
  int64_t dims[BP_DNNL_MAX_NDIM]; /* extents, or BP_DNNL_OPEN */
  int64_t offset;                 /* offset in bytes */
} BpDnnlTensor;

/* The header of a module's code; tensors, steps and the data of constants follow. */
typedef struct BpDnnlHeader {
  char magic[8]; /* BP_DNNL_MAGIC */
  int32_t num_inputs, num_outputs, num_tensors, num_steps;
} BpDnnlHeader;
#define BP_DNNL_MAGIC "bpdnnl2"

typedef struct BpDnnlProgram {
  BpDnnlHeader header;
  BpDnnlTensor *tensors;
  BpDnnlStep *steps;
  const char *data;
  int64_t data_size;
  int32_t is_open; /* whether an extent is open */
} BpDnnlProgram;

/* The number of elements of a tensor. */
int64_t bp_dnnl_count(const BpDnnlTensor *tensor);

/* ---- Extents of a run (resolve.c) -------------------------------------------------------- */

/* The extents of the inputs and then of the outputs, BP_DNNL_MAX_NDIM for each. */
typedef struct BpDnnlShapes {
  int64_t dims[BP_KERNEL_MAX_ARGS][BP_DNNL_MAX_NDIM];
} BpDnnlShapes;

/* Makes a program with known extents from a checked program with open extents. The copy shares the
 * data of constants, and its outputs have the shapes given. -1 with an error: the shapes do not
 * fit. bp_dnnl_resolved_free frees the parts that the copy owns. */
int32_t bp_dnnl_resolve(const BpDnnlProgram *program, const BpDnnlShapes *shapes,
                        BpDnnlProgram *resolved);
void bp_dnnl_resolved_free(BpDnnlProgram *resolved);

/* ---- Plans (plan.c) ---------------------------------------------------------------------- */

typedef struct BpDnnlPlan BpDnnlPlan;

/* A constant in a layout that a primitive chose. */
typedef struct BpDnnlPacked {
  struct BpDnnlPacked *next;
  const void *source;
  dnnl_memory_desc_t from, to;
  void *data;
} BpDnnlPacked;

/* Makes the primitives of a checked program without open extents, and packs its weights. NULL with
 * an error. The plans of a module share `packed`, the list of constants packed so far, which
 * outlives them. */
BpDnnlPlan *bp_dnnl_plan_create(const BpDnnlProgram *program, BpDnnlPacked **packed);
void bp_dnnl_packed_free(BpDnnlPacked *packed);
void bp_dnnl_plan_free(BpDnnlPlan *plan);
/* Runs a plan. `data` has the memory of the inputs and then of the outputs. Any thread, also at
 * once from several. */
int32_t bp_dnnl_plan_run(BpDnnlPlan *plan, void *const *data);

/* ---- Modules (module.c) ------------------------------------------------------------------ */

/* Makes a module with one function from the bytes of a program. The module takes over the bytes
 * (free), also if it fails: NULL with an error. */
BpModule *bp_dnnl_module_create(const char *function, char *bytes, size_t size);
/* The function runtime.module.loadbinary_dnnl. */
int bp_dnnl_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result);

/* ---- Single operators (operators.c) ------------------------------------------------------ */

/* Registers operator.dnnl.OP for each of BP_DNNL_OPERATORS. */
int32_t bp_dnnl_register_operators(void);

#endif
