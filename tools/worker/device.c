/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, memory, copies, streams. The worker calls the plugin's slots as the host would. */

#include "worker.h"

#include <stdlib.h>

static Kind kinds[WORKER_MAX_KINDS];
static uint64_t num_kinds;

/* ---- Arguments --------------------------------------------------------------------------- */

const Kind *worker_get_kind(Job *job) {
  uint64_t number = bp_wire_get(&job->in);
  if (number < num_kinds)
    return &kinds[number];
  bp_error_raise(BP_ERROR_INDEX, "the worker has no kind of devices %llu",
                 (unsigned long long)number);
  return NULL;
}

const Kind *worker_get_place(Job *job, int32_t *device_id) {
  const Kind *kind = worker_get_kind(job);
  *device_id = (int32_t)bp_wire_get(&job->in);
  return kind;
}

void *worker_get_pointer(Job *job) {
  return (void *)(uintptr_t)bp_wire_get(&job->in);
}

void worker_put_pointer(Job *job, const void *pointer) {
  bp_wire_put(&job->out, (uintptr_t)pointer);
}

void worker_put_value(Job *job, const BpValue *value) {
  BpByteArray text;
  if (value->type_index == BP_TYPE_SHAPE) {
    const BpShape *shape = (const BpShape *)(const void *)value->v_obj;
    bp_wire_put(&job->out, BP_TYPE_SHAPE);
    bp_wire_put(&job->out, shape->size);
    for (size_t i = 0; i < shape->size; i++)
      bp_wire_put(&job->out, (uint64_t)shape->data[i]);
  } else if (value->type_index >= BP_TYPE_INT && value->type_index <= BP_TYPE_FLOAT) {
    bp_wire_put(&job->out, (uint32_t)value->type_index);
    bp_wire_put(&job->out, (uint64_t)value->v_int64);
  } else if (value->type_index != BP_TYPE_NONE && !bp_value_view_str(value, &text)) {
    bp_wire_put(&job->out, BP_TYPE_STR);
    bp_wire_put_bytes(&job->out, text.data, text.size);
  } else {
    bp_error_clear();
    bp_wire_put(&job->out, BP_TYPE_NONE);
  }
}

/* ---- Kinds ------------------------------------------------------------------------------- */

static const void *find_extension(const BpDeviceApi *api, const char *name, uint32_t version) {
  return api->get_extension ? api->get_extension(api->context, name, version) : NULL;
}

static uint64_t find_abilities(const Kind *kind) {
  uint64_t has = 0;
  if (kind->api->create_stream)
    has |= BP_WORKER_HAS_STREAMS;
  if (kind->api->visit_properties)
    has |= BP_WORKER_HAS_PROPERTIES;
  if (kind->events)
    has |= BP_WORKER_HAS_EVENTS;
  if (kind->events && BP_TABLE_HAS(kind->events, hold) && BP_TABLE_HAS(kind->events, signal))
    has |= BP_WORKER_HAS_HOLD;
  if (kind->timers)
    has |= BP_WORKER_HAS_TIMERS;
  if (worker_has_arena() && kind->external && kind->events)
    has |= BP_WORKER_HAS_SHARES;
  return has;
}

static int describe_kind(Job *job, const char *name) {
  BpDevice device;
  if (bp_device_parse(name, &device))
    return -1;
  const BpDeviceApi *api = bp_device_api(device.device_type);
  if (!api)
    return -1;
  if (num_kinds == WORKER_MAX_KINDS)
    return bp_error_raise(BP_ERROR_NOT_IMPLEMENTED,
                          "a plugin with more than %d kinds of devices cannot be isolated",
                          WORKER_MAX_KINDS);
  Kind *kind = &kinds[num_kinds++];
  *kind = (Kind){
      api, find_extension(api, BP_EXTENSION_EVENTS, BP_EXTENSION_EVENTS_VERSION),
      find_extension(api, BP_EXTENSION_TIMER, BP_EXTENSION_TIMER_VERSION),
      find_extension(api, BP_EXTENSION_EXTERNAL_MEMORY, BP_EXTENSION_EXTERNAL_MEMORY_VERSION)};
  bp_wire_put_str(&job->out, api->name);
  bp_wire_put(&job->out, (uint32_t)api->device_type);
  bp_wire_put(&job->out, find_abilities(kind));
  return 0;
}

