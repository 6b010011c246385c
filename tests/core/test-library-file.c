/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a library's file costs no more than the size of the file. */

#include "tests/core/module-fixture.h"

#include <backplane/error.h>
#include <backplane/module.h>
#include <backplane/object.h>
#include <elf.h>
#include <glib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Writes a library whose `count` functions, or else variables, have the one name (transfer full).
 */
static char *write_namesakes(const char *name, int type, size_t count) {
  static const char no_name[] = "";
  GByteArray *file = g_byte_array_new();
  const size_t length = strlen(name) + 2, names = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
  const size_t symbols = (names + length + 7) / 8 * 8, size = count * sizeof(Elf64_Sym);
  const Elf64_Ehdr header = {
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
      .e_type = ET_DYN,
      .e_machine = ((const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR))->e_machine,
      .e_version = EV_CURRENT,
      .e_phoff = sizeof header,
      .e_shoff = symbols + size,
      .e_ehsize = sizeof header,
      .e_phentsize = sizeof(Elf64_Phdr),
      .e_phnum = 1,
      .e_shentsize = sizeof(Elf64_Shdr),
      .e_shnum = 3,
      .e_shstrndx = 1};
  const Elf64_Phdr segment = {.p_type = PT_LOAD, .p_filesz = symbols, .p_align = 4096};
  const Elf64_Sym symbol = {.st_name = 1,
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, type),
                            .st_shndx = 1,
                            .st_size = sizeof(void *)};
  const Elf64_Shdr sections[] = {{.sh_type = SHT_NULL},
                                 {.sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = length},
                                 {.sh_type = SHT_DYNSYM,
                                  .sh_offset = symbols,
                                  .sh_size = size,
                                  .sh_link = 1,
                                  .sh_entsize = sizeof symbol,
                                  .sh_addralign = 8}};
  g_byte_array_append(file, (const guint8 *)&header, sizeof header);
  g_byte_array_append(file, (const guint8 *)&segment, sizeof segment);
  g_byte_array_append(file, (const guint8 *)no_name, sizeof no_name);
  g_byte_array_append(file, (const guint8 *)name, (guint)length - 1);
  g_byte_array_set_size(file, (guint)symbols);
  for (size_t i = 0; i < count; i++)
    g_byte_array_append(file, (const guint8 *)&symbol, sizeof symbol);
  g_byte_array_append(file, (const guint8 *)sections, sizeof sections);
  char *path = temporary_path("namesakes.so");
  g_assert_true(g_file_set_contents(path, (const char *)file->data, file->len, NULL));
  g_byte_array_unref(file);
  return path;
}

static void assert_unreadable(char *path, const char *why, const char *kind) {
  g_assert_null(bp_module_read(path));
  g_assert_cmpstr(bp_error_kind(), ==, kind);
  g_assert_nonnull(strstr(bp_error_message(), why));
  bp_error_clear();
  unlink(path);
  g_free(path);
}

/* The first call of the process into Backplane. */
static void test_first_call_reads_a_library(void) {
  char *path = write_namesakes("__TVMFFIErrorSetRaisedFromCStr", STT_OBJECT, 1);
  assert_unreadable(path, "is not a module: it exports no function", BP_ERROR_VALUE);
}

static void test_library_of_namesakes_is_an_error(void) {
  g_autofree char *name = g_strnfill(100000, 'n');
  memcpy(name, "__tvm_ffi_", strlen("__tvm_ffi_"));
  char *path = write_namesakes("__tvm_ffi_f", STT_FUNC, 2);
  BpModule *module = bp_module_read(path);
  g_assert_nonnull(module);
  bp_object_release(module);
  unlink(path);
  g_free(path);
  assert_unreadable(write_namesakes(name, STT_FUNC, 10000), "together are longer than the file",
                    BP_ERROR_FORMAT);
  assert_unreadable(write_namesakes("__TVMFFIErrorSetRaisedFromCStr", STT_OBJECT, 2), "twice",
                    BP_ERROR_FORMAT);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/library-file/is-read-by-the-first-call", test_first_call_reads_a_library);
  g_test_add_func("/library-file/namesakes-are-an-error", test_library_of_namesakes_is_an_error);
  return g_test_run();
}
