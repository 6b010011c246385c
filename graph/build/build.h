/* SPDX-License-Identifier: Apache-2.0 */
/* The builder: passes over a graph, and the data that they pass to each other. compile.c runs them
 * in order. */
#ifndef BACKPLANE_GRAPH_BUILD_BUILD_H
#define BACKPLANE_GRAPH_BUILD_BUILD_H

#include <stdbool.h>

#include <glib.h>

#include <backplane/compiler/kernels.h>
#include <backplane/compiler/te.h>
#include <backplane/graph/model.h>
#include <backplane/graph_compiler.h>

#include "graph/exec/artifact.h"
#include "graph/ir/graph.h"
#include "graph/onnx/reader.h"

/* The time that a claimed part takes, and the time of generated code for the same nodes. */
typedef struct BpPartTime {
  int64_t claimed_ns, generated_ns;
  int32_t is_kept;
} BpPartTime;

/* The claimed parts that are kept. A part's number is its position among all claimed parts. */
typedef struct BpPartChoice {
  const BpPartTime *parts;
  int32_t num_parts;
} BpPartChoice;

/* The state of one target's compilation, for progress and dumps. */
typedef struct BpBuild {
  const BpCompileOptions *options;
  const BpTarget *target;
  const BpTarget *const *chain; /* by place: the target, and then its fallbacks */
  int32_t num_places;           /* length of the chain */
  bool *is_used;           /* whether the place has a node, by place; true for the target's place */
  const int32_t *ordinals; /* index of the device among its kind, by place, as in the general code;
                              -1: none. NULL: devices are numbered in order of use */
  int32_t is_reference;    /* BpCompileOptions.is_reference */
  bool is_program;         /* the result is a program, even with known shapes */
  const char *dump_prefix; /* prefix of files in options->dump_dir: "0-llvm-" */
  const BpGraphCompilerApi *const *compilers; /* graph compilers, in the order of the options */
  int32_t num_compilers;
  BpList *parts; /* modules (BpModule) that graph compilers made; the list's owner owns them */
  int32_t *num_claimed;       /* number of parts so far, including parts not kept or handed back */
  const BpPartChoice *choice; /* NULL: all parts are kept */
  OnnxFile *spent;            /* the model's file if its data may be released; or NULL */
} BpBuild;

/* Checks that the options have a possible size, and request no feature that is unknown in this
 * version: 0, or -1 with an error (options.c). */
int bp__compile_options_check(const BpCompileOptions *options);
/* Checks and copies options, which may be NULL; members that the caller's version lacks become 0
 * (options.c). */
int bp__compile_options_copy(const BpCompileOptions *given, BpCompileOptions *options);
/* Compiles a model for one target as bp_model_compile does; the result is a program, which numbers
 * its devices as BpBuild::ordinals says (compile.c). */
BpModule *bp__build_compile_program(const char *onnx_path, const BpCompileOptions *options,
                                    const int32_t *ordinals);

/* Reports the progress of the compilation to the caller; -1 with an error if the caller cancels it
 * (dump.c). */
int bp__build_report(const BpBuild *build, const char *stage, int32_t done, int32_t total);

/* ---- Passes over the graph --------------------------------------------------------------- */

/* Releases the memory of large constants that the graph no longer reads; -1 with an error. */
int bp__build_release(const BpBuild *build, BpGraph *graph);
/* Releases the memory of large constants, except those at the sorted addresses `live`
 * (passes.c). */
void bp__build_release_others(const BpBuild *build, BpGraph *graph, const BpList *live);

/* Runs all passes in order; dumps and verifies the graph after each (passes.c). */
int bp__build_passes(const BpBuild *build, BpGraph *graph);

/* Makes a node compute every output that is an input, a constant, or a view of one (outputs.c). */
int bp__build_own_outputs(const BpBuild *build, BpGraph *graph);
/* Marks, by their ids, the values whose last bit matters: a step reads the value, or the result of
 * a node that reads it and depends on few elements. Outputs of a body are marked, because the graph
 * around it may have steps. Returns an array (transfer full, free), or NULL with an error. */
char *bp__build_mark_exact(const BpGraph *graph);
/* Folds constant factors and addends of channels into the preceding convolution (simplify.c). */
int bp__build_fold_scales(const BpBuild *build, BpGraph *graph);
/* Removes transposes that move nothing, and rewrites convolutions to fewer forms (canonical.c). */
int bp__build_canonical(const BpBuild *build, BpGraph *graph);
/* The number of blocks of a number of channels, the last of which may be partly used. */
static inline int64_t bp__build_blocks(int64_t channels, int64_t block) {
  return (channels + block - 1) / block;
}
/* Brings convolutions into the channel-blocked layout if the target has vectors and no threads in
 * lock-step (layout.c). */
