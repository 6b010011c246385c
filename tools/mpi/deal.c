/* SPDX-License-Identifier: Apache-2.0 */
/* The work of rank 0 besides computing: it reads items, deals them to ranks that have too few, and
 * writes results. */
#include "tools/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

#include <backplane/object.h>

/* The most items that a rank has at once: one that it computes, and one that waits. */
#define DEALT_AHEAD 2

typedef enum ItemState { ITEM_WAITING, ITEM_DONE, ITEM_FAILED, ITEM_SKIPPED } ItemState;

typedef struct Item {
  char *input, *output; /* files */
  ItemState state;
  int rank;    /* the rank that computed the item, or -1 */
  int64_t ns;  /* nanoseconds of computing */
  char *error; /* error of a failed item */
} Item;

/* The state of a rank, as rank 0 knows it. */
typedef struct Holder {
  int num_items;    /* number of items that the rank has */
  gint64 since;     /* time when it got its first item, or gave its last result */
  gboolean is_lost; /* the rank's device is lost */
  guint computed;
} Holder;

typedef struct Dealer {
  const Rank *rank;
  const Route *route;
  BpModel *model;
  Computer *computer;
  const Options *options;
  GPtrArray *items; /* of Item */
  GQueue waiting;   /* indices of items */
  guint finished;   /* number of finished items */
  guint printed;    /* number of printed items, from the first on */
  Holder *holders;
} Dealer;

/* If the model is cut into stages, items are dealt only to the rank of the first stage, which then
 * counts as the holder of all items in progress. */
static int num_receivers(const Dealer *self) {
  return self->options->pipeline ? 1 : self->rank->count;
}

static int dealt_ahead(const Dealer *self) {
  return DEALT_AHEAD * MAX(self->options->pipeline, 1);
}

static void item_free(gpointer item) {
  Item *self = item;
  g_free(self->input);
  g_free(self->output);
  g_free(self->error);
  g_free(self);
}

static void finish(Dealer *self, Item *item, ItemState state) {
  item->state = state;
  self->finished++;
}

/* Makes this thread's error the error of the item. */
static void fail(Dealer *self, Item *item) {
  item->error = g_strdup(bp_error_message());
  bp_error_clear();
  finish(self, item, ITEM_FAILED);
}

/* ---- Items ------------------------------------------------------------------------------- */

/* Returns FOLDER/A.npz for PICTURES/A.png (transfer full). */
static char *output_of(const char *input, const char *folder) {
  char *name = g_path_get_basename(input);
  char *dot = strrchr(name, '.');
  if (dot && dot != name)
    *dot = 0;
  char *file = g_strconcat(name, ".npz", NULL);
  char *path = g_build_filename(folder, file, NULL);
  g_free(file);
  g_free(name);
  return path;
}

/* Checks that results replace neither a file of the model nor a file of another kind. */
static int check_result(const Dealer *self, const char *output) {
  char *const models[] = {self->options->model, NULL};
  const ModelOptions none = {.library = NULL};
  return model_check_output("--output", output, models, &none) < 0
             ? -1
             : command_check_kind("--output", output, "PK", ".npz file");
}

/* Makes all items, in order. Two items with one output file, and results that would replace an
 * input, a file of the model or a file of another kind, are errors. */
static int list_items(Dealer *self) {
  GHashTable *outputs = g_hash_table_new(g_str_hash, g_str_equal);
  int status = 0;
  for (char **input = self->options->inputs; *input && status == 0; input++) {
    Item *item = g_new0(Item, 1);
    g_ptr_array_add(self->items, item);
    item->rank = -1;
    item->input = g_canonicalize_filename(*input, NULL);
    item->output = output_of(*input, self->options->output);
    const Item *other = g_hash_table_lookup(outputs, item->output);
    if (other)
      status = command_raise_usage("the results of %s and %s would both be written to %s; give the "
                                   "files different names",
                                   other->input, item->input, item->output);
    else if (command_is_one_file(item->input, item->output))
      status = command_raise_usage("the results of %s would replace it; choose another folder",
                                   item->input);
    g_hash_table_insert(outputs, item->output, item);
    if (self->options->resumes && g_file_test(item->output, G_FILE_TEST_EXISTS))
      finish(self, item, ITEM_SKIPPED);
    else if (status == 0 && (status = check_result(self, item->output)) == 0)
      g_queue_push_tail(&self->waiting, GUINT_TO_POINTER(self->items->len - 1));
  }
  g_hash_table_destroy(outputs);
  return status;
}

