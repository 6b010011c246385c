/* SPDX-License-Identifier: Apache-2.0 */
/* Devices whose kernels break the process that runs them, each kernel as its name says, and memory
 * that breaks it when it is copied. Their memory is the process' own, their work is done at once,
 * and the driver's version is the process number. Odd devices are software drivers, which share
 * memory with the host. */
#include <backplane/device_extensions.h>
#include <backplane/plugin_helpers.h>

#include "plugins/worker/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=fragile\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=Devices that break, for tests\n"
                     "entry=bp_plugin_entry_fragile\n"
                     "provides=device_api.fragile runtime.module.loadbinary_fragile\n"
                     "devices=fragile\n");

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_fragile(const BpHost *host, BpPlugin *plugin);

#define DEVICE_TYPE 61442
#define NUM_DEVICES 2
/* A number in the vendor range. */
#define ATTR_LONG_SHAPE 100000

static BpPluginTables host;

/* Memory of scope "brittle": some copies of it end the process. */
typedef struct Memory {
  int32_t is_brittle;
  char *data; /* `own`, or imported memory */
  _Alignas(64) char own[];
} Memory;

/* ---- Devices ----------------------------------------------------------------------------- */

static int32_t get_device_count(void *context, int32_t *count, const char **why) {
  (void)context;
  *count = NUM_DEVICES;
  *why = "";
  return 0;
}