int bp__build_layout(const BpBuild *build, BpGraph *graph);
/* Moves the scales of dequantised operands behind products and convolutions (dequantized.c). */
int bp__build_dequantized(const BpBuild *build, BpGraph *graph);
/* Makes dot products, or products of float32, of products of bytes as int32 (byte_products.c). */
int bp__build_byte_products(const BpBuild *build, BpGraph *graph);
/* Makes dot products of products with weights of few bits that may be computed with int8
 * (byte_bits.c). */
int bp__build_byte_bits(const BpBuild *build, BpGraph *graph);
/* Packs second operands of products in panels if the target has vectors and no threads in lock-step
 * (pack.c). */
int bp__build_pack(const BpBuild *build, BpGraph *graph);
/* Finds the values that gain rows from run to run, to which the machine appends; the graph becomes
 * a program (append.c). */
int bp__build_appends(const BpBuild *build, BpGraph *graph);
/* The number of the target's threads in lock-step, for which vectors are only wide loads; 1 if the
 * target has no such threads (layout.c). */
int64_t bp__build_lock_step(const BpTarget *target);

/* ---- Groups: nodes that become one function ---------------------------------------------- */

/* A group: nodes that become one function. The outputs of a group are the values of its nodes, in
 * order, that are used outside the group. A view has one output. */
typedef struct BpGroup {
  BpList nodes;          /* BpGraphNode, in order of execution */
  BpGraphNode *anchor;   /* the node whose fusion class is REDUCTION or higher, or NULL */
  BpList outputs;        /* BpGraphValue */
  BpList args;           /* BpGraphValue: inputs, each once, without numbers in the code */
  const char *function;  /* NULL: a view, or the machine runs the node */
  BpGraphValue *view_of; /* the input of a view */
  int32_t place;         /* index of the target that the code is for */
  int32_t is_copy;       /* a copy to `place` from another place: args has the copied values */
  double work;           /* steps of the function's loops; 0 if unknown */
  /* The symbols that the function takes after its tensors, in the order of its parameters. */
  const int32_t *symbols; /* places of the symbols in the extents of the graph */
  int32_t num_symbols;
  /* The groups of each body of a node that the machine executes (graph/ops/control.h). A node with
   * bodies is alone in its group, which has no function. */
  struct BpGroups *bodies;
  /* The kernels of the function, on a target with thread axes; and the launch of the group, if it
   * is a single kernel. */
  const BpKernelList *kernels;
  const BpKernelLaunch *kernel;
} BpGroup;

/* The node of a group that appends its second input to its first input (append.c), or NULL. An
 * appending node is alone in its group, which has no function. */
static inline BpGraphNode *bp__group_append(const BpGroup *group) {
  BpGraphNode *node = group->nodes.size ? group->nodes.items[0] : NULL;
  return node && node->is_append ? node : NULL;
}

typedef struct BpGroups {
  BpArena arena;
  BpList groups; /* BpGroup, in order of execution */
} BpGroups;

/* The node of a group that the machine executes, or NULL. */
static inline BpGraphNode *bp__group_control(const BpGroup *group) {
  return group->bodies ? group->nodes.items[0] : NULL;
}

/* Whether two groups can share a function, and a hash for that comparison, as callbacks of GLib's
 * tables (same.c). */
gboolean bp__group_equal(gconstpointer a, gconstpointer b);
guint bp__group_hash(gconstpointer group);
/* Whether two groups can share a function that has their numbers as arguments; with the same hash.
 */
gboolean bp__group_alike(gconstpointer a, gconstpointer b);
/* Whether an input is a constant of one element, written into the code, that the node only adds,
 * subtracts, multiplies or divides: as an argument it would be as fast. */
bool bp__group_has_number(const BpGroup *group, const BpGraphNode *node, int32_t input);
/* Whether two constants are equal: type, shape and bytes. */
int bp__value_same_data(const BpGraphValue *a, const BpGraphValue *b);
/* The index of a value among the outputs of its node. */
int32_t bp__value_output_index(const BpGraphValue *value);
/* Continues a hash with `size` bytes. */
uint64_t bp__hash_bytes(uint64_t hash, const void *data, size_t size);

