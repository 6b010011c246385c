/* SPDX-License-Identifier: Apache-2.0 */
/* The calling convention of libraries of TVM up to 0.19, "packed C functions": arguments are values
 * of 8 bytes and a list of type codes. The functions of such a library are wrapped in Backplane's
 * functions, and the host functions that the library calls are offered in its convention. */
#ifndef BACKPLANE_PARTS_TVM_PACKED_C_H
#define BACKPLANE_PARTS_TVM_PACKED_C_H

#include <backplane/module.h>

/* Wraps a function of such a library (transfer full), which keeps `module`, its library, mapped.
 * Tensors must be compact; on the CPU their data is aligned to 64 bytes. Errors keep the library's
 * own text. */
BpFunction *bp__packed_c_function_create(BpModule *module, void *symbol);

/* The host functions in the convention of libraries of TVM up to 0.19. */
int bp__packed_c_add_slots(void);

#endif
