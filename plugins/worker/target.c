/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds and code generators of a plugin that runs in a worker. A target is sent as JSON, and
 * the IR as text; the module comes back as bytes. */
#include "worker.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* A target kind of a worker; lives for ever. */
typedef struct RemoteTarget {
  BpTargetKind kind; /* its context is this structure */
  BpIsolated *plugin;
  struct RemoteTarget *next; /* the next of all target kinds */
} RemoteTarget;

static _Atomic(RemoteTarget *) all;

static const RemoteTarget *find_target(const char *kind) {
  const RemoteTarget *target = atomic_load(&all);
  while (target && strcmp(target->kind.name, kind) != 0)
    target = target->next;
  return target;
}

/* ---- BpText -------------------------------------------------------------------------------- */

void bp_text_add(BpText *text, const char *bytes, size_t size) {
  if (text->size + size > text->capacity) {
    size_t capacity = 2 * (text->size + size) + 256;
    char *grown = realloc(text->data, capacity);
    if (!grown) {
      text->is_full = 1;
      return;
    }
    text->data = grown;
    text->capacity = capacity;
  }
  bp_wire_copy(text->data + text->size, bytes, size);
  text->size += size;
}

static void add_str(BpText *text, const char *string) {
  bp_text_add(text, string, strlen(string));
}

/* Adds a JSON string. Only quotes and backslashes are escaped: a target has no control
 * characters. */
static void add_quoted(BpText *text, const char *data, size_t size) {
  bp_text_add(text, "\"", 1);
  for (size_t i = 0; i < size; i++) {
    if (data[i] == '"' || data[i] == '\\')
      bp_text_add(text, "\\", 1);
    bp_text_add(text, &data[i], 1);
  }
  bp_text_add(text, "\"", 1);
}

static void add_value(BpText *text, const BpValue *value) {
  char number[64];
  BpByteArray bytes;
  switch (value->type_index) {
  case BP_TYPE_INT:
    snprintf(number, sizeof number, "%lld", (long long)value->v_int64);
    add_str(text, number);
    return;
  case BP_TYPE_BOOL:
    add_str(text, value->v_int64 ? "true" : "false");
    return;
  case BP_TYPE_FLOAT:
    snprintf(number, sizeof number, "%.17g", value->v_float64);
    add_str(text, number);
    return;
  default:
    if (!bp_worker_host.object->view_str(value, &bytes))
      add_quoted(text, bytes.data, bytes.size);
  }
}

static int32_t print_target(const RemoteTarget *remote, const BpTarget *target, BpText *text) {
  const BpTargetKind *kind = &remote->kind;
  add_str(text, "{\"kind\":");
  add_quoted(text, kind->name, strlen(kind->name));
  for (int32_t i = 0; i < kind->num_attrs; i++) {
    const BpTargetAttr *attr = bp_target_kind_attr(kind, i);
    BpValue value = {.type_index = BP_TYPE_NONE};
    if (bp_worker_host.target->get_attr(target, attr->name, &value))
      return -1;
    if (value.type_index == BP_TYPE_NONE)
      continue;
    add_str(text, ",");
    add_quoted(text, attr->name, strlen(attr->name));
    add_str(text, ":");
    add_value(text, &value);
  }
  add_str(text, "}");
  return text->is_full
             ? bp_plugin_raise(&bp_worker_host, BP_ERROR_MEMORY, "no memory for a target's text")
             : 0;
}

/* Writes the target as JSON, in the C locale. 0, or -1 with an error. */
static int32_t describe_target(const RemoteTarget *remote, const BpTarget *target, BpText *text) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = plain ? uselocale(plain) : (locale_t)0;
  int32_t rc = print_target(remote, target, text);
  if (plain) {
    uselocale(before);
    freelocale(plain);
  }
  return rc;
}

