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

/* Reads a file into a tensor on the CPU (transfer full). The file is untrusted: every byte is
 * checked. Fortran order, big-endian numbers and structured types are errors that say so. */
BP_API BpTensor *bp_npy_read(const char *path);

/* Writes a tensor of any device, with its dtype and shape. The file appears whole or not at all; a
 * device, FIFO or link to an open file (/dev/stdout) of that name is written to. */
BP_API int bp_npy_write(const char *path, const BpTensorView *tensor);

/* Reads a file in memory, such as a member of an .npz archive. `name` is the file's name in errors;
 * the bytes are borrowed for the call. Any thread. Since 1.0. */
BP_API BpTensor *bp_npy_decode(const BpByteArray *bytes, const char *name);
/* Writes a file to memory. *bytes: the contents of the file that bp_npy_write would write, freed
 * with bp_owned_bytes_clear. Any thread. Since 1.0. */
BP_API int bp_npy_encode(const BpTensorView *tensor, BpOwnedBytes *bytes);

/* Returns the file name for a named tensor (transfer full, bp_str_free): NAME.npy; for an `index`
 * other than 0 NAME.1.npy and so on, as bp_model_profile names the outputs of a node. '_' replaces
 * '/' and control characters. Any thread. Since 1.0. */
BP_API char *bp_npy_file_name(const char *name, uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
