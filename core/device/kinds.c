/* SPDX-License-Identifier: Apache-2.0 */
/* Device kinds by name and number, and attributes of devices.
 *
 * The global function `device_api.NAME` returns the address of the plugin's table as a pointer. The
 * host copies the table once. Members that an older plugin lacks are NULL in the copy, so callers
 * only test for NULL. In the child of a fork, a function that fails replaces all slots of the copy.
 * Finding a table by its number is one atomic read. */

#include "core/device/device.h"

#include "core/device/layers.h"
#include "core/device/tensor.h"
#include "core/system/env.h"
#include "core/system/lock.h"
#include "core/registry/argument.h"
#include "core/registry/hints.h"
#include "core/registry/host.h"
#include "core/registry/installed.h"
#include "core/registry/names.h"
#include "core/registry/part.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <glib.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 64

/* A kind in use; lives for ever. */
typedef struct Kind {
  BpDeviceApi api;      /* first member: the address of the api is that of the kind */
  BpLayering *layering; /* or NULL */
  atomic_int count;
  struct Kind *next; /* the next kind in its bucket */
  char name[];
} Kind;

/* The kinds in use, by device type modulo BUCKETS. BP__LOCK_STATE guards adding a kind; readers
 * need no lock. */
static _Atomic(Kind *) kinds[BUCKETS];

/* ---- Published numbers ------------------------------------------------------------------- */

/* The rows of sdk/device-types.txt; a test compares the two. */
static const struct {
  int32_t device_type;
  char name[12];
} published[] = {
    {BP_DEVICE_CPU, "cpu"},       {BP_DEVICE_CUDA, "cuda"},     {BP_DEVICE_CUDA_HOST, "cuda_host"},
    {BP_DEVICE_OPENCL, "opencl"}, {BP_DEVICE_VULKAN, "vulkan"}, {BP_DEVICE_METAL, "metal"},
    {BP_DEVICE_ROCM, "rocm"},     {BP_DEVICE_EXT, "ext_dev"},   {BP_DEVICE_HEXAGON, "hexagon"},
};
#define NUM_PUBLISHED (sizeof published / sizeof *published)

static const char *published_name(int32_t device_type) {
  for (size_t i = 0; i < NUM_PUBLISHED; i++)
    if (published[i].device_type == device_type)
      return published[i].name;
  return NULL;
}

int32_t bp__device_type_published(const char *name) {
  for (size_t i = 0; i < NUM_PUBLISHED; i++)
    if (!strcmp(published[i].name, name))
      return published[i].device_type;
  return 0;
}

const char *bp__device_type_published_at(size_t index) {
  return index < NUM_PUBLISHED ? published[index].name : NULL;
}

static Kind *find_kind(int32_t device_type) {
  Kind *kind = atomic_load(&kinds[(uint32_t)device_type % BUCKETS]);
  while (kind && kind->api.device_type != device_type)
    kind = kind->next;
  return kind;
}

/* Calls `visit` for each kind in use until it returns non-zero, which is then the result. */
static int visit_kinds(int (*visit)(Kind *kind, void *context), void *context) {
  int rc = 0;
  for (size_t i = 0; i < BUCKETS && !rc; i++)
    for (Kind *kind = atomic_load(&kinds[i]); kind && !rc; kind = kind->next)
      rc = visit(kind, context);
  return rc;
}

const char *bp__device_plain_kind(const char *kind) {
  const char *slash = g_str_has_prefix(kind, BP_REMOTE_PREFIX) ? strrchr(kind, '/') : NULL;
  return slash ? slash + 1 : kind;
}

/* Returns the name of a kind that only other machines have. */
static const char *name_of_code(int32_t device_type) {
  for (size_t i = 0; i < BUCKETS; i++)
    for (Kind *kind = atomic_load(&kinds[i]); kind; kind = kind->next)
      if (BP_DEVICE_TYPE_OF_CODE(kind->api.device_type) == device_type)
        return bp__device_plain_kind(kind->name);
  return NULL;
}

const char *bp__device_type_name(int32_t device_type) {
  const Kind *kind = find_kind(device_type);
  if (kind)
    return kind->name;
  const char *name = published_name(device_type);
  return name ? name : name_of_code(device_type);
}

/* ---- Forks ------------------------------------------------------------------------------- */

/* Vendor libraries do not survive a fork: their threads are gone and their locks may be held for
 * ever. So the slots of a device that was in use fail in the child. */
