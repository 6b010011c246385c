/* SPDX-License-Identifier: Apache-2.0 */
/* The DeviceAPI of a kind of devices whose plugin runs in a worker. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Sessions ---------------------------------------------------------------------------- */

/* Asks a worker for its device kinds and target kinds. */
static int32_t open_session(BpIsolated *plugin, BpSession *session) {
  BpCall call;
  if (bp_call_begin(session, BP_WORKER_OPEN, &call))
    return -1;
  bp_wire_put_str(&call.in, plugin->where);
  bp_wire_put_str(&call.in, plugin->device_names);
  bp_wire_put_str(&call.in, plugin->target_names);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) || bp_remote_read_kinds(plugin, &call) ||
                       bp_remote_read_targets(plugin, &call) || bp_call_check(&call)
                   ? -1
                   : 0;
  bp_call_finish(&call);
  return rc;
}

/* Returns a live session, starting one if necessary. Called with the lock held. */
static BpSession *renew_session(BpIsolated *plugin) {
  if (plugin->session && !bp_session_look(plugin->session))
    return plugin->session;
  BpSession *session = bp_take_spare(plugin->host);
  if (!session)
    session = bp_session_start(plugin->label, plugin->starter);
  if (!session)
    return NULL;
  bp_session_use(session, plugin->label);
  if (open_session(plugin, session)) {
    BpError *error = bp_worker_host.error->take();
    if (bp_session_check(session) == 0)
      bp_session_give_up(session, "was ended, since its plugin could not be used");
    bp_worker_host.object->release(bp_worker_host.error->take());
    bp_worker_host.error->put(error);
    return NULL;
  }
  plugin->session = session;
  return session;
}

BpSession *bp_isolated_session(BpIsolated *plugin) {
  if (bp_session_require_no_fork())
    return NULL;
  pthread_mutex_lock(&plugin->lock);
  BpSession *session = renew_session(plugin);
  pthread_mutex_unlock(&plugin->lock);
  return session;
}

BpSession *bp_remote_session(const BpRemoteKind *kind, int32_t device_id, uint64_t *index) {
  int32_t count = atomic_load_explicit(&kind->num_devices, memory_order_acquire);
  if (device_id < 0 || device_id >= count) {
    bp_plugin_raise(&bp_worker_host, BP_ERROR_INDEX, "there is no device %s:%d", kind->api.name,
                    device_id);
    return NULL;
  }
  *index = kind->devices[device_id].index;
  return kind->devices[device_id].session;
}

/* ---- Devices ----------------------------------------------------------------------------- */

/* Counts the devices of a session that have an index. Called with the plugin's lock held. */
static int32_t count_known(const BpRemoteKind *kind, const BpSession *session) {
  int32_t count = 0;
  for (int32_t i = 0; i < kind->num_devices; i++)
    count += kind->devices[i].session == session;
  return count;
}

/* Asks the worker for the number of devices. Called with the plugin's lock held. */
static int32_t ask_count(BpRemoteKind *kind, BpSession *session, int64_t *count) {
  BpCall call;
  if (bp_call_begin(session, BP_WORKER_COUNT, &call))
    return -1;
  bp_wire_put(&call.in, kind->number);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  if (!rc) {
    *count = (int64_t)bp_wire_get(&call.out);
    BpByteArray why = bp_wire_get_bytes(&call.out);
    snprintf(kind->why, sizeof kind->why, "%.*s", (int)(why.size < 500 ? why.size : 500), why.data);
    rc = bp_call_check(&call);
  }
  bp_call_finish(&call);
  return rc;
}

