/* SPDX-License-Identifier: Apache-2.0 */
/* The layer trace: each call as an event of the trace format of Chrome and Perfetto, memory and
 * copied bytes as counters, and sums at the end. */
#include "trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An allocation of memory. */
typedef struct Space {
  BpLayersEntry entry;
  uint64_t size;
} Space;

/* A kernel's launches, and the time that the calls took. */
typedef struct Kernel {
  struct Kernel *next;
  uint64_t launches;
  int64_t nanoseconds;
  char name[];
} Kernel;

/* The memory allocated on one device. */
typedef struct Device {
  struct Device *next;
  int32_t device_id;
  uint64_t bytes, peak;
} Device;

enum { TO_DEVICE, TO_HOST, WITHIN, NUM_DIRECTIONS };
static const char *const directions[] = {"host_to_device", "device_to_host", "device_to_device"};

/* The trace's state for one kind of device. */
typedef struct State {
  pthread_mutex_t lock;
  const char *kind;
  BpLayersTable spaces;
  Device *devices;
  Kernel *kernels;
  uint64_t copies[NUM_DIRECTIONS], copied[NUM_DIRECTIONS];
  uint64_t calls[NUM_SLOTS];
} State;

/* ---- Text -------------------------------------------------------------------------------- */

/* JSON that is being written. Text that does not fit is omitted, and `is_cut` is set. */
typedef struct Text {
  char *data;
  size_t used, size;
  int is_cut;
} Text;

BP_PLUGIN_PRINTF(2, 3)
static void put(Text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text->data + text->used, text->size - text->used, format, args);
  va_end(args);
  if (length < 0 || (size_t)length >= text->size - text->used)
    text->is_cut = 1;
  else
    text->used += (size_t)length;
}

/* Adds a JSON string; a byte that JSON cannot contain becomes '?'. */
static void put_string(Text *text, const char *string) {
  put(text, "\"");
  for (const char *at = string; *at; at++) {
    unsigned char byte = (unsigned char)*at;
    if (byte == '"' || byte == '\\')
      put(text, "\\%c", byte);
    else
      put(text, "%c", byte < 0x20 || byte > 0x7e ? '?' : byte);
  }
  put(text, "\"");
}

