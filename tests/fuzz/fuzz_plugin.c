/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: plugin files. An input with the magic number of ELF is the file; any other input is
 * the descriptor in a valid file. Listing the folder of the file ends, and gives a reason for a
 * rejected file. */

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <backplane/plugin.h>
#include <backplane/plugins.h>

#include "tests/fuzz/fuzz.h"

#define START                                                                                      \
  "abi=" BP_ABI_NEEDED_TEXT "\nname=a\nversion=1.0\nlicense=MIT\ndescription=An a\n"               \
  "entry=bp_plugin_entry_a\nprovides=device_api.a\n"
#define FULL                                                                                       \
  START "devices=a:12\ntargets=a\nlibraries=libfoo.so.1|libfoo.so.2 libbar.so\n"                   \
        "package=libfoo1:libfoo.so.1\npriority=20\nnodes=/dev/null*\nfiles=/usr/share/*/x\n"       \
        "variables=FOO\nisa=avx2\nsanitizer=address\n"

static const FuzzSeed pieces[] = {
    FUZZ_TEXT("\n"),
    FUZZ_TEXT("="),
    FUZZ_TEXT("*"),
    FUZZ_TEXT("["),
    FUZZ_TEXT("{a,b}"),
    FUZZ_TEXT("/*/*/*/*"),
    FUZZ_TEXT("nodes="),
    FUZZ_TEXT("files=/"),
    FUZZ_TEXT("isa="),
    FUZZ_TEXT("priority="),
    FUZZ_TEXT("devices="),
    FUZZ_TEXT("libraries="),
    FUZZ_TEXT("package="),
    FUZZ_TEXT("\xc2\x9b"),
    FUZZ_TEXT("\xff"),
    FUZZ_TEXT("|"),
    FUZZ_TEXT("avx512f"),
    FUZZ_TEXT("-1"),
    FUZZ_TEXT("99999999999999999999"),
    FUZZ_TEXT("\xff\xff\xff\xff\xff\xff\xff\xff"),
    FUZZ_TEXT("\0\0\0\0\0\0\0\0"),
};

/* ---- A plugin file of a note alone ------------------------------------------------------- */

typedef struct Head {
  Elf64_Ehdr file;
  Elf64_Phdr note;
  Elf64_Nhdr entry;
  char owner[(sizeof BP_PLUGIN_NOTE_OWNER + 3) / 4 * 4];
} Head;

static GByteArray *make_file(const void *descriptor, size_t size) {
  Head head = {
      .file = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
               .e_type = ET_DYN,
#if defined(__x86_64__)
               .e_machine = EM_X86_64,
#elif defined(__aarch64__)
               .e_machine = EM_AARCH64,
#endif
               .e_version = EV_CURRENT,
               .e_phoff = offsetof(Head, note),
               .e_ehsize = sizeof(Elf64_Ehdr),
               .e_phentsize = sizeof(Elf64_Phdr),
               .e_phnum = 1},
      .note = {.p_type = PT_NOTE,
               .p_offset = offsetof(Head, entry),
               .p_filesz = sizeof(Head) - offsetof(Head, entry) + (size + 3) / 4 * 4,
               .p_align = 4},
      .entry = {.n_namesz = sizeof BP_PLUGIN_NOTE_OWNER,
                .n_descsz = (Elf64_Word)size,
                .n_type = BP_PLUGIN_NOTE_TYPE},
      .owner = BP_PLUGIN_NOTE_OWNER};
  GByteArray *file = g_byte_array_new();
  g_byte_array_append(file, (const guint8 *)&head, sizeof head);
  g_byte_array_append(file, descriptor, (guint)size);
  g_byte_array_append(file, (const guint8 *)"\0\0\0", (guint)(-size & 3));
  return file;
}

const FuzzSeed *fuzz_seeds(size_t *count) {
  static FuzzSeed seeds[] = {FUZZ_TEXT(START), FUZZ_TEXT(FULL), {NULL, 0}};
  if (!seeds[2].data) {
    GByteArray *file = make_file(FULL, strlen(FULL));
    seeds[2].size = file->len;
    seeds[2].data = g_byte_array_free(file, FALSE);
  }
  *count = G_N_ELEMENTS(seeds);
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = G_N_ELEMENTS(pieces);
  return pieces;
}

/* ---- The target -------------------------------------------------------------------------- */

static char *folder, *path;

static void remove_folder(void) {
  unlink(path);
  rmdir(folder);
}

static void make_folder(void) {
  folder = g_dir_make_tmp("backplane-fuzz-XXXXXX", NULL);
  if (!folder)
    g_error("no folder for the plugin: %s", g_strerror(errno));
  path = g_build_filename(folder, "a.so", NULL);
  atexit(remove_folder);
  g_setenv("BACKPLANE_PLUGIN_PATH", folder, TRUE);
  g_setenv("BACKPLANE_CACHE_DIR", folder, TRUE);
}

static void write_file(const void *data, size_t size) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd))
    abort();
}

static void check(const BpPluginInfo *info) {
  if (info->state == BP_PLUGIN_REJECTED ? !*info->reason : !*info->name)
    abort();
  if (!g_utf8_validate(info->description, -1, NULL) || !g_utf8_validate(info->reason, -1, NULL))
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!folder)
    make_folder();
  if (size && data[0] == ELFMAG0) {
    write_file(data, size);
  } else {
    GByteArray *file = make_file(data, size);
    write_file(file->data, file->len);
    g_byte_array_unref(file);
  }
  BpPluginList *list = bp_plugin_list();
  for (size_t i = 0; i < bp_plugin_list_size(list); i++)
    check(bp_plugin_list_get(list, i));
  bp_plugin_list_free(list);
  return 0;
}
