/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance kit, for programs that contain plugins. */
#ifndef BACKPLANE_CONFORMANCE_CONFORMANCE_H
#define BACKPLANE_CONFORMANCE_CONFORMANCE_H

#include <backplane/api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit statuses of the kit. */
#define BP_CONFORMANCE_OK     0 /* all core checks passed, and no other check failed */
#define BP_CONFORMANCE_FAILED 1 /* a check failed, or a check passed that was expected to fail */
#define BP_CONFORMANCE_USAGE                                                                       \
  2 /* the arguments are wrong, there is no such plugin, or the output cannot be written */
#define BP_CONFORMANCE_INCOMPLETE                                                                  \
  3 /* no check failed, but a core check was skipped or not possible */

/* Runs the kit on a plugin, with the arguments of `backplane verify --conformance`: `--help` lists
 * them. For a plugin that is linked into the program, call bp_plugin_register_static first, and
 * pass the plugin's name. The checks run in child processes forked from the caller, which must not
 * have used a device nor have other threads. Returns the exit status, BP_CONFORMANCE_*. */
BP_API int bp_conformance_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
