/* SPDX-License-Identifier: Apache-2.0 */
/* The choice between generated code and claimed parts, by measured time: a model is compiled both
 * ways and, if only some parts are faster than generated code, also with only the faster parts. The
 * compiled models run in turn. The times are stored in the cache, so that a model is measured once
 * on a machine. */
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <backplane/cache.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <backplane/tensor.h>
#include <backplane/version.h>

#include "graph/build/choose.h"
#include "graph/build/options.h"
#include "graph/io/places.h"

#define CACHE_SUBJECT "claims"
#define MOST_NS       INT64_C(1000000000) /* time of all runs of a model after the first two */
#define MOST_ROUNDS   50
#define RECORD_FORM   "parts 1"
#define MOST_PARTS    65536 /* maximum number of parts in a valid record */

/* The ways of compiling a model. */
enum { CLAIMED, GENERATED, MIXED, NUM_WAYS };

/* The result of a measurement: shortest runs in nanoseconds by way, 0 for a MIXED that was not
 * compiled, and the times of parts. */
typedef struct Record {
  int64_t ways[NUM_WAYS];
  int32_t num_parts;
  BpPartTime *parts; /* is_kept: whether the part is in the mixed way */
} Record;

/* ---- The key of a measurement ------------------------------------------------------------ */

static void hash_text(GChecksum *hash, const char *text) {
  g_checksum_update(hash, (const guchar *)text, (gssize)strlen(text) + 1);
}

static void hash_number(GChecksum *hash, int64_t number) {
  g_checksum_update(hash, (const guchar *)&number, sizeof number);
}

/* The devices that the model runs on. */
typedef struct Devices {
  BpDevice all[BP_BUILD_MAX_PLACES];
  size_t count;
} Devices;

/* Returns -1 with an error on failure. */
static int hash_target(GChecksum *hash, const BpTarget *target) {
  char *text = bp_target_format(target);
  if (!text)
    return -1;
  hash_text(hash, text);
  bp_str_free(text);
  return 0;
}

/* Hashes the plugins that provide a function, and their versions. */
static void hash_providers(GChecksum *hash, const BpPluginList *list, const char *table,
                           const char *kind) {
  char *wanted = g_strconcat(table, ".", kind, NULL);
  hash_text(hash, wanted);
  for (size_t i = 0; list && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    char **names = g_strsplit(info->provides, " ", -1);
    if (g_strv_contains((const char *const *)names, wanted)) {
      hash_text(hash, info->name);
      hash_text(hash, info->version);
    }
    g_strfreev(names);
  }
  g_free(wanted);
}

/* Hashes the graph compilers and the code generators. */
static void hash_compilers(GChecksum *hash, const BpCompileOptions *options) {
  BpPluginList *list = bp_plugin_list();
  for (int32_t i = 0; i < options->num_graph_compilers; i++)
    hash_providers(hash, list, "graph_compiler", options->graph_compilers[i]);
  hash_providers(hash, list, "target.build", bp_target_kind(options->targets[0]));
  const BpTarget *fallbacks[BP_BUILD_MAX_PLACES];
  int32_t num_fallbacks = bp__options_fallbacks(options, fallbacks);
  for (int32_t i = 0; i < num_fallbacks; i++)
    hash_providers(hash, list, "target.build", bp_target_kind(fallbacks[i]));
  bp_plugin_list_free(list);
}

static void hash_device(GChecksum *hash, BpDevice device) {
  static const int32_t attrs[] = {BP_ATTR_DEVICE_NAME, BP_ATTR_DRIVER_VERSION};
  for (size_t i = 0; i < G_N_ELEMENTS(attrs); i++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    BpByteArray text = {"", 0};
    if (!bp_device_get_attr(device, attrs[i], &value) && value.type_index != BP_TYPE_NONE)
      bp_value_view_str(&value, &text);
    hash_number(hash, (int64_t)text.size);
    g_checksum_update(hash, (const guchar *)text.data, (gssize)text.size);
    bp_value_clear(&value);
  }
  bp_error_clear();
}

