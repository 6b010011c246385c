/* SPDX-License-Identifier: Apache-2.0 */
/* Other machines whose plugins this process uses: their names, their connections, their plugins. */

#include "parts/isolation/remote.h"

#include "parts/isolation/isolate.h"
#include "parts/plugins/trial.h"
#include "core/registry/hints.h"
#include "core/registry/log.h"
#include "core/registry/names.h"
#include "core/registry/registration.h"
#include "core/system/env.h"
#include "parts/spawn.h"

#include <backplane/error.h>
#include <backplane/object.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SHELL "ssh -T -o ServerAliveInterval=15"

enum { NEW, ASKING, ANSWERED, UNREACHABLE };

/* Device types have 31 bits, of which the kind's number takes 16. */
#define MOST_MACHINES 32767
#define MOST_HOST     128
/* A faulty machine could fill the memory of this process. */
#define MOST_PLUGINS 1024

/* A machine; never freed. The plugins' lock guards all members but `host`; only the thread that set
 * ASKING writes `why`. */
typedef struct Machine {
  char *host;
  int32_t number; /* number of the machine, from 1 on */
  int state;
  pthread_t owner; /* thread that set ASKING */
  char *why;       /* reason for UNREACHABLE */
  struct Machine *next;
} Machine;

static Machine *machines;

/* ---- The command ------------------------------------------------------------------------- */

/* The permitted characters of names of machines and users, and of IPv6 addresses. Other characters
 * have a meaning for a shell, which ssh's configuration may start with the name, and ssh would take
 * a name that begins with a dash as an option. */
static int check_host(const char *host) {
  static const char right[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:[]%+@";
  const char *at = strrchr(host, '@'), *name = at ? at + 1 : host;
  size_t length = strlen(host);
  if (*name && *name != '-' && *host != '-' && host != at && strspn(host, right) == length &&
      length <= MOST_HOST)
    return 0;
  return bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                          "\"%.80s\" is no machine; one is written HOST or USER@HOST, as for ssh",
                          host);
}

/* Replaces the first word by the path of the program that it names. -1 with an error. */
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

/* ---- The plugins of a machine ------------------------------------------------------------ */

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

/* Whether a usable plugin has the word in its registry names or target kinds, with the lock
 * held. */
static int is_declared(const GPtrArray *all, const char *word) {
  int is_there = 0;
  for (guint i = 0; i < all->len && !is_there; i++) {
    const Plugin *plugin = g_ptr_array_index(all, i);
    is_there =
        plugin->state != BP_PLUGIN_REJECTED && (bp__words_have(plugin->descriptor.provides, word) ||
                                                bp__words_have(plugin->descriptor.targets, word));
  }
  return is_there;
}

static void add_word(GString *words, const char *prefix, const char *machine, const char *rest) {
  g_string_append_printf(words, "%s%s%s%s", words->len ? " " : "", prefix, machine, rest);
}

/* Returns the words of a list as this process uses them. Kinds of devices, and the loaders of their
 * code, get the machine's name. Code for a kind is the same on all machines, so code generators,
 * and the loaders of code that is not bound to a machine, keep their names, unless another plugin
 * has these names. */
static const char *rename_words(const char *words, const char *machine, const GPtrArray *all) {
  static const char *const of_devices[] = {"device_api.", "runtime.module.loadbinary_"};
  GString *renamed = g_string_new(NULL);
  g_auto(GStrv) names = g_strsplit(words, " ", -1);
  for (char **name = names; *name; name++) {
    int is_device = g_str_has_prefix(*name, of_devices[0]);
    for (size_t i = 0; i < G_N_ELEMENTS(of_devices); i++)
      if (g_str_has_prefix(*name, of_devices[i]))
        add_word(renamed, of_devices[i], machine, *name + strlen(of_devices[i]));
    if (**name && !all)
      add_word(renamed, machine, "", *name);
    else if (**name && !is_device && !is_declared(all, *name))
      add_word(renamed, *name, "", "");
  }
  return g_string_free(renamed, FALSE);
}

static void rename_plugin(const Machine *machine, Descriptor *descriptor) {
  g_autofree char *prefix = g_strconcat(BP_REMOTE_PREFIX, machine->host, "/", NULL);
  bp__plugins_scan(0);
  bp__plugins_lock();
  g_autoptr(GPtrArray) all = g_ptr_array_copy(bp__plugins_all(), NULL, NULL);
  descriptor->provides = rename_words(descriptor->provides, prefix, all);
  descriptor->targets = rename_words(descriptor->targets, prefix, all);
  descriptor->devices = rename_words(descriptor->devices, prefix, NULL);
  bp__plugins_unlock();
}

