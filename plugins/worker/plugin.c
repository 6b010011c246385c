/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptor and entry point of the plugin worker, and the function that isolates a plugin. */
#include "config.h"

#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=worker\n"
                     "version=" PACKAGE_VERSION "\n"
                     "license=Apache-2.0\n"
                     "description=Runs plugins in processes of their own and on other machines "
                     "(BACKPLANE_ISOLATE, BACKPLANE_REMOTE)\n"
                     "entry=bp_plugin_entry_worker\n"
                     "provides=runtime.isolate runtime.list_remote\n");

BpPluginTables bp_worker_host;

#define DEVICE_PREFIX "device_api."
#define BUILD_PREFIX  "target.build."
#define LOADER_PREFIX "runtime.module.loadbinary_"
#define GRAPH_PREFIX  "graph_compiler."
#define REMOTE_PREFIX "remote:"

static int has_prefix(const char *text, const char *prefix) {
  return !strncmp(text, prefix, strlen(prefix));
}

static int32_t register_device(const BpIsolated *plugin, const char *name) {
  for (int32_t i = 0; i < plugin->num_kinds; i++)
    if (!strcmp(plugin->kinds[i]->api.name, name + strlen(DEVICE_PREFIX)))
      return bp_plugin_register_device_api(&bp_worker_host, name, &plugin->kinds[i]->api);
  return bp_plugin_raise(&bp_worker_host, BP_ERROR_PLUGIN, "its worker does not have %s", name);
}

/* Returns the offset in a loader's name of the kind's name in the worker. */
static size_t loader_offset(const BpIsolated *plugin, const char *name) {
  size_t offset = strlen(LOADER_PREFIX);
  return offset + (has_prefix(name + offset, plugin->prefix) ? strlen(plugin->prefix) : 0);
}

/* Registers a name that the plugin provides; `name` lives for ever. */
static int32_t register_name(BpIsolated *plugin, const char *name) {
  if (has_prefix(name, DEVICE_PREFIX))
    return register_device(plugin, name);
  if (has_prefix(name, BUILD_PREFIX))
    return bp_remote_register_build(plugin, name, name + strlen(BUILD_PREFIX));
  if (has_prefix(name, LOADER_PREFIX))
    return bp_remote_register_loader(plugin, name, name + loader_offset(plugin, name));
  if (has_prefix(name, GRAPH_PREFIX))
    return bp_remote_register_graph_compiler(plugin, name, name + strlen(GRAPH_PREFIX));
  return bp_plugin_raise(&bp_worker_host, BP_ERROR_NOT_IMPLEMENTED, "%s does not cross to a worker",
                         name);
}

/* Splits a list into words, each with its NUL; NULL at the end. The copy of the list and the array
 * live for ever. */
static char **split(const char *list) {
  char *copy = strdup(list), *rest = NULL;
  size_t count = 0;
  char **words = bp_plugin_calloc(&bp_worker_host, (strlen(list) + 2) * sizeof *words);
  for (char *word = copy && words ? strtok_r(copy, " ", &rest) : NULL; word;
       word = strtok_r(NULL, " ", &rest))
    words[count++] = word;
  return copy ? words : NULL;
}

static int32_t find_loaders(BpIsolated *plugin, char **names) {
  size_t count = 0, used = 0;
  while (names[count])
    count++;
  plugin->loaders = bp_plugin_calloc(&bp_worker_host, (count + 1) * sizeof *plugin->loaders);
  for (char **name = names; plugin->loaders && *name; name++)
    if (has_prefix(*name, LOADER_PREFIX))
      plugin->loaders[used++] = *name + loader_offset(plugin, *name);
  return plugin->loaders ? 0 : -1;
}

/* Starts the plugin. A plugin that fails stays in memory, like one in this process. */
static int32_t start(BpIsolated *plugin, char **names) {
  if (find_loaders(plugin, names) || !bp_isolated_session(plugin))
    return -1;
  for (char **name = names; *name; name++)
    if (register_name(plugin, *name))
      return -1;
  return 0;
}

/* Removes the machine's prefix from the names in a list. */
static void make_plain(const BpIsolated *plugin, char *list) {
  size_t size = strlen(plugin->prefix);
  for (char *at = list; size && (at = strstr(at, plugin->prefix));)
    memmove(at, at + size, strlen(at + size) + 1);
}

enum { NAME, DEVICES, TARGETS, PROVIDES, WHERE, HOST, MACHINE, STARTER, NUM_ARGUMENTS };
#define NUM_TEXTS MACHINE

