/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the core that its parts (core/registry/part.h) use as well. */
#ifndef BACKPLANE_CORE_SYSTEM_SHARED_H
#define BACKPLANE_CORE_SYSTEM_SHARED_H

/* Marks a function that the library exports only for its parts, with the symbol version
 * BACKPLANE_PRIVATE. These functions may change with each version. */
#define BP__SHARED __attribute__((visibility("default")))

#endif
