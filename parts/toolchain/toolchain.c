/* SPDX-License-Identifier: Apache-2.0 */
/* The part's table. */

#include "core/module/parts.h"

#include "core/registry/part.h"
#include "parts/toolchain/compile.h"
#include "parts/toolchain/export.h"
#include "parts/toolchain/compiler_run.h"

static const Toolchain toolchain = {
    .load_from_c = bp__compile_load_c,
    .load_from_object = bp__compile_load_object,
    .run_compiler = bp__compiler_run,
    .encode = bp__device_code_encode,
    .export_library = bp__export_library,
};

BP__PART(BP_PART_TOOLCHAIN, toolchain);