static int raise_forked(void) {
  return bp_error_raise(BP_ERROR_DEVICE,
                        "this process was forked from one that used the device, and devices do not "
                        "survive that; fork before the first use, or start a new program (exec, "
                        "posix_spawn, Python's \"spawn\")");
}

/* Every slot of a device that was in use before a fork ignores its arguments. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define FORKED(slot, ...)                                                                          \
  static int32_t forked_##slot(__VA_ARGS__) {                                                      \
    return raise_forked();                                                                         \
  }

FORKED(get_device_count, void *context, int32_t *count, const char **why)
FORKED(get_attr, void *context, int32_t device_id, int32_t attr, BpValue *result)
FORKED(set_device, void *context, int32_t device_id)
FORKED(alloc_data_space, void *context, int32_t device_id, const BpAllocation *allocation,
       void **handle)
FORKED(free_data_space, void *context, int32_t device_id, void *handle)
FORKED(alloc_workspace, void *context, int32_t device_id, uint64_t size, BpDataType dtype_hint,
       void **handle)
FORKED(copy, void *context, const BpCopy *copy, void *stream)
FORKED(create_stream, void *context, int32_t device_id, void **stream)
FORKED(use_stream, void *context, int32_t device_id, void *stream)
FORKED(sync_stream_from_to, void *context, int32_t device_id, void *from, void *to)
FORKED(visit_properties, void *context, int32_t device_id,
       int32_t (*visit)(void *visitor, const char *name, const BpValue *value), void *visitor)

#pragma GCC diagnostic pop

/* Replaces every slot by a function that raises an error at once. */
static void replace_slots(BpDeviceApi *api) {
  *api = (BpDeviceApi){
      .struct_size = api->struct_size,
      .device_type = api->device_type,
      .name = api->name,
      .context = api->context,
      .get_device_count = forked_get_device_count,
      .get_attr = forked_get_attr,
      .set_device = forked_set_device,
      .alloc_data_space = forked_alloc_data_space,
      .free_data_space = forked_free_data_space,
      .alloc_workspace = forked_alloc_workspace,
      .free_workspace = forked_free_data_space,
      .copy = forked_copy,
      .create_stream = forked_create_stream,
      .free_stream = forked_use_stream,
      .sync_stream_from_to = forked_sync_stream_from_to,
      .stream_sync = forked_use_stream,
      .visit_properties = forked_visit_properties,
  };
}

static atomic_int is_forked; /* child of a process that had used a device */

int bp__device_check_fork(void) {
  return __builtin_expect(atomic_load_explicit(&is_forked, memory_order_relaxed), 0)
             ? raise_forked()
             : 0;
}

int bp__device_is_forked(void) {
  return atomic_load_explicit(&is_forked, memory_order_relaxed);
}

static int make_forked(Kind *kind, void *context) {
  (void)context;
  replace_slots(&kind->api);
  atomic_store(&is_forked, 1);
  return 0;
}

static void after_fork_in_child(void) {
  visit_kinds(make_forked, NULL);
}

/* ---- Copying a plugin's table ------------------------------------------------------------ */

static int check_slots(const char *name, const BpDeviceApi *api) {
#define REQUIRE(slot)                                                                              \
  if (!BP_TABLE_HAS(api, slot))                                                                    \
  return bp_error_raise(BP_ERROR_PLUGIN,                                                           \
                        "the DeviceAPI of %s lacks %s; this is a defect of the "                   \
                        "plugin",                                                                  \
                        name, #slot)
  REQUIRE(get_device_count);
  REQUIRE(get_attr);
  REQUIRE(alloc_data_space);
  REQUIRE(free_data_space);
  REQUIRE(copy);
  REQUIRE(stream_sync);
#undef REQUIRE
  return 0;
}

/* Whether a table's device type is the kind's number, or above it for a kind of another machine. */
static int has_own_number(const char *name, int32_t device_type) {
  const char *plain = bp__device_plain_kind(name);
  int32_t type = BP_DEVICE_TYPE_OF_CODE(device_type), number = bp__device_type_published(plain);
  const char *owner = published_name(type);
  return device_type > 0 && type && (type == device_type) == (plain == name) &&
         (!number || number == type) && (!owner || !strcmp(owner, plain));
}

static int check_identity(const char *name, const BpDeviceApi *api) {
  if (!api || api->struct_size < offsetof(BpDeviceApi, get_attr))
    return bp_error_raise(BP_ERROR_PLUGIN, "device_api.%s gives no DeviceAPI table", name);
  if (!BP_TABLE_HAS(api, name) || strcmp(api->name, name))
    return bp_error_raise(BP_ERROR_PLUGIN, "device_api.%s gives the table of another kind, \"%s\"",
                          name, api->name ? api->name : "");
  if (api->reserved)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "the DeviceAPI of %s has %d in `reserved`, which has to be 0; this is a "
                          "defect of the plugin",
                          name, api->reserved);
  if (!has_own_number(name, api->device_type))
    return bp_error_raise(BP_ERROR_PLUGIN,
                          "the DeviceAPI of %s has device type %d, which is not its own; see "
                          "sdk/device-types.txt",
                          name, api->device_type);
  return 0;
}