static void write_out(Text *text) {
  if (!text->is_cut)
    bp_layers_trace_write(text->data);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Adds the members that every event has; times are in microseconds. */
static void begin_event(Text *text, const char *phase, int64_t time) {
  put(text, "{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d", phase, (int)getpid(),
      (int)gettid(), time / 1000, (int)(time % 1000));
}

/* ---- Events ------------------------------------------------------------------------------ */

static int direction_of(const BpCopy *copy) {
  if (copy->from_device.device_type == BP_DEVICE_CPU)
    return copy->to_device.device_type == BP_DEVICE_CPU ? WITHIN : TO_DEVICE;
  return copy->to_device.device_type == BP_DEVICE_CPU ? TO_HOST : WITHIN;
}

static void put_args(Text *text, const State *state, const BpCall *call, int32_t rc) {
  put(text, ",\"args\":{\"kind\":");
  put_string(text, state->kind);
  if (call->device_id >= 0)
    put(text, ",\"device\":%d", call->device_id);
  if (call->stream)
    put(text, ",\"stream\":\"%p\"", call->stream);
  if (call->handle)
    put(text, ",\"handle\":\"%p\"", call->handle);
  if (call->to)
    put(text, ",\"to\":\"%p\"", call->to);
  if (call->allocation)
    put(text, ",\"bytes\":%" PRIu64, call->allocation->size);
  if (call->slot == SLOT_ALLOC_WORKSPACE || call->slot == SLOT_EXTERNAL_MEMORY_IMPORT_MEMORY)
    put(text, ",\"bytes\":%" PRIu64, call->size);
  if (call->copy)
    put(text, ",\"bytes\":%" PRIu64 ",\"direction\":\"%s\"", call->copy->size,
        directions[direction_of(call->copy)]);
  if (call->name) {
    put(text, ",\"extension\":");
    put_string(text, call->name);
  }
  if (rc)
    put(text, ",\"failed\":true");
  put(text, "}");
}

static const char *name_of(const BpCall *call) {
  if (call->slot == SLOT_LAUNCH && *call->launch->kernel)
    return call->launch->kernel;
  return bp_layers_slot_name(call->slot);
}

static void write_call(const State *state, const BpCall *call, int32_t rc, int64_t ended) {
  size_t size = 1024 + strlen(name_of(call)) * 2;
  Text text = {malloc(size), 0, size, 0};
  int64_t duration = ended - call->began;
  if (!text.data)
    return;
  begin_event(&text, "X", call->began);
  put(&text, ",\"dur\":%" PRId64 ".%03d,\"cat\":\"%s\",\"name\":", duration / 1000,
      (int)(duration % 1000), bp_layers_slot_name(call->slot));
  put_string(&text, name_of(call));
  put_args(&text, state, call, rc);
  put(&text, "}");
  write_out(&text);
  free(text.data);
}

/* ---- Counters ---------------------------------------------------------------------------- */

static Device *find_device(State *state, int32_t device_id) {
  Device *device = state->devices;
  while (device && device->device_id != device_id)
    device = device->next;
  if (!device && (device = calloc(1, sizeof *device))) {
    device->device_id = device_id;
    device->next = state->devices;
    state->devices = device;
  }
  return device;
}

static void write_memory(const State *state, const Device *device, int64_t time) {
  char data[512];
  Text text = {data, 0, sizeof data, 0};
  begin_event(&text, "C", time);
  put(&text, ",\"name\":\"memory of %s:%d\",\"args\":{\"bytes\":%" PRIu64 "}}", state->kind,
      device->device_id, device->bytes);
  write_out(&text);
}

/* Called with the lock held. */
static void count_alloc(State *state, const BpCall *call, int64_t time) {
  Space *space = calloc(1, sizeof *space);
  Device *device = find_device(state, call->device_id);
  if (!space || !device) {
    free(space);
    return;
  }
  space->entry.device_id = call->device_id;
  space->entry.handle = call->handle;
  space->size = call->allocation ? call->allocation->size : call->size;
  bp_layers_add(&state->spaces, &space->entry);
  device->bytes += space->size;
  if (device->bytes > device->peak)
    device->peak = device->bytes;
  write_memory(state, device, time);
}

static void count_free(State *state, BpCall *call, int64_t time) {
  Space *space = bp_layers_take(&state->spaces, call->device_id, call->handle);
  Device *device = space ? find_device(state, call->device_id) : NULL;
  if (device) {
    device->bytes -= space->size;
    write_memory(state, device, time);
  }
  call->note = space;
}

/* If the memory could not be freed, it still counts as in use. */
static void end_free(State *state, const BpCall *call, int32_t rc, int64_t time) {
  Space *space = call->note;
  Device *device = space && rc ? find_device(state, call->device_id) : NULL;
  if (!device) {
    free(space);
    return;
  }
  bp_layers_add(&state->spaces, &space->entry);
  device->bytes += space->size;
  write_memory(state, device, time);
}

static void count_copy(State *state, const BpCopy *copy, int64_t time) {
  char data[512];
  Text text = {data, 0, sizeof data, 0};
  int direction = direction_of(copy);
  state->copies[direction]++;
  state->copied[direction] += copy->size;
  begin_event(&text, "C", time);
  put(&text, ",\"name\":\"bytes copied of %s\",\"args\":{", state->kind);
  for (int i = 0; i < NUM_DIRECTIONS; i++)
    put(&text, "%s\"%s\":%" PRIu64, i ? "," : "", directions[i], state->copied[i]);
  put(&text, "}}");
  write_out(&text);
}

static void count_launch(State *state, const BpCall *call, int64_t nanoseconds) {
  const char *name = name_of(call);
  Kernel *kernel = state->kernels;
  while (kernel && strcmp(kernel->name, name) != 0)
    kernel = kernel->next;
  if (!kernel && (kernel = calloc(1, sizeof *kernel + strlen(name) + 1))) {
    memcpy(kernel->name, name, strlen(name) + 1);
    kernel->next = state->kernels;
    state->kernels = kernel;
  }
  if (kernel) {
    kernel->launches++;
    kernel->nanoseconds += nanoseconds;
  }
}

/* Counts a call that succeeded. Called with the lock held. */
static void count(State *state, const BpCall *call, int64_t ended) {
  switch (call->slot) {
  case SLOT_ALLOC_DATA_SPACE:
  case SLOT_ALLOC_WORKSPACE:
  case SLOT_EXTERNAL_MEMORY_EXPORT_MEMORY:
    count_alloc(state, call, ended);
    break;
  case SLOT_COPY:
    count_copy(state, call->copy, ended);
    break;
  case SLOT_LAUNCH:
    count_launch(state, call, ended - call->began);
    break;
  default:
    break;
  }
}

/* ---- The end ----------------------------------------------------------------------------- */

static void put_sums(Text *text, const State *state) {
  const char *comma = "";
  put(text, ",\"s\":\"g\",\"name\":\"sums of %s\",\"args\":{\"copies\":{", state->kind);
  for (int i = 0; i < NUM_DIRECTIONS; i++)
    put(text, "%s\"%s\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", i ? "," : "", directions[i],
        state->copies[i], state->copied[i]);
  put(text, "},\"calls\":{");
  for (int slot = 0; slot < NUM_SLOTS; slot++)
    if (state->calls[slot]) {
      put(text, "%s\"%s\":%" PRIu64, comma, bp_layers_slot_name((BpSlot)slot), state->calls[slot]);
      comma = ",";
    }
  put(text, "},\"peak_bytes\":{");
  comma = "";
  for (const Device *device = state->devices; device; device = device->next) {
    put(text, "%s\"%s:%d\":%" PRIu64, comma, state->kind, device->device_id, device->peak);
    comma = ",";
  }
  put(text, "},\"launches\":{");
  comma = "";
  for (const Kernel *kernel = state->kernels; kernel; kernel = kernel->next) {
    put(text, "%s", comma);
    put_string(text, kernel->name);
    put(text, ":{\"count\":%" PRIu64 ",\"us\":%" PRId64 ".%03d}", kernel->launches,
        kernel->nanoseconds / 1000, (int)(kernel->nanoseconds % 1000));
    comma = ",";
  }
  put(text, "}}}");
}

/* Whether no slot was called: the table of another thread, which used the kind first, is in use
 * instead. */
static int is_unused(const State *state) {
  for (int slot = 0; slot < NUM_SLOTS; slot++)
    if (state->calls[slot])
      return 0;
  return 1;
}

static void finish(void *context) {
  State *state = context;
  pthread_mutex_lock(&state->lock);
  size_t size = 4096;
  for (const Device *device = state->devices; device; device = device->next)
    size += 128;
  for (const Kernel *kernel = state->kernels; kernel; kernel = kernel->next)
    size += 128 + 2 * strlen(kernel->name);
  Text text = {malloc(size), 0, size, 0};
  if (text.data && !is_unused(state)) {
    begin_event(&text, "i", now());
    put_sums(&text, state);
    write_out(&text);
  }
  free(text.data);
  pthread_mutex_unlock(&state->lock);
  bp_layers_trace_log();
}

/* ---- The layer --------------------------------------------------------------------------- */

static void *create(const BpDeviceApi *next) {
  if (bp_layers_trace_open())
    return NULL;
  State *state = bp_plugin_calloc(&bp_layers_host, sizeof *state);
  if (state) {
    pthread_mutex_init(&state->lock, NULL);
    state->kind = next->name;
  }
  return state;
}

/* The record of memory is removed before the next table frees it: another thread may then get the
 * same handle. */
static int32_t before(void *context, BpCall *call) {
  State *state = context;
  call->began = now();
  if (call->slot == SLOT_FREE_DATA_SPACE || call->slot == SLOT_FREE_WORKSPACE) {
    pthread_mutex_lock(&state->lock);
    count_free(state, call, call->began);
    pthread_mutex_unlock(&state->lock);
  }
  return 0;
}

static int32_t after(void *context, BpCall *call, int32_t rc) {
  State *state = context;
  int64_t ended = now();
  write_call(state, call, rc, ended);
  pthread_mutex_lock(&state->lock);
  state->calls[call->slot]++;
  if (call->slot == SLOT_FREE_DATA_SPACE || call->slot == SLOT_FREE_WORKSPACE)
    end_free(state, call, rc, ended);
  else if (!rc)
    count(state, call, ended);
  pthread_mutex_unlock(&state->lock);
  bp_layers_trace_log();
  return rc;
}

const BpLayerHooks bp_layers_trace = {
    .create = create, .before = before, .after = after, .finish = finish};
