/* SPDX-License-Identifier: Apache-2.0 */
/* The layer validate: finds calls that break the rules of device_api.h.
 *
 * For a finding, the call fails without being made, and the log gets a warning, since not every
 * caller checks for errors. The layer reports nothing that it cannot know: what a launch does with
 * a buffer, or memory of another library on a device whose handles are addresses. */
#include "validate.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The most recently freed handles, told apart from handles that never existed. */
#define MOST_FREED 256

/* The most handles that a report of leaks names. */
#define MOST_NAMED 8

typedef struct Freed {
  int32_t device_id;
  const void *handle;
  BpValidatePlace place;
} Freed;

enum { TIMER, RECORDING, EVENT, NUM_TYPES };
static const char *const types[] = {"timer", "recording", "event"};

/* A timer, a recording or an event. */
typedef struct Object {
  BpLayersEntry entry;
  int32_t device_id;
  int type;
  int is_stopped;
  BpValidateAccess *accesses; /* accesses of a recording */
  BpValidateWaits waits;      /* work that must complete before an event */
  int is_held;                /* the host holds the event, for work that this layer does not see */
} Object;

typedef struct State {
  pthread_mutex_t lock;
  const BpDeviceApi *next;
  int32_t count; /* number of devices; -1: not known */
  BpLayersTable spaces, objects;
  BpValidateOrder order;
  uint64_t last_space;
  Freed freed[MOST_FREED];
  size_t num_freed; /* number of all handles ever freed */
} State;

/* ---- Facts ------------------------------------------------------------------------------- */

/* Whether handles are addresses, so that memory from other allocators may be used here. */
static int has_addresses(const State *state) {
  switch (state->next->device_type) {
  case BP_DEVICE_CPU:
  case BP_DEVICE_CUDA:
  case BP_DEVICE_CUDA_HOST:
  case BP_DEVICE_ROCM:
    return 1;
  default:
    return 0;
  }
}

static int takes_device(BpSlot slot) {
  switch (slot) {
  case SLOT_GET_DEVICE_COUNT:
  case SLOT_GET_EXTENSION:
  case SLOT_TIMER_STOP:
  case SLOT_TIMER_READ:
  case SLOT_TIMER_FREE:
  case SLOT_RECORDING_REPLAY:
  case SLOT_RECORDING_FREE:
  case SLOT_EVENTS_FREE:
  case SLOT_EVENTS_RECORD:
  case SLOT_EVENTS_WAIT:
  case SLOT_EVENTS_QUERY:
  case SLOT_EVENTS_SYNCHRONIZE:
  case SLOT_EVENTS_NOTIFY:
  case SLOT_EVENTS_HOLD:
  case SLOT_EVENTS_SIGNAL:
    return 0;
  default:
    return 1;
  }
}

static int32_t check_device(const State *state, const BpCall *call) {
  if (!takes_device(call->slot) || state->count < 0 ||
      (call->device_id >= 0 && call->device_id < state->count))
    return 0;
  return bp_validate_find(state->next, call, BP_ERROR_INDEX, "there is no device %d: there are %d",
                          call->device_id, state->count);
}

/* ---- Handles ----------------------------------------------------------------------------- */

static const Freed *find_freed(const State *state, int32_t device_id, const void *handle) {
  for (size_t i = 0; i < MOST_FREED && i < state->num_freed; i++)
    if (state->freed[i].handle == handle && state->freed[i].device_id == device_id)
      return &state->freed[i];
  return NULL;
}

static void remember_freed(State *state, int32_t device_id, const void *handle) {
  Freed *freed = &state->freed[state->num_freed++ % MOST_FREED];
  freed->device_id = device_id;
  freed->handle = handle;
  bp_validate_place_here(&freed->place);
}

static void forget_freed(State *state, int32_t device_id, const void *handle) {
  for (size_t i = 0; i < MOST_FREED && i < state->num_freed; i++)
    if (state->freed[i].handle == handle && state->freed[i].device_id == device_id)
      state->freed[i].handle = NULL;
}

typedef struct Search {
  const char *address; /* the beginning of a space, or an address inside it */
  int is_within;
  BpValidateSpace *found;
} Search;

static void match_space(void *record, void *context) {
  BpValidateSpace *space = record;
  Search *search = context;
  const char *begin = space->entry.handle;
  if (search->address == begin ||
      (search->is_within && search->address > begin && search->address < begin + space->size))
    search->found = space;
}

static BpValidateSpace *find_anywhere(const State *state, const void *address, int is_within) {
  Search search = {address, is_within, NULL};
  bp_layers_each(&state->spaces, match_space, &search);
  return search.found;
}

