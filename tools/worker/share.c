/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that the host shares: parts of the arena, imported into a device that runs on the
 * host's CPU. The host copies to and from that memory by itself.
 *
 * The memory of a freed handle stays reserved until the work that was queued before has ended: an
 * event on each stream of the device tells. */

#include "worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE  UINT64_C(4096)
#define FIRST 64 /* the first capacity of a list */

/* The last point that a stream had reached when memory was freed, or when the stream was freed. */
typedef struct Point {
  const Kind *kind;
  int32_t device_id;
  BpDeviceEvent *event;
  uint64_t from; /* the arena's part that waits for the event; NONE: each freed part waits */
} Point;

typedef struct Part {
  const Kind *kind;
  int32_t device_id;
  uint64_t from, to;
  int is_freed;
  int is_marked; /* whether each stream of the device has a point for this freed part */
} Part;

typedef struct Stream {
  const Kind *kind;
  int32_t device_id;
  void *stream;
} Stream;

#define NONE UINT64_MAX

typedef struct List {
  void *items;
  size_t count, capacity;
} List;

static struct {
  pthread_mutex_t lock; /* guards the lists; held during calls of slots that do not wait */
  char *memory;
  uint64_t size;
  List parts;      /* Part, in the order of addresses */
  size_t unmarked; /* number of freed parts that are not marked */
  List points;
  List streams;
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER};

void worker_set_arena(char *memory, uint64_t size) {
  arena.memory = memory;
  arena.size = size;
}

int worker_has_arena(void) {
  return arena.size != 0;
}

/* ---- Lists ------------------------------------------------------------------------------- */

/* Makes room for an item at `index`. NULL: memory is exhausted. */
static void *insert(List *list, size_t index, size_t size) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : FIRST;
    void *items = realloc(list->items, capacity * size);
    if (!items)
      return NULL;
    list->items = items;
    list->capacity = capacity;
  }
  char *at = (char *)list->items + index * size;
  memmove(at + size, at, (list->count - index) * size);
  list->count++;
  return at;
}

static void take_out(List *list, size_t index, size_t size) {
  char *at = (char *)list->items + index * size;
  list->count--;
  memmove(at, at + size, (list->count - index) * size);
}

/* ---- Points ------------------------------------------------------------------------------ */

/* Adds the point that a stream has reached. -1: the device cannot tell it. */
static int add_point(const Stream *stream, uint64_t from) {
  const BpEventsApi *events = stream->kind->events;
  void *context = stream->kind->api->context;
  BpDeviceEvent *event = NULL;
  if (events->create(context, stream->device_id, &event))
    return -1;
  Point *point = events->record(context, event, stream->stream)
                     ? NULL
                     : insert(&arena.points, arena.points.count, sizeof *point);
  if (!point) {
    events->free(context, event);
    return -1;
  }
  *point = (Point){stream->kind, stream->device_id, event, from};
  return 0;
}

/* A point that cannot be queried stays: its device is broken. */
static int is_passed(const Point *point) {
  int32_t state = BP_EVENT_PENDING;
  return !point->kind->events->query(point->kind->api->context, point->event, &state) &&
         state != BP_EVENT_PENDING;
}

static void drop_point(size_t index) {
  const Point *point = (const Point *)arena.points.items + index;
  point->kind->events->free(point->kind->api->context, point->event);
  take_out(&arena.points, index, sizeof *point);
}

static void drop_passed_points(void) {
  for (size_t i = arena.points.count; i-- > 0;)
    if (is_passed((const Point *)arena.points.items + i))
      drop_point(i);
}

static int is_awaited(const Part *part) {
  for (size_t i = 0; i < arena.points.count; i++) {
    const Point *point = (const Point *)arena.points.items + i;
    if (point->kind == part->kind && point->device_id == part->device_id &&
        (point->from == NONE || point->from == part->from))
      return 1;
  }
  return 0;
}

/* Adds a point of each stream of the part's device; -1, without points, if a stream cannot be
 * asked. */
static int add_points(const Part *part) {
  const Stream first = {part->kind, part->device_id, NULL};
  size_t before = arena.points.count;
  int rc = add_point(&first, part->from);
  for (size_t i = 0; i < arena.streams.count && !rc; i++) {
    const Stream *stream = (const Stream *)arena.streams.items + i;
    if (stream->kind == part->kind && stream->device_id == part->device_id)
      rc = add_point(stream, part->from);
  }
  while (rc && arena.points.count > before)
    drop_point(arena.points.count - 1);
  return rc;
}

/* ---- Parts ------------------------------------------------------------------------------- */

/* Marks freed parts, including those whose points could not be added before. A point that is added
 * later is reached later. */
