/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugins for GPUs have in common; each is built with a copy of its own.
 *
 * library.c  a vendor's library, opened at run time
 * devices.c  the devices that there are
 * language.c the emitter's languages, as a target has them
 * argument.c arguments of launches and copies
 * text.c     what messages show */
#ifndef BP_PLUGINS_COMMON_H
#define BP_PLUGINS_COMMON_H

#include <backplane/kernel_helpers.h>
#include <pthread.h>

/* ---- library.c --------------------------------------------------------------------------- */

/* A function of a library, and where its address goes. */
typedef struct BpLibrarySymbol {
  const char *name;
  void **place;
} BpLibrarySymbol;

/* A library that is opened when it is first needed, so that the plugin loads without it. */
typedef struct BpLibrary {
  const char *option;   /* the BACKPLANE_* variable that names another one */
  const char *names[2]; /* the first of them that is there is taken */
  const char *what;     /* "the OpenCL library" */
  const char *install;  /* what to do where there is none */
  const char *upgrade;  /* what to do where it lacks a function */
  const BpLibrarySymbol *symbols;
  size_t num_symbols;
  char problem[768];
} BpLibrary;

/* Opens it and finds its functions, for good. NULL, or `problem`: why that failed and what to do.
 * One thread, once. */
const char *bp_library_open(const BpPluginTables *host, BpLibrary *library);
/* Says in `problem` why the library is of no use; returns it. */
__attribute__((format(printf, 2, 3))) const char *bp_library_refuse(BpLibrary *library,
                                                                    const char *format, ...);

/* Whether an option, a BACKPLANE_* variable, is on: "1" or "0"; `otherwise` where it is unset, or
 * something else, which the log is told. */
int bp_option_is_on(const BpPluginTables *host, const char *option, int otherwise);

/* ---- devices.c --------------------------------------------------------------------------- */

/* What a plugin knows of its devices. */
typedef struct BpDeviceList {
  const BpPluginTables *host;
  const BpDeviceApi *api;
  /* Looks for them, once, and sets what follows. It calls bp_device_list_watch_forks() if it used
   * the vendor's library. */
  void (*find)(void);
  pthread_once_t once;
  int32_t count;
  const char *why; /* there are none; static, or NULL */
} BpDeviceList;

/* The slot get_device_count. Any thread, as all that follows. */
int32_t bp_device_list_count(BpDeviceList *list, int32_t *count, const char **why);
/* Raises an error unless there is a device of that number and this is the process that found it. */
int32_t bp_device_list_check(BpDeviceList *list, int32_t device_id);
/* From now on children of this process are told apart. */
void bp_device_list_watch_forks(void);
/* Whether this is a child of a process that had used the devices, which does not survive that. */
int bp_device_list_is_forked(void);

/* Whether a device is open, which it becomes with its first use. Zeroed but for its lock. */
typedef struct BpDeviceOpening {
  pthread_mutex_t lock;
  int32_t is_open; /* atomic */
} BpDeviceOpening;

/* Calls `open`, in one thread at a time, unless it succeeded before; 0, or -1 with its error. */
int32_t bp_device_open_once(BpDeviceOpening *opening, int32_t (*open)(void *device), void *device);
int bp_device_is_open(const BpDeviceOpening *opening);

/* ---- language.c -------------------------------------------------------------------------- */

#define BP_LANGUAGE_MOST_TYPES 32

/* A dialect whose table of types may be changed. It refers to itself: it is not to be copied. */
typedef struct BpLanguage {
  BpDialect dialect;
  BpDialectType types[BP_LANGUAGE_MOST_TYPES];
} BpLanguage;

/* A copy of a built-in dialect; 0, or -1 with an error. */
int32_t bp_language_copy(const BpPluginTables *host, const BpEmitterTable *emitter,
                         const char *name, BpLanguage *language);
/* Halves are a type of the language, in which it computes: `half` takes the place of the row of
 * that type, if there is one. */
void bp_language_add_halves(BpLanguage *language, const BpDialectType *half);

/* ---- argument.c -------------------------------------------------------------------------- */

/* Where a handle is no address: raises an error unless a tensor begins where it may, and ends
 * inside of its buffer of `size` bytes. */
int32_t bp_argument_check_part(const BpPluginTables *host, const BpKernel *kernel, int32_t i,
                               const BpKernelBuffer *given, uint64_t alignment, uint64_t size);
/* Raises an error if the ends of a copy within a device overlap. */
int32_t bp_argument_check_overlap(const BpPluginTables *host, const BpDeviceApi *api,
                                  const BpCopy *copy);

/* ---- text.c ------------------------------------------------------------------------------ */

#define BP_UUID_TEXT 37

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx". */
void bp_uuid_format(const uint8_t uuid[16], char text[BP_UUID_TEXT]);

/* The lines of a source from one to another, counted from 1, each after its number (free); NULL:
 * there is no memory. */
char *bp_source_lines(const char *source, long first, long last);

#endif