/* Raises the reason why a handle is invalid. */
static int32_t find_no_handle(const State *state, const BpCall *call, int32_t device_id,
                              const void *handle, const char *role) {
  char place[512];
  const Freed *freed = find_freed(state, device_id, handle);
  const BpValidateSpace *other = find_anywhere(state, handle, 0);
  if (freed) {
    bp_validate_place_format(&freed->place, place, sizeof place);
    return bp_validate_find(state->next, call, BP_ERROR_VALUE, "%s %p was freed by %s", role,
                            handle, place);
  }
  if (other)
    return bp_validate_find(
        state->next, call, BP_ERROR_VALUE, "%s %p is memory of %s:%d, not of %s:%d", role, handle,
        state->next->name, other->entry.device_id, state->next->name, device_id);
  return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                          "%s %p is no handle that alloc_data_space or alloc_workspace gave", role,
                          handle);
}

/* ---- Streams ----------------------------------------------------------------------------- */

typedef struct StreamSearch {
  const void *handle;
  const BpValidateStream *found;
} StreamSearch;

static void match_stream(void *record, void *context) {
  const BpValidateStream *stream = record;
  StreamSearch *search = context;
  if (stream->entry.handle == search->handle)
    search->found = stream;
}

/* Finds a stream. *stream is NULL without an error if there is no memory for its record. */
static int32_t check_stream(State *state, const BpCall *call, int32_t device_id, void *handle,
                            BpValidateStream **stream) {
  StreamSearch search = {handle, NULL};
  *stream = bp_validate_stream(&state->order, device_id, handle);
  if (*stream || !handle)
    return 0;
  bp_layers_each(&state->order.streams, match_stream, &search);
  if (search.found)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "%p is a stream of %s:%d, not of %s:%d", handle, state->next->name,
                            search.found->entry.device_id, state->next->name, device_id);
  return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                          "%p is no stream of %s:%d, or one that was freed", handle,
                          state->next->name, device_id);
}

static int is_recorded_here(const BpValidateStream *stream) {
  return stream->is_recorded && pthread_equal(stream->recorder, pthread_self());
}

/* ---- Uses of memory ---------------------------------------------------------------------- */

/* A use of memory by a piece of work. */
typedef struct Use {
  int32_t device_id;
  void *handle;
  uint64_t offset, size;
  int is_whole; /* use the size of the space */
  BpValidateUse use;
  const char *role; /* the word for messages, such as "source" */
} Use;

static BpValidateSpace *find_used(const State *state, const Use *use, uint64_t *from) {
  BpValidateSpace *space = bp_layers_find(&state->spaces, use->device_id, use->handle);
  *from = use->offset;
  if (space || state->next->device_type != BP_DEVICE_CPU)
    return space;
  const char *address = (const char *)use->handle + use->offset;
  space = find_anywhere(state, address, 1);
  if (space)
    *from = (uint64_t)(address - (const char *)space->entry.handle);
  return space;
}

static int32_t check_order(State *state, const BpCall *call, const BpValidateStream *stream,
                           BpValidateSpace *space, const BpValidateAccess *access,
                           const char *role) {
  const BpValidateAccess *other = bp_validate_unordered(&state->order, space, stream, access);
  if (!other)
    return 0;
  return bp_validate_find(
      state->next, call, BP_ERROR_RUNTIME,
      "%s: bytes %" PRIu64 " to %" PRIu64 " of %p are used by a %s queued on another stream, for "
      "which this stream (%p) does not wait; call stream_sync or sync_stream_from_to in between",
      role, other->from, other->to, space->entry.handle, bp_layers_slot_name(other->slot),
      stream->entry.handle);
}

/* Checks a use. Sets *access to its description and *space to its space; *space is NULL if the
 * memory is unknown. */
static int32_t check_use(State *state, const BpCall *call, const BpValidateStream *stream,
                         const Use *use, BpValidateSpace **space, BpValidateAccess *access) {
  uint64_t from;
  *space = find_used(state, use, &from);
  if (!*space)
    return has_addresses(state)
               ? 0
               : find_no_handle(state, call, use->device_id, use->handle, use->role);
  uint64_t size = use->is_whole ? (*space)->size : use->size;
  if (from > (*space)->size || size > (*space)->size - from)
    return bp_validate_find(state->next, call, BP_ERROR_INDEX,
                            "%s: %" PRIu64 " bytes from byte %" PRIu64
                            " on do not lie in the %" PRIu64 " bytes of %p",
                            use->role, size, from, (*space)->size, (*space)->entry.handle);
  *access = (BpValidateAccess){.from = from,
                               .to = from + size,
                               .use = use->use,
                               .slot = call->slot,
                               .device_id = (*space)->entry.device_id,
                               .handle = (void *)(uintptr_t)(*space)->entry.handle,
                               .space = (*space)->number};
  return !stream || is_recorded_here(stream)
             ? 0
             : check_order(state, call, stream, *space, access, use->role);
}