int32_t bp_remote_describe_target(const BpTarget *target, BpText *text) {
  const char *kind = bp_worker_host.target->get_kind(target);
  const RemoteTarget *remote = find_target(kind);
  return remote
             ? describe_target(remote, target, text)
             : bp_plugin_raise(&bp_worker_host, BP_ERROR_NOT_IMPLEMENTED,
                               "target %s does not cross: its plugin runs in this process", kind);
}

/* ---- Completing a target ----------------------------------------------------------------- */

static int32_t read_attribute(BpTarget *target, const BpTargetAttr *attr, BpWire *wire) {
  BpValue value = {.type_index = (int32_t)bp_wire_get(wire)};
  BpValue text = {.type_index = BP_TYPE_NONE};
  if (value.type_index == BP_TYPE_NONE)
    return 0;
  if (value.type_index == BP_TYPE_STR) {
    BpByteArray bytes = bp_wire_get_bytes(wire);
    if (bp_worker_host.object->make_str(bytes.data, bytes.size, &text))
      return -1;
  } else {
    value.v_int64 = (int64_t)bp_wire_get(wire);
  }
  int32_t rc = wire->is_bad
                   ? 0
                   : bp_worker_host.target->set_attr(
                         target, attr->name, text.type_index == BP_TYPE_NONE ? &value : &text);
  if (text.type_index >= BP_TYPE_OBJECT)
    bp_worker_host.object->release(text.v_obj);
  return rc;
}

static int32_t complete(void *context, BpTarget *target) {
  const RemoteTarget *remote = context;
  BpText text = {NULL, 0, 0, 0};
  BpCall call;
  BpSession *session = bp_isolated_session(remote->plugin);
  int32_t rc = session ? describe_target(remote, target, &text) : -1;
  if (!rc)
    rc = bp_call_begin(session, BP_WORKER_COMPLETE, &call);
  if (!rc) {
    bp_wire_put_bytes(&call.in, text.data, text.size);
    rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
    for (int32_t i = 0; i < remote->kind.num_attrs && !rc; i++)
      rc = read_attribute(target, bp_target_kind_attr(&remote->kind, i), &call.out);
    if (!rc)
      rc = bp_call_check(&call);
    bp_call_finish(&call);
  }
  free(text.data);
  return rc;
}

/* ---- Kinds ------------------------------------------------------------------------------- */

static int32_t read_attr(BpTargetAttr *attr, BpWire *wire) {
  attr->name = bp_wire_get_str(wire);
  attr->type = (int32_t)bp_wire_get(wire);
  uint64_t has_default = bp_wire_get(wire);
  char *text = bp_wire_get_str(wire);
  attr->default_value = has_default ? text : NULL;
  if (!has_default)
    free(text);
  attr->description = bp_wire_get_str(wire);
  return attr->name && attr->description && !wire->is_bad ? 0 : -1;
}

/* Reads a target kind. The kind and its strings live for ever. */
static int32_t read_target(RemoteTarget *remote, BpCall *call) {
  BpTargetKind *kind = &remote->kind;
  kind->struct_size = sizeof *kind;
  kind->name = bp_wire_get_str(&call->out);
  kind->device_type = (int32_t)bp_wire_get(&call->out);
  kind->ir_level = (int32_t)bp_wire_get(&call->out);
  kind->description = bp_wire_get_str(&call->out);
  kind->complete = bp_wire_get(&call->out) ? complete : NULL;
  kind->context = remote;
  uint64_t count = bp_wire_get(&call->out);
  if (!kind->name || !kind->description || call->out.is_bad || count > BP_WORKER_AREA / 16)
    return bp_session_give_up(call->session, "described a target kind that cannot be read");
  BpTargetAttr *attrs = bp_plugin_calloc(&bp_worker_host, (count + 1) * sizeof *attrs);
  if (!attrs)
    return -1;
  kind->attrs = attrs;
  kind->attr_size = sizeof *attrs;
  kind->num_attrs = (int32_t)count;
  for (uint64_t i = 0; i < count; i++)
    if (read_attr(&attrs[i], &call->out))
      return bp_session_give_up(call->session, "described a target kind that cannot be read");
  return 0;
}

