/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance kit in a program that the template plugin is linked into. */
#include <backplane/conformance/conformance.h>
#include <backplane/error.h>
#include <backplane/plugins.h>
#include <stdio.h>

#include "sdk/template/src/simdev_plugin.h"

int main(int argc, char **argv) {
  if (bp_plugin_register_static(SIMDEV_DESCRIPTOR, bp_plugin_entry_simdev)) {
    fprintf(stderr, "%s\n", bp_error_message());
    return BP_CONFORMANCE_USAGE;
  }
  return bp_conformance_main(argc, argv);
}