/* Notes a use by queued work, or adds it to the recording. */
static void note_use(State *state, BpValidateStream *stream, BpValidateSpace *space,
                     const BpValidateAccess *access) {
  if (!is_recorded_here(stream)) {
    bp_validate_note(&state->order, space, stream, access);
    return;
  }
  BpValidateAccess *recorded = malloc(sizeof *recorded);
  if (!recorded)
    return;
  *recorded = *access;
  recorded->next = stream->recorded;
  stream->recorded = recorded;
}

/* Checks a use of a call; if `is_queued`, notes it instead. */
static int32_t visit_use(State *state, const BpCall *call, BpValidateStream *stream, const Use *use,
                         int is_queued) {
  BpValidateSpace *space = NULL;
  BpValidateAccess access;
  if (!is_queued)
    return check_use(state, call, stream, use, &space, &access);
  uint64_t from;
  space = find_used(state, use, &from);
  if (!space || !stream)
    return 0;
  access = (BpValidateAccess){.from = from,
                              .to = from + (use->is_whole ? space->size : use->size),
                              .use = use->use,
                              .slot = call->slot,
                              .device_id = space->entry.device_id,
                              .handle = (void *)(uintptr_t)space->entry.handle,
                              .space = space->number};
  note_use(state, stream, space, &access);
  return 0;
}

/* ---- Copies ------------------------------------------------------------------------------ */

/* Checks the host's side of a copy to or from another kind of device. */
static int32_t check_host_side(const State *state, const BpCall *call, const void *data,
                               const char *role) {
  const BpValidateSpace *space = has_addresses(state) ? NULL : find_anywhere(state, data, 0);
  if (!space)
    return 0;
  return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                          "%s %p is given as an address of the host, but it is a handle of memory "
                          "of %s:%d, which the host cannot reach (BP_ATTR_HOST_ACCESSIBLE)",
                          role, data, state->next->name, space->entry.device_id);
}

/* Visits one side of a copy, whose stream belongs to one device. The plugin orders the completion
 * of a copy on another device, and the layer does not track it. */
static int32_t visit_side(State *state, const BpCall *call, BpValidateStream *stream, int is_source,
                          int is_queued) {
  const BpCopy *copy = call->copy;
  BpDevice device = is_source ? copy->from_device : copy->to_device;
  const char *role = is_source ? "source" : "destination";
  const Use use = {.device_id = device.device_id,
                   .handle = is_source ? (void *)(uintptr_t)copy->from : copy->to,
                   .offset = is_source ? copy->from_offset : copy->to_offset,
                   .size = copy->size,
                   .use = is_source ? USE_READS : USE_WRITES,
                   .role = role};
  if (device.device_type == state->next->device_type)
    return visit_use(state, call, device.device_id == call->device_id ? stream : NULL, &use,
                     is_queued);
  if (is_queued)
    return 0;
  if (device.device_type != BP_DEVICE_CPU)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "the %s is on a device of type %d, neither %s nor the host", role,
                            device.device_type, state->next->name);
  return check_host_side(state, call, use.handle, role);
}

static int32_t check_copy(State *state, const BpCall *call) {
  const BpCopy *copy = call->copy;
  BpValidateStream *stream;
  if (copy->struct_size < offsetof(BpCopy, size) + sizeof copy->size)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE, "BpCopy::struct_size is %" PRIu64,
                            copy->struct_size);
  if (!copy->from || !copy->to || !copy->size)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "a copy of %" PRIu64 " bytes from %p to %p", copy->size, copy->from,
                            copy->to);
  if (check_stream(state, call, call->device_id, call->stream, &stream) ||
      visit_side(state, call, stream, 1, 0))
    return -1;
  return visit_side(state, call, stream, 0, 0);
}

static void note_copy(State *state, const BpCall *call) {
  BpValidateStream *stream = bp_validate_stream(&state->order, call->device_id, call->stream);
  if (!stream)
    return;
  if (!is_recorded_here(stream))
    stream->queued++;
  visit_side(state, call, stream, 1, 1);
  visit_side(state, call, stream, 0, 1);
}

/* ---- Launches ---------------------------------------------------------------------------- */

/* Returns the bytes from the first element to the end of the last one; 0 if there are none or the
 * number is unknown. */
static uint64_t span_of(const BpTensorView *view) {
  uint64_t count = 1, last = 0, bytes;
  for (int32_t i = 0; i < view->ndim; i++) {
    uint64_t extent = (uint64_t)view->shape[i], step;
    if (view->shape[i] <= 0 || (view->strides && view->strides[i] < 0) ||
        __builtin_mul_overflow(count, extent, &count))
      return 0;
    if (view->strides && (__builtin_mul_overflow(extent - 1, (uint64_t)view->strides[i], &step) ||
                          __builtin_add_overflow(last, step, &last)))
      return 0;
  }
  return bp_dtype_array_bytes(view->dtype, view->strides ? last + 1 : count, &bytes) ? 0 : bytes;
}

