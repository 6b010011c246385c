/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and kernels of a plugin that runs in a worker. The host keeps a module's bytes and loads
 * them into a worker when the module is first used there, so a module outlives the worker. */
#include "worker.h"

#include <stdlib.h>

/* A module or function in one session; freed with its RemoteModule or RemoteFunction. */
typedef struct Instance {
  BpSession *session;
  uint64_t number;
  struct Instance *next;
} Instance;

typedef struct RemoteModule {
  BpIsolated *plugin;
  const char *kind;
  BpModule *self;
  BpOwnedBytes bytes;
  int32_t property;
  char **names; /* names of the module's functions; NULL at the end */
  pthread_mutex_t lock;
  Instance *instances;
} RemoteModule;

typedef struct RemoteFunction {
  RemoteModule *module;
  const BpRemoteKind *kind;
  _Atomic(Instance *) instances; /* the module's lock guards additions */
  char name[];
} RemoteFunction;

static Instance *create_instance(BpSession *session, uint64_t number) {
  Instance *instance = bp_plugin_calloc(&bp_worker_host, sizeof *instance);
  if (instance)
    *instance = (Instance){session, number, NULL};
  return instance;
}

/* Frees the worker's objects. Errors are dropped, since `destroy` has no result, and the thread's
 * earlier error is kept. */
static void free_instances(Instance *instances, uint32_t operation) {
  BpError *error = bp_worker_host.error->take();
  for (Instance *instance = instances, *next; instance; instance = next) {
    next = instance->next;
    if (!bp_session_check(instance->session))
      BP_TELL(instance->session, operation, instance->number);
    free(instance);
  }
  bp_worker_host.object->release(bp_worker_host.error->take());
  bp_worker_host.error->put(error);
}

static Instance *find_instance(Instance *instance, const BpSession *session) {
  while (instance && instance->session != session)
    instance = instance->next;
  return instance;
}

/* ---- Loading ----------------------------------------------------------------------------- */

/* Stores the names of `count` functions, each with its NUL. -1: the number of names differs. */
static int32_t split_names(RemoteModule *module, const char *text, size_t size, uint64_t count) {
  const char *end = text + size;
  for (uint64_t i = 0; i < count; i++) {
    const char *nul = text < end ? memchr(text, '\0', (size_t)(end - text)) : NULL;
    if (!nul || !(module->names[i] = strdup(text)))
      return -1;
    text = nul + 1;
  }
  return text == end ? 0 : -1;
}

static int32_t raise_unreadable(BpSession *session) {
  return bp_session_give_up(session, "gave a module that cannot be read");
}

/* Takes the names of functions. Each name has at least a NUL, so the size bounds the number of
 * names. */
static int32_t take_names(RemoteModule *module, BpSession *session, const char *text, size_t size,
                          uint64_t count) {
  if (count > size)
    return raise_unreadable(session);
  module->names = bp_plugin_calloc(&bp_worker_host, (count + 1) * sizeof *module->names);
  if (!module->names)
    return -1;
  return split_names(module, text, size, count) ? raise_unreadable(session) : 0;
}

/* Reads the description of a module once: its properties and the names of its functions. */
static int32_t read_description(RemoteModule *module, BpCall *call) {
  int32_t property = (int32_t)bp_wire_get(&call->out);
  uint64_t count = bp_wire_get(&call->out);
  BpByteArray names = bp_wire_get_bytes(&call->out);
  int is_long = count && !names.size;
  uint64_t blob = is_long ? bp_wire_get(&call->out) : 0;
  uint64_t size = is_long ? bp_wire_get(&call->out) : 0;
  if (bp_call_check(call))
    return -1;
  if (module->names && !is_long)
    return 0;
  BpOwnedBytes bytes = {NULL, 0, NULL};
  if (is_long && bp_blob_get(call->session, blob, size, &bytes))
    return -1;
  module->property = property & (BP_MODULE_BINARY_SERIALIZABLE | BP_MODULE_RUNNABLE);
  int32_t rc = module->names ? 0
               : is_long     ? take_names(module, call->session, bytes.data, bytes.size, count)
                             : take_names(module, call->session, names.data, names.size, count);
  if (bytes.free_data)
    bytes.free_data(bytes.data);
  return rc;
}