/* Copies the properties of a plugin. 0, or -1 with an error. */
static int32_t fill(BpIsolated *plugin, const BpByteArray texts[NUM_TEXTS], const BpValue *args) {
  const BpValue *starter = &args[STARTER];
  pthread_mutex_init(&plugin->lock, NULL);
  plugin->name = strdup(texts[NAME].data);
  plugin->device_names = strdup(texts[DEVICES].data);
  plugin->target_names = strdup(texts[TARGETS].data);
  plugin->where = strdup(texts[WHERE].data);
  plugin->host = strdup(texts[HOST].data);
  plugin->machine = (int32_t)args[MACHINE].v_int64;
  size_t size = texts[NAME].size + texts[HOST].size + sizeof "plugin  on ";
  plugin->label = bp_plugin_calloc(&bp_worker_host, size);
  plugin->prefix = bp_plugin_calloc(&bp_worker_host, size + sizeof REMOTE_PREFIX);
  plugin->starter = (BpFunction *)(void *)starter->v_obj;
  bp_worker_host.object->retain(plugin->starter);
  if (!plugin->name || !plugin->device_names || !plugin->target_names || !plugin->where ||
      !plugin->host || !plugin->label || !plugin->prefix)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_MEMORY, "no memory for a worker");
  snprintf(plugin->label, size, "plugin %s%s%s", plugin->name, *plugin->host ? " on " : "",
           plugin->host);
  if (*plugin->host)
    snprintf(plugin->prefix, size + sizeof REMOTE_PREFIX, REMOTE_PREFIX "%s/", plugin->host);
  make_plain(plugin, plugin->device_names);
  return 0;
}

static int32_t view_texts(const BpValue *args, int32_t count, BpByteArray *texts) {
  for (int32_t i = 0; i < count; i++)
    if (bp_worker_host.object->view_str(&args[i], &texts[i]))
      return -1;
  return 0;
}

/* Called while the isolated plugin initialises. The arguments are the name, devices, targets and
 * provides of its descriptor, the path or name that the worker activates, the other machine or "",
 * the machine's number or 0, and the function that starts a worker. */
static int isolate(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  BpByteArray texts[NUM_TEXTS];
  if (num_args != NUM_ARGUMENTS || args[MACHINE].type_index != BP_TYPE_INT ||
      args[STARTER].type_index != BP_TYPE_FUNCTION)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_TYPE,
                           "runtime.isolate: expected six texts, a number and a function");
  if (view_texts(args, NUM_TEXTS, texts))
    return -1;
  BpIsolated *plugin = bp_plugin_calloc(&bp_worker_host, sizeof *plugin);
  char **names = plugin ? split(texts[PROVIDES].data) : NULL;
  if (!names)
    return -1;
  plugin->names = names;
  return fill(plugin, texts, args) ? -1 : start(plugin, names);
}

/* ---- Other machines ---------------------------------------------------------------------- */

/* A session that listed the plugins of a machine, until a plugin of that machine takes it. */
typedef struct Spare {
  const char *host;
  BpSession *session;
  struct Spare *next;
} Spare;

static struct {
  pthread_mutex_t lock;
  Spare *all;
} spares = {.lock = PTHREAD_MUTEX_INITIALIZER};

BpSession *bp_take_spare(const char *host) {
  BpSession *session = NULL;
  pthread_mutex_lock(&spares.lock);
  for (Spare *spare = spares.all; spare && !session; spare = spare->next)
    if (!strcmp(spare->host, host)) {
      session = spare->session;
      spare->session = NULL;
    }
  pthread_mutex_unlock(&spares.lock);
  return session && !bp_session_look(session) ? session : NULL;
}

/* Takes `host` over. */
static int32_t keep_spare(const char *host, BpSession *session) {
  Spare *spare = bp_plugin_calloc(&bp_worker_host, sizeof *spare);
  if (!spare)
    return -1;
  *spare = (Spare){host, session, NULL};
  pthread_mutex_lock(&spares.lock);
  spare->next = spares.all;
  spares.all = spare;
  pthread_mutex_unlock(&spares.lock);
  return 0;
}

static int32_t read_list(BpSession *session, BpOwnedBytes *list) {
  BpCall call;
  return bp_call_begin(session, BP_WORKER_LIST, &call) ? -1 : bp_call_get_blob(&call, list);
}

/* Takes the name of a machine and the function that starts a relay to it. Returns the descriptors
 * of the plugins on that machine, as bytes, each with a NUL at its end. */
static int list_remote(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  BpByteArray text;
  BpOwnedBytes list = {NULL, 0, NULL};
  if (num_args != 2 || args[1].type_index != BP_TYPE_FUNCTION)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_TYPE,
                           "runtime.list_remote: expected a text and a function");
  if (view_texts(args, 1, &text))
    return -1;
  const char *host = strdup(text.data);
  if (!host)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_MEMORY, "no memory for a machine's name");
  BpSession *session = bp_session_start(host, (BpFunction *)(void *)args[1].v_obj);
  if (!session)
    return -1;
  if (read_list(session, &list) || keep_spare(host, session)) {
    BpError *error = bp_worker_host.error->take();
    if (!bp_session_check(session))
      bp_session_give_up(session, "was ended, since its plugins could not be listed");
    bp_worker_host.object->release(bp_worker_host.error->take());
    bp_worker_host.error->put(error);
    return -1;
  }
  int32_t rc = bp_worker_host.object->make_bytes(list.data, list.size, result);
  list.free_data(list.data);
  return rc;
}

/* ---- The plugin -------------------------------------------------------------------------- */

static int32_t initialize(void *context) {
  (void)context;
  return bp_plugin_register(&bp_worker_host, "runtime.isolate", isolate, NULL) ||
                 bp_plugin_register(&bp_worker_host, "runtime.list_remote", list_remote, NULL)
             ? -1
             : 0;
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_worker(const BpHost *host, BpPlugin *plugin);

int32_t bp_plugin_entry_worker(const BpHost *host, BpPlugin *plugin) {
  if (bp_plugin_fetch_tables(host, &bp_worker_host) != 0)
    return -1;
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return 0;
}
