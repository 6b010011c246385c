/* SPDX-License-Identifier: Apache-2.0 */
/* The builder: passes over a graph, and what they hand to each other. compile.c runs them in order.
 */
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

/* How long a claimed part takes, and the same nodes as generated code. */
typedef struct BpPartTime {
  int64_t claimed_ns, generated_ns;
  int32_t is_kept;
} BpPartTime;

/* Which claimed parts are kept, by number: that of the part among all that are claimed. */
typedef struct BpPartChoice {
  const BpPartTime *parts;
  int32_t num_parts;
} BpPartChoice;

/* Where one target's compilation stands; for progress and dumps. */
typedef struct BpBuild {
  const BpCompileOptions *options;
  const BpTarget *target;
  const BpTarget *fallback;                   /* or NULL */
  int32_t is_reference;                       /* BpCompileOptions.is_reference */
  bool is_program;                            /* the result is one, even if all shapes are known */
  const char *dump_prefix;                    /* of files in options->dump_dir: "0-llvm-" */
  const BpGraphCompilerApi *const *compilers; /* of graphs, in the order of the options */
  int32_t num_compilers;
  BpList *parts; /* the modules (BpModule) that graph compilers made; owned by the list's owner */
  int32_t *num_claimed;       /* parts so far, with those that were not kept or handed back */
  const BpPartChoice *choice; /* or NULL: all parts are kept */
} BpBuild;

/* Whether the options have a size that can be, and ask for nothing that this version does not know:
 * 0, or -1 with an error. (options.c) */
int bp__compile_options_check(const BpCompileOptions *options);
/* Checks and copies options, or NULL; members that the caller's version lacks are 0. (options.c) */
int bp__compile_options_copy(const BpCompileOptions *given, BpCompileOptions *options);
/* As bp_model_compile, for one target; the result is a program. (compile.c) */
BpModule *bp__build_compile_program(const char *onnx_path, const BpCompileOptions *options);

/* Tells the caller how far the compilation is: -1 with an error if the caller cancels it.
 * (dump.c) */
int bp__build_report(const BpBuild *build, const char *stage, int32_t done, int32_t total);

/* ---- Passes over the graph --------------------------------------------------------------- */

/* Runs them all, in order; the graph is dumped and verified after each. (passes.c) */
int bp__build_passes(const BpBuild *build, BpGraph *graph);

/* Makes a node give every output that is an input, a constant, or a view of one. (outputs.c) */
int bp__build_own_outputs(const BpBuild *build, BpGraph *graph);
/* Takes constant factors and addends of the channels into the convolution before. (simplify.c) */
int bp__build_fold_scales(const BpBuild *build, BpGraph *graph);
/* Removes transposes that move nothing, and says convolutions in fewer ways. (canonical.c) */
int bp__build_canonical(const BpBuild *build, BpGraph *graph);
/* Brings convolutions into the channel-blocked layout if the target has vectors and no threads in
 * lock-step. (layout.c) */
int bp__build_layout(const BpBuild *build, BpGraph *graph);
/* Packs second operands of products in panels, likewise. (pack.c) */
int bp__build_pack(const BpBuild *build, BpGraph *graph);
/* Finds the values that go from run to run, longer each time, which the machine appends to; the
 * graph becomes a program. (append.c) */
int bp__build_appends(const BpBuild *build, BpGraph *graph);
/* The target's threads in lock-step, to which vectors are no more than wide loads; 1: it has none.
 * (layout.c) */
int64_t bp__build_lock_step(const BpTarget *target);

/* ---- Groups: nodes that become one function ---------------------------------------------- */

/* A group's outputs are what is used outside of it: of its nodes, in order. A view has one. */
typedef struct BpGroup {
  BpList nodes;          /* BpGraphNode, in order of execution */
  BpGraphNode *anchor;   /* the one whose fusion class is REDUCTION or more, or NULL */
  BpList outputs;        /* BpGraphValue */
  BpList args;           /* BpGraphValue: inputs, each once; constants of one element are not */
  const char *function;  /* NULL: a view, or the machine runs the node */
  BpGraphValue *view_of; /* of a view: its input */
  int32_t place;         /* BP_PLACE_* */
  int32_t is_copy;       /* from one place to the other: args has what is copied */
  double work;           /* steps of the function's loops; 0: it is not known */
  /* The symbols that the function takes after its tensors, in the order of its parameters. */
  const int32_t *symbols; /* places in the extents of the graph */
  int32_t num_symbols;
  /* Of a node that the machine runs (graph/ops/control.h), which is alone in its group and no
   * function: the groups of each of its bodies. */
  struct BpGroups *bodies;
  /* On a target with thread axes: the kernels of the function; and the launch of this group, once
   * it is a single kernel. */
  const BpKernelList *kernels;
  const BpKernelLaunch *kernel;
} BpGroup;

