/* SPDX-License-Identifier: Apache-2.0 */
/* Checking arguments of public functions: required pointers, and structures that begin with
 * `struct_size`. */
#ifndef BACKPLANE_CORE_REGISTRY_ARGUMENT_H
#define BACKPLANE_CORE_REGISTRY_ARGUMENT_H

#include "core/checks/argument.h"
#include "core/system/shared.h"

#include <stddef.h>

/* Copies a structure from an application to `own`, of `own_size` bytes. Members that an older
 * structure lacks are 0. A newer structure is accepted if all members unknown to this version are
 * 0, so that no member is ignored. `least` is the size of the structure's first version. -1 with an
 * error that names `type`. */
BP__SHARED int bp__sized_read(void *own, size_t own_size, size_t least, const void *given,
                              const char *type);

#endif