/* Adds a plugin unless it cannot be used from another machine, like the CPU's plugin. A plugin
 * whose descriptor is refused is added as rejected. */
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
  else
    rename_plugin(machine, &plugin->descriptor);
  add_plugin(plugin);
}

static int check_count(const BpByteArray *bytes) {
  size_t count = 0;
  for (size_t i = 0; i < bytes->size; i++)
    count += !bytes->data[i];
  return count <= MOST_PLUGINS ? 0
                               : bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                                                  "it lists %zu plugins, and at most %d are taken",
                                                  count, MOST_PLUGINS);
}

static int take_list(const Machine *machine, const BpValue *list) {
  BpByteArray bytes;
  if (bp_value_view_str(list, &bytes) || check_count(&bytes))
    return -1;
  for (const char *text = bytes.data, *end = text + bytes.size; text < end;) {
    size_t size = strnlen(text, (size_t)(end - text));
    take_plugin(machine, text, size);
    text += size + 1;
  }
  return 0;
}

/* ---- Asking a machine -------------------------------------------------------------------- */

static int check_number(const Machine *machine) {
  return machine->number <= MOST_MACHINES
             ? 0
             : bp__reason_raise(REASON_REMOTE_UNREACHABLE,
                                "this process knows %d other machines already, the most that it "
                                "can use",
                                MOST_MACHINES);
}

static int ask(const Machine *machine) {
  BpFunction *function = NULL;
  BpValue list = {.type_index = BP_TYPE_NONE};
  if (check_host(machine->host) || check_number(machine) ||
      bp_registry_get("runtime.list_remote", &function))
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

/* Stores the thread's error as the reason. */
static void reject_machine(Machine *machine) {
  Plugin *plugin = create_plugin(machine, "");
  bp__reason_note(REASON_REMOTE_UNREACHABLE);
  bp__plugin_reject(plugin, BP_PLUGIN_REJECTED);
  machine->why = g_strdup(plugin->reason);
  add_plugin(plugin);
  bp__log(BP_LOG_WARNING, "%s cannot be used: %s", plugin->path, machine->why);
}

/* Returns the machine with a name, and makes it if there is none. Called with the lock held. */
static Machine *find_machine(const char *host) {
  Machine **at = &machines;
  int32_t number = 1;
  for (; *at && strcmp((*at)->host, host); at = &(*at)->next)
    number++;
  if (!*at) {
    *at = g_new0(Machine, 1);
    (*at)->host = g_strdup(host);
    (*at)->number = number;
  }
  return *at;
}

/* Whether another thread is asking a machine. Called with the lock held. */
static int does_other_ask(void) {
  int is_asked = 0;
  for (const Machine *machine = machines; machine; machine = machine->next)
    is_asked |= machine->state == ASKING && !pthread_equal(machine->owner, pthread_self());
  return is_asked;
}

/* Whether this thread is to ask the machine. Waits while another thread asks any machine, since the
 * names of a machine's plugins depend on those of other machines. */
static int claim(Machine *machine) {
  int is_mine = 0;
  bp__plugins_lock();
  while (machine->state <= ASKING && does_other_ask())
    bp__plugins_wait();
  if (machine->state == NEW) {
    machine->state = ASKING;
    machine->owner = pthread_self();
    is_mine = 1;
  }
  bp__plugins_unlock();
  return is_mine;
}

/* Whether this thread is asking a machine: to activate the plugin worker it searches plugins, and
 * the search must not wait for another thread that asks a machine and searches, too. */
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

int32_t bp__remote_number(const char *host) {
  bp__plugins_lock();
  int32_t number = find_machine(host)->number;
  bp__plugins_unlock();
  return number;
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

/* After a fork, the question of another thread is never answered. */
void bp__remote_fork(void) {
  for (Machine *machine = machines; machine; machine = machine->next)
    if (machine->state == ASKING && !pthread_equal(machine->owner, pthread_self())) {
      machine->state = UNREACHABLE;
      machine->why = g_strdup("the process was forked while it asked that machine");
    }
}
