/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products through oneDNN's C API, as the peer of the benchmark. A failure ends the program
 * with a message. */
#ifndef BACKPLANE_BENCH_MATMUL_ONEDNN_H
#define BACKPLANE_BENCH_MATMUL_ONEDNN_H

#include <stdint.h>

typedef struct OneDnnProduct OneDnnProduct;

/* Sets the number of threads of later calls. */
void onednn_set_threads(int count);
/* The caller keeps a (rows, inner) and b (inner, columns). is_packed: b is converted now to the
 * layout that the library prefers. Freed with onednn_product_free. */
OneDnnProduct *onednn_product_new(int64_t rows, int64_t inner, int64_t columns, float *a, float *b,
                                  int is_packed);
void onednn_product_run(void *product);
/* Copies the result of the last run, in plain rows. */
const float *onednn_product_result(const OneDnnProduct *product);
void onednn_product_free(OneDnnProduct *product);

#endif