static uint64_t count_words(const char *list) {
  uint64_t count = 0;
  for (list += strspn(list, " "); *list; list += strspn(list, " ")) {
    list += strcspn(list, " ");
    count++;
  }
  return count;
}

int worker_open(Job *job) {
  char *plugin = bp_wire_get_str(&job->in);
  char *names = bp_wire_get_str(&job->in), *rest = NULL;
  BpByteArray targets = bp_wire_get_bytes(&job->in);
  int rc = plugin && names ? bp_plugin_activate(plugin)
                           : bp_error_raise(BP_ERROR_MEMORY, "no memory for the names of kinds");
  bp_wire_put(&job->out, names ? count_words(names) : 0);
  for (char *name = names ? strtok_r(names, " ", &rest) : NULL; name && !rc;
       name = strtok_r(NULL, " ", &rest))
    rc = describe_kind(job, name);
  free(names);
  free(plugin);
  return rc ? -1 : worker_describe_targets(job, targets);
}

int worker_count(Job *job) {
  const Kind *kind = worker_get_kind(job);
  const char *why = NULL;
  int32_t count = 0;
  if (!kind || kind->api->get_device_count(kind->api->context, &count, &why))
    return -1;
  bp_wire_put(&job->out, (uint32_t)count);
  bp_wire_put_str(&job->out, why && !count ? why : "");
  return 0;
}

int worker_attr(Job *job) {
  int32_t device_id;
  BpValue value = {.type_index = BP_TYPE_NONE};
  const Kind *kind = worker_get_place(job, &device_id);
  int32_t attr = (int32_t)bp_wire_get(&job->in);
  if (!kind || kind->api->get_attr(kind->api->context, device_id, attr, &value))
    return -1;
  worker_put_value(job, &value);
  bp_value_clear(&value);
  return 0;
}

static int32_t put_property(void *visitor, const char *name, const BpValue *value) {
  Job *job = visitor;
  bp_wire_put_str(&job->out, name);
  worker_put_value(job, value);
  return 0;
}

int worker_properties(Job *job) {
  int32_t device_id;
  const Kind *kind = worker_get_place(job, &device_id);
  return kind ? kind->api->visit_properties(kind->api->context, device_id, put_property, job) : -1;
}

/* ---- Memory ------------------------------------------------------------------------------ */

int worker_alloc(Job *job) {
  int32_t device_id;
  const Kind *kind = worker_get_place(job, &device_id);
  BpAllocation allocation = {.struct_size = sizeof allocation};
  allocation.size = bp_wire_get(&job->in);
  allocation.alignment = bp_wire_get(&job->in);
  allocation.dtype = bp_wire_to_dtype(bp_wire_get(&job->in));
  allocation.flags = (uint32_t)bp_wire_get(&job->in);
  char *scope = bp_wire_get_str(&job->in);
  allocation.scope = scope && *scope ? scope : NULL;
  void *handle = NULL;
  int rc =
      kind ? kind->api->alloc_data_space(kind->api->context, device_id, &allocation, &handle) : -1;
  free(scope);
  worker_put_pointer(job, handle);
  return rc;
}

int worker_free(Job *job) {
  int32_t device_id;
  const Kind *kind = worker_get_place(job, &device_id);
  void *handle = worker_get_pointer(job);
  return kind ? kind->api->free_data_space(kind->api->context, device_id, handle) : -1;
}

/* A copy between the host and a device. */
typedef struct HostCopy {
  const Kind *kind;
  BpDevice device;
  void *handle;
  uint64_t offset, size;
  void *stream;
} HostCopy;

static int get_host_copy(Job *job, HostCopy *copy) {
  copy->kind = worker_get_place(job, &copy->device.device_id);
  copy->handle = worker_get_pointer(job);
  copy->offset = bp_wire_get(&job->in);
  copy->size = bp_wire_get(&job->in);
  copy->stream = worker_get_pointer(job);
  if (copy->kind)
    copy->device.device_type = copy->kind->api->device_type;
  return copy->kind ? 0 : -1;
}

static const BpDevice host = {BP_DEVICE_CPU, 0};

static int copy_in_part(const HostCopy *copy, uint64_t at, const void *bytes, uint64_t size) {
  const BpCopy part = {.struct_size = sizeof part,
                       .from = bytes,
                       .from_device = host,
                       .to = copy->handle,
                       .to_offset = copy->offset + at,
                       .to_device = copy->device,
                       .size = size};
  const BpDeviceApi *api = copy->kind->api;
  return size ? api->copy(api->context, &part, copy->stream) : 0;
}