/* The node of a group that appends its second input to its first one (append.c), or NULL: it is
 * alone in its group, and no function. */
static inline BpGraphNode *bp__group_append(const BpGroup *group) {
  BpGraphNode *node = group->nodes.size ? group->nodes.items[0] : NULL;
  return node && node->is_append ? node : NULL;
}

typedef struct BpGroups {
  BpArena arena;
  BpList groups; /* BpGroup, in order of execution */
} BpGroups;

/* The node of a group that the machine runs, or NULL. */
static inline BpGraphNode *bp__group_control(const BpGroup *group) {
  return group->bodies ? group->nodes.items[0] : NULL;
}

/* Whether two groups can share a function, and a hash for that, as GLib's tables want them.
 * (same.c)
 */
gboolean bp__group_equal(gconstpointer a, gconstpointer b);
guint bp__group_hash(gconstpointer group);
/* Whether two constants are equal: type, shape and bytes. */
int bp__value_same_data(const BpGraphValue *a, const BpGraphValue *b);
/* Which output of its node a value is. */
int32_t bp__value_output_index(const BpGraphValue *value);
/* Goes on with a hash. */
uint64_t bp__hash_bytes(uint64_t hash, const void *data, size_t size);

/* Frees a group's lists. (fuse.c) */
void bp__group_clear(BpGroup *group);
/* Makes a group of one node, all of whose outputs are used. (fuse.c) */
int bp__build_group_of(BpGroup *group, BpGraphNode *node);
/* Partitions the nodes into groups, one function each. A reference has one node in each group.
 * (fuse.c) */
int bp__build_groups(const BpBuild *build, const BpGraph *graph, BpGroups *groups);
void bp__groups_clear(BpGroups *groups);
/* Whether a value is written into the code of functions that read it. */
int bp__build_is_immediate(const BpGraphValue *value);

/* Puts the kernels of each group in its place, as groups of their own. (kernels.c) */
int bp__build_kernels(BpGraph *graph, BpGroups *groups);

/* ---- Memory ------------------------------------------------------------------------------ */

/* The storage of every value that is an argument or an output of a group: by value id, an id, or
 * -1. (plan.c) */
typedef struct BpMemoryPlan {
  int32_t *storage;
  int32_t num_storages;
  int64_t *sizes;  /* bytes, by storage id */
  int32_t *places; /* BP_PLACE_*, by storage id */
} BpMemoryPlan;

int bp__build_plan(const BpGraph *graph, const BpGroups *groups, BpMemoryPlan *plan);
void bp__plan_clear(BpMemoryPlan *plan);

/* Memory that is allocated at once, in a run, for values of one place. Its parts follow each
 * other. */
typedef struct BpProgramArena {
  int32_t place; /* BP_PLACE_* */
  int32_t stage; /* of the program, in which its size is known (program.c) */
  int32_t num_parts;
  int64_t entry; /* the program's number for it; -1: the program does not have it yet */
} BpProgramArena;

typedef struct BpProgramPart {
  int32_t arena, number; /* its arena, and its number there */
  GArray *spans;         /* when it is in use */
  GPtrArray *values;     /* const BpGraphValue: those that take turns in it, one of each shape */
} BpProgramPart;

/* Where the values of a program's graph, or of a body, are. (arenas.c) */
typedef struct BpProgramPlan {
  int32_t *part;  /* by value id: the place of its part in `parts`; -1: it has its own memory */
  int32_t *root;  /* by value id: the value that it is a view of, or itself */
  GArray *parts;  /* BpProgramPart */
  GArray *arenas; /* BpProgramArena */
} BpProgramPlan;

/* `stages`: by place of an expression of the graph's extents, when it is known. */
void bp__build_plan_program(const BpGraph *graph, const BpGroups *groups, const int32_t *stages,
                            BpProgramPlan *plan);
void bp__program_plan_clear(BpProgramPlan *plan);

/* ---- Code -------------------------------------------------------------------------------- */