static int32_t check_tensor(const State *state, const BpCall *call, const BpTensorView *view,
                            const char *role) {
  uint64_t element = (uint64_t)view->dtype.bits / 8;
  BpDevice device = call->launch->invocation->device;
  if (view->device.device_type != device.device_type || view->device.device_id != device.device_id)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "%s is a tensor of device type %d, index %d, and the kernel runs on "
                            "%s:%d",
                            role, view->device.device_type, view->device.device_id,
                            state->next->name, device.device_id);
  if (element && view->byte_offset % element)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "%s begins at byte %" PRIu64 " of %p, within an element of %" PRIu64
                            " bytes",
                            role, view->byte_offset, view->data, element);
  return 0;
}

static const BpTensorView *view_of(const BpValue *value) {
  if (value->type_index == BP_TYPE_TENSOR_VIEW)
    return value->v_view;
  return value->type_index == BP_TYPE_TENSOR ? &((const BpTensor *)(void *)value->v_obj)->view
                                             : NULL;
}

static int32_t visit_argument(State *state, const BpCall *call, BpValidateStream *stream, int32_t i,
                              int is_queued) {
  const BpValue *value = &call->launch->args[i];
  const BpTensorView *view = view_of(value);
  char role[160];
  snprintf(role, sizeof role, "%s, argument %d", call->launch->kernel, i);
  Use use = {.device_id = call->device_id, .use = USE_LAUNCHES, .role = role};
  if (view) {
    use.handle = view->data;
    use.offset = view->byte_offset;
    use.size = span_of(view);
    if (!use.size)
      return 0;
    if (!is_queued && check_tensor(state, call, view, role))
      return -1;
  } else if (value->type_index == BP_TYPE_POINTER && value->v_ptr) {
    use.handle = value->v_ptr;
    use.is_whole = 1;
  } else {
    return 0;
  }
  return visit_use(state, call, stream, &use, is_queued);
}

static int32_t check_launch(State *state, const BpCall *call) {
  BpValidateStream *stream;
  int32_t rc = check_stream(state, call, call->device_id, call->stream, &stream);
  for (int32_t i = 0; !rc && i < call->launch->num_args; i++)
    rc = visit_argument(state, call, stream, i, 0);
  return rc;
}

static void note_launch(State *state, const BpCall *call) {
  BpValidateStream *stream = bp_validate_stream(&state->order, call->device_id, call->stream);
  if (!stream)
    return;
  if (!is_recorded_here(stream))
    stream->queued++;
  for (int32_t i = 0; i < call->launch->num_args; i++)
    visit_argument(state, call, stream, i, 1);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static int32_t check_allocation(const State *state, const BpCall *call) {
  const BpAllocation *allocation = call->allocation;
  uint64_t alignment = allocation->alignment;
  if (allocation->struct_size < offsetof(BpAllocation, scope) + sizeof allocation->scope)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "BpAllocation::struct_size is %" PRIu64, allocation->struct_size);
  if (!alignment || alignment & (alignment - 1) || alignment > 4096)
    return bp_validate_find(
        state->next, call, BP_ERROR_VALUE,
        "an alignment of %" PRIu64 " bytes; it is a power of two from 1 to 4096", alignment);
  if (allocation->scope && !*allocation->scope)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "a scope without a name; \"global\" or NULL is the usual one");
  return 0;
}

static int32_t note_alloc(State *state, BpCall *call) {
  uint64_t alignment = call->allocation ? call->allocation->alignment : 1;
  if (!call->handle)
    return bp_validate_find(state->next, call, BP_ERROR_PLUGIN,
                            "it succeeded without a handle; this is a defect of the plugin");
  if (has_addresses(state) && (uintptr_t)call->handle % alignment)
    return bp_validate_find(state->next, call, BP_ERROR_PLUGIN,
                            "it gave %p, which is not aligned to %" PRIu64
                            " bytes; this is a defect of the plugin",
                            call->handle, alignment);
  call->is_kept = call->slot != SLOT_EXTERNAL_MEMORY_IMPORT_MEMORY &&
                  bp_layers_find(&state->spaces, call->device_id, call->handle) != NULL;
  if (call->is_kept)
    return bp_validate_find(state->next, call, BP_ERROR_PLUGIN,
                            "it gave %p, which is in use; this is a defect of the plugin",
                            call->handle);
  BpValidateSpace *space = bp_plugin_calloc(&bp_layers_host, sizeof *space);
  if (!space)
    return -1;
  space->entry.device_id = call->device_id;
  space->entry.handle = call->handle;
  space->number = ++state->last_space;
  space->size = call->allocation ? call->allocation->size : call->size;
  space->is_workspace = call->slot == SLOT_ALLOC_WORKSPACE;
  space->owner = gettid();
  bp_validate_place_here(&space->made);
  bp_layers_add(&state->spaces, &space->entry);
  forget_freed(state, call->device_id, call->handle);
  return 0;
}