/* Frees a group's lists (fuse.c). */
void bp__group_clear(BpGroup *group);
/* Makes a group of one node, all of whose outputs are used (fuse.c). */
int bp__build_group_of(BpGroup *group, BpGraphNode *node);
/* Partitions the nodes into groups; each group becomes a function. In a reference each group has
 * one node (fuse.c). */
int bp__build_groups(const BpBuild *build, const BpGraph *graph, BpGroups *groups);
void bp__groups_clear(BpGroups *groups);
/* Whether a value is a constant of one element: written into the code of the functions that read
 * it, unless it is one of their arguments. */
int bp__build_is_immediate(const BpGraphValue *value);
/* Makes arguments of numbers in which groups differ that are equal otherwise, so that the groups
 * share a function (numbers.c). */
int bp__build_share_numbers(const BpBuild *build, BpGraph *graph, BpGroups *groups);
/* The maximum number of arguments of a group. Some of a kernel's arguments are reserved for values
 * between the kernels of a group (fuse.c). */
int32_t bp__build_most_arguments(const BpTarget *target);
/* Whether the code for a target is kernels, which are launched (lower.c). */
int bp__build_has_kernels(const BpTarget *target);

/* Replaces each group by its kernels, as groups of their own (kernels.c). */
int bp__build_kernels(BpGraph *graph, BpGroups *groups);

/* ---- Memory ------------------------------------------------------------------------------ */

/* A value's lifetime: the index of the group that computes the value, and of the last group that
 * reads it; INT32_MAX: the value is needed after the run. */
typedef struct BpSpan {
  int32_t first, last;
} BpSpan;

/* The distance in groups from a span to the nearest of `spans`, an array of BpSpan; -1 if one of
 * them overlaps the span (arenas.c). */
int32_t bp__span_gap(const GArray *spans, BpSpan span);

/* The storage of every value that is an argument or an output of a group: its storage id by value
 * id, or -1 (plan.c). */
typedef struct BpMemoryPlan {
  int32_t *storage;
  int32_t num_storages;
  int64_t *sizes;  /* bytes, by storage id */
  int32_t *places; /* by storage id */
} BpMemoryPlan;

int bp__build_plan(const BpGraph *graph, const BpGroups *groups, BpMemoryPlan *plan);
void bp__plan_clear(BpMemoryPlan *plan);

/* Memory for values of one device, which a run allocates as one piece. The parts of an arena follow
 * each other. */
typedef struct BpProgramArena {
  int32_t place;
  int32_t stage; /* index of the stage of the program in which the size is known (program.c) */
  int32_t num_parts;
  int64_t entry; /* the arena's number in the program; -1: the program does not have it yet */
} BpProgramArena;

typedef struct BpProgramPart {
  int32_t arena, number; /* the part's arena, and the part's number in it */
  GArray *spans;         /* intervals in which the part is in use */
  GPtrArray *values;     /* const BpGraphValue: the values that share the part, one of each shape */
} BpProgramPart;

/* The memory of the values of a program's graph, or of a body (arenas.c). */
typedef struct BpProgramPlan {
  int32_t *part;  /* index in `parts`, by value id; -1: the value has its own memory */
  int32_t *root;  /* the value that a value is a view of, or the value itself, by value id */
  GArray *parts;  /* BpProgramPart */
  GArray *arenas; /* BpProgramArena */
} BpProgramPlan;

/* Plans the memory of a program. `stages` tells, by place of an expression, when the extent is
 * known. */
void bp__build_plan_program(const BpGraph *graph, const BpGroups *groups, const int32_t *stages,
                            BpProgramPlan *plan);
void bp__program_plan_clear(BpProgramPlan *plan);
/* The total bytes of the parts (lists of the values that take turns), and of the inputs and outputs
 * that are tensors; BP_EXTENT_NONE if there is no canonical form. */
int64_t bp__program_bytes(const BpGraph *graph, const GPtrArray *parts, BpExtents *extents);
/* Formats the likely values of the symbols in an extent: "n=64, m=1". */
void bp__write_likely(const BpExtents *extents, int64_t extent, char *text, size_t size);

/* ---- Code -------------------------------------------------------------------------------- */

/* Whether the target can run a node: 1; 0 with the reason in `why`; -1 with another error
 * (lower.c). */
int bp__build_can_run(const BpBuild *build, const BpGraph *graph, BpGraphNode *node, char *why,
                      size_t size);
/* Whether the target can run all listed nodes (BpGraphNode): 1; 0, without an error, if their code
 * cannot be built; -1 if memory is exhausted. Each node becomes a function, and all functions are
 * built at once (lower.c). */
