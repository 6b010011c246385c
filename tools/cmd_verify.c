/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane verify`: whether something is as it should be. A plugin is, if it passes the
 * conformance kit. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/conformance/conformance.h>

static const char usage[] =
    "Usage:\n  backplane verify --conformance [OPTION...] PLUGIN\n\n"
    "Checks that a plugin, given by its name or its file, keeps to the ABI: see\n"
    "`backplane verify --conformance --help`.\n";

int cmd_verify(int argc, char **argv) {
  int kept = 0;
  gboolean is_conformance = FALSE;
  for (int i = 0; i < argc; i++) {
    if (strcmp(argv[i], "--conformance") == 0)
      is_conformance = TRUE;
    else
      argv[kept++] = argv[i];
  }
  if (is_conformance) {
    g_set_prgname("backplane verify --conformance");
    return bp_conformance_main(kept, argv);
  }
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(usage, stdout);
    return EXIT_OK;
  }
  return command_usage_error("say what to verify: --conformance; `backplane verify --help`");
}
