/* SPDX-License-Identifier: Apache-2.0 */
/* For the conformance kit: small ONNX models, described by a few words. */
#ifndef BACKPLANE_CONFORMANCE_ONNX_H
#define BACKPLANE_CONFORMANCE_ONNX_H

#include <glib.h>

/* The bytes of a model (transfer full, g_byte_array_unref) from lines of words:
 *
 *   input NAME TYPE SHAPE      "1x3x8x8"
 *   const NAME TYPE SHAPE      values that follow from the name; SHAPE "-" is a scalar
 *   const NAME TYPE SHAPE V    V in each element
 *   node OP INPUTS OUTPUTS [ATTR...]   names with commas; an empty name is omitted;
 * "pads=1,1", "axis=1" or "alpha=0.5" output NAME
 *
 * TYPE is f32, u8, i8, i32 or i64. The words come from the kit: wrong words end the process. */
GByteArray *bp__kit_onnx(const char *text);

#endif