/* Removes the space before the call: another thread may get the same handle before the call
 * returns. */
static int32_t check_free(State *state, BpCall *call) {
  int is_workspace = call->slot == SLOT_FREE_WORKSPACE;
  if (!call->handle)
    return 0;
  const BpValidateSpace *space = bp_layers_find(&state->spaces, call->device_id, call->handle);
  if (!space)
    return find_no_handle(state, call, call->device_id, call->handle, "handle");
  if (space->is_workspace != is_workspace)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE, "%p is %s, which %s frees",
                            call->handle, is_workspace ? "data space" : "workspace",
                            is_workspace ? "free_data_space" : "free_workspace");
  if (is_workspace && space->owner != gettid())
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "%p is workspace of another thread, which alone may free it",
                            call->handle);
  call->note = bp_layers_take(&state->spaces, call->device_id, call->handle);
  return 0;
}

static void note_free(State *state, BpCall *call, int32_t rc) {
  BpValidateSpace *space = call->note;
  if (!space)
    return;
  if (rc) {
    bp_layers_add(&state->spaces, &space->entry);
    return;
  }
  remember_freed(state, call->device_id, call->handle);
  bp_validate_accesses_free(space->accesses);
  free(space);
}

/* ---- Streams: making, freeing, waiting --------------------------------------------------- */

static int32_t check_free_stream(State *state, BpCall *call) {
  BpValidateStream *stream;
  if (!call->handle)
    return 0;
  if (check_stream(state, call, call->device_id, call->handle, &stream))
    return -1;
  call->note = bp_validate_stream_take(&state->order, call->device_id, call->handle);
  return 0;
}

static void note_free_stream(State *state, const BpCall *call, int32_t rc) {
  if (call->note)
    bp_validate_stream_left(&state->order, call->note, rc == 0);
}

static int32_t check_wait(State *state, const BpCall *call) {
  BpValidateStream *stream;
  return check_stream(state, call, call->device_id, call->stream, &stream) ||
                 check_stream(state, call, call->device_id, call->to, &stream)
             ? -1
             : 0;
}

static void note_wait(State *state, const BpCall *call) {
  const BpValidateStream *from = bp_validate_stream(&state->order, call->device_id, call->stream);
  BpValidateStream *to = bp_validate_stream(&state->order, call->device_id, call->to);
  if (from && to)
    bp_validate_stream_wait(&state->order, from, to);
}

/* Notes the work that a sync waits for before the call: other threads may queue more work, and add
 * waits, during the call. */
static int32_t check_sync(State *state, BpCall *call) {
  BpValidateStream *stream;
  if (check_stream(state, call, call->device_id, call->stream, &stream))
    return -1;
  BpValidateWaits *waits = stream ? calloc(1, sizeof *waits) : NULL;
  if (waits)
    bp_validate_waits_of(stream, waits);
  call->note = waits;
  return 0;
}

static void note_sync(State *state, const BpCall *call) {
  BpValidateWaits *waits = call->note;
  BpValidateStream *stream = bp_validate_stream(&state->order, call->device_id, call->stream);
  if (waits)
    bp_validate_waits_done(&state->order, waits);
  if (waits)
    free(waits->items);
  free(waits);
  if (stream)
    bp_validate_stream_drop_waits(&state->order, stream);
}

/* ---- Timers, recordings and events ------------------------------------------------------- */

static int32_t check_object(const State *state, const BpCall *call, int type, Object **object) {
  *object = bp_layers_find(&state->objects, 0, call->handle);
  if (*object && (*object)->type == type)
    return 0;
  return bp_validate_find(state->next, call, BP_ERROR_VALUE, "%p is no %s, or one that was freed",
                          call->handle, types[type]);
}

static int32_t note_object(State *state, const BpCall *call, int type, BpValidateAccess *accesses) {
  Object *object = bp_plugin_calloc(&bp_layers_host, sizeof *object);
  if (!object) {
    bp_validate_accesses_free(accesses);
    return -1;
  }
  object->entry.handle = call->handle;
  object->device_id = call->device_id;
  object->type = type;
  object->accesses = accesses;
  bp_layers_add(&state->objects, &object->entry);
  return 0;
}

static int32_t check_free_object(State *state, BpCall *call, int type) {
  Object *object;
  if (check_object(state, call, type, &object))
    return -1;
  call->note = bp_layers_take(&state->objects, 0, call->handle);
  return 0;
}

static void note_free_object(State *state, const BpCall *call, int32_t rc) {
  Object *object = call->note;
  if (rc) {
    bp_layers_add(&state->objects, &object->entry);
    return;
  }
  bp_validate_accesses_free(object->accesses);
  free(object->waits.items);
  free(object);
}

