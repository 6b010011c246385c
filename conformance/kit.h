/* SPDX-License-Identifier: Apache-2.0 */
/* For the conformance kit: the form of a check, and tools for checks.
 *
 * A check is a function that returns if its fact holds, and otherwise ends in bp__kit_fail. A check
 * runs in a child process that lives until a check fails: a failing check need not clean up, and a
 * crash or a missed deadline is a failure. */
#ifndef BACKPLANE_CONFORMANCE_KIT_H
#define BACKPLANE_CONFORMANCE_KIT_H

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/device_extensions.h>
#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <backplane/plugins.h>
#include <backplane/target.h>
#include <glib.h>

/* ---- Checks ------------------------------------------------------------------------------ */

#define CHECK_CORE        1u  /* every plugin must pass the check: it cannot be declined */
#define CHECK_OPTIONAL    2u  /* about a feature that a device may lack */
#define CHECK_STRESS      4u  /* much work, memory or many threads */
#define CHECK_FAULT       8u  /* behaviour after a failure */
#define CHECK_PERFORMANCE 16u /* speed: times are compared within the run */

/* Needs of the checks of a section. */
#define NEEDS_DEVICE         1u /* the plugin provides a kind of device */
#define NEEDS_TARGET         2u /* the plugin provides a target kind, and generates code for it */
#define NEEDS_GRAPH_COMPILER 4u /* the plugin provides a graph compiler */
#define NEEDS_OPERATORS      8u /* the plugin provides single operators */

typedef struct Kit Kit;

typedef struct Check {
  const char *name;  /* "copy.offsets"; permanent */
  const char *shows; /* the fact that the check shows, one line */
  const char
      *after; /* names of the check's prerequisites, space-separated: all come before the check */
  unsigned tags; /* CHECK_CORE or CHECK_OPTIONAL, and further CHECK_* bits */
  void (*run)(Kit *kit);
} Check;

typedef struct Section {
  const char *name;
  unsigned needs; /* NEEDS_* */
  const Check *checks;
  size_t num_checks;
} Section;

/* All sections. No section depends on a later section. */
extern const Section *const bp__kit_sections[];
extern const size_t bp__kit_num_sections;

extern const Section bp__kit_plugin_section, bp__kit_file_section, bp__kit_device_section,
    bp__kit_memory_section, bp__kit_copy_section, bp__kit_used_memory_section,
    bp__kit_module_section, bp__kit_sizes_section, bp__kit_reload_section,
    bp__kit_copy_performance_section, bp__kit_launch_performance_section, bp__kit_stream_section,
    bp__kit_launch_section, bp__kit_codegen_section, bp__kit_types_section,
    bp__kit_intrinsics_section, bp__kit_kernels_section, bp__kit_random_section,
    bp__kit_claims_section, bp__kit_operators_section, bp__kit_fault_section;

/* ---- How a check ends -------------------------------------------------------------------- */

