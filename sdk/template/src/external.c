/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is imported and exported. The device works directly in imported host memory, and
 * copies that hand the memory over are work of the stream. Exported memory is a memory file, mapped
 * once for each handle. A device whose driver can do neither omits the extension. */
#include "simdev.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int32_t get_forms(void *context, int32_t device_id, uint64_t *imports, uint64_t *exports,
                         uint64_t *alignment) {
  (void)context;
  (void)device_id;
  *imports = BP_EXTERNAL_HOST_POINTER | BP_EXTERNAL_OPAQUE_FD | BP_EXTERNAL_IN_TURN;
  *exports = BP_EXTERNAL_OPAQUE_FD;
  *alignment = SIMDEV_ALIGNMENT;
  return 0;
}

static int32_t refuse(const BpExternalMemory *memory) {
  return bp_plugin_raise(&simdev_host, BP_ERROR_NOT_IMPLEMENTED,
                         "simdev exchanges no memory of form %u in this direction", memory->form);
}

static void unmap(void *memory, uint64_t size) {
  munmap(memory, size);
}

/* Maps a file of `size` bytes. NULL with an error. */
static void *map(int fd, uint64_t size) {
  struct stat about;
  if (fstat(fd, &about) || !S_ISREG(about.st_mode) || (uint64_t)about.st_size != size) {
    bp_plugin_raise(&simdev_host, BP_ERROR_VALUE,
                    "simdev: descriptor %d is no memory of %llu bytes that simdev exported", fd,
                    (unsigned long long)size);
    return NULL;
  }
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED)
    return memory;
  bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY, "simdev: mmap: %s", strerror(errno));
  return NULL;
}

static int32_t import_pointer(int32_t device_id, const BpExternalMemory *memory, void **handle) {
  if (!memory->address || (uintptr_t)memory->address % SIMDEV_ALIGNMENT)
    return bp_plugin_raise(&simdev_host, BP_ERROR_VALUE,
                           "simdev: the address %p is no multiple of %d", memory->address,
                           SIMDEV_ALIGNMENT);
  *handle = simdev_add(device_id, memory->address, memory->size, 0, NULL);
  return *handle ? 0 : -1;
}

static int32_t import_memory(void *context, int32_t device_id, const BpExternalMemory *memory,
                             void **handle) {
  (void)context;
  if (bp_plugin_check_flags(&simdev_host, "simdev", "memory import", memory->flags) != 0)
    return -1;
  if (memory->size == 0)
    return bp_plugin_raise(&simdev_host, BP_ERROR_VALUE, "simdev: an import of 0 bytes");
  if (memory->form == BP_EXTERNAL_HOST_POINTER)
    return import_pointer(device_id, memory, handle);
  if (memory->form != BP_EXTERNAL_OPAQUE_FD)
    return refuse(memory);
  void *mapped = map(memory->fd, memory->size);
  *handle = mapped ? simdev_add(device_id, mapped, memory->size, 0, unmap) : NULL;
  return *handle ? 0 : -1;
}

/* An allocation of size 0 exports one page. */
static int32_t export_memory(void *context, int32_t device_id, const BpAllocation *allocation,
                             BpExternalMemory *memory, void **handle) {
  (void)context;
  const uint64_t page = 4096, size = allocation->size;
  if (bp_plugin_check_allocation(&simdev_host, "simdev", allocation) ||
      bp_plugin_check_flags(&simdev_host, "simdev", "memory export", memory->flags))
    return -1;
  if (memory->form != BP_EXTERNAL_OPAQUE_FD)
    return refuse(memory);
  if (size > SIMDEV_MEMORY)
    return bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY, "simdev: %llu bytes",
                           (unsigned long long)size);
  memory->size = size ? (size + page - 1) / page * page : page;
  int fd = memfd_create("simdev", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)memory->size)) {
    bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY, "simdev: memfd_create: %s", strerror(errno));
    if (fd >= 0)
      close(fd);
    return -1;
  }
  void *mapped = map(fd, memory->size);
  *handle = mapped ? simdev_add(device_id, mapped, memory->size, memory->size, unmap) : NULL;
  if (!*handle) {
    close(fd);
    return -1;
  }
  memory->fd = fd;
  return 0;
}

const BpExternalMemoryApi simdev_external_memory = {.struct_size = sizeof(BpExternalMemoryApi),
                                                    .get_forms = get_forms,
                                                    .import_memory = import_memory,
                                                    .export_memory = export_memory};