/* Clears optional slots that belong together unless all of them are present. */
static void drop_incomplete_groups(BpDeviceApi *api) {
  if (!api->alloc_workspace || !api->free_workspace)
    api->alloc_workspace = NULL, api->free_workspace = NULL;
  if (!api->create_stream || !api->free_stream || !api->sync_stream_from_to)
    api->create_stream = NULL, api->free_stream = NULL, api->sync_stream_from_to = NULL;
}

int bp__device_api_take(const char *name, const BpDeviceApi *given, BpDeviceApi *own) {
  if (check_identity(name, given) || check_slots(name, given))
    return -1;
  memset(own, 0, sizeof *own);
  memcpy(own, given, MIN(given->struct_size, sizeof *own));
  own->struct_size = sizeof *own;
  drop_incomplete_groups(own);
  return 0;
}

static Kind *create_kind(const char *name, const BpDeviceApi *api) {
  size_t size = strlen(name) + 1;
  Kind *kind = calloc(1, sizeof *kind + size);
  if (!kind) {
    bp_error_raise(BP_ERROR_MEMORY, "no memory for device kind %s", name);
    return NULL;
  }
  memcpy(kind->name, name, size);
  int rc = bp__device_api_take(name, api, &kind->api);
  kind->api.name = kind->name;
  if (!rc && !bp__layers_wrap(&kind->api, &kind->layering))
    return kind;
  free(kind);
  return NULL;
}

/* Returns the kind that is in use from now on; NULL if another kind has its number. Called with the
 * lock held. */
static Kind *enter_kind(Kind *kind) {
  Kind *other = find_kind(kind->api.device_type);
  if (other && !strcmp(other->name, kind->name)) {
    free(kind);
    return other;
  }
  if (other) {
    bp_error_raise(BP_ERROR_PLUGIN, "device kinds %s and %s both have device type %d", other->name,
                   kind->name, kind->api.device_type);
    free(kind);
    return NULL;
  }
  static BpForkHook hook = {after_fork_in_child, NULL};
  bp__fork_hook_add(&hook);
  _Atomic(Kind *) *bucket = &kinds[(uint32_t)kind->api.device_type % BUCKETS];
  kind->next = atomic_load(bucket);
  atomic_store(bucket, kind);
  return kind;
}

/* ---- Finding ----------------------------------------------------------------------------- */

int bp__device_raise_unknown(const char *name) {
  const Hints *hints = bp__hints();
  return hints ? hints->raise_unknown_kind(name)
               : bp_error_raise(BP_ERROR_NOT_FOUND,
                                "no installed plugin has devices of kind \"%.64s\"", name);
}

/* Gets the table from the registry. */
static const BpDeviceApi *fetch_table(const char *name) {
  BpFunction *function = NULL;
  BpValue value;
  g_autofree char *registry_name = g_strconcat("device_api.", name, NULL);
  if (bp_registry_get(registry_name, &function)) {
    bp_error_add_context("device kind %s", name);
    return NULL;
  }
  if (!function) {
    bp__device_raise_unknown(name);
    return NULL;
  }
  int rc = bp_function_call(function, NULL, 0, &value);
  bp_object_release(function);
  if (rc)
    return NULL;
  const BpDeviceApi *api = value.type_index == BP_TYPE_POINTER ? value.v_ptr : NULL;
  if (!api)
    bp_error_raise(BP_ERROR_PLUGIN, "%s does not return a pointer to a DeviceAPI table",
                   registry_name);
  bp_value_clear(&value);
  return api;
}

static Kind *find_used(const char *name) {
  for (size_t i = 0; i < BUCKETS; i++)
    for (Kind *kind = atomic_load(&kinds[i]); kind; kind = kind->next)
      if (!strcmp(kind->name, name))
        return kind;
  return NULL;
}

