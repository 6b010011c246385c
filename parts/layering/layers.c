/* SPDX-License-Identifier: Apache-2.0 */
/* Layers around the tables of devices. The core loads this part if BACKPLANE_LAYERS is set. Each
 * layer gets the next table when the kind is first used. Kernels are made with a launch function
 * that calls the layers before the plugin's launch function. */
#include "core/device/layers.h"

#include <glib.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "core/device/device.h"
#include "core/module/module.h"
#include "core/registry/hints.h"
#include "core/registry/installed.h"
#include "core/registry/log.h"
#include "core/registry/names.h"
#include "core/registry/part.h"
#include "core/system/lock.h"

#define VARIABLE "BACKPLANE_LAYERS"
#define PREFIX   "device_layer."

struct BpLayering {
  BpDeviceApi next; /* the next table, which the layer calls */
  BpLayered layered;
  const BpLayering *inner; /* the next layer; NULL: the plugin */
  BpLayering *made_before; /* the next of all layers */
  char name[];             /* the kind's name; a copy, since the kind may be freed */
};

/* ---- The list ---------------------------------------------------------------------------- */

static int add_registered(BpNames *names) {
  char **registered = bp_registry_list(NULL);
  int rc = registered ? 0 : -1;
  for (char **name = registered; !rc && *name; name++)
    rc = bp__names_add(names, *name, strlen(*name));
  bp_names_free(registered);
  return rc;
}

/* Returns the names of all layers: those of installed plugins, and those that the program
 * registered. NULL with an error. */
static char **list_known(size_t *count) {
  const Installed *installed = bp__installed();
  BpNames all = {.text = NULL}, layers = {.text = NULL};
  int rc = installed && !installed->add_provided(&all) && !add_registered(&all) ? 0 : -1;
  char **names = rc ? NULL : bp__names_finish(&all, NULL);
  for (char **name = names; name && !rc && *name; name++)
    if (g_str_has_prefix(*name, PREFIX))
      rc = bp__names_add(&layers, *name + strlen(PREFIX), strlen(*name + strlen(PREFIX)));
  bp_names_free(names);
  if (names && !rc)
    return bp__names_finish(&layers, count);
  bp__names_clear(&all);
  bp__names_clear(&layers);
  return NULL;
}

static int raise_unknown_layer(const char *name, char **known, size_t count) {
  char hint[BP_HINT_MAX];
  g_autofree char *list = g_strjoinv(", ", known), *package = bp__package_hint(name);
  return bp_error_raise(BP_ERROR_NOT_FOUND,
                        VARIABLE ": there is no layer \"%.64s\"%s (installed: %s)%s", name,
                        bp__nearest_hint(name, (const char *const *)known, count, hint),
                        *list ? list : "none", package);
}

/* Whether a kind is known: an installed plugin has it, it has a published number, or it is in
 * use. */
static int check_kind(const char *kind, const char *used) {
  if (bp__device_type_published(kind) || !strcmp(kind, used))
    return 0;
  char **kinds = bp_device_kinds(NULL);
  if (!kinds)
    return -1;
  int is_known = g_strv_contains((const char *const *)kinds, kind);
  bp_names_free(kinds);
  if (is_known)
    return 0;
  bp__device_raise_unknown(kind);
  return bp_error_add_context("%s", VARIABLE);
}

/* Adds the layer that an entry NAME or NAME:KIND names to `chosen` if it is for `kind`. */
static int read_entry(char *entry, const char *kind, char **known, size_t count,
                      GPtrArray *chosen) {
  char *colon = strchr(entry, ':');
  if (colon)
    *colon = '\0';
  if (!*entry || (colon && !colon[1]))
    return bp_error_raise(BP_ERROR_VALUE,
                          VARIABLE ": an entry is empty; one is written LAYER or LAYER:KIND, as in "
                                   "validate,trace:opencl");
  if (!g_strv_contains((const char *const *)known, entry))
    return raise_unknown_layer(entry, known, count);
  if (colon && check_kind(colon + 1, kind))
    return -1;
  if (colon && strcmp(colon + 1, kind) != 0)
    return 0;
  for (guint i = 0; i < chosen->len; i++)
    if (!strcmp(g_ptr_array_index(chosen, i), entry))
      return 0;
  g_ptr_array_add(chosen, g_strdup(entry));
  return 0;
}

/* Returns the names of the layers around a kind, the outermost first (transfer full); NULL with an
 * error. The whole list is checked, so that a mistyped entry is always an error. */
