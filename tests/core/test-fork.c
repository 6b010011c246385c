/* SPDX-License-Identifier: Apache-2.0 */
/* No child of a fork waits for a lock that a thread of its parent held, and no library is loaded
 * while a lock is held.
 *
 * This program has a pthread_mutex_lock of its own, which the library calls: whenever a function of
 * the library takes a lock for the first time, another thread forks while that lock is held. A fork
 * that waits for the lock continues once the lock is free; a fork that does not wait leaves it
 * locked in the child. Each child uses the library, and has a deadline. The program's dlopen checks
 * how many locks the thread holds. */

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <glib.h>
#include <glib/gstdio.h>

#include <backplane/api.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#include "tests/core/module-fixture.h"

#define DEADLINE    20 /* time limit of a child in seconds */
#define FORK_STARTS 3  /* milliseconds in which a fork must start waiting for a lock */
#define MOST_SITES  512
#define MOST_ROUNDS 40

static const BpDataType float32 = {BP_DTYPE_FLOAT, 32, 1};
static const BpDevice host = {BP_DEVICE_CPU, 0};
static int uses_devices;

/* ---- Calls of parent and child ----------------------------------------------------------- */

#define MUST(condition)                                                                            \
  do {                                                                                             \
    if (!(condition))                                                                              \
      return __LINE__;                                                                             \
    bp_error_clear();                                                                              \
  } while (0)

static int answer(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 42};
  return 0;
}

static void ignore_log(void *context, int32_t level, const char *message) {
  (void)context;
  (void)level;
  (void)message;
}

static int do_nothing(int32_t task, BpParallelGroup *group, void *data) {
  (void)task;
  (void)group;
  (void)data;
  return 0;
}

static int use_registry(void) {
  BpFunction *function = bp_function_create(answer, NULL, NULL), *found;
  size_t count = 0;
  MUST(bp_registry_set("fork.answer", function, 1) == 0);
  MUST(bp_registry_get("fork.answer", &found) == 0 && found == function);
  bp_object_release(found);
  char **names = bp_registry_list(&count);
  MUST(names && count > 1);
  bp_names_free(names);
  MUST(bp_registry_remove("fork.answer") == 0);
  MUST(bp_registry_get("fork.no_such_name", &found) == 0 && !found);
  bp_object_release(function);
  bp_log_set_callback(ignore_log, NULL);
  return 0;
}

static int use_modules(void) {
  BpModule *root = fake_module("test_dev", "ab"), *other = fake_module("test_other", "c");
  BpFunction *function;
  MUST(root && other && bp_module_import(root, other) == 0);
  MUST(bp_module_get_function(root, "other_size", 1, &function) == 0 && function);
  bp_object_release(function);
  bp_object_release(root);
  bp_object_release(other);
  return 0;
}

/* Uses a library, which looks up a function and initialises a handle at its first call. */
static char *library_path;

static int use_library(void) {
  BpFunction *function;
  BpValue result = {.type_index = BP_TYPE_NONE};
  BpModule *library = bp_module_load(library_path);
  MUST(library && bp_module_get_function(library, "call_size", 1, &function) == 0 && function);
  MUST(bp_function_call(function, NULL, 0, &result) == 0 && result.v_int64 == 10);
  bp_object_release(function);
  bp_object_release(library);
  return 0;
}

static int use_targets(void) {
  size_t count = 0;
  char **kinds = bp_target_kinds(&count);
  MUST(kinds && count > 0);
  bp_names_free(kinds);
  BpTarget *target = bp_target_parse("c");
  MUST(target || strstr(bp_error_message(), "fork"));
  bp_object_release(target);
  MUST(!bp_target_parse("no_such_kind"));
  return 0;
}

static int use_plugins(void) {
  BpPluginList *list = bp_plugin_list();
  MUST(list && bp_plugin_list_size(list) > 0);
  bp_plugin_list_free(list);
  return 0;
}

/* Uses a device; in the child of a process that used devices, the call must fail at once. */
static int works(int rc) {
  return rc == 0 || (*bp_error_message() && strstr(bp_error_message(), "fork"));
}

static int use_devices(void) {
  void *handle = NULL, *space = NULL;
  MUST(works(bp_device_alloc(host, &(BpAllocation){sizeof(BpAllocation), 64, 64, float32, 0, NULL},
                             &handle)));
  MUST(bp_device_free(host, handle) == 0);
  if (bp_workspace_alloc(host, 64, float32, &space) == 0)
    MUST(bp_workspace_free(host, space) == 0);
  MUST(works(bp_parallel_launch(do_nothing, NULL, 4)));
  if (!uses_devices)
    return 0;
  BpDevice device = {0, 0};
  void *stream = NULL;
  char *report = NULL;
  MUST(works(bp_device_select("cpu", &device, &report)));
  bp_str_free(report);
  report = NULL;
  MUST(works(bp_device_select("simdev", &device, &report)));
  bp_str_free(report);
  if (!device.device_type)
    return 0;
  MUST(works(bp_stream_create(device, &stream)));
  MUST(works(bp_stream_sync(device, stream)));
  MUST(works(bp_stream_free(device, stream)));
  return 0;
}

