/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of each reason, and its remedy. */

#include "parts/doctor/reasons.h"

/* The codes, as CODE_name. */
#define CODE(name, code, kind) static const char CODE_##name[] = code;
BP_REASONS(CODE)
#undef CODE

#define ROW(name, stage, severity, meaning, remedy)                                                \
  [REASON_##name] = {sizeof(BpPluginReason),                                                       \
                     BP_STAGE_##stage,                                                             \
                     BP_SEVERITY_##severity,                                                       \
                     CODE_##name,                                                                  \
                     meaning,                                                                      \
                     remedy}

/* A reason without a row in this table has no code, and the compiler reports its CODE_name as
 * unused. */
static const BpPluginReason rows[NUM_REASONS] = {
    ROW(OK, FOUND, OK, "nothing is wrong", ""),
    ROW(DIRECTORY_UNREADABLE, FOUND, WARNING, "a directory of the search path cannot be searched",
        "make it, or take it off BACKPLANE_PLUGIN_PATH"),
    ROW(DIRECTORY_RELATIVE, FOUND, WARNING, "a relative directory of the search path is left out",
        "write it as an absolute path in BACKPLANE_PLUGIN_PATH"),
    ROW(FILE_MISSING, FOUND, ERROR, "a link to a plugin leads nowhere",
        "install the package again, or remove the link"),
    ROW(FILE_UNREADABLE, FOUND, ERROR, "the file cannot be read",
        "give this user the right to read it (chmod a+r), or examine the disk after an I/O error"),
    ROW(RESOURCES, FOUND, ERROR,
        "there are too few descriptors, or there is no memory, to read or load it now",
        "close files or raise `ulimit -n`, then try again: it is not remembered"),
    ROW(FILE_NOT_REGULAR, FOUND, ERROR, "it is no regular file", "remove it from the directory"),
    ROW(SHADOWED, FOUND, NOTE, "another plugin of the same name comes first",
        "remove one of the two, or put its directory first in BACKPLANE_PLUGIN_PATH"),
    ROW(FILE_NOT_ELF, DESCRIPTOR, ERROR, "the file is no ELF file",
        "remove it from the directory; plugins are shared objects"),
    ROW(FILE_NOT_SHARED, DESCRIPTOR, ERROR, "the ELF file is not a shared object",
        "link it with -shared"),
    ROW(FILE_MALFORMED, DESCRIPTOR, ERROR, "the ELF file is malformed",
        "install the package again: the file is damaged"),
    ROW(FILE_TRUNCATED, DESCRIPTOR, ERROR, "the file is shorter than its headers say",
        "install the package again: the file is damaged"),
    ROW(DESCRIPTOR_MISSING, DESCRIPTOR, ERROR, "the file has no descriptor",
        "remove it from the directory, or build it with BP_PLUGIN_DESCRIPTOR"),
    ROW(DESCRIPTOR_MALFORMED, DESCRIPTOR, ERROR, "the descriptor breaks the rules of its text",
        "report this defect to the plugin's maker"),
    ROW(DESCRIPTOR_INCOMPLETE, DESCRIPTOR, ERROR, "the descriptor lacks a required key",
        "report this defect to the plugin's maker"),
    ROW(ABI_TOO_OLD, ABI, ERROR, "the plugin was built for an older ABI than this host serves",
        "install a newer build of the plugin"),
    ROW(ABI_TOO_NEW, ABI, ERROR, "the plugin was built for a newer ABI than this host serves",
        "install a newer backplane, or an older build of the plugin"),
    ROW(OTHER_ARCHITECTURE, ABI, ERROR, "the plugin is for another architecture",
        "install the package for this architecture"),
    ROW(CPU_TOO_OLD, ABI, ERROR, "this CPU lacks instructions that the plugin was built with",
        "install a build for an older CPU"),
    ROW(SANITIZER_MISMATCH, ABI, ERROR,
        "the plugin was built with a sanitizer and this program was not", "rebuild one of the two"),
    ROW(PATH_WRITABLE, PATH, WARNING, "others may change the file or a directory above it",
        "chmod go-w the path that the text names, or install the plugin elsewhere"),
    ROW(PATH_REFUSED, PATH, ERROR,
        "others may change the file, and this program runs with raised rights",
        "chmod go-w the path that the text names, or install the plugin elsewhere"),
    ROW(FILE_CHANGED, PATH, ERROR, "the file changed after its descriptor was read", "try again"),
    ROW(PROC_MISSING, PATH, ERROR, "/proc is not mounted, so the checked file cannot be loaded",
        "mount -t proc proc /proc"),
    ROW(DEPENDENCY_MISSING, DEPENDENCIES, ERROR,
        "a library that the plugin is linked with is missing", "install the library's package"),
    ROW(LOAD_FAILED, DEPENDENCIES, ERROR, "the loader refuses the file",
        "install a build of the plugin for this system"),
    ROW(LIBRARY_MISSING, DEPENDENCIES, NOTE,
        "a library that the plugin opens at run time cannot be opened",
        "install the vendor's package with the library"),
    ROW(NODE_MISSING, PERMISSIONS, NOTE, "a device node that the plugin uses is not there",
        "load the vendor's kernel driver; in a container pass the device in (--device, --gpus)"),
    ROW(NODE_DENIED, PERMISSIONS, WARNING, "this user may not use a device node",
        "join the group that owns it: usermod -aG GROUP USER, and log in again"),
    ROW(ENTRY_MISSING, PROBE, ERROR, "the plugin does not export its entry point",
        "report this defect to the plugin's maker"),
    ROW(ENTRY_FAILED, PROBE, ERROR, "the entry point failed",
        "install a build of the plugin that matches this host"),
    ROW(ENTRY_OTHER_ABI, PROBE, ERROR,
        "the entry point answers with another ABI than the descriptor",
        "install a build of the plugin that matches this host"),
    ROW(INITIALIZE_MISSING, PROBE, ERROR, "the entry point gives no initialize",
        "report this defect to the plugin's maker"),
    ROW(INITIALIZE_FAILED, PROBE, ERROR, "the plugin's initialisation failed",
        "follow the plugin's own text"),
    ROW(NAME_NOT_REGISTERED, PROBE, ERROR, "the plugin did not register a name that it declares",
        "report this defect to the plugin's maker"),
    ROW(NAME_TAKEN, PROBE, ERROR, "a name that the plugin provides is registered already",
        "remove one of the two plugins that provide the name"),
    ROW(ISOLATION_IMPOSSIBLE, PROBE, ERROR,
        "BACKPLANE_ISOLATE asks for a process of its own, which the plugin cannot have",
        "take the plugin off the list in BACKPLANE_ISOLATE"),
    ROW(ISOLATION_UNKNOWN, FOUND, WARNING, "BACKPLANE_ISOLATE names a plugin that is not there",
        "write the name as `backplane list` shows it"),
    ROW(REMOTE_UNREACHABLE, FOUND, ERROR, "another machine cannot be reached, or has no worker",
        "try `ssh HOST true`, and install backplane-worker there"),
    ROW(CRASHED, PROBE, ERROR, "the plugin crashed when it was tried out",
        "update the plugin or the vendor's driver, then `backplane doctor`"),
    ROW(TIMED_OUT, PROBE, ERROR, "the plugin was not ready before the deadline",
        "update the vendor's driver, or give more seconds in BACKPLANE_PLUGIN_DEADLINE, then "
        "`backplane doctor`"),
    ROW(EXITED, PROBE, ERROR, "the plugin ended the process when it was tried out",
        "update the plugin or the vendor's driver, then `backplane doctor`"),
    ROW(STOPPED, PROBE, ERROR, "the plugin stopped the process when it was tried out",
        "update the plugin or the vendor's driver, then `backplane doctor`"),
    ROW(LEAVES_PROCESSES, PROBE, ERROR, "the plugin leaves processes behind",
        "update the plugin or the vendor's driver, then `backplane doctor`"),
    ROW(TRIAL_GARBLED, PROBE, ERROR, "the report of the trial cannot be read",
        "update the plugin or the vendor's driver, then `backplane doctor`"),
    ROW(HELPER_MISSING, PROBE, WARNING,
        "the helper program is not installed, so plugins are used without having been tried out",
        "install backplane completely, or name its helper program in BACKPLANE_TRIAL_PROGRAM"),
    ROW(TRIAL_IMPOSSIBLE, PROBE, ERROR,
        "the plugin could not be tried out, for reasons that are not its own",
        "remove the cause that the text names; BACKPLANE_PLUGIN_DEADLINE=0 uses plugins untried"),
    ROW(FORKED, PROBE, ERROR, "the process was forked while the plugin initialised",
        "activate the plugin before or after the fork"),
    ROW(DEVICES_FAILED, DEVICES, ERROR, "the plugin failed while it listed its devices",
        "follow the plugin's own text"),
    ROW(DEVICES_NONE, DEVICES, NOTE, "there is no device of the plugin's kind",
        "follow the plugin's own text"),
    ROW(DEVICE_UNUSABLE, DEVICES, WARNING, "a device is there but cannot be used now",
        "look for other users of the device, and into the kernel's log"),
    ROW(CACHE_HOME_UNWRITABLE, DEVICES, NOTE,
        "this user has no folder for caches, without which some drivers have no device",
        "set HOME, or XDG_CACHE_HOME, to a folder of this user's"),
    ROW(CONTAINER_WITHOUT_DEVICES, DEVICES, NOTE,
        "this is a container, and it was given no device or library of the plugin's vendor",
        "start it with the vendor's devices, and have the vendor's libraries in its image"),
    ROW(NOT_SELECTED, SELECTED, NOTE, "the plugin works but is not selected",
        "name one of its devices in BACKPLANE_DEVICE"),
    ROW(SELECTION_FAILED, SELECTED, ERROR, "no device matches the request",
        "change the request, BACKPLANE_DEVICE or backplane.conf; `backplane run --device help` "
        "explains it"),
    ROW(CODE_FAILED, CODE, WARNING,
        "compiled models run, but none can be compiled for a target of the plugin",
        "follow the text: mostly it names a compiler to install"),
};

const BpPluginReason *bp__reason_info(Reason reason) {
  return &rows[reason];
}

const BpPluginReason *bp__reason_at(size_t index) {
  return index < NUM_REASONS ? &rows[index] : NULL;
}
