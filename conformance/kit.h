/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the conformance kit: what a check is, and what checks have to work with.
 *
 * A check is a function that returns if what it shows holds, and else ends in bp__kit_fail. It runs
 * in a child process that lives until a check fails: nothing needs to be cleaned up on failure, a
 * crash is a failure, and so is taking longer than the deadline. */
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

#define CHECK_CORE        1u  /* every plugin passes it: it cannot be declined */
#define CHECK_OPTIONAL    2u  /* of something that a device may lack */
#define CHECK_STRESS      4u  /* much work, memory or many threads */
#define CHECK_FAULT       8u  /* behaviour when something is wrong */
#define CHECK_PERFORMANCE 16u /* not absurdly slow, in comparison with itself */

/* What the checks of a section need of a plugin. */
#define NEEDS_DEVICE 1u /* it provides a kind of device */
#define NEEDS_TARGET 2u /* it provides a target kind */

typedef struct Kit Kit;

typedef struct Check {
  const char *name;  /* "copy.offsets"; permanent */
  const char *shows; /* what holds if it passes, one line */
  const char
      *after;    /* names of the checks that it builds on, space-separated: all come before it */
  unsigned tags; /* CHECK_CORE or CHECK_OPTIONAL, and others */
  void (*run)(Kit *kit);
} Check;

typedef struct Section {
  const char *name;
  unsigned needs; /* NEEDS_* */
  const Check *checks;
  size_t num_checks;
} Section;

/* All sections, in an order in which nothing depends on what comes later. */
extern const Section *const bp__kit_sections[];
extern const size_t bp__kit_num_sections;

extern const Section bp__kit_plugin_section, bp__kit_file_section, bp__kit_device_section,
    bp__kit_memory_section, bp__kit_copy_section, bp__kit_used_memory_section,
    bp__kit_module_section, bp__kit_sizes_section, bp__kit_reload_section,
    bp__kit_copy_performance_section, bp__kit_launch_performance_section, bp__kit_stream_section,
    bp__kit_launch_section, bp__kit_codegen_section, bp__kit_types_section,
    bp__kit_intrinsics_section, bp__kit_kernels_section, bp__kit_random_section,
    bp__kit_fault_section;

/* ---- How a check ends -------------------------------------------------------------------- */