/* Returns 0, or the number of the line that failed. */
static int use_all(void) {
  int (*const uses[])(void) = {use_registry, use_modules, use_library,
                               use_targets,  use_plugins, use_devices};
  int line = 0;
  for (size_t i = 0; !line && i < G_N_ELEMENTS(uses); i++)
    line = uses[i]();
  return line;
}

/* A child may start using devices if its parent had not used any, and was not about to. */
static int use_all_in_child(void) {
  BpDevice device;
  char *report = NULL;
  int line = use_all();
  if (line || uses_devices)
    return line;
  MUST(works(bp_device_select("cpu", &device, &report)));
  bp_str_free(report);
  return 0;
}

/* ---- The thread that forks --------------------------------------------------------------- */

enum { IDLE, ASKED, FORKING, WAITING };

static atomic_int state;
static atomic_int num_forks;
static char failure[256]; /* failure of a child; written by the thread that forks */

static void nap(long microseconds) {
  const struct timespec time = {0, microseconds * 1000};
  nanosleep(&time, NULL);
}

static void run_child(void) {
  alarm(DEADLINE);
  int line = use_all_in_child();
  if (line)
    fprintf(stderr, "# line %d: %s\n", line, bp_error_message());
  _exit(line != 0);
}

static void fork_and_wait(void) {
  int status = 0;
  atomic_store(&state, FORKING);
  pid_t child = fork();
  if (child == 0)
    run_child();
  atomic_store(&state, WAITING);
  if (child < 0 || waitpid(child, &status, 0) != child)
    g_snprintf(failure, sizeof failure, "cannot fork: %s", g_strerror(errno));
  else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    g_strlcpy(failure, "a child hangs", sizeof failure);
  else if (!WIFEXITED(status) || WEXITSTATUS(status))
    g_snprintf(failure, sizeof failure, "a child ends with status 0x%x", (unsigned)status);
  atomic_fetch_add(&num_forks, 1);
}

static void *serve_forks(void *data) {
  atomic_int *is_over = data;
  while (!atomic_load(is_over)) {
    if (atomic_load(&state) == ASKED) {
      fork_and_wait();
      atomic_store(&state, IDLE);
    }
    nap(100);
  }
  return NULL;
}

/* ---- Locks ------------------------------------------------------------------------------- */

static _Thread_local int is_watched; /* set in the thread whose locks count */
static _Thread_local int num_held;   /* mutexes held, of any library */
static void *sites[MOST_SITES];
static size_t num_sites;
static int found_new;

/* Returns the function of the library that takes a lock, directly or through another one; NULL:
 * other code. */
static void *find_site(void) {
  void *frames[8];
  Dl_info info;
  int count = backtrace(frames, G_N_ELEMENTS(frames));
  for (int i = 1; i + 1 < count; i++)
    if (dladdr(frames[i], &info) && strstr(info.dli_fname, "libbackplane"))
      return frames[i + 1];
  return NULL;
}

static int is_known(const void *site) {
  for (size_t i = 0; i < num_sites; i++)
    if (sites[i] == site)
      return 1;
  return 0;
}

/* Forks with the lock held. The previous fork may itself wait for the lock: then another round
 * follows. */
static void fork_here(void) {
  is_watched = 0;
  void *site = find_site();
  if (site && num_sites < MOST_SITES && !is_known(site)) {
    found_new = 1;
    while (atomic_load(&state) == WAITING)
      nap(100);
    if (atomic_load(&state) == IDLE) {
      sites[num_sites++] = site;
      atomic_store(&state, ASKED);
      while (atomic_load(&state) == ASKED)
        nap(100);
      nap(1000L * FORK_STARTS);
    }
  }
  is_watched = 1;
}

BP_API int pthread_mutex_lock(pthread_mutex_t *mutex);
int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static int (*_Atomic next)(pthread_mutex_t *);
  int (*real)(pthread_mutex_t *) = atomic_load(&next);
  if (!real) {
    real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    atomic_store(&next, real);
  }
  int rc = real(mutex);
  num_held += rc == 0;
  if (rc == 0 && is_watched)
    fork_here();
  return rc;
}

/* Lets a fork that waited for the lock continue here, and not inside dlopen, whose state glibc
 * leaves broken in the child. The fork may still wait for an outer lock. */
