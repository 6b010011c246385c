/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane-mpi run`: runs one model over many files, dealt to the ranks of an MPI job. */
#include "tools/mpi/mpi.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/version.h>

const char command_program[] = "backplane-mpi";

static const char summary[] =
    "run a model on many files, on the devices of all ranks of an MPI job";

const char *command_summary(const char *name) {
  (void)name;
  return summary;
}

static const char details[] =
    "Start it with mpirun or srun:\n\n"
    "  mpirun -n 4 backplane-mpi run MODEL --output FOLDER FILE...\n\n"
    "MODEL is an ONNX file or a library that `backplane compile` wrote. Each FILE is an item of "
    "work:\n"
    "a .npy file or a picture for a model of one input, or an .npz archive with an array for each "
    "input.\n"
    "The outputs of PICTURES/A.png are written to FOLDER/A.npz. Rank 0 alone reads and writes "
    "files:\n"
    "the other machines need the programs and plugins, and no shared file system.\n\n"
    "Ranks of one machine take its devices in turn. A rank gets the next item when it has computed "
    "one,\n"
    "so that devices of different speed are all busy. If a rank dies, the job ends; the written "
    "results\n"
    "stay, and --resume computes the others.\n\n"
    "With --pipeline N each of N ranks has a part of an ONNX model alone, and its parameters: for "
    "models\n"
    "that one device has no memory for.";

/* ---- Options ----------------------------------------------------------------------------- */

static int check_options(const Options *options, int num_arguments) {
  if (num_arguments < 2)
    return command_usage_error("no model is given; `%s run --help` explains", command_program);
  if (!options->output)
    return command_usage_error("--output FOLDER is missing: where results are written");
  if (options->threads < 0 || options->threads > 1024)
    return command_usage_error("--threads %d: it is 1 to 1024, or 0 for a share of the cores",
                               options->threads);
  if (options->deadline < 0)
    return command_usage_error("--deadline %d: it is a number of seconds, or 0 for no limit",
                               options->deadline);
  if (options->pipeline < 0 || options->pipeline == 1)
    return command_usage_error("--pipeline %d: it is a number of stages, from 2 on",
                               options->pipeline);
  return preferences_check(options->device) < 0 ? command_fail(options->json) : EXIT_OK;
}

static int parse_options(int *argc, char ***argv, Options *options) {
  const GOptionEntry entries[] = {
      {"device", 'd', 0, OPTION_TEXT, &options->device,
       "devices in order of preference, of each rank (default: $BACKPLANE_DEVICE, else auto)",
       "LIST"},
      ONNX_SHAPE_ENTRY(&options->onnx),
      ONNX_LIMIT_ENTRY(&options->onnx),
      {"input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &options->inputs,
       "an item, like each argument after the model; may be repeated", "FILE"},
      {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
       "the folder of the results, which must exist", "FOLDER"},
      {"resume", 0, 0, G_OPTION_ARG_NONE, &options->resumes,
       "leave out the items whose results exist", NULL},
      {"threads", 0, 0, G_OPTION_ARG_INT, &options->threads,
       "threads of the host for each rank (default: $BACKPLANE_NUM_THREADS, else its share of the "
       "cores)",
       "N"},
      {"deadline", 0, 0, G_OPTION_ARG_INT, &options->deadline,
       "end the job if an item takes longer (600 seconds; 0: no limit)", "SECONDS"},
      {"pipeline", 0, 0, G_OPTION_ARG_INT, &options->pipeline,
       "cut the model into N stages, one for each of N ranks, which items pass one after another",
       "N"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &options->json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(argc, argv, entries, "MODEL FILE...",
                     "Runs a model on many files, on the devices of all ranks of an MPI job.",
                     details))
    return EXIT_USAGE;
  return check_options(options, *argc);
}

/* Lists all items in `inputs`: those of --input, then the arguments after the model. */
static void add_arguments(Options *options, char **files) {
  GPtrArray *all = g_ptr_array_new();
  for (char **file = options->inputs; file && *file; file++)
    g_ptr_array_add(all, *file);
  for (; *files; files++)
    g_ptr_array_add(all, g_strdup(*files));
  g_ptr_array_add(all, NULL);
  g_free(options->inputs);
  options->inputs = (char **)g_ptr_array_free(all, FALSE);
}

static void options_clear(Options *options) {
  g_free(options->device);
  onnx_options_clear(&options->onnx);
  g_strfreev(options->inputs);
  g_free(options->output);
}

/* ---- The job ----------------------------------------------------------------------------- */

static int run_model(const Rank *rank, const Route *route, BpModel *model, const Options *options) {
  Computer *computer = computer_start(model, route);
  int status = EXIT_FAIL;
  if (!rank_agree(rank, computer ? 0 : -1)) {
  } else if (rank->index == 0) {
    status = deal(rank, route, model, computer, options);
  } else {
    work(route, computer);
    status = EXIT_OK; /* rank 0 reports how the job ended */
  }
  computer_stop(computer);
  return status;
}

static int run_job(Rank *rank, const char *path, const Options *options) {
  if (!rank_agree(rank, rank_check_launcher(rank)) ||
      !rank_agree(rank, rank_choose_device(rank, options->device)) ||
      !rank_agree(rank, rank_share_threads(rank, options->threads)))
    return EXIT_FAIL;
  rank_gather_names(rank);
  Route route = {0};
  BpModel *model = model_distribute(rank, path, options, &route);
  int status = model ? run_model(rank, &route, model, options) : EXIT_FAIL;
  bp_model_release(model);
  g_strfreev(route.passed);
  return status;
}

static int check_count(const Rank *rank, const Options *options) {
  if (!options->pipeline || options->pipeline == rank->count)
    return EXIT_OK;
  return command_usage_error("--pipeline %d: each stage is for a rank, and the job has %d ranks; "
                             "start it with `mpirun -n %d`",
                             options->pipeline, rank->count, options->pipeline);
}

/* The command line is the same for all ranks, and rank 0 reports its errors. */
static int run_command(Rank *rank, int argc, char **argv) {
  Options options = {.deadline = 600};
  int status = rank->index == 0 ? parse_options(&argc, &argv, &options) : EXIT_OK;
  if (rank->index == 0 && status == EXIT_OK)
    status = check_count(rank, &options);
  MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (rank->index != 0 && status == EXIT_OK)
    status = parse_options(&argc, &argv, &options);
  if (status == EXIT_OK) {
    options.model = argv[1];
    add_arguments(&options, argv + 2);
    status = run_job(rank, argv[1], &options);
  }
  options_clear(&options);
  return status;
}

/* Answers commands that need no MPI job without starting one. Returns whether the command was
 * answered. */
static gboolean answer_alone(int argc, char **argv, int *status) {
  const char *word = argc > 1 ? argv[1] : "--help";
  *status = EXIT_OK;
  if (strcmp(word, "--version") == 0) {
    printf("%s %s\n", command_program, bp_version());
    return TRUE;
  }
  if (strcmp(word, "run") != 0 && strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0) {
    *status = command_usage_error("there is no command '%s'; `%s run --help` explains the only one",
                                  word, command_program);
    return TRUE;
  }
  if (strcmp(word, "run") == 0 && !g_strv_contains((const char *const *)argv, "--help") &&
      !g_strv_contains((const char *const *)argv, MANUAL_OPTION))
    return FALSE;
  Options options = {0};
  char **help = (char *[]){(char *)"run", argc == 3 ? argv[2] : (char *)"--help", NULL};
  int count = 2;
  parse_options(&count, &help, &options); /* prints the help and ends the program */
  return TRUE;
}

int main(int argc, char **argv) {
  int status, level;
  signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails with EFBIG */
  setlocale(LC_CTYPE, "");
  command_begin(argv);
  if (answer_alone(argc, argv, &status))
    return status == EXIT_OK && !command_flush() ? EXIT_FAIL : status;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS ||
      level < MPI_THREAD_FUNNELED) {
    fprintf(stderr, "%s: this MPI library cannot be used in a program with threads\n",
            command_program);
    return EXIT_FAIL;
  }
  Rank rank;
  rank_find(&rank);
  status = run_command(&rank, argc - 1, argv + 1);
  if (status != EXIT_USAGE && !command_flush())
    status = EXIT_FAIL;
  rank_clear(&rank);
  MPI_Finalize();
  return status;
}