static int32_t check_event(State *state, const BpCall *call) {
  Object *event;
  BpValidateStream *stream;
  if (check_object(state, call, EVENT, &event))
    return -1;
  return call->slot == SLOT_EVENTS_RECORD || call->slot == SLOT_EVENTS_WAIT
             ? check_stream(state, call, event->device_id, call->stream, &stream)
             : 0;
}

/* Notes a record before the call: only work queued by then is certain to come before the record. */
static void note_record(State *state, const BpCall *call) {
  Object *event = bp_layers_find(&state->objects, 0, call->handle);
  const BpValidateStream *stream =
      bp_validate_stream(&state->order, event->device_id, call->stream);
  event->is_held = 0;
  if (stream)
    bp_validate_waits_of(stream, &event->waits);
}

/* A held event stands for work of other devices, which may have waited for work of this device. The
 * layer does not track that: all work queued so far counts as waited for. */
static void note_event_wait(State *state, const BpCall *call) {
  const Object *event = bp_layers_find(&state->objects, 0, call->handle);
  BpValidateWaits all = {0};
  BpValidateStream *stream =
      event ? bp_validate_stream(&state->order, event->device_id, call->stream) : NULL;
  if (!stream)
    return;
  if (event->is_held)
    bp_validate_waits_of_all(&state->order, &all);
  bp_validate_waits_join(stream, event->is_held ? &all : &event->waits);
  free(all.items);
}

static void note_complete(State *state, const BpCall *call) {
  const Object *event = bp_layers_find(&state->objects, 0, call->handle);
  if (event && call->count)
    bp_validate_waits_done(&state->order, &event->waits);
}

static void note_hold(State *state, const BpCall *call) {
  Object *event = bp_layers_find(&state->objects, 0, call->handle);
  if (!event)
    return;
  event->is_held = 1;
  event->waits.count = 0;
}

static int32_t check_timer(State *state, const BpCall *call) {
  Object *timer;
  BpValidateStream *stream;
  if (check_object(state, call, TIMER, &timer))
    return -1;
  if (call->slot == SLOT_TIMER_READ)
    return timer->is_stopped
               ? 0
               : bp_validate_find(state->next, call, BP_ERROR_RUNTIME,
                                  "timer %p is read before it was stopped", call->handle);
  if (timer->is_stopped)
    return bp_validate_find(state->next, call, BP_ERROR_RUNTIME, "timer %p is stopped twice",
                            call->handle);
  return check_stream(state, call, timer->device_id, call->stream, &stream);
}

static void note_stop(State *state, const BpCall *call) {
  Object *timer = bp_layers_find(&state->objects, 0, call->handle);
  if (timer)
    timer->is_stopped = 1;
}

static int32_t check_recorded(State *state, const BpCall *call) {
  BpValidateStream *stream;
  int is_begin = call->slot == SLOT_RECORDING_BEGIN;
  if (check_stream(state, call, call->device_id, call->stream, &stream))
    return -1;
  if (stream && is_begin && stream->is_recorded)
    return bp_validate_find(state->next, call, BP_ERROR_RUNTIME, "stream %p is recorded already",
                            call->stream);
  if (stream && !is_begin && !is_recorded_here(stream))
    return bp_validate_find(state->next, call, BP_ERROR_RUNTIME,
                            "this thread does not record stream %p", call->stream);
  return 0;
}

static void note_begin(State *state, const BpCall *call) {
  BpValidateStream *stream = bp_validate_stream(&state->order, call->device_id, call->stream);
  if (!stream)
    return;
  stream->is_recorded = 1;
  stream->recorder = pthread_self();
}

/* Ends a recording; returns its accesses (transfer full). */
static BpValidateAccess *end_recording(State *state, const BpCall *call) {
  BpValidateStream *stream = bp_validate_stream(&state->order, call->device_id, call->stream);
  BpValidateAccess *accesses = stream ? stream->recorded : NULL;
  if (stream) {
    stream->is_recorded = 0;
    stream->recorded = NULL;
  }
  return accesses;
}

static int32_t note_end(State *state, const BpCall *call) {
  return note_object(state, call, RECORDING, end_recording(state, call));
}

/* A recording ends even if the result cannot be used. */
static void note_failed_end(State *state, const BpCall *call) {
  bp_validate_accesses_free(end_recording(state, call));
}

static int32_t check_recorded_use(State *state, const BpCall *call, const BpValidateStream *stream,
                                  const BpValidateAccess *access) {
  BpValidateSpace *space = bp_layers_find(&state->spaces, access->device_id, access->handle);
  if (!space || space->number != access->space)
    return bp_validate_find(state->next, call, BP_ERROR_VALUE,
                            "the recording uses %p, memory of %s:%d, which was freed since",
                            access->handle, state->next->name, access->device_id);
  return stream ? check_order(state, call, stream, space, access, "the recording") : 0;
}

