/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's matrix product, for the 2.x series, which Debian 12 has. */
#include "bench/matmul/onednn.h"

#include <stdio.h>
#include <stdlib.h>

#include <dnnl.h>
#include <omp.h>

struct OneDnnProduct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_desc_t desc;
  dnnl_primitive_t primitive;
  dnnl_memory_t a, b, c;
  float *result;
};

static void check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success)
    return;
  fprintf(stderr, "bench-matmul: oneDNN: %s: status %d\n", what, status);
  exit(1);
}

void onednn_set_threads(int count) {
  omp_set_num_threads(count);
}

static dnnl_memory_desc_t matrix(int64_t rows, int64_t columns, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t desc;
  dnnl_dims_t dims = {rows, columns};
  check(dnnl_memory_desc_init_by_tag(&desc, 2, dims, dnnl_f32, tag), "memory descriptor");
  return desc;
}

static void execute(OneDnnProduct *p, dnnl_primitive_t primitive, const dnnl_exec_arg_t *args,
                    int count) {
  check(dnnl_primitive_execute(primitive, p->stream, count, args), "execution");
  check(dnnl_stream_wait(p->stream), "wait");
}

/* Converts `plain` to the layout that the primitive prefers. */
static void pack(OneDnnProduct *p, dnnl_memory_t plain, const dnnl_memory_desc_t *desc) {
  const dnnl_memory_desc_t *wanted =
      dnnl_primitive_desc_query_md(p->desc, dnnl_query_weights_md, 0);
  dnnl_primitive_desc_t reorder_desc;
  dnnl_primitive_t reorder;
  check(dnnl_memory_create(&p->b, wanted, p->engine, DNNL_MEMORY_ALLOCATE), "memory");
  check(dnnl_reorder_primitive_desc_create(&reorder_desc, desc, p->engine, wanted, p->engine, NULL),
        "reorder");
  check(dnnl_primitive_create(&reorder, reorder_desc), "reorder");
  execute(p, reorder, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, p->b}}, 2);
  dnnl_primitive_destroy(reorder);
  dnnl_primitive_desc_destroy(reorder_desc);
  dnnl_memory_destroy(plain);
}

OneDnnProduct *onednn_product_new(int64_t rows, int64_t inner, int64_t columns, float *a, float *b,
                                  int is_packed) {
  OneDnnProduct *p = calloc(1, sizeof *p);
  dnnl_memory_desc_t a_desc = matrix(rows, inner, dnnl_ab),
                     b_desc = matrix(inner, columns, dnnl_ab);
  dnnl_memory_desc_t c_desc = matrix(rows, columns, dnnl_ab);
  dnnl_memory_desc_t any = matrix(inner, columns, dnnl_format_tag_any);
  dnnl_matmul_desc_t desc;
  if (p)
    p->result = aligned_alloc(64, ((size_t)(rows * columns) * sizeof(float) + 63) / 64 * 64);
  if (!p || !p->result)
    check(dnnl_out_of_memory, "memory");
  check(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "engine");
  check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags), "stream");
  check(dnnl_matmul_desc_init(&desc, &a_desc, is_packed ? &any : &b_desc, NULL, &c_desc), "matmul");
  check(dnnl_primitive_desc_create(&p->desc, &desc, NULL, p->engine, NULL), "matmul");
  check(dnnl_primitive_create(&p->primitive, p->desc), "matmul");
  check(dnnl_memory_create(&p->a, &a_desc, p->engine, a), "memory");
  check(dnnl_memory_create(&p->b, &b_desc, p->engine, b), "memory");
  check(dnnl_memory_create(&p->c, &c_desc, p->engine, p->result), "memory");
  if (is_packed)
    pack(p, p->b, &b_desc);
  return p;
}

void onednn_product_run(void *product) {
  OneDnnProduct *p = product;
  const dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
  execute(p, p->primitive, args, 3);
}

const float *onednn_product_result(const OneDnnProduct *product) {
  return product->result;
}

void onednn_product_free(OneDnnProduct *p) {
  dnnl_memory_destroy(p->a);
  dnnl_memory_destroy(p->b);
  dnnl_memory_destroy(p->c);
  dnnl_primitive_destroy(p->primitive);
  dnnl_primitive_desc_destroy(p->desc);
  dnnl_stream_destroy(p->stream);
  dnnl_engine_destroy(p->engine);
  free(p->result);
  free(p);
}