/* Adds the devices of the current session. Called with the plugin's lock held. */
static int32_t add_devices(BpRemoteKind *kind) {
  BpSession *session = renew_session(kind->plugin);
  int64_t count = 0;
  if (!session || ask_count(kind, session, &count))
    return -1;
  for (int64_t known = count_known(kind, session); known < count; known++) {
    int32_t next = atomic_load(&kind->num_devices);
    if (next == BP_WORKER_MAX_DEVICES)
      return bp_plugin_raise(&bp_worker_host, BP_ERROR_DEVICE,
                             "%s: this process has seen %d devices, most of which were lost with "
                             "their worker; start the program again",
                             kind->api.name, BP_WORKER_MAX_DEVICES);
    kind->devices[next] = (BpRemoteDevice){session, (uint64_t)known};
    atomic_store_explicit(&kind->num_devices, next + 1, memory_order_release);
  }
  return 0;
}

/* Counts the devices. Fails if the worker was lost and no other one can be started. */
static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  static _Thread_local char text[sizeof(((BpRemoteKind *)0)->why)];
  BpRemoteKind *kind = context;
  if (bp_session_require_no_fork())
    return -1;
  pthread_mutex_lock(&kind->plugin->lock);
  int32_t rc = add_devices(kind);
  memcpy(text, kind->why, sizeof text);
  *count = atomic_load(&kind->num_devices);
  pthread_mutex_unlock(&kind->plugin->lock);
  if (!*count)
    *why = text;
  return rc;
}

static int32_t answer_shape(BpWire *wire, BpValue *result) {
  uint64_t count = bp_wire_get(wire);
  if (count > (uint64_t)(wire->end - wire->at) / sizeof(int64_t)) {
    wire->is_bad = 1;
    return 0;
  }
  int64_t *extents = bp_plugin_calloc(&bp_worker_host, (count + 1) * sizeof *extents);
  if (!extents)
    return -1;
  for (uint64_t i = 0; i < count; i++)
    extents[i] = (int64_t)bp_wire_get(wire);
  BpShape *shape = bp_worker_host.object->shape_create(extents, count);
  free(extents);
  if (!shape)
    return -1;
  result->type_index = BP_TYPE_SHAPE;
  result->v_obj = &shape->header;
  return 0;
}

static int32_t answer_value(BpWire *wire, BpValue *result) {
  int32_t type = (int32_t)bp_wire_get(wire);
  if (type == BP_TYPE_STR) {
    BpByteArray bytes = bp_wire_get_bytes(wire);
    return bp_worker_host.object->make_str(bytes.data, bytes.size, result);
  }
  if (type == BP_TYPE_SHAPE)
    return answer_shape(wire, result);
  if (type < BP_TYPE_NONE || type > BP_TYPE_FLOAT)
    wire->is_bad = 1;
  else if (type != BP_TYPE_NONE)
    bp_plugin_answer_int(result, type, (int64_t)bp_wire_get(wire));
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpCall call;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  if (!session)
    return -1;
  if (attr == BP_ATTR_EXIST && bp_session_check(session))
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 0);
  if (attr == BP_ATTR_HOST_ACCESSIBLE) /* an address is valid only in the worker */
    return bp_session_require(session) ? -1 : bp_plugin_answer_int(result, BP_TYPE_BOOL, 0);
  if (bp_call_begin(session, BP_WORKER_ATTR, &call))
    return -1;
  bp_wire_put(&call.in, kind->number);
  bp_wire_put(&call.in, index);
  bp_wire_put(&call.in, (uint32_t)attr);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) || answer_value(&call.out, result) ||
                       bp_call_check(&call)
                   ? -1
                   : 0;
  bp_call_finish(&call);
  return rc;
}

static int32_t visit_results(BpCall *call, int32_t (*visit)(void *, const char *, const BpValue *),
                             void *visitor) {
  int32_t is_ended = 0;
  while (call->out.at < call->out.end && !call->out.is_bad && !is_ended) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    char *name = bp_wire_get_str(&call->out);
    if (!name || answer_value(&call->out, &value)) {
      free(name);
      return -1;
    }
    if (!call->out.is_bad)
      is_ended = visit(visitor, name, &value);
    if (value.type_index >= BP_TYPE_OBJECT)
      bp_worker_host.object->release(value.v_obj);
    free(name);
  }
  return 0;
}

