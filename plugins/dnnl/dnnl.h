/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's operators for the CPU. claim.c says which nodes of a model it takes; compile.c writes a
 * part as steps, with what follows a step as its post-operations; plan.c makes primitives of them,
 * with weights in the layout that these like best; module.c runs them. */
#ifndef BP_PLUGINS_DNNL_H
#define BP_PLUGINS_DNNL_H

#include <backplane/graph_compiler.h>
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
/* The engine of the CPU; the library is open. */
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

/* A window's sizes, by spatial dimension. */
typedef struct BpDnnlWindow {
  int64_t kernel[BP_DNNL_MAX_SPATIAL];
  int64_t strides[BP_DNNL_MAX_SPATIAL];
  int64_t dilations[BP_DNNL_MAX_SPATIAL]; /* 1: none */
  int64_t pad_begin[BP_DNNL_MAX_SPATIAL];
  int64_t pad_end[BP_DNNL_MAX_SPATIAL];
} BpDnnlWindow;

/* A step of a part, as it is saved. Tensors are numbers, -1 for none. */
typedef struct BpDnnlStep {
  int32_t kind; /* BpDnnlKind */
  int32_t src, weights, bias;
  int32_t sum; /* added to the result before relu */
  int32_t dst;
  int32_t relu;         /* 1: negative results become 0 */
  int32_t algorithm;    /* of pooling: dnnl_alg_kind_t */
  int32_t axis;         /* of softmax */
  int32_t groups;       /* of a convolution */
  int32_t transposes_a; /* of a product; of matrices alone */
  int32_t transposes_b;
  BpDnnlWindow window;
} BpDnnlStep;

/* What a node is as a step, without its tensors, or why it is none (static). */
const char *bp_dnnl_read_node(const BpGraphTable *table, const BpOnnxGraph *graph,
                              const BpOnnxNode *node, BpDnnlStep *step);
/* The node that reads the value, if it is the only one and the value is not an output of the graph;
 * else -1. */
int32_t bp_dnnl_only_reader(const BpGraphTable *table, const BpOnnxGraph *graph, int32_t value);
/* The slots of BpGraphCompilerApi. */
int32_t bp_dnnl_claim(void *context, const BpOnnxGraph *graph, const BpTarget *target,
                      BpClaims *claims);
int32_t bp_dnnl_compile(void *context, const BpOnnxGraph *part, const BpTarget *target,
                        const char *function, BpModule **module);

/* ---- Programs (compile.c) ---------------------------------------------------------------- */

#define BP_DNNL_INNER    0
#define BP_DNNL_CONSTANT 1 /* its elements lie at `offset` of the data */

/* Tensors are the inputs, the outputs, and then others. */
typedef struct BpDnnlTensor {
  int32_t ndim;
  int32_t place; /* BP_DNNL_*, of the others */
  int64_t dims[BP_DNNL_MAX_NDIM];
  int64_t offset; /* in bytes */
} BpDnnlTensor;

/* What the bytes of a module's code begin with; tensors, steps and the data of constants follow. */
typedef struct BpDnnlHeader {
  char magic[8]; /* BP_DNNL_MAGIC */
  int32_t num_inputs, num_outputs, num_tensors, num_steps;
} BpDnnlHeader;
#define BP_DNNL_MAGIC "bpdnnl1"

typedef struct BpDnnlProgram {
  BpDnnlHeader header;
  BpDnnlTensor *tensors;
  BpDnnlStep *steps;
  const char *data;
  int64_t data_size;
} BpDnnlProgram;

/* Elements of a tensor. */
int64_t bp_dnnl_count(const BpDnnlTensor *tensor);

/* ---- Plans (plan.c) ---------------------------------------------------------------------- */

typedef struct BpDnnlPlan BpDnnlPlan;

/* Makes the primitives of a program that was checked, and packs its weights; NULL with an error. */
BpDnnlPlan *bp_dnnl_plan_create(const BpDnnlProgram *program);
void bp_dnnl_plan_free(BpDnnlPlan *plan);
/* Runs it; `data` is the memory of the inputs and then the outputs. Any thread, also at once from
 * several. */
int32_t bp_dnnl_plan_run(BpDnnlPlan *plan, void *const *data);

/* ---- Modules (module.c) ------------------------------------------------------------------ */

/* A module with one function, of the bytes of a program, which it takes over (free); NULL with an
 * error, the bytes freed. */
BpModule *bp_dnnl_module_create(const char *function, char *bytes, size_t size);
/* The function runtime.module.loadbinary_dnnl. */
int bp_dnnl_loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result);

#endif