static int32_t get_attr(void *context, int32_t device_id, int32_t attr, BpValue *result) {
  static const int64_t extents[] = {1024, 64, 1}, many[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  char text[32];
  (void)context;
  switch (attr) {
  case BP_ATTR_EXIST:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case BP_ATTR_HOST_ACCESSIBLE:
    return bp_plugin_answer_int(result, BP_TYPE_BOOL, 1);
  case ATTR_LONG_SHAPE:
    result->type_index = BP_TYPE_SHAPE;
    result->v_obj = (BpObject *)(void *)host.object->shape_create(many, 9);
    return result->v_obj ? 0 : -1;
  case BP_ATTR_WARP_SIZE:
    return bp_plugin_answer_int(result, BP_TYPE_INT, 32 + device_id);
  case BP_ATTR_RANK:
    return bp_plugin_answer_int(result, BP_TYPE_INT, device_id % 2 ? 50 : 100);
  case BP_ATTR_MAX_THREAD_DIMENSIONS:
    return bp_plugin_answer_extents(&host, result, extents);
  case BP_ATTR_DRIVER_VERSION:
    snprintf(text, sizeof text, "%d", (int)getpid());
    return bp_plugin_answer_str(&host, result, text);
  default:
    return 0;
  }
}

static int32_t alloc_data_space(void *context, int32_t device_id, const BpAllocation *allocation,
                                void **handle) {
  int is_brittle = allocation->scope && !strcmp(allocation->scope, "brittle");
  (void)context;
  (void)device_id;
  if (allocation->size > (uint64_t)1 << 40)
    return bp_plugin_raise(&host, BP_ERROR_MEMORY, "fragile: no memory");
  Memory *memory = aligned_alloc(64, sizeof *memory + (allocation->size + 63) / 64 * 64);
  if (!memory)
    return bp_plugin_raise(&host, BP_ERROR_MEMORY, "fragile: no memory for %llu bytes",
                           (unsigned long long)allocation->size);
  memory->is_brittle = is_brittle ? 3 : 0;
  memory->data = memory->own;
  *handle = memory;
  return 0;
}

static int32_t free_data_space(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  free(handle);
  return 0;
}

static char *touch(const void *handle) {
  Memory *memory = (Memory *)(uintptr_t)handle;
  if (memory->is_brittle && --memory->is_brittle == 0)
    _exit(3);
  return memory->data;
}

static int32_t copy(void *context, const BpCopy *copy, void *stream) {
  int is_in = copy->from_device.device_type == BP_DEVICE_CPU;
  int is_out = copy->to_device.device_type == BP_DEVICE_CPU;
  const char *from = is_in ? copy->from : touch(copy->from);
  char *to = is_out ? copy->to : touch(copy->to);
  (void)context;
  (void)stream;
  memmove(to + copy->to_offset, from + copy->from_offset, copy->size);
  return 0;
}

static int32_t stream_sync(void *context, int32_t device_id, void *stream) {
  (void)context;
  (void)device_id;
  (void)stream;
  return 0;
}

/* ---- Events and imported memory ---------------------------------------------------------- */

/* Every event is complete. */
struct BpDeviceEvent {
  char unused;
};

static int32_t fails_next; /* whether the next event cannot be created */

static int32_t create_event(void *context, int32_t device_id, BpDeviceEvent **event) {
  (void)context;
  (void)device_id;
  *event = fails_next ? NULL : malloc(sizeof **event);
  fails_next = 0;
  return *event ? 0 : bp_plugin_raise(&host, BP_ERROR_MEMORY, "fragile: no memory for an event");
}

static int32_t free_event(void *context, BpDeviceEvent *event) {
  (void)context;
  free(event);
  return 0;
}

static int32_t pass_event(void *context, BpDeviceEvent *event, void *stream) {
  (void)context;
  (void)event;
  (void)stream;
  return 0;
}

static int32_t query_event(void *context, BpDeviceEvent *event, int32_t *state) {
  (void)context;
  (void)event;
  *state = BP_EVENT_COMPLETE;
  return 0;
}

static int32_t synchronize_event(void *context, BpDeviceEvent *event, uint64_t timeout_ns,
                                 int32_t *state) {
  (void)timeout_ns;
  return query_event(context, event, state);
}

static const BpEventsApi events_api = {
    .struct_size = sizeof events_api,
    .create = create_event,
    .free = free_event,
    .record = pass_event,
    .wait = pass_event,
    .query = query_event,
    .synchronize = synchronize_event,
};

static int32_t get_forms(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                         uint64_t *alignment) {
  (void)context;
  *imports = device_id % 2 ? BP_EXTERNAL_HOST_POINTER : 0;
  *exports = 0;
  *alignment = 64;
  return 0;
}

static int32_t import_memory(void *context, int32_t device_id, const BpExternalMemory *external,
                             void **handle) {
  const BpAllocation none = {.struct_size = sizeof none};
  if (alloc_data_space(context, device_id, &none, handle))
    return -1;
  ((Memory *)*handle)->data = external->address;
  return 0;
}

static int32_t export_memory(void *context, int32_t device_id, const BpAllocation *allocation,
                             BpExternalMemory *memory, void **handle) {
  (void)context;
  (void)device_id;
  (void)allocation;
  (void)memory;
  (void)handle;
  return bp_plugin_raise(&host, BP_ERROR_NOT_IMPLEMENTED, "fragile: no memory is exported");
}

static const BpExternalMemoryApi external_api = {
    .struct_size = sizeof external_api,
    .get_forms = get_forms,
    .import_memory = import_memory,
    .export_memory = export_memory,
};

static const void *get_extension(void *context, const char *name, uint32_t version) {
  (void)context;
  if (!strcmp(name, BP_EXTENSION_EVENTS) && version == BP_EXTENSION_EVENTS_VERSION)
    return &events_api;
  if (!strcmp(name, BP_EXTENSION_EXTERNAL_MEMORY) &&
      version == BP_EXTENSION_EXTERNAL_MEMORY_VERSION)
    return &external_api;
  return NULL;
}

static const BpDeviceApi device_api = {
    .struct_size = sizeof device_api,
    .device_type = DEVICE_TYPE,
    .name = "fragile",
    .get_device_count = get_device_count,
    .get_attr = get_attr,
    .alloc_data_space = alloc_data_space,
    .free_data_space = free_data_space,
    .copy = copy,
    .stream_sync = stream_sync,
    .get_extension = get_extension,
};

/* ---- Kernels that break ------------------------------------------------------------------ */

static void wait_for_ever(int result) {
  for (;; (void)result)
    pause();
}

/* Finds the memory that is shared with the host. */
static void *find_shared(void) {
  char line[512];
  unsigned long address = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "memfd:backplane-worker") && !address)
      address = strtoul(line, NULL, 16);
  if (maps)
    fclose(maps);
  return (void *)address;
}

