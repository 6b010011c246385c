/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulations of cuBLAS and cuDNN share: elements, and work that a stream runs. Results
 * are computed in the plain way, in double precision, and rounded once. */
#ifndef TESTS_MOCK_FAKELIBS_H
#define TESTS_MOCK_FAKELIBS_H

#include "plugins/cudalibs/library_api.h"
#include "tests/mock/fakecuda.h"

#define FAKE_DECLARE_INT(name, parameters)  FAKE_API int name parameters;
#define FAKE_DECLARE_TEXT(name, parameters) FAKE_API const char *name parameters;
BP_CUDALIBS_CUBLAS_FUNCTIONS(FAKE_DECLARE_INT)
BP_CUDALIBS_CUBLAS_TEXTS(FAKE_DECLARE_TEXT)
BP_CUDALIBS_CUDNN_FUNCTIONS(FAKE_DECLARE_INT)
BP_CUDALIBS_CUDNN_TEXTS(FAKE_DECLARE_TEXT)

typedef enum FakeType { FAKE_F32, FAKE_F64, FAKE_F16, FAKE_BF16 } FakeType;

size_t fake_size_of(FakeType type);
double fake_load(FakeType type, const void *data, int64_t index);
void fake_store(FakeType type, void *data, int64_t index, double value);

/* Bytes of work that a command holds, besides the function that does the work. */
#define FAKE_MOST_WORK ((FAKE_MOST_ARGS - 1) * 8)

/* Queues a copy of `work`, at most FAKE_MOST_WORK bytes, on a stream: `run` then gets the copy. To
 * be called between fake_enter and fake_leave. */
CUresult fake_queue(CUstream stream, CUresult (*run)(FakeCommand *command, int device),
                    const void *work, size_t size);
/* Returns the host's address of device memory with `count` elements; NULL for any other address. */
void *fake_elements(int device, const void *data, FakeType type, int64_t count);

#endif
