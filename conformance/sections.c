/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of sections: a new one is a line here. */
#include "conformance/kit.h"

const Section *const bp__kit_sections[] = {
    &bp__kit_plugin_section, &bp__kit_device_section,      &bp__kit_memory_section,
    &bp__kit_copy_section,   &bp__kit_used_memory_section, &bp__kit_fault_section,
};
const size_t bp__kit_num_sections = G_N_ELEMENTS(bp__kit_sections);