const BpDeviceApi *bp__device_api_by_name(const char *name) {
  if (bp__device_check_fork())
    return NULL;
  Kind *kind = find_used(name);
  if (kind)
    return &kind->api;
  const BpDeviceApi *api = fetch_table(name);
  kind = api ? create_kind(name, api) : NULL;
  if (!kind)
    return NULL;
  bp__lock(BP__LOCK_STATE);
  kind = enter_kind(kind);
  bp__unlock(BP__LOCK_STATE);
  return kind ? &kind->api : NULL;
}

const BpDeviceApi *bp_device_api(int32_t device_type) {
  if (bp__device_check_fork())
    return NULL;
  const Kind *kind = find_kind(device_type);
  if (kind)
    return &kind->api;
  const char *name = published_name(device_type);
  if (name)
    return bp__device_api_by_name(name);
  bp_error_raise(
      BP_ERROR_NOT_FOUND,
      "device type %d is not a published one and no plugin in use has it; name the kind, "
      "as with bp_device_parse(), so that its plugin is found",
      device_type);
  return NULL;
}

const BpLayering *bp__device_layering(const BpDeviceApi *api) {
  return ((const Kind *)api)->layering;
}

const void *bp_device_extension(int32_t device_type, const char *name, uint32_t version) {
  if (!BP_NOT_NULL(name))
    return NULL;
  const BpDeviceApi *api = bp_device_api(device_type);
  return api && api->get_extension ? api->get_extension(api->context, name, version) : NULL;
}

/* ---- Names ------------------------------------------------------------------------------- */

/* Returns the device type of a name, or -1 with an error. If the name is not published, the plugin
 * that declares it is activated. */
static int32_t type_by_name(const char *name) {
  int32_t number = bp__device_type_published(name);
  if (number)
    return number;
  const BpDeviceApi *api = bp__device_api_by_name(name);
  return api ? api->device_type : -1;
}

int bp__remote_is_used(void) {
  return bp__part_loaded(BP_PART_ISOLATION) || bp__env_get("BACKPLANE_REMOTE");
}

char *bp__device_find_kind(const char *name) {
  if (!g_str_has_prefix(name, BP_REMOTE_PREFIX) && !bp__remote_is_used())
    return g_strdup(name);
  const Installed *installed = bp__installed();
  return installed ? installed->find_device_kind(name) : NULL;
}

/* A kind in use is found without searching plugins. */
static int parse_kind(const char *name) {
  g_autofree char *kind = find_used(name) ? g_strdup(name) : bp__device_find_kind(name);
  return kind ? type_by_name(kind) : -1;
}

int bp_device_parse(const char *text, BpDevice *device) {
  if (!BP_NOT_NULL(text) || !BP_NOT_NULL(device))
    return -1;
  const char *plain = bp__device_plain_kind(text);
  size_t length = (size_t)(plain - text) + strcspn(plain, ":");
  guint64 index = 0;
  if (!*plain || *plain == ':' || length >= BP_DEVICE_KIND_MAX ||
      (text[length] &&
       !g_ascii_string_to_unsigned(text + length + 1, 10, 0, INT32_MAX, &index, NULL)))
    return bp_error_raise(
        BP_ERROR_VALUE,
        "\"%.80s\" is no device; one is written KIND or KIND:INDEX, as opencl:1 or "
        "remote:me@gpubox/opencl:1",
        text);
  g_autofree char *name = g_strndup(text, length);
  int32_t type = parse_kind(name);
  if (type < 0)
    return -1;
  *device = (BpDevice){type, (int32_t)index};
  return 0;
}

size_t bp_device_format(BpDevice device, char *text, size_t capacity) {
  const char *name = bp__device_type_name(device.device_type);
  int size = name ? g_snprintf(text, capacity, "%s:%d", name, device.device_id)
                  : g_snprintf(text, capacity, "type %d:%d", device.device_type, device.device_id);
  return (size_t)size;
}

static int add_name(Kind *kind, void *names) {
  return bp__names_add(names, kind->name, strlen(kind->name));
}

int bp__device_add_kinds(BpNames *names) {
  return visit_kinds(add_name, names);
}

char **bp_device_kinds(size_t *count) {
  const Installed *installed = bp__installed();
  BpNames names = {.text = NULL};
  if (installed && !installed->add_device_kinds(&names) && !bp__device_add_kinds(&names))
    return bp__names_finish(&names, count);
  bp__names_clear(&names);
  return NULL;
}

/* ---- Devices of a kind ------------------------------------------------------------------- */

