/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that serve channels, and transfers of any size. */

#include "worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* How long a thread polls for the next request before it sleeps. */
#define SPIN_NS INT64_C(50000)
#define FOREVER INT64_C(3600000000000)

/* The plugin copies chunks that lie one after another at once: each of its copies may wake a thread
 * of the driver, and wait for it. While the plugin copies, the host has the other half of the
 * chunks. */
#define MOST_CHUNKS (BP_WORKER_CHUNKS / 2)

typedef int (*Handler)(Job *job);

static const Handler handlers[] = {
#define HANDLER(upper, lower) worker_##lower,
    BP_WORKER_OPERATIONS(HANDLER)
#undef HANDLER
};

/* ---- Waiting ----------------------------------------------------------------------------- */

static int is_reached(const _Atomic uint32_t *counter, uint32_t from, uint32_t to) {
  return atomic_load_explicit(counter, memory_order_acquire) - from >= to - from;
}

/* Waits until a counter of the host has advanced from `from` to `to`. */
static void wait_for(BpWorkerChannel *channel, const _Atomic uint32_t *counter, uint32_t from,
                     uint32_t to) {
  static _Atomic int64_t spin = -1; /* spin time of all threads */
  if (spin < 0)
    spin = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPIN_NS : 0;
  for (int64_t until = bp_worker_now() + spin; bp_worker_now() < until;)
    for (int i = 0; i < 32; i++) {
      if (is_reached(counter, from, to))
        return;
      bp_worker_pause();
    }
  for (;;) {
    uint32_t seen = atomic_load(&channel->host_word);
    if (is_reached(counter, from, to))
      return;
    bp_worker_sleep(&channel->host_word, seen, &channel->worker_sleeps, FOREVER);
  }
}

/* ---- Parts ------------------------------------------------------------------------------- */

/* Waits until the host has filled or emptied `chunks` chunks of this call. Returns the number of
 * filled or emptied chunks. */
static uint32_t wait_chunks(const Job *job, uint32_t chunks) {
  uint32_t first = job->channel->first_chunk;
  wait_for(job->channel, &job->channel->host_chunks, first, first + chunks);
  return atomic_load_explicit(&job->channel->host_chunks, memory_order_acquire) - first;
}

static uint64_t at_most(uint64_t size, uint64_t most) {
  return size < most ? size : most;
}

/* The next chunks, of which `ready` may be used, as one part of the `left` bytes of a call. */
static char *next_part(const Job *job, uint32_t ready, uint64_t left, uint64_t *size) {
  uint32_t first = job->num_chunks % BP_WORKER_CHUNKS;
  uint32_t count = ready < MOST_CHUNKS ? ready : MOST_CHUNKS;
  if (count > BP_WORKER_CHUNKS - first)
    count = BP_WORKER_CHUNKS - first; /* the next chunk is at the beginning */
  *size = at_most(left, count * BP_WORKER_CHUNK_SIZE);
  return job->channel->chunks[first];
}

static void tell_part(Job *job, uint64_t size) {
  job->num_chunks += (uint32_t)((size + BP_WORKER_CHUNK_SIZE - 1) / BP_WORKER_CHUNK_SIZE);
  atomic_store(&job->channel->worker_chunks, job->first_chunk + job->num_chunks);
  bp_worker_tell(&job->channel->worker_word, &job->channel->host_sleeps);
}

const char *worker_take_part(Job *job, uint64_t left, uint64_t *size) {
  if (job->channel) {
    uint32_t filled = wait_chunks(job, job->num_chunks + 1);
    return next_part(job, filled - job->num_chunks, left, size);
  }
  *size = at_most(left, BP_WORKER_CHUNK_SIZE);
  const char *bytes = bp_wire_skip(&job->in, *size);
  if (!bytes)
    bp_error_raise(BP_ERROR_FORMAT, "the worker was given too few bytes");
  return bytes;
}

void worker_took_part(Job *job, uint64_t size) {
  if (job->channel)
    tell_part(job, size);
}

/* Returns how many chunks the next part may have. The first parts are small, because the host waits
 * for them. The last parts are small, because the call waits until the host has emptied them. */
static uint32_t count_room(const Job *job, uint64_t left) {
  uint32_t done = job->num_chunks;
  uint32_t emptied = wait_chunks(job, done < BP_WORKER_CHUNKS ? 0 : done - BP_WORKER_CHUNKS + 1);
  uint32_t room = BP_WORKER_CHUNKS - (done - emptied);
  uint64_t most = at_most(done + 1, left / BP_WORKER_CHUNK_SIZE / 2 + 1);
  return (uint32_t)at_most(room, most);
}

char *worker_room_for_part(Job *job, uint64_t left, uint64_t *size) {
  if (job->channel)
    return next_part(job, count_room(job, left), left, size);
  *size = at_most(left, BP_WORKER_CHUNK_SIZE);
  if (!job->room && !(job->room = malloc(BP_WORKER_CHUNK_SIZE)))
    bp_error_raise(BP_ERROR_MEMORY, "the worker has no memory for a part of a copy");
  return job->room;
}

