/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts as TVM up to 0.19 writes them: the blob of a library, parameter files, host code. */
#ifndef BACKPLANE_TESTS_TVM_ARTIFACT_H
#define BACKPLANE_TESTS_TVM_ARTIFACT_H

#include <glib.h>

#include <backplane/value.h>

/* ---- Bytes ------------------------------------------------------------------------------- */

/* All append to a GByteArray; numbers are little-endian, strings have their length before them. */
void put_u64(GByteArray *bytes, guint64 number);
void put_str(GByteArray *bytes, const char *text);
/* A list of words, which `text` has with a space between them. */
void put_words(GByteArray *bytes, const char *text);
/* An array of the CPU. */
void put_array(GByteArray *bytes, const int64_t *shape, int32_t ndim, BpDataType dtype,
               const void *data);
/* A vector of floats as such an array. */
void put_floats(GByteArray *bytes, const float *numbers, int64_t count);

/* One kernel of a device module: `handles` buffers, then `ints` int32 scalars. */
typedef struct ArtifactKernel {
  const char *key;
  const char *name; /* "": the key */
  int handles;
  int ints;
  const char *tags; /* with a space between them */
} ArtifactKernel;
/* The record of a device module, its kind included. */
void put_device_module(GByteArray *bytes, const char *kind, const char *format,
                       const ArtifactKernel *kernels, size_t num_kernels, const char *code,
                       size_t code_size);

/* A named vector of floats. */
typedef struct ArtifactParam {
  const char *name;
  const float *numbers;
  int64_t count;
} ArtifactParam;
/* The record of a graph with its parameters, its kind included; and a parameter file. `name` is
 * that of the function that makes an executor. */
void put_factory(GByteArray *bytes, const char *name, const char *graph_json,
                 const ArtifactParam *params, size_t num_params);
void put_params_file(GByteArray *bytes, const ArtifactParam *params, size_t num_params);

/* The record `_import_tree`: rows and children as numbers with a space between them. */
void put_import_tree(GByteArray *bytes, const char *rows, const char *children);

/* ---- Libraries --------------------------------------------------------------------------- */

/* Types, slots and checks as LLVM's code has them; without slots, as TVM's C has them. */
extern const char artifact_llvm_header[], artifact_c_header[];

/* Compiles C (the header comes first) to a library at `path`, with `blob` (or NULL: none) at an odd
 * address as __tvm_dev_mblob, its length before it. Ends the program if that fails. */
void build_artifact(const char *path, const char *header, const char *source,
                    const GByteArray *blob);

/* A folder of the test's own (g_free), and a path in it (g_free). */
char *artifact_folder(void);
void remove_artifact_folder(char *folder);

#endif