int bp__build_can_run_all(const BpBuild *build, const BpGraph *graph, const BpList *nodes);
/* The work of a node with the likely values of open extents: the steps of its loops, with the steps
 * of its bodies once. For a node without countable loops the work is the number of its output
 * elements (lower.c). */
double bp__build_work(const BpGraph *graph, BpGraphNode *node);
/* Keeps the nodes of each group apart if the target rejects the group's function, because it may
 * accept the nodes one by one. Returns the number of rejected groups, or -1 with an error. The
 * caller makes the groups again (lower.c). */
int bp__build_keep_apart(const BpBuild *build, const BpGraph *graph, BpGroups *groups);
/* Gives every group a function in the module of its device, equal groups the same function; for a
 * target with thread axes also the kernels that do its work (lower.c). */
int bp__build_functions(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                        BpIrModule *const *modules);

/* ---- Dumps: files of the dump directory, if there is one (dump.c) ------------------------ */

int bp__build_dump(const BpBuild *build, const char *name, const char *text);
int bp__build_dump_graph(const BpBuild *build, const BpGraph *graph, const char *name);
/* Dumps the module as module.ir. */
int bp__build_dump_module(const BpBuild *build, const BpIrModule *module);
/* Dumps the source of a module and of its imports, as KIND.FORMAT. */
int bp__build_dump_sources(const BpBuild *build, BpModule *code);

/* ---- Several devices --------------------------------------------------------------------- */

/* The devices that a model may run on. */
#define BP_BUILD_MAX_PLACES BP_MODEL_MAX_DEVICES

/* Places the nodes that the target cannot run on the device of the first fallback that can, and
 * says so. (place.c) */
int bp__build_place(const BpBuild *build, BpGraph *graph);
/* Puts copies between groups of different places. (place.c) */
int bp__build_copies(const BpBuild *build, BpGraph *graph, BpGroups *groups);
/* The number of a place's device among those of its type, from 0: the targets of a type are for one
 * device each, but for the CPU, which is one device. A place without nodes needs no device.
 * (place.c) */
int32_t bp__build_ordinal(const BpBuild *build, int32_t place);

/* ---- Stages ------------------------------------------------------------------------------ */

/* Cuts the graph, whose outputs are its own (outputs.c), into stages of about equal work, and keeps
 * one stage (stages.c). The inputs of the stage are values of earlier stages; its outputs are
 * values that later stages read, and outputs of the graph. All stages use the same names. */
int bp__build_cut(BpGraph *graph, int32_t num_stages, int32_t stage);

/* ---- Graph compilers --------------------------------------------------------------------- */

/* Finds and checks the table `graph_compiler.NAME`; NULL with an error (claim.c). */
const BpGraphCompilerApi *bp__graph_compiler_find(const char *name);
/* Lets the graph compilers claim parts of a graph that was imported with its sources, and of the
 * bodies of its nodes. Each part becomes one node, and its module one of build->parts (claim.c). */
int bp__build_claim(const BpBuild *build, BpGraph *graph);
/* The function that computes the node of a claimed part; NULL for any other node (view.c). */
const char *bp__build_part_function(const BpGraphNode *node);

/* ---- Programs ---------------------------------------------------------------------------- */

/* A graph with open extents or bodies as a program (transfer full) that imports `code`. (program.c)
 */
BpModule *bp__build_program(const BpBuild *build, BpGraph *graph, const BpGroups *groups,
                            BpModule *code);

/* ---- The artifact ------------------------------------------------------------------------ */

/* A table of the tensors of an artifact, each content once. */
typedef struct BpParamPlace {
  uint64_t hash; /* hash of the tensor's bytes */
  int64_t index; /* index of the tensor, or -1 */
} BpParamPlace;

typedef struct BpParamTable {
  BpList tensors; /* BpTensor, owned */
  BpParamPlace *places;
  size_t num_places; /* number of places, a power of two, or 0 */
} BpParamTable;

/* The index of a tensor equal to the graph's constant, which is added if the table lacks it; -1
 * with an error. */
int64_t bp__params_add(BpParamTable *table, const BpGraph *graph, const BpGraphValue *constant);
void bp__params_clear(BpParamTable *table);

/* Formats the graph of the groups as JSON (transfer full, g_free), and sets the names of its
 * parameters, which live as long as the groups (json.c). */
char *bp__build_json(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                     const BpMemoryPlan *plan, BpParamTable *table, BpGraphParam **params,
                     int32_t *num_params);

#endif
