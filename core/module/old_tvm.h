/* SPDX-License-Identifier: Apache-2.0 */
/* The table of parts/tvm, the part of the core for libraries of TVM up to 0.19. */
#ifndef BACKPLANE_CORE_MODULE_OLD_TVM_H
#define BACKPLANE_CORE_MODULE_OLD_TVM_H

#include "core/module/blob.h"

/* The part's table. */
typedef struct OldTvm {
  /* Adds the host functions for such libraries, and the loaders of their embedded modules. May be
   * called again. */
  int (*start)(void);
  /* Like bp__blob_parse. */
  int (*parse_blob)(BpBlob *blob, const BpByteArray *stream, const char *what);
  /* Makes a function of such a library (transfer full), which keeps `module`, its library,
   * mapped. */
  BpFunction *(*create_function)(BpModule *module, void *symbol);
} OldTvm;

/* Returns the started part; NULL with an error. Any thread. */
const OldTvm *bp__old_tvm(void);

/* Whether a pointer variable with that name is for a function of the part. */
int bp__old_tvm_has(const char *name);

#endif
