/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each rank its stage of a model. */
#include "tools/mpi/mpi.h"

#include <string.h>

#include <backplane/object.h>

/* The tensors of a stage, by name (of char *), on rank 0. */
typedef struct Stage {
  GPtrArray *inputs, *outputs;
  GPtrArray *passed; /* tensors that its rank passes on */
} Stage;

static void stage_clear(Stage *stage) {
  g_ptr_array_unref(stage->inputs);
  g_ptr_array_unref(stage->outputs);
  g_ptr_array_unref(stage->passed);
}

static int add_name(void *visitor, int32_t role, const BpModelTensorInfo *info) {
  Stage *stage = visitor;
  g_ptr_array_add(role == BP_TENSOR_OUTPUT ? stage->outputs : stage->inputs, g_strdup(info->name));
  return 0;
}

static Stage stage_new(void) {
  return (Stage){g_ptr_array_new_with_free_func(g_free), g_ptr_array_new_with_free_func(g_free),
                 g_ptr_array_new_with_free_func(g_free)};
}

static gboolean has_name(const GPtrArray *names, const char *name) {
  return g_ptr_array_find_with_equal_func((GPtrArray *)(uintptr_t)names, name, g_str_equal, NULL);
}

/* ---- Tensors that stages pass on --------------------------------------------------------- */

/* Whether a later stage reads the tensor, or the model returns it. */
static gboolean is_needed(const Stage *stages, int count, int stage, const Stage *model,
                          const char *name) {
  gboolean is_read = has_name(model->outputs, name);
  for (int s = stage + 1; s < count && !is_read; s++)
    is_read = has_name(stages[s].inputs, name);
  return is_read;
}

static void add_needed(Stage *stages, int count, int stage, const Stage *model,
                       const GPtrArray *names) {
  for (guint i = 0; i < names->len; i++)
    if (is_needed(stages, count, stage, model, names->pdata[i]) &&
        !has_name(stages[stage].passed, names->pdata[i]))
      g_ptr_array_add(stages[stage].passed, g_strdup(names->pdata[i]));
}

/* Lists the tensors that a stage passes on, received or computed. The last stage passes the model's
 * outputs, in their order. */
static void follow_tensors(Stage *stages, int count, const Stage *model) {
  for (int s = 0; s < count - 1; s++) {
    add_needed(stages, count, s, model, s > 0 ? stages[s - 1].passed : stages[0].inputs);
    add_needed(stages, count, s, model, stages[s].outputs);
  }
  add_needed(stages, count, count - 1, model, model->outputs);
}

/* ---- Compiling --------------------------------------------------------------------------- */

static int compile_stage(int count, int stage, char *target, const char *path,
                         const Options *options, Place *place, Stage *tensors) {
  OnnxOptions onnx = options->onnx;
  onnx.num_stages = count;
  onnx.stage = stage;
  if (place_make_folder(place) < 0 ||
      model_compile_to(place->path, path, (char *[]){target, NULL}, &onnx) < 0 ||
      place_map(place) < 0)
    return -1;
  BpModule *module = bp_model_open(place->path);
  int status = module ? bp_model_visit_tensors(module, add_name, tensors) : -1;
  bp_object_release(module);
  return status;
}

/* On rank 0: makes all stages, one after another, each for the device of its rank. */
static int compile_stages(int count, char **targets, const char *path, const Options *options,
                          Place *places, Stage *stages) {
  if (!path_has_extension(path, ".onnx"))
    return command_raise_usage("%s: --pipeline is for ONNX files, since a library cannot be cut",
                               path);
  Stage model = stage_new();
  int status = bp_onnx_visit_tensors(path, add_name, &model);
  for (int s = 0; s < count && status == 0; s++)
    status = compile_stage(count, s, targets[s], path, options, &places[s], &stages[s]);
  if (status == 0)
    follow_tensors(stages, count, &model);
  stage_clear(&model);
  return status;
}

/* ---- Sending ----------------------------------------------------------------------------- */

/* Sends names from the first rank of `pair` to the other, each followed by a NUL; returns all names
 * on both ranks (transfer full, g_strfreev). */
static char **send_names(MPI_Comm pair, const GPtrArray *names) {
  GByteArray *text = g_byte_array_new();
  for (guint i = 0; names && i < names->len; i++)
    g_byte_array_append(text, names->pdata[i], (guint)strlen(names->pdata[i]) + 1);
  int size = (int)text->len;
  MPI_Bcast(&size, 1, MPI_INT, 0, pair);
  g_byte_array_set_size(text, (guint)size);
  MPI_Bcast(text->data, size, MPI_BYTE, 0, pair);
  GPtrArray *copies = g_ptr_array_new();
  for (guint at = 0; at < text->len; at += (guint)strlen((const char *)text->data + at) + 1)
    g_ptr_array_add(copies, g_strdup((const char *)text->data + at));
  g_ptr_array_add(copies, NULL);
  g_byte_array_unref(text);
  return (char **)g_ptr_array_free(copies, FALSE);
}

/* Rank 0 sends a stage to its rank; the other ranks take part in making the pair. */
static int send_stage(const Rank *rank, int stage, Place *place, const Stage *tensors,
                      Route *route) {
  MPI_Comm pair;
  gboolean is_in = rank->index == 0 || rank->index == stage;
  MPI_Comm_split(MPI_COMM_WORLD, is_in ? 0 : MPI_UNDEFINED, rank->index, &pair);
  if (!is_in)
    return 0;
  char **passed = send_names(pair, rank->index == 0 ? tensors->passed : NULL);
  int status = stage > 0 ? place_send(rank, pair, place) : 0;
  MPI_Comm_free(&pair);
  if (rank->index == stage)
    route->passed = passed;
  else
    g_strfreev(passed);
  return status;
}

static int send_stages(const Rank *rank, Place *places, const Stage *stages, Route *route) {
  int status = 0;
  for (int s = 0; s < rank->count; s++)
    if (send_stage(rank, s, &places[s], &stages[s], route) < 0)
      status = -1;
  route->next = rank->index + 1 < rank->count ? rank->index + 1 : -1;
  return status;
}

BpModel *stages_distribute(const Rank *rank, char **targets, const char *path,
                           const Options *options, Route *route) {
  Place *places = g_new0(Place, (gsize)rank->count);
  Stage *stages = g_new0(Stage, (gsize)rank->count);
  BpModel *model = NULL;
  for (int s = 0; s < rank->count; s++)
    stages[s] = stage_new();
  int status = rank->index == 0
                   ? compile_stages(rank->count, targets, path, options, places, stages)
                   : place_make_folder(&places[rank->index]);
  if (rank_agree(rank, status) && rank_agree(rank, send_stages(rank, places, stages, route)))
    model = model_load_agreed(rank, places[rank->index].path);
  for (int s = 0; s < rank->count; s++) {
    place_clear(&places[s]);
    stage_clear(&stages[s]);
  }
  g_free(stages);
  g_free(places);
  return model;
}
