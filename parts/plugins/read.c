/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one plugin file into a record, and loads exactly the file that was read.
 *
 * The file is opened, compared with the file whose descriptor was read, and mapped through its
 * entry in /proc, so changing the path in between has no effect. The dynamic loader identifies
 * libraries by that name, and no two plugins have the same. The descriptor of an active plugin
 * stays open, so that debuggers find the file. In case other code closed the descriptor, the mapped
 * file is compared with it. */

#include "parts/plugins/trial.h"
#include "core/system/elf.h"
#include "core/system/file.h"
#include "core/system/trust.h"

#include <backplane/error.h>
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

void bp__plugin_reject(Plugin *plugin, int32_t state) {
  const char *message = bp_error_message();
  free(plugin->reason);
  plugin->reason = g_strdup(*message ? message : "it failed without saying why");
  plugin->code = bp__reason_take(REASON_INITIALIZE_FAILED);
  plugin->state = state;
  bp_error_clear();
}

/* Loading a plugin runs its code: a setuid program refuses a file that other users may change. */
static int check_trust(const Plugin *plugin) {
  if (!bp__is_privileged() || !plugin->warning)
    return 0;
  return bp__reason_raise(REASON_PATH_REFUSED,
                          "%s, and this program runs with more rights than its user",
                          plugin->warning);
}

/* ---- Notes ------------------------------------------------------------------------------- */

#define NOTES_MAX (1u << 20)

typedef struct Wanted {
  const char *owner;
  uint32_t type;
  size_t max_size;
  char **text;
  size_t *size;
} Wanted;

static BpElfFault copy_body(const Wanted *wanted, const char *body, size_t size) {
  *wanted->size = size;
  if (!size || size > wanted->max_size)
    return BP_ELF_MALFORMED;
  *wanted->text = malloc(size);
  if (!*wanted->text) {
    errno = ENOMEM;
    return BP_ELF_UNREADABLE;
  }
  memcpy(*wanted->text, body, size);
  return BP_ELF_OK;
}

/* Searches for the first note with the owner and type. */
static BpElfFault search_notes(Elf_Data *data, const Wanted *wanted) {
  size_t length = strlen(wanted->owner) + 1, at = 0, name, body;
  GElf_Nhdr note;
  while (at + sizeof note <= data->d_size) {
    at = gelf_getnote(data, at, &note, &name, &body);
    if (!at)
      return BP_ELF_MALFORMED;
    const char *bytes = data->d_buf;
    if (note.n_type == wanted->type && note.n_namesz == length &&
        !memcmp(bytes + name, wanted->owner, length))
      return copy_body(wanted, bytes + body, note.n_descsz);
  }
  return BP_ELF_OK;
}

static BpElfFault search_segment(Elf *elf, const GElf_Phdr *segment, const Wanted *wanted) {
  errno = 0;
  Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)segment->p_offset, segment->p_filesz,
                                        segment->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
  return data ? search_notes(data, wanted) : bp__elf_explain_failure();
}

/* Copies the body of the first note of `owner` and `type` (transfer full, free): *text is NULL if
 * the file has no note of that owner and type. A body of more than `max_size` bytes, or an empty
 * one, is BP_ELF_MALFORMED with *size. At most 1 MiB of a file's notes are read. */
static BpElfFault find_note(Elf *elf, const char *owner, uint32_t type, size_t max_size,
                            char **text, size_t *size) {
  const Wanted wanted = {owner, type, max_size, text, size};
  size_t count = 0;
  uint64_t left = NOTES_MAX;
  GElf_Phdr segment;
  BpElfFault fault = BP_ELF_OK;
  *text = NULL;
  *size = 0;
  elf_getphdrnum(elf, &count);
  for (size_t i = 0; i < count && !*text && !fault; ++i) {
    if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_NOTE || !segment.p_filesz)
      continue;
    if (segment.p_filesz > left)
      return BP_ELF_MALFORMED;
    left -= segment.p_filesz;
    fault = search_segment(elf, &segment, &wanted);
  }
  return fault;
}

/* ---- Records ----------------------------------------------------------------------------- */

static Reason reason_of(BpElfFault fault) {
  static const Reason reasons[] = {
      [BP_ELF_NOT_ELF] = REASON_FILE_NOT_ELF,
      [BP_ELF_OTHER_MACHINE] = REASON_OTHER_ARCHITECTURE,
      [BP_ELF_NOT_SHARED] = REASON_FILE_NOT_SHARED,
      [BP_ELF_MALFORMED] = REASON_FILE_MALFORMED,
      [BP_ELF_TRUNCATED] = REASON_FILE_TRUNCATED,
  };
  if (fault == BP_ELF_UNREADABLE)
    return bp__errno_passes(errno) ? REASON_RESOURCES : REASON_FILE_UNREADABLE;
  return reasons[fault];
}

static int raise_fault(BpElfFault fault) {
  const char *cause = fault == BP_ELF_UNREADABLE ? strerror(errno) : "";
  return bp__reason_raise(reason_of(fault), "%s%s%s", bp__elf_describe(fault), *cause ? ": " : "",
                          cause);
}

/* Returns the descriptor's text (transfer full, free), NULL if there is none. */
static int read_note(int fd, const Plugin *plugin, char **text, size_t *size) {
  BpElfFault fault;
  *size = 0;
  Elf *elf = bp__elf_open(fd, (uint64_t)plugin->status.st_size, &fault);
  if (elf)
    fault =
        find_note(elf, BP_PLUGIN_NOTE_OWNER, BP_PLUGIN_NOTE_TYPE, BP_DESCRIPTOR_MAX, text, size);
  elf_end(elf);
  if (fault == BP_ELF_MALFORMED && *size)
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                            "has a descriptor of %zu bytes; 1 to %d are allowed", *size,
                            BP_DESCRIPTOR_MAX);
  return fault ? raise_fault(fault) : 0;
}

