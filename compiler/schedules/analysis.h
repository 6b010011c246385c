/* SPDX-License-Identifier: Apache-2.0 */
/* The information on which a schedule decides: the machine, and how each stage accesses memory. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_ANALYSIS_H
#define BACKPLANE_COMPILER_SCHEDULES_ANALYSIS_H

#include <backplane/compiler/schedules.h>

#include "compiler/lower/lowering.h"

/* The minimum number of cheap elements, whose time is that of a load and a store, for which a
 * second core saves more time than the launch and the transfer of data between the cores' caches
 * cost. */
#define BP__PARALLEL_ELEMENTS 65536.0
/* The minimum number of multiply-adds for which a second core saves more time than waking it
 * costs. */
#define BP__PARALLEL_PRODUCTS 200000.0

static inline int64_t bp__divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

typedef struct BpMachine {
  int64_t vector_bits; /* bits of a vector register; 0: no vectors */
  int64_t lanes;       /* 32-bit lanes of a register, or as bp__machine_for set; 1: no vectors */
  int64_t registers;   /* number of vector registers */
  int64_t cores;       /* maximum number of cores that share work; see bp__cores_for */
  int64_t l1, l2;      /* bytes */
  /* The following members describe a device whose kernels run over blocks of threads. */
  bool has_kernels;
  int64_t threads;       /* number of threads in lock-step; 1: a thread has vectors instead */
  int64_t most_threads;  /* maximum number of threads of a block */
  int64_t shared;        /* bytes of memory that a block shares; 0: none */
  bool has_serial_warps; /* a core runs one warp after the other, and shared memory is as slow as
                            global memory */
} BpMachine;

BpMachine bp__machine(const BpTarget *target);
/* The number of cores that `work` can keep busy, if work for two cores is at least `least`
 * (BP__PARALLEL_*); 1 if a second core does not pay. The number of cores of the running machine is
 * known only at run time, so the result depends on the work and not on the machine that
 * compiles. */
int64_t bp__cores_for(const BpMachine *machine, double work, double least);

/* The memory access pattern of a read. */
typedef struct BpAccess {
  const BpIrNode *read;
  BpTeTensor *tensor;
  bool is_linear[BP__TE_MAX_AXES]; /* whether the element index is linear in a root axis */
  int64_t stride[BP__TE_MAX_AXES]; /* stride in elements along a root axis, if linear; 0: the index
                                    * does not depend on the axis */
  /* Whether the stride along a root axis is an expression of open extents; then `stride` is its
   * likely value. */
  bool has_open_stride[BP__TE_MAX_AXES];
  /* The length of a piece, by root axis, if the index is linear only in aligned pieces of the axis,
   * with the axis' stride, as in a packed operand; 0 if the axis has no pieces. */
  int64_t piece[BP__TE_MAX_AXES];
  /* The index's stride between its minima and maxima, by root axis, if only minima and maxima keep
   * the index from being linear, as at the edges of a picture; 0 otherwise. */
  int64_t clamped_stride[BP__TE_MAX_AXES];
} BpAccess;

/* A stage, including the stages inlined in it. */
typedef struct BpStageInfo {
  const struct BpAnalysis *analysis;
  const BpLowerStage *s;
  BpTeStage *stage;
  int32_t ndim,
      num_roots; /* number of data axes; number of all root axes, with the reduction axes last */
  int64_t extent[BP__TE_MAX_AXES];
  BpAccess *accesses;
  int32_t num_accesses;
  int64_t bits; /* bits of the widest type in which the stage computes */
} BpStageInfo;

/* Sets `bits` after the other members are set (types.c). */
int bp__info_set_bits(BpStageInfo *info);
/* The machine, with the number of lanes that a vector has for the stage's values (types.c). */
BpMachine bp__machine_for(const BpMachine *machine, const BpStageInfo *info);

/* The stages that some outputs need, under the current inlining; producers come first. */
typedef struct BpAnalysis {
  BpLowering lowering;
  BpStageInfo *stages;
  int32_t num_stages;
} BpAnalysis;

int bp__analysis_init(BpAnalysis *analysis, BpTe *te, BpTeTensor *const *outputs,
                      int32_t num_outputs);
void bp__analysis_clear(BpAnalysis *analysis);
/* The information on a tensor's stage; NULL if the stage is inlined or not needed. */
const BpStageInfo *bp__analysis_find(const BpAnalysis *analysis, const BpTeTensor *tensor);
/* The tensor that an access reads. */
const BpTeTensor *bp__analysis_source(const BpAnalysis *analysis, const BpIrNode *read);

/* The product of the extents of axes first <= i < end, as a double, which cannot overflow. */
double bp__info_size(const BpStageInfo *info, int32_t first, int32_t end);
/* Whether the extent of an axis first <= i < end is open. */
bool bp__info_is_open(const BpStageInfo *info, int32_t first, int32_t end);
/* Whether an axis may have several elements: its extent is above 1 or open. */
static inline bool bp__info_is_long(const BpStageInfo *info, int32_t axis) {
  return info->extent[axis] > 1 || info->stage->axes[axis]->open;
}
/* The bytes of all elements of a tensor, with likely values for open extents. */
double bp__tensor_bytes(const BpTeTensor *tensor);
/* Whether a stage already has a schedule, a place, or loops of its own. */
bool bp__stage_is_scheduled(const BpTeStage *stage);
/* Whether the element that an access reads depends on a root axis. */
bool bp__access_depends_on(const BpAccess *access, int32_t axis);
/* Whether the stage of `tensor` has an output, or a stage other than `reader` reads one of its
 * tensors. */
bool bp__info_has_other_readers(const BpAnalysis *analysis, const BpStageInfo *reader,
                                const BpTeTensor *tensor);
/* Returns the stage that computes an access's tensor element by element, only for `reader`, and has
 * no place yet: usually a padded input. NULL if the tensor has no such stage. */
const BpStageInfo *bp__info_own_input(const BpStageInfo *reader, const BpAccess *access);
/* Whether it is cheap, compared with `reader`, to compute the input piece by piece, some elements
 * more than once. */
bool bp__info_input_is_cheap(const BpStageInfo *reader, const BpStageInfo *input);
/* Whether `consumer` reads `producer` only at its own place: element i from element i. */
bool bp__info_reads_in_place(const BpAnalysis *analysis, const BpStageInfo *consumer,
                             const BpTeTensor *producer);

#endif