static int copy_out_part(const HostCopy *copy, uint64_t at, void *bytes, uint64_t size) {
  const BpCopy part = {.struct_size = sizeof part,
                       .from = copy->handle,
                       .from_offset = copy->offset + at,
                       .from_device = copy->device,
                       .to = bytes,
                       .to_device = host,
                       .size = size};
  const BpDeviceApi *api = copy->kind->api;
  if (!size)
    return 0;
  return api->copy(api->context, &part, copy->stream) ||
                 api->stream_sync(api->context, copy->device.device_id, copy->stream)
             ? -1
             : 0;
}

int worker_copy_in(Job *job) {
  HostCopy copy;
  if (get_host_copy(job, &copy))
    return -1;
  if (copy.size <= BP_WORKER_INLINE_MAX) {
    BpByteArray bytes = bp_wire_get_bytes(&job->in);
    return copy_in_part(&copy, 0, bytes.data, bytes.size);
  }
  for (uint64_t at = 0, size; at < copy.size; at += size) {
    const char *part = worker_take_part(job, copy.size - at, &size);
    if (!part || copy_in_part(&copy, at, part, size))
      return -1;
    worker_took_part(job, size);
  }
  return 0;
}

int worker_copy_out(Job *job) {
  HostCopy copy;
  if (get_host_copy(job, &copy))
    return -1;
  if (copy.size <= BP_WORKER_INLINE_MAX) {
    bp_wire_put(&job->out, copy.size);
    return copy_out_part(&copy, 0, bp_wire_skip(&job->out, copy.size), copy.size);
  }
  for (uint64_t at = 0, size; at < copy.size; at += size) {
    char *room = worker_room_for_part(job, copy.size - at, &size);
    if (!room || copy_out_part(&copy, at, room, size))
      return -1;
    worker_give_part(job, size);
  }
  return 0;
}

int worker_copy_within(Job *job) {
  BpCopy copy = {.struct_size = sizeof copy};
  const Kind *kind = worker_get_place(job, &copy.from_device.device_id);
  copy.from = worker_get_pointer(job);
  copy.from_offset = bp_wire_get(&job->in);
  copy.to_device.device_id = (int32_t)bp_wire_get(&job->in);
  copy.to = worker_get_pointer(job);
  copy.to_offset = bp_wire_get(&job->in);
  copy.size = bp_wire_get(&job->in);
  void *stream = worker_get_pointer(job);
  if (!kind)
    return -1;
  copy.from_device.device_type = copy.to_device.device_type = kind->api->device_type;
  return kind->api->copy(kind->api->context, &copy, stream);
}

/* ---- Streams ----------------------------------------------------------------------------- */

/* The core of this process must know the streams, since it checks the streams of launches. */
int worker_stream_create(Job *job) {
  int32_t device_id;
  void *stream = NULL;
  const Kind *kind = worker_get_place(job, &device_id);
  if (!kind || bp_stream_create((BpDevice){kind->api->device_type, device_id}, &stream))
    return -1;
  if (worker_note_stream(kind, device_id, stream)) {
    bp_stream_free((BpDevice){kind->api->device_type, device_id}, stream);
    return -1;
  }
  worker_put_pointer(job, stream);
  return 0;
}

int worker_stream_free(Job *job) {
  int32_t device_id;
  const Kind *kind = worker_get_place(job, &device_id);
  void *stream = worker_get_pointer(job);
  if (!kind)
    return -1;
  worker_forget_stream(kind, device_id, stream);
  return bp_stream_free((BpDevice){kind->api->device_type, device_id}, stream);
}

int worker_stream_order(Job *job) {
  int32_t device_id;
  const Kind *kind = worker_get_place(job, &device_id);
  void *from = worker_get_pointer(job), *to = worker_get_pointer(job);
  return kind ? kind->api->sync_stream_from_to(kind->api->context, device_id, from, to) : -1;
}

int worker_stream_sync(Job *job) {
  int32_t device_id;
  const Kind *kind = worker_get_place(job, &device_id);
  void *stream = worker_get_pointer(job);
  if (!kind || kind->api->stream_sync(kind->api->context, device_id, stream))
    return -1;
  worker_return_parts();
  return 0;
}
