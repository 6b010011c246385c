/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule looks at before it decides: the machine, and how each stage accesses memory. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_ANALYSIS_H
#define BACKPLANE_COMPILER_SCHEDULES_ANALYSIS_H

#include <backplane/compiler/schedules.h>

#include "compiler/lower/lowering.h"

/* Elements that are cheap to compute, below which waking a second core costs more than it saves. */
#define BP__PARALLEL_ELEMENTS 32768.0
/* The same in multiply-adds. */
#define BP__PARALLEL_PRODUCTS 200000.0

static inline int64_t bp__divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

typedef struct BpMachine {
  int64_t vector_bits; /* of a vector register; 0: no vectors */
  int64_t lanes;       /* of 32 bits in one, or as bp__machine_for says; 1: no vectors */
  int64_t registers;   /* vector registers */
  int64_t cores;       /* for which work is cut at most; see bp__cores_for */
  int64_t l1, l2;      /* bytes */
  /* Of a device whose kernels run over blocks of threads: */
  bool has_kernels;
  int64_t threads;       /* in lock-step; 1: a thread has vectors instead */
  int64_t most_threads;  /* of a block */
  int64_t shared;        /* bytes that a block shares; 0: there are none */
  bool has_serial_warps; /* no faster than memory, then: a core runs one warp after the other */
} BpMachine;

BpMachine bp__machine(const BpTarget *target);
/* The cores that `work` can keep busy, where two need at least `least` of it (BP__PARALLEL_*); 1:
 * it stays on one. How many cores there are is known at run time alone, so that this depends on the
 * work and not on the machine that compiles. */
int64_t bp__cores_for(const BpMachine *machine, double work, double least);

/* How a read moves through memory. */
typedef struct BpAccess {
  const BpIrNode *read;
  BpTeTensor *tensor;
  bool is_linear[BP__TE_MAX_AXES]; /* by root axis: the element index is linear in it */
  int64_t stride[BP__TE_MAX_AXES]; /* elements, where it is; 0: does not depend on the axis */
  /* By root axis: where it is not, the length of the aligned pieces of the axis in each of which it
   * is linear with that stride, as in a packed operand; 0: there are none. */
  int64_t piece[BP__TE_MAX_AXES];
  /* By root axis: where minima and maxima alone keep it from being linear, as at the edges of a
   * picture, its stride between them; 0: it is something else. */
  int64_t clamped_stride[BP__TE_MAX_AXES];
} BpAccess;

/* A stage with what is inlined in it. */
typedef struct BpStageInfo {
  const struct BpAnalysis *analysis;
  const BpLowerStage *s;
  BpTeStage *stage;
  int32_t ndim, num_roots; /* data axes; with the reduction axes after them */
  int64_t extent[BP__TE_MAX_AXES];
  BpAccess *accesses;
  int32_t num_accesses;
  int64_t bits; /* of the widest value that it computes with */
} BpStageInfo;

/* Sets `bits`, when all else is known. (types.c) */
int bp__info_set_bits(BpStageInfo *info);
/* The machine with as many lanes as its vectors have of the stage's values. (types.c) */
BpMachine bp__machine_for(const BpMachine *machine, const BpStageInfo *info);

/* A view of the stages that some outputs need, as inlining stands now; producers first. */
typedef struct BpAnalysis {
  BpLowering lowering;
  BpStageInfo *stages;
  int32_t num_stages;
} BpAnalysis;

int bp__analysis_init(BpAnalysis *analysis, BpTe *te, BpTeTensor *const *outputs,
                      int32_t num_outputs);
void bp__analysis_clear(BpAnalysis *analysis);
/* The information on a tensor's stage; NULL: it is inlined or not needed. */
const BpStageInfo *bp__analysis_find(const BpAnalysis *analysis, const BpTeTensor *tensor);
/* The tensor that a read is of. */
const BpTeTensor *bp__analysis_source(const BpAnalysis *analysis, const BpIrNode *read);

/* The product of the extents of axes first <= i < end, as a double: it never overflows. */
double bp__info_size(const BpStageInfo *info, int32_t first, int32_t end);
/* Whether the extent of an axis first <= i < end is open. */
bool bp__info_is_open(const BpStageInfo *info, int32_t first, int32_t end);
/* The bytes of all elements of a tensor, open extents being what is likely. */
double bp__tensor_bytes(const BpTeTensor *tensor);
/* Whether the stage has its own schedule, place or loops already. */
bool bp__stage_is_scheduled(const BpTeStage *stage);
/* Whether the element that is read differs along a root axis. */
bool bp__access_depends_on(const BpAccess *access, int32_t axis);
/* Whether a stage other than `reader` reads a tensor of the stage that computes this one, or the
 * function's caller does. */
bool bp__info_has_other_readers(const BpAnalysis *analysis, const BpStageInfo *reader,
                                const BpTeTensor *tensor);
/* What computes, one by one, the elements that an access reads, for this reader alone and nowhere
 * so far: a padded input mostly. NULL: there is no such stage. */
const BpStageInfo *bp__info_own_input(const BpStageInfo *reader, const BpAccess *access);
/* Whether computing the input piece by piece, some of it more than once, costs little beside what
 * `reader` does. */
bool bp__info_input_is_cheap(const BpStageInfo *reader, const BpStageInfo *input);
/* Whether `consumer` reads `producer` only at its own place: element i from element i. */
bool bp__info_reads_in_place(const BpAnalysis *analysis, const BpStageInfo *consumer,
                             const BpTeTensor *producer);

#endif
