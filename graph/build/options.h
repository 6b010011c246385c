/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the options of a compilation. */
#ifndef BACKPLANE_GRAPH_BUILD_OPTIONS_H
#define BACKPLANE_GRAPH_BUILD_OPTIONS_H

#include "graph/build/build.h"

#define BP_BUILD_MAX_TARGETS   16
#define BP_BUILD_MAX_COMPILERS 16

/* Whether the options have `member`: the structure of an older program may end before it. */
#define HAS_MEMBER(options, member)                                                                \
  ((options)->struct_size >= offsetof(BpCompileOptions, member) + sizeof((options)->member))

/* The functions that check options return 0, or -1 with an error. */

int bp__options_check_targets(const BpCompileOptions *options);
int bp__options_check_stages(const BpCompileOptions *options);
int bp__options_check_fallbacks(const BpCompileOptions *options);
/* Writes the fallbacks in order, at most BP_MODEL_MAX_DEVICES - 1, and returns how many. */
int32_t bp__options_fallbacks(const BpCompileOptions *options, const BpTarget **fallbacks);
/* Sets the limits of a graph. */
int bp__options_budget(const BpCompileOptions *options, BpGraphBudget *budget);
/* Reads the shapes of inputs into the arena; NULL with an error. */
const BpInputShape *bp__options_shapes(const BpCompileOptions *options, BpArena *arena);
/* Finds the tables of the graph compilers that the options name, at most BP_BUILD_MAX_COMPILERS.
 * Fails if a graph compiler serves none of the targets. */
int bp__options_compilers(const BpCompileOptions *options, const BpGraphCompilerApi **compilers,
                          int32_t *count);

#endif
