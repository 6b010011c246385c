/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between the plugin worker, in the host's process, and the program backplane-worker.
 *
 * The plugin and the program share memory: a header, and channels. One call at a time runs through
 * a channel: the host writes an operation and its arguments, and the worker answers with a status
 * and results. A thread of the worker serves each channel, so that calls of several threads of the
 * host run at once.
 *
 * The arena follows the channels. If a device runs on the host's CPU and can import host memory,
 * its larger allocations are parts of the arena, and the host copies to and from these parts. For a
 * copy to the device the host waits for the stream, copies, and hands the bytes over (HAND_IN). For
 * a copy from the device the host takes the bytes (HAND_OUT), and copies. The worker reserves the
 * parts; the host checks their places.
 *
 * Bytes for other memory move through the channel's chunks while a call is under way: one side
 * fills chunk i % BP_WORKER_CHUNKS and adds 1 to its counter, the other side empties the chunk and
 * adds 1 to its own counter. Neither side gets more than BP_WORKER_CHUNKS ahead of the other.
 *
 * Waiting: each side has a word, which it increments after each step. The other side polls this
 * counting word for some microseconds, then sets its flag `sleeps` and waits for a change with a
 * futex.
 *
 * A socket of packets (SOCK_SEQPACKET) carries the worker's pidfd, the descriptor of the shared
 * memory, requests to serve one more channel, and messages for the log. When one process ends, the
 * other one reads the end of the socket.
 *
 * A relay connects to a worker on another machine: a process of backplane-worker on this machine,
 * which the host treats as its worker. The relay passes operations, arguments and results on,
 * unchanged, in frames of a stream of bytes.
 *
 * The host does not trust a worker, which may have a fault. The host reads each counter once,
 * copies an answer before it reads the copy, and checks every length. The relay checks every frame
 * of the other machine. */
#ifndef BP_WORKER_PROTOCOL_H
#define BP_WORKER_PROTOCOL_H

#include <backplane/value.h>

#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BP_WORKER_VERSION 5
#define BP_WORKER_MAGIC   0x42504b57u

#define BP_WORKER_CHANNELS 64
#define BP_WORKER_AREA     65536 /* bytes of a call's arguments, and of its results */
/* A chunk is at least as large as a processor's own cache: the reader gets a chunk that left the
 * writer's cache several times faster than one that is still in it. All chunks together fit in the
 * shared cache: with 16 MiB of chunks each byte would go to memory and back once more. */
#define BP_WORKER_CHUNKS     4
#define BP_WORKER_CHUNK_SIZE ((size_t)1 << 20)
/* Copies up to this size travel with the arguments. */
#define BP_WORKER_INLINE_MAX 32768

/* The worker's file descriptor of the socket. */
#define BP_WORKER_SOCKET 3

/* Values of BpWorkerHeader::end other than the number of a signal: the worker called exit(); a
 * relay lost the stream; a relay read malformed frames. */
#define BP_WORKER_EXITED       1000
#define BP_WORKER_DISCONNECTED 1001
#define BP_WORKER_GARBLED      1002

typedef struct BpWorkerHeader {
  _Atomic uint32_t end;      /* 0 while the worker runs, and after SIGKILL */
  _Atomic uint32_t num_logs; /* number of messages sent to the log */
} BpWorkerHeader;
#define BP_WORKER_HEADER_SIZE 4096

typedef struct BpWorkerChannel {
  /* Members up to first_chunk are written by the host. */
  _Alignas(64) _Atomic uint32_t host_word;
  _Atomic uint32_t request;     /* the number of requests */
  _Atomic uint32_t host_chunks; /* chunks filled or emptied by the host; wraps around */
  _Atomic uint32_t host_sleeps;
  uint32_t operation;
  uint32_t request_size;
  uint32_t first_chunk; /* host_chunks at the start of this call */
  /* Members below are written by the worker. */
  _Alignas(64) _Atomic uint32_t worker_word;
  _Atomic uint32_t answer;        /* the number of answers */
  _Atomic uint32_t worker_chunks; /* chunks filled or emptied by the worker; wraps around */
  _Atomic uint32_t worker_sleeps;
  int32_t status; /* 0; or -1: the results are the kind and the message of an error */
  uint32_t answer_size;
  _Alignas(4096) char arguments[BP_WORKER_AREA];
  char results[BP_WORKER_AREA];
  char chunks[BP_WORKER_CHUNKS][BP_WORKER_CHUNK_SIZE];
} BpWorkerChannel;

