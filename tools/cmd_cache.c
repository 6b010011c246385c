/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane cache`: shows the cache of compiled code and its size, and clears it. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/cache.h>

typedef struct CacheReport {
  char *folder;
  uint64_t files, bytes;                 /* files in the cache */
  uint64_t removed_files, removed_bytes; /* removed by `clear` */
  gboolean clears;
} CacheReport;

static void print_text(const CacheReport *report) {
  char *size = size_to_text(report->bytes), *removed = size_to_text(report->removed_bytes);
  if (report->clears)
    command_print_line(command_out(),
                       "%s: removed %" G_GUINT64_FORMAT " file%s of %s; %" G_GUINT64_FORMAT
                       " that were used in the last minute stay",
                       report->folder, (guint64)report->removed_files,
                       report->removed_files == 1 ? "" : "s", removed, (guint64)report->files);
  else
    command_print_line(command_out(), "%s: %s in %" G_GUINT64_FORMAT " file%s", report->folder,
                       size, (guint64)report->files, report->files == 1 ? "" : "s");
  g_free(removed);
  g_free(size);
}

static void print_json(const CacheReport *report) {
  json_t *root = json_object();
  json_add_str(root, "folder", report->folder);
  json_add_int(root, "files", (gint64)report->files);
  json_add_int(root, "bytes", (gint64)report->bytes);
  if (report->clears) {
    json_add_int(root, "removed_files", (gint64)report->removed_files);
    json_add_int(root, "removed_bytes", (gint64)report->removed_bytes);
  }
  command_print_json(root);
}

static int report_cache(const char *what, gboolean json) {
  CacheReport report = {.folder = bp_cache_folder(), .clears = strcmp(what, "clear") == 0};
  int status = report.folder ? EXIT_OK : -1;
  if (status == 0 && report.clears)
    status = bp_cache_clear(&report.removed_files, &report.removed_bytes);
  if (status == 0)
    status = bp_cache_measure(&report.files, &report.bytes);
  if (status < 0)
    status = command_fail(json);
  else if (json)
    print_json(&report);
  else if (strcmp(what, "path") == 0)
    command_print_line(command_out(), "%s", report.folder);
  else
    print_text(&report);
  bp_str_free(report.folder);
  return status;
}

int cmd_cache(int argc, char **argv) {
  static const char *const words[] = {"size", "path", "clear", NULL};
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &json, "machine-readable output", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  if (!command_parse(
          &argc, &argv, entries, "size|path|clear",
          "Prints the size or the folder of the cache of compiled code, or clears the cache.",
          "Files used in the last minute stay: another program may be about to open "
          "them.\nBACKPLANE_CACHE_SIZE limits the cache at any time."))
    return EXIT_USAGE;
  if (argc != 2 || !g_strv_contains(words, argv[1]))
    return command_usage_error("cache takes one word: size, path or clear");
  return report_cache(argv[1], json);
}
