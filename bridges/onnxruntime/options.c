/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a session: ONNX Runtime stores a provider's options as entries "ep.NAME.KEY" of
 * the session's configuration. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/cache.h>
#include <backplane/object.h>

#include "bridges/onnxruntime/bridge.h"

#define PREFIX "ep." EP_NAME "."

#define KNOWN "device, target, threads, cache, claim, graph_compilers"

static int read_threads(const char *value) {
  char *end;
  errno = 0;
  long count = strtol(value, &end, 10);
  if (errno || end == value || *end || count < 1 || count > 1024)
    return bp_error_raise(BP_ERROR_VALUE, "option threads is '%s'; it is a number from 1 to 1024",
                          value);
  return bp_threads_set((int32_t)count);
}

static int read_claim(const char *value, Options *options) {
  options->claims_all = !strcmp(value, "all");
  if (options->claims_all || !strcmp(value, "paying"))
    return 0;
  return bp_error_raise(
      BP_ERROR_VALUE,
      "option claim is '%s'; it is \"paying\" (parts that become faster) or \"all\" "
      "(every part that can be compiled)",
      value);
}

/* If a graph compiler of the list does not exist, its parts are not claimed, and ONNX Runtime only
 * warns. So the names are checked when the session is made. */
static int check_compiler(const char *name) {
  char registered[256];
  BpFunction *function = NULL;
  snprintf(registered, sizeof registered, "graph_compiler.%s", name);
  if (bp_registry_get(registered, &function))
    return -1;
  if (!function)
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "option graph_compilers names '%s', and no installed plugin has a graph "
                          "compiler of that name",
                          name);
  bp_object_release(function);
  return 0;
}

static int read_compilers(const char *value, Options *options) {
  char *rest;
  free(options->names);
  options->num_graph_compilers = 0;
  options->names = strdup(value);
  if (!options->names)
    return bp_error_raise(BP_ERROR_MEMORY, "no memory for the options of a session");
  for (char *name = strtok_r(options->names, ", ", &rest); name;
       name = strtok_r(NULL, ", ", &rest)) {
    if (options->num_graph_compilers == MAX_GRAPH_COMPILERS)
      return bp_error_raise(BP_ERROR_VALUE, "option graph_compilers names more than %d",
                            MAX_GRAPH_COMPILERS);
    if (check_compiler(name))
      return -1;
    options->graph_compilers[options->num_graph_compilers++] = name;
  }
  return 0;
}

static int read_own(const char *key, const char *value, Options *options) {
  if (!strcmp(key, "device"))
    options->device = *value ? value : NULL;
  else if (!strcmp(key, "target"))
    options->target = *value ? value : NULL;
  else if (!strcmp(key, "threads"))
    return read_threads(value);
  else if (!strcmp(key, "cache"))
    return bp_cache_set_folder(value);
  else if (!strcmp(key, "claim"))
    return read_claim(value, options);
  else if (!strcmp(key, "graph_compilers"))
    return read_compilers(value, options);
  else
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "the provider " EP_NAME " has no option '%s'; it has: " KNOWN, key);
  return 0;
}

static bool is_set(const char *value) {
  return !strcmp(value, "1");
}

int options_read(const Runtime *ort, const OrtSessionOptions *session, Options *options) {
  const char *const *keys, *const *values;
  size_t count;
  *options = (Options){0};
  if (bridge_check(ort, ort->api->GetSessionOptionsConfigEntries(session, &options->pairs)))
    return -1;
  ort->api->GetKeyValuePairs(options->pairs, &keys, &values, &count);
  for (size_t i = 0; i < count; i++) {
    if (!strncmp(keys[i], PREFIX, strlen(PREFIX))) {
      if (read_own(keys[i] + strlen(PREFIX), values[i], options))
        return -1;
    } else if (!strcmp(keys[i], "session.disable_cpu_ep_fallback"))
      options->is_strict = is_set(values[i]);
    else if (!strcmp(keys[i], "ep.context_enable"))
      options->makes_contexts = is_set(values[i]);
  }
  options->claims_all |= options->is_strict;
  return 0;
}

void options_free(const Runtime *ort, Options *options) {
  if (options->pairs)
    ort->api->ReleaseKeyValuePairs(options->pairs);
  free(options->names);
  *options = (Options){0};
}