/* Answers every call at once, with results that do not exist, and never again. */
static void garble(uint32_t size, int32_t status, int fill) {
  void *memory = find_shared();
  for (uint32_t i = 0; i < BP_WORKER_CHANNELS; i++) {
    BpWorkerChannel *channel = bp_worker_channel(memory, i);
    memset(channel->results, fill, sizeof channel->results);
    channel->answer_size = size;
    channel->status = status;
    atomic_store(&channel->answer, atomic_load(&channel->request));
    bp_worker_tell(&channel->worker_word, &channel->host_sleeps);
  }
  wait_for_ever(0);
}

/* Decreases the chunk count of all channels by one, and never answers. */
static void garble_chunks(void) {
  void *memory = find_shared();
  for (uint32_t i = 0; i < BP_WORKER_CHANNELS; i++) {
    BpWorkerChannel *channel = bp_worker_channel(memory, i);
    atomic_fetch_sub(&channel->worker_chunks, 1);
    bp_worker_tell(&channel->worker_word, &channel->host_sleeps);
  }
  wait_for_ever(0);
}

static void starve(void) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_AS, &none);
}

/* Fails if this process may not create a file. */
static int32_t make_file(void) {
  const char *path = getenv("BACKPLANE_FRAGILE_FILE");
  int fd = path ? open(path, O_WRONLY | O_CREAT, 0600) : -1;
  if (fd < 0)
    return bp_plugin_raise(&host, BP_ERROR_IO, "fragile: %s: %s", path, strerror(errno));
  close(fd);
  return 0;
}

/* Succeeds once. */
static int32_t tire(void) {
  static int32_t is_tired;
  return is_tired++ ? bp_plugin_raise(&host, BP_ERROR_VALUE, "fragile: it is tired") : 0;
}

static int32_t run(const char *name, const BpValue *args, int32_t num_args) {
  if (!strcmp(name, "add") && num_args == 3) {
    int32_t *data = (int32_t *)(void *)touch(args[0].v_ptr);
    for (int64_t i = 0; i < args[1].v_int64; i++)
      data[i] += (int32_t)args[2].v_int64;
  } else if (!strcmp(name, "fail"))
    return bp_plugin_raise(&host, BP_ERROR_VALUE, "fragile: it fails, as it should");
  else if (!strcmp(name, "tire"))
    return tire();
  else if (!strcmp(name, "segv"))
    raise(SIGSEGV);
  else if (!strcmp(name, "abort"))
    abort();
  else if (!strcmp(name, "exit"))
    exit(0);
  else if (!strcmp(name, "kill"))
    kill(getpid(), SIGKILL);
  else if (!strcmp(name, "stop"))
    wait_for_ever(kill(getpid(), SIGSTOP));
  else if (!strcmp(name, "hang"))
    wait_for_ever(0);
  else if (!strcmp(name, "garble-size"))
    garble(UINT32_MAX, 0, 0);
  else if (!strcmp(name, "garble-error"))
    garble(BP_WORKER_AREA, -1, 0xff);
  else if (!strcmp(name, "garble-chunks"))
    garble_chunks();
  else if (!strcmp(name, "make-file"))
    return make_file();
  else if (!strcmp(name, "signal-host")) {
    const char *pid = getenv("BACKPLANE_FRAGILE_HOST");
    if (!pid || kill(atoi(pid), 0))
      return bp_plugin_raise(&host, BP_ERROR_IO, "fragile: %s", strerror(errno));
  } else if (!strcmp(name, "nap"))
    usleep(3200000);
  else if (!strcmp(name, "starve"))
    starve();
  else if (!strcmp(name, "fail-event"))
    fails_next = 1;
  else
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "fragile: %s: wrong arguments", name);
  return 0;
}

/* ---- The module -------------------------------------------------------------------------- */

static const char *const names[] = {
    "add",         "fail",          "segv",        "abort",        "exit",   "kill",
    "stop",        "hang",          "garble-size", "garble-error", "starve", "make-file",
    "signal-host", "garble-chunks", "tire",        "fail-event",   "nap"};