static void mark_parts(void) {
  for (size_t i = 0; i < arena.parts.count && arena.unmarked; i++) {
    Part *part = (Part *)arena.parts.items + i;
    if (!part->is_freed || part->is_marked || add_points(part))
      continue;
    part->is_marked = 1;
    arena.unmarked--;
  }
}

/* Returns the memory of freed parts that no work uses any more. */
static void return_parts(void) {
  mark_parts();
  drop_passed_points();
  for (size_t i = arena.parts.count; i-- > 0;) {
    const Part *part = (const Part *)arena.parts.items + i;
    if (!part->is_marked || is_awaited(part))
      continue;
    madvise(arena.memory + part->from, part->to - part->from, MADV_REMOVE);
    take_out(&arena.parts, i, sizeof *part);
  }
}

void worker_return_parts(void) {
  pthread_mutex_lock(&arena.lock);
  if (arena.points.count || arena.unmarked)
    return_parts();
  pthread_mutex_unlock(&arena.lock);
  bp_error_clear();
}

/* Reserves the first gap of at least `size` bytes. */
static uint64_t reserve(const Kind *kind, int32_t device_id, uint64_t size) {
  uint64_t from = 0;
  size_t i = 0;
  for (; i < arena.parts.count; i++) {
    const Part *next = (const Part *)arena.parts.items + i;
    if (next->from - from >= size)
      break;
    from = next->to;
  }
  if (arena.size - from < size)
    return NONE;
  Part *part = insert(&arena.parts, i, sizeof *part);
  if (!part)
    return NONE;
  *part = (Part){kind, device_id, from, from + size, 0, 0};
  return from;
}

static Part *find_part(uint64_t from, size_t *index) {
  for (*index = 0; *index < arena.parts.count; ++*index) {
    Part *part = (Part *)arena.parts.items + *index;
    if (part->from == from && !part->is_freed)
      return part;
  }
  return NULL;
}

/* ---- Devices ----------------------------------------------------------------------------- */

/* Returns an attribute; 0 if the device does not say it. */
static int64_t get_number(const Kind *kind, int32_t device_id, int32_t attr) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  int rc = kind->api->get_attr(kind->api->context, device_id, attr, &value);
  int64_t number = !rc && value.type_index == BP_TYPE_INT ? value.v_int64 : 0;
  bp_value_clear(&value);
  return number;
}

/* Only a software driver has its memory in the host's: for another device, imported memory is far
 * away. */
static int can_share(const Kind *kind, int32_t device_id) {
  uint64_t imports = 0, exports = 0, alignment = 0;
  if (!arena.size || !kind->external || !kind->events)
    return 0;
  int64_t rank = get_number(kind, device_id, BP_ATTR_RANK);
  return rank > 0 && rank < 100 &&
         !kind->external->get_forms(kind->api->context, device_id, &imports, &exports,
                                    &alignment) &&
         (imports & BP_EXTERNAL_HOST_POINTER) && alignment <= PAGE;
}

/* Drivers do not count imported memory. Freed parts count no more, although work may still use
 * them. */
static int check_total(const Kind *kind, int32_t device_id, uint64_t size) {
  uint64_t total = (uint64_t)get_number(kind, device_id, BP_ATTR_TOTAL_GLOBAL_MEMORY), used = 0;
  pthread_mutex_lock(&arena.lock);
  for (size_t i = 0; i < arena.parts.count; i++) {
    const Part *part = (const Part *)arena.parts.items + i;
    if (part->kind == kind && part->device_id == device_id && !part->is_freed)
      used += part->to - part->from;
  }
  pthread_mutex_unlock(&arena.lock);
  return !total || (used <= total && size <= total - used)
             ? 0
             : bp_error_raise(
                   BP_ERROR_MEMORY,
                   "%s: no memory for %llu bytes; the device has %llu bytes, and %llu are "
                   "allocated",
                   kind->api->name, (unsigned long long)size, (unsigned long long)total,
                   (unsigned long long)used);
}

static int import(const Kind *kind, int32_t device_id, uint64_t from, uint64_t size,
                  void **handle) {
  const BpExternalMemory memory = {.struct_size = sizeof memory,
                                   .size = size,
                                   .address = arena.memory + from,
                                   .form = BP_EXTERNAL_HOST_POINTER};
  return kind->external->import_memory(kind->api->context, device_id, &memory, handle);
}

