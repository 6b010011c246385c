/* SPDX-License-Identifier: Apache-2.0 */
/* The layer fault: fails the calls that BACKPLANE_FAULT names.
 *
 * A slot that frees, ends or waits for something does so before it fails: the caller could not
 * repeat the call, and the test is how the caller handles the error. A slot that frees, ends
 * and waits for nothing fails without being called. */
#include "layers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "BACKPLANE_FAULT"

/* An entry of BACKPLANE_FAULT. */
typedef struct Fault {
  struct Fault *next;
  BpSlot slot;
  uint64_t number; /* the number of the call that fails, from 1 */
  int is_every;    /* calls whose number is a multiple fail, too */
  atomic_ullong calls;
} Fault;

typedef struct State {
  const BpDeviceApi *device;
  Fault *faults;
} State;

/* ---- The list ---------------------------------------------------------------------------- */

static int32_t raise_unknown_slot(const char *name, size_t length) {
  char list[1024];
  size_t used = 0;
  for (int slot = 0; slot < NUM_SLOTS; slot++) {
    const char *text = bp_layers_slot_name((BpSlot)slot);
    size_t size = strlen(text);
    if (used + size + 3 > sizeof list)
      break;
    if (used)
      list[used++] = ' ';
    memcpy(list + used, text, size);
    used += size;
  }
  list[used] = '\0';
  return bp_plugin_raise(&bp_layers_host, BP_ERROR_VALUE,
                         VARIABLE ": no slot is called \"%.*s\"; there are: %s", (int)length, name,
                         list);
}

static int32_t raise_malformed(const char *entry, size_t length) {
  return bp_plugin_raise(&bp_layers_host, BP_ERROR_VALUE,
                         VARIABLE ": \"%.*s\" is no fault; one is written SLOT:N or SLOT:N:every, "
                                  "N from 1 on, as in alloc_data_space:3",
                         (int)length, entry);
}

static int find_slot(const char *name, size_t length) {
  for (int slot = 0; slot < NUM_SLOTS; slot++) {
    const char *text = bp_layers_slot_name((BpSlot)slot);
    if (strlen(text) == length && !memcmp(text, name, length))
      return slot;
  }
  return -1;
}

/* Parses an entry of `length` bytes: SLOT:N or SLOT:N:every. */
static int32_t read_fault(const char *entry, size_t length, Fault *fault) {
  const char *colon = memchr(entry, ':', length), *end = entry + length;
  int slot = colon ? find_slot(entry, (size_t)(colon - entry)) : 0;
  char *rest = NULL;
  if (!colon)
    return raise_malformed(entry, length);
  if (slot < 0)
    return raise_unknown_slot(entry, (size_t)(colon - entry));
  fault->slot = (BpSlot)slot;
  if (colon + 1 < end && colon[1] >= '1' && colon[1] <= '9')
    fault->number = strtoull(colon + 1, &rest, 10);
  if (rest && end - rest == 6 && !memcmp(rest, ":every", 6)) {
    fault->is_every = 1;
    rest += 6;
  }
  return rest == end ? 0 : raise_malformed(entry, length);
}

static void free_faults(Fault *faults) {
  while (faults) {
    Fault *next = faults->next;
    free(faults);
    faults = next;
  }
}

static int32_t read_list(const char *list, Fault **faults) {
  while (*list) {
    size_t length = strcspn(list, ",");
    Fault *fault = bp_plugin_calloc(&bp_layers_host, sizeof *fault);
    if (!fault || read_fault(list, length, fault)) {
      free(fault);
      return -1;
    }
    fault->next = *faults;
    *faults = fault;
    list += length + (list[length] == ',');
  }
  return 0;
}

static void *create(const BpDeviceApi *next) {
  const char *list = bp_layers_host.runtime->get_option(VARIABLE);
  Fault *faults = NULL;
  if (!list) {
    bp_plugin_raise(&bp_layers_host, BP_ERROR_VALUE,
                    VARIABLE " is not set; say which call is to fail, as in alloc_data_space:3");
    return NULL;
  }
  int32_t rc = read_list(list, &faults);
  State *state = rc ? NULL : bp_plugin_calloc(&bp_layers_host, sizeof *state);
  if (state)
    *state = (State){next, faults};
  else
    free_faults(faults);
  return state;
}

/* ---- Failing ----------------------------------------------------------------------------- */

/* Counts a call. Returns the number of the call if the call must fail, else 0. */
static uint64_t count_call(State *state, BpSlot slot) {
  uint64_t hit = 0;
  for (Fault *fault = state->faults; fault; fault = fault->next) {
    if (fault->slot != slot)
      continue;
    uint64_t call = atomic_fetch_add(&fault->calls, 1) + 1;
    if (fault->is_every ? call % fault->number == 0 : call == fault->number)
      hit = call;
  }
  return hit;
}

static int is_done_first(BpSlot slot) {
  switch (slot) {
  case SLOT_FREE_DATA_SPACE:
  case SLOT_FREE_WORKSPACE:
  case SLOT_FREE_STREAM:
  case SLOT_STREAM_SYNC:
  case SLOT_TIMER_FREE:
  case SLOT_RECORDING_END:
  case SLOT_RECORDING_FREE:
  case SLOT_EVENTS_FREE:
  case SLOT_EVENTS_SYNCHRONIZE:
  case SLOT_EVENTS_SIGNAL:
    return 1;
  default:
    return 0;
  }
}

static int32_t fail(const State *state, const BpCall *call, uint64_t number) {
  int is_memory = call->slot == SLOT_ALLOC_DATA_SPACE || call->slot == SLOT_ALLOC_WORKSPACE ||
                  call->slot == SLOT_EVENTS_CREATE ||
                  call->slot == SLOT_EXTERNAL_MEMORY_IMPORT_MEMORY ||
                  call->slot == SLOT_EXTERNAL_MEMORY_EXPORT_MEMORY;
  return bp_plugin_raise(&bp_layers_host, is_memory ? BP_ERROR_MEMORY : BP_ERROR_DEVICE,
                         "fault: %s: %s fails in its call %llu, as " VARIABLE " asks",
                         state->device->name, bp_layers_slot_name(call->slot),
                         (unsigned long long)number);
}

static int32_t before(void *context, BpCall *call) {
  State *state = context;
  uint64_t number = count_call(state, call->slot);
  call->began = (int64_t)number;
  return number && !is_done_first(call->slot) ? fail(state, call, number) : 0;
}

static int32_t after(void *context, BpCall *call, int32_t rc) {
  const State *state = context;
  return call->began && !rc ? fail(state, call, (uint64_t)call->began) : rc;
}

const BpLayerHooks bp_layers_fault = {.create = create, .before = before, .after = after};
