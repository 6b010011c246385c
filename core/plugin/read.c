/* SPDX-License-Identifier: Apache-2.0 */
/* One plugin file: from its descriptor to a record. */

#include "core/plugin/elf_note.h"
#include "core/plugin/store.h"
#include "core/registry/trust.h"

#include <backplane/error.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bp__plugin_reject(Plugin *plugin, int32_t state) {
  const char *message = bp_error_message();
  free(plugin->reason);
  plugin->reason = strdup(*message ? message : "it failed without saying why");
  plugin->state = state;
  bp_error_clear();
}

/* Loading a plugin is running it: in a setuid program nobody else may have a hand in it. */
static int check_trust(const struct stat *status) {
  if (!bp__is_privileged() || !bp__others_may_write(status))
    return 0;
  return bp_error_raise(BP_ERROR_PLUGIN, "others may write to it, and this program runs with more "
                                         "rights than its user");
}

static int read_descriptor(int fd, Plugin *plugin) {
  if (!S_ISREG(plugin->status.st_mode))
    return bp_error_raise(BP_ERROR_FORMAT, "is not a regular file");
  if (check_trust(&plugin->status))
    return -1;
  char *text;
  size_t size;
  if (bp__elf_note_read(fd, (uint64_t)plugin->status.st_size, BP_PLUGIN_NOTE_OWNER,
                        BP_PLUGIN_NOTE_TYPE, BP_DESCRIPTOR_MAX, &text, &size))
    return -1;
  if (!text)
    return bp_error_raise(BP_ERROR_FORMAT, "has no Backplane descriptor: it is no plugin");
  int rc = bp__descriptor_parse(&plugin->descriptor, text, size);
  free(text);
  return rc;
}

static Plugin *create_record(const char *path) {
  Plugin *plugin = calloc(1, sizeof *plugin);
  if (!plugin || !(plugin->path = strdup(path))) {
    free(plugin);
    bp_error_raise(BP_ERROR_MEMORY, "no memory to read plugin %s", path);
    return NULL;
  }
  bp__descriptor_clear(&plugin->descriptor);
  plugin->state = BP_PLUGIN_FOUND;
  return plugin;
}

Plugin *bp__plugin_read(int directory, const char *name, const char *path) {
  /* O_NONBLOCK: a FIFO in the directory must not stop the search. */
  int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (fd < 0 || fstat(fd, &status)) {
    bp_error_raise(BP_ERROR_IO, "cannot open plugin %s: %s", path, strerror(errno));
    if (fd >= 0)
      close(fd);
    return NULL;
  }
  Plugin *plugin = create_record(path);
  if (plugin) {
    plugin->status = status;
    if (read_descriptor(fd, plugin))
      bp__plugin_reject(plugin, BP_PLUGIN_REJECTED);
  }
  close(fd);
  return plugin;
}

void bp__plugin_free(Plugin *plugin) {
  if (!plugin)
    return;
  bp__descriptor_clear(&plugin->descriptor);
  free(plugin->reason);
  free(plugin->path);
  free(plugin);
}

int bp__plugin_is_file(const Plugin *plugin, const struct stat *status) {
  const struct stat *own = &plugin->status;
  return own->st_dev == status->st_dev && own->st_ino == status->st_ino &&
         own->st_size == status->st_size && own->st_mtim.tv_sec == status->st_mtim.tv_sec &&
         own->st_mtim.tv_nsec == status->st_mtim.tv_nsec;
}
