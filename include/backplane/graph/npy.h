/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in files: NumPy's .npy format, versions 1.0 to 3.0 (NEP 1), little-endian, C order. A NULL
 * where none is allowed is an error of kind BP_ERROR_VALUE. */
#ifndef BACKPLANE_GRAPH_NPY_H
#define BACKPLANE_GRAPH_NPY_H

#include <backplane/api.h>
#include <backplane/module.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a file into a tensor on the CPU (transfer full). Untrusted input: every byte is checked.
 * Fortran order, big-endian numbers and structured types are errors that say so. */
BP_API BpTensor *bp_npy_read(const char *path);

/* Writes a tensor of any device, with its dtype and shape. The file appears whole or not at all. */
BP_API int bp_npy_write(const char *path, const BpTensorView *tensor);

/* The same of a file in memory, as a member of an .npz archive. `name` is what errors call it; the
 * bytes are only read, and not kept. Any thread. Since 1.0. */
BP_API BpTensor *bp_npy_decode(const BpByteArray *bytes, const char *name);
/* *bytes: what bp_npy_write writes, freed with bp_owned_bytes_clear. Any thread. Since 1.0. */
BP_API int bp_npy_encode(const BpTensorView *tensor, BpOwnedBytes *bytes);

/* The file name for a named tensor (transfer full, bp_str_free): NAME.npy, and NAME.1.npy and so on
 * for an `index` other than 0, as bp_model_profile names the outputs of a node. '_' replaces '/'
 * and control characters. Any thread. Since 1.0. */
BP_API char *bp_npy_file_name(const char *name, uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
