/* SPDX-License-Identifier: Apache-2.0 */
/* Targets: descriptions of the machines that code is generated for. */
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
 * Activates the plugin of the kind. An unknown kind or attribute, or a wrong type, is an error that
 * names the nearest match and the known names. Values with spaces are quoted: -options="a b". */
BP_API BpTarget *bp_target_parse(const char *text);
/* Makes the target that fits an existing device best (transfer full): its BP_ATTR_TARGET. */
BP_API BpTarget *bp_target_from_device(BpDevice device);
/* Drops a reference to a target; dropping the last one frees the target. NULL is ignored. Any
 * thread. */
static inline void bp_target_release(BpTarget *target) {
  bp_object_release(target);
}
/* Return the kind of a target (borrowed, static), and its device type. */
BP_API const char *bp_target_kind(const BpTarget *target);
BP_API int32_t bp_target_device_type(const BpTarget *target);
/* Reads an attribute; *value is borrowed, and None if the attribute is unset. An attribute that the
 * kind lacks is an error. */
BP_API int bp_target_get_attr(const BpTarget *target, const char *name, BpValue *value);
/* Reads an int attribute; returns `otherwise` if the kind lacks the attribute or it is unset. Never
 * fails. */
BP_API int64_t bp_target_get_int(const BpTarget *target, const char *name, int64_t otherwise);
/* Return the canonical text, which parses back to an equal target; and the JSON form (transfer
 * full, bp_str_free). NULL with an error if the part of libbackplane that writes targets cannot be
 * loaded. */
BP_API char *bp_target_format(const BpTarget *target);
BP_API char *bp_target_format_json(const BpTarget *target);

/* Return all target kinds that installed plugins declare, sorted, without loading the plugins
 * (NULL-terminated, bp_names_free); and the description of a kind, which activates its plugin
 * (borrowed, static). */
BP_API char **bp_target_kinds(size_t *count);
BP_API const BpTargetKind *bp_target_kind_info(const char *kind);

/* Generates code with target.build.KIND. The module is first legalised to the constructs that the
 * kind accepts. Transfer full. */
BP_API BpModule *bp_target_build(BpIrModule *module, const BpTarget *target);

#ifdef __cplusplus
}
#endif

#endif