/* Everything that the measured times depend on. The values of weights beside the file are left out.
 * NULL with an error. */
static char *make_key(const char *path, const BpCompileOptions *options, const Devices *devices) {
  GChecksum *hash = g_checksum_new(G_CHECKSUM_SHA256);
  const BpTarget *chain[BP_BUILD_MAX_PLACES] = {options->targets[0]};
  int32_t num_places = 1 + bp__options_fallbacks(options, chain + 1);
  for (int32_t i = 0; i < num_places; i++)
    if (hash_target(hash, chain[i])) {
      g_checksum_free(hash);
      return NULL;
    }
  GMappedFile *file = g_mapped_file_new(path, FALSE, NULL);
  if (file)
    g_checksum_update(hash, (const guchar *)g_mapped_file_get_contents(file),
                      (gssize)g_mapped_file_get_length(file));
  if (file)
    g_mapped_file_unref(file);
  /* Absent shapes, or shapes of an unknown size, are errors of the compilation. */
  int are_there = options->shapes && options->shape_size >= sizeof(BpInputShape);
  for (int32_t i = 0; are_there && i < options->num_shapes; i++) {
    const BpInputShape *shape =
        (const BpInputShape *)(const void *)((const char *)options->shapes +
                                             (uint64_t)i * options->shape_size);
    hash_text(hash, shape->name ? shape->name : "");
    hash_number(hash, shape->ndim);
    for (int32_t d = 0; d < shape->ndim && shape->shape; d++)
      hash_number(hash, shape->shape[d]);
  }
  hash_compilers(hash, options);
  for (size_t i = 0; i < devices->count; i++)
    hash_device(hash, devices->all[i]);
  hash_number(hash, bp_threads_get());
  hash_text(hash, bp_version());
  hash_text(hash, RECORD_FORM);
  char *key = g_strdup(g_checksum_get_string(hash));
  g_checksum_free(hash);
  return key;
}

/* Reads the next number at `*at`, and moves `*at` past it. */
static gboolean read_number(const char **at, int64_t *number) {
  char *end;
  *number = g_ascii_strtoll(*at, &end, 10);
  gboolean is_read = end != *at && *number >= 0;
  *at = end;
  return is_read;
}

static gboolean parse_record(const char *text, Record *record) {
  int64_t count, kept = 0;
  gboolean is_good = TRUE;
  for (int i = 0; i < NUM_WAYS; i++)
    is_good = is_good && read_number(&text, &record->ways[i]);
  if (!is_good || !read_number(&text, &count) || count > MOST_PARTS)
    return FALSE;
  record->num_parts = (int32_t)count;
  record->parts = g_new0(BpPartTime, (gsize)count + 1);
  for (int32_t i = 0; i < record->num_parts && is_good; i++) {
    BpPartTime *part = &record->parts[i];
    is_good = read_number(&text, &part->claimed_ns) && read_number(&text, &part->generated_ns) &&
              read_number(&text, &kept);
    part->is_kept = kept != 0;
  }
  return is_good;
}

static gboolean recall(const char *key, Record *record) {
  const BpByteArray view = {key, strlen(key)};
  BpOwnedBytes bytes;
  bp_cache_read(CACHE_SUBJECT, &view, &bytes);
  gboolean is_known = bytes.data && parse_record(bytes.data, record);
  bp_owned_bytes_clear(&bytes);
  return is_known;
}

static void keep(const char *key, const Record *record) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < NUM_WAYS; i++)
    g_string_append_printf(text, "%" PRId64 " ", record->ways[i]);
  g_string_append_printf(text, "%" PRId32 "\n", record->num_parts);
  for (int32_t i = 0; i < record->num_parts; i++)
    g_string_append_printf(text, "%" PRId64 " %" PRId64 " %" PRId32 "\n",
                           record->parts[i].claimed_ns, record->parts[i].generated_ns,
                           record->parts[i].is_kept);
  bp_cache_write(CACHE_SUBJECT, &(BpByteArray){key, strlen(key)},
                 &(BpByteArray){text->str, text->len});
  g_string_free(text, TRUE);
}

