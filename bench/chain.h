/* SPDX-License-Identifier: Apache-2.0 */
/* A graph for benchmarks of launches: a chain of calls of one kernel, `add_one`. */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include <stdio.h>

/* The chain as graph JSON, to be freed; NULL without memory. Each of its tensors has `elements`
 * floats, each launch 4 blocks. */
static inline char *chain_json(int kernels, int elements) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return NULL;
  fputs("{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}", out);
  for (int i = 0; i < kernels; i++)
    fprintf(out,
            ",{\"op\":\"tvm_op\",\"name\":\"n%d\",\"attrs\":{\"func_name\":\"add_one\","
            "\"num_inputs\":\"1\",\"num_outputs\":\"1\",\"flatten_data\":\"0\",\"launch\":\"4\"},"
            "\"inputs\":[[%d,0,0]]}",
            i, i);
  fprintf(out, "],\"arg_nodes\":[0],\"heads\":[[%d,0,0]],\"node_row_ptr\":[0", kernels);
  for (int i = 0; i <= kernels; i++)
    fprintf(out, ",%d", i + 1);
  fputs("],\"attrs\":{\"dltype\":[\"list_str\",[\"float32\"", out);
  for (int i = 0; i < kernels; i++)
    fputs(",\"float32\"", out);
  fprintf(out, "]],\"shape\":[\"list_shape\",[[%d]", elements);
  for (int i = 0; i < kernels; i++)
    fprintf(out, ",[%d]", elements);
  fputs("]],\"storage_id\":[\"list_int\",[0", out);
  for (int i = 0; i < kernels; i++)
    fprintf(out, ",%d", i + 1);
  fputs("]]}}", out);
  return fclose(out) ? NULL : text;
}

#endif