static int read_descriptor(int fd, Plugin *plugin) {
  if (!S_ISREG(plugin->status.st_mode))
    return bp__reason_raise(REASON_FILE_NOT_REGULAR, "is not a regular file");
  if (check_trust(plugin))
    return -1;
  char *text = NULL;
  size_t size;
  if (read_note(fd, plugin, &text, &size))
    return -1;
  if (!text)
    return bp__reason_raise(REASON_DESCRIPTOR_MISSING,
                            "has no Backplane descriptor: it is no plugin");
  int rc = bp__descriptor_parse(&plugin->descriptor, text, size);
  free(text);
  return rc;
}

Plugin *bp__plugin_create(const char *path) {
  Plugin *plugin = g_new0(Plugin, 1);
  plugin->path = g_strdup(path);
  bp__descriptor_clear(&plugin->descriptor);
  plugin->state = BP_PLUGIN_FOUND;
  plugin->fd = -1;
  return plugin;
}

/* Says how other users may change the file: the file itself, a directory above it, or, if it is a
 * link, the path that the link leads to. */
static char *find_problem(int directory, const char *name, const Plugin *plugin,
                          const char *directory_problem) {
  struct stat link;
  int is_link = !fstatat(directory, name, &link, AT_SYMLINK_NOFOLLOW) && S_ISLNK(link.st_mode);
  if (is_link || bp__others_may_write(plugin->path, -1, &plugin->status)) {
    char *problem = bp__path_problem(plugin->path);
    if (problem)
      return problem;
  }
  return g_strdup(directory_problem);
}

static int raise_unreadable(void) {
  if (!errno)
    return bp__reason_raise(REASON_FILE_NOT_REGULAR, "is not a regular file");
  int is_missing = errno == ENOENT || errno == ELOOP;
  return bp__reason_raise(is_missing                ? REASON_FILE_MISSING
                          : bp__errno_passes(errno) ? REASON_RESOURCES
                                                    : REASON_FILE_UNREADABLE,
                          "cannot be opened: %s", strerror(errno));
}

int bp__errno_passes(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN || error == EINTR;
}

int bp__plugin_is_unread(const Plugin *plugin) {
  return plugin->state == BP_PLUGIN_REJECTED &&
         (plugin->code == REASON_RESOURCES || plugin->code == REASON_FILE_UNREADABLE);
}

Plugin *bp__plugin_read(int directory, const char *name, const char *path,
                        const char *directory_problem) {
  Plugin *plugin = bp__plugin_create(path);
  int fd = bp__file_open(directory, name, &plugin->status);
  int rc = fd < 0 ? raise_unreadable() : 0;
  if (!rc) {
    plugin->warning = find_problem(directory, name, plugin, directory_problem);
    rc = read_descriptor(fd, plugin);
    close(fd);
  }
  if (rc)
    bp__plugin_reject(plugin, BP_PLUGIN_REJECTED);
  return plugin;
}

Plugin *bp__plugin_read_open(int fd, const char *path) {
  Plugin *plugin = bp__plugin_create(path);
  plugin->fd = fd;
  if (fstat(fd, &plugin->status))
    raise_unreadable();
  else if (!read_descriptor(fd, plugin))
    return plugin;
  bp__plugin_reject(plugin, BP_PLUGIN_REJECTED);
  return plugin;
}

void bp__plugin_free(Plugin *plugin) {
  if (!plugin)
    return;
  bp__descriptor_clear(&plugin->descriptor);
  if (plugin->fd >= 0)
    close(plugin->fd);
  free(plugin->reason);
  free(plugin->warning);
  free(plugin->path);
  free(plugin);
}

int bp__plugin_is_file(const Plugin *plugin, const struct stat *status) {
  const struct stat *own = &plugin->status;
  return own->st_dev == status->st_dev && own->st_ino == status->st_ino &&
         own->st_size == status->st_size && own->st_mtim.tv_sec == status->st_mtim.tv_sec &&
         own->st_mtim.tv_nsec == status->st_mtim.tv_nsec &&
         own->st_ctim.tv_sec == status->st_ctim.tv_sec &&
         own->st_ctim.tv_nsec == status->st_ctim.tv_nsec;
}

/* ---- Opening again ----------------------------------------------------------------------- */

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

int bp__plugin_is_unwritten(const Plugin *plugin) {
  struct stat status;
  if (fstat(plugin->fd, &status))
    return -1;
  return status.st_size == plugin->status.st_size &&
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

/* Checks that the open file was not written. `rest` ends the error's sentence: when the file was
 * overwritten, and what to do. */
static int check_unwritten(const Plugin *plugin, const char *rest) {
  int is_unwritten = bp__plugin_is_unwritten(plugin);
  if (is_unwritten < 0)
    return bp__reason_raise(REASON_RESOURCES, "it cannot be compared with the checked file: %s",
                            strerror(errno));
  if (!is_unwritten)
    return bp__reason_raise(REASON_FILE_CHANGED, "the file was overwritten %s", rest);
  return 0;
}

/* Maps the file; -1 with an error. */
static int map(Plugin *plugin, void **library) {
  char name[BP_FD_PATH_SIZE];
  if (bp__fd_path(plugin->fd, name))
    return bp__reason_raise(REASON_PROC_MISSING,
                            "it cannot be loaded: /proc is not mounted, or not that of this "
                            "process (%s)",
                            strerror(errno));
  if (check_unwritten(plugin, "after its descriptor was read; try again"))
    return -1;
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
  return check_unwritten(plugin,
                         "while it was loaded; replace plugins by renaming, as packages do, "
                         "and start the program again");
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
