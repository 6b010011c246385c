/* SPDX-License-Identifier: Apache-2.0 */
/* Machines whose plugins are used from here: their names, their connections, their plugins. */

#include "parts/isolation/remote.h"

#include "parts/isolation/isolate.h"
#include "core/plugin/trial.h"
#include "core/registry/hints.h"
#include "core/registry/log.h"
#include "core/registry/registration.h"
#include "core/system/env.h"
#include "core/system/spawn.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SHELL "ssh -T -o ServerAliveInterval=15"

enum { NEW, ASKING, ANSWERED, UNREACHABLE };

/* A machine; never freed. The plugins' lock guards all but `host`; only the owner of ASKING writes
 * `why`. */
typedef struct Machine {
  char *host;
  int state;
  pthread_t owner; /* of ASKING */
  char *why;       /* of UNREACHABLE */
  struct Machine *next;
} Machine;

static Machine *machines;

/* ---- The command ------------------------------------------------------------------------- */

/* Characters of names of machines and users, and of IPv6 addresses. Others mean something to a
 * shell, which ssh's configuration may start with the name, and a name that begins with a dash
 * would be an option of ssh. */
static int check_host(const char *host) {
  static const char right[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:[]%+@";
  const char *at = strrchr(host, '@'), *name = at ? at + 1 : host;
  if (*name && *name != '-' && *host != '-' && host != at && strspn(host, right) == strlen(host))
    return 0;
  return bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                          "\"%.80s\" is no machine; one is written HOST or USER@HOST, as for ssh",
                          host);
}

/* Replaces the first word by the path of that program. -1 with an error. */
static int find_shell(char **words, const char *text) {
  char *path = bp__find_program(words[0]);
  if (!path)
    return bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                            "\"%.80s\" is not found: %s; install it, or name another command in "
                            "BACKPLANE_REMOTE_SHELL",
                            text, strerror(errno));
  g_free(words[0]);
  words[0] = g_strdup(path);
  free(path);
  return 0;
}

char **bp__remote_command(const char *host) {
  const char *shell = bp__env_get("BACKPLANE_REMOTE_SHELL");
  const char *program = bp__env_get("BACKPLANE_REMOTE_PROGRAM");
  g_auto(GStrv) words = NULL;
  int count = 0;
  if (!shell)
    shell = DEFAULT_SHELL;
  if (!g_shell_parse_argv(shell, &count, &words, NULL)) {
    bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                     "BACKPLANE_REMOTE_SHELL is \"%.80s\", which is no command", shell);
    return NULL;
  }
  if (find_shell(words, shell))
    return NULL;
  g_autofree char *quoted = g_shell_quote(program ? program : BP_WORKER_PROGRAM);
  words = g_renew(char *, words, count + 3);
  words[count++] = g_strdup(host);
  words[count++] = g_strdup_printf("exec %s --stream", quoted);
  words[count] = NULL;
  return g_steal_pointer(&words);
}

/* ---- What a machine has ------------------------------------------------------------------ */

static Plugin *create_plugin(const Machine *machine, const char *name) {
  g_autofree char *path =
      g_strconcat(BP_REMOTE_PREFIX, machine->host, *name ? "/" : "", name, NULL);
  Plugin *plugin = bp__plugin_create(path);
  plugin->host = machine->host;
  return plugin;
}

static void add_plugin(Plugin *plugin) {
  bp__plugins_lock();
  bp__plugins_add(plugin);
  bp__plugins_unlock();
}

/* Adds a plugin unless it cannot be used from another machine, as the CPU's. One whose descriptor
 * is refused is added as rejected. */
static void take_plugin(const Machine *machine, const char *text, size_t size) {
  Plugin *plugin = create_plugin(machine, "");
  int rc = bp__descriptor_parse(&plugin->descriptor, text, size);
  g_autofree char *obstacle = rc ? NULL : bp__isolate_obstacle(&plugin->descriptor);
  if (obstacle) {
    bp__log(BP_LOG_INFO, "plugin %s of %s is not used from here: %s", plugin->descriptor.name,
            machine->host, obstacle);
    bp__plugin_free(plugin);
    return;
  }
  g_free(plugin->path);
  plugin->path = g_strconcat(BP_REMOTE_PREFIX, machine->host, "/", plugin->descriptor.name, NULL);
  if (rc)
    bp__plugin_reject(plugin, BP_PLUGIN_REJECTED);
  add_plugin(plugin);
}

