/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of isolation: which plugins are isolated, and the start of a worker. */

#include "parts/isolation/isolate.h"

#include "parts/plugins/trial.h"
#include "core/registry/hints.h"
#include "core/registry/names.h"
#include "core/registry/part.h"
#include "core/system/env.h"
#include "parts/isolation/remote.h"
#include "parts/spawn.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Which plugins ----------------------------------------------------------------------- */

enum { NOT_LISTED, LISTED_BY_PATTERN, LISTED_BY_NAME };

static int find_in_list(const char *list, const char *name) {
  g_auto(GStrv) patterns = g_strsplit(list, ",", -1);
  int found = NOT_LISTED;
  for (char **pattern = patterns; *pattern; pattern++) {
    g_strstrip(*pattern);
    if (!strcmp(*pattern, name))
      return LISTED_BY_NAME;
    if (!fnmatch(*pattern, name, 0))
      found = LISTED_BY_PATTERN;
  }
  return found;
}

static int is_there(const char *pattern, const GPtrArray *plugins) {
  for (guint i = 0; i < plugins->len; i++)
    if (!fnmatch(pattern, ((const Plugin *)g_ptr_array_index(plugins, i))->descriptor.name, 0))
      return 1;
  return 0;
}

static char *describe_unknown(const char *pattern, const GPtrArray *plugins) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  char hint[BP_HINT_MAX];
  for (guint i = 0; i < plugins->len; i++)
    g_ptr_array_add(
        names, (char *)(uintptr_t)((const Plugin *)g_ptr_array_index(plugins, i))->descriptor.name);
  bp__nearest_hint(pattern, (const char *const *)names->pdata, names->len, hint);
  return g_strdup_printf("no plugin has the name \"%.80s\"%s", pattern, hint);
}

static void isolate_check(const GPtrArray *plugins, void (*report)(void *context, const char *text),
                          void *context) {
  const char *list = bp__env_get("BACKPLANE_ISOLATE");
  g_auto(GStrv) patterns = g_strsplit(list ? list : "", ",", -1);
  for (char **pattern = patterns; *pattern; pattern++) {
    if (!*g_strstrip(*pattern) || is_there(*pattern, plugins))
      continue;
    g_autofree char *text = describe_unknown(*pattern, plugins);
    report(context, text);
  }
}

/* Whether a worker can provide the functions of a name. */
static int does_cross(const char *registry_name) {
  return g_str_has_prefix(registry_name, "device_api.") ||
         g_str_has_prefix(registry_name, "target.build.") ||
         g_str_has_prefix(registry_name, "graph_compiler.") ||
         g_str_has_prefix(registry_name, "runtime.module.loadbinary_");
}

/* Returns the first name that a worker cannot provide (transfer full); NULL if a worker can provide
 * all names. */
static char *find_obstacle(const char *provides) {
  size_t length = 0;
  for (const char *word = provides; (word = bp__words_next(word, &length));) {
    char *name = g_strndup(word, length);
    if (!does_cross(name))
      return name;
    g_free(name);
  }
  return NULL;
}

char *bp__isolate_obstacle(const Descriptor *descriptor) {
  if (!*descriptor->devices || bp__words_have(descriptor->devices, "cpu"))
    return g_strdup("it has no device, or one that computes in the memory of this process");
  g_autofree char *name = find_obstacle(descriptor->provides);
  return name ? g_strdup_printf("it provides %s, which does not cross", name) : NULL;
}

static int raise_why(const Plugin *plugin, const char *why) {
  return bp__reason_raise(REASON_ISOLATION_IMPOSSIBLE,
                          "BACKPLANE_ISOLATE asks for a process of its own, which this plugin "
                          "cannot have: %s; take it off the list, or write a list that does not "
                          "match \"%s\"",
                          why, plugin->descriptor.name);
}

