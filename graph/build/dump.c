/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the progress of a compilation, and writes the files of the dump directory,
 * DIR/PREFIXNAME; PREFIX names the target. */
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/object.h>

#include "graph/build/build.h"
#include "graph/io/write.h"

static int dump_bytes(const BpBuild *build, const char *name, const char *data, size_t size) {
  if (!build->options->dump_dir)
    return 0;
  g_autofree char *path =
      g_strdup_printf("%s/%s%s", build->options->dump_dir, build->dump_prefix, name);
  return bp__write_file(path, data, size) ? bp_error_add_context("cannot write the dump") : 0;
}

int bp__build_dump(const BpBuild *build, const char *name, const char *text) {
  return dump_bytes(build, name, text, strlen(text));
}

int bp__build_dump_graph(const BpBuild *build, const BpGraph *graph, const char *name) {
  char *text = build->options->dump_dir ? bp__graph_print(graph) : NULL;
  int status = build->options->dump_dir ? (text ? bp__build_dump(build, name, text) : -1) : 0;
  free(text);
  return status;
}

int bp__build_dump_module(const BpBuild *build, const BpIrModule *module) {
  char *text = build->options->dump_dir ? bp_ir_print(module) : NULL;
  int status =
      build->options->dump_dir ? (text ? bp__build_dump(build, "module.ir", text) : -1) : 0;
  bp_str_free(text);
  return status;
}

/* The name of the file for a source: KIND.FORMAT, or KIND.2.FORMAT for the second module of the
 * kind (transfer none). `written` contains the files so far. */
static const char *find_free_file(GHashTable *written, const char *kind, const char *format) {
  char *name = g_strdup_printf("%s.%s", kind, format);
  for (unsigned number = 2; g_hash_table_contains(written, name); number++) {
    g_free(name);
    name = g_strdup_printf("%s.%u.%s", kind, number, format);
  }
  g_hash_table_add(written, name);
  return name;
}

static int dump_source(const BpBuild *build, BpModule *code, GHashTable *written) {
  static const char *const formats[] = {"c", "ll", "cl", "glsl", "cu", ""};
  int status = 0;
  for (size_t i = 0, found = 0; i < G_N_ELEMENTS(formats) && !found; i++) {
    BpOwnedBytes source = {0};
    const char *format = *formats[i] ? formats[i] : "txt";
    found = !bp_module_get_source(code, formats[i], &source) && source.data;
    if (found)
      status = dump_bytes(build, find_free_file(written, bp_module_kind(code), format), source.data,
                          source.size);
    else
      bp_error_clear();
    bp_owned_bytes_clear(&source);
  }
  return status;
}

static int dump_sources(const BpBuild *build, BpModule *code, GHashTable *written) {
  int status = dump_source(build, code, written);
  for (size_t i = 0; i < bp_module_num_imports(code) && !status; i++)
    status = dump_sources(build, bp_module_get_import(code, i), written);
  return status;
}

/* Writes the sources of a module and of its imports, each in the first format of the list that the
 * module supports, or as text. A module that keeps no source has no file. */
int bp__build_dump_sources(const BpBuild *build, BpModule *code) {
  if (!build->options->dump_dir)
    return 0;
  g_autoptr(GHashTable) written = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  return dump_sources(build, code, written);
}

int bp__build_report(const BpBuild *build, const char *stage, int32_t done, int32_t total) {
  const BpCompileOptions *options = build->options;
  if (!options->progress || !options->progress(options->progress_context, stage, done, total))
    return 0;
  return bp_error_raise(BP_ERROR_RUNTIME,
                        "BpCompileOptions::progress cancelled the compilation (%s, %d of %d)",
                        stage, done, total);
}