/* ---- Running ----------------------------------------------------------------------------- */

typedef struct Side {
  BpModule *module;
  BpModel *model;
  BpModelContext *context;
  int64_t best; /* nanoseconds of the shortest run */
} Side;

/* Sets an input to floats from 0 to 1, or to zeros of another type, because integers may be
 * indices. */
static int set_input(BpModelContext *context, const BpModelTensorInfo *info) {
  BpTensorView view = {.device = {BP_DEVICE_CPU, 0},
                       .ndim = info->ndim,
                       .dtype = info->dtype,
                       .shape = (int64_t *)(uintptr_t)info->shape};
  for (int32_t i = 0; i < info->ndim; i++)
    if (info->shape[i] < 0)
      return bp_error_raise(BP_ERROR_VALUE,
                            "dimension %d of input '%s' is open; give its shape (--shape, "
                            "BpCompileOptions::shapes), or keep what is claimed without measuring "
                            "(--graph-compiler without --measure)",
                            i, info->name);
  int64_t size = bp_view_num_bytes(&view);
  if (size < 0)
    return -1;
  view.data = g_try_malloc0((gsize)size + 1);
  if (!view.data)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for %" PRId64 " bytes of input '%s'", size,
                          info->name);
  if (info->dtype.code == BP_DTYPE_FLOAT && info->dtype.bits == 32) {
    GRand *random = g_rand_new_with_seed(1);
    for (int64_t i = 0; i < size / 4; i++)
      ((float *)view.data)[i] = (float)g_rand_double(random);
    g_rand_free(random);
  }
  int status = bp_model_set_input(context, info->name, &view);
  g_free(view.data);
  return status;
}

/* Runs a side once, and records the time if it is the shortest. */
static int run_once(Side *side, int64_t *total) {
  int64_t start = g_get_monotonic_time();
  if (bp_model_run(side->context) || !bp_model_get_output(side->context, 0))
    return -1;
  int64_t time = (g_get_monotonic_time() - start) * 1000;
  side->best = side->best < 0 || time < side->best ? time : side->best;
  *total += time;
  return 0;
}

/* Fails if an input or output of the model is no tensor. */
static int check_tensors(const BpModel *model) {
  int32_t num_inputs = bp_model_num_inputs(model), num_outputs = bp_model_num_outputs(model);
  for (int32_t i = 0; i < num_inputs + num_outputs; i++) {
    const BpModelTensorInfo *info = i < num_inputs ? bp_model_input_info(model, i)
                                                   : bp_model_output_info(model, i - num_inputs);
    if (info->kind != BP_MODEL_TENSOR)
      return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                            "'%s' of the model is a sequence or an optional, and claims are "
                            "measured for tensors alone; leave out measuring",
                            info->name);
  }
  return 0;
}

/* Makes a side ready by two runs; the first run includes the work that is done only once. */
static int start_side(Side *side, const Devices *devices) {
  int64_t total = 0;
  side->model = bp_model_create(side->module, devices->all, devices->count);
  side->context = side->model ? bp_model_context_create(side->model) : NULL;
  if (!side->context)
    return -1;
  if (check_tensors(side->model))
    return -1;
  for (int32_t i = 0; i < bp_model_num_inputs(side->model); i++)
    if (set_input(side->context, bp_model_input_info(side->model, i)))
      return -1;
  side->best = -1;
  if (run_once(side, &total))
    return -1;
  side->best = -1;
  return run_once(side, &total);
}

static void stop_side(Side *side) {
  bp_model_context_free(side->context);
  bp_model_release(side->model);
  side->context = NULL;
  side->model = NULL;
}