/* Reads an item as a message (transfer full); NULL with an error. */
static GByteArray *read_item(const Dealer *self, guint index) {
  const Item *item = self->items->pdata[index];
  int32_t count = bp_model_num_inputs(self->model);
  GByteArray *message = message_create(index);
  int status = 0;
  if (count > 1 && !path_has_extension(item->input, ".npz"))
    status = bp_error_raise(BP_ERROR_VALUE,
                            "the model has %d inputs: an item is an .npz archive that has an array "
                            "for each",
                            count);
  for (int32_t i = 0; i < count && status == 0; i++) {
    const BpModelTensorInfo *info = bp_model_input_info(self->model, i);
    BpTensor *tensor = input_read(item->input, info);
    status = tensor ? message_add_tensor(message, info->name, &tensor->view) : -1;
    bp_object_release(tensor);
  }
  if (status == 0)
    return message;
  g_byte_array_unref(message);
  return NULL;
}

static int write_result(const Item *item, const GByteArray *result) {
  GPtrArray *tensors = message_tensors(result);
  if (!tensors)
    return -1;
  const char **names = g_new0(const char *, tensors->len);
  const BpTensorView **views = g_new0(const BpTensorView *, tensors->len);
  for (guint i = 0; i < tensors->len; i++) {
    const NamedTensor *named = tensors->pdata[i];
    names[i] = named->name;
    views[i] = &named->tensor->view;
  }
  int status = npz_write(item->output, names, views, tensors->len);
  g_free(views);
  g_free(names);
  g_ptr_array_unref(tensors);
  return status;
}

/* ---- Dealing ----------------------------------------------------------------------------- */

static void give(Dealer *self, int rank, GByteArray *message) {
  Holder *holder = &self->holders[rank];
  if (holder->num_items++ == 0)
    holder->since = g_get_monotonic_time();
  if (rank == 0) {
    computer_give(self->computer, message);
    return;
  }
  MPI_Send(message->data, (int)message->len, MPI_BYTE, rank, TAG_ITEM, MPI_COMM_WORLD);
  g_byte_array_unref(message);
}

/* Gives an item to each rank that has room for one, idle ranks first. */
static gboolean deal_round(Dealer *self) {
  gboolean happened = FALSE;
  for (int most = 0; most < dealt_ahead(self); most++)
    for (int rank = 0; rank < num_receivers(self) && self->waiting.length; rank++) {
      if (self->holders[rank].is_lost || self->holders[rank].num_items > most)
        continue;
      guint index = GPOINTER_TO_UINT(g_queue_pop_head(&self->waiting));
      GByteArray *message = read_item(self, index);
      if (message)
        give(self, rank, message);
      else
        fail(self, self->items->pdata[index]);
      happened = TRUE;
    }
  return happened;
}

/* The item of a rank that lost its device goes to another rank. */
static void lose(Dealer *self, int rank, guint index, const char *why) {
  if (!self->holders[rank].is_lost)
    command_print(stderr, "%s: %s gets no more items: %s\n", command_program,
                  self->rank->names[rank], why);
  self->holders[rank].is_lost = TRUE;
  g_queue_push_head(&self->waiting, GUINT_TO_POINTER(index));
}

