/* SPDX-License-Identifier: Apache-2.0 */
/* Loading exactly the file that was checked.
 *
 * The file is opened, compared with the file whose descriptor was read, and mapped through its
 * entry in /proc, so changing the path in between has no effect. The dynamic loader identifies
 * libraries by that name, which contains the number of the file descriptor. So the file descriptor
 * stays open for ever, and its number is not reused. In case other code closed the descriptor, the
 * mapped file is compared with it. */

#include "core/plugin/trial.h"

#include "core/system/elf.h"
#include "core/system/file.h"
#include "core/system/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <link.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int bp__plugin_open(Plugin *plugin) {
  struct stat status;
  int fd = bp__file_open(AT_FDCWD, plugin->path, &status);
  if (fd < 0 && errno)
    return bp__reason_raise(errno == ENOENT           ? REASON_FILE_MISSING
                            : bp__errno_passes(errno) ? REASON_RESOURCES
                                                      : REASON_FILE_UNREADABLE,
                            "it cannot be opened: %s", strerror(errno));
  if (fd >= 0 && bp__plugin_is_file(plugin, &status)) {
    plugin->fd = fd;
    return 0;
  }
  if (fd >= 0)
    close(fd);
  return bp__reason_raise(REASON_FILE_CHANGED,
                          "the file changed after its descriptor was read; try again");
}

/* ---- The mapped file --------------------------------------------------------------------- */

/* Whether a library was mapped from the file open as `fd`: maps a page of that file and compares
 * the two mappings. -1 with errno if that cannot be found out. */
static int is_mapped_from(void *library, int fd) {
  BpMapping loaded, probe;
  struct link_map *map;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map))
    return 0;
  if (bp__find_mapping(map->l_ld, &loaded))
    return errno == ENOENT ? 0 : -1;
  free(loaded.path);
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (page == MAP_FAILED)
    return -1;
  int is_found = !bp__find_mapping(page, &probe), error = errno;
  munmap(page, size);
  errno = error;
  if (!is_found)
    return -1;
  free(probe.path);
  return loaded.major == probe.major && loaded.minor == probe.minor && loaded.inode == probe.inode;
}

/* Whether the open file was not written since its descriptor was read. The time of status change is
 * no test: replacing the file changes that time too, and the open file continues to exist. */
static int is_unwritten(const Plugin *plugin) {
  struct stat status;
  return !fstat(plugin->fd, &status) && status.st_size == plugin->status.st_size &&
         status.st_mtim.tv_sec == plugin->status.st_mtim.tv_sec &&
         status.st_mtim.tv_nsec == plugin->status.st_mtim.tv_nsec;
}

/* ---- Loading ----------------------------------------------------------------------------- */

/* Returns the loader's message, with the plugin's path instead of the entry in /proc (transfer
 * full). The message is in English, because it is searched for known texts. */
static char *loader_message(const char *name, const char *path) {
  locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t before = english ? uselocale(english) : (locale_t)0;
  const char *cause = dlerror();
  g_auto(GStrv) parts = g_strsplit(cause ? cause : "the loader gives no reason", name, -1);
  if (english) {
    uselocale(before);
    freelocale(english);
  }
  return g_strjoinv(path, parts);
}

static int explain_dlopen(const Plugin *plugin, const char *name, int is_memory) {
  g_autofree char *cause = loader_message(name, plugin->path);
  if (is_memory)
    return bp__reason_raise(REASON_RESOURCES, "it cannot be loaded for want of memory: %s", cause);
  if (strstr(cause, "Too many open files"))
    return bp__reason_raise(REASON_RESOURCES, "it cannot be loaded: %s", cause);
  if (!strstr(cause, "cannot open shared object file"))
    return bp__reason_raise(REASON_LOAD_FAILED, "it cannot be loaded: %s", cause);
  /* "LIBRARY: cannot open shared object file: ..." */
  g_autofree char *library = g_strndup(cause, strcspn(cause, ":"));
  g_autofree char *package = bp__descriptor_package(&plugin->descriptor, library);
  bp__trial_missing(library);
  return bp__reason_raise(REASON_DEPENDENCY_MISSING,
                          "it cannot be loaded: %s; install the package %s", cause,
                          package ? package : "that holds what is missing");
}

/* Maps the file; -1 with an error. */
static int map(Plugin *plugin, void **library) {
  char name[BP_FD_PATH_SIZE];
  if (bp__fd_path(plugin->fd, name))
    return bp__reason_raise(REASON_PROC_MISSING,
                            "it cannot be loaded: /proc is not mounted, or not that of this "
                            "process (%s)",
                            strerror(errno));
  if (!is_unwritten(plugin))
    return bp__reason_raise(REASON_FILE_CHANGED,
                            "the file was overwritten after its descriptor was read; try again");
  /* Plugins stay mapped for ever: the handle is not kept because it is never closed. */
  int is_memory;
  *library = bp__elf_load(name, 0, &is_memory);
  if (!*library)
    return explain_dlopen(plugin, name, is_memory);
  plugin->is_mapped = 1;
  int is_same = is_mapped_from(*library, plugin->fd);
  if (is_same < 0)
    return bp__reason_raise(REASON_RESOURCES, "it cannot be compared with the checked file: %s",
                            strerror(errno));
  if (!is_same)
    return bp__reason_raise(REASON_FILE_CHANGED,
                            "the loader gave another file than the one that was checked; was "
                            "descriptor %d of this process closed?",
                            plugin->fd);
  if (!is_unwritten(plugin))
    return bp__reason_raise(REASON_FILE_CHANGED,
                            "the file was overwritten while it was loaded; replace plugins by "
                            "renaming, as packages do, and start the program again");
  return 0;
}

BpPluginEntry bp__plugin_load(Plugin *plugin) {
  void *library = NULL;
  if (map(plugin, &library))
    return NULL;
  void *symbol = dlsym(library, plugin->descriptor.entry);
  if (!symbol) {
    bp__reason_raise(REASON_ENTRY_MISSING,
                     "it does not export its entry point %s; this is a defect of the plugin",
                     plugin->descriptor.entry);
    return NULL;
  }
  BpPluginEntry entry;
  memcpy(&entry, &symbol, sizeof entry);
  return entry;
}