/* Whether the target can run a node: 1; 0 with why in `why`; -1: another error. (lower.c) */
int bp__build_can_run(const BpBuild *build, const BpGraph *graph, BpGraphNode *node, char *why,
                      size_t size);
/* Whether the target can run all listed nodes (BpGraphNode): 1; 0, without an error, if their code
 * cannot be built; -1: no memory. Each is a function, and all are built at once. (lower.c) */
int bp__build_can_run_all(const BpBuild *build, const BpGraph *graph, const BpList *nodes);
/* How much a node does, as steps of its loops, those of bodies once, if open extents are as is
 * likely; of what is not counted so, the elements that it gives. (lower.c) */
double bp__build_work(const BpGraph *graph, BpGraphNode *node);
/* Keeps the nodes of each group apart from now on that the target refuses as one function, and may
 * take node by node. How many groups there are of them; -1 with an error. The groups are to be made
 * anew. (lower.c) */
int bp__build_keep_apart(const BpBuild *build, const BpGraph *graph, BpGroups *groups);
/* Gives every group a function of the module of its place, equal groups the same; for a target with
 * thread axes the kernels that do its work. (lower.c) */
int bp__build_functions(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                        BpIrModule *const modules[2]);

/* ---- Dumps: files of the dump directory, if there is one (dump.c) -------------------------- */

int bp__build_dump(const BpBuild *build, const char *name, const char *text);
int bp__build_dump_graph(const BpBuild *build, const BpGraph *graph, const char *name);
/* The module as module.ir. */
int bp__build_dump_module(const BpBuild *build, const BpIrModule *module);
/* The source of a module and of its imports, as KIND.FORMAT. */
int bp__build_dump_sources(const BpBuild *build, BpModule *code);

/* ---- Two devices ------------------------------------------------------------------------- */

/* Places the nodes that the target cannot run on the fallback's device, if there is one, and says
 * so. (place.c) */
int bp__build_place(const BpBuild *build, BpGraph *graph);
/* Puts copies between groups of different places. (place.c) */
int bp__build_copies(BpGraph *graph, BpGroups *groups);

/* ---- Stages ------------------------------------------------------------------------------ */

/* Cuts the graph, whose outputs are its own (outputs.c), into stages of about equal work, and keeps
 * one of them. Its inputs are values of earlier stages; its outputs are values that later stages
 * read, and outputs of the graph. Names are equal in all stages. (stages.c) */
int bp__build_cut(BpGraph *graph, int32_t num_stages, int32_t stage);

/* ---- Graph compilers --------------------------------------------------------------------- */

/* The table of `graph_compiler.NAME`, checked; NULL with an error. (claim.c) */
const BpGraphCompilerApi *bp__graph_compiler_find(const char *name);
/* Lets the graph compilers, if there are any, claim parts of a graph that was imported with its
 * sources, and of the bodies of its nodes. Each part becomes one node, and its module one of
 * build->parts. (claim.c) */
int bp__build_claim(const BpBuild *build, BpGraph *graph);
/* The function that computes such a node, or NULL: it is another. (view.c) */
const char *bp__build_part_function(const BpGraphNode *node);

/* ---- Programs ---------------------------------------------------------------------------- */

/* A graph with open extents or bodies as a program (transfer full) that imports `code`. (program.c)
 */
BpModule *bp__build_program(const BpGraph *graph, const BpGroups *groups, BpModule *code);

/* ---- The artifact ------------------------------------------------------------------------ */

/* Tensors of an artifact, each content once. (params.c) */
typedef struct BpParamPlace {
  uint64_t hash; /* of the tensor's bytes */
  int64_t index; /* of the tensor, or -1 */
} BpParamPlace;

typedef struct BpParamTable {
  BpList tensors; /* BpTensor, owned */
  BpParamPlace *places;
  size_t num_places; /* a power of two, or 0 */
} BpParamTable;

/* The index of a tensor equal to the constant, added if need be; -1 with an error. */
int64_t bp__params_add(BpParamTable *table, const BpGraphValue *constant);
void bp__params_clear(BpParamTable *table);

/* The graph of the groups as JSON (transfer full, g_free) and the names of its parameters, which
 * live as long as the groups. (json.c) */
char *bp__build_json(const BpBuild *build, const BpGraph *graph, BpGroups *groups,
                     const BpMemoryPlan *plan, BpParamTable *table, BpGraphParam **params,
                     int32_t *num_params);

#endif
