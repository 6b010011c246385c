/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter's languages, as a target has them. */
#include "common.h"

#include <string.h>

int32_t bp_language_copy(const BpPluginTables *host, const BpEmitterTable *emitter,
                         const char *name, BpLanguage *language) {
  const BpDialect *base = emitter->get_dialect(name);
  BpDialect *dialect = &language->dialect;
  if (!base)
    return -1;
  *dialect = (BpDialect){0};
  memcpy(dialect, base,
         base->struct_size < sizeof(*dialect) ? (size_t)base->struct_size : sizeof(*dialect));
  dialect->struct_size = sizeof(*dialect);
  if (dialect->num_types > BP_LANGUAGE_MOST_TYPES)
    return host->error->raise(BP_ERROR_INDEX,
                              "the dialect %s has %d types; this plugin has room "
                              "for %d",
                              name, dialect->num_types, BP_LANGUAGE_MOST_TYPES);
  memcpy(language->types, base->types, sizeof(*base->types) * (size_t)base->num_types);
  dialect->types = language->types;
  return 0;
}

void bp_language_add_halves(BpLanguage *language, const BpDialectType *half) {
  for (int32_t i = 0; i < language->dialect.num_types; i++) {
    BpDialectType *type = &language->types[i];
    if (type->dtype.code == half->dtype.code && type->dtype.bits == half->dtype.bits)
      *type = *half;
  }
  language->dialect.flags |= BP_DIALECT_HALVES;
}
