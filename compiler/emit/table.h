/* SPDX-License-Identifier: Apache-2.0 */
/* What the emitter gives the rest of the compiler library: its table, to be handed to plugins. */
#ifndef BP_EMIT_TABLE_H
#define BP_EMIT_TABLE_H

#include <backplane/emitter_api.h>

/* Static. */
const BpEmitterTable *bp__emitter_table(void);

#endif