BP_API int pthread_mutex_unlock(pthread_mutex_t *mutex);
int pthread_mutex_unlock(pthread_mutex_t *mutex) {
  static int (*_Atomic next)(pthread_mutex_t *);
  int (*real)(pthread_mutex_t *) = atomic_load(&next);
  if (!real) {
    real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    atomic_store(&next, real);
  }
  int rc = real(mutex);
  num_held -= rc == 0;
  for (int i = 0; i < 100 && is_watched && atomic_load(&state) == FORKING; i++)
    nap(200);
  return rc;
}

BP_API int pthread_rwlock_rdlock(pthread_rwlock_t *lock);
int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
  int (*real)(pthread_rwlock_t *) =
      (int (*)(pthread_rwlock_t *))dlsym(RTLD_NEXT, "pthread_rwlock_rdlock");
  int rc = real(lock);
  if (rc == 0 && is_watched)
    fork_here();
  return rc;
}

BP_API int pthread_rwlock_wrlock(pthread_rwlock_t *lock);
int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
  int (*real)(pthread_rwlock_t *) =
      (int (*)(pthread_rwlock_t *))dlsym(RTLD_NEXT, "pthread_rwlock_wrlock");
  int rc = real(lock);
  if (rc == 0 && is_watched)
    fork_here();
  return rc;
}

/* ---- Libraries --------------------------------------------------------------------------- */

static char loaded_under_lock[256];
static int num_parts; /* loaded */

/* Constructors of the library may take any time, and may fork. */
BP_API void *dlopen(const char *name, int flags);
void *dlopen(const char *name, int flags) {
  void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  num_parts += name && strstr(name, "/backplane-") && !(flags & RTLD_NOLOAD);
  if (num_held > 0)
    g_strlcpy(loaded_under_lock, name ? name : "", sizeof loaded_under_lock);
  return real(name, flags);
}

/* Misspelt names and a list of plugins to isolate load parts of the core; a library and devices are
 * loaded, too. */
static void ask_for_everything(void) {
  g_setenv("BACKPLANE_ISOLATE", "no_such_plugin", TRUE);
  BpDevice device;
  char *report = NULL;
  g_assert_cmpint(bp_plugin_activate("simdew"), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "simdev"));
  g_assert_cmpint(bp_device_select("simdew", &device, &report), ==, -1);
  bp_str_free(report);
  uses_devices = 1;
  g_assert_cmpint(use_all(), ==, 0);
}

/* ---- Tests ------------------------------------------------------------------------------- */

static void fork_in_every_section(void) {
  atomic_int is_over = 0;
  pthread_t forker;
  int line = 0, rounds = 0;
  g_assert_cmpint(pthread_create(&forker, NULL, serve_forks, &is_over), ==, 0);
  do {
    found_new = 0;
    is_watched = 1;
    line = use_all();
    is_watched = 0;
    while (atomic_load(&state) != IDLE)
      nap(100);
  } while (!line && !*failure && found_new && ++rounds < MOST_ROUNDS);
  atomic_store(&is_over, 1);
  pthread_join(forker, NULL);
  if (line)
    g_error("line %d: %s", line, bp_error_message());
  if (*failure)
    g_error("after %d forks: %s", atomic_load(&num_forks), failure);
  g_test_message("%d forks, %zu sections, %d rounds", atomic_load(&num_forks), num_sites, rounds);
  g_assert_false(found_new);
}

static void test_no_library_is_loaded_under_a_lock(void) {
  if (!g_test_subprocess()) { /* loaded libraries stay loaded */
    g_test_trap_subprocess(NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
    g_test_trap_assert_passed();
    return;
  }
  ask_for_everything();
  g_assert_cmpint(num_parts, >=, 3);
  g_assert_cmpstr(loaded_under_lock, ==, "");
}

static void test_no_child_hangs_before_devices_are_used(void) {
  fork_in_every_section();
  g_assert_cmpint(atomic_load(&num_forks), >, 10);
}

static void test_no_child_hangs_after_devices_are_used(void) {
  uses_devices = 1;
  int before = atomic_load(&num_forks);
  fork_in_every_section();
  g_assert_cmpint(atomic_load(&num_forks), >, before + 3);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  const char *build = g_getenv("top_builddir"), *plugins = g_getenv("BACKPLANE_PLUGIN_PATH");
  g_autofree char *path =
      g_strdup_printf("%s:%s/tests/mock/.libs", plugins ? plugins : "", build ? build : ".");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  library_path = temporary_path("forked.so");
  fixture_begin();
  export_small(library_path);
  g_test_add_func("/fork/no_library_is_loaded_under_a_lock",
                  test_no_library_is_loaded_under_a_lock);
  g_test_add_func("/fork/no_child_hangs_before_devices_are_used",
                  test_no_child_hangs_before_devices_are_used);
  g_test_add_func("/fork/no_child_hangs_after_devices_are_used",
                  test_no_child_hangs_after_devices_are_used);
  int rc = g_test_run();
  g_unlink(library_path);
  g_free(library_path);
  return rc;
}
