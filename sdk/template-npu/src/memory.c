/* SPDX-License-Identifier: Apache-2.0 */
/* The chip's memory: allocations of lines, and copies. A handle is a number, not an address: using
 * it as an address faults at once, and using it after freeing is an error. */
#include "simdev.h"

#include <backplane/handle_table.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An allocated block of memory, in a list by address. */
typedef struct Block {
  struct Block *next;
  int32_t address, size; /* whole lines */
  uint64_t wanted;       /* bytes that were requested */
} Block;

pthread_mutex_t simdev_lock = PTHREAD_MUTEX_INITIALIZER;
static BpHandleTable buffers;
static Block *blocks;
static int64_t in_use;

/* ---- Allocation -------------------------------------------------------------------------- */

static int64_t align(int64_t number, int64_t unit) {
  return (number + unit - 1) / unit * unit;
}

/* Allocates the first gap that is large enough; NULL with an error. */
static Block *take(uint64_t wanted, uint64_t alignment) {
  Block *block = bp_plugin_calloc(&simdev_host, sizeof *block), **at = &blocks;
  if (!block)
    return NULL;
  if (wanted <= CHIP_MEMORY) {
    int64_t unit = alignment > CHIP_LINE ? (int64_t)alignment : CHIP_LINE, address = 0;
    int64_t size = wanted ? align((int64_t)wanted, CHIP_LINE) : CHIP_LINE;
    for (; *at && (*at)->address < address + size; at = &(*at)->next)
      address = align((*at)->address + (*at)->size, unit);
    if (address + size <= CHIP_MEMORY) {
      *block = (Block){*at, (int32_t)address, (int32_t)size, wanted};
      *at = block;
      in_use += size;
      return block;
    }
  }
  free(block);
  bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY,
                  "simdev:0: no room for %" PRIu64 " bytes: %" PRId64 " of %d are in use", wanted,
                  in_use, CHIP_MEMORY);
  return NULL;
}

static void give_back(const Block *block) {
  for (Block **at = &blocks; *at; at = &(*at)->next)
    if (*at == block) {
      Block *found = *at;
      *at = found->next;
      in_use -= found->size;
      free(found);
      return;
    }
}

int32_t simdev_alloc(void *context, int32_t device_id, const BpAllocation *allocation,
                     void **handle) {
  (void)context;
  (void)device_id;
  *handle = NULL;
  if (bp_plugin_check_allocation(&simdev_host, "simdev", allocation))
    return -1;
  pthread_mutex_lock(&simdev_lock);
  Block *block = take(allocation->size, allocation->alignment);
  if (block) {
    *handle = bp_handle_add(&buffers, block);
    if (!*handle) {
      give_back(block);
      bp_plugin_raise(&simdev_host, BP_ERROR_MEMORY, "simdev:0: no host memory for a handle");
    }
  }
  pthread_mutex_unlock(&simdev_lock);
  return *handle ? 0 : -1;
}

/* Returns the block of a handle; NULL with an error. */
static Block *find_block(const void *handle) {
  Block *block = bp_handle_get(&buffers, handle);
  if (!block)
    bp_plugin_raise(&simdev_host, BP_ERROR_VALUE, "%p is no handle of memory on simdev:0", handle);
  return block;
}

/* The chip has done all requested work, so no work uses the memory any more. */
int32_t simdev_free(void *context, int32_t device_id, void *handle) {
  (void)context;
  (void)device_id;
  pthread_mutex_lock(&simdev_lock);
  Block *block = find_block(handle);
  int32_t status = block ? 0 : -1;
  if (block) {
    bp_handle_remove(&buffers, handle);
    give_back(block);
  }
  pthread_mutex_unlock(&simdev_lock);
  return status;
}

