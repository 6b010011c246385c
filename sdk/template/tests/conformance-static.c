/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the conformance kit on the plugin as part of a program, registered by the same entry
 * point. */
#include "../src/simdev_plugin.h"

#include <backplane/conformance/conformance.h>
#include <backplane/plugins.h>

int main(int argc, char **argv) {
  if (bp_plugin_register_static(SIMDEV_DESCRIPTOR, bp_plugin_entry_simdev))
    return BP_CONFORMANCE_FAILED;
  return bp_conformance_main(argc, argv);
}
