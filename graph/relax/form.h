/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers in a saved Relax executable, which graph/build writes and graph/relax reads. All
 * numbers have the values of TVM 0.21. */
#ifndef BACKPLANE_GRAPH_RELAX_FORM_H
#define BACKPLANE_GRAPH_RELAX_FORM_H

#include <stdint.h>

#define BP_RELAX_MAGIC   0xD225DE2F4214151Eull
#define BP_RELAX_VERSION "0.14"

/* The number of bits of an argument's signed value; the bits above are its kind. */
#define BP_RELAX_VALUE_BITS 56
/* Register numbers with a special meaning: the result is dropped; the machine itself. */
#define BP_RELAX_VOID_REGISTER    (INT64_C(1) << 54)
#define BP_RELAX_CONTEXT_REGISTER (BP_RELAX_VOID_REGISTER + 1)

/* Codes of vm.builtin.match_shape for the treatment of an extent. */
enum {
  BP_RELAX_MATCH_EQUAL,
  BP_RELAX_MATCH_STORE,
  BP_RELAX_MATCH_NOTHING,
  BP_RELAX_MATCH_EQUAL_TO_STORED
};

/* Codes of vm.builtin.make_shape for the source of an extent. */
enum { BP_RELAX_MAKE_NUMBER, BP_RELAX_MAKE_STORED };

/* The steps of vm.builtin.compute, on a stack. Each step has an operand, 0 if it needs none: the
 * number to push, or the cell to push or to store the top in. */
enum {
  BP_RELAX_PUSH_NUMBER,
  BP_RELAX_PUSH_CELL,
  BP_RELAX_TAKE_CELL,
  BP_RELAX_ADD,
  BP_RELAX_SUBTRACT,
  BP_RELAX_MULTIPLY,
  BP_RELAX_DIVIDE, /* rounds towards zero */
  BP_RELAX_MODULO,
  BP_RELAX_FLOOR_DIVIDE,
  BP_RELAX_FLOOR_MODULO,
  BP_RELAX_LEAST,
  BP_RELAX_GREATEST
};

#endif
