/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of a rank, its cores and its devices. */
#include "tools/mpi/mpi.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <backplane/object.h>

void rank_find(Rank *rank) {
  int length;
  *rank = (Rank){0};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank->index);
  MPI_Comm_size(MPI_COMM_WORLD, &rank->count);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &rank->machine);
  MPI_Comm_rank(rank->machine, &rank->local);
  MPI_Comm_size(rank->machine, &rank->local_count);
  MPI_Get_processor_name(rank->host, &length);
  g_snprintf(rank->name, sizeof rank->name, "rank %d on %s", rank->index, rank->host);
}

int rank_check_launcher(const Rank *rank) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "SLURM_STEP_NUM_TASKS"};
  for (size_t i = 0; i < G_N_ELEMENTS(variables) && rank->count == 1; i++) {
    const char *text = g_getenv(variables[i]);
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    if (!text || g_ascii_strtoull(text, NULL, 10) <= 1)
      continue;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    return bp_error_raise(BP_ERROR_RUNTIME,
                          "%s is %.20s, but the ranks do not find each other: the launcher is not "
                          "one of this program's MPI library, %s; start the job with its mpirun",
                          variables[i], text, g_strstrip(library));
  }
  return 0;
}

void rank_clear(Rank *rank) {
  g_free(rank->devices);
  g_free(rank->names);
  MPI_Comm_free(&rank->machine);
}

/* ---- Devices ----------------------------------------------------------------------------- */

/* Selects devices of the list in turn, all of one kind; each selected device is excluded from the
 * next selection (of BpDevice; transfer full). NULL with an error: no device. */
static GArray *list_devices(const char *preferences) {
  GArray *devices = g_array_new(FALSE, FALSE, sizeof(BpDevice));
  GString *list = g_string_new(preferences);
  BpDevice device;
  int status;
  while ((status = bp_device_select(list->str, &device, NULL)) == 0 &&
         (!devices->len || device.device_type == g_array_index(devices, BpDevice, 0).device_type)) {
    char text[256]; /* including the name of another machine */
    bp_device_format(device, text, sizeof text);
    g_string_append_printf(list, ",!%s", text);
    g_array_append_val(devices, device);
  }
  g_string_free(list, TRUE);
  if (devices->len) {
    bp_error_clear();
    return devices;
  }
  g_array_unref(devices);
  return NULL;
}

int rank_choose_device(Rank *rank, const char *preferences) {
  char *settings = preferences ? NULL : bp_device_preferences();
  if (!preferences && !settings)
    return -1;
  char *list = g_strdup(preferences ? preferences : *settings ? settings : "auto");
  bp_str_free(settings);
  GArray *devices = list_devices(list);
  if (devices) {
    char text[256]; /* including the name of another machine */
    rank->device = g_array_index(devices, BpDevice, (guint)rank->local % devices->len);
    bp_device_format(rank->device, text, sizeof text);
    rank->devices = g_strdup_printf("%s,%s", text, list);
    g_snprintf(rank->name, sizeof rank->name, "rank %d on %s (%s)", rank->index, rank->host, text);
    g_array_unref(devices);
  }
  g_free(list);
  return devices ? 0 : -1;
}

/* ---- Threads ----------------------------------------------------------------------------- */

/* Returns the number of cores for this rank, without taking those of the machine's other ranks: the
 * job's launcher may have given each rank its own cores, or all cores to all ranks. */
static int share_of_cores(const Rank *rank) {
  cpu_set_t own, all;
  CPU_ZERO(&own);
  if (sched_getaffinity(0, sizeof own, &own) < 0)
    CPU_SET(0, &own);
  MPI_Allreduce(&own, &all, (int)sizeof own, MPI_BYTE, MPI_BOR, rank->machine);
  return CPU_EQUAL(&own, &all) ? MAX(CPU_COUNT(&own) / rank->local_count, 1) : CPU_COUNT(&own);
}

int rank_share_threads(const Rank *rank, int threads) {
  int share = share_of_cores(rank);
  if (threads)
    return bp_threads_set(threads);
  return g_getenv("BACKPLANE_NUM_THREADS") ? 0 : bp_threads_set(MIN(share, 1024));
}

/* ---- Names and errors -------------------------------------------------------------------- */

void rank_gather_names(Rank *rank) {
  if (rank->index == 0)
    rank->names = g_malloc0((gsize)rank->count * RANK_NAME_SIZE);
  MPI_Gather(rank->name, RANK_NAME_SIZE, MPI_CHAR, rank->names, RANK_NAME_SIZE, MPI_CHAR, 0,
             MPI_COMM_WORLD);
}

gboolean rank_agree(const Rank *rank, int status) {
  int failed = status < 0, num_failed;
  MPI_Allreduce(&failed, &num_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; num_failed && i < rank->count; i++) {
    if (failed && i == rank->index) {
      command_print(stderr, "%s: %s: %s\n", command_program, rank->name, bp_error_message());
      bp_error_clear();
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return num_failed == 0;
}