static int32_t visit_properties(void *context, int32_t device_id,
                                int32_t (*visit)(void *visitor, const char *name,
                                                 const BpValue *value),
                                void *visitor) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpCall call;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  if (!session || bp_call_begin(session, BP_WORKER_PROPERTIES, &call))
    return -1;
  bp_wire_put(&call.in, kind->number);
  bp_wire_put(&call.in, index);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) || visit_results(&call, visit, visitor) ||
                       bp_call_check(&call)
                   ? -1
                   : 0;
  bp_call_finish(&call);
  return rc;
}

/* ---- Memory ------------------------------------------------------------------------------ */

/* Whether the allocation may be a part of the arena. Copies of at most BP_WORKER_INLINE_MAX bytes
 * travel with their call, so small allocations gain nothing from shared memory. */
static int may_share(const BpRemoteKind *kind, const BpAllocation *allocation) {
  return (kind->has & BP_WORKER_HAS_SHARES) && allocation->size > BP_WORKER_INLINE_MAX &&
         allocation->alignment <= 4096 && !allocation->flags &&
         (!allocation->scope || !*allocation->scope || !strcmp(allocation->scope, "global"));
}

/* Frees shared memory in the worker when bp_shares_add fails; keeps the error. */
static int32_t return_share(const BpRemoteKind *kind, BpSession *session, uint64_t index,
                            uint64_t handle, uint64_t from) {
  const BpErrorTable *error = bp_worker_host.error;
  BpError *before = error->take();
  if (BP_TELL(session, BP_WORKER_UNSHARE, kind->number, index, handle, from))
    bp_worker_host.object->release(error->take());
  return error->put(before);
}

/* Allocates from the arena. *handle is 0 if this device cannot use the arena. */
static int32_t alloc_shared(const BpRemoteKind *kind, BpSession *session, uint64_t index,
                            uint64_t size, uint64_t *handle) {
  uint64_t answer[2];
  const uint64_t arguments[] = {kind->number, index, size};
  *handle = 0;
  if (bp_call_numbers(session, BP_WORKER_SHARE, arguments, 3, answer, 2))
    return -1;
  if (!answer[0])
    return 0;
  int32_t rc = bp_shares_add(bp_session_shares(session), (BpShare){answer[0], answer[1], size});
  if (rc > 0)
    return bp_session_give_up(session, "shared memory that is not in the arena");
  if (rc < 0)
    return return_share(kind, session, index, answer[0], answer[1]);
  *handle = answer[0];
  return 0;
}

static int32_t alloc_own(const BpRemoteKind *kind, BpSession *session, uint64_t index,
                         const BpAllocation *allocation, void **handle) {
  BpCall call;
  if (bp_call_begin(session, BP_WORKER_ALLOC, &call))
    return -1;
  bp_wire_put(&call.in, kind->number);
  bp_wire_put(&call.in, index);
  bp_wire_put(&call.in, allocation->size);
  bp_wire_put(&call.in, allocation->alignment);
  bp_wire_put(&call.in, bp_wire_of_dtype(allocation->dtype));
  bp_wire_put(&call.in, allocation->flags);
  bp_wire_put_str(&call.in, allocation->scope ? allocation->scope : "");
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  if (!rc) {
    *handle = (void *)(uintptr_t)bp_wire_get(&call.out);
    call.out.is_bad |= !*handle;
    rc = bp_call_check(&call);
  }
  bp_call_finish(&call);
  return rc;
}

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  const BpRemoteKind *kind = context;
  uint64_t index, shared = 0;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  if (!session)
    return -1;
  if (may_share(kind, allocation) && alloc_shared(kind, session, index, allocation->size, &shared))
    return -1;
  if (!shared)
    return alloc_own(kind, session, index, allocation, handle);
  *handle = (void *)(uintptr_t)shared;
  return 0;
}

