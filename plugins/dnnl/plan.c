/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of a program. A primitive chooses the layout of its tensors; a tensor in another
 * layout is reordered first, weights only once. Between steps, tensors stay in the layout in which
 * they were computed. A workspace is the memory of one run; runs at the same time have different
 * workspaces. */
#include "dnnl.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64
#define MOST_ARGS 6
#define UNUSED    (-1)

enum { ARGUMENT, CONSTANT, INNER };

/* Memory of a tensor or of a primitive. */
typedef struct Storage {
  int32_t kind;
  int32_t index;       /* index of the argument, for a storage that is an argument */
  void *data;          /* the bytes, for a storage that is a constant */
  size_t size, offset; /* place of a storage in the workspace */
  int32_t first, last; /* first and last call that uses the storage in the workspace */
  int32_t is_placed;   /* the offset in the workspace is chosen */
  int32_t next; /* next storage in use, by offset, or UNUSED; only while this storage is in use */
} Storage;

/* A storage viewed as a tensor of a certain layout. */
typedef struct Buffer {
  dnnl_memory_desc_t desc;
  int32_t storage;
} Buffer;

typedef struct Call {
  dnnl_primitive_t primitive;
  int32_t num_args;
  int args[MOST_ARGS];
  int32_t buffers[MOST_ARGS];
} Call;

typedef struct Workspace {
  struct Workspace *next;
  dnnl_stream_t stream;
  char *memory;
  dnnl_memory_t *memories; /* by buffer */
} Workspace;

struct BpDnnlPlan {
  Storage *storages;
  Buffer *buffers;
  Call *calls;
  int32_t num_storages, num_buffers, num_calls;
  size_t inner_size;
  pthread_mutex_t lock;
  Workspace *idle;
};

typedef struct Planner {
  BpDnnlPlan *plan;
  const BpDnnlProgram *program;
  BpDnnlPacked **packed;
  int32_t *buffer_of; /* the present buffer of a tensor, or UNUSED, by tensor */
  int32_t *reads;     /* number of steps that have yet to read a tensor, by tensor */
} Planner;

/* ---- Growing lists ----------------------------------------------------------------------- */

/* Makes room for one more element, zeroed. Returns its index, or -1 with an error. */
static int32_t append(void *list, int32_t *count, size_t size) {
  char *old = *(void **)list, *grown = old;
  if ((*count & (*count - 1)) == 0) {
    grown = realloc(old, (size_t)(*count ? 2 * *count : 1) * size);
    if (!grown)
      return bp_plugin_raise(&bp_dnnl_host, BP_ERROR_MEMORY, "no memory for a plan of oneDNN");
    *(void **)list = grown;
  }
  memset(grown + (size_t)*count * size, 0, size);
  return (*count)++;
}

static int32_t add_storage(BpDnnlPlan *plan, Storage storage) {
  int32_t index = append(&plan->storages, &plan->num_storages, sizeof(Storage));
  storage.first = UNUSED;
  if (index >= 0)
    plan->storages[index] = storage;
  return index;
}

static int32_t add_buffer(BpDnnlPlan *plan, const dnnl_memory_desc_t *desc, int32_t storage) {
  int32_t index = storage < 0 ? -1 : append(&plan->buffers, &plan->num_buffers, sizeof(Buffer));
  if (index >= 0)
    plan->buffers[index] = (Buffer){*desc, storage};
  return index;
}

static int32_t add_inner(BpDnnlPlan *plan, const dnnl_memory_desc_t *desc) {
  size_t size = bp_dnnl.dnnl_memory_desc_get_size(desc);
  return add_buffer(plan, desc, add_storage(plan, (Storage){.kind = INNER, .size = size}));
}

/* Adds a call; takes over the primitive. */
static int32_t add_call(BpDnnlPlan *plan, Call call) {
  int32_t index = append(&plan->calls, &plan->num_calls, sizeof(Call));
  if (index < 0) {
    bp_dnnl.dnnl_primitive_destroy(call.primitive);
    return -1;
  }
  plan->calls[index] = call;
  for (int32_t i = 0; i < call.num_args; i++) {
    Storage *storage = &plan->storages[plan->buffers[call.buffers[i]].storage];
    storage->first = storage->first == UNUSED ? index : storage->first;
    storage->last = index;
  }
  return 0;
}

/* ---- Layouts ----------------------------------------------------------------------------- */