static int32_t check_replay(State *state, const BpCall *call) {
  Object *recording;
  BpValidateStream *stream;
  if (check_object(state, call, RECORDING, &recording) ||
      check_stream(state, call, recording->device_id, call->stream, &stream))
    return -1;
  for (const BpValidateAccess *access = recording->accesses; access; access = access->next)
    if (check_recorded_use(state, call, stream, access))
      return -1;
  return 0;
}

static void note_replay(State *state, const BpCall *call) {
  const Object *recording = bp_layers_find(&state->objects, 0, call->handle);
  BpValidateStream *stream =
      recording ? bp_validate_stream(&state->order, recording->device_id, call->stream) : NULL;
  if (!stream)
    return;
  stream->queued++;
  for (const BpValidateAccess *access = recording->accesses; access; access = access->next) {
    BpValidateSpace *space = bp_layers_find(&state->spaces, access->device_id, access->handle);
    if (space)
      bp_validate_note(&state->order, space, stream, access);
  }
}

/* ---- The end ----------------------------------------------------------------------------- */

typedef struct Leaks {
  State *state;
  size_t count, streams, objects[NUM_TYPES];
  uint64_t bytes;
  char lines[MOST_NAMED][768];
} Leaks;

/* Whether a thread other than this one still runs: such a thread may be about to free its
 * memory. */
static int runs_on(pid_t thread) {
  return thread != gettid() && !syscall(SYS_tgkill, getpid(), thread, 0);
}

static void count_space(void *record, void *context) {
  const BpValidateSpace *space = record;
  Leaks *leaks = context;
  char place[512];
  if (runs_on(space->owner))
    return;
  leaks->bytes += space->size;
  if (leaks->count++ >= MOST_NAMED)
    return;
  bp_validate_place_format(&space->made, place, sizeof place);
  snprintf(leaks->lines[leaks->count - 1], sizeof leaks->lines[0],
           "validate: %s:%d: %p, %s of %" PRIu64 " bytes, was never freed; allocated by %s",
           leaks->state->next->name, space->entry.device_id, space->entry.handle,
           space->is_workspace ? "workspace" : "data space", space->size, place);
}

static void count_stream(void *record, void *context) {
  const BpValidateStream *stream = record;
  ((Leaks *)context)->streams += !stream->is_default;
}

static void count_object(void *record, void *context) {
  const Object *object = record;
  ((Leaks *)context)->objects[object->type]++;
}

/* Logs leaks without the lock: the log callback may use the device. */
static void finish(void *context) {
  State *state = context;
  Leaks leaks = {.state = state};
  pthread_mutex_lock(&state->lock);
  bp_layers_each(&state->spaces, count_space, &leaks);
  bp_layers_each(&state->order.streams, count_stream, &leaks);
  bp_layers_each(&state->objects, count_object, &leaks);
  pthread_mutex_unlock(&state->lock);
  for (size_t i = 0; i < leaks.count && i < MOST_NAMED; i++)
    bp_plugin_log(&bp_layers_host, BP_LOG_WARNING, "%s", leaks.lines[i]);
  if (leaks.count + leaks.streams + leaks.objects[TIMER] + leaks.objects[RECORDING] +
      leaks.objects[EVENT])
    bp_plugin_log(&bp_layers_host, BP_LOG_WARNING,
                  "validate: %s: at the end there are still %zu allocations of %" PRIu64
                  " bytes, %zu streams, %zu timers, %zu recordings and %zu events",
                  state->next->name, leaks.count, leaks.bytes, leaks.streams, leaks.objects[TIMER],
                  leaks.objects[RECORDING], leaks.objects[EVENT]);
}

/* ---- The layer --------------------------------------------------------------------------- */

static void *create(const BpDeviceApi *next) {
  BpValidatePlace place;
  State *state = bp_plugin_calloc(&bp_layers_host, sizeof *state);
  if (!state)
    return NULL;
  pthread_mutex_init(&state->lock, NULL);
  state->next = next;
  state->count = -1;
  bp_validate_place_here(&place); /* the first call in a process loads a library */
  return state;
}