int bp__device_failed(BpDevice device, const char *slot) {
  char text[BP_DEVICE_TEXT_MAX];
  bp_device_format(device, text, sizeof text);
  if (!*bp_error_kind())
    bp_error_raise(BP_ERROR_DEVICE, "the plugin gives no reason");
  return bp_error_add_context("%s: %s", text, slot);
}

int bp_device_count(int32_t device_type, int32_t *count, const char **why) {
  const char *reason = NULL;
  if (!BP_NOT_NULL(count))
    return -1;
  *count = 0;
  if (why)
    *why = "";
  const BpDeviceApi *api = bp_device_api(device_type);
  if (!api)
    return -1;
  if (api->get_device_count(api->context, count, &reason))
    return bp__device_failed((BpDevice){device_type, 0}, "counting devices");
  const Hints *hints = why && !*count && reason ? bp__hints() : NULL;
  if (why && !*count && reason)
    *why = hints ? hints->explain_no_device(api->name, reason) : reason;
  atomic_store(&((Kind *)(uintptr_t)api)->count, *count);
  return 0;
}

static int raise_absent(BpDevice device, int32_t count, const char *why) {
  char text[BP_DEVICE_TEXT_MAX], first[BP_DEVICE_TEXT_MAX], last[BP_DEVICE_TEXT_MAX];
  char present[2 * BP_DEVICE_TEXT_MAX] = "none of its kind";
  bp_device_format(device, text, sizeof text);
  bp_device_format((BpDevice){device.device_type, 0}, first, sizeof first);
  bp_device_format((BpDevice){device.device_type, count - 1}, last, sizeof last);
  if (count == 1)
    g_snprintf(present, sizeof present, "only %s", first);
  else if (count > 1)
    g_snprintf(present, sizeof present, "%s to %s", first, last);
  return bp_error_raise(BP_ERROR_NOT_FOUND, "there is no device %s: there is %s%s%s", text, present,
                        *why ? "; " : "", why);
}

const BpDeviceApi *bp__device_get(BpDevice device) {
  const BpDeviceApi *api = bp_device_api(device.device_type);
  if (!api)
    return NULL;
  const Kind *kind = (const Kind *)api;
  int32_t count = atomic_load_explicit(&kind->count, memory_order_relaxed);
  if (device.device_id >= 0 && device.device_id < count)
    return api;
  const char *why;
  if (bp_device_count(device.device_type, &count, &why))
    return NULL;
  if (device.device_id >= 0 && device.device_id < count)
    return api;
  raise_absent(device, count, why);
  return NULL;
}

/* ---- Attributes -------------------------------------------------------------------------- */

const char *bp_device_attr_name(int32_t attr) {
  const Text *text = bp__part_table(BP_PART_TEXT);
  return text ? text->attr_name(attr) : NULL;
}

int32_t bp_device_attr_by_name(const char *name) {
  const char *known;
  for (int32_t i = 0; name && (known = bp_device_attr_name(i)); i++)
    if (strcmp(known, name) == 0)
      return i;
  return -1;
}

/* BP_ATTR_EXIST never fails: for an unknown device the answer is false. */
static int get_exist(BpDevice device, BpValue *value) {
  const BpDeviceApi *api = bp__device_get(device);
  int answered = api && !api->get_attr(api->context, device.device_id, BP_ATTR_EXIST, value);
  int exists = answered && (value->type_index != BP_TYPE_BOOL || value->v_int64);
  bp_value_clear(value);
  bp_error_clear();
  *value = (BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = exists};
  return 0;
}

int bp_device_get_attr(BpDevice device, int32_t attr, BpValue *value) {
  if (!BP_NOT_NULL(value))
    return -1;
  *value = (BpValue){.type_index = BP_TYPE_NONE};
  if (attr < 0)
    return bp_error_raise(BP_ERROR_VALUE, "device attribute %d: numbers are 0 or more", attr);
  if (attr == BP_ATTR_EXIST)
    return get_exist(device, value);
  const BpDeviceApi *api = bp__device_get(device);
  if (!api)
    return -1;
  if (!api->get_attr(api->context, device.device_id, attr, value))
    return 0;
  *value = (BpValue){.type_index = BP_TYPE_NONE};
  BpError *error = bp_error_take();
  const char *name = bp_device_attr_name(attr);
  char number[32];
  g_snprintf(number, sizeof number, "attribute %d", attr);
  bp_error_put(error);
  return bp__device_failed(device, name ? name : number);
}
