/* SPDX-License-Identifier: Apache-2.0 */
/* The intrinsics: names, types, meaning. docs/ir.md lists them for generators. */
#ifndef BACKPLANE_COMPILER_IR_INTRINSICS_H
#define BACKPLANE_COMPILER_IR_INTRINSICS_H

#include "compiler/ir/ir.h"

/* The types of the arguments. Unless stated, all have the same type and number of lanes, and so
 * does the result. */
#define BP__INTRINSIC_FLOAT    0 /* floats */
#define BP__INTRINSIC_TEST     1 /* floats; the result is bool */
#define BP__INTRINSIC_NUMBER   2 /* floats or integers */
#define BP__INTRINSIC_INT      3 /* integers */
#define BP__INTRINSIC_PREFETCH 4 /* an ADDRESS; no result */

typedef struct BpIntrinsic {
  const char *name;
  int32_t num_args; /* up to 3 */
  int32_t types;    /* BP__INTRINSIC_* */
  /* The value for floats, before rounding to the type; NULL for an integer intrinsic or
   * prefetch. */
  double (*eval)(double a, double b, double c);
  int64_t (*eval_int)(int64_t a, BpDataType dtype); /* the value for integers, or NULL */
} BpIntrinsic;

/* Whether an intrinsic of that name takes these arguments and returns that type; if not, writes the
 * reason. Used by makers and verifier. */
bool bp__intrinsic_check(const char *name, BpDataType dtype, const BpIrNode *const *args,
                         int32_t num_args, char *why, size_t size);

/* NULL: there is no intrinsic of that name. */
const BpIntrinsic *bp__intrinsic_find(const char *name);

#endif