/* Reads the number of the module from the results; the module's description follows it. */
static int32_t add_module_instance(RemoteModule *module, BpCall *call) {
  Instance *instance = create_instance(call->session, bp_wire_get(&call->out));
  if (!instance)
    return -1;
  instance->next = module->instances;
  module->instances = instance;
  return read_description(module, call);
}

/* Loads the module into a session. Called with the lock held. */
static int32_t load_into(RemoteModule *module, BpSession *session) {
  uint64_t blob;
  BpCall call;
  if (bp_blob_put(session, module->bytes.data, module->bytes.size, &blob) ||
      bp_call_begin(session, BP_WORKER_MODULE_LOAD, &call))
    return -1;
  bp_wire_put_str(&call.in, module->kind);
  bp_wire_put(&call.in, blob);
  int32_t rc =
      bp_call_send(&call) || bp_call_wait(&call) || add_module_instance(module, &call) ? -1 : 0;
  bp_call_finish(&call);
  return rc;
}

/* Returns the number of the module in a session. Called with the lock held. */
static int32_t find_module(RemoteModule *module, BpSession *session, uint64_t *number) {
  if (!find_instance(module->instances, session) && load_into(module, session))
    return -1;
  *number = find_instance(module->instances, session)->number;
  return 0;
}

/* ---- Functions --------------------------------------------------------------------------- */

/* Finds a function in a session, with the module's lock held. *loaded is NULL if the module has no
 * such function. */
static int32_t load_function(RemoteFunction *function, BpSession *session, Instance **loaded) {
  uint64_t module, number = 0;
  BpCall call;
  *loaded = NULL;
  if (find_module(function->module, session, &module) ||
      bp_call_begin(session, BP_WORKER_FUNCTION, &call))
    return -1;
  bp_wire_put(&call.in, module);
  bp_wire_put_str(&call.in, function->name);
  int32_t rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  if (!rc) {
    number = bp_wire_get(&call.out);
    rc = bp_call_check(&call);
  }
  bp_call_finish(&call);
  if (rc || !number)
    return rc;
  Instance *instance = create_instance(session, number);
  if (!instance)
    return -1;
  instance->next = atomic_load(&function->instances);
  atomic_store(&function->instances, instance);
  *loaded = instance;
  return 0;
}

static const Instance *find_function(RemoteFunction *function, BpSession *session) {
  Instance *instance = find_instance(atomic_load(&function->instances), session);
  if (instance)
    return instance;
  pthread_mutex_lock(&function->module->lock);
  instance = find_instance(atomic_load(&function->instances), session);
  if (!instance && !load_function(function, session, &instance) && !instance)
    bp_session_give_up(session, "has lost a function of a module");
  pthread_mutex_unlock(&function->module->lock);
  return instance;
}

/* Asks the worker for a function of a module that lists none. *is_there is set to whether the
 * module has the function. */
static int32_t ask_for_function(RemoteFunction *function, int *is_there) {
  Instance *instance;
  BpSession *session = bp_isolated_session(function->module->plugin);
  if (!session)
    return -1;
  pthread_mutex_lock(&function->module->lock);
  int32_t rc = load_function(function, session, &instance);
  pthread_mutex_unlock(&function->module->lock);
  *is_there = !rc && instance;
  return rc;
}

/* Refuses a tensor of another machine: its address may be that of a different tensor in the
 * worker. */