/* Allocates from the arena. *handle is NULL if this device cannot use the arena. */
static uint64_t allocate(const Kind *kind, int32_t device_id, uint64_t size, void **handle) {
  size_t index;
  pthread_mutex_lock(&arena.lock);
  uint64_t from = reserve(kind, device_id, (size + PAGE - 1) / PAGE * PAGE);
  pthread_mutex_unlock(&arena.lock);
  if (from == NONE || !import(kind, device_id, from, size, handle))
    return from;
  *handle = NULL;
  pthread_mutex_lock(&arena.lock);
  if (find_part(from, &index))
    take_out(&arena.parts, index, sizeof(Part));
  pthread_mutex_unlock(&arena.lock);
  bp_error_clear();
  return NONE;
}

/* The answer 0 is no error: the host then allocates the device's own memory. */
int worker_share(Job *job) {
  int32_t device_id;
  void *handle = NULL;
  uint64_t from = NONE;
  const Kind *kind = worker_get_place(job, &device_id);
  uint64_t size = bp_wire_get(&job->in);
  if (!kind)
    return -1;
  worker_return_parts();
  if (size && size <= arena.size && can_share(kind, device_id)) {
    if (check_total(kind, device_id, size))
      return -1;
    from = allocate(kind, device_id, size, &handle);
  }
  bp_error_clear();
  worker_put_pointer(job, handle);
  bp_wire_put(&job->out, from);
  return 0;
}

/* A part stays reserved as long as its streams cannot be asked. */
int worker_unshare(Job *job) {
  int32_t device_id;
  size_t index;
  const Kind *kind = worker_get_place(job, &device_id);
  void *handle = worker_get_pointer(job);
  uint64_t from = bp_wire_get(&job->in);
  if (!kind || kind->api->free_data_space(kind->api->context, device_id, handle))
    return -1;
  pthread_mutex_lock(&arena.lock);
  Part *part = find_part(from, &index);
  if (part) {
    part->is_freed = 1;
    arena.unmarked++;
  }
  return_parts();
  pthread_mutex_unlock(&arena.lock);
  bp_error_clear();
  return 0;
}

/* ---- Copies ------------------------------------------------------------------------------ */

static int hand_over(Job *job, int is_in) {
  static const BpDevice host = {BP_DEVICE_CPU, 0};
  BpCopy copy = {.struct_size = sizeof copy};
  BpDevice device = host;
  const Kind *kind = worker_get_place(job, &device.device_id);
  void *handle = worker_get_pointer(job);
  uint64_t offset = bp_wire_get(&job->in);
  copy.size = bp_wire_get(&job->in);
  void *stream = worker_get_pointer(job);
  char *address = arena.memory + bp_wire_get(&job->in);
  if (!kind)
    return -1;
  device.device_type = kind->api->device_type;
  copy.from = is_in ? address : handle;
  copy.to = is_in ? handle : address;
  copy.from_offset = copy.to_offset = offset;
  copy.from_device = is_in ? host : device;
  copy.to_device = is_in ? device : host;
  return kind->api->copy(kind->api->context, &copy, stream) ||
                 (!is_in && kind->api->stream_sync(kind->api->context, device.device_id, stream))
             ? -1
             : 0;
}

int worker_hand_in(Job *job) {
  return hand_over(job, 1);
}

int worker_hand_out(Job *job) {
  return hand_over(job, 0);
}

/* ---- Streams ----------------------------------------------------------------------------- */

int worker_note_stream(const Kind *kind, int32_t device_id, void *stream) {
  if (!kind->external || !kind->events)
    return 0;
  pthread_mutex_lock(&arena.lock);
  Stream *noted = insert(&arena.streams, arena.streams.count, sizeof *noted);
  if (noted)
    *noted = (Stream){kind, device_id, stream};
  pthread_mutex_unlock(&arena.lock);
  return noted ? 0 : bp_error_raise(BP_ERROR_MEMORY, "no memory for the list of streams");
}

static void take_stream_out(const Stream *stream) {
  for (size_t i = 0; i < arena.streams.count; i++) {
    const Stream *noted = (const Stream *)arena.streams.items + i;
    if (noted->kind != stream->kind || noted->device_id != stream->device_id ||
        noted->stream != stream->stream)
      continue;
    take_out(&arena.streams, i, sizeof *noted);
    return;
  }
}

/* Without a point the stream's work has to end before the stream is forgotten: later nothing would
 * keep the memory that the work uses. */
void worker_forget_stream(const Kind *kind, int32_t device_id, void *stream) {
  const Stream freed = {kind, device_id, stream};
  if (!kind->external || !kind->events)
    return;
  pthread_mutex_lock(&arena.lock);
  int is_lost = arena.parts.count && add_point(&freed, NONE);
  pthread_mutex_unlock(&arena.lock);
  if (is_lost)
    kind->api->stream_sync(kind->api->context, device_id, stream);
  pthread_mutex_lock(&arena.lock);
  take_stream_out(&freed);
  pthread_mutex_unlock(&arena.lock);
  bp_error_clear();
}
