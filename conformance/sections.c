/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sections: a new section is a line here. */
#include "conformance/kit.h"

const Section *const bp__kit_sections[] = {
    &bp__kit_plugin_section,             /* descriptor, activation */
    &bp__kit_file_section,               /* requirements of the plugin's file */
    &bp__kit_device_section,             /* table, attributes */
    &bp__kit_memory_section,             /* data space */
    &bp__kit_copy_section,               /* copies */
    &bp__kit_used_memory_section,        /* exhaustion, workspace: checks that need copies */
    &bp__kit_stream_section,             /* streams, timers, recordings */
    &bp__kit_module_section,             /* building code, calls, launches, saving */
    &bp__kit_sizes_section,              /* large programs, many arguments */
    &bp__kit_launch_section,             /* launches on streams */
    &bp__kit_reload_section,             /* modules again and again */
    &bp__kit_copy_performance_section,   /* times, compared within the run */
    &bp__kit_launch_performance_section, /* times, compared within the run */
    &bp__kit_fault_section,              /* faults of the process */
    &bp__kit_claims_section,             /* graph compilers */
    &bp__kit_operators_section,          /* single operators */
    &bp__kit_codegen_section,            /* constructs of the IR */
    &bp__kit_types_section,              /* operations on each type */
    &bp__kit_intrinsics_section,         /* functions of numbers */
    &bp__kit_kernels_section,            /* computations in the schedules of the host's compiler */
    &bp__kit_random_section,             /* random programs */
};
const size_t bp__kit_num_sections = G_N_ELEMENTS(bp__kit_sections);
