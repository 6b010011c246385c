/* SPDX-License-Identifier: Apache-2.0 */
/* The information on which a schedule decides: the machine, and how each stage accesses memory. */
#ifndef BACKPLANE_COMPILER_SCHEDULES_ANALYSIS_H
#define BACKPLANE_COMPILER_SCHEDULES_ANALYSIS_H

#include <backplane/compiler/schedules.h>

#include "compiler/lower/lowering.h"

/* With fewer cheap elements, waking a second core costs more than it saves. */
#define BP__PARALLEL_ELEMENTS 32768.0
/* The same in multiply-adds. */
#define BP__PARALLEL_PRODUCTS 200000.0

static inline int64_t bp__divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

typedef struct BpMachine {
  int64_t vector_bits; /* of a vector register; 0: no vectors */
  int64_t lanes;       /* of 32 bits in a register, or as set by bp__machine_for; 1: no vectors */
  int64_t registers;   /* vector registers */
  int64_t cores;       /* the most cores for which work is divided; see bp__cores_for */
  int64_t l1, l2;      /* bytes */
  /* For a device whose kernels run over blocks of threads: */
  bool has_kernels;
  int64_t threads;       /* threads in lock-step; 1: a thread has vectors instead */
  int64_t most_threads;  /* of a block */
  int64_t shared;        /* bytes that a block shares; 0: none */
  bool has_serial_warps; /* a core runs one warp after the other, and shared memory is no faster
                            than memory */
} BpMachine;

BpMachine bp__machine(const BpTarget *target);
/* The number of cores that `work` can keep busy, if two cores need at least `least` of it
 * (BP__PARALLEL_*); 1: no second core. The number of present cores is known only at run time, so
 * this depends on the work and not on the machine that compiles. */
int64_t bp__cores_for(const BpMachine *machine, double work, double least);

/* The memory access pattern of a read. */
typedef struct BpAccess {
  const BpIrNode *read;
  BpTeTensor *tensor;
  bool is_linear[BP__TE_MAX_AXES]; /* by root axis: the element index is linear in it */
  int64_t stride[BP__TE_MAX_AXES]; /* in elements, if linear; 0: the index does not depend on the
                                      axis */
  /* By root axis: if the index is linear only in aligned pieces of the axis, with that stride, as
   * in a packed operand, the length of a piece; 0: there are no pieces. */
  int64_t piece[BP__TE_MAX_AXES];
  /* By root axis: if only minima and maxima keep the index from being linear, as at the edges of a
   * picture, its stride between them; 0: otherwise. */
  int64_t clamped_stride[BP__TE_MAX_AXES];
} BpAccess;

/* A stage, including the stages inlined in it. */
typedef struct BpStageInfo {
  const struct BpAnalysis *analysis;
  const BpLowerStage *s;
  BpTeStage *stage;
  int32_t ndim,
      num_roots; /* number of data axes; and of all root axes, with the reduction axes last */
  int64_t extent[BP__TE_MAX_AXES];
  BpAccess *accesses;
  int32_t num_accesses;
  int64_t bits; /* of the widest type that it computes with */
} BpStageInfo;

/* Sets `bits`, after the other members are set. (types.c) */
int bp__info_set_bits(BpStageInfo *info);
/* The machine, with the number of lanes that a vector has for the stage's values. (types.c) */
BpMachine bp__machine_for(const BpMachine *machine, const BpStageInfo *info);

/* The stages that some outputs need, with the present inlining; producers first. */
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
/* The tensor that an access reads. */
const BpTeTensor *bp__analysis_source(const BpAnalysis *analysis, const BpIrNode *read);

/* The product of the extents of axes first <= i < end, as a double, so that it cannot overflow. */
double bp__info_size(const BpStageInfo *info, int32_t first, int32_t end);
/* Whether the extent of an axis first <= i < end is open. */
bool bp__info_is_open(const BpStageInfo *info, int32_t first, int32_t end);
/* The bytes of all elements of a tensor, with likely values for open extents. */
double bp__tensor_bytes(const BpTeTensor *tensor);
/* Whether the stage already has a schedule, a place or loops of its own. */
bool bp__stage_is_scheduled(const BpTeStage *stage);
/* Whether the element read depends on a root axis. */
bool bp__access_depends_on(const BpAccess *access, int32_t axis);
/* Whether a stage other than `reader` reads a tensor of the stage that computes this one, or the
 * tensor is an output. */
bool bp__info_has_other_readers(const BpAnalysis *analysis, const BpStageInfo *reader,
                                const BpTeTensor *tensor);
/* The stage that computes the elements of an access element by element, only for this reader, and
 * has no place yet: usually a padded input. NULL: there is no such stage. */
const BpStageInfo *bp__info_own_input(const BpStageInfo *reader, const BpAccess *access);
/* Whether computing the input piece by piece, some of it more than once, is cheap compared with
 * `reader`. */
bool bp__info_input_is_cheap(const BpStageInfo *reader, const BpStageInfo *input);
/* Whether `consumer` reads `producer` only at its own place: element i from element i. */
bool bp__info_reads_in_place(const BpAnalysis *analysis, const BpStageInfo *consumer,
                             const BpTeTensor *producer);

#endif