/* Measures all sides in turn, so that other load on the machine affects all of them. */
static int measure(Side *sides, int num_sides) {
  int64_t total = 0;
  int status = 0;
  for (int i = 0; i < num_sides; i++)
    sides[i].best = -1;
  for (int round = 0; round < MOST_ROUNDS && total < num_sides * MOST_NS && !status; round++)
    for (int i = 0; i < num_sides && !status; i++)
      status = run_once(&sides[i], &total);
  return status;
}

/* ---- The report of claims ---------------------------------------------------------------- */

static void free_node(void *data);

/* Nodes that are reported after it is known whether their parts are kept. */
typedef struct Claimed {
  GPtrArray *nodes; /* BpClaimedNode, which own their texts */
  int32_t num_claimed;
} Claimed;

static Claimed claimed_new(void) {
  return (Claimed){.nodes = g_ptr_array_new_with_free_func(free_node)};
}

static void free_node(void *data) {
  BpClaimedNode *node = data;
  g_free((char *)(uintptr_t)node->node);
  g_free((char *)(uintptr_t)node->op);
  g_free((char *)(uintptr_t)node->compiler);
  g_free((char *)(uintptr_t)node->function);
  g_free((char *)(uintptr_t)node->why);
  g_free(node);
}

static int note_node(void *context, const BpClaimedNode *node) {
  Claimed *claimed = context;
  BpClaimedNode *copy = g_new0(BpClaimedNode, 1);
  *copy = (BpClaimedNode){.struct_size = sizeof(*copy),
                          .node = g_strdup(node->node),
                          .op = g_strdup(node->op),
                          .compiler = g_strdup(node->compiler),
                          .function = g_strdup(node->function),
                          .why = g_strdup(node->why),
                          .cost = node->cost};
  g_ptr_array_add(claimed->nodes, copy);
  claimed->num_claimed += node->compiler != NULL;
  return 0;
}

static int tell_nodes(const BpCompileOptions *options, const Claimed *claimed) {
  for (guint i = 0; options->claimed && i < claimed->nodes->len; i++) {
    const BpClaimedNode *node = claimed->nodes->pdata[i];
    if (options->claimed(options->claimed_context, node))
      return bp_error_raise(BP_ERROR_RUNTIME,
                            "BpCompileOptions::claimed cancelled the compilation (node '%s')",
                            node->node);
  }
  return 0;
}

/* ---- Parts ------------------------------------------------------------------------------- */

/* Finds the nodes of parts by the functions that were reported for them. */
static BpPartNodes find_parts(const Claimed *claimed) {
  BpPartNodes nodes = {.part_of = g_hash_table_new(g_str_hash, g_str_equal)};
  for (guint i = 0; i < claimed->nodes->len; i++) {
    const BpClaimedNode *node = claimed->nodes->pdata[i];
    int number;
    if (!node->function || sscanf(node->function, "part_%d_", &number) != 1)
      continue;
    if (number >= nodes.num_parts) {
      nodes.functions = g_renew(const char *, nodes.functions, (gsize)number + 1);
      while (nodes.num_parts <= number)
        nodes.functions[nodes.num_parts++] = NULL;
    }
    nodes.functions[number] = node->function;
    g_hash_table_insert(nodes.part_of, (gpointer)(uintptr_t)node->node, GINT_TO_POINTER(number));
  }
  return nodes;
}

/* Whether a time is less than another by more than the noise of a measurement. */
static gboolean is_clearly_less(int64_t a, int64_t b) {
  return a < b / 100 * 97;
}

/* Times the parts and keeps the faster ones; returns whether some but not all are kept. A model
 * without times by operator has no times of parts, and is kept or dropped as a whole. */