/* The memory of a lost device was freed with its worker: freeing it succeeds. */
static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  if (!session)
    return -1;
  if (bp_session_check(session))
    return 0;
  BpShare share;
  if (bp_shares_remove(bp_session_shares(session), (uintptr_t)handle, &share))
    return BP_TELL(session, BP_WORKER_UNSHARE, kind->number, index, share.handle, share.from);
  return BP_TELL(session, BP_WORKER_FREE, kind->number, index, (uintptr_t)handle);
}

/* A copy between the host and a device. */
typedef struct HostCopy {
  uint64_t index;
  uintptr_t handle; /* the handle of the device's memory */
  uint64_t offset, size;
  char *host;
  uintptr_t stream;
} HostCopy;

static void put_host_copy(const BpRemoteKind *kind, const HostCopy *copy, BpCall *call) {
  bp_wire_put(&call->in, kind->number);
  bp_wire_put(&call->in, copy->index);
  bp_wire_put(&call->in, copy->handle);
  bp_wire_put(&call->in, copy->offset);
  bp_wire_put(&call->in, copy->size);
  bp_wire_put(&call->in, copy->stream);
}

/* Sends HAND_IN or HAND_OUT, and waits for the answer. */
static int32_t hand_over(const BpRemoteKind *kind, const HostCopy *copy, const BpShare *share,
                         BpCall *call) {
  put_host_copy(kind, copy, call);
  bp_wire_put(&call->in, share->from);
  return bp_call_send(call) || bp_call_wait(call) ? -1 : 0;
}

/* The call keeps the arena mapped. */
static int32_t copy_in_shared(const BpRemoteKind *kind, BpSession *session, const HostCopy *copy,
                              const BpShare *share) {
  BpCall call;
  if (bp_call_begin(session, BP_WORKER_STREAM_SYNC, &call))
    return -1;
  bp_wire_put(&call.in, kind->number);
  bp_wire_put(&call.in, copy->index);
  bp_wire_put(&call.in, copy->stream);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  if (!rc) {
    memcpy(bp_session_shares(session)->memory + share->from + copy->offset, copy->host, copy->size);
    bp_call_again(BP_WORKER_HAND_IN, &call);
    rc = hand_over(kind, copy, share, &call);
  }
  bp_call_finish(&call);
  return rc;
}

static int32_t copy_out_shared(const BpRemoteKind *kind, BpSession *session, const HostCopy *copy,
                               const BpShare *share) {
  BpCall call;
  if (bp_call_begin(session, BP_WORKER_HAND_OUT, &call))
    return -1;
  int32_t rc = hand_over(kind, copy, share, &call);
  if (!rc)
    memcpy(copy->host, bp_session_shares(session)->memory + share->from + copy->offset, copy->size);
  bp_call_finish(&call);
  return rc;
}

/* Finds the part of the arena for a copy. 0: the worker copies, refuses the range, or is lost; the
 * child of a fork takes no lock. */
static int find_share(BpSession *session, const HostCopy *copy, BpShare *share) {
  return copy->size > BP_WORKER_INLINE_MAX && !bp_session_check(session) &&
         bp_shares_find(bp_session_shares(session), copy->handle, share) &&
         copy->offset <= share->size && copy->size <= share->size - copy->offset;
}

static int32_t copy_in(const BpRemoteKind *kind, BpSession *session, const HostCopy *copy) {
  BpShare share;
  BpCall call;
  if (find_share(session, copy, &share))
    return copy_in_shared(kind, session, copy, &share);
  if (bp_call_begin(session, BP_WORKER_COPY_IN, &call))
    return -1;
  put_host_copy(kind, copy, &call);
  int is_inline = copy->size <= BP_WORKER_INLINE_MAX;
  if (is_inline)
    bp_wire_put_bytes(&call.in, copy->host, copy->size);
  int32_t rc = bp_call_send(&call) || (!is_inline && bp_call_fill(&call, copy->host, copy->size)) ||
                       bp_call_wait(&call)
                   ? -1
                   : 0;
  bp_call_finish(&call);
  return rc;
}

