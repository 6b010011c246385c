/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `backplane-mpi`. Only the main thread of a rank calls MPI; a second thread computes.
 * Rank 0 reads and writes all files, deals items to all ranks, itself included, and prints. */
#ifndef BACKPLANE_TOOLS_MPI_MPI_H
#define BACKPLANE_TOOLS_MPI_MPI_H

#include <glib.h>
#include <mpi.h>

#include <backplane/graph/model.h>

#include "tools/command.h"

typedef struct Options {
  char *device;
  OnnxOptions onnx;
  char *model;   /* a file; borrowed */
  char **inputs; /* files */
  char *output;  /* a folder */
  gboolean resumes;
  int threads;  /* 0: this rank's share of the machine's cores */
  int deadline; /* time limit of an item in seconds; 0: none */
  int pipeline; /* number of stages, one for each rank; 0: each rank has the whole model */
  gboolean json;
} Options;

#define RANK_NAME_SIZE (MPI_MAX_PROCESSOR_NAME + 96)

/* A process of the job. */
typedef struct Rank {
  int index, count;       /* index in the job, and number of ranks */
  int local, local_count; /* index on the machine, and ranks of the machine */
  MPI_Comm machine;       /* the ranks of the machine */
  char host[MPI_MAX_PROCESSOR_NAME];
  char *devices; /* this rank's preferences */
  BpDevice device;
  char name[RANK_NAME_SIZE];     /* "rank 1 on node7 (cuda:1)" */
  char (*names)[RANK_NAME_SIZE]; /* names of all ranks, on rank 0 */
} Rank;

/* ---- Ranks (rank.c) ---------------------------------------------------------------------- */

/* Finds this rank's index, machine and ranks on the machine; cleared with rank_clear. */
void rank_find(Rank *rank);
void rank_clear(Rank *rank);

/* Fails if a launcher of another MPI started several ranks: each would be a job of its own, and
 * write all results. */
int rank_check_launcher(const Rank *rank);
/* Selects the rank's device: the ranks of a machine take the devices of one kind in turn. 0 or -1
 * with an error. */
int rank_choose_device(Rank *rank, const char *preferences);
/* Sets the number of host threads. For `threads` 0 the environment's number is used or, without
 * one, the rank's share of the cores. 0 or -1 with an error. */
int rank_share_threads(const Rank *rank, int threads);
/* Collects the names of all ranks. */
void rank_gather_names(Rank *rank);
/* Returns whether a step succeeded on every rank. Ranks on which it failed have an error raised,
 * and print it one after another. */
gboolean rank_agree(const Rank *rank, int status);

/* Where a rank sends the results of an item. */
typedef struct Route {
  int next;      /* the rank that computes the next stage, or -1: rank 0 gets the result */
  char **passed; /* names of the tensors that the rank passes on or returns, in order */
} Route;

/* ---- The model (model.c) ----------------------------------------------------------------- */

/* Loads the model on the rank's device (transfer full, bp_model_release), or its stage of the
 * model, and fills in the route (g_strfreev of `passed`). Rank 0 compiles an ONNX file for the
 * devices of all ranks; then one file is sent to each machine, whose ranks map it. NULL, on all
 * ranks, after the errors were printed. */
/* The file of a model on one machine. */
typedef struct Place {
  char *path;
  char *folder;      /* temporary, or NULL */
  GMappedFile *file; /* mapped on rank 0 */
} Place;
/* The functions return 0, or -1 with an error. place_send sends the file of rank 0 to the other
 * ranks of `ranks`, which have created folders. */
int place_make_folder(Place *place);
int place_map(Place *place);
int place_send(const Rank *rank, MPI_Comm ranks, Place *place);
void place_clear(Place *place);

/* Compiles the ONNX file for the targets to a library. 0 or -1 with an error. */
int model_compile_to(const char *library, const char *path, char **targets,
                     const OnnxOptions *onnx);
/* Loads a library on the rank's device; NULL, on all ranks, after the errors were printed. */
BpModel *model_load_agreed(const Rank *rank, const char *path);
BpModel *model_distribute(const Rank *rank, const char *path, const Options *options, Route *route);

/* ---- Stages (stages.c) ------------------------------------------------------------------- */

/* On rank 0, compiles the stage of each rank and finds out which tensors it passes on; then each
 * rank receives its own stage. model_distribute calls stages_distribute when rank 0 has the
 * target of each rank. */
BpModel *stages_distribute(const Rank *rank, char **targets, const char *path,
                           const Options *options, Route *route);

/* ---- Messages (message.c) ---------------------------------------------------------------- */

#define TAG_ITEM   1 /* an item to compute */
#define TAG_RESULT 2 /* an item's result */
#define TAG_END    3 /* there are no more items */

/* A message between ranks: the inputs or the outputs of an item, or why the item failed. */
typedef struct Message {
  int64_t item;
  int64_t status;      /* MESSAGE_* */
  int64_t nanoseconds; /* time of computing */
  int64_t num_tensors;
} Message;
#define MESSAGE_OK     0
#define MESSAGE_FAILED 1 /* the text of an error follows */
#define MESSAGE_LOST   2 /* the text of an error follows; the device of the rank is lost */

/* Begin a message, and append a tensor of any device or the text of an error. -1 with an error for
 * a type that .npy does not support, or for more bytes than an MPI message can have. */
GByteArray *message_create(int64_t item);
int message_add_tensor(GByteArray *message, const char *name, const BpTensorView *tensor);
void message_fail(GByteArray *message, int64_t status, const char *text);
/* Return the header of a message; its tensors (transfer full, of NamedTensor), NULL with an error;
 * or its text. */
typedef struct NamedTensor {
  char *name;
  BpTensor *tensor;
} NamedTensor;
Message *message_header(const GByteArray *message);
GPtrArray *message_tensors(const GByteArray *message);
char *message_text(const GByteArray *message);
/* Receives the message that MPI_Iprobe found (transfer full). */
GByteArray *message_receive(const MPI_Status *found);

/* ---- Work -------------------------------------------------------------------------------- */

/* A thread that computes items, one after another (compute.c). */
typedef struct Computer Computer;
Computer *computer_start(BpModel *model, const Route *route); /* NULL with an error */
void computer_give(Computer *computer, GByteArray *item);
GByteArray *computer_take(Computer *computer); /* a result, or NULL if there is none yet */
void computer_stop(Computer *computer);        /* waits for the given items */

/* Computes items that rank 0 deals, or that the previous stage passes on, until rank 0 says that
 * there are no more (work.c). */
void work(const Route *route, Computer *computer);
/* Returns the rank that receives a result, and the tag of the message: a failed item skips the
 * later stages. (work.c) */
int receiver_of(const Route *route, const GByteArray *result, int *tag);
/* Sleeps for a moment. The time grows while nothing happens, up to a millisecond. */
void pause_between(gboolean anything_happened, unsigned *microseconds);

/* Deals the files of the options to all ranks and writes the results (deal.c). Returns the exit
 * status. */
int deal(const Rank *rank, const Route *route, BpModel *model, Computer *computer,
         const Options *options);

#endif
