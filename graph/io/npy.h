/* SPDX-License-Identifier: Apache-2.0 */
/* Writing NumPy's files into folders that may have other files. */
#ifndef BACKPLANE_GRAPH_IO_NPY_H
#define BACKPLANE_GRAPH_IO_NPY_H

#include <backplane/tensor.h>

/* As bp_npy_write, but replaces only a file that is empty or a .npy file. Any thread. */
int bp__npy_replace(const char *path, const BpTensorView *tensor);

#endif