static int isolate_is_wanted(const Plugin *plugin) {
  const char *list = bp__env_get("BACKPLANE_ISOLATE");
  const Descriptor *descriptor = &plugin->descriptor;
  if (plugin->host)
    return 1;
  int listed = list && !bp__trial_is_here() ? find_in_list(list, descriptor->name) : NOT_LISTED;
  if (listed == NOT_LISTED)
    return 0;
  int has_own_memory = *descriptor->devices && !bp__words_have(descriptor->devices, "cpu");
  if (!has_own_memory && listed == LISTED_BY_PATTERN)
    return 0;
  if (has_own_memory && plugin->entry)
    return raise_why(plugin, "it is linked into the program");
  g_autofree char *obstacle = bp__isolate_obstacle(descriptor);
  return obstacle ? raise_why(plugin, obstacle) : 1;
}

/* ---- Starting a worker ------------------------------------------------------------------- */

/* Raises an error. `name` is that of the plugin or of the machine. */
static int raise_start(const char *name, const char *doing, const char *why) {
  return bp_error_raise(BP_ERROR_PLUGIN, "the worker of %s cannot be started: %s: %s", name, doing,
                        why);
}

static const char *find_program(void) {
  const char *program = bp__env_get("BACKPLANE_WORKER_PROGRAM");
  return program ? program : BP_WORKER_PROGRAM;
}

/* Returns the arguments of the program (transfer full, g_strfreev); NULL with an error. */
static char **make_arguments(const char *program, const char *name, const char *host) {
  g_autofree char *number = g_strdup_printf("%d", (int)getpid());
  g_auto(GStrv) command = NULL;
  GPtrArray *words = g_ptr_array_new();
  if (host && !(command = bp__remote_command(host))) {
    g_ptr_array_unref(words);
    return NULL;
  }
  g_ptr_array_add(words, g_strdup(program));
  if (host)
    g_ptr_array_add(words, g_strdup("--relay"));
  g_ptr_array_add(words, g_strdup(host ? host : name));
  g_ptr_array_add(words, g_steal_pointer(&number));
  for (char **word = command; word && *word; word++)
    g_ptr_array_add(words, g_strdup(*word));
  g_ptr_array_add(words, NULL);
  return (char **)g_ptr_array_free(words, FALSE);
}

/* The most seconds until the program's child serves the socket. */
#define START_SECONDS 20

/* Starts the program, which ends once its child serves the socket. So the worker is no child of
 * this process, and the application's waits for children do not see it. Returns 0 or an errno. */
static int spawn(char *const *arguments, int socket, int *status) {
  char *const no_settings[] = {NULL};
  char **environment = bp__spawn_environment(no_settings);
  const BpSpawn what = {.program = arguments[0],
                        .arguments = arguments,
                        .environment = environment,
                        .input = -1,
                        .output = fcntl(STDERR_FILENO, F_GETFD) < 0 ? -1 : STDERR_FILENO,
                        .passed = {socket},
                        .num_passed = 1,
                        .is_leader = 1,
                        .seconds = START_SECONDS};
  int error = environment ? bp__spawn_and_wait(&what, status) : ENOMEM;
  free(environment);
  return error;
}

/* The argument of a starter function, which starts a worker of a plugin or a relay to another
 * machine. A Start lives for ever. */
typedef struct Start {
  const char *name; /* name of the plugin; NULL: a relay */
  const char *host; /* NULL: this machine */
} Start;

/* Raises an error for a program that did not make the child that serves. If no process can be made,
 * the program's exit status is the errno. */
static int raise_ended(const char *name, const char *program, int status) {
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  g_autofree char *why =
      code == EAGAIN || code == ENOMEM
          ? g_strdup_printf("it cannot start a process: %s", strerror(code))
          : g_strdup(
                "it failed before it served; install the program that belongs to this library");
  return raise_start(name, program, why);
}