static GPtrArray *choose(const char *list, const char *kind) {
  size_t count = 0;
  char **known = list_known(&count);
  if (!known)
    return NULL;
  g_auto(GStrv) entries = g_strsplit(list, ",", -1);
  GPtrArray *chosen = g_ptr_array_new_with_free_func(g_free);
  int rc = 0;
  for (char **entry = entries; !rc && *entry; entry++)
    rc = read_entry(g_strstrip(*entry), kind, known, count, chosen);
  bp_names_free(known);
  if (!rc)
    return chosen;
  g_ptr_array_unref(chosen);
  return NULL;
}

static int check(const char *list) {
  GPtrArray *chosen = choose(list, "");
  if (chosen)
    g_ptr_array_unref(chosen);
  return chosen ? 0 : -1;
}

/* ---- Wrapping a table -------------------------------------------------------------------- */

static int check_layer(const char *name, const BpDeviceLayer *layer) {
  if (!layer || layer->struct_size < offsetof(BpDeviceLayer, wrap) ||
      layer->version != BP_DEVICE_LAYER_VERSION)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          PREFIX "%s gives no layer of version %d; install a build of its plugin "
                                 "that matches this host",
                          name, BP_DEVICE_LAYER_VERSION);
  if (!BP_TABLE_HAS(layer, wrap) || !layer->name || strcmp(layer->name, name) || layer->reserved)
    return bp_error_raise(BP_ERROR_PLUGIN,
                          PREFIX "%s gives a layer without `wrap`, of another name, or with "
                                 "`reserved` set; this is a defect of its plugin",
                          name);
  return 0;
}

static const BpDeviceLayer *fetch_layer(const char *name) {
  BpFunction *function = NULL;
  BpValue value;
  g_autofree char *registry_name = g_strconcat(PREFIX, name, NULL);
  if (bp_registry_get(registry_name, &function))
    return NULL;
  if (!function) {
    bp_error_raise(BP_ERROR_NOT_FOUND, "%s is not registered", registry_name);
    return NULL;
  }
  int rc = bp_function_call(function, NULL, 0, &value);
  bp_object_release(function);
  if (rc)
    return NULL;
  const BpDeviceLayer *layer = value.type_index == BP_TYPE_POINTER ? value.v_ptr : NULL;
  bp_value_clear(&value);
  return check_layer(name, layer) ? NULL : layer;
}

static int fill(BpLayering *layering, const char *name, BpDeviceApi *api) {
  const BpDeviceLayer *layer = fetch_layer(name);
  if (!layer)
    return -1;
  layering->next = *api;
  layering->next.name = layering->name;
  layering->layered.struct_size = sizeof layering->layered;
  if (layer->wrap(layer->context, &layering->next, &layering->layered))
    return *bp_error_kind() ? -1 : bp_error_raise(BP_ERROR_PLUGIN, "it gives no reason");
  if (!layering->layered.api)
    return 0;
  if (layering->layered.api->device_type != layering->next.device_type)
    return bp_error_raise(BP_ERROR_PLUGIN, "its table has another device type, %d",
                          layering->layered.api->device_type);
  return bp__device_api_take(layering->next.name, layering->layered.api, api);
}

/* All layers, for the end of the process. Guarded by BP__LOCK_STATE. */
static BpLayering *all;

static void finish_layers(void) {
  if (bp__device_is_forked())
    return;
  BpBeforeEnd give_up;
  for (size_t i = 0; (give_up = bp__layers_given_before_end(i)) != NULL; i++)
    give_up();
  bp__lock(BP__LOCK_STATE);
  const BpLayering *layering = all;
  bp__unlock(BP__LOCK_STATE);
  for (; layering; layering = layering->made_before)
    if (layering->layered.finish)
      layering->layered.finish(layering->layered.context);
}

static void keep(BpLayering *layering) {
  bp__lock(BP__LOCK_STATE);
  int is_first = !all;
  layering->made_before = all;
  all = layering;
  bp__unlock(BP__LOCK_STATE);
  if (is_first)
    atexit(finish_layers);
}

static int wrap_in(const char *name, BpDeviceApi *api, BpLayering **layering) {
  size_t size = strlen(api->name) + 1;
  BpLayering *made = calloc(1, sizeof *made + size);
  if (!made)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for layer %s", name);
  memcpy(made->name, api->name, size);
  made->inner = *layering;
  if (fill(made, name, api)) {
    made->layered.finish = NULL;
    keep(made); /* the layer may still use `next` */
    return bp_error_add_context("layer %s around device kind %s", name, api->name);
  }
  keep(made);
  *layering = made;
  return 0;
}

static int wrap(const char *list, BpDeviceApi *api, BpLayering **layering) {
  const char *name = api->name;
  GPtrArray *chosen = choose(list, name);
  int rc = chosen ? 0 : -1;
  for (guint i = chosen ? chosen->len : 0; !rc && i--;)
    rc = wrap_in(g_ptr_array_index(chosen, i), api, layering);
  if (chosen)
    g_ptr_array_unref(chosen);
  api->name = name;
  return rc;
}