static int32_t make_plain(dnnl_memory_desc_t *desc, int32_t ndim, const int64_t *dims) {
  dnnl_dims_t all = {0}, strides = {0};
  memcpy(all, dims, (size_t)ndim * sizeof(*dims));
  strides[ndim - 1] = 1;
  for (int32_t i = ndim - 1; i > 0; i--)
    strides[i - 1] = strides[i] * dims[i];
  return BP_DNNL_CALL(dnnl_memory_desc_init_by_strides, desc, ndim, all, dnnl_f32, strides);
}

static int32_t make_any(dnnl_memory_desc_t *desc, int32_t ndim, const int64_t *dims) {
  dnnl_dims_t all = {0};
  memcpy(all, dims, (size_t)ndim * sizeof(*dims));
  return BP_DNNL_CALL(dnnl_memory_desc_init_by_tag, desc, ndim, all, dnnl_f32, dnnl_format_tag_any);
}

/* A window in oneDNN's form: a dilation is the number of skipped elements. */
typedef struct Window {
  dnnl_dims_t kernel, strides, dilations, pad_begin, pad_end;
} Window;

static Window read_window(const BpDnnlWindow *from, int32_t rank) {
  Window w = {{0}, {0}, {0}, {0}, {0}};
  for (int32_t i = 0; i < rank; i++) {
    w.kernel[i] = from->kernel[i];
    w.strides[i] = from->strides[i];
    w.dilations[i] = from->dilations[i] - 1;
    w.pad_begin[i] = from->pad_begin[i];
    w.pad_end[i] = from->pad_end[i];
  }
  return w;
}

static const BpDnnlTensor *tensor_at(const Planner *planner, int32_t tensor) {
  return &planner->program->tensors[tensor];
}

static int32_t make_plain_of(const Planner *planner, dnnl_memory_desc_t *desc, int32_t tensor) {
  const BpDnnlTensor *t = tensor_at(planner, tensor);
  return make_plain(desc, t->ndim, t->dims);
}

static int32_t make_any_of(const Planner *planner, dnnl_memory_desc_t *desc, int32_t tensor) {
  const BpDnnlTensor *t = tensor_at(planner, tensor);
  return make_any(desc, t->ndim, t->dims);
}

static int is_argument(const Planner *planner, int32_t tensor) {
  const BpDnnlHeader *header = &planner->program->header;
  return tensor < header->num_inputs + header->num_outputs;
}

/* ---- Reordering -------------------------------------------------------------------------- */

static dnnl_primitive_t make_reorder(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to) {
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_t primitive = NULL;
  if (BP_DNNL_CALL(dnnl_primitive_attr_create, &attr) == 0 &&
      BP_DNNL_CALL(dnnl_reorder_primitive_desc_create, &desc, from, bp_dnnl_engine, to,
                   bp_dnnl_engine, attr) == 0)
    BP_DNNL_CALL(dnnl_primitive_create, &primitive, desc);
  if (desc)
    bp_dnnl.dnnl_primitive_desc_destroy(desc);
  if (attr)
    bp_dnnl.dnnl_primitive_attr_destroy(attr);
  return primitive;
}

static int32_t add_reorder(BpDnnlPlan *plan, int32_t from, int32_t to) {
  dnnl_primitive_t primitive = make_reorder(&plan->buffers[from].desc, &plan->buffers[to].desc);
  Call call = {.primitive = primitive,
               .num_args = 2,
               .args = {DNNL_ARG_FROM, DNNL_ARG_TO},
               .buffers = {from, to}};
  return primitive ? add_call(plan, call) : -1;
}

/* Runs a primitive on two buffers of constants. */
static int32_t run_now(dnnl_primitive_t primitive, const dnnl_memory_desc_t *from, void *from_data,
                       const dnnl_memory_desc_t *to, void *to_data) {
  dnnl_stream_t stream = NULL;
  dnnl_memory_t a = NULL, b = NULL;
  int32_t status = -1;
  if (BP_DNNL_CALL(dnnl_stream_create, &stream, bp_dnnl_engine, dnnl_stream_default_flags) == 0 &&
      BP_DNNL_CALL(dnnl_memory_create, &a, from, bp_dnnl_engine, from_data) == 0 &&
      BP_DNNL_CALL(dnnl_memory_create, &b, to, bp_dnnl_engine, to_data) == 0) {
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, a}, {DNNL_ARG_TO, b}};
    status = BP_DNNL_CALL(dnnl_primitive_execute, primitive, stream, 2, args);
    if (!status)
      status = BP_DNNL_CALL(dnnl_stream_wait, stream);
  }
  if (a)
    bp_dnnl.dnnl_memory_destroy(a);
  if (b)
    bp_dnnl.dnnl_memory_destroy(b);
  if (stream)
    bp_dnnl.dnnl_stream_destroy(stream);
  return status;
}

