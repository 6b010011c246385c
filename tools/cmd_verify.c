/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane verify`: checks that a plugin conforms to the ABI, with the conformance kit. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/conformance/conformance.h>

static const char summary[] =
    "Checks that a plugin, given by its name or its file, conforms to the ABI: see\n"
    "`backplane verify --conformance --help`.";
static const GOptionEntry entries[] = {
    {"conformance", 0, 0, G_OPTION_ARG_NONE, NULL,
     "run the conformance kit, whose options follow; --list lists its checks", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL}};

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
  if (argc == 2 && strcmp(argv[1], MANUAL_OPTION) == 0) {
    manual_print("verify", entries, "PLUGIN", summary, NULL);
    return EXIT_OK;
  }
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    printf("Usage:\n  backplane verify --conformance [OPTION...] PLUGIN\n\n%s\n", summary);
    return EXIT_OK;
  }
  return command_usage_error("say what to verify: --conformance; `backplane verify --help`");
}
