/* SPDX-License-Identifier: Apache-2.0 */
/* The model: compiled once on rank 0, sent once to each machine, mapped by its ranks. */
#include "tools/mpi/mpi.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <backplane/object.h>

/* MPI counts in int. */
#define PIECE (1 << 30)

/* ---- Compiling --------------------------------------------------------------------------- */

/* Returns the target of the rank's device as text (transfer full); NULL with an error. */
static char *format_target(const Rank *rank) {
  BpTarget *target = bp_target_from_device(rank->device);
  char *text = target ? bp_target_format(target) : NULL;
  char *copy = g_strdup(text);
  bp_str_free(text);
  bp_object_release(target);
  return copy;
}

/* Gathers the targets of all ranks on rank 0 (transfer full, g_strfreev); NULL on the others. */
static char **gather_targets(const Rank *rank, const char *own) {
  int length = (int)strlen(own) + 1, total = 0;
  int *lengths = g_new0(int, (gsize)rank->count), *starts = g_new0(int, (gsize)rank->count);
  MPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < rank->count; i++) {
    starts[i] = total;
    total += lengths[i];
  }
  char *texts = g_malloc0((gsize)total + 1);
  MPI_Gatherv(own, length, MPI_CHAR, texts, lengths, starts, MPI_CHAR, 0, MPI_COMM_WORLD);
  char **all = rank->index == 0 ? g_new0(char *, (gsize)rank->count + 1) : NULL;
  for (int i = 0; all && i < rank->count; i++)
    all[i] = g_strdup(texts + starts[i]);
  g_free(texts);
  g_free(starts);
  g_free(lengths);
  return all;
}

/* Returns each different target once (of BpTarget; transfer full); NULL with an error. */
static GPtrArray *parse_targets(char **texts) {
  GPtrArray *targets = g_ptr_array_new_with_free_func(bp_object_release);
  GHashTable *seen = g_hash_table_new(g_str_hash, g_str_equal);
  int status = 0;
  for (; *texts && status == 0; texts++) {
    if (!g_hash_table_add(seen, *texts))
      continue;
    BpTarget *target = bp_target_parse(*texts);
    if (target)
      g_ptr_array_add(targets, target);
    else
      status = bp_error_add_context("rank 0 cannot generate code for the device of another rank; "
                                    "install its plugin here, or compile the model there");
  }
  g_hash_table_destroy(seen);
  if (status == 0)
    return targets;
  g_ptr_array_unref(targets);
  return NULL;
}

int model_compile_to(const char *library, const char *path, char **targets,
                     const OnnxOptions *onnx) {
  GPtrArray *parsed = parse_targets(targets);
  if (!parsed)
    return -1;
  ClaimReport claims = {0};
  char *devices = NULL;
  BpModule *module = model_compile(path, parsed, NULL, onnx, NULL, NULL, &devices, &claims);
  int status = module ? bp_module_export_library(module, library) : -1;
  bp_object_release(module);
  g_free(devices);
  claims_clear(&claims);
  g_ptr_array_unref(parsed);
  return status;
}

/* ---- Sending ----------------------------------------------------------------------------- */

/* Returns the communicator of the machines' leaders, rank 0 among them; MPI_COMM_NULL on other
 * ranks. */
static MPI_Comm find_leaders(const Rank *rank) {
  MPI_Comm leaders;
  MPI_Comm_split(MPI_COMM_WORLD, rank->local == 0 ? 0 : MPI_UNDEFINED, rank->index, &leaders);
  return leaders;
}

static int raise_unwritten(const char *path) {
  return bp_error_raise(BP_ERROR_IO, "cannot write %s, the model of the ranks of this machine: %s",
                        path, g_strerror(errno));
}

/* A rank that cannot write still takes part to the end, because the other ranks wait for it. */
int place_send(const Rank *rank, MPI_Comm ranks, Place *place) {
  GMappedFile *file = place->file;
  const char *path = place->path;
  int64_t size = file ? (int64_t)g_mapped_file_get_length(file) : 0;
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, ranks);
  FILE *out = rank->index == 0 ? NULL : g_fopen(path, "wbe");
  int status = out || rank->index == 0 ? 0 : raise_unwritten(path);
  char *buffer = rank->index == 0 ? NULL : g_malloc((gsize)MIN(size, PIECE) + 1);
  for (int64_t done = 0; done < size; done += PIECE) {
    int piece = (int)MIN(size - done, PIECE);
    MPI_Bcast(buffer ? buffer : g_mapped_file_get_contents(file) + done, piece, MPI_BYTE, 0, ranks);
    if (buffer && status == 0 && fwrite(buffer, 1, (size_t)piece, out) != (size_t)piece)
      status = raise_unwritten(path);
  }
  g_free(buffer);
  if (out && fclose(out) != 0 && status == 0)
    status = raise_unwritten(path);
  return status;
}

