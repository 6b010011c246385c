/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's descriptor: the `key=value` lines of the SDK's plugin.h, parsed and checked. */
#ifndef BACKPLANE_PARTS_PLUGINS_DESCRIPTOR_H
#define BACKPLANE_PARTS_PLUGINS_DESCRIPTOR_H

#include "core/system/shared.h"

#include <stddef.h>

#define BP_DESCRIPTOR_MAX 65536

/* X(key, required). */
#define BP_DESCRIPTOR_KEYS(X)                                                                      \
  X(abi, 1)                                                                                        \
  X(name, 1)                                                                                       \
  X(version, 1)                                                                                    \
  X(license, 1)                                                                                    \
  X(description, 1)                                                                                \
  X(entry, 1)                                                                                      \
  X(provides, 1)                                                                                   \
  X(devices, 0)                                                                                    \
  X(targets, 0)                                                                                    \
  X(libraries, 0)                                                                                  \
  X(package, 0)                                                                                    \
  X(priority, 0)                                                                                   \
  X(nodes, 0)                                                                                      \
  X(files, 0)                                                                                      \
  X(variables, 0)                                                                                  \
  X(isa, 0)                                                                                        \
  X(sanitizer, 0)

/* All members point into `text`, or are "" if the key is absent. */
typedef struct Descriptor {
  char *text;
#define BP_DESCRIPTOR_FIELD(key, required) const char *key;
  BP_DESCRIPTOR_KEYS(BP_DESCRIPTOR_FIELD)
#undef BP_DESCRIPTOR_FIELD
} Descriptor;

/* Parses `size` bytes of text into a descriptor that is zeroed or was cleared; NULs at the end are
 * ignored. Even after a failure the descriptor holds the fields that could be read, for display,
 * and must be cleared. Errors: BP_ERROR_FORMAT for text that breaks the rules, BP_ERROR_PLUGIN for
 * a valid descriptor of a plugin that this host cannot run (another ABI, instruction set or
 * sanitizer). */
BP__SHARED int bp__descriptor_parse(Descriptor *descriptor, const char *text, size_t size);
void bp__descriptor_clear(Descriptor *descriptor);

/* Returns the package that a descriptor names for one of its `libraries`: a soname, or all
 * alternatives of one (transfer full, g_free); NULL if the descriptor names no package. */
BP__SHARED char *bp__descriptor_package(const Descriptor *descriptor, const char *library);

/* Returns the priority in a descriptor that was parsed without error; 0 by default. */
#define BP_PRIORITY_MAX 1000
int bp__descriptor_priority(const Descriptor *descriptor);

#endif
