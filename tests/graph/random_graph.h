/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs for tests: a generator for each row of the operator table, and the ONNX file of a
 * graph or of a part of it. The same seed gives the same graph. Test code: any fault ends the test
 * program. */
#ifndef BACKPLANE_TESTS_GRAPH_RANDOM_GRAPH_H
#define BACKPLANE_TESTS_GRAPH_RANDOM_GRAPH_H

#include "tests/graph/onnx_builder.h"

#define MAX_RANK    5
#define MAX_READS   16
#define MAX_RESULTS 4

/* A tensor: input data of the graph, or the result of a node. */
typedef struct RandomValue {
  int32_t type; /* ONNX_* */
  int32_t rank;
  int64_t shape[MAX_RANK];
  int32_t node;     /* the node that computes it, or -1 */
  gboolean is_part; /* a constant in the graph's definition; else an input may hold it */
  void *data;       /* elements of a value that no node computes */
  /* The elements are multiples of 2^-fraction and less than 2^magnitude. If `fraction` and
   * `magnitude` are small, sums and products are exact in any order. `error` is the relative error
   * of one rounding in the value's computation, 0 if the elements are exact. */
  int32_t fraction, magnitude;
  double error;
  gboolean
      has_specials; /* whether infinities and NaN were put into the value, or into its operands */
  double scale;     /* size of terms that cancel, which bounds the precision; or 0 */
} RandomValue;

typedef struct RandomNode {
  const char *op;
  char *attrs;                               /* attributes in the form of onnx_node */
  int32_t reads[MAX_READS], num_reads;       /* -1: absent */
  int32_t results[MAX_RESULTS], num_results; /* -1: absent */
} RandomNode;

typedef struct RandomGraph {
  GArray *values;  /* RandomValue */
  GArray *nodes;   /* RandomNode */
  GArray *outputs; /* int32_t, indices of values */
  uint64_t state;
  int32_t zero_share;      /* one extent in `zero_share` is 0 */
  gboolean has_rare_types; /* float64, bfloat16, 16-bit types, uint32 and uint64 */
  int32_t real;            /* the float type of new operands of the next node */
  int32_t whole;           /* the type of the next node's indices and lengths: int64 or int32 */
  int32_t operand;         /* the value that the next node reads if it fits, or -1 */
} RandomGraph;

/* The number of operators with a generator, and their names. */
int32_t random_graph_num_ops(void);
const char *random_graph_op(int32_t index);

/* Makes a graph of `size` nodes or a few more; the operators `first` and the next ones are among
 * them. */
RandomGraph *random_graph_new(uint64_t seed, int32_t first, int32_t num_first, int32_t size,
                              gboolean has_rare_types);
void random_graph_free(RandomGraph *graph);
RandomValue *random_graph_value(const RandomGraph *graph, int32_t index);
RandomNode *random_graph_node(const RandomGraph *graph, int32_t index);
/* Returns the relative error of one rounding to a type, 0 for a type that is not a float. */
double random_graph_rounding(int32_t type);
int64_t random_value_count(const RandomValue *value);
/* Whether a value's type is storage-only: such a value is no output, since its elements are not
 * whole bytes. */
gboolean random_value_is_narrow(const RandomValue *value);
size_t random_value_bytes(const RandomValue *value);
/* Replaces the result of a node by an input with new data. */
void random_graph_cut(RandomGraph *graph, int32_t value);
/* Undoes random_graph_cut: `old` is a copy of the value before. */
void random_graph_uncut(RandomGraph *graph, int32_t value, const RandomValue *old);
/* Marks the nodes that the outputs need (g_free). */
gboolean *random_graph_needed(const RandomGraph *graph);

/* The forms in which a graph is written to a file. Leaves are inputs, or constants if a node needs
 * a constant. */
typedef enum RandomForm {
  FORM_INPUTS,        /* all extents of inputs are known */
  FORM_OPEN,          /* inputs have open extents; equal extents have one name */
  FORM_BATCH,         /* as FORM_OPEN, but only first extents are open */
  FORM_LOOSE,         /* each extent has a name of its own, also an extent of 1 */
  FORM_DATA,          /* half of the constants that steer shapes are inputs */
  FORM_LOOP,          /* the nodes are the body of a Loop; its last iteration gives the outputs */
  FORM_SCAN,          /* the nodes are the body of a Scan; its last iteration gives the outputs */
  FORM_BRANCH,        /* the nodes are both branches of an If whose condition is an input */
  FORM_SEQUENCE,      /* the outputs are read from sequences */
  FORM_OPEN_SEQUENCE, /* as FORM_SEQUENCE, at a position that an input gives */
  FORM_LISTS,         /* every other input and output is a sequence that has the tensor twice */
  FORM_CONSTANTS,     /* all leaves are constants, so the whole graph is constant */
  FORM_DISTURBED      /* as FORM_CONSTANTS, and each rounded value is changed by a few roundings */
} RandomForm;
GByteArray *random_graph_bytes(const RandomGraph *graph, RandomForm form);
/* Returns the input with a name. */
const RandomValue *random_graph_input(const RandomGraph *graph, const char *name);
/* Describes the nodes that the outputs need, one a line (g_free). */
char *random_graph_print(const RandomGraph *graph);

#endif