static BpDnnlPacked *find_packed(const Planner *planner, const Buffer *from,
                                 const dnnl_memory_desc_t *to) {
  const void *source = planner->plan->storages[from->storage].data;
  BpDnnlPacked *packed = *planner->packed;
  while (packed &&
         (packed->source != source || !bp_dnnl.dnnl_memory_desc_equal(&packed->from, &from->desc) ||
          !bp_dnnl.dnnl_memory_desc_equal(&packed->to, to)))
    packed = packed->next;
  return packed;
}

/* Packs a constant, and adds it to the module's list. */
static BpDnnlPacked *pack(const Planner *planner, const Buffer *from,
                          const dnnl_memory_desc_t *to) {
  size_t size = bp_dnnl.dnnl_memory_desc_get_size(to);
  void *source = planner->plan->storages[from->storage].data;
  void *data = aligned_alloc(ALIGNMENT, (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
  BpDnnlPacked *packed = bp_plugin_calloc(&bp_dnnl_host, sizeof(*packed));
  dnnl_primitive_t primitive = data && packed ? make_reorder(&from->desc, to) : NULL;
  if (!data)
    bp_plugin_raise(&bp_dnnl_host, BP_ERROR_MEMORY, "no memory for packed weights");
  int32_t status = primitive ? run_now(primitive, &from->desc, source, to, data) : -1;
  if (primitive)
    bp_dnnl.dnnl_primitive_destroy(primitive);
  if (status) {
    free(data);
    free(packed);
    return NULL;
  }
  *packed = (BpDnnlPacked){*planner->packed, source, from->desc, *to, data};
  *planner->packed = packed;
  return packed;
}

void bp_dnnl_packed_free(BpDnnlPacked *packed) {
  while (packed) {
    BpDnnlPacked *next = packed->next;
    free(packed->data);
    free(packed);
    packed = next;
  }
}

/* Returns a constant in another layout: the one packed earlier, or a new one. */
static int32_t in_packed_layout(const Planner *planner, const Buffer *from,
                                const dnnl_memory_desc_t *to) {
  BpDnnlPacked *packed = find_packed(planner, from, to);
  if (!packed && !(packed = pack(planner, from, to)))
    return -1;
  return add_buffer(planner->plan, to,
                    add_storage(planner->plan, (Storage){.kind = CONSTANT, .data = packed->data}));
}

/* Returns a buffer with the contents of `buffer` in a layout. */
static int32_t in_layout(const Planner *planner, int32_t buffer, const dnnl_memory_desc_t *desc) {
  BpDnnlPlan *plan = planner->plan;
  if (buffer < 0)
    return -1;
  const Buffer from = plan->buffers[buffer];
  if (bp_dnnl.dnnl_memory_desc_equal(&from.desc, desc))
    return buffer;
  if (plan->storages[from.storage].kind == CONSTANT)
    return in_packed_layout(planner, &from, desc);
  int32_t to = add_inner(plan, desc);
  return to < 0 || add_reorder(plan, buffer, to) ? -1 : to;
}

/* ---- Steps ------------------------------------------------------------------------------- */

/* Returns the buffer that a step writes its result to. If the result is an output of the part and
 * its layout is the plain one, the step writes to the output directly. If no other step reads the
 * sum, the step adds to the sum in place; otherwise the sum is copied first. */
static int32_t begin_result(Planner *planner, const BpDnnlStep *step,
                            const dnnl_memory_desc_t *desc) {
  BpDnnlPlan *plan = planner->plan;
  dnnl_memory_desc_t plain;
  int32_t sum = step->sum < 0 || step->kind == BP_DNNL_ADD ? UNUSED : planner->buffer_of[step->sum];
  int32_t result;
  if (make_plain_of(planner, &plain, step->dst))
    return -1;
  int is_direct = is_argument(planner, step->dst) && bp_dnnl.dnnl_memory_desc_equal(&plain, desc);
  if (sum != UNUSED && !is_direct && planner->reads[step->sum] == 1 &&
      plan->storages[plan->buffers[sum].storage].kind == INNER &&
      bp_dnnl.dnnl_memory_desc_equal(&plan->buffers[sum].desc, desc))
    return sum;
  result = is_direct
               ? add_buffer(plan, desc,
                            add_storage(plan, (Storage){.kind = ARGUMENT, .index = step->dst}))
               : add_inner(plan, desc);
  return result < 0 || (sum != UNUSED && add_reorder(plan, sum, result)) ? -1 : result;
}

/* Records the result's buffer. If the result is an output of the part, copies it there in plain
 * layout. */
static int32_t end_result(Planner *planner, const BpDnnlStep *step, int32_t buffer) {
  BpDnnlPlan *plan = planner->plan;
  dnnl_memory_desc_t plain;
  planner->buffer_of[step->dst] = buffer;
  if (!is_argument(planner, step->dst) ||
      plan->storages[plan->buffers[buffer].storage].kind == ARGUMENT)
    return 0;
  if (make_plain_of(planner, &plain, step->dst))
    return -1;
  int32_t output =
      add_buffer(plan, &plain, add_storage(plan, (Storage){.kind = ARGUMENT, .index = step->dst}));
  return output < 0 ? -1 : add_reorder(plan, buffer, output);
}

/* A step's primitive while it is being made. */
typedef struct Made {
  dnnl_primitive_desc_t desc;
  Call call;
} Made;

static int32_t append_post_ops(const BpDnnlStep *step, dnnl_primitive_attr_t attr) {
  dnnl_post_ops_t ops = NULL;
  int32_t status = BP_DNNL_CALL(dnnl_post_ops_create, &ops);
  if (!status && step->sum >= 0 && step->kind != BP_DNNL_ADD)
    status = BP_DNNL_CALL(dnnl_post_ops_append_sum, ops, 1.0f);
  if (!status && step->relu)
    status = BP_DNNL_CALL(dnnl_post_ops_append_eltwise, ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
  if (!status)
    status = BP_DNNL_CALL(dnnl_primitive_attr_set_post_ops, attr, ops);
  if (ops)
    bp_dnnl.dnnl_post_ops_destroy(ops);
  return status;
}

static int32_t make_desc(const BpDnnlStep *step, const_dnnl_op_desc_t op, Made *made) {
  dnnl_primitive_attr_t attr = NULL;
  int32_t status = BP_DNNL_CALL(dnnl_primitive_attr_create, &attr);
  if (!status)
    status = BP_DNNL_CALL(dnnl_primitive_attr_set_scratchpad_mode, attr, dnnl_scratchpad_mode_user);
  if (!status)
    status = append_post_ops(step, attr);
  if (!status)
    status = BP_DNNL_CALL(dnnl_primitive_desc_create, &made->desc, op, attr, bp_dnnl_engine, NULL);
  if (attr)
    bp_dnnl.dnnl_primitive_attr_destroy(attr);
  return status;
}

static const dnnl_memory_desc_t *query(const Made *made, dnnl_query_t what) {
  return bp_dnnl.dnnl_primitive_desc_query_md(made->desc, what, 0);
}

static void add_arg(Made *made, int arg, int32_t buffer) {
  made->call.args[made->call.num_args] = arg;
  made->call.buffers[made->call.num_args++] = buffer;
}

/* Adds the primitive with its arguments and its scratchpad; frees the description. */
static int32_t finish(Planner *planner, Made *made, int32_t status) {
  const dnnl_memory_desc_t *scratch =
      made->desc && !status ? query(made, dnnl_query_scratchpad_md) : NULL;
  if (scratch && bp_dnnl.dnnl_memory_desc_get_size(scratch) > 0) {
    int32_t buffer = add_inner(planner->plan, scratch);
    status = buffer < 0 ? -1 : 0;
    add_arg(made, DNNL_ARG_SCRATCHPAD, buffer);
  }
  if (!status)
    status = BP_DNNL_CALL(dnnl_primitive_create, &made->call.primitive, made->desc);
  if (made->desc)
    bp_dnnl.dnnl_primitive_desc_destroy(made->desc);
  return status ? -1 : add_call(planner->plan, made->call);
}

/* ---- Convolutions ------------------------------------------------------------------------ */

/* Returns the weights with a dimension for groups, and their constant in that shape. */
static int32_t grouped_weights(const Planner *planner, const BpDnnlStep *step, int32_t *ndim,
                               int64_t *dims) {
  const BpDnnlTensor *weights = tensor_at(planner, step->weights);
  int32_t has_groups = step->groups > 1;
  dnnl_memory_desc_t plain;
  *ndim = weights->ndim + has_groups;
  memcpy(dims + has_groups, weights->dims, (size_t)weights->ndim * sizeof(int64_t));
  if (has_groups) {
    dims[0] = step->groups;
    dims[1] /= step->groups;
  }
  int32_t buffer = planner->buffer_of[step->weights];
  return make_plain(&plain, *ndim, dims)
             ? -1
             : add_buffer(planner->plan, &plain, planner->plan->buffers[buffer].storage);
}

static int32_t describe_conv(const Planner *planner, const BpDnnlStep *step, int32_t weights_ndim,
                             const int64_t *weights_dims, Made *made) {
  dnnl_memory_desc_t src, weights, bias, dst;
  dnnl_convolution_desc_t desc;
  const Window w = read_window(&step->window, tensor_at(planner, step->src)->ndim - 2);
  if (make_any_of(planner, &src, step->src) || make_any_of(planner, &dst, step->dst) ||
      make_any(&weights, weights_ndim, weights_dims) ||
      (step->bias >= 0 && make_plain_of(planner, &bias, step->bias)))
    return -1;
  return BP_DNNL_CALL(dnnl_dilated_convolution_forward_desc_init, &desc, dnnl_forward_inference,
                      dnnl_convolution_direct, &src, &weights, step->bias >= 0 ? &bias : NULL, &dst,
                      w.strides, w.dilations, w.pad_begin, w.pad_end)
             ? -1
             : make_desc(step, &desc, made);
}

static int32_t plan_conv(Planner *planner, const BpDnnlStep *step) {
  int64_t dims[BP_DNNL_MAX_NDIM];
  int32_t ndim, result = -1;
  Made made = {.desc = NULL};
  int32_t weights = grouped_weights(planner, step, &ndim, dims);
  int32_t status = weights < 0 ? -1 : describe_conv(planner, step, ndim, dims, &made);
  if (!status) {
    int32_t src =
        in_layout(planner, planner->buffer_of[step->src], query(&made, dnnl_query_src_md));
    weights = in_layout(planner, weights, query(&made, dnnl_query_weights_md));
    result =
        src < 0 || weights < 0 ? -1 : begin_result(planner, step, query(&made, dnnl_query_dst_md));
    status = result < 0 ? -1 : 0;
    add_arg(&made, DNNL_ARG_SRC, src);
    add_arg(&made, DNNL_ARG_WEIGHTS, weights);
    add_arg(&made, DNNL_ARG_DST, result);
    if (step->bias >= 0)
      add_arg(&made, DNNL_ARG_BIAS, planner->buffer_of[step->bias]);
  }
  return finish(planner, &made, status) ? -1 : end_result(planner, step, result);
}

/* ---- Products ---------------------------------------------------------------------------- */

/* Combines the rows of all matrices into one matrix if the second operand is a single matrix. */
static void flatten(const BpDnnlTensor *tensor, int32_t ndim, int64_t *dims) {
  memcpy(dims, tensor->dims, (size_t)tensor->ndim * sizeof(int64_t));
  if (ndim == tensor->ndim)
    return;
  dims[0] = bp_dnnl_count(tensor) / tensor->dims[tensor->ndim - 1];
  dims[1] = tensor->dims[tensor->ndim - 1];
}

/* Describes a matrix as it lies in memory; `is_transposed` swaps rows and columns. */
static int32_t make_matrix(dnnl_memory_desc_t *desc, int32_t ndim, const int64_t *dims,
                           int32_t is_transposed) {
  if (!is_transposed)
    return make_plain(desc, ndim, dims);
  dnnl_dims_t turned = {dims[1], dims[0]}, strides = {1, dims[1]};
  return BP_DNNL_CALL(dnnl_memory_desc_init_by_strides, desc, 2, turned, dnnl_f32, strides);
}

/* Returns the tensor in plain layout, described by `desc`. */
static int32_t view(Planner *planner, int32_t tensor, const dnnl_memory_desc_t *desc) {
  dnnl_memory_desc_t plain;
  int32_t buffer = make_plain_of(planner, &plain, tensor)
                       ? -1
                       : in_layout(planner, planner->buffer_of[tensor], &plain);
  return buffer < 0 ? -1 : add_buffer(planner->plan, desc, planner->plan->buffers[buffer].storage);
}

static int32_t describe_matmul(const Planner *planner, const BpDnnlStep *step, Made *made,
                               dnnl_memory_desc_t descs[4]) {
  const BpDnnlTensor *b = tensor_at(planner, step->weights);
  int64_t dims[BP_DNNL_MAX_NDIM], bias[2] = {1, 0};
  dnnl_memory_desc_t packed;
  dnnl_matmul_desc_t desc;
  flatten(tensor_at(planner, step->src), b->ndim, dims);
  if (make_matrix(&descs[0], b->ndim, dims, step->transposes_a) ||
      make_matrix(&descs[1], b->ndim, b->dims, step->transposes_b))
    return -1;
  flatten(tensor_at(planner, step->dst), b->ndim, dims);
  bias[1] = dims[b->ndim - 1];
  if (make_plain(&descs[3], b->ndim, dims) || (step->bias >= 0 && make_plain(&descs[2], 2, bias)) ||
      make_any(&packed, descs[1].ndims, descs[1].dims))
    return -1;
  return BP_DNNL_CALL(dnnl_matmul_desc_init, &desc, &descs[0],
                      b->place == BP_DNNL_CONSTANT && !is_argument(planner, step->weights)
                          ? &packed
                          : &descs[1],
                      step->bias >= 0 ? &descs[2] : NULL, &descs[3])
             ? -1
             : make_desc(step, &desc, made);
}

static int32_t plan_matmul(Planner *planner, const BpDnnlStep *step) {
  BpDnnlPlan *plan = planner->plan;
  dnnl_memory_desc_t descs[4], plain; /* forms of both operands, the bias and the result */
  Made made = {.desc = NULL};
  int32_t result = -1;
  int32_t status = describe_matmul(planner, step, &made, descs);
  if (!status) {
    int32_t a = view(planner, step->src, &descs[0]), b = view(planner, step->weights, &descs[1]);
    int32_t bias = step->bias < 0 ? 0 : view(planner, step->bias, &descs[2]);
    b = in_layout(planner, b, query(&made, dnnl_query_weights_md));
    if (a >= 0 && b >= 0 && bias >= 0 && make_plain_of(planner, &plain, step->dst) == 0)
      result = begin_result(planner, step, &plain);
    int32_t seen = result < 0 ? -1 : add_buffer(plan, &descs[3], plan->buffers[result].storage);
    status = seen < 0 ? -1 : 0;
    add_arg(&made, DNNL_ARG_SRC, a);
    add_arg(&made, DNNL_ARG_WEIGHTS, b);
    add_arg(&made, DNNL_ARG_DST, seen);
    if (step->bias >= 0)
      add_arg(&made, DNNL_ARG_BIAS, bias);
  }
  return finish(planner, &made, status) ? -1 : end_result(planner, step, result);
}

/* ---- Other operators --------------------------------------------------------------------- */

static int32_t describe_pool(const Planner *planner, const BpDnnlStep *step, Made *made) {
  const Window w = read_window(&step->window, tensor_at(planner, step->src)->ndim - 2);
  const dnnl_memory_desc_t *src = &planner->plan->buffers[planner->buffer_of[step->src]].desc;
  dnnl_pooling_v2_desc_t desc;
  dnnl_memory_desc_t dst;
  return make_any_of(planner, &dst, step->dst) ||
                 BP_DNNL_CALL(dnnl_pooling_v2_forward_desc_init, &desc, dnnl_forward_inference,
                              (dnnl_alg_kind_t)step->algorithm, src, &dst, w.strides, w.kernel,
                              w.dilations, w.pad_begin, w.pad_end)
             ? -1
             : make_desc(step, &desc, made);
}

/* Describes operators whose result has the layout of their operand. */
static int32_t describe_alike(const BpDnnlStep *step, const dnnl_memory_desc_t *src, Made *made) {
  dnnl_softmax_desc_t softmax;
  dnnl_eltwise_desc_t relu;
  dnnl_binary_desc_t add;
  switch (step->kind) {
  case BP_DNNL_SOFTMAX:
    return BP_DNNL_CALL(dnnl_softmax_forward_desc_init, &softmax, dnnl_forward_inference, src,
                        step->axis)
               ? -1
               : make_desc(step, &softmax, made);
  case BP_DNNL_RELU:
    return BP_DNNL_CALL(dnnl_eltwise_forward_desc_init, &relu, dnnl_forward_inference,
                        dnnl_eltwise_relu, src, 0.0f, 0.0f)
               ? -1
               : make_desc(step, &relu, made);
  default:
    return BP_DNNL_CALL(dnnl_binary_desc_init, &add, dnnl_binary_add, src, src, src)
               ? -1
               : make_desc(step, &add, made);
  }
}

static int32_t plan_other(Planner *planner, const BpDnnlStep *step) {
  BpDnnlPlan *plan = planner->plan;
  dnnl_memory_desc_t plain;
  Made made = {.desc = NULL};
  int32_t src = planner->buffer_of[step->src], result = -1, other = 0;
  if (step->kind == BP_DNNL_SOFTMAX)
    src = make_plain_of(planner, &plain, step->src) ? -1 : in_layout(planner, src, &plain);
  if (src < 0)
    return -1;
  const dnnl_memory_desc_t layout = plan->buffers[src].desc;
  int32_t status = step->kind == BP_DNNL_POOL ? describe_pool(planner, step, &made)
                                              : describe_alike(step, &layout, &made);
  if (!status) {
    if (step->kind == BP_DNNL_ADD)
      other = in_layout(planner, planner->buffer_of[step->sum], &layout);
    result = other < 0 ? -1
                       : begin_result(planner, step,
                                      step->kind == BP_DNNL_POOL ? query(&made, dnnl_query_dst_md)
                                                                 : &layout);
    status = result < 0 ? -1 : 0;
    add_arg(&made, step->kind == BP_DNNL_ADD ? DNNL_ARG_SRC_0 : DNNL_ARG_SRC, src);
    add_arg(&made, DNNL_ARG_DST, result);
    if (step->kind == BP_DNNL_ADD)
      add_arg(&made, DNNL_ARG_SRC_1, other);
  }
  return finish(planner, &made, status) ? -1 : end_result(planner, step, result);
}

/* ---- Plans ------------------------------------------------------------------------------- */

static int32_t plan_step(Planner *planner, const BpDnnlStep *step) {
  int32_t status = step->kind == BP_DNNL_CONV     ? plan_conv(planner, step)
                   : step->kind == BP_DNNL_MATMUL ? plan_matmul(planner, step)
                                                  : plan_other(planner, step);
  planner->reads[step->src]--;
  if (step->weights >= 0)
    planner->reads[step->weights]--;
  if (step->sum >= 0)
    planner->reads[step->sum]--;
  return status;
}

/* Makes the buffers of inputs and constants, and counts how often each tensor is read. */
static int32_t begin_plan(Planner *planner) {
  const BpDnnlProgram *program = planner->program;
  for (int32_t t = 0; t < program->header.num_tensors; t++) {
    int is_input = t < program->header.num_inputs;
    int is_constant = !is_argument(planner, t) && program->tensors[t].place == BP_DNNL_CONSTANT;
    Storage storage = {.kind = is_input ? ARGUMENT : CONSTANT, .index = t};
    dnnl_memory_desc_t plain;
    planner->buffer_of[t] = UNUSED;
    if (!is_input && !is_constant)
      continue;
    if (is_constant)
      storage.data = (void *)(uintptr_t)(program->data + program->tensors[t].offset);
    if (make_plain_of(planner, &plain, t) ||
        (planner->buffer_of[t] =
             add_buffer(planner->plan, &plain, add_storage(planner->plan, storage))) < 0)
      return -1;
  }
  for (int32_t s = 0; s < program->header.num_steps; s++) {
    const BpDnnlStep *step = &program->steps[s];
    planner->reads[step->src]++;
    if (step->weights >= 0)
      planner->reads[step->weights]++;
    if (step->sum >= 0)
      planner->reads[step->sum]++;
  }
  return 0;
}

/* Gives a storage the lowest place in the workspace that is free at its first call. `live` is the
 * list by offset of storages in use: the function removes those whose last call is past, and adds
 * this storage. */
static void place_storage(BpDnnlPlan *plan, int32_t *live, int32_t index) {
  Storage *storage = &plan->storages[index];
  int32_t *link = live;
  while (*link != UNUSED) {
    Storage *other = &plan->storages[*link];
    if (other->last < storage->first) {
      *link = other->next;
      continue;
    }
    if (other->offset >= storage->offset + storage->size)
      break;
    size_t end = (other->offset + other->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    storage->offset = end > storage->offset ? end : storage->offset;
    link = &other->next;
  }
  storage->next = *link;
  *link = index;
  storage->is_placed = 1;
  if (storage->offset + storage->size > plan->inner_size)
    plan->inner_size = storage->offset + storage->size;
}

/* Places the storages in the workspace, in the order of their first calls. Storages that are in use
 * at the same time do not overlap. */
static void place_storages(BpDnnlPlan *plan) {
  int32_t live = UNUSED;
  for (int32_t c = 0; c < plan->num_calls; c++)
    for (int32_t i = 0; i < plan->calls[c].num_args; i++) {
      int32_t index = plan->buffers[plan->calls[c].buffers[i]].storage;
      if (plan->storages[index].kind == INNER && !plan->storages[index].is_placed)
        place_storage(plan, &live, index);
    }
}

BpDnnlPlan *bp_dnnl_plan_create(const BpDnnlProgram *program, BpDnnlPacked **packed) {
  size_t count = (size_t)program->header.num_tensors + 1;
  Planner planner = {.plan = bp_plugin_calloc(&bp_dnnl_host, sizeof(BpDnnlPlan)),
                     .program = program,
                     .packed = packed,
                     .buffer_of = bp_plugin_calloc(&bp_dnnl_host, count * sizeof(int32_t)),
                     .reads = bp_plugin_calloc(&bp_dnnl_host, count * sizeof(int32_t))};
  int32_t status = -1;
  if (planner.plan)
    pthread_mutex_init(&planner.plan->lock, NULL);
  if (planner.plan && planner.buffer_of && planner.reads)
    status = begin_plan(&planner);
  for (int32_t s = 0; s < program->header.num_steps && !status; s++)
    status = plan_step(&planner, &program->steps[s]);
  free(planner.buffer_of);
  free(planner.reads);
  if (!status) {
    place_storages(planner.plan);
    return planner.plan;
  }
  bp_dnnl_plan_free(planner.plan);
  return NULL;
}

/* ---- Running ----------------------------------------------------------------------------- */

static void free_workspace(const BpDnnlPlan *plan, Workspace *workspace) {
  for (int32_t i = 0; workspace->memories && i < plan->num_buffers; i++)
    if (workspace->memories[i])
      bp_dnnl.dnnl_memory_destroy(workspace->memories[i]);
  if (workspace->stream)
    bp_dnnl.dnnl_stream_destroy(workspace->stream);
  free(workspace->memories);
  free(workspace->memory);
  free(workspace);
}

void bp_dnnl_plan_free(BpDnnlPlan *plan) {
  if (!plan)
    return;
  while (plan->idle) {
    Workspace *next = plan->idle->next;
    free_workspace(plan, plan->idle);
    plan->idle = next;
  }
  for (int32_t i = 0; i < plan->num_calls; i++)
    bp_dnnl.dnnl_primitive_destroy(plan->calls[i].primitive);
  pthread_mutex_destroy(&plan->lock);
  free(plan->storages);
  free(plan->buffers);
  free(plan->calls);
  free(plan);
}

static Workspace *make_workspace(const BpDnnlPlan *plan) {
  Workspace *workspace = bp_plugin_calloc(&bp_dnnl_host, sizeof(*workspace));
  if (!workspace)
    return NULL;
  workspace->memories =
      bp_plugin_calloc(&bp_dnnl_host, ((size_t)plan->num_buffers + 1) * sizeof(dnnl_memory_t));
  workspace->memory =
      aligned_alloc(ALIGNMENT, (plan->inner_size + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
  int32_t status = workspace->memories ? 0 : -1;
  if (!status && !workspace->memory)
    status = bp_plugin_raise(&bp_dnnl_host, BP_ERROR_MEMORY,
                             "no memory for the %zu bytes between the steps of a part",
                             plan->inner_size);
  if (!status)
    status = BP_DNNL_CALL(dnnl_stream_create, &workspace->stream, bp_dnnl_engine,
                          dnnl_stream_default_flags);
  for (int32_t i = 0; i < plan->num_buffers && !status; i++) {
    const Storage *storage = &plan->storages[plan->buffers[i].storage];
    void *data = storage->kind == CONSTANT ? storage->data
                 : storage->kind == INNER  ? workspace->memory + storage->offset
                                           : NULL;
    status = BP_DNNL_CALL(dnnl_memory_create, &workspace->memories[i], &plan->buffers[i].desc,
                          bp_dnnl_engine, data);
  }
  if (!status)
    return workspace;
  free_workspace(plan, workspace);
  return NULL;
}

static int32_t run_calls(const BpDnnlPlan *plan, Workspace *workspace, void *const *data) {
  int32_t status = 0;
  for (int32_t i = 0; i < plan->num_buffers && !status; i++) {
    const Storage *storage = &plan->storages[plan->buffers[i].storage];
    if (storage->kind == ARGUMENT)
      status =
          BP_DNNL_CALL(dnnl_memory_set_data_handle, workspace->memories[i], data[storage->index]);
  }
  for (int32_t c = 0; c < plan->num_calls && !status; c++) {
    const Call *call = &plan->calls[c];
    dnnl_exec_arg_t args[MOST_ARGS];
    for (int32_t i = 0; i < call->num_args; i++)
      args[i] = (dnnl_exec_arg_t){call->args[i], workspace->memories[call->buffers[i]]};
    status = BP_DNNL_CALL(dnnl_primitive_execute, call->primitive, workspace->stream,
                          call->num_args, args);
  }
  return status ? -1 : BP_DNNL_CALL(dnnl_stream_wait, workspace->stream);
}

int32_t bp_dnnl_plan_run(BpDnnlPlan *plan, void *const *data) {
  pthread_mutex_lock(&plan->lock);
  Workspace *workspace = plan->idle;
  if (workspace)
    plan->idle = workspace->next;
  pthread_mutex_unlock(&plan->lock);
  if (!workspace && !(workspace = make_workspace(plan)))
    return -1;
  int32_t status = run_calls(plan, workspace, data);
  pthread_mutex_lock(&plan->lock);
  workspace->next = plan->idle;
  plan->idle = workspace;
  pthread_mutex_unlock(&plan->lock);
  return status;
}