static int32_t put_view(const RemoteFunction *function, BpCall *call, int32_t i,
                        const BpTensorView *view) {
  const BpRemoteKind *kind = function->kind;
  int32_t type = view->device.device_type;
  uint64_t index = (uint32_t)view->device.device_id;
  if (type >> BP_WORKER_MACHINE_SHIFT != kind->plugin->machine)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_VALUE,
                           "%s: argument %d: expected a tensor on the device of the launch, of "
                           "%s, got one on device type %d, which is of another machine",
                           function->name, i, kind->api.name, type);
  if (type == kind->api.device_type &&
      bp_remote_session(kind, view->device.device_id, &index) != call->session)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_VALUE,
                           "%s: argument %d: expected a tensor on the device of the launch, got "
                           "one on %s:%d, which is lost or is not there",
                           function->name, i, kind->api.name, view->device.device_id);
  bp_wire_put(&call->in, BP_TYPE_TENSOR_VIEW);
  bp_wire_put(&call->in, (uintptr_t)view->data);
  bp_wire_put(&call->in, (uint32_t)type & ((1u << BP_WORKER_MACHINE_SHIFT) - 1));
  bp_wire_put(&call->in, index);
  bp_wire_put(&call->in, bp_wire_of_dtype(view->dtype));
  bp_wire_put(&call->in, view->byte_offset);
  size_t size = (size_t)view->ndim * sizeof(int64_t);
  bp_wire_put_bytes(&call->in, view->shape, size);
  bp_wire_put_bytes(&call->in, view->strides, view->strides ? size : 0);
  return 0;
}

static int32_t put_argument(const RemoteFunction *function, BpCall *call, int32_t i,
                            const BpValue *arg) {
  switch (arg->type_index) {
  case BP_TYPE_NONE:
  case BP_TYPE_INT:
  case BP_TYPE_BOOL:
  case BP_TYPE_FLOAT:
  case BP_TYPE_POINTER:
  case BP_TYPE_DTYPE:
    bp_wire_put(&call->in, (uint32_t)arg->type_index);
    bp_wire_put(&call->in, (uint64_t)arg->v_int64);
    return 0;
  case BP_TYPE_TENSOR_VIEW:
    return put_view(function, call, i, arg->v_view);
  case BP_TYPE_TENSOR:
    return put_view(function, call, i, &((BpTensor *)(void *)arg->v_obj)->view);
  default:
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_TYPE,
                           "%s: argument %d: a value of type %d does not cross to a worker",
                           function->name, i, arg->type_index);
  }
}

static int32_t launch(void *context, const BpInvocation *invocation, const BpValue *args,
                      int32_t num_args) {
  RemoteFunction *function = context;
  uint64_t index;
  BpCall call;
  if (bp_plugin_check_flags(&bp_worker_host, function->kind->api.name, "launch", invocation->flags))
    return -1;
  BpSession *session = bp_remote_session(function->kind, invocation->device.device_id, &index);
  if (!session || bp_session_require(session))
    return -1;
  const Instance *instance = find_function(function, session);
  if (!instance || bp_call_begin(session, BP_WORKER_LAUNCH, &call))
    return -1;
  bp_wire_put(&call.in, function->kind->number);
  bp_wire_put(&call.in, index);
  bp_wire_put(&call.in, (uintptr_t)invocation->stream);
  bp_wire_put(&call.in, instance->number);
  bp_wire_put(&call.in, (uint32_t)num_args);
  int32_t rc = 0;
  for (int32_t i = 0; i < num_args && !rc; i++)
    rc = put_argument(function, &call, i, &args[i]);
  if (!rc)
    rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  bp_call_finish(&call);
  return rc;
}

static void destroy_function(void *context) {
  RemoteFunction *function = context;
  free_instances(atomic_load(&function->instances), BP_WORKER_FUNCTION_FREE);
  free(function);
}

/* Returns the devices that a module's kernels run on: those with the name of the module's kind, or
 * the plugin's first kind. */
static const BpRemoteKind *kind_of(const RemoteModule *module) {
  const BpIsolated *plugin = module->plugin;
  for (int32_t i = 0; i < plugin->num_kinds; i++)
    if (!strcmp(plugin->kinds[i]->plain_name, module->kind))
      return plugin->kinds[i];
  return plugin->kinds[0];
}

