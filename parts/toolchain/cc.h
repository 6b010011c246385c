/* SPDX-License-Identifier: Apache-2.0 */
/* The system's C compiler. */
#ifndef BACKPLANE_PARTS_TOOLCHAIN_CC_H
#define BACKPLANE_PARTS_TOOLCHAIN_CC_H

#include "parts/toolchain/workdir.h"

/* Runs the compiler (`BACKPLANE_CC`, split as a shell would; default "cc") in a directory with
 * further arguments (NULL-terminated), without a shell. A failure is an error of kind
 * BP_ERROR_COMPILE that quotes the beginning of the compiler's output; `purpose` describes its task
 * in words. */
int bp__cc_run(const BpWorkdir *dir, const char *const *args, const char *purpose);

/* Returns a text that changes whenever the compiler changes (transfer full, freed with free()): its
 * command, file and version. NULL with an error if there is no compiler. */
char *bp__cc_identity(void);

/* Whether the compiler is Clang; 0 if there is no compiler. */
int bp__cc_is_clang(void);

#endif
