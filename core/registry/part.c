/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the parts of the core. */

#include "core/registry/part.h"

#include "core/system/elf.h"
#include "core/system/file.h"

#include <backplane/error.h>
#include <backplane/version.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Arrays of characters, not pointers, here and in the other tables of the core, need no relocation
 * when the library is loaded. */
static const char files[][24] = {
    [BP_PART_TOOLCHAIN] = "backplane-toolchain.so", [BP_PART_DOCTOR] = "backplane-doctor.so",
    [BP_PART_TRIAL] = "backplane-trial.so",         [BP_PART_TVM] = "backplane-tvm.so",
    [BP_PART_SELECT] = "backplane-select.so",       [BP_PART_TEXT] = "backplane-text.so",
    [BP_PART_LAYERING] = "backplane-layering.so",   [BP_PART_ISOLATION] = "backplane-isolation.so",
    [BP_PART_CACHE] = "backplane-cache.so",         [BP_PART_HINTS] = "backplane-hints.so",
    [BP_PART_EXCHANGE] = "backplane-exchange.so",   [BP_PART_PLUGINS] = "backplane-plugins.so",
    [BP_PART_TARGET] = "backplane-target.so",
};

static _Atomic(const void *) tables[BP_NUM_PARTS];

char *bp__own_library(void) {
  Dl_info self;
  BpMapping mapping;
  if (dladdr(files, &self) && self.dli_fname && *self.dli_fname == '/')
    return strdup(self.dli_fname);
  if (bp__find_mapping(files, &mapping))
    return NULL;
  if (*mapping.path == '/')
    return mapping.path;
  free(mapping.path);
  return NULL;
}

/* Returns the path of the file in the folder of `library`, or in the subfolder in which parts are
 * installed; NULL if neither folder has the file (transfer full). */
static char *find_beside(const char *library, const char *name) {
  g_autofree char *folder = g_path_get_dirname(library);
  g_autofree char *parts = g_path_get_basename(BP_PARTS_DIR);
  const char *const below[] = {"", parts};
  for (size_t i = 0; i < G_N_ELEMENTS(below); i++) {
    char *path = g_build_filename(folder, below[i], name, NULL);
    if (!access(path, R_OK))
      return path;
    g_free(path);
  }
  return NULL;
}

/* Finds a part (transfer full): near this library, as in a build folder or in a moved installation;
 * near the target of a link to this library; else in the installation folder. NULL if memory is
 * exhausted. */
static char *find_file(const char *name) {
  errno = 0;
  char *own = bp__own_library(), *path = own ? find_beside(own, name) : NULL;
  char *real = own && !path ? realpath(own, NULL) : NULL;
  int is_memory = !path && !real && errno == ENOMEM;
  if (real)
    path = find_beside(real, name);
  free(own);
  free(real);
  return path || is_memory ? path : g_build_filename(BP_PARTS_DIR, name, NULL);
}

/* The message names this library: another one may have been found first, in LD_LIBRARY_PATH. */
static const void *refuse(int is_memory, const char *reason) {
  char *own = is_memory ? NULL : bp__own_library();
  if (is_memory)
    bp_error_raise(BP_ERROR_MEMORY,
                   "a part of libbackplane cannot be loaded for want of memory: %s", reason);
  else
    bp_error_raise(BP_ERROR_RUNTIME,
                   "a part of libbackplane cannot be loaded: %s; install all of Backplane %s, to "
                   "which %s belongs",
                   reason, bp_version(), own ? own : "libbackplane");
  free(own);
  return NULL;
}

/* Returns the reason why a library is not the wanted part; NULL if it is. */
static const char *find_fault(const Part *part, PartId id) {
  if (strcmp(part->version, bp_version()))
    return "it is of another version";
  return part->id != (int)id ? "it is another part under this name" : NULL;
}

/* Says why the loader must not open the file (transfer full); NULL if it may. The loader would wait
 * for the writer of a FIFO, and a missing page of a truncated file would kill the process. */
static char *find_damage(const char *path, int *is_memory) {
  struct stat status;
  BpElfFault fault = BP_ELF_UNREADABLE;
  int fd = bp__file_open(AT_FDCWD, path, &status);
  if (fd < 0 && !errno)
    return g_strdup_printf("%s: it is not a regular file", path);
  Elf *elf = fd < 0 ? NULL : bp__elf_open(fd, (uint64_t)status.st_size, &fault);
  int error = errno;
  elf_end(elf);
  if (fd >= 0)
    close(fd);
  *is_memory = fault == BP_ELF_UNREADABLE && error == ENOMEM;
  if (fault == BP_ELF_UNREADABLE)
    return g_strdup_printf("%s: %s", path, g_strerror(error));
  return fault ? g_strdup_printf("%s: it %s", path, bp__elf_describe(fault)) : NULL;
}

/* The loader keeps a library of RTLD_NODELETE even if memory runs out in the middle, and the
 * thread-local variables of such a library are missing for good. So RTLD_NODELETE is set after the
 * library is loaded. If RTLD_NODELETE cannot be set, the library stays loaded, because dlclose
 * would drop the message of dlerror. */
static void *load_for_good(const char *path, int *is_memory) {
  void *library = bp__elf_load(path, 0, is_memory);
  return library ? bp__elf_load(path, RTLD_NODELETE, is_memory) : NULL;
}

static const void *load_file(const char *path, PartId id) {
  int is_memory;
  void *library = load_for_good(path, &is_memory);
  const Part *part = library ? dlsym(library, "bp__part") : NULL;
  const char *reason = part ? find_fault(part, id) : dlerror();
  if (part && !reason)
    return part->table;
  g_autofree char *fault = part ? g_strdup_printf("%s: %s", path, reason) : NULL;
  return refuse(is_memory, fault ? fault : reason ? reason : path);
}

static const void *load(PartId id) {
  int is_memory = 0;
  g_autofree char *path = find_file(files[id]);
  if (!path)
    return refuse(1, files[id]);
  g_autofree char *damage = find_damage(path, &is_memory);
  return damage ? refuse(is_memory, damage) : load_file(path, id);
}

const void *bp__part_loaded(PartId id) {
  return atomic_load(&tables[id]);
}

const void *bp__part_table(PartId id) {
  const void *table = bp__part_loaded(id);
  if (!table && (table = load(id)))
    atomic_store(&tables[id], table);
  return table;
}

const char *bp_version(void) {
  return PACKAGE_VERSION;
}
