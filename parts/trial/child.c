/* SPDX-License-Identifier: Apache-2.0 */
/* The trial itself, in a process that may crash: the plugin is activated and its devices are
 * listed; each step is reported before it is taken. */

#include "parts/trial/trial.h"

#include "core/device/device.h"
#include "core/device/layers.h"
#include "core/registry/names.h"
#include "parts/trial/report.h"

#include <backplane/device.h>
#include <backplane/object.h>
#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* ---- Results ----------------------------------------------------------------------------- */

static void report_fault(Reason reason, const char *text) {
  bp__trial_report("fault", "%s\t%s", bp__reason_code(reason), text);
  bp_error_clear();
}

/* Writes `path` in the form of a record: a line of ASCII, for any bytes. */
static void report_use(const char *path) {
  g_autofree char *escaped = g_strescape(path, NULL);
  bp__trial_report("uses", "%s", escaped);
}

/* Collects the names that are files: the loader's names without a slash are not. */
static int collect_name(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  if (info->dlpi_name && strchr(info->dlpi_name, '/'))
    g_ptr_array_add(context, g_strdup(info->dlpi_name));
  return 0;
}

/* Lists the directories in which the loader searches for the libraries that `library` needs: a
 * library in an earlier directory replaces one in a later directory. Relative directories stay
 * relative: they differ by working directory. */
static void collect_directories(const char *library, GHashTable *directories) {
  Dl_serinfo count;
  void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle && !dlinfo(handle, RTLD_DI_SERINFOSIZE, &count)) {
    g_autofree Dl_serinfo *found = g_malloc0(count.dls_size);
    dlinfo(handle, RTLD_DI_SERINFOSIZE, found);
    for (unsigned i = 0; !dlinfo(handle, RTLD_DI_SERINFO, found) && i < found->dls_cnt; i++) {
      const char *name = found->dls_serpath[i].dls_name;
      g_hash_table_add(directories, g_strdup(*name ? name : "."));
    }
  }
  if (handle)
    dlclose(handle);
}

/* Reports the loaded libraries, and the folders in which the loader would have found another
 * library first. */
static void report_libraries(void) {
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GHashTable) paths = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  dl_iterate_phdr(collect_name, names);
  for (guint i = 0; i < names->len; i++) {
    const char *name = g_ptr_array_index(names, i);
    collect_directories(name, paths);
    if (!g_str_has_prefix(name, "/proc/"))
      g_hash_table_add(paths, g_strdup(name));
  }
  GHashTableIter each;
  gpointer path;
  for (g_hash_table_iter_init(&each, paths); g_hash_table_iter_next(&each, &path, NULL);)
    report_use(path);
}

/* Returns a text attribute, or "" (transfer full). */
static char *text_attr(BpDevice device, int32_t attr) {
  BpValue value = {.type_index = BP_TYPE_NONE};
  BpByteArray view;
  char *text = NULL;
  if (!bp_device_get_attr(device, attr, &value) && value.type_index != BP_TYPE_NONE &&
      !bp_value_view_str(&value, &view))
    text = g_strndup(view.data, view.size);
  bp_value_clear(&value);
  bp_error_clear();
  return text ? text : g_strdup("");
}

static void report_device(BpDevice device) {
  char where[BP_DEVICE_TEXT_MAX];
  BpValue is_there = {.type_index = BP_TYPE_NONE};
  bp_device_format(device, where, sizeof where);
  bp_device_get_attr(device, BP_ATTR_EXIST, &is_there);
  g_autofree char *name = text_attr(device, BP_ATTR_DEVICE_NAME);
  bp__trial_report("device", "%s\t%d\t%s", where, is_there.v_int64 != 0, name);
}

static void report_kind(const char *kind) {
  BpDevice device;
  int32_t count;
  const char *why = "";
  if (bp_device_parse(kind, &device) || bp_device_count(device.device_type, &count, &why)) {
    report_fault(REASON_DEVICES_FAILED, bp_error_message());
    return;
  }
  if (!count)
    bp__trial_report("nodevice", "%s\t%s", kind, why);
  for (; device.device_id < count; device.device_id++)
    report_device(device);
  bp__trial_end_copy();
}

/* Uses the loader's own search, which no other code can predict. One of a library's alternative
 * names is enough; the reported reason is that of the first name. */
static void report_vendor_library(const char *alternatives) {
  g_auto(GStrv) names = g_strsplit(alternatives, "|", -1);
  g_autofree char *why = NULL;
  int is_there = 0;
  for (char **name = names; *name && !is_there; name++) {
    is_there = dlopen(*name, RTLD_NOW | RTLD_LOCAL) != NULL;
    if (!is_there && !why)
      why = g_strdup(dlerror());
  }
  bp__trial_report("library", "%s\t%s", alternatives,
                   is_there ? "" : (why ? why : "the loader gives no reason"));
}

static void for_each_word(const char *list, void (*visit)(const char *word)) {
  size_t length = 0;
  for (const char *word = list; (word = bp__words_next(word, &length));) {
    g_autofree char *copy = g_strndup(word, length);
    visit(copy);
  }
}

/* ---- The trial --------------------------------------------------------------------------- */

static int activate(Plugin *plugin) {
  if (plugin->state == BP_PLUGIN_REJECTED)
    return bp__reason_raise(plugin->code, "%s", plugin->reason);
  bp__plugins_search_nothing();
  bp__plugins_lock();
  bp__plugins_add(plugin);
  bp__plugins_unlock();
  bp__plugins_scan(0);
  bp__trial_report_stage("load");
  return bp__plugin_activate(plugin);
}

static void try_plugin(int plugin_fd, const char *path) {
  bp__layers_ignore(); /* layers do not belong to the plugin */
  Plugin *plugin = bp__plugin_read_open(plugin_fd, path);
  int rc = activate(plugin);
  bp__trial_end_copy();
  if (rc)
    report_fault(plugin->code, plugin->reason);
  else {
    report_libraries(); /* the plugin may end the process in the next step */
    bp__trial_report_stage("devices");
    for_each_word(plugin->descriptor.devices, report_kind);
  }
  bp__trial_report_stage("libraries");
  if (plugin)
    for_each_word(plugin->descriptor.libraries, report_vendor_library);
  report_libraries();
  bp__trial_report("done", "yes");
  bp__trial_report_stage("exit");
}

void bp__trial_try_here(int plugin_fd, const char *path, int fd) {
  if (bp__trial_report_begin(fd))
    try_plugin(plugin_fd, path);
  bp__trial_report_end();
}
