/* SPDX-License-Identifier: Apache-2.0 */
/* The part's table. */

#include "core/module/parts.h"
#include "core/registry/part.h"
#include "parts/tvm/mblob.h"
#include "parts/tvm/packed_c.h"

static int start(void) {
  return bp__packed_c_add_slots() || bp__mblob_start() ? -1 : 0;
}

static const OldTvm table = {
    .start = start,
    .parse_blob = bp__mblob_parse,
    .create_function = bp__packed_c_function_create,
};

BP__PART(BP_PART_TVM, table);