static void take_result(Dealer *self, int rank, GByteArray *result) {
  const Message *header = message_header(result);
  Item *item = self->items->pdata[header->item];
  Holder *holder = &self->holders[self->options->pipeline ? 0 : rank];
  char *text = header->status == MESSAGE_OK ? NULL : message_text(result);
  holder->num_items--;
  holder->since = g_get_monotonic_time();
  if (header->status == MESSAGE_LOST) {
    lose(self, rank, (guint)header->item, text);
  } else {
    for (int r = self->options->pipeline ? 0 : rank; r <= rank; r++)
      self->holders[r].computed++;
    item->rank = rank;
    item->ns = header->nanoseconds;
    if (text)
      bp_error_raise(BP_ERROR_RUNTIME, "%s: %s", self->rank->names[rank], text);
    if (text || write_result(item, result) < 0)
      fail(self, item);
    else
      finish(self, item, ITEM_DONE);
  }
  g_free(text);
  g_byte_array_unref(result);
}

/* Handles a result of rank 0's own computing: a final result, or input for the next stage. */
static void take_own(Dealer *self, GByteArray *own) {
  int tag, receiver = receiver_of(self->route, own, &tag);
  if (receiver == 0) {
    take_result(self, 0, own);
    return;
  }
  MPI_Send(own->data, (int)own->len, MPI_BYTE, receiver, tag, MPI_COMM_WORLD);
  g_byte_array_unref(own);
}

/* Takes all results that have arrived. */
static gboolean take_round(Dealer *self) {
  gboolean happened = FALSE;
  int is_there = self->rank->count > 1;
  while (is_there) {
    MPI_Status found;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_RESULT, MPI_COMM_WORLD, &is_there, &found);
    if (is_there)
      take_result(self, found.MPI_SOURCE, message_receive(&found));
    happened |= is_there;
  }
  for (GByteArray *own; (own = computer_take(self->computer)); happened = TRUE)
    take_own(self, own);
  return happened;
}

/* Ends the job if a rank gives no result for too long. */
static void check_deadlines(const Dealer *self) {
  gint64 limit = (gint64)self->options->deadline * G_USEC_PER_SEC, now = g_get_monotonic_time();
  for (int rank = 0; limit && rank < self->rank->count; rank++)
    if (self->holders[rank].num_items && now - self->holders[rank].since > limit) {
      command_print(stderr,
                    "%s: %s has not finished an item within %d seconds; the job ends, and the "
                    "written results stay (--deadline sets the limit, --resume goes on)\n",
                    command_program,
                    self->options->pipeline ? "a rank of the pipeline" : self->rank->names[rank],
                    self->options->deadline);
      MPI_Abort(MPI_COMM_WORLD, EXIT_FAIL);
    }
}

/* A pipeline needs the devices of all ranks. */
static void fail_waiting(Dealer *self) {
  int num_lost = 0;
  for (int rank = 0; rank < self->rank->count; rank++)
    num_lost += self->holders[rank].is_lost;
  if (num_lost < (self->options->pipeline ? 1 : self->rank->count))
    return;
  while (self->waiting.length) {
    bp_error_raise(BP_ERROR_DEVICE_LOST, self->options->pipeline
                                             ? "the device of a stage is lost"
                                             : "no rank has a device that is left");
    fail(self, self->items->pdata[GPOINTER_TO_UINT(g_queue_pop_head(&self->waiting))]);
  }
}

/* ---- Reports ----------------------------------------------------------------------------- */

static const char *const state_names[] = {"waiting", "done", "failed", "skipped"};

/* Prints the finished items in order, up to the first item that is still waiting. */
static void print_finished(Dealer *self) {
  for (; self->printed < self->items->len; self->printed++) {
    const Item *item = self->items->pdata[self->printed];
    if (item->state == ITEM_WAITING)
      break;
    if (item->state == ITEM_FAILED && g_str_has_prefix(item->error, item->input))
      command_print(stderr, "%s: %s\n", command_program, item->error);
    else if (item->state == ITEM_FAILED)
      command_print(stderr, "%s: %s: %s\n", command_program, item->input, item->error);
    else if (self->options->json)
      continue;
    else if (item->state == ITEM_SKIPPED)
      command_print_line(command_out(), "%s: there already", item->output);
    else
      command_print_line(command_out(), "%s: %.3f ms, %s", item->output, (double)item->ns / 1e6,
                         self->rank->names[item->rank]);
  }
  fflush(command_out());
}