/* ---- Launches ---------------------------------------------------------------------------- */

typedef struct LayeredKernel {
  int32_t device_type;
  BpKernelCall launch;
  void *context;
  void (*destroy)(void *context);
  char name[];
} LayeredKernel;

/* A launch, and the layers that it has yet to pass. */
typedef struct Way {
  BpLaunch launch; /* first member: layers get a pointer to it */
  const LayeredKernel *kernel;
  const BpLayering *next;
} Way;

static int32_t go_on(Way *way) {
  const BpLayering *layer = way->next;
  while (layer && !layer->layered.launch)
    layer = layer->inner;
  if (!layer)
    return way->kernel->launch(way->kernel->context, way->launch.invocation, way->launch.args,
                               way->launch.num_args);
  way->next = layer->inner;
  return layer->layered.launch(layer->layered.context, &way->launch);
}

static int32_t proceed(const BpLaunch *launch) {
  Way rest = *(const Way *)(const void *)launch;
  return go_on(&rest);
}

static int32_t launch_layered(void *context, const BpInvocation *invocation, const BpValue *args,
                              int32_t num_args) {
  const LayeredKernel *kernel = context;
  const BpDeviceApi *api = bp_device_api(kernel->device_type);
  if (!api)
    return -1;
  Way way = {.launch = {.struct_size = sizeof way.launch,
                        .kernel = kernel->name,
                        .invocation = invocation,
                        .args = args,
                        .num_args = num_args,
                        .proceed = proceed},
             .kernel = kernel,
             .next = bp__device_layering(api)};
  return go_on(&way);
}

static void destroy_kernel(void *context) {
  LayeredKernel *kernel = context;
  if (kernel->destroy)
    kernel->destroy(kernel->context);
  free(kernel);
}

/* The kind may not be in use yet, and its name unknown: the launch of the kernel finds out whether
 * the kind has layers. */
static int wrap_kernel(int32_t device_type, BpKernelCall *launch, void **context,
                       void (**destroy)(void *context)) {
  const char *name = bp__module_looked_up();
  size_t size = strlen(name) + 1;
  LayeredKernel *kernel = malloc(sizeof *kernel + size);
  if (!kernel)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for a kernel");
  *kernel = (LayeredKernel){device_type, *launch, *context, *destroy};
  memcpy(kernel->name, name, size);
  *launch = launch_layered;
  *context = kernel;
  *destroy = destroy_kernel;
  return 0;
}

/* ---- The host's memory ------------------------------------------------------------------- */

/* Whether there are layers around kind cpu, and the table of the outermost layer. */
enum { HOST_UNKNOWN, HOST_PLAIN, HOST_LAYERED };
static atomic_int host_state;
static _Atomic(const BpDeviceApi *) host_api;

/* Returns 1 if BACKPLANE_LAYERS has a layer for the host's memory, 0 if not, -1 with an error. */
static int is_host_wanted(const char *list) {
  GPtrArray *chosen = choose(list, "cpu");
  int wanted = chosen ? chosen->len > 0 : -1;
  if (chosen)
    g_ptr_array_unref(chosen);
  return wanted;
}

/* The host's memory needs no plugin, but a layer needs a table. */
static int find_host_api(void) {
  BpFunction *function = NULL;
  if (bp_registry_get("device_api.cpu", &function))
    return -1;
  bp_object_release(function);
  if (!function) {
    bp__log(BP_LOG_WARNING, VARIABLE ": the host's memory is used without layers: they wrap the "
                                     "table of the plugin cpu, which is not installed");
    return 0;
  }
  const BpDeviceApi *api = bp__device_api_by_name("cpu");
  atomic_store(&host_api, api);
  return api ? 1 : -1;
}

static int find_out(const char *list) {
  int wanted = is_host_wanted(list);
  if (wanted > 0)
    wanted = find_host_api();
  if (wanted >= 0)
    atomic_store(&host_state, wanted ? HOST_LAYERED : HOST_PLAIN);
  return wanted < 0 ? -1 : 0;
}

static int find_host(const char *list, const BpDeviceApi **api) {
  int state = atomic_load_explicit(&host_state, memory_order_acquire);
  *api = NULL;
  if (state == HOST_PLAIN)
    return 0;
  if (state == HOST_UNKNOWN && find_out(list))
    return -1;
  if (!bp__device_is_forked())
    *api = atomic_load(&host_api);
  return 0;
}

static const Layers layers = {
    .check = check, .wrap = wrap, .wrap_kernel = wrap_kernel, .find_host = find_host};

BP__PART(BP_PART_LAYERING, layers);