static int32_t check(State *state, BpCall *call) {
  switch (call->slot) {
  case SLOT_ALLOC_DATA_SPACE:
  case SLOT_EXTERNAL_MEMORY_EXPORT_MEMORY:
    return check_allocation(state, call);
  case SLOT_FREE_DATA_SPACE:
  case SLOT_FREE_WORKSPACE:
    return check_free(state, call);
  case SLOT_COPY:
    return check_copy(state, call);
  case SLOT_LAUNCH:
    return check_launch(state, call);
  case SLOT_FREE_STREAM:
    return check_free_stream(state, call);
  case SLOT_SYNC_STREAM_FROM_TO:
    return check_wait(state, call);
  case SLOT_STREAM_SYNC:
    return check_sync(state, call);
  case SLOT_TIMER_START: {
    BpValidateStream *stream;
    return check_stream(state, call, call->device_id, call->stream, &stream);
  }
  case SLOT_TIMER_STOP:
  case SLOT_TIMER_READ:
    return check_timer(state, call);
  case SLOT_TIMER_FREE:
    return check_free_object(state, call, TIMER);
  case SLOT_RECORDING_BEGIN:
  case SLOT_RECORDING_END:
    return check_recorded(state, call);
  case SLOT_RECORDING_REPLAY:
    return check_replay(state, call);
  case SLOT_RECORDING_FREE:
    return check_free_object(state, call, RECORDING);
  case SLOT_EVENTS_FREE:
    return check_free_object(state, call, EVENT);
  case SLOT_EVENTS_RECORD:
    if (check_event(state, call))
      return -1;
    note_record(state, call);
    return 0;
  case SLOT_EVENTS_WAIT:
  case SLOT_EVENTS_QUERY:
  case SLOT_EVENTS_SYNCHRONIZE:
  case SLOT_EVENTS_NOTIFY:
  case SLOT_EVENTS_HOLD:
  case SLOT_EVENTS_SIGNAL:
    return check_event(state, call);
  default:
    return 0;
  }
}

/* Notes a call that succeeded. */
static int32_t note(State *state, BpCall *call) {
  switch (call->slot) {
  case SLOT_GET_DEVICE_COUNT:
    state->count = call->count;
    return 0;
  case SLOT_ALLOC_DATA_SPACE:
  case SLOT_ALLOC_WORKSPACE:
  case SLOT_EXTERNAL_MEMORY_IMPORT_MEMORY:
  case SLOT_EXTERNAL_MEMORY_EXPORT_MEMORY:
    return note_alloc(state, call);
  case SLOT_COPY:
    note_copy(state, call);
    return 0;
  case SLOT_LAUNCH:
    note_launch(state, call);
    return 0;
  case SLOT_CREATE_STREAM:
    if (call->handle && !bp_validate_stream_add(&state->order, call->device_id, call->handle))
      return bp_plugin_raise(&bp_layers_host, BP_ERROR_MEMORY, "validate: no memory for a stream");
    return 0;
  case SLOT_SYNC_STREAM_FROM_TO:
    note_wait(state, call);
    return 0;
  case SLOT_TIMER_START:
    return note_object(state, call, TIMER, NULL);
  case SLOT_TIMER_STOP:
    note_stop(state, call);
    return 0;
  case SLOT_RECORDING_BEGIN:
    note_begin(state, call);
    return 0;
  case SLOT_RECORDING_END:
    return note_end(state, call);
  case SLOT_RECORDING_REPLAY:
    note_replay(state, call);
    return 0;
  case SLOT_EVENTS_CREATE:
    return note_object(state, call, EVENT, NULL);
  case SLOT_EVENTS_WAIT:
    note_event_wait(state, call);
    return 0;
  case SLOT_EVENTS_QUERY:
  case SLOT_EVENTS_SYNCHRONIZE:
    note_complete(state, call);
    return 0;
  case SLOT_EVENTS_HOLD:
    note_hold(state, call);
    return 0;
  default:
    return 0;
  }
}

/* Writes a finding to the log, with no lock held. Returns -1. */
static int32_t say(void) {
  BpError *error = bp_layers_host.error->take();
  if (error)
    bp_plugin_log(&bp_layers_host, BP_LOG_WARNING, "%.*s", (int)error->message.size,
                  error->message.data);
  bp_layers_host.error->put(error);
  return -1;
}

static int32_t before(void *context, BpCall *call) {
  State *state = context;
  pthread_mutex_lock(&state->lock);
  int32_t rc = check_device(state, call);
  if (!rc)
    rc = check(state, call);
  pthread_mutex_unlock(&state->lock);
  return rc ? say() : 0;
}

static int32_t after(void *context, BpCall *call, int32_t rc) {
  State *state = context;
  int32_t found = 0;
  pthread_mutex_lock(&state->lock);
  if (call->slot == SLOT_FREE_DATA_SPACE || call->slot == SLOT_FREE_WORKSPACE)
    note_free(state, call, rc);
  else if (call->slot == SLOT_TIMER_FREE || call->slot == SLOT_RECORDING_FREE ||
           call->slot == SLOT_EVENTS_FREE)
    note_free_object(state, call, rc);
  else if (call->slot == SLOT_FREE_STREAM)
    note_free_stream(state, call, rc);
  else if (call->slot == SLOT_STREAM_SYNC) /* counts even if it raises an error of the work */
    note_sync(state, call);
  else if (call->slot == SLOT_RECORDING_END && rc)
    note_failed_end(state, call);
  else if (!rc)
    found = note(state, call);
  pthread_mutex_unlock(&state->lock);
  return found ? say() : rc;
}

const BpLayerHooks bp_layers_validate = {
    .create = create, .before = before, .after = after, .finish = finish};