static gboolean choose_parts(const Claimed *claimed, const Side sides[2], Record *record) {
  BpPartNodes nodes = find_parts(claimed);
  int32_t num_used = 0, num_kept = 0;
  record->num_parts = nodes.num_parts;
  record->parts = g_new0(BpPartTime, (gsize)nodes.num_parts + 1);
  if (bp__build_part_times(&nodes, sides[GENERATED].model, sides[CLAIMED].context,
                           sides[GENERATED].context, record->parts))
    bp_error_clear();
  for (int32_t i = 0; i < nodes.num_parts; i++) {
    BpPartTime *part = &record->parts[i];
    part->is_kept = is_clearly_less(part->claimed_ns, part->generated_ns);
    num_used += nodes.functions[i] != NULL;
    num_kept += nodes.functions[i] && part->is_kept;
  }
  g_free(nodes.functions);
  g_hash_table_destroy(nodes.part_of);
  return num_kept > 0 && num_kept < num_used;
}

/* ---- The choice -------------------------------------------------------------------------- */

/* The fastest way; generated code, which needs no plugin, unless another way is faster by more than
 * noise. */
static int choose_way(const Record *record) {
  int way =
      record->ways[MIXED] > 0 && record->ways[MIXED] <= record->ways[CLAIMED] ? MIXED : CLAIMED;
  return is_clearly_less(record->ways[way], record->ways[GENERATED]) ? way : GENERATED;
}

/* Reports the times to the caller. */
static void tell_times(const BpCompileOptions *options, const Record *record, int is_recalled) {
  int way = choose_way(record);
  BpMeasuredClaims measured = {.struct_size = sizeof(measured),
                               .claimed_ns = record->ways[CLAIMED],
                               .generated_ns = record->ways[GENERATED],
                               .mixed_ns = record->ways[MIXED],
                               .keeps_claimed = way != GENERATED,
                               .is_recalled = is_recalled,
                               .num_parts = record->num_parts};
  for (int32_t i = 0; i < record->num_parts; i++)
    measured.kept_parts += way == CLAIMED || (way == MIXED && record->parts[i].is_kept);
  if (options->measured)
    options->measured(options->measured_context, &measured);
}

/* Compiles a model one way; the nodes are reported to `claimed` or, if that is NULL, to the
 * caller. */
static BpModule *compile_way(const OnnxModel *model, const BpCompileOptions *options,
                             BpCompile compile, int way, const Record *record, Claimed *claimed) {
  BpCompileOptions own = *options;
  const BpPartChoice choice = {record->parts, record->num_parts};
  if (claimed) {
    own.claimed = note_node;
    own.claimed_context = claimed;
  }
  if (way == GENERATED)
    own.num_graph_compilers = 0;
  return compile(model, &own, way == MIXED ? &choice : NULL);
}

/* The state of a comparison of ways. */
typedef struct Comparison {
  const OnnxModel *model;
  const BpCompileOptions *options;
  BpCompile compile;
  const Devices *devices;
  Claimed claimed[NUM_WAYS]; /* the nodes, by way */
  Side sides[NUM_WAYS];
  Record record;
} Comparison;

/* Compiles the model one way, and prepares the side to run. */
static int start_way(Comparison *c, int way) {
  Side *side = &c->sides[way];
  if (!side->module)
    side->module = compile_way(c->model, c->options, c->compile, way, &c->record, &c->claimed[way]);
  return side->module ? start_side(side, c->devices) : -1;
}

/* Compiles and measures all possible ways. */
static int compare_ways(Comparison *c) {
  int status = start_way(c, CLAIMED) || start_way(c, GENERATED) ? -1 : 0;
  gboolean is_mixed = !status && choose_parts(&c->claimed[CLAIMED], c->sides, &c->record);
  if (is_mixed)
    status = start_way(c, MIXED);
  if (!status)
    status = measure(c->sides, is_mixed ? 3 : 2);
  for (int i = 0; i < NUM_WAYS; i++) {
    c->record.ways[i] = c->sides[i].module ? c->sides[i].best : 0;
    stop_side(&c->sides[i]);
  }
  return status ? bp_error_add_context("measuring which of claimed parts and generated code is "
                                       "faster")
                : 0;
}

/* The artifact of the fastest way; NULL with an error. If nothing is claimed, or the target cannot
 * generate code for the claimed nodes, there is no comparison, and the claimed parts are kept. */