/* ---- Both -------------------------------------------------------------------------------- */

int place_make_folder(Place *place) {
  GError *error = NULL;
  place->folder = g_dir_make_tmp("backplane-mpi-XXXXXX", &error);
  if (!place->folder) {
    bp_error_raise(BP_ERROR_IO, "%s", error->message);
    g_error_free(error);
    return -1;
  }
  temporary_add(place->folder);
  g_chmod(place->folder, 0700); /* the umask may deny the owner, too */
  g_free(place->path);
  place->path = g_build_filename(place->folder, "model.so", NULL);
  return 0;
}

int place_map(Place *place) {
  GError *error = NULL;
  place->file = g_mapped_file_new(place->path, FALSE, &error);
  if (place->file)
    return 0;
  bp_error_raise(BP_ERROR_IO, "%s", error->message);
  g_error_free(error);
  return -1;
}

/* Rank 0 compiles the model if necessary, and maps the file; the leaders of other machines make a
 * folder for a copy. */
static int prepare(const Rank *rank, char **targets, const char *path, const Options *options,
                   Place *place) {
  if (rank->local != 0)
    return 0;
  if (rank->index != 0)
    return place_make_folder(place);
  if (!path_has_extension(path, ".onnx")) {
    place->path = g_canonicalize_filename(path, NULL);
    return options->onnx.shapes || options->onnx.limits
               ? command_raise_usage("%s: --shape and --limit are for ONNX files", path)
               : place_map(place);
  }
  if (place_make_folder(place) < 0 ||
      model_compile_to(place->path, path, targets, &options->onnx) < 0)
    return -1;
  return place_map(place);
}

/* Sends the leader's path to all ranks of its machine. */
static void share_path(const Rank *rank, Place *place) {
  int size = place->path ? (int)strlen(place->path) + 1 : 0;
  MPI_Bcast(&size, 1, MPI_INT, 0, rank->machine);
  if (!place->path)
    place->path = g_malloc0((gsize)size);
  MPI_Bcast(place->path, size, MPI_CHAR, 0, rank->machine);
}

void place_clear(Place *place) {
  if (place->folder)
    temporary_remove(place->folder);
  if (place->file)
    g_mapped_file_unref(place->file);
  g_free(place->folder);
  g_free(place->path);
}

static BpModel *load(const Rank *rank, const char *path) {
  BpDevice devices[BP_MODEL_MAX_DEVICES];
  size_t count;
  BpModule *module = bp_model_open(path);
  BpModel *model = NULL;
  if (module && bp_model_select_devices(module, rank->devices, devices, G_N_ELEMENTS(devices),
                                        &count, NULL) == 0)
    model = bp_model_create(module, devices, count);
  bp_object_release(module);
  if (!model || model_check_tensors(model) == 0)
    return model;
  bp_model_release(model);
  return NULL;
}

BpModel *model_load_agreed(const Rank *rank, const char *path) {
  BpModel *model = load(rank, path);
  if (rank_agree(rank, model ? 0 : -1))
    return model;
  bp_model_release(model);
  return NULL;
}

/* Without stages each rank gives all outputs. */
static void route_of_whole(const BpModel *model, Route *route) {
  int32_t count = bp_model_num_outputs(model);
  route->next = -1;
  route->passed = g_new0(char *, (gsize)count + 1);
  for (int32_t i = 0; i < count; i++)
    route->passed[i] = g_strdup(bp_model_output_info(model, i)->name);
}

/* Distributes the model, once rank 0 knows every rank's target. */
static BpModel *send_and_load(const Rank *rank, char **targets, const char *path,
                              const Options *options) {
  Place place = {0};
  BpModel *model = NULL;
  MPI_Comm leaders = find_leaders(rank);
  gboolean is_ready = rank_agree(rank, prepare(rank, targets, path, options, &place));
  if (is_ready &&
      rank_agree(rank, leaders == MPI_COMM_NULL ? 0 : place_send(rank, leaders, &place))) {
    share_path(rank, &place);
    model = model_load_agreed(rank, place.path);
  }
  place_clear(&place);
  if (leaders != MPI_COMM_NULL)
    MPI_Comm_free(&leaders);
  return model;
}

BpModel *model_distribute(const Rank *rank, const char *path, const Options *options,
                          Route *route) {
  char *target = format_target(rank);
  if (!rank_agree(rank, target ? 0 : -1)) {
    g_free(target);
    return NULL;
  }
  char **targets = gather_targets(rank, target);
  BpModel *model = options->pipeline ? stages_distribute(rank, targets, path, options, route)
                                     : send_and_load(rank, targets, path, options);
  if (model && !options->pipeline)
    route_of_whole(model, route);
  g_strfreev(targets);
  g_free(target);
  return model;
}
