/* SPDX-License-Identifier: Apache-2.0 */
/* Why a plugin cannot be used or needs attention: one table of stable codes. */
#ifndef BACKPLANE_PARTS_PLUGINS_REASONS_H
#define BACKPLANE_PARTS_PLUGINS_REASONS_H

#include "core/system/shared.h"

#include <backplane/error.h>
#include <backplane/plugins.h>

/* X(NAME, code, kind of error). Codes are never renamed; parts/doctor/reasons.c explains them. */
/* clang-format off */
#define BP_REASONS(X) \
  X(OK, "ok", PLUGIN) \
  X(DIRECTORY_UNREADABLE, "directory-unreadable", IO) \
  X(DIRECTORY_RELATIVE, "directory-relative", VALUE) \
  X(FILE_MISSING, "file-missing", IO) \
  X(FILE_UNREADABLE, "file-unreadable", IO) \
  X(RESOURCES, "resources-short", IO) \
  X(FILE_NOT_REGULAR, "file-not-regular", FORMAT) \
  X(SHADOWED, "shadowed", PLUGIN) \
  X(FILE_NOT_ELF, "file-not-elf", FORMAT) \
  X(FILE_NOT_SHARED, "file-not-shared", FORMAT) \
  X(FILE_MALFORMED, "file-malformed", FORMAT) \
  X(FILE_TRUNCATED, "file-truncated", FORMAT) \
  X(DESCRIPTOR_MISSING, "descriptor-missing", FORMAT) \
  X(DESCRIPTOR_MALFORMED, "descriptor-malformed", FORMAT) \
  X(DESCRIPTOR_INCOMPLETE, "descriptor-incomplete", FORMAT) \
  X(ABI_TOO_OLD, "abi-too-old", PLUGIN) \
  X(ABI_TOO_NEW, "abi-too-new", PLUGIN) \
  X(OTHER_ARCHITECTURE, "other-architecture", FORMAT) \
  X(CPU_TOO_OLD, "cpu-too-old", PLUGIN) \
  X(SANITIZER_MISMATCH, "sanitizer-mismatch", PLUGIN) \
  X(PATH_WRITABLE, "path-writable", PLUGIN) \
  X(PATH_REFUSED, "path-refused", PLUGIN) \
  X(FILE_CHANGED, "file-changed", PLUGIN) \
  X(PROC_MISSING, "proc-missing", PLUGIN) \
  X(DEPENDENCY_MISSING, "dependency-missing", PLUGIN) \
  X(LOAD_FAILED, "load-failed", PLUGIN) \
  X(LIBRARY_MISSING, "library-missing", PLUGIN) \
  X(NODE_MISSING, "node-missing", PLUGIN) \
  X(NODE_DENIED, "node-denied", PLUGIN) \
  X(ENTRY_MISSING, "entry-missing", PLUGIN) \
  X(ENTRY_FAILED, "entry-failed", PLUGIN) \
  X(ENTRY_OTHER_ABI, "entry-other-abi", PLUGIN) \
  X(INITIALIZE_MISSING, "initialize-missing", PLUGIN) \
  X(INITIALIZE_FAILED, "initialize-failed", PLUGIN) \
  X(NAME_NOT_REGISTERED, "name-not-registered", PLUGIN) \
  X(NAME_TAKEN, "name-taken", PLUGIN) \
  X(ISOLATION_IMPOSSIBLE, "isolation-impossible", PLUGIN) \
  X(ISOLATION_UNKNOWN, "isolation-unknown", VALUE) \
  X(REMOTE_UNREACHABLE, "remote-unreachable", PLUGIN) \
  X(CRASHED, "crashed", PLUGIN) \
  X(TIMED_OUT, "timed-out", PLUGIN) \
  X(EXITED, "exited", PLUGIN) \
  X(STOPPED, "stopped", PLUGIN) \
  X(LEAVES_PROCESSES, "leaves-processes", PLUGIN) \
  X(TRIAL_GARBLED, "trial-garbled", PLUGIN) \
  X(HELPER_MISSING, "helper-missing", PLUGIN) \
  X(TRIAL_IMPOSSIBLE, "trial-impossible", PLUGIN) \
  X(FORKED, "forked", PLUGIN) \
  X(DEVICES_FAILED, "devices-failed", DEVICE) \
  X(DEVICES_NONE, "devices-none", DEVICE) \
  X(DEVICE_UNUSABLE, "device-unusable", DEVICE) \
  X(CACHE_HOME_UNWRITABLE, "cache-home-unwritable", DEVICE) \
  X(CONTAINER_WITHOUT_DEVICES, "container-without-devices", DEVICE) \
  X(NOT_SELECTED, "not-selected", DEVICE) \
  X(SELECTION_FAILED, "selection-failed", VALUE) \
  X(CODE_FAILED, "code-failed", PLUGIN)
/* clang-format on */

typedef enum Reason {
#define BP_REASON_ID(name, code, kind) REASON_##name,
  BP_REASONS(BP_REASON_ID)
#undef BP_REASON_ID
      NUM_REASONS
} Reason;

/* Returns the code of a reason; static. */
BP__SHARED const char *bp__reason_code(Reason reason);

/* Returns the reason with a code, or NUM_REASONS. */
BP__SHARED Reason bp__reason_by_code(const char *code);

/* Raises an error of the reason's kind and remembers the reason for this thread. Returns -1. */
BP__SHARED int bp__reason_raise(Reason reason, const char *format, ...) BP_PRINTF(2, 3);

/* Remembers a reason for an error that was raised elsewhere, unless a reason is already
 * remembered. */
BP__SHARED void bp__reason_note(Reason reason);

/* Returns and forgets the reason that this thread remembered last; `otherwise` if the thread
 * remembers none. */
BP__SHARED Reason bp__reason_take(Reason otherwise);

#endif
