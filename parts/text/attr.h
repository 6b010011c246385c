/* SPDX-License-Identifier: Apache-2.0 */
/* The names of devices' attributes. */
#ifndef BACKPLANE_PARTS_TEXT_ATTR_H
#define BACKPLANE_PARTS_TEXT_ATTR_H

#include <stdint.h>

/* bp_device_attr_name. */
const char *bp__attr_name(int32_t attr);

#endif