static BpModule *compare(Comparison *c, const char *key) {
  int way = CLAIMED, status = 0;
  Side *sides = c->sides;
  sides[CLAIMED].module =
      compile_way(c->model, c->options, c->compile, CLAIMED, &c->record, &c->claimed[CLAIMED]);
  if (!sides[CLAIMED].module)
    return NULL;
  if (c->claimed[CLAIMED].num_claimed > 0) {
    sides[GENERATED].module =
        compile_way(c->model, c->options, c->compile, GENERATED, &c->record, NULL);
    if (!sides[GENERATED].module && bp_error_is(BP_ERROR_NOT_IMPLEMENTED)) {
      bp_error_clear();
    } else {
      status = sides[GENERATED].module ? compare_ways(c) : -1;
      way = status ? way : choose_way(&c->record);
      if (!status) {
        keep(key, &c->record);
        tell_times(c->options, &c->record, 0);
      }
    }
  }
  if (!status && way != GENERATED)
    status = tell_nodes(c->options, &c->claimed[way]);
  return status ? NULL : bp_object_retain(sides[way].module);
}

static BpModule *compare_and_free(Comparison *c, const char *key) {
  for (int i = 0; i < NUM_WAYS; i++)
    c->claimed[i] = claimed_new();
  BpModule *kept = compare(c, key);
  for (int i = 0; i < NUM_WAYS; i++) {
    stop_side(&c->sides[i]);
    bp_object_release(c->sides[i].module);
    g_ptr_array_unref(c->claimed[i].nodes);
  }
  return kept;
}

/* Finds the best device for the target and for each fallback; the list has the CPU at most once. */
static int find_devices(const BpCompileOptions *options, Devices *devices) {
  const BpTarget *chain[BP_BUILD_MAX_PLACES] = {options->targets[0]};
  int32_t num_places = 1 + bp__options_fallbacks(options, chain + 1);
  for (int32_t i = 0; i < num_places; i++) {
    int32_t type = bp_target_device_type(chain[i]);
    gboolean is_there = FALSE;
    for (size_t k = 0; k < devices->count; k++)
      is_there |= type == BP_DEVICE_CPU && devices->all[k].device_type == type;
    if (is_there)
      continue;
    if (bp__places_select_another(type, "", devices->all, devices->count,
                                  &devices->all[devices->count])) {
      bp_error_clear();
      return bp_error_raise(BP_ERROR_NOT_FOUND,
                            "BpCompileOptions::measures_claims (--measure) runs the model, and "
                            "this machine has no device for target %s",
                            bp_target_kind(chain[i]));
    }
    devices->count++;
  }
  return 0;
}

BpModule *bp__build_choose(const char *path, const OnnxModel *model,
                           const BpCompileOptions *options, BpCompile compile) {
  Devices devices = {.count = 0};
  BpModule *module;
  if (options->num_targets != 1 || options->num_graph_compilers < 1 || options->least_claimed > 0 ||
      options->reserved) {
    bp_error_raise(BP_ERROR_VALUE,
                   "BpCompileOptions::measures_claims (--measure) takes one target, at least one "
                   "graph compiler and no least_claimed (--require); given are %d, %d and %g",
                   options->num_targets, options->num_graph_compilers, options->least_claimed);
    return NULL;
  }
  /* Compiling raises the error for having both; recalled times must not hide it. */
  if (!options->graph_compilers || options->is_reference)
    return compile(model, options, NULL);
  if (find_devices(options, &devices))
    return NULL;
  char *key = make_key(path, options, &devices);
  if (!key)
    return NULL;
  Comparison c = {.model = model, .options = options, .compile = compile, .devices = &devices};
  if (recall(key, &c.record)) {
    tell_times(options, &c.record, 1);
    module = compile_way(model, options, compile, choose_way(&c.record), &c.record, NULL);
  } else {
    g_free(c.record.parts);
    c.record = (Record){{0}, 0, NULL};
    module = compare_and_free(&c, key);
  }
  g_free(c.record.parts);
  g_free(key);
  return module;
}