/* The check failed, for this reason. Any thread. */
_Noreturn void bp__kit_fail(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* The plugin declares not to support what the check is about. A core check that says so fails. Only
 * in the check's own thread; what it has made lives as long as the process. */
_Noreturn void bp__kit_skip(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* What the check needs is not on this machine: a device, a second one. Only in its own thread. */
_Noreturn void bp__kit_absent(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* A part of the check is done, and each has the whole time of a check. Any thread. */
void bp__kit_go_on(void);
/* Passes if the process now ends cleanly, by exit(). */
_Noreturn void bp__kit_exit(void);

/* Between these two what is written to stdout is kept; the second returns it (transfer full), and
 * writes it to stderr, where it is not lost. */
void bp__kit_capture_begin(void);
char *bp__kit_capture_end(void);

/* The condition holds, or the check fails with the message. */
#define KIT_TRUE(condition, ...)                                                                   \
  do {                                                                                             \
    if (!(condition))                                                                              \
      bp__kit_fail(__VA_ARGS__);                                                                   \
  } while (0)

/* A call, which is named by `what`, returns 0, or the check fails with its error. */
#define KIT_OK(call, what) bp__kit_expect_ok((call) == 0, what)
void bp__kit_expect_ok(int ok, const char *what);

/* A call returns -1 with an error of this kind (NULL: any), which is cleared. */
#define KIT_REFUSED(call, kind, what) bp__kit_expect_refused((call), kind, what)
void bp__kit_expect_refused(int rc, const char *kind, const char *what);

/* ---- What checks work with --------------------------------------------------------------- */

struct Kit {
  const char *subject; /* name or path as given */
  uint64_t seed;
  int32_t device_index;
  const char *target_option; /* NULL: the device's own */
  const char *folder;        /* for files of the run, which are removed with it */
  const char *identity;      /* what another process was told of the device; NULL: nothing */

  /* Filled in when the child starts. */
  BpPluginList *plugins;
  const BpPluginInfo *info; /* of `plugins`; NULL: no such plugin */
  char *activation_error;   /* NULL: it is active */
  char *activation_output;  /* what was meanwhile written to stdout */
  char **kinds;             /* of devices; empty if it provides none */
  char **targets;           /* target kinds */

  /* Filled in by bp__kit_open_device. */
  const BpDeviceApi *own; /* the plugin's table itself */
  const BpDeviceApi *api; /* the host's copy: what is absent is NULL there */
  BpDevice device;

  /* Filled in by bp__kit_open_target (kernel.h). With --target it may be another kind of device
   * than the one above. */
  BpTarget *target;
  BpDevice target_device;
  const BpDeviceApi *target_api; /* as `api`; NULL: functions run on the host, without a device */
};

/* Finds the plugin's table for its first kind of device. Fails the check if there is none. */
void bp__kit_open_table(Kit *kit);
/* The device that is checked is there, or the check ends in bp__kit_absent. */
void bp__kit_require_device(const Kit *kit);
/* Finds the table, and the device that is checked, which becomes current. */
void bp__kit_open_device(Kit *kit);
/* The extension of devices of a type that records; ends the check as skipped if there is none. */
const BpRecordingApi *bp__kit_recordings(int32_t device_type);
/* The device's text, as "opencl:0"; static. */
const char *bp__kit_device_text(const Kit *kit);
/* All attributes of a device that do not change, a line each (transfer full). NULL with an error.
 */
char *bp__kit_describe(BpDevice device);
/* Reads an attribute of type int; `otherwise` if it is None. */
int64_t bp__kit_int_attr(const Kit *kit, int32_t attr, int64_t otherwise);

/* Fills memory with bytes that depend on the seed and on where they are. */
void bp__kit_fill(void *data, size_t size, uint64_t seed);

#define KIT_HOST    ((BpDevice){BP_DEVICE_CPU, 0})
#define KIT_BYTE    ((BpDataType){BP_DTYPE_UINT, 8, 1})
#define KIT_INT32   ((BpDataType){BP_DTYPE_INT, 32, 1})
#define KIT_FLOAT32 ((BpDataType){BP_DTYPE_FLOAT, 32, 1})

/* Data space of the device; it lives until bp__kit_free. */
void *bp__kit_alloc(const Kit *kit, uint64_t size);
void bp__kit_free(const Kit *kit, void *handle);
/* Bytes of a piece, `count` of which take up at most half of the free memory: 256 KiB, or a smaller
 * power of two on a device that has little. */
size_t bp__kit_piece(const Kit *kit, int count);
/* A size and how often to allocate it for twice the device's memory to be had in all, or 16 GiB. */
typedef struct KitTurnover {
  uint64_t chunk;
  int rounds;
} KitTurnover;
KitTurnover bp__kit_turnover(BpDevice device);
/* Copies, queued on the stream. */
void bp__kit_upload(const Kit *kit, const void *from, void *to, uint64_t offset, uint64_t size,
                    void *stream);
void bp__kit_download(const Kit *kit, const void *from, uint64_t offset, void *to, uint64_t size,
                      void *stream);
void bp__kit_copy(const Kit *kit, const void *from, uint64_t from_offset, void *to,
                  uint64_t to_offset, uint64_t size, void *stream);
void bp__kit_sync(const Kit *kit, void *stream);
/* Does the work several times. The check fails if after the first time each one leaves threads or
 * open descriptors, or at least so many bytes of the heap, behind: a pool grows, and stops. */
void bp__kit_expect_no_leak(void (*work)(void *data), void *data, gint64 bytes, const char *what);
/* Leaves the process at most so many more bytes of address space, until it is to have them all
 * again. The check ends in bp__kit_absent where that cannot be. */
void bp__kit_limit_memory(size_t spare);
void bp__kit_unlimit_memory(void);
/* The bytes are as expected, or the check fails and says where `what` differs first. */
void bp__kit_expect_bytes(const void *got, const void *expected, size_t size, const char *what);

#endif