#define BP_WORKER_MEMORY_SIZE (BP_WORKER_HEADER_SIZE + BP_WORKER_CHANNELS * sizeof(BpWorkerChannel))

static inline BpWorkerChannel *bp_worker_channel(void *memory, uint32_t index) {
  char *first = (char *)memory + BP_WORKER_HEADER_SIZE;
  return (BpWorkerChannel *)(void *)(first + index * sizeof(BpWorkerChannel));
}

/* ---- Operations -------------------------------------------------------------------------- */

/* The operations. A change of the list of operations needs a new BP_WORKER_VERSION. Arguments and
 * results are 64-bit numbers, and byte strings preceded by their size. `place` is the number of a
 * device kind and a device index. */
#define BP_WORKER_OPERATIONS(X)                                                                    \
  X(LIST, list)                   /* -> blob, size: plugins (tools/worker/list.c) */               \
  X(OPEN, open)                   /* plugin, names of kinds -> device kinds, target kinds */       \
  X(COUNT, count)                 /* kind -> count, why */                                         \
  X(ATTR, attr)                   /* place, attribute -> value */                                  \
  X(PROPERTIES, properties)       /* place -> (name, value)... */                                  \
  X(ALLOC, alloc)                 /* place, size, alignment, dtype, flags, scope -> handle */      \
  X(FREE, free)                   /* place, handle */                                              \
  X(COPY_IN, copy_in)             /* place, handle, offset, size, stream, [bytes]; chunks */       \
  X(COPY_OUT, copy_out)           /* arguments of COPY_IN; chunks or -> bytes */                   \
  X(SHARE, share)                 /* place, size -> handle or 0, place in the arena */             \
  X(UNSHARE, unshare)             /* place, handle, place in the arena */                          \
  X(HAND_IN, hand_in)             /* place, handle, offset, size, stream, place in the arena */    \
  X(HAND_OUT, hand_out)           /* arguments of HAND_IN; waits for the stream */                 \
  X(COPY_WITHIN, copy_within)     /* place, handle, offset, index, handle, offset, size, stream */ \
  X(STREAM_CREATE, stream_create) /* place -> stream */                                            \
  X(STREAM_FREE, stream_free)     /* place, stream */                                              \
  X(STREAM_ORDER, stream_order)   /* place, from, to */                                            \
  X(STREAM_SYNC, stream_sync)     /* place, stream */                                              \
  X(EVENT_CREATE, event_create)   /* place -> event */                                             \
  X(EVENT_FREE, event_free)       /* kind, event */                                                \
  X(EVENT_RECORD, event_record)   /* kind, event, stream */                                        \
  X(EVENT_WAIT, event_wait)       /* kind, event, stream */                                        \
  X(EVENT_QUERY, event_query)     /* kind, event -> state */                                       \
  X(EVENT_SYNC, event_sync)       /* kind, event, nanoseconds -> state */                          \
  X(EVENT_HOLD, event_hold)       /* kind, event */                                                \
  X(EVENT_SIGNAL, event_signal)   /* kind, event */                                                \
  X(TIMER_START, timer_start)     /* place, stream -> timer */                                     \
  X(TIMER_STOP, timer_stop)       /* kind, timer, stream */                                        \
  X(TIMER_READ, timer_read)       /* kind, timer -> nanoseconds */                                 \
  X(TIMER_FREE, timer_free)       /* kind, timer */                                                \
  X(PUT, put)                     /* size; chunks -> blob */                                       \
  X(GET, get)                     /* frees the blob; chunks */                                     \
  X(MODULE_LOAD, module_load)     /* kind of module, blob -> module, property, functions */        \
  X(MODULE_SOURCE, module_source) /* module, format -> has one, blob, size */                      \
  X(MODULE_FREE, module_free)     /* module */                                                     \
  X(FUNCTION, function)           /* module, name -> function, 0: none */                          \
  X(FUNCTION_FREE, function_free) /* function */                                                   \
  X(LAUNCH, launch)               /* place, stream, function, arguments */                         \
  X(COMPLETE, complete)           /* target as JSON -> values of its attributes */                 \
  X(BUILD, build) /* target kind, target as JSON, blob of IR -> kind, blob, size, as MODULE_LOAD   \
                   */                                                                              \
  X(GRAPH_COMPILER, graph_compiler) /* name -> has one, device type, flags */                      \
  X(CLAIM, claim)                   /* name, target as JSON, blob of a graph -> blob, size */      \
  X(COMPILE, compile)               /* arguments of CLAIM, function name -> as BUILD */

