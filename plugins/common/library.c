/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor's library, opened at run time by its names, and its functions, found by a table of
 * symbols; and options that are on or off. */
#include "common.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *open_any(const char *const *names, size_t count) {
  void *opened = NULL;
  for (size_t i = 0; !opened && i < count && names[i]; i++)
    opened = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return opened;
}

const char *bp_library_refuse(BpLibrary *library, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(library->problem, sizeof(library->problem), format, args);
  va_end(args);
  return library->problem;
}

/* If the user named the library in a variable, the message says to correct that variable. */
const char *bp_library_open(const BpPluginTables *host, BpLibrary *library) {
  const char *path = host->runtime->get_option(library->option);
  void *opened = path ? open_any(&path, 1) : open_any(library->names, 2);
  if (!opened && path)
    return bp_library_refuse(library,
                             "%s that %s=%.200s names cannot be opened (%s); correct or "
                             "unset that variable",
                             library->what, library->option, path, dlerror());
  if (!opened)
    return bp_library_refuse(library, "%s cannot be opened (%s); %s", library->what, dlerror(),
                             library->install);
  for (size_t i = 0; i < library->num_symbols; i++) {
    const BpLibrarySymbol *symbol = &library->symbols[i];
    *symbol->place = dlsym(opened, symbol->name);
    if (!*symbol->place && path)
      return bp_library_refuse(library,
                               "%s that %s=%.200s names lacks %s; correct or unset that "
                               "variable",
                               library->what, library->option, path, symbol->name);
    if (!*symbol->place)
      return bp_library_refuse(library, "%s lacks %s; %s", library->what, symbol->name,
                               library->upgrade);
  }
  return NULL;
}

int bp_option_is_on(const BpPluginTables *host, const char *option, int otherwise) {
  const char *text = host->runtime->get_option(option);
  int is_known = !text || !strcmp(text, "0") || !strcmp(text, "1");
  if (!is_known)
    bp_plugin_log(host, BP_LOG_WARNING, "%s is \"%.40s\", neither 0 nor 1; ignored", option, text);
  return text && is_known ? *text == '1' : otherwise;
}
