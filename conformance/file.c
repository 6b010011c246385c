/* SPDX-License-Identifier: Apache-2.0 */
/* Section plugin: requirements that a process makes of the plugin's file. The dynamic loader
 * accepts the file, so its tables are where its headers say. */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "conformance/kit.h"

typedef struct File {
  char *data;
  gsize size;
} File;

/* Reads the plugin's file. The check is skipped if the plugin is linked in or on another
 * machine. */
static File open_file(const Kit *kit) {
  File file = {NULL, 0};
  if (!kit->info || !*kit->info->path)
    bp__kit_skip("the plugin is linked into the program");
  if (g_str_has_prefix(kit->info->path, "remote:"))
    bp__kit_skip("the plugin is on another machine");
  KIT_TRUE(g_file_get_contents(kit->info->path, &file.data, &file.size, NULL) &&
               file.size >= sizeof(ElfW(Ehdr)),
           "%s cannot be read", kit->info->path);
  return file;
}

static const ElfW(Ehdr) * header_of(const File *file) {
  return (const void *)file->data;
}

/* Returns the first section of a type, or NULL. */
static const ElfW(Shdr) * find_section(const File *file, uint32_t type) {
  const ElfW(Ehdr) *header = header_of(file);
  for (int i = 0; i < header->e_shnum; i++) {
    const ElfW(Shdr) *section =
        (const void *)(file->data + header->e_shoff + (size_t)i * header->e_shentsize);
    if (section->sh_type == type)
      return section;
  }
  return NULL;
}

/* Returns the string table that a section links to. */
static const char *strings_of(const File *file, const ElfW(Shdr) * section) {
  const ElfW(Ehdr) *header = header_of(file);
  const ElfW(Shdr) *strings =
      (const void *)(file->data + header->e_shoff + (size_t)section->sh_link * header->e_shentsize);
  return file->data + strings->sh_offset;
}

/* A symbol of a plugin would hide another library's symbol of the same name. C++ shares symbols in
 * the whole process, which are weak or unique, and allowed. */
static void run_exports(Kit *kit) {
  File file = open_file(kit);
  const ElfW(Shdr) *section = find_section(&file, SHT_DYNSYM);
  if (!section)
    bp__kit_skip("the file has no sections");
  const ElfW(Sym) *symbols = (const void *)(file.data + section->sh_offset);
  for (size_t i = 0; i < section->sh_size / sizeof *symbols; i++) {
    const char *name = strings_of(&file, section) + symbols[i].st_name;
    gboolean is_exported = symbols[i].st_shndx != SHN_UNDEF &&
                           ELF32_ST_BIND(symbols[i].st_info) == STB_GLOBAL &&
                           ELF32_ST_VISIBILITY(symbols[i].st_other) != STV_HIDDEN;
    KIT_TRUE(!is_exported || g_str_has_prefix(name, "bp_plugin_entry_"),
             "the file exports %s; its entry point is all that it is to export "
             "(-fvisibility=hidden)",
             name);
  }
  g_free(file.data);
}

/* A writable and executable stack is refused: the loader would make the stacks of the whole process
 * executable, or refuse the plugin. */
static void run_stack(Kit *kit) {
  File file = open_file(kit);
  const ElfW(Ehdr) *header = header_of(&file);
  for (int i = 0; i < header->e_phnum; i++) {
    const ElfW(Phdr) *segment =
        (const void *)(file.data + header->e_phoff + (size_t)i * header->e_phentsize);
    KIT_TRUE(segment->p_type != PT_GNU_STACK || !(segment->p_flags & PF_X),
             "the file asks for an executable stack: link it with -z noexecstack, and end each "
             "source in assembly with .section .note.GNU-stack");
  }
  g_free(file.data);
}

/* A user who can write to a folder of the library search path can run code in the process. */
static void expect_safe_folder(const char *folder) {
  struct stat status;
  KIT_TRUE(*folder == '/' || g_str_has_prefix(folder, "$ORIGIN") ||
               g_str_has_prefix(folder, "${ORIGIN}"),
           "the file has libraries looked for in \"%s\" (RUNPATH), relative to the current folder",
           folder);
  KIT_TRUE(stat(folder, &status) != 0 || !(status.st_mode & S_IWOTH),
           "the file has libraries looked for in %s (RUNPATH), to which everybody writes", folder);
}

static void run_paths(Kit *kit) {
  File file = open_file(kit);
  const ElfW(Shdr) *section = find_section(&file, SHT_DYNAMIC);
  if (!section)
    bp__kit_skip("the file has no sections");
  const ElfW(Dyn) *entries = (const void *)(file.data + section->sh_offset);
  for (size_t i = 0; i < section->sh_size / sizeof *entries; i++) {
    if (entries[i].d_tag != DT_RPATH && entries[i].d_tag != DT_RUNPATH)
      continue;
    char **folders = g_strsplit(strings_of(&file, section) + entries[i].d_un.d_val, ":", -1);
    for (char **folder = folders; *folder; folder++)
      expect_safe_folder(*folder);
    g_strfreev(folders);
  }
  g_free(file.data);
}

static const Check checks[] = {
    {"plugin.exports", "the file exports its entry point alone", "plugin.activate", CHECK_OPTIONAL,
     run_exports},
    {"plugin.stack", "the file does not ask for an executable stack", "plugin.activate",
     CHECK_OPTIONAL, run_stack},
    {"plugin.paths", "libraries are looked for only in folders that others cannot write to",
     "plugin.activate", CHECK_OPTIONAL, run_paths},
};

const Section bp__kit_file_section = {"plugin", 0, checks, G_N_ELEMENTS(checks)};
