/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter's table, which the compiler library gives to plugins. */
#ifndef BP_EMIT_TABLE_H
#define BP_EMIT_TABLE_H

#include <backplane/emitter_api.h>

/* Static. */
const BpEmitterTable *bp__emitter_table(void);

#endif