static int is_listed(const RemoteModule *module, const char *name) {
  char **at = module->names;
  while (*at && strcmp(*at, name) != 0)
    at++;
  return *at != NULL;
}

/* Finds a function. A module need not list its functions; if it does not, the worker is asked. */
static int32_t get_function(void *context, const char *name, BpFunction **found) {
  RemoteModule *module = context;
  int is_there = is_listed(module, name);
  *found = NULL;
  if (!is_there && *module->names)
    return 0;
  size_t size = strlen(name) + 1;
  RemoteFunction *function = bp_plugin_calloc(&bp_worker_host, sizeof *function + size);
  if (!function)
    return -1;
  function->module = module;
  function->kind = kind_of(module);
  memcpy(function->name, name, size);
  int32_t rc = is_there ? 0 : ask_for_function(function, &is_there);
  if (rc || !is_there) {
    destroy_function(function);
    return rc;
  }
  *found = bp_worker_host.module->kernel_create(module->self, function->kind->api.device_type,
                                                launch, function, destroy_function);
  return *found ? 0 : -1;
}

/* ---- Modules ----------------------------------------------------------------------------- */

static int32_t get_property(void *context, int32_t *flags) {
  *flags = ((const RemoteModule *)context)->property;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const RemoteModule *module = context;
  char *copy = bp_plugin_calloc(&bp_worker_host, module->bytes.size + 1);
  if (!copy)
    return -1;
  bp_wire_copy(copy, module->bytes.data, module->bytes.size);
  *bytes = (BpOwnedBytes){copy, module->bytes.size, free};
  return 0;
}

static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  RemoteModule *module = context;
  uint64_t number, has_one = 0, blob = 0, size = 0;
  BpCall call;
  *source = (BpOwnedBytes){NULL, 0, NULL};
  BpSession *session = bp_isolated_session(module->plugin);
  if (!session)
    return -1;
  pthread_mutex_lock(&module->lock);
  int32_t rc = find_module(module, session, &number);
  pthread_mutex_unlock(&module->lock);
  if (rc || bp_call_begin(session, BP_WORKER_MODULE_SOURCE, &call))
    return -1;
  bp_wire_put(&call.in, number);
  bp_wire_put_str(&call.in, format);
  rc = bp_call_send(&call) || bp_call_wait(&call) ? -1 : 0;
  if (!rc) {
    has_one = bp_wire_get(&call.out);
    blob = bp_wire_get(&call.out);
    size = bp_wire_get(&call.out);
    rc = bp_call_check(&call);
  }
  bp_call_finish(&call);
  return rc || !has_one ? rc : bp_blob_get(session, blob, size, source);
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const RemoteModule *module = context;
  int32_t rc = 0;
  for (char **name = module->names; *name && rc == 0; name++)
    rc = visit(visitor, *name, NULL);
  return rc < 0 ? -1 : 0;
}

static void destroy_module(void *context) {
  RemoteModule *module = context;
  free_instances(module->instances, BP_WORKER_MODULE_FREE);
  for (char **name = module->names; name && *name; name++)
    free(*name);
  free(module->names);
  if (module->bytes.free_data)
    module->bytes.free_data(module->bytes.data);
  pthread_mutex_destroy(&module->lock);
  free(module);
}

/* Returns the table for modules of a kind; it is never freed. NULL with an error. */
static const BpModuleApi *api_of(const char *kind) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct Api {
    BpModuleApi api;
    struct Api *next;
  } * all;
  pthread_mutex_lock(&lock);
  struct Api *found = all;
  while (found && found->api.kind != kind)
    found = found->next;
  if (!found && (found = bp_plugin_calloc(&bp_worker_host, sizeof *found))) {
    found->api = (BpModuleApi){.struct_size = sizeof found->api,
                               .kind = kind,
                               .get_function = get_function,
                               .get_property = get_property,
                               .save_to_bytes = save_to_bytes,
                               .get_source = get_source,
                               .visit_functions = visit_functions,
                               .destroy = destroy_module};
    found->next = all;
    all = found;
  }
  pthread_mutex_unlock(&lock);
  return found ? &found->api : NULL;
}

