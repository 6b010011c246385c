/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of the layer validate: the finding, and the caller's stack frames. */
#include "validate.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most stack frames of the caller that a report names. */
#define MOST_NAMED 5

void bp_validate_place_here(BpValidatePlace *place) {
  place->count = backtrace(place->frames, BP_VALIDATE_FRAMES);
}

static const char *base_name(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path ? path : "?";
}

static void append(char *text, size_t size, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s", more);
}

static void append_frame(char *text, size_t size, const Dl_info *where, const char *address) {
  char frame[256];
  if (where->dli_sname)
    snprintf(frame, sizeof frame, "%s+%#zx in %s", where->dli_sname,
             (size_t)(address - (const char *)where->dli_saddr), base_name(where->dli_fname));
  else
    snprintf(frame, sizeof frame, "%s+%#zx", base_name(where->dli_fname),
             (size_t)(address - (const char *)where->dli_fbase));
  if (*text)
    append(text, size, " < ");
  append(text, size, frame);
}

void bp_validate_place_format(const BpValidatePlace *place, char *text, size_t size) {
  Dl_info own = {0}, where;
  int named = 0;
  *text = '\0';
  dladdr(__extension__(const void *) bp_validate_place_format, &own);
  for (int i = 0; i < place->count && named < MOST_NAMED; i++) {
    if (!dladdr(place->frames[i], &where) || where.dli_fbase == own.dli_fbase)
      continue;
    append_frame(text, size, &where, place->frames[i]);
    named++;
  }
  if (!*text)
    append(text, size, "unknown");
}

int32_t bp_validate_find(const BpDeviceApi *device, const BpCall *call, const char *kind,
                         const char *format, ...) {
  char what[512], caller[768], where[96];
  BpValidatePlace place;
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  bp_validate_place_here(&place);
  bp_validate_place_format(&place, caller, sizeof caller);
  if (call->device_id >= 0)
    snprintf(where, sizeof where, "%s:%d", device->name, call->device_id);
  else
    snprintf(where, sizeof where, "%s", device->name);
  return bp_plugin_raise(&bp_layers_host, kind, "validate: %s: %s: %s (called by %s)", where,
                         bp_layers_slot_name(call->slot), what, caller);
}
