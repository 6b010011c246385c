/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers in a saved Relax executable, which graph/build writes and graph/relax reads. They are
 * those of TVM 0.21. */
#ifndef BACKPLANE_GRAPH_RELAX_FORM_H
#define BACKPLANE_GRAPH_RELAX_FORM_H

#include <stdint.h>

#define BP_RELAX_MAGIC   0xD225DE2F4214151Eull
#define BP_RELAX_VERSION "0.14"

/* An argument is its kind in the upper bits of a word and a signed value in these. */
#define BP_RELAX_VALUE_BITS 56
/* Registers that are none: the result is dropped; the machine itself. */
#define BP_RELAX_VOID_REGISTER    (INT64_C(1) << 54)
#define BP_RELAX_CONTEXT_REGISTER (BP_RELAX_VOID_REGISTER + 1)

/* Codes of vm.builtin.match_shape: how it treats an extent. */
enum {
  BP_RELAX_MATCH_EQUAL,
  BP_RELAX_MATCH_STORE,
  BP_RELAX_MATCH_NOTHING,
  BP_RELAX_MATCH_EQUAL_TO_STORED
};

/* Where vm.builtin.make_shape has an extent from. */
enum { BP_RELAX_MAKE_NUMBER, BP_RELAX_MAKE_STORED };

/* The steps of vm.builtin.compute, on a stack. Each has an operand, 0 where it needs none: the
 * number that is pushed, or the cell that is pushed or takes the top. */
enum {
  BP_RELAX_PUSH_NUMBER,
  BP_RELAX_PUSH_CELL,
  BP_RELAX_TAKE_CELL,
  BP_RELAX_ADD,
  BP_RELAX_SUBTRACT,
  BP_RELAX_MULTIPLY,
  BP_RELAX_DIVIDE, /* towards zero */
  BP_RELAX_MODULO,
  BP_RELAX_FLOOR_DIVIDE,
  BP_RELAX_FLOOR_MODULO,
  BP_RELAX_LEAST,
  BP_RELAX_GREATEST
};

#endif
