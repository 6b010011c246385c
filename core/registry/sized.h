/* SPDX-License-Identifier: Apache-2.0 */
/* Structures that begin with `struct_size` and come from programs of older and newer headers. */
#ifndef BACKPLANE_CORE_REGISTRY_SIZED_H
#define BACKPLANE_CORE_REGISTRY_SIZED_H

#include <stddef.h>

/* Copies a structure that an application filled in to `own`, of `own_size` bytes. What an older
 * structure lacks is 0. A newer one is accepted if everything in it that this version does not know
 * is 0: a member is never ignored. `least` is the size that the structure had at first. -1 with an
 * error that names `type`. */
int bp__sized_read(void *own, size_t own_size, size_t least, const void *given, const char *type);

#endif
