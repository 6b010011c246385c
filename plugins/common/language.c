/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter's languages, adapted to a target. */
#include "common.h"

#include <backplane/kernel_helpers.h>
#include <string.h>

int32_t bp_language_copy(const BpPluginTables *host, const BpEmitterTable *emitter,
                         const char *name, BpLanguage *language) {
  BpDialect *dialect = &language->dialect;
  if (bp_kernel_copy_dialect(emitter, name, dialect) != 0)
    return -1;
  if (dialect->num_types > BP_LANGUAGE_MOST_TYPES)
    return bp_plugin_raise(host, BP_ERROR_NOT_IMPLEMENTED,
                           "the dialect %s has %d types; this plugin has room "
                           "for %d",
                           name, dialect->num_types, BP_LANGUAGE_MOST_TYPES);
  size_t size = dialect->type_size < sizeof(*language->types) ? (size_t)dialect->type_size
                                                              : sizeof(*language->types);
  memset(language->types, 0, sizeof(language->types));
  for (int32_t i = 0; i < dialect->num_types; i++)
    memcpy(&language->types[i], bp_dialect_type(dialect, i), size);
  dialect->types = language->types;
  dialect->type_size = sizeof(*language->types);
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
