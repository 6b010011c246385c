/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the table Text that are in files of their own. */
#ifndef BACKPLANE_PARTS_TEXT_TEXT_H
#define BACKPLANE_PARTS_TEXT_TEXT_H

#include "core/registry/text.h"

/* Separators of words. They are independent of the locale, because a target's text is stored in
 * artifacts. */
#define SPACE " \t\n\v\f\r"

char *bp__format_tensor(const BpTensorView *tensor, int64_t threshold);

/* Parses a kind with options, `c -mcpu=x86-64-v3`. */
BpTarget *bp__target_parse_options(const char *text);
char *bp__target_format_options(const BpTarget *target);

#endif