#define BP_WORKER_NUMBER_(upper, lower) BP_WORKER_##upper,
enum { BP_WORKER_OPERATIONS(BP_WORKER_NUMBER_) BP_WORKER_NUM_OPERATIONS };

/* The functions of a module are sent as their number and a byte string of their names, each with
 * its NUL. A longer string is sent as an empty string, then a blob and its size. */
#define BP_WORKER_NAMES_MAX 16384

/* A graph is a blob of numbers and of pieces. A piece is its size, its bytes, and zeros up to this
 * boundary, on which a blob begins. A text is a piece with its NUL; NULL is an empty piece. The
 * graph begins with counts of the objects to allocate: values, nodes, attributes, texts in lists,
 * tensors in attributes. Pieces with its inputs and outputs follow, then values and nodes, as
 * plugins/worker/graph.c writes and tools/worker/graph.c reads them. */
#define BP_WORKER_PIECE_ALIGN 8

/* The answer to CLAIM is a list of the plugin's calls to BpClaims. A call is sent as
 * BP_WORKER_TAKEN or BP_WORKER_DECLINED, the node, the bits of the cost, whether there is a reason,
 * and the reason. The host repeats the calls; the last one may have failed, and the host's error
 * then names it. */
#define BP_WORKER_TAKEN    1
#define BP_WORKER_DECLINED 2

/* Flags of a device kind in the answer to OPEN. */
#define BP_WORKER_HAS_STREAMS    1
#define BP_WORKER_HAS_PROPERTIES 2
#define BP_WORKER_HAS_EVENTS     4
#define BP_WORKER_HAS_HOLD       8 /* the host can complete events */
#define BP_WORKER_HAS_TIMERS     16
#define BP_WORKER_HAS_SHARES     32 /* SHARE may succeed */

/* ---- Packets of the socket --------------------------------------------------------------- */

#define BP_WORKER_PACKET_HELLO 1 /* from the worker, first: number = BP_WORKER_VERSION, a pidfd */
#define BP_WORKER_PACKET_MEMORY                                                                    \
  2                              /* from the host: number = size of memory and arena; descriptor   \
                                  */
#define BP_WORKER_PACKET_SERVE 3 /* from the host: number = the channel to serve */
#define BP_WORKER_PACKET_LOG   4 /* from the worker: number = BP_LOG_*; text = the message */

#define BP_WORKER_TEXT_MAX 1024

typedef struct BpWorkerPacket {
  uint32_t magic;
  uint32_t type;
  uint64_t number;
  char text[BP_WORKER_TEXT_MAX]; /* NUL-terminated in LOG; other packets end before `text` */
} BpWorkerPacket;
#define BP_WORKER_PACKET_SIZE offsetof(BpWorkerPacket, text)

/* ---- Frames of a stream ------------------------------------------------------------------ */

/* The first bytes that a worker sends. The numbers are in the sender's byte order, so a different
 * byte order gives a different magic. */
typedef struct BpWorkerGreeting {
  uint32_t magic;
  uint32_t version;
} BpWorkerGreeting;

/* A queued request has no answer, so that a run of a model is one round trip. The worker runs
 * queued requests in the order of the stream, before later requests. The failure of a queued
 * request is raised by later calls on its stream of the device, as asynchronous failures do
 * (device_api.h). */
#define BP_WORKER_FRAME_REQUEST 1 /* from the relay: number = operation; bytes = arguments */
#define BP_WORKER_FRAME_QUEUED  7 /* a REQUEST without an answer */
#define BP_WORKER_FRAME_ANSWER  2 /* from the worker: number = the status; bytes = the results */
#define BP_WORKER_FRAME_PART    3 /* from the worker, before the answer: bytes = bytes of a chunk */
#define BP_WORKER_FRAME_DONE    4 /* from the worker: number = bytes of queued requests that ran */
#define BP_WORKER_FRAME_LOG     5 /* from the worker: number = BP_LOG_*; bytes = the text */
#define BP_WORKER_FRAME_END     6 /* from the worker: number = BpWorkerHeader::end */