static int take_list(const Machine *machine, const BpValue *list) {
  BpByteArray bytes;
  if (bp_value_view_str(list, &bytes))
    return -1;
  for (const char *text = bytes.data, *end = text + bytes.size; text < end;) {
    size_t size = strnlen(text, (size_t)(end - text));
    take_plugin(machine, text, size);
    text += size + 1;
  }
  return 0;
}

/* ---- Asking a machine -------------------------------------------------------------------- */

static int ask(const Machine *machine) {
  BpFunction *function = NULL;
  BpValue list = {.type_index = BP_TYPE_NONE};
  if (check_host(machine->host) || bp_registry_get("runtime.list_remote", &function))
    return -1;
  if (!function) {
    g_autofree char *remedy = bp__package_hint("worker");
    return bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                            "the plugin worker, which reaches other machines, is not installed%s",
                            remedy);
  }
  BpFunction *starter = bp__isolate_create_starter(machine->host);
  const BpValue args[] = {{.type_index = BP_TYPE_RAW_STR, .v_cstr = machine->host},
                          {.type_index = BP_TYPE_FUNCTION, .v_obj = (BpObject *)(void *)starter}};
  int rc = starter && !bp_function_call(function, args, 2, &list) ? take_list(machine, &list) : -1;
  bp_value_clear(&list);
  bp_object_release(starter);
  bp_object_release(function);
  return rc;
}

/* Keeps the thread's error as the reason. */
static void reject_machine(Machine *machine) {
  Plugin *plugin = create_plugin(machine, "");
  bp__reason_note(REASON_REMOTE_UNREACHABLE);
  bp__plugin_reject(plugin, BP_PLUGIN_REJECTED);
  machine->why = g_strdup(plugin->reason);
  add_plugin(plugin);
  bp__log(BP_LOG_WARNING, "%s cannot be used: %s", plugin->path, machine->why);
}

/* With the lock held. The machine of a name, made if there is none. */
static Machine *find_machine(const char *host) {
  Machine **at = &machines;
  while (*at && strcmp((*at)->host, host))
    at = &(*at)->next;
  if (!*at) {
    *at = g_new0(Machine, 1);
    (*at)->host = g_strdup(host);
  }
  return *at;
}

/* Whether this thread is to ask the machine; waits while another one does. */
static int claim(Machine *machine) {
  int is_mine = 0;
  bp__plugins_lock();
  while (machine->state == ASKING && !pthread_equal(machine->owner, pthread_self()))
    bp__plugins_wait();
  if (machine->state == NEW) {
    machine->state = ASKING;
    machine->owner = pthread_self();
    is_mine = 1;
  }
  bp__plugins_unlock();
  return is_mine;
}

/* Whether this thread asks a machine now: to activate the plugin worker, it searches plugins, and
 * must not wait there for another thread that asks a machine and searches, too. */
static int is_asking(void) {
  int is_owner = 0;
  bp__plugins_lock();
  for (const Machine *machine = machines; machine; machine = machine->next)
    is_owner |= machine->state == ASKING && pthread_equal(machine->owner, pthread_self());
  bp__plugins_unlock();
  return is_owner;
}

static Machine *reach(const char *host) {
  bp__plugins_lock();
  Machine *machine = find_machine(host);
  bp__plugins_unlock();
  if (!claim(machine))
    return machine;
  BpError *error = bp_error_take();
  int rc = ask(machine);
  if (rc)
    reject_machine(machine);
  bp_error_clear();
  if (error)
    bp_error_put(error);
  bp__plugins_lock();
  machine->state = rc ? UNREACHABLE : ANSWERED;
  bp__plugins_wake();
  bp__plugins_unlock();
  return machine;
}

void bp__remote_find_all(void) {
  const char *list = bp__env_get("BACKPLANE_REMOTE");
  if (!list || bp__trial_is_here() || bp__registration_current() || is_asking())
    return;
  g_auto(GStrv) hosts = g_strsplit(list, ",", -1);
  for (char **host = hosts; *host; host++)
    if (*g_strstrip(*host))
      reach(*host);
}

int bp__remote_find(const char *host) {
  if (check_host(host))
    return -1;
  const Machine *machine = reach(host);
  bp__plugins_lock();
  g_autofree char *why = g_strdup(machine->why);
  bp__plugins_unlock();
  if (why)
    bp_error_raise(BP_ERROR_DEVICE, "%s", why);
  return !why;
}

/* Another thread's question will never be answered. */
void bp__remote_fork(void) {
  for (Machine *machine = machines; machine; machine = machine->next)
    if (machine->state == ASKING && !pthread_equal(machine->owner, pthread_self())) {
      machine->state = UNREACHABLE;
      machine->why = g_strdup("the process was forked while it asked that machine");
    }
}