static RemoteModule *create_module(BpIsolated *plugin, const char *kind) {
  RemoteModule *module = bp_plugin_calloc(&bp_worker_host, sizeof *module);
  if (!module)
    return NULL;
  module->plugin = plugin;
  module->kind = kind;
  pthread_mutex_init(&module->lock, NULL);
  return module;
}

/* Creates the host's object of a module; if `rc` is not 0, destroys the module. */
static BpModule *finish_module(RemoteModule *module, int32_t rc) {
  const BpModuleApi *api = rc ? NULL : api_of(module->kind);
  if (!api) {
    destroy_module(module);
    return NULL;
  }
  BpModule *made = bp_worker_host.module->create(api, module);
  if (made)
    module->self = made;
  return made;
}

/* Finds a kind among the plugin's loaders; NULL if the plugin has no loader for the kind. */
static const char *find_loader(const BpIsolated *plugin, BpByteArray kind) {
  for (char **loader = plugin->loaders; *loader; loader++)
    if (strlen(*loader) == kind.size && !memcmp(*loader, kind.data, kind.size))
      return *loader;
  return NULL;
}

BpModule *bp_remote_module_of_build(BpIsolated *plugin, BpSession *session, BpCall *call) {
  BpByteArray name = bp_wire_get_bytes(&call->out);
  uint64_t blob = bp_wire_get(&call->out), size = bp_wire_get(&call->out);
  const char *kind = find_loader(plugin, name);
  if (bp_call_check(call))
    return NULL;
  if (!kind) {
    bp_plugin_raise(&bp_worker_host, BP_ERROR_NOT_IMPLEMENTED,
                    "plugin %s built a module of kind \"%.*s\", for which it has no loader; such a "
                    "module does not cross to the host",
                    plugin->name, (int)name.size, name.data);
    return NULL;
  }
  RemoteModule *module = create_module(plugin, kind);
  if (!module)
    return NULL;
  int32_t rc = bp_blob_get(session, blob, size, &module->bytes) || add_module_instance(module, call)
                   ? -1
                   : 0;
  return finish_module(module, rc);
}

/* ---- Loaders ----------------------------------------------------------------------------- */

typedef struct Loader {
  BpIsolated *plugin;
  const char *kind;
} Loader;

static BpModule *load(const Loader *loader, const BpByteArray *bytes) {
  RemoteModule *module = create_module(loader->plugin, loader->kind);
  if (!module)
    return NULL;
  char *copy = bp_plugin_calloc(&bp_worker_host, bytes->size + 1);
  BpSession *session = copy ? bp_isolated_session(loader->plugin) : NULL;
  if (copy) {
    bp_wire_copy(copy, bytes->data, bytes->size);
    module->bytes = (BpOwnedBytes){copy, bytes->size, free};
  }
  return finish_module(module, session ? load_into(module, session) : -1);
}

static int loadbinary(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Loader *loader = ((const BpClosure *)self)->context;
  BpByteArray bytes;
  if (num_args != 1 && num_args != 2)
    return bp_plugin_raise(&bp_worker_host, BP_ERROR_TYPE,
                           "runtime.module.loadbinary_%s: expected bytes and an owner, got %d "
                           "arguments",
                           loader->kind, num_args);
  if (bp_worker_host.object->view_str(&args[0], &bytes) != 0)
    return -1;
  return bp_plugin_answer_module(result, load(loader, &bytes));
}

int32_t bp_remote_register_loader(BpIsolated *plugin, const char *registry_name, const char *kind) {
  Loader *loader = bp_plugin_calloc(&bp_worker_host, sizeof *loader);
  if (!loader)
    return -1;
  *loader = (Loader){plugin, kind};
  return bp_plugin_register(&bp_worker_host, registry_name, loadbinary, loader);
}