static int32_t add_target(BpIsolated *plugin, BpCall *call) {
  RemoteTarget *remote = bp_plugin_calloc(&bp_worker_host, sizeof *remote);
  if (!remote)
    return -1;
  remote->plugin = plugin;
  if (read_target(remote, call) || bp_worker_host.target->register_kind(&remote->kind))
    return -1;
  remote->next = atomic_load(&all);
  while (!atomic_compare_exchange_weak(&all, &remote->next, remote)) {
  }
  return 0;
}

/* A worker that replaces another has the same kinds: it runs the same plugin. */
int32_t bp_remote_read_targets(BpIsolated *plugin, BpCall *call) {
  if (plugin->session)
    return 0;
  uint64_t count = bp_wire_get(&call->out);
  for (uint64_t i = 0; i < count && !call->out.is_bad; i++)
    if (add_target(plugin, call))
      return -1;
  return 0;
}

/* ---- Code generation --------------------------------------------------------------------- */

static int32_t print_functions(const BpIrTable *ir, const BpIrModule *module, BpText *text) {
  add_str(text, "(module");
  for (int32_t i = 0; i < ir->num_functions(module); i++) {
    BpValue printed = {.type_index = BP_TYPE_NONE};
    BpByteArray bytes;
    if (ir->print(ir->get_function(module, i), &printed))
      return -1;
    add_str(text, "\n");
    if (!bp_worker_host.object->view_str(&printed, &bytes))
      bp_text_add(text, bytes.data, bytes.size);
    if (printed.type_index >= BP_TYPE_OBJECT)
      bp_worker_host.object->release(printed.v_obj);
  }
  add_str(text, ")\n");
  return text->is_full ? bp_plugin_raise(&bp_worker_host, BP_ERROR_MEMORY, "no memory for the IR")
                       : 0;
}

static BpModule *call_build(const RemoteTarget *remote, const BpText *target, const BpText *ir) {
  uint64_t blob;
  BpCall call;
  BpModule *module = NULL;
  BpSession *session = bp_isolated_session(remote->plugin);
  if (!session || bp_blob_put(session, ir->data, ir->size, &blob) ||
      bp_call_begin(session, BP_WORKER_BUILD, &call))
    return NULL;
  bp_wire_put_str(&call.in, remote->kind.name);
  bp_wire_put_bytes(&call.in, target->data, target->size);
  bp_wire_put(&call.in, blob);
  if (!bp_call_send(&call) && !bp_call_wait(&call))
    module = bp_remote_module_of_build(remote->plugin, session, &call);
  bp_call_finish(&call);
  return module;
}

static int build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const char *kind = ((const BpClosure *)self)->context;
  const RemoteTarget *remote = find_target(kind);
  if (!remote || num_args != 2 || args[0].type_index != BP_TYPE_IR_MODULE ||
      args[1].type_index != BP_TYPE_TARGET)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_TYPE,
                           "target.build.%s: expected an IR module and a target", kind);
  const BpIrTable *ir =
      bp_worker_host.host->get_table(bp_worker_host.host, BP_TABLE_IR, BP_TABLE_IR_VERSION);
  if (!ir)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_NOT_FOUND,
                           "target %s: the compiler library is not loaded", kind);
  BpText target_text = {NULL, 0, 0, 0}, ir_text = {NULL, 0, 0, 0};
  BpModule *module = NULL;
  if (!describe_target(remote, (const BpTarget *)(const void *)args[1].v_obj, &target_text) &&
      !print_functions(ir, (const BpIrModule *)(const void *)args[0].v_obj, &ir_text))
    module = call_build(remote, &target_text, &ir_text);
  free(target_text.data);
  free(ir_text.data);
  return bp_plugin_answer_module(result, module);
}

int32_t bp_remote_register_build(BpIsolated *plugin, const char *registry_name, const char *kind) {
  (void)plugin;
  return bp_plugin_register(&bp_worker_host, registry_name, build, (void *)(uintptr_t)kind);
}