void worker_give_part(Job *job, uint64_t size) {
  if (job->channel)
    tell_part(job, size);
  else
    worker_stream_send_part(job, size);
}

/* ---- Requests ---------------------------------------------------------------------------- */

static void put_text(BpWire *wire, const char *text, size_t most) {
  size_t size = strlen(text);
  bp_wire_put_bytes(wire, text, size < most ? size : most);
}

static void put_error(BpWire *out) {
  const char *kind = bp_error_kind();
  put_text(out, *kind ? kind : BP_ERROR_PLUGIN, 64);
  put_text(out, *kind ? bp_error_message() : "the plugin gives no reason", BP_WORKER_AREA / 2);
  bp_error_clear();
}

int worker_handle(Job *job) {
  if (job->operation >= BP_WORKER_NUM_OPERATIONS)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED, "the worker has no operation %u",
                          job->operation);
  if (handlers[job->operation](job))
    return -1;
  return job->in.is_bad
             ? bp_error_raise(BP_ERROR_FORMAT, "the worker was given a request that is too short")
             : 0;
}

int32_t worker_answer(Job *job, int (*handle)(Job *job), char *results) {
  job->out = (BpWire){results, results + BP_WORKER_AREA, 0};
  int rc = handle(job);
  if (!rc && job->out.is_bad)
    rc = bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                        "the answer is longer than %d bytes, the maximum for an answer of a worker",
                        BP_WORKER_AREA);
  if (rc) {
    job->out = (BpWire){results, results + BP_WORKER_AREA, 0};
    put_error(&job->out);
  }
  bp_error_clear();
  free(job->room);
  return rc;
}

/* The state of a channel's thread. */
typedef struct Served {
  BpWorkerChannel *channel;
  uint32_t index;
  int (*handle)(Job *job);
} Served;

static void serve_request(const Served *served) {
  BpWorkerChannel *channel = served->channel;
  Job job = {.channel = channel,
             .index = served->index,
             .operation = channel->operation,
             .first_chunk = atomic_load(&channel->worker_chunks),
             .in = {channel->arguments, channel->arguments + channel->request_size, 0}};
  channel->status = worker_answer(&job, served->handle, channel->results);
  channel->answer_size = (uint32_t)(job.out.at - channel->results);
}

static void *serve(void *context) {
  const Served *served = context;
  BpWorkerChannel *channel = served->channel;
  for (uint32_t number = 1;; number++) {
    wait_for(channel, &channel->request, number - 1, number);
    serve_request(served);
    atomic_store(&channel->answer, number);
    bp_worker_tell(&channel->worker_word, &channel->host_sleeps);
  }
  return NULL;
}

/* Exits if no thread can be created: without a thread the channel would never answer. */
void worker_serve(BpWorkerChannel *channel, uint32_t index, int (*handle)(Job *job)) {
  static Served served[BP_WORKER_CHANNELS];
  pthread_t thread;
  served[index] = (Served){channel, index, handle};
  if (pthread_create(&thread, NULL, serve, &served[index]))
    exit(1);
  pthread_detach(thread);
}

/* ---- Bytes ------------------------------------------------------------------------------- */

static Blob *allocate_blob(uint64_t size) {
  Blob *blob = size < PTRDIFF_MAX - sizeof *blob ? malloc(sizeof *blob + size + 1) : NULL;
  if (!blob)
    bp_error_raise(BP_ERROR_MEMORY, "the worker has no memory for %llu bytes",
                   (unsigned long long)size);
  else
    blob->size = size;
  return blob;
}

Blob *worker_blob_create(const void *data, uint64_t size) {
  Blob *blob = allocate_blob(size);
  if (blob)
    bp_wire_copy(blob->data, data, size);
  return blob;
}

int worker_put(Job *job) {
  Blob *blob = allocate_blob(bp_wire_get(&job->in));
  if (!blob)
    return -1;
  for (uint64_t at = 0, size; at < blob->size; at += size) {
    const char *part = worker_take_part(job, blob->size - at, &size);
    if (!part) {
      free(blob);
      return -1;
    }
    memcpy(blob->data + at, part, size);
    worker_took_part(job, size);
  }
  blob->data[blob->size] = '\0';
  worker_put_pointer(job, blob);
  return 0;
}

int worker_get(Job *job) {
  Blob *blob = worker_get_pointer(job);
  int rc = 0;
  for (uint64_t at = 0, size; at < blob->size && !rc; at += size) {
    char *room = worker_room_for_part(job, blob->size - at, &size);
    rc = room ? 0 : -1;
    if (room) {
      memcpy(room, blob->data + at, size);
      worker_give_part(job, size);
    }
  }
  free(blob);
  return rc;
}
