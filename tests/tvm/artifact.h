/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts in the form of TVM up to 0.19: the blob of a library, parameter files, host code. */
#ifndef BACKPLANE_TESTS_TVM_ARTIFACT_H
#define BACKPLANE_TESTS_TVM_ARTIFACT_H

#include <glib.h>

#include <backplane/value.h>

/* ---- Bytes ------------------------------------------------------------------------------- */

/* These functions append to a GByteArray; numbers are little-endian, strings are preceded by their
 * length. */
void put_u64(GByteArray *bytes, guint64 number);
void put_str(GByteArray *bytes, const char *text);
/* Appends a list of words, which a space separates in `text`. */
void put_words(GByteArray *bytes, const char *text);
/* Appends an array on the CPU. */
void put_array(GByteArray *bytes, const int64_t *shape, int32_t ndim, BpDataType dtype,
               const void *data);
/* Appends a vector of floats as an array on the CPU. */
void put_floats(GByteArray *bytes, const float *numbers, int64_t count);

/* One kernel of a device module: `handles` buffers, then `ints` int32 scalars. */
typedef struct ArtifactKernel {
  const char *key;
  const char *name; /* "": the key */
  int handles;
  int ints;
  const char *tags; /* launch tags, separated by spaces */
} ArtifactKernel;
/* Appends the record of a device module, including its kind. */
void put_device_module(GByteArray *bytes, const char *kind, const char *format,
                       const ArtifactKernel *kernels, size_t num_kernels, const char *code,
                       size_t code_size);

/* A named vector of floats. */
typedef struct ArtifactParam {
  const char *name;
  const float *numbers;
  int64_t count;
} ArtifactParam;
/* Appends the record of a graph with its parameters, including its kind; and a parameter file.
 * `name` is the function that makes an executor. */
void put_factory(GByteArray *bytes, const char *name, const char *graph_json,
                 const ArtifactParam *params, size_t num_params);
void put_params_file(GByteArray *bytes, const ArtifactParam *params, size_t num_params);

/* Appends the record `_import_tree`: rows and children are numbers separated by spaces. */
void put_import_tree(GByteArray *bytes, const char *rows, const char *children);

/* ---- Libraries --------------------------------------------------------------------------- */

/* Host code with the types, slots and checks of LLVM's code; and without slots, like TVM's C
 * code. */
extern const char artifact_llvm_header[], artifact_c_header[];

/* Compiles C (after the header) to a library at `path`, with `blob` (or NULL: none) at an odd
 * address as __tvm_dev_mblob, preceded by its length. Ends the program on failure. */
void build_artifact(const char *path, const char *header, const char *source,
                    const GByteArray *blob);

/* Return a folder of the test (g_free), and a path in it (g_free). */
char *artifact_folder(void);
void remove_artifact_folder(char *folder);

#endif
