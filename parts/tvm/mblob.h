/* SPDX-License-Identifier: Apache-2.0 */
/* The blob of libraries of TVM up to 0.19, `__tvm_dev_mblob`. See docs/artifacts.md. */
#ifndef BACKPLANE_PARTS_TVM_MBLOB_H
#define BACKPLANE_PARTS_TVM_MBLOB_H

#include "core/module/blob.h"

/* Like bp__blob_parse. */
int bp__mblob_parse(BpBlob *blob, const BpByteArray *stream, const char *what);

/* Registers the loaders of kinds `const_loader` and `metadata`. */
int bp__mblob_start(void);

#endif