/* The header of a frame; `size` bytes follow. Bytes that a request moves through chunks in shared
 * memory are appended to its arguments in the frame; the relay makes one COPY_IN of each chunk. */
typedef struct BpWorkerFrame {
  uint32_t type;
  uint32_t channel;
  uint64_t number;
  uint64_t size;
} BpWorkerFrame;

/* The most bytes of queued requests that a relay has in flight. */
#define BP_WORKER_QUEUED_MAX ((uint64_t)16 << 20)

/* ---- Arguments and results --------------------------------------------------------------- */

/* A position in an area. Writing or reading beyond the end sets is_bad; reading then returns 0. */
typedef struct BpWire {
  char *at;
  char *end;
  int32_t is_bad;
} BpWire;

static inline char *bp_wire_skip(BpWire *wire, uint64_t size) {
  char *at = wire->at;
  if (wire->is_bad || size > (uint64_t)(wire->end - at)) {
    wire->is_bad = 1;
    return NULL;
  }
  wire->at += size;
  return at;
}

static inline void bp_wire_put(BpWire *wire, uint64_t number) {
  char *at = bp_wire_skip(wire, sizeof number);
  if (at)
    memcpy(at, &number, sizeof number);
}

/* Calls memcpy, which must not get NULL, only if there are bytes. */
static inline void bp_wire_copy(void *to, const void *from, size_t size) {
  if (size)
    memcpy(to, from, size);
}

static inline void bp_wire_put_bytes(BpWire *wire, const void *bytes, size_t size) {
  bp_wire_put(wire, size);
  char *at = bp_wire_skip(wire, size);
  if (at)
    bp_wire_copy(at, bytes, size);
}

static inline void bp_wire_put_str(BpWire *wire, const char *text) {
  bp_wire_put_bytes(wire, text, strlen(text));
}

static inline uint64_t bp_wire_get(BpWire *wire) {
  uint64_t number = 0;
  const char *at = bp_wire_skip(wire, sizeof number);
  if (at)
    memcpy(&number, at, sizeof number);
  return number;
}

/* Reads bytes; the result is borrowed from the area. */
static inline BpByteArray bp_wire_get_bytes(BpWire *wire) {
  uint64_t size = bp_wire_get(wire);
  const char *at = bp_wire_skip(wire, size);
  return (BpByteArray){at ? at : "", at ? size : 0};
}

/* Reads a text (free). NULL if the area is bad, the text contains a NUL, or there is no memory. */
static inline char *bp_wire_get_str(BpWire *wire) {
  BpByteArray bytes = bp_wire_get_bytes(wire);
  return wire->is_bad || memchr(bytes.data, '\0', bytes.size) ? NULL
                                                              : strndup(bytes.data, bytes.size);
}

/* Encodes a data type as a number, and decodes it. */
static inline uint64_t bp_wire_of_dtype(BpDataType dtype) {
  uint64_t number = 0;
  memcpy(&number, &dtype, sizeof dtype);
  return number;
}

static inline BpDataType bp_wire_to_dtype(uint64_t number) {
  BpDataType dtype;
  memcpy(&dtype, &number, sizeof dtype);
  return dtype;
}

/* ---- Waiting ----------------------------------------------------------------------------- */

static inline void bp_worker_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Increments this side's word, and wakes the other side if it sleeps. */
static inline void bp_worker_tell(_Atomic uint32_t *word, const _Atomic uint32_t *other_sleeps) {
  atomic_fetch_add(word, 1);
  if (atomic_load(other_sleeps))
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits until the other side's word differs from `seen`, for at most `nanoseconds`. */
static inline void bp_worker_sleep(_Atomic uint32_t *word, uint32_t seen,
                                   _Atomic uint32_t *own_sleeps, int64_t nanoseconds) {
  const struct timespec timeout = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  atomic_store(own_sleeps, 1);
  if (atomic_load(word) == seen)
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
  atomic_store(own_sleeps, 0);
}

static inline int64_t bp_worker_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
