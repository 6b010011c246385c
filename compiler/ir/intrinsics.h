/* SPDX-License-Identifier: Apache-2.0 */
/* The intrinsics: names, types and evaluation. docs/ir.md lists them for generators. */
#ifndef BACKPLANE_COMPILER_IR_INTRINSICS_H
#define BACKPLANE_COMPILER_IR_INTRINSICS_H

#include "compiler/ir/ir.h"

/* Kinds of intrinsics by the types of their arguments. Unless a line says otherwise, all arguments
 * and the result have the same type and number of lanes. */
#define BP__INTRINSIC_FLOAT    0 /* floats */
#define BP__INTRINSIC_TEST     1 /* float arguments, bool result */
#define BP__INTRINSIC_NUMBER   2 /* float or integer arguments */
#define BP__INTRINSIC_INT      3 /* integers */
#define BP__INTRINSIC_PREFETCH 4 /* an ADDRESS argument, no result */
#define BP__INTRINSIC_INT32    5 /* int32 */

typedef struct BpIntrinsic {
  const char *name;
  int32_t num_args; /* number of arguments, up to 3 */
  int32_t types;    /* BP__INTRINSIC_* */
  /* Evaluates the intrinsic on floats, before rounding to the type; NULL for an integer intrinsic
   * or prefetch. */
  double (*eval)(double a, double b, double c);
  /* Evaluates the intrinsic on integers, before wrapping to the type; NULL if it takes none. */
  int64_t (*eval_int)(const int64_t *args, BpDataType dtype);
} BpIntrinsic;

/* Whether the intrinsic `name` exists, takes the given arguments and returns the given type; if
 * not, writes the reason. Makers and the verifier call bp__intrinsic_check. */
bool bp__intrinsic_check(const char *name, BpDataType dtype, const BpIrNode *const *args,
                         int32_t num_args, char *why, size_t size);

/* The intrinsic called `name`, NULL if none is. */
const BpIntrinsic *bp__intrinsic_find(const char *name);

#endif
