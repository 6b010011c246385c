/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a session's arena that are memory of its devices. */
#include "worker.h"

#include <stdlib.h>

/* Returns the index of a handle, or of the place where it belongs. */
static size_t place_of(const BpShares *shares, uint64_t handle) {
  size_t from = 0, to = shares->count;
  while (from < to) {
    size_t middle = (from + to) / 2;
    if (shares->items[middle].handle < handle)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

static BpShare *find(const BpShares *shares, uint64_t handle) {
  size_t at = place_of(shares, handle);
  return at < shares->count && shares->items[at].handle == handle ? &shares->items[at] : NULL;
}

static int32_t insert(BpShares *shares, BpShare share) {
  if (shares->count == shares->capacity) {
    size_t capacity = shares->capacity ? 2 * shares->capacity : 64;
    BpShare *items = realloc(shares->items, capacity * sizeof *items);
    if (!items)
      return -1;
    shares->items = items;
    shares->capacity = capacity;
  }
  BpShare *at = shares->items + place_of(shares, share.handle);
  memmove(at + 1, at, (size_t)(shares->items + shares->count - at) * sizeof *at);
  *at = share;
  shares->count++;
  return 0;
}

int32_t bp_shares_add(BpShares *shares, BpShare share) {
  pthread_mutex_lock(&shares->lock);
  int is_sound = share.size <= shares->size && share.from <= shares->size - share.size &&
                 !find(shares, share.handle);
  int32_t rc = is_sound ? insert(shares, share) : 1;
  pthread_mutex_unlock(&shares->lock);
  return rc < 0 ? bp_plugin_raise(&bp_worker_host, BP_ERROR_MEMORY,
                                  "no memory for the list of a worker's shared memory")
                : rc;
}

int32_t bp_shares_find(BpShares *shares, uint64_t handle, BpShare *share) {
  pthread_mutex_lock(&shares->lock);
  const BpShare *found = find(shares, handle);
  if (found)
    *share = *found;
  pthread_mutex_unlock(&shares->lock);
  return found != NULL;
}

int32_t bp_shares_remove(BpShares *shares, uint64_t handle, BpShare *share) {
  pthread_mutex_lock(&shares->lock);
  BpShare *found = find(shares, handle);
  if (found) {
    *share = *found;
    memmove(found, found + 1, (size_t)(shares->items + --shares->count - found) * sizeof *found);
  }
  pthread_mutex_unlock(&shares->lock);
  return found != NULL;
}

void bp_shares_clear(BpShares *shares) {
  pthread_mutex_lock(&shares->lock);
  free(shares->items);
  shares->items = NULL;
  shares->memory = NULL;
  shares->size = shares->count = shares->capacity = 0;
  pthread_mutex_unlock(&shares->lock);
}
