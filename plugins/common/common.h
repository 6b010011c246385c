/* SPDX-License-Identifier: Apache-2.0 */
/* Code that the plugins for GPUs share; each is built with its own copy.
 *
 * library.c  a vendor's library, opened at run time
 * devices.c  the list of the vendor's devices
 * language.c the emitter's languages, for a target's features
 * argument.c arguments of launches and copies
 * poll.c     waiting with a timeout
 * text.c     text for messages
 *
 * event.h is for the plugins whose events hold their latest record, cuda_api.h for cuda and
 * cudalibs. */
#ifndef BP_PLUGINS_COMMON_H
#define BP_PLUGINS_COMMON_H

#include <backplane/kernel_helpers.h>
#include <pthread.h>

/* ---- library.c --------------------------------------------------------------------------- */

/* A function of a library, and the place to store its address. */
typedef struct BpLibrarySymbol {
  const char *name;
  void **place;
} BpLibrarySymbol;

/* A library that is opened when it is first needed, so that the plugin loads without it. */
typedef struct BpLibrary {
  const char *option;   /* the BACKPLANE_* variable that names another library */
  const char *names[2]; /* names of the library: the first that exists is opened */
  const char *what;     /* "the OpenCL library" */
  const char *install;  /* what to do if there is no library */
  const char *upgrade;  /* what to do if the library lacks a function */
  const BpLibrarySymbol *symbols;
  size_t num_symbols;
  char problem[768];
} BpLibrary;

/* Opens the library, for ever, and finds its functions. Returns NULL, or `problem` with the reason
 * and what to do. Called once, by one thread. */
const char *bp_library_open(const BpPluginTables *host, BpLibrary *library);
/* Writes to `problem` why the library cannot be used; returns `problem`. */
__attribute__((format(printf, 2, 3))) const char *bp_library_refuse(BpLibrary *library,
                                                                    const char *format, ...);

/* Returns whether a BACKPLANE_* variable switches an option on: "1" or "0". Returns `otherwise` if
 * the variable is unset or has another value, which is logged. */
int bp_option_is_on(const BpPluginTables *host, const char *option, int otherwise);

/* ---- devices.c --------------------------------------------------------------------------- */

/* A plugin's list of devices. */
typedef struct BpDeviceList {
  const BpPluginTables *host;
  const BpDeviceApi *api;
  /* Finds the devices, once, and sets the members below. A function that uses the vendor's library
   * calls bp_device_list_watch_forks(). */
  void (*find)(void);
  pthread_once_t once;
  int32_t count;
  const char *why; /* why there are no devices; static, or NULL */
} BpDeviceList;

/* The slot get_device_count. Any thread, as for the functions below. */
int32_t bp_device_list_count(BpDeviceList *list, int32_t *count, const char **why);
/* Raises an error unless a device with that number exists and this process found it. */
int32_t bp_device_list_check(BpDeviceList *list, int32_t device_id);
/* Makes child processes from now on recognise that they are forks. */
void bp_device_list_watch_forks(void);
/* Whether this is the child of a process that had used the devices, which do not survive a fork. */
int bp_device_list_is_forked(void);

/* Whether a device is open; its first use opens it. All members zero except the lock. */
typedef struct BpDeviceOpening {
  pthread_mutex_t lock;
  int32_t is_open; /* atomic */
} BpDeviceOpening;

/* Calls `open`, in one thread at a time, unless it succeeded before; 0, or -1 with its error. */
int32_t bp_device_open_once(BpDeviceOpening *opening, int32_t (*open)(void *device), void *device);
int bp_device_is_open(const BpDeviceOpening *opening);

/* ---- language.c -------------------------------------------------------------------------- */

#define BP_LANGUAGE_MOST_TYPES 32

/* A dialect whose table of types may be changed. The structure contains pointers to itself and must
 * not be copied. */
typedef struct BpLanguage {
  BpDialect dialect;
  BpDialectType types[BP_LANGUAGE_MOST_TYPES];
} BpLanguage;

/* Copies a built-in dialect. 0, or -1 with an error. */
int32_t bp_language_copy(const BpPluginTables *host, const BpEmitterTable *emitter,
                         const char *name, BpLanguage *language);
/* Makes float16 a type of the language, in which generated code computes. `half` replaces the row
 * of float16, if there is one. */
void bp_language_add_halves(BpLanguage *language, const BpDialectType *half);

/* ---- argument.c -------------------------------------------------------------------------- */

/* For handles that are not addresses: raises an error unless a tensor begins at a permitted offset
 * and ends inside of its buffer of `size` bytes. */
int32_t bp_argument_check_part(const BpPluginTables *host, const BpKernel *kernel, int32_t i,
                               const BpKernelBuffer *given, uint64_t alignment, uint64_t size);
/* Raises an error if source and destination of a copy within a device overlap. */
int32_t bp_argument_check_overlap(const BpPluginTables *host, const BpDeviceApi *api,
                                  const BpCopy *copy);

/* ---- poll.c ------------------------------------------------------------------------------ */

/* Asks again and again, with pauses of up to half a millisecond, until *state is not 0, or `ask`
 * fails, or the time has passed; once at least. 0, or -1 with the error of `ask`. */
int32_t bp_poll(int32_t (*ask)(void *data, int32_t *state), void *data, uint64_t timeout_ns,
                int32_t *state);

/* ---- text.c ------------------------------------------------------------------------------ */

#define BP_UUID_TEXT 37

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx". */
void bp_uuid_format(const uint8_t uuid[16], char text[BP_UUID_TEXT]);

/* The lines `first` to `last` of a source, counted from 1, each after its number (free); NULL: out
 * of memory. */
char *bp_source_lines(const char *source, long first, long last);

#endif