#define NUM_NAMES (sizeof names / sizeof *names)
/* A module with many more functions: "add" under other names. */
#define NUM_MORE 5000

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  (void)invocation;
  return run(context, args, num_args);
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  BpModule **module = context;
  *function = NULL;
  for (size_t i = 0; i < NUM_NAMES; i++)
    if (!strcmp(names[i], name)) {
      *function = host.module->kernel_create(*module, DEVICE_TYPE, launch,
                                             (void *)(uintptr_t)names[i], NULL);
      return *function ? 0 : -1;
    }
  return 0;
}

static int32_t get_property(void *context, int32_t *flags) {
  (void)context;
  *flags = BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE;
  return 0;
}

/* Functions of the module whose bytes are "code". */
static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  (void)context;
  *bytes = (BpOwnedBytes){strdup("code"), 4, free};
  return bytes->data ? 0 : -1;
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  (void)context;
  for (size_t i = 0; i < NUM_NAMES; i++)
    if (visit(visitor, names[i], NULL))
      return 0;
  return 0;
}

static int32_t get_one_of_many(void *context, const char *name, BpFunction **function) {
  return get_function(context, strncmp(name, "function_number_", 16) ? name : "add", function);
}

static int32_t visit_many(void *context,
                          int32_t (*visit)(void *visitor, const char *name, const char *signature),
                          void *visitor) {
  char name[32];
  for (int i = 0; i < NUM_MORE; i++) {
    snprintf(name, sizeof name, "function_number_%d", i);
    if (visit(visitor, name, NULL))
      return 0;
  }
  return visit_functions(context, visit, visitor);
}

static void destroy(void *context) {
  free(context);
}

static const BpModuleApi module_api = {
    .struct_size = sizeof module_api,
    .kind = "fragile",
    .get_function = get_function,
    .get_property = get_property,
    .save_to_bytes = save_to_bytes,
    .visit_functions = visit_functions,
    .destroy = destroy,
};

/* Lists no functions. */
static const BpModuleApi unlisted_api = {
    .struct_size = sizeof unlisted_api,
    .kind = "fragile",
    .get_function = get_function,
    .get_property = get_property,
    .destroy = destroy,
};

static const BpModuleApi many_api = {
    .struct_size = sizeof many_api,
    .kind = "fragile",
    .get_function = get_one_of_many,
    .get_property = get_property,
    .visit_functions = visit_many,
    .destroy = destroy,
};

/* Returns the module for the bytes; NULL: the bytes are invalid. */
static const BpModuleApi *find_api(const BpByteArray *bytes) {
  static const struct {
    const char *bytes;
    const BpModuleApi *api;
  } apis[] = {{"code", &module_api}, {"mute", &unlisted_api}, {"many", &many_api}};
  for (size_t i = 0; i < sizeof apis / sizeof *apis; i++)
    if (bytes->size == 4 && !memcmp(bytes->data, apis[i].bytes, 4))
      return apis[i].api;
  return NULL;
}

/* The bytes of a module are "code", "mute" for one that lists no functions, or "many". */
static int loadbinary(void *function, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray bytes;
  (void)function;
  (void)num_args;
  if (host.object->view_str(&args[0], &bytes) != 0)
    return -1;
  const BpModuleApi *api = find_api(&bytes);
  if (!api)
    return bp_plugin_raise(&host, BP_ERROR_FORMAT, "fragile: these bytes are no module");
  BpModule **module = bp_plugin_calloc(&host, sizeof *module);
  if (!module)
    return -1;
  BpModule *self = host.module->create(api, module);
  if (self)
    *module = self;
  return bp_plugin_answer_module(result, self);
}

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register_device_api(&host, "device_api.fragile", &device_api) ||
                 bp_plugin_register(&host, "runtime.module.loadbinary_fragile", loadbinary, NULL)
             ? -1
             : 0;
}

int32_t bp_plugin_entry_fragile(const BpHost *given, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(given, &host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