static int start_at(const Start *what, int socket) {
  const char *program = find_program(), *name = what->host ? what->host : what->name;
  int status = 0;
  if (*program != '/')
    return raise_start(name, program, "BACKPLANE_WORKER_PROGRAM needs an absolute path");
  g_auto(GStrv) arguments = make_arguments(program, what->name, what->host);
  if (!arguments)
    return -1;
  int error = spawn(arguments, socket, &status);
  if (error == ETIMEDOUT)
    return raise_start(name, program,
                       "it did not serve within " G_STRINGIFY(START_SECONDS) " seconds, and was "
                                                                             "killed");
  if (error) {
    g_autofree char *why =
        g_strdup_printf("%s; install it, or name it in BACKPLANE_WORKER_PROGRAM", strerror(error));
    return raise_start(name, program, why);
  }
  return !WIFEXITED(status) || WEXITSTATUS(status) ? raise_ended(name, program, status) : 0;
}

/* The function that `runtime.isolate` calls, also to start another worker after a loss. The
 * function takes no arguments and returns the socket, which the caller owns. */
static int start(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Start *what = ((const BpClosure *)self)->context;
  int ends[2];
  (void)args;
  (void)num_args;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
    return raise_start(what->host ? what->host : what->name, "a socket", strerror(errno));
  int rc = start_at(what, ends[1]);
  close(ends[1]);
  if (rc)
    close(ends[0]);
  else
    *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = ends[0]};
  return rc;
}

static BpFunction *create_starter(const char *name, const char *host) {
  Start *what = g_new(Start, 1);
  *what = (Start){name, host};
  return bp_function_create(start, what, g_free);
}

BpFunction *bp__isolate_create_starter(const char *host) {
  return create_starter(NULL, host);
}

/* ---- The plugin worker ------------------------------------------------------------------- */

static int find_isolate(BpFunction **isolate) {
  if (bp_registry_get("runtime.isolate", isolate))
    return -1;
  if (*isolate)
    return 0;
  g_autofree char *remedy = bp__package_hint("worker");
  return bp__reason_raise(REASON_ISOLATION_IMPOSSIBLE,
                          "BACKPLANE_ISOLATE asks for a process of its own, and the plugin worker, "
                          "which makes it, is not installed%s",
                          remedy);
}

static int isolate_prepare(void) {
  BpFunction *isolate = NULL;
  int rc = find_isolate(&isolate);
  bp_object_release(isolate);
  return rc;
}

static BpValue raw_str(const char *text) {
  return (BpValue){.type_index = BP_TYPE_RAW_STR, .v_cstr = text};
}

static int isolate_initialize(const Plugin *plugin) {
  const Descriptor *descriptor = &plugin->descriptor;
  BpFunction *isolate = NULL;
  if (find_isolate(&isolate))
    return -1;
  g_autofree char *path = plugin->host ? NULL : g_canonicalize_filename(plugin->path, NULL);
  BpFunction *starter = create_starter(descriptor->name, plugin->host);
  const BpValue args[] = {
      raw_str(descriptor->name),
      raw_str(descriptor->devices),
      raw_str(descriptor->targets),
      raw_str(descriptor->provides),
      raw_str(path ? path : descriptor->name),
      raw_str(plugin->host ? plugin->host : ""),
      {.type_index = BP_TYPE_INT, .v_int64 = plugin->host ? bp__remote_number(plugin->host) : 0},
      {.type_index = BP_TYPE_FUNCTION, .v_obj = (BpObject *)(void *)starter}};
  BpValue nothing = {.type_index = BP_TYPE_NONE};
  int rc = starter ? bp_function_call(isolate, args, G_N_ELEMENTS(args), &nothing) : -1;
  bp_value_clear(&nothing);
  bp_object_release(starter);
  bp_object_release(isolate);
  return rc;
}

/* ---- The part ---------------------------------------------------------------------------- */

static const Isolation isolation = {.is_wanted = isolate_is_wanted,
                                    .check = isolate_check,
                                    .prepare = isolate_prepare,
                                    .initialize = isolate_initialize,
                                    .remote_search = bp__remote_find_all,
                                    .remote_reach = bp__remote_find,
                                    .remote_after_fork = bp__remote_fork};

BP__PART(BP_PART_ISOLATION, isolation);