int32_t simdev_find(const void *handle, uint64_t offset, uint64_t size) {
  const Block *block = find_block(handle);
  if (!block)
    return -1;
  if (offset > block->wanted || size > block->wanted - offset)
    return bp_plugin_raise(&simdev_host, BP_ERROR_INDEX,
                           "%" PRIu64 " bytes from %" PRIu64 " on do not lie in %" PRIu64, size,
                           offset, block->wanted);
  return block->address + (int32_t)offset;
}

int32_t simdev_reserve(int64_t size) {
  const Block *block = take((uint64_t)size, CHIP_LINE);
  return block ? block->address : -1;
}

void simdev_release(int32_t address) {
  for (const Block *block = blocks; block; block = block->next)
    if (block->address == address) {
      give_back(block);
      return;
    }
}

int64_t simdev_memory_in_use(void) {
  pthread_mutex_lock(&simdev_lock);
  int64_t size = in_use;
  pthread_mutex_unlock(&simdev_lock);
  return size;
}

/* ---- Copies ------------------------------------------------------------------------------ */

/* The lines that contain a range of the chip's memory. */
typedef struct Lines {
  int32_t address, size;
  int32_t before; /* bytes of the first line that are before the range */
} Lines;

static Lines lines_of(int32_t address, int64_t size) {
  int32_t first = address / CHIP_LINE * CHIP_LINE;
  return (Lines){first, (int32_t)align(address + size - first, CHIP_LINE), address - first};
}

/* DMA moves whole lines: the first and the last line are read, changed and written. */
static int32_t upload(int32_t address, const void *from, uint64_t size) {
  Lines lines = lines_of(address, (int64_t)size);
  int32_t last = lines.size - CHIP_LINE;
  char *staged = bp_plugin_calloc(&simdev_host, (size_t)lines.size);
  int32_t status = staged ? 0 : -1;
  if (!status && lines.before)
    status = simdev_link_read(lines.address, staged, CHIP_LINE);
  if (!status && (lines.before + size) % CHIP_LINE && (last > 0 || !lines.before))
    status = simdev_link_read(lines.address + last, staged + last, CHIP_LINE);
  if (!status) {
    memcpy(staged + lines.before, from, size);
    status = simdev_link_write(lines.address, staged, lines.size);
  }
  free(staged);
  return status;
}

static int32_t download(int32_t address, void *to, uint64_t size) {
  Lines lines = lines_of(address, (int64_t)size);
  char *staged = bp_plugin_calloc(&simdev_host, (size_t)lines.size);
  int32_t status = staged ? simdev_link_read(lines.address, staged, lines.size) : -1;
  if (!status)
    memcpy(to, staged + lines.before, size);
  free(staged);
  return status;
}

static int32_t copy_within(int32_t from, int32_t to, uint64_t size) {
  char *staged = bp_plugin_calloc(&simdev_host, size);
  int32_t status = staged ? download(from, staged, size) : -1;
  if (!status)
    status = upload(to, staged, size);
  free(staged);
  return status;
}

/* Copies at once: the chip has one queue, which is empty between calls. */
int32_t simdev_copy(void *context, const BpCopy *copy, void *stream) {
  int is_upload = copy->from_device.device_type != SIMDEV_DEVICE_TYPE;
  int is_download = copy->to_device.device_type != SIMDEV_DEVICE_TYPE;
  int32_t from = 0, to = 0, status;
  (void)context;
  (void)stream;
  if (bp_plugin_check_flags(&simdev_host, "simdev", "copy", copy->flags) != 0)
    return -1;
  pthread_mutex_lock(&simdev_lock);
  if (!is_upload)
    from = simdev_find(copy->from, copy->from_offset, copy->size);
  if (!is_download && from >= 0)
    to = simdev_find(copy->to, copy->to_offset, copy->size);
  if (from < 0 || to < 0)
    status = -1;
  else if (is_upload)
    status = upload(to, (const char *)copy->from + copy->from_offset, copy->size);
  else if (is_download)
    status = download(from, (char *)copy->to + copy->to_offset, copy->size);
  else
    status = copy_within(from, to, copy->size);
  pthread_mutex_unlock(&simdev_lock);
  return status;
}
