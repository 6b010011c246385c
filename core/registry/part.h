/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the core that an application seldom needs: libraries of their own, loaded on first
 * use. The folders of parts/ contain their sources. A part works only with the core of the same
 * version.
 */
#ifndef BACKPLANE_CORE_REGISTRY_PART_H
#define BACKPLANE_CORE_REGISTRY_PART_H

#include "core/system/shared.h"

#include <config.h>

typedef enum PartId {
  BP_PART_TOOLCHAIN, /* the table is a Toolchain (core/module/parts.h) */
  BP_PART_TVM,       /* an OldTvm (core/module/parts.h) */
  BP_PART_DOCTOR,    /* a Doctor (core/registry/installed.h) */
  BP_PART_TRIAL,     /* a TrialPart (parts/plugins/trial.h) */
  BP_PART_SELECT,    /* a Selector (core/device/parts.h) */
  BP_PART_TEXT,      /* a Text (core/device/tensor.h) */
  BP_PART_LAYERING,  /* a Layers (core/device/layers.h) */
  BP_PART_ISOLATION, /* an Isolation (parts/plugins/isolate.h) */
  BP_PART_CACHE,     /* a CacheUpkeep (core/registry/cache.h) */
  BP_PART_HINTS,     /* a Hints (core/registry/hints.h) */
  BP_PART_EXCHANGE,  /* an ExchangePart (core/device/parts.h) */
  BP_PART_PLUGINS,   /* an Installed (core/registry/installed.h) */
  BP_PART_TARGET,    /* a TargetPart (core/target/target.h) */
  BP_NUM_PARTS
} PartId;

/* The only symbol that a part exports, named bp__part. */
typedef struct Part {
  const char *version; /* PACKAGE_VERSION; the first member in every version */
  int id;              /* a PartId; detects a file that has the name of another part */
  const void *table;
} Part;

/* Defines a part by its PartId and its table, in one of the part's files. */
#define BP__PART(id, table)                                                                        \
  BP__SHARED extern const Part bp__part;                                                           \
  const Part bp__part = {PACKAGE_VERSION, id, &(table)}

/* Returns the table of a part, which stays loaded for ever; NULL with an error if the part is not
 * installed. Any thread. */
BP__SHARED const void *bp__part_table(PartId id);
/* Returns the table of a loaded part; NULL, with no error, if it is not loaded. Any thread. */
BP__SHARED const void *bp__part_loaded(PartId id);

/* Returns the core's own file, as an absolute path (transfer full, free); NULL if it is unknown.
 * The loader reports the path as it was given, and the working directory may have changed since. */
BP__SHARED char *bp__own_library(void);

#endif
