/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the table Text that are in files of their own. */
#ifndef BACKPLANE_PARTS_TEXT_TEXT_H
#define BACKPLANE_PARTS_TEXT_TEXT_H

#include "core/registry/text.h"

char *bp__format_tensor(const BpTensorView *tensor, int64_t threshold);

#endif
