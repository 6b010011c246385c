/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes minus their zero points, and their convolutions: as dot products of four channels, or for
 * each channel in float32 (byte_products.c). */
#ifndef BACKPLANE_GRAPH_BUILD_BYTE_PRODUCTS_H
#define BACKPLANE_GRAPH_BUILD_BYTE_PRODUCTS_H

#include <backplane/target.h>

#include "graph/ir/graph.h"

/* A constant second operand of a product, as words of signed bytes. With x' = x + 128 for signed x,
 * z' = z + 128, and b' = b - t in the range of signed bytes,
 *   sum (x - z) b = sum x' b' + t sum x' - z' sum b. */
typedef struct BpByteWeights {
  BpGraphValue *words;  /* b', four rows in each int32, with zeros after the last row */
  BpGraphValue *sums;   /* the sum of each column of b */
  BpGraphValue *shifts; /* t of each column; NULL if all are 0 */
} BpByteWeights;

/* The input of a convolution. */
typedef struct BpByteConv {
  BpGraphValue *x; /* int8 or uint8 */
  int32_t zero;    /* zero point */
} BpByteConv;

/* Whether a value of int32 is bytes minus a zero point, which may be absent and is one for all
 * bytes of a row. */
int bp__bytes_are_centred(const BpGraphValue *value);
/* The product, of int32, of centred bytes and weights: dot products. NULL with an error. */
BpGraphValue *bp__bytes_product(BpGraph *graph, const BpGraphNode *node, const BpGraphValue *a,
                                const BpByteWeights *weights);
/* Whether a convolution of int32 can be one of dot products; if so, reads its input. */
int bp__bytes_read_conv(const BpTarget *target, const BpGraphNode *node, BpByteConv *conv);
/* Whether a convolution of int32 has one channel of input for each of output, and all its sums are
 * exact in float32; if so, reads its input. */
int bp__bytes_read_depthwise(const BpGraphNode *node, BpByteConv *conv);
/* The zero point of the bytes as unsigned ones. */
uint8_t bp__bytes_unsigned_zero(const BpByteConv *conv);
/* The bytes as unsigned ones: those of int8 plus 128. NULL with an error. */
BpGraphValue *bp__bytes_unsigned(BpGraph *graph, const BpGraphNode *node, BpGraphValue *x);
/* Packs the weights (out, in, h, w) as words (out / b, in / a, h, w, a / 4, b), with zeros beyond
 * the channels; NULL with an error. */
BpGraphValue *bp__bytes_conv_weights(BpGraph *graph, const BpGraphNode *node, int64_t a, int64_t b);
/* The bias (out / b, b) of a convolution of unsigned bytes whose zero points are not subtracted;
 * NULL with an error. */
BpGraphValue *bp__bytes_conv_bias(BpGraph *graph, const BpGraphNode *node, uint8_t zero, int64_t b);

#endif
