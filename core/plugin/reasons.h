/* SPDX-License-Identifier: Apache-2.0 */
/* Why a plugin cannot be used or needs attention: one table of stable codes. */
#ifndef BACKPLANE_CORE_PLUGIN_REASONS_H
#define BACKPLANE_CORE_PLUGIN_REASONS_H

#include <backplane/error.h>
#include <backplane/plugins.h>

/* X(NAME, code, stage, severity, kind of error, meaning, remedy). Codes are never renamed. */
/* clang-format off */
#define BP_REASONS(X) \
  X(OK, "ok", FOUND, OK, PLUGIN, \
    "nothing is wrong", \
    "") \
  X(DIRECTORY_UNREADABLE, "directory-unreadable", FOUND, WARNING, IO, \
    "a directory of the search path cannot be searched", \
    "make it, or take it off BACKPLANE_PLUGIN_PATH") \
  X(DIRECTORY_RELATIVE, "directory-relative", FOUND, WARNING, VALUE, \
    "a relative directory of the search path is left out", \
    "write it as an absolute path in BACKPLANE_PLUGIN_PATH") \
  X(FILE_MISSING, "file-missing", FOUND, ERROR, IO, \
    "a link to a plugin leads nowhere", \
    "install the package again, or remove the link") \
  X(FILE_UNREADABLE, "file-unreadable", FOUND, ERROR, IO, \
    "the file cannot be read", \
    "give this user the right to read it: chmod a+r") \
  X(RESOURCES, "resources-short", FOUND, ERROR, IO, \
    "there are too few descriptors, or there is no memory, to read or load it now", \
    "close files or raise `ulimit -n`, then try again: it is not remembered") \
  X(FILE_NOT_REGULAR, "file-not-regular", FOUND, ERROR, FORMAT, \
    "it is no regular file", \
    "remove it from the directory") \
  X(SHADOWED, "shadowed", FOUND, NOTE, PLUGIN, \
    "another plugin of the same name comes first", \
    "remove one of the two, or put its directory first in BACKPLANE_PLUGIN_PATH") \
  X(FILE_NOT_ELF, "file-not-elf", DESCRIPTOR, ERROR, FORMAT, \
    "the file is no ELF file", \
    "remove it from the directory; plugins are shared objects") \
  X(FILE_NOT_SHARED, "file-not-shared", DESCRIPTOR, ERROR, FORMAT, \
    "the ELF file is not a shared object", \
    "link it with -shared") \
  X(FILE_MALFORMED, "file-malformed", DESCRIPTOR, ERROR, FORMAT, \
    "the ELF file is malformed", \
    "install the package again: the file is damaged") \
  X(FILE_TRUNCATED, "file-truncated", DESCRIPTOR, ERROR, FORMAT, \
    "the file is shorter than it says", \
    "install the package again: the file is damaged") \
  X(DESCRIPTOR_MISSING, "descriptor-missing", DESCRIPTOR, ERROR, FORMAT, \
    "the file has no descriptor", \
    "remove it from the directory, or build it with BP_PLUGIN_DESCRIPTOR") \
  X(DESCRIPTOR_MALFORMED, "descriptor-malformed", DESCRIPTOR, ERROR, FORMAT, \
    "the descriptor breaks the rules of its text", \
    "report this defect to the plugin's maker") \
  X(DESCRIPTOR_INCOMPLETE, "descriptor-incomplete", DESCRIPTOR, ERROR, FORMAT, \
    "the descriptor lacks a required key", \
    "report this defect to the plugin's maker") \
  X(ABI_TOO_OLD, "abi-too-old", ABI, ERROR, PLUGIN, \
    "the plugin was built for an older ABI than this host serves", \
    "install a newer build of the plugin") \
  X(ABI_TOO_NEW, "abi-too-new", ABI, ERROR, PLUGIN, \
    "the plugin was built for a newer ABI than this host serves", \
    "install a newer backplane, or an older build of the plugin") \
  X(OTHER_ARCHITECTURE, "other-architecture", ABI, ERROR, FORMAT, \
    "the plugin is for another architecture", \
    "install the package for this architecture") \
  X(CPU_TOO_OLD, "cpu-too-old", ABI, ERROR, PLUGIN, \
    "this CPU lacks instructions that the plugin was built with", \
    "install a build for an older CPU") \
  X(SANITIZER_MISMATCH, "sanitizer-mismatch", ABI, ERROR, PLUGIN, \
    "the plugin was built with a sanitizer and this program was not", \
    "rebuild one of the two") \
  X(PATH_WRITABLE, "path-writable", PATH, WARNING, PLUGIN, \
    "others may change the file or a directory above it", \
    "chmod go-w what the text names, or install the plugin elsewhere") \
  X(PATH_REFUSED, "path-refused", PATH, ERROR, PLUGIN, \
    "others may change the file, and this program runs with raised rights", \
    "chmod go-w what the text names, or install the plugin elsewhere") \
  X(FILE_CHANGED, "file-changed", PATH, ERROR, PLUGIN, \
    "the file changed after its descriptor was read", \
    "try again") \
  X(PROC_MISSING, "proc-missing", PATH, ERROR, PLUGIN, \
    "/proc is not mounted, so the checked file cannot be loaded", \
    "mount -t proc proc /proc") \
  X(DEPENDENCY_MISSING, "dependency-missing", DEPENDENCIES, ERROR, PLUGIN, \
    "a library that the plugin is linked with is missing", \
    "install the package that holds it") \
  X(LOAD_FAILED, "load-failed", DEPENDENCIES, ERROR, PLUGIN, \
    "the loader refuses the file", \
    "install a build of the plugin for this system") \
  X(LIBRARY_MISSING, "library-missing", DEPENDENCIES, NOTE, PLUGIN, \
    "a library that the plugin opens at run time cannot be opened", \
    "install the vendor's package that holds it") \
  X(NODE_MISSING, "node-missing", PERMISSIONS, NOTE, PLUGIN, \
    "a device node that the plugin uses is not there", \
    "load the vendor's kernel driver; in a container pass the device in (--device, --gpus)") \
  X(NODE_DENIED, "node-denied", PERMISSIONS, WARNING, PLUGIN, \
    "this user may not use a device node", \
    "join the group that owns it: usermod -aG GROUP USER, and log in again") \
  X(ENTRY_MISSING, "entry-missing", PROBE, ERROR, PLUGIN, \
    "the plugin does not export its entry point", \
    "report this defect to the plugin's maker") \
  X(ENTRY_FAILED, "entry-failed", PROBE, ERROR, PLUGIN, \
    "the entry point failed", \
    "install a build of the plugin that matches this host") \
  X(ENTRY_OTHER_ABI, "entry-other-abi", PROBE, ERROR, PLUGIN, \
    "the entry point answers with another ABI than the descriptor", \
    "install a build of the plugin that matches this host") \
  X(INITIALIZE_MISSING, "initialize-missing", PROBE, ERROR, PLUGIN, \
    "the entry point gives no initialize", \
    "report this defect to the plugin's maker") \
  X(INITIALIZE_FAILED, "initialize-failed", PROBE, ERROR, PLUGIN, \
    "the plugin's initialisation failed", \
    "do what its own text says") \
  X(NAME_NOT_REGISTERED, "name-not-registered", PROBE, ERROR, PLUGIN, \
    "the plugin did not register a name that it declares", \
    "report this defect to the plugin's maker") \
  X(NAME_TAKEN, "name-taken", PROBE, ERROR, PLUGIN, \
    "a name that the plugin provides is registered already", \
    "remove one of the two that provide it") \
  X(CRASHED, "crashed", PROBE, ERROR, PLUGIN, \
    "the plugin crashed when it was tried out", \
    "update the plugin or the vendor's driver, then `backplane doctor`") \
  X(TIMED_OUT, "timed-out", PROBE, ERROR, PLUGIN, \
    "the plugin was not ready before the deadline", \
    "update the vendor's driver, or give more seconds in BACKPLANE_PLUGIN_DEADLINE, then `backplane doctor`") \
  X(EXITED, "exited", PROBE, ERROR, PLUGIN, \
    "the plugin ended the process when it was tried out", \
    "update the plugin or the vendor's driver, then `backplane doctor`") \
  X(STOPPED, "stopped", PROBE, ERROR, PLUGIN, \
    "the plugin stopped the process when it was tried out", \
    "update the plugin or the vendor's driver, then `backplane doctor`") \
  X(LEAVES_PROCESSES, "leaves-processes", PROBE, ERROR, PLUGIN, \
    "the plugin leaves processes behind", \
    "update the plugin or the vendor's driver, then `backplane doctor`") \
  X(TRIAL_GARBLED, "trial-garbled", PROBE, ERROR, PLUGIN, \
    "the report of the trial cannot be read", \
    "update the plugin or the vendor's driver, then `backplane doctor`") \
  X(HELPER_MISSING, "helper-missing", PROBE, WARNING, PLUGIN, \
    "the helper program is not installed, so plugins are used without having been tried out", \
    "install backplane completely, or name its helper program in BACKPLANE_TRIAL_PROGRAM") \
  X(TRIAL_IMPOSSIBLE, "trial-impossible", PROBE, ERROR, PLUGIN, \
    "the plugin could not be tried out, for reasons that are not its own", \
    "remove the cause that the text names; BACKPLANE_PLUGIN_DEADLINE=0 uses plugins untried") \
  X(FORKED, "forked", PROBE, ERROR, PLUGIN, \
    "the process was forked while the plugin initialised", \
    "activate the plugin before or after the fork") \
  X(DEVICES_FAILED, "devices-failed", DEVICES, ERROR, DEVICE, \
    "the plugin failed while it listed its devices", \
    "do what its own text says") \
  X(DEVICES_NONE, "devices-none", DEVICES, NOTE, DEVICE, \
    "there is no device of the plugin's kind", \
    "do what the plugin's own text says") \
  X(DEVICE_UNUSABLE, "device-unusable", DEVICES, WARNING, DEVICE, \
    "a device is there but cannot be used now", \
    "see what else uses it, and the kernel's log") \
  X(CACHE_HOME_UNWRITABLE, "cache-home-unwritable", DEVICES, NOTE, DEVICE, \
    "this user has no folder for caches, without which some drivers have no device", \
    "set HOME, or XDG_CACHE_HOME, to a folder of this user's") \
  X(CONTAINER_WITHOUT_DEVICES, "container-without-devices", DEVICES, NOTE, DEVICE, \
    "this is a container, and it was given no such device or library", \
    "start it with the vendor's devices, and have the vendor's libraries in its image") \
  X(NOT_SELECTED, "not-selected", SELECTED, NOTE, DEVICE, \
    "the plugin works but is not selected", \
    "name one of its devices in BACKPLANE_DEVICE") \
  X(SELECTION_FAILED, "selection-failed", SELECTED, ERROR, VALUE, \
    "no device fits what was asked for", \
    "change what asks for it, BACKPLANE_DEVICE or backplane.conf; `backplane run --device help` explains it") \
  X(CODE_FAILED, "code-failed", CODE, WARNING, PLUGIN, \
    "compiled models run, but none can be compiled for a target of the plugin", \
    "do what the text says: mostly a compiler that it names is to be installed")
/* clang-format on */

typedef enum Reason {
#define BP_REASON_ID(name, code, stage, severity, kind, meaning, remedy) REASON_##name,
  BP_REASONS(BP_REASON_ID)
#undef BP_REASON_ID
      NUM_REASONS
} Reason;

/* The row of the table for a reason. */
const BpPluginReason *bp__reason_info(Reason reason);

/* The reason with a code, or NUM_REASONS. */
Reason bp__reason_by_code(const char *code);

/* Raises an error of the reason's kind and remembers the reason for this thread. Returns -1. */
int bp__reason_raise(Reason reason, const char *format, ...) BP_PRINTF(2, 3);

/* Remembers a reason for an error that was raised elsewhere, unless one is already remembered. */
void bp__reason_note(Reason reason);

/* Returns and forgets the reason last remembered by this thread; `otherwise` if there is none. */
Reason bp__reason_take(Reason otherwise);

#endif