/* Fails the check with a reason. Any thread. */
_Noreturn void bp__kit_fail(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Skips the check: the plugin declares that it does not support the check's subject. A core check
 * cannot be skipped: it fails. Called only in the check's own thread; objects that the check has
 * made live as long as the process. */
_Noreturn void bp__kit_skip(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Ends the check because the machine lacks a requirement, such as a second device. Only in the
 * check's own thread. */
_Noreturn void bp__kit_absent(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Reports that a part of the check is done; each part has the whole time of a check. Any thread. */
void bp__kit_go_on(void);
/* Ends the check, which passes if the process now ends cleanly, by exit(). */
_Noreturn void bp__kit_exit(void);

/* Captures stdout between the two calls. The second call returns the output (transfer full), and
 * also writes it to stderr, so that it is not lost. */
void bp__kit_capture_begin(void);
char *bp__kit_capture_end(void);

/* If the condition is false, the check fails with the message. */
#define KIT_TRUE(condition, ...)                                                                   \
  do {                                                                                             \
    if (!(condition))                                                                              \
      bp__kit_fail(__VA_ARGS__);                                                                   \
  } while (0)

/* If a call, described by `what`, does not return 0, the check fails with its error. */
#define KIT_OK(call, what) bp__kit_expect_ok((call) == 0, what)
void bp__kit_expect_ok(int ok, const char *what);

/* Checks that a call returns -1 with an error of this kind (NULL: any); clears the error. */
#define KIT_REFUSED(call, kind, what) bp__kit_expect_refused((call), kind, what)
void bp__kit_expect_refused(int rc, const char *kind, const char *what);

/* ---- The context of checks --------------------------------------------------------------- */

struct Kit {
  const char *subject; /* name or path from the command line */
  uint64_t seed;
  int32_t device_index;
  const char *target_option; /* NULL: the device's own target */
  const char *folder;        /* the run's folder, which is removed at its end */
  const char *identity;      /* the device's attributes in another process; NULL: none */

  /* The start of the child process sets these members: */
  BpPluginList *plugins;
  const BpPluginInfo *info; /* the plugin's entry in `plugins`; NULL: none */
  char *activation_error;   /* NULL: the plugin is active */
  char *activation_output;  /* output to stdout during activation */
  char **kinds;             /* kinds of device; empty if the plugin provides none */
  char **targets;           /* target kinds */

  /* bp__kit_open_device sets these members: */
  const BpDeviceApi *own; /* the plugin's table itself */
  const BpDeviceApi *api; /* the host's copy, in which missing slots are NULL */
  BpDevice device;

  /* bp__kit_open_target (kernel.h) sets the members from `target` on. With --target the kind of
   * device may differ from that of `device`. */
  BpTarget *target;
  BpDevice target_device;
  const BpDeviceApi *target_api; /* table of target_device; NULL: functions run on the host */
};

/* Finds the plugin's table for its first kind of device. Fails the check if the plugin has no
 * device kind. */
void bp__kit_open_table(Kit *kit);
/* Ends the check in bp__kit_absent if the device to check is missing. */
void bp__kit_require_device(const Kit *kit);
/* Finds the plugin's table and the device to check, which becomes current. */
void bp__kit_open_device(Kit *kit);
/* Returns the recording extension of a device type; skips the check if there is none. */
const BpRecordingApi *bp__kit_recordings(int32_t device_type);
/* Returns the device as text, such as "opencl:0"; static. */
const char *bp__kit_device_text(const Kit *kit);
/* Returns all constant attributes of a device, one a line (transfer full). NULL with an error. */
char *bp__kit_describe(BpDevice device);
/* Reads an int attribute; returns `otherwise` if the attribute is None. */
int64_t bp__kit_int_attr(const Kit *kit, int32_t attr, int64_t otherwise);

/* Returns `size` bytes of zeroed memory, at most a page, before an unmapped page: reading beyond
 * the end crashes. Never freed. */
void *bp__kit_at_end_of_memory(size_t size);

/* Fills memory with bytes that depend on the seed and on their position. */
void bp__kit_fill(void *data, size_t size, uint64_t seed);

#define KIT_HOST    ((BpDevice){BP_DEVICE_CPU, 0})
#define KIT_BYTE    ((BpDataType){BP_DTYPE_UINT, 8, 1})
#define KIT_INT32   ((BpDataType){BP_DTYPE_INT, 32, 1})
#define KIT_FLOAT32 ((BpDataType){BP_DTYPE_FLOAT, 32, 1})

/* Allocates data space of the device; valid until bp__kit_free. */
void *bp__kit_alloc(const Kit *kit, uint64_t size);
void bp__kit_free(const Kit *kit, void *handle);
/* Returns the size of a piece such that `count` pieces take at most half of the free memory: 256
 * KiB, or a smaller power of two on a device with little memory. */
size_t bp__kit_piece(const Kit *kit, int count);
/* Returns a size, and how often to allocate it to reach twice the device's memory. A device with
 * more than 8 GiB gets only a few rounds, which cannot exhaust it. */
typedef struct KitTurnover {
  uint64_t chunk;
  int rounds;
} KitTurnover;
KitTurnover bp__kit_turnover(BpDevice device);
/* Queue copies on the stream. */
void bp__kit_upload(const Kit *kit, const void *from, void *to, uint64_t offset, uint64_t size,
                    void *stream);
void bp__kit_download(const Kit *kit, const void *from, uint64_t offset, void *to, uint64_t size,
                      void *stream);
void bp__kit_copy(const Kit *kit, const void *from, uint64_t from_offset, void *to,
                  uint64_t to_offset, uint64_t size, void *stream);
void bp__kit_sync(const Kit *kit, void *stream);
/* Does the work several times. The check fails if every repetition leaves threads, open
 * descriptors, or at least `bytes` bytes of the heap behind: a pool may grow, but must stop
 * growing. */
void bp__kit_expect_no_leak(void (*work)(void *data), void *data, gint64 bytes, const char *what);
/* Limits the process to `spare` more bytes of address space, until the limit is removed.
 * bp__kit_absent if that is impossible. */
void bp__kit_limit_memory(size_t spare);
void bp__kit_unlimit_memory(void);
/* Fails the check if the bytes differ from the expected bytes; the message says where `what`
 * differs first. */
void bp__kit_expect_bytes(const void *got, const void *expected, size_t size, const char *what);

#endif
