/* SPDX-License-Identifier: Apache-2.0 */
/* Whether code built with given compiler options can run in this process. */
#ifndef BACKPLANE_CORE_PLUGIN_MACHINE_H
#define BACKPLANE_CORE_PLUGIN_MACHINE_H

/* isa: words that each name an instruction-set level or extension ("x86-64-v3 avx512f"); an unknown
 * word is an error. sanitizer: the sanitizer of the plugin's build ("address", "thread"), or "".
 * Code that cannot run is an error, because loading it would kill the process. */
int bp__machine_check(const char *isa, const char *sanitizer);

#endif
