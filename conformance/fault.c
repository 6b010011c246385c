/* SPDX-License-Identifier: Apache-2.0 */
/* Section fault: behaviour when something is wrong. */
#include "conformance/kit.h"

static void run_exit(Kit *kit) {
  char bytes[64] = {0};
  bp__kit_open_device(kit);
  void *handle = bp__kit_alloc(kit, sizeof bytes);
  bp__kit_upload(kit, bytes, handle, 0, sizeof bytes, NULL);
  bp__kit_exit();
}

static const Check checks[] = {
    {"fault.exit", "a process that has used the device, and freed nothing, ends cleanly",
     "copy.roundtrip", CHECK_CORE | CHECK_FAULT, run_exit},
};

const Section bp__kit_fault_section = {"fault", NEEDS_DEVICE, checks, G_N_ELEMENTS(checks)};