static int32_t copy_out(const BpRemoteKind *kind, BpSession *session, const HostCopy *copy) {
  BpShare share;
  BpCall call;
  if (find_share(session, copy, &share))
    return copy_out_shared(kind, session, copy, &share);
  if (bp_call_begin(session, BP_WORKER_COPY_OUT, &call))
    return -1;
  put_host_copy(kind, copy, &call);
  int is_inline = copy->size <= BP_WORKER_INLINE_MAX;
  int32_t rc = bp_call_send(&call) ||
                       (!is_inline && bp_call_empty(&call, copy->host, copy->size)) ||
                       bp_call_wait(&call)
                   ? -1
                   : 0;
  if (!rc && is_inline) {
    BpByteArray bytes = bp_wire_get_bytes(&call.out);
    call.out.is_bad |= bytes.size != copy->size;
    rc = bp_call_check(&call);
    if (!rc)
      bp_wire_copy(copy->host, bytes.data, copy->size);
  }
  bp_call_finish(&call);
  return rc;
}

/* Copies between two devices of one worker. If the devices belong to two workers, one device is
 * lost, which is an error. */
static int32_t copy_within(const BpRemoteKind *kind, const BpCopy *copy, void *stream) {
  uint64_t from, to;
  BpSession *source = bp_remote_session(kind, copy->from_device.device_id, &from);
  BpSession *target = source ? bp_remote_session(kind, copy->to_device.device_id, &to) : NULL;
  if (!target)
    return -1;
  if (source != target) /* one of the two sessions is lost */
    return bp_session_require(source) ? -1 : bp_session_require(target);
  return BP_TELL(source, BP_WORKER_COPY_WITHIN, kind->number, from, (uintptr_t)copy->from,
                 copy->from_offset, to, (uintptr_t)copy->to, copy->to_offset, copy->size,
                 (uintptr_t)stream);
}

static int32_t copy(void *context, const BpCopy *copy, void *stream) {
  const BpRemoteKind *kind = context;
  int is_in = copy->from_device.device_type == BP_DEVICE_CPU;
  int is_out = copy->to_device.device_type == BP_DEVICE_CPU;
  HostCopy across = {.size = copy->size, .stream = (uintptr_t)stream};
  if (bp_plugin_check_flags(&bp_worker_host, kind->api.name, "copy", copy->flags))
    return -1;
  if (!is_in && !is_out)
    return copy_within(kind, copy, stream);
  int32_t device_id = is_in ? copy->to_device.device_id : copy->from_device.device_id;
  BpSession *session = bp_remote_session(kind, device_id, &across.index);
  if (!session)
    return -1;
  across.handle = (uintptr_t)(is_in ? copy->to : copy->from);
  across.offset = is_in ? copy->to_offset : copy->from_offset;
  across.host = is_in ? (char *)(uintptr_t)copy->from + copy->from_offset
                      : (char *)copy->to + copy->to_offset;
  return is_in ? copy_in(kind, session, &across) : copy_out(kind, session, &across);
}

/* ---- Streams ----------------------------------------------------------------------------- */

static int32_t create_stream(void *context, int32_t device_id, void **stream) {
  const BpRemoteKind *kind = context;
  uint64_t index, handle;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  if (!session || BP_ASK(session, BP_WORKER_STREAM_CREATE, &handle, kind->number, index))
    return -1;
  *stream = (void *)(uintptr_t)handle;
  return 0;
}

static int32_t free_stream(void *context, int32_t device_id, void *stream) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  if (!session)
    return -1;
  if (bp_session_check(session))
    return 0;
  return BP_TELL(session, BP_WORKER_STREAM_FREE, kind->number, index, (uintptr_t)stream);
}

