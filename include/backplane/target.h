/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: for what code is generated. */
#ifndef BACKPLANE_TARGET_H
#define BACKPLANE_TARGET_H

#include <backplane/api.h>
#include <backplane/ir_api.h>
#include <backplane/module_api.h>
#include <backplane/object.h>
#include <backplane/target_api.h>
#include <backplane/value.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a target (transfer full) from `kind -name=value ...` or a JSON object with "kind".
 * Activates the plugin of the kind. Unknown kinds, attributes and wrong types are errors that name
 * the nearest match and the known ones. Values with spaces are quoted: -options="a b". */
BP_API BpTarget *bp_target_parse(const char *text);
/* The target that fits a present device best (transfer full): its BP_ATTR_TARGET. */
BP_API BpTarget *bp_target_from_device(BpDevice device);
/* Drops a reference to a target; the last one frees it. NULL is ignored. Any thread. */
static inline void bp_target_release(BpTarget *target) {
  bp_object_release(target);
}
/* Kind; borrowed, static. Its device type. */
BP_API const char *bp_target_kind(const BpTarget *target);
BP_API int32_t bp_target_device_type(const BpTarget *target);
/* An attribute; *value is borrowed, None when unset; one that the kind lacks is an error. */
BP_API int bp_target_get_attr(const BpTarget *target, const char *name, BpValue *value);
/* The same for an int, with the value to use when the kind lacks it or it is unset. Never fails. */
BP_API int64_t bp_target_get_int(const BpTarget *target, const char *name, int64_t otherwise);
/* Canonical text, which parses back to an equal target; JSON form (transfer full, bp_str_free).
 * NULL with an error: the part of libbackplane that writes them cannot be loaded. */
BP_API char *bp_target_format(const BpTarget *target);
BP_API char *bp_target_format_json(const BpTarget *target);

/* All target kinds that installed plugins declare, sorted, without loading them. NULL-terminated,
 * bp_names_free. And the description of one, which activates its plugin; borrowed, static. */
BP_API char **bp_target_kinds(size_t *count);
BP_API const BpTargetKind *bp_target_kind_info(const char *kind);

/* Generates code: target.build.KIND. The module is legalised first to what the kind accepts.
 * Transfer full. */
BP_API BpModule *bp_target_build(BpIrModule *module, const BpTarget *target);

#ifdef __cplusplus
}
#endif

#endif