static guint count_items(const Dealer *self, ItemState state) {
  guint count = 0;
  for (guint i = 0; i < self->items->len; i++)
    count += ((const Item *)self->items->pdata[i])->state == state;
  return count;
}

static void print_summary(const Dealer *self, double seconds) {
  FILE *out = command_out();
  fprintf(out, "%u computed, %u failed, %u there already, in %.3f s\n",
          count_items(self, ITEM_DONE), count_items(self, ITEM_FAILED),
          count_items(self, ITEM_SKIPPED), seconds);
  for (int rank = 0; rank < self->rank->count; rank++)
    command_print_line(out, "  %s: %u", self->rank->names[rank], self->holders[rank].computed);
}

static void print_json(const Dealer *self, double seconds) {
  json_t *root = json_object(), *items = json_array(), *ranks = json_array();
  for (guint i = 0; i < self->items->len; i++) {
    const Item *item = self->items->pdata[i];
    json_t *object = json_object();
    json_add_str(object, "input", item->input);
    json_add_str(object, "output", item->output);
    json_add_str(object, "state", state_names[item->state]);
    if (item->rank >= 0) {
      json_add_int(object, "rank", item->rank);
      json_add_double(object, "ms", (double)item->ns / 1e6);
    }
    if (item->error)
      json_add_str(object, "error", item->error);
    json_append(items, object);
  }
  for (int rank = 0; rank < self->rank->count; rank++) {
    json_t *object = json_object();
    json_add_str(object, "name", self->rank->names[rank]);
    json_add_int(object, "items", self->holders[rank].computed);
    json_add(object, "lost", json_boolean(self->holders[rank].is_lost));
    json_append(ranks, object);
  }
  json_add(root, "items", items);
  json_add(root, "ranks", ranks);
  json_add_double(root, "seconds", seconds);
  command_print_json(root);
}

/* ---- All --------------------------------------------------------------------------------- */

static void deal_items(Dealer *self) {
  unsigned pause = 10;
  while (self->finished < self->items->len) {
    gboolean happened = deal_round(self);
    happened |= take_round(self);
    fail_waiting(self);
    check_deadlines(self);
    print_finished(self);
    pause_between(happened, &pause);
  }
  print_finished(self);
}

static void end_others(const Dealer *self) {
  for (int rank = 1; rank < self->rank->count; rank++)
    MPI_Send(NULL, 0, MPI_BYTE, rank, TAG_END, MPI_COMM_WORLD);
}

int deal(const Rank *rank, const Route *route, BpModel *model, Computer *computer,
         const Options *options) {
  Dealer self = {.rank = rank,
                 .route = route,
                 .model = model,
                 .computer = computer,
                 .options = options,
                 .items = g_ptr_array_new_with_free_func(item_free),
                 .waiting = G_QUEUE_INIT,
                 .holders = g_new0(Holder, (gsize)rank->count)};
  gint64 start = g_get_monotonic_time();
  int status =
      command_check_folder(options->output) < 0 || list_items(&self) < 0 ? EXIT_FAIL : EXIT_OK;
  if (status == EXIT_OK)
    deal_items(&self);
  end_others(&self);
  double seconds = (double)(g_get_monotonic_time() - start) / 1e6;
  if (status != EXIT_OK)
    status = command_fail(options->json);
  else if (options->json)
    print_json(&self, seconds);
  else
    print_summary(&self, seconds);
  if (count_items(&self, ITEM_FAILED))
    status = EXIT_FAIL;
  g_free(self.holders);
  g_queue_clear(&self.waiting);
  g_ptr_array_unref(self.items);
  return status;
}