static int32_t sync_stream_from_to(void *context, int32_t device_id, void *from, void *to) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  return session ? BP_TELL(session, BP_WORKER_STREAM_ORDER, kind->number, index, (uintptr_t)from,
                           (uintptr_t)to)
                 : -1;
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  const BpRemoteKind *kind = context;
  uint64_t index;
  BpSession *session = bp_remote_session(kind, device_id, &index);
  return session ? BP_TELL(session, BP_WORKER_STREAM_SYNC, kind->number, index, (uintptr_t)stream)
                 : -1;
}

/* ---- Kinds ------------------------------------------------------------------------------- */

static const BpDeviceApi slots = {
    .struct_size = sizeof(BpDeviceApi),
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = alloc_data_space,
    .free_data_space = free_data_space,
    .copy = copy,
    .create_stream = create_stream,
    .free_stream = free_stream,
    .sync_stream_from_to = sync_stream_from_to,
    .stream_sync = stream_sync,
    .visit_properties = visit_properties,
    .get_extension = bp_remote_get_extension,
};

/* Takes `plain_name` over. */
static BpRemoteKind *create_kind(BpIsolated *plugin, char *plain_name, int32_t plain_type,
                                 uint64_t has) {
  BpRemoteKind *kind = bp_plugin_calloc(&bp_worker_host, sizeof *kind);
  size_t size = strlen(plugin->prefix) + strlen(plain_name) + 1;
  char *name = bp_plugin_calloc(&bp_worker_host, size);
  if (!kind || !name) {
    free(kind);
    free(name);
    free(plain_name);
    return NULL;
  }
  snprintf(name, size, "%s%s", plugin->prefix, plain_name);
  kind->api = slots;
  kind->api.device_type = plain_type + (plugin->machine << BP_WORKER_MACHINE_SHIFT);
  kind->api.name = name;
  kind->plain_name = plain_name;
  kind->plain_type = plain_type;
  kind->api.context = kind;
  kind->plugin = plugin;
  kind->has = has;
  if (!(has & BP_WORKER_HAS_STREAMS))
    kind->api.create_stream = NULL, kind->api.free_stream = NULL,
    kind->api.sync_stream_from_to = NULL;
  if (!(has & BP_WORKER_HAS_PROPERTIES))
    kind->api.visit_properties = NULL;
  bp_remote_fill_extensions(kind);
  return kind;
}

static int32_t read_kind(BpIsolated *plugin, BpCall *call, int32_t i, int is_first) {
  char *name = bp_wire_get_str(&call->out);
  int32_t device_type = (int32_t)bp_wire_get(&call->out);
  uint64_t has = bp_wire_get(&call->out);
  if (!name || call->out.is_bad || device_type >> BP_WORKER_MACHINE_SHIFT) {
    free(name);
    return bp_session_give_up(call->session, "described a kind of devices that cannot be read");
  }
  if (is_first) {
    plugin->kinds[i] = create_kind(plugin, name, device_type, has);
    if (!plugin->kinds[i])
      return -1;
    plugin->kinds[i]->number = (uint64_t)i;
    plugin->num_kinds = i + 1;
    return 0;
  }
  const BpRemoteKind *kind = plugin->kinds[i];
  int is_same =
      !strcmp(name, kind->plain_name) && device_type == kind->plain_type && has == kind->has;
  free(name);
  return is_same ? 0
                 : bp_session_give_up(call->session, "is of another version than the one before");
}

int32_t bp_remote_read_kinds(BpIsolated *plugin, BpCall *call) {
  uint64_t count = bp_wire_get(&call->out);
  int is_first = plugin->num_kinds == 0;
  if (count > BP_WORKER_MAX_KINDS || (!is_first && count != (uint64_t)plugin->num_kinds))
    return bp_session_give_up(call->session, "has another number of kinds of devices");
  for (int32_t i = 0; i < (int32_t)count; i++)
    if (read_kind(plugin, call, i, is_first))
      return -1;
  return 0;
}
