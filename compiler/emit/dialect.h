/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that the tables of several dialects share. */
#ifndef BP_EMIT_DIALECT_H
#define BP_EMIT_DIALECT_H

#include "compiler/emit/emit.h"

#define BP__COUNT(array) (int32_t)(sizeof(array) / sizeof((array)[0]))

/* The table row of an integer type. */
#define BP__INTEGER(code, bits, name, suffix)                                                      \
  { {code, bits, 1}, 0, name, suffix, 0, 0, 0, 0, 0 }

/* The integer rows of C, which CUDA shares. */
#define BP__C_INTEGERS                                                                             \
  BP__INTEGER(BP_DTYPE_INT, 8, "signed char", ""), BP__INTEGER(BP_DTYPE_INT, 16, "short", ""),     \
      BP__INTEGER(BP_DTYPE_INT, 32, "int", ""), BP__INTEGER(BP_DTYPE_INT, 64, "long long", "LL"),  \
      BP__INTEGER(BP_DTYPE_UINT, 8, "unsigned char", ""),                                          \
      BP__INTEGER(BP_DTYPE_UINT, 16, "unsigned short", ""),                                        \
      BP__INTEGER(BP_DTYPE_UINT, 32, "unsigned int", "u"),                                         \
      BP__INTEGER(BP_DTYPE_UINT, 64, "unsigned long long", "ULL"),                                 \
      BP__INTEGER(BP_DTYPE_BOOL, 8, "unsigned char", "")

/* The table row of a float intrinsic that the language calls by the intrinsic's name. */
#define BP__FLOAT_ROW(name, bits, vectors, text)                                                   \
  { #name, BP_DTYPE_FLOAT, bits, vectors, text }

/* X(name) for each float intrinsic that C, CUDA and OpenCL have as a function of the same name:
 * BP__EACH_UNARY with one argument, BP__EACH_BINARY with two. */
#define BP__EACH_UNARY(X)                                                                          \
  X(exp), X(exp2), X(log), X(log2), X(log10), X(log1p), X(expm1), X(sqrt), X(tanh), X(erf),        \
      X(sin), X(cos), X(tan), X(asin), X(acos), X(atan), X(sinh), X(cosh), X(asinh), X(acosh),     \
      X(atanh), X(floor), X(ceil), X(trunc)
#define BP__EACH_BINARY(X) X(fmod), X(atan2), X(copysign)

#endif
