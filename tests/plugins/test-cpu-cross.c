/* SPDX-License-Identifier: Apache-2.0 */
/* Code for other CPUs, exported with a cross compiler and run under qemu; and the facts that the
 * plugin detects on such a machine. Each part is skipped if its compiler or qemu is not installed
 * (Debian: qemu-user, gcc-aarch64-linux-gnu, gcc-riscv64-linux-gnu, ...). */

#include <glib/gstdio.h>

#include "tests/compiler/codegen-util.h"

/* A machine that qemu emulates, and its compiler. */
typedef struct Machine {
  const char *name, *compiler, *qemu, *libraries;
} Machine;

static const Machine aarch64 = {"aarch64", "aarch64-linux-gnu-gcc", "qemu-aarch64",
                                "/usr/aarch64-linux-gnu"};
static const Machine riscv64 = {"riscv64", "riscv64-linux-gnu-gcc", "qemu-riscv64",
                                "/usr/riscv64-linux-gnu"};
static const Machine ppc64le = {"ppc64le", "powerpc64le-linux-gnu-gcc", "qemu-ppc64le",
                                "/usr/powerpc64le-linux-gnu"};

/* ---- Running commands -------------------------------------------------------------------- */

static char *dir;

/* Runs a command with `dir` as its working directory; returns its output (g_free). */
static char *run(int *status, const char *format, ...) G_GNUC_PRINTF(2, 3);
static char *run(int *status, const char *format, ...) {
  char *output = NULL, *errors = NULL, **words;
  GError *error = NULL;
  va_list args;
  va_start(args, format);
  char *command = g_strdup_vprintf(format, args);
  va_end(args);
  if (!g_shell_parse_argv(command, NULL, &words, &error) ||
      !g_spawn_sync(dir, words, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &output, &errors, status,
                    &error))
    g_error("%s: %s", command, error->message);
  char *both = g_strconcat(output, errors, NULL);
  g_strfreev(words);
  g_free(command);
  g_free(output);
  g_free(errors);
  return both;
}

static gboolean has_program(const char *name) {
  char *path = g_find_program_in_path(name);
  g_free(path);
  return path != NULL;
}

static gboolean is_installed(const Machine *machine) {
  if (has_program(machine->compiler) && has_program(machine->qemu))
    return TRUE;
  g_test_skip("no cross compiler or no qemu");
  return FALSE;
}

static void compile(const Machine *machine, const char *arguments) {
  int status;
  char *output = run(&status, "%s -O1 %s", machine->compiler, arguments);
  if (status != 0)
    g_error("%s: %s", machine->compiler, output);
  g_free(output);
}

static void write_file(const char *name, const char *text) {
  char *path = g_build_filename(dir, name, NULL);
  g_assert_true(g_file_set_contents(path, text, -1, NULL));
  g_free(path);
}

static void begin(void) {
  dir = g_dir_make_tmp("backplane-test-XXXXXX", NULL);
}

static void end(void) {
  static const char *const names[] = {"code.so", "driver.c", "driver", "probe.c", "probe"};
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
    char *path = g_build_filename(dir, names[i], NULL);
    g_unlink(path);
    g_free(path);
  }
  g_rmdir(dir);
  g_clear_pointer(&dir, g_free);
}

/* ---- Detected facts ---------------------------------------------------------------------- */

static const char probe[] = "#include \"cpu.h\"\n"
                            "#include <stdio.h>\n"
                            "int main(void) {\n"
                            "  char extras[512];\n"
                            "  const BpCpu *cpu = bp_cpu_native();\n"
                            "  bp_cpu_native_extras(cpu, extras, sizeof(extras));\n"
                            "  printf(\"%s:%s\\n\", cpu->name, extras);\n"
                            "  return 0;\n"
                            "}\n";

static void assert_found(const Machine *machine, const char *cpu, const char *expected) {
  int status;
  char *output = run(&status, "%s -L %s %s ./probe", machine->qemu, machine->libraries, cpu);
  g_assert_cmpint(status, ==, 0);
  g_assert_cmpstr(g_strchomp(output), ==, expected);
  g_free(output);
}

static void build_probe(const Machine *machine) {
  const char *top = g_getenv("top_srcdir");
  begin();
  write_file("probe.c", probe);
  char *arguments =
      g_strdup_printf("-D_GNU_SOURCE -I '%s/plugins/cpu' -I '%s/sdk/include' -o probe "
                      "probe.c '%s/plugins/cpu/machine.c'",
                      top, top, top);
  compile(machine, arguments);
  g_free(arguments);
}

static void test_native_of_aarch64(void) {
  if (!is_installed(&aarch64))
    return;
  build_probe(&aarch64);
  assert_found(&aarch64, "-cpu cortex-a53", "aarch64:");
  assert_found(&aarch64, "-cpu cortex-a76", "aarch64:lse,fp16,dotprod");
  assert_found(&aarch64, "-cpu max", "aarch64:lse,fp16,dotprod,i8mm,bf16");
  end();
}

/* An architecture without detectable features. */
static void test_native_of_other(gconstpointer data) {
  const Machine *machine = data;
  if (!is_installed(machine))
    return;
  build_probe(machine);
  char *expected = g_strconcat(machine->name, ":", NULL);
  assert_found(machine, "", expected);
  g_free(expected);
  end();
}

/* ---- Code -------------------------------------------------------------------------------- */

/* For each index i: X is 2 H + X, then H and N are X as float16 and as int32. */
#define PROGRAM                                                                                    \
  "(module (function \"f\" (buffer H float16 global 64) (buffer X float32 global 64)"              \
  " (buffer N int32 global 64)"                                                                    \
  " (for i:int64 0 16 parallel (seq"                                                               \
  "  (store X (ramp (mul i 4) 1 4) (add (load X (ramp (mul i 4) 1 4))"                             \
  "    (mul (cast float32x4 (load H (ramp (mul i 4) 1 4))) (broadcast 2.0:float32 4))))"           \
  "  (store H (ramp (mul i 4) 1 4) (cast float16x4 (load X (ramp (mul i 4) 1 4))))"                \
  "  (store N (ramp (mul i 4) 1 4) (cast int32x4 (load X (ramp (mul i 4) 1 4))))))))"

/* Calls f with H i and X i / 2 for all i from 0 to 63. Numbers up to 160 in steps of a half are
 * exact in float16; the program encodes and decodes the float16 bits itself. */
static const char driver[] =
    "#include <stdio.h>\n"
    "typedef struct { int type; unsigned small; void *p; } value;\n"
    "typedef struct { void *data; int device_type, device_id, ndim; unsigned char code, bits;\n"
    "  unsigned short lanes; long long *shape, *strides; unsigned long long offset; } view;\n"
    "extern int __tvm_ffi_f(void *self, const value *args, int count, value *result);\n"
    "void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text) {\n"
    "  printf(\"%s: %s\\n\", kind, text);\n"
    "}\n"
    "static unsigned short half_of(double x) {\n"
    "  int e = 15;\n"
    "  if (x == 0) return 0;\n"
    "  for (; x >= 2; e++) x /= 2;\n"
    "  for (; x < 1; e--) x *= 2;\n"
    "  return (unsigned short)(e << 10 | (int)((x - 1) * 1024));\n"
    "}\n"
    "int main(void) {\n"
    "  static unsigned short h[64] __attribute__((aligned(64)));\n"
    "  static float x[64] __attribute__((aligned(64)));\n"
    "  static int n[64] __attribute__((aligned(64)));\n"
    "  long long shape = 64;\n"
    "  view views[3] = {{h, 1, 0, 1, 2, 16, 1, &shape}, {x, 1, 0, 1, 2, 32, 1, &shape},\n"
    "                   {n, 1, 0, 1, 0, 32, 1, &shape}};\n"
    "  value args[3] = {{7, 0, &views[0]}, {7, 0, &views[1]}, {7, 0, &views[2]}}, result = {0};\n"
    "  for (int i = 0; i < 64; i++) { h[i] = half_of(i); x[i] = i / 2.0f; }\n"
    "  if (__tvm_ffi_f(0, args, 3, &result)) return 1;\n"
    "  for (int i = 0; i < 64; i++)\n"
    "    if (x[i] != 2.5f * i || h[i] != half_of(2.5 * i) || n[i] != i * 5 / 2) {\n"
    "      printf(\"%d: %g %x %d\\n\", i, x[i], h[i], n[i]);\n"
    "      return 1;\n"
    "    }\n"
    "  puts(\"right\");\n"
    "  return 0;\n"
    "}\n";

/* Exports the program for a target and links it with the driver into an executable. */
static void build_code(const Machine *machine, const char *target) {
  begin();
  char *path = g_build_filename(dir, "code.so", NULL);
  BpIrModule *ir = parse_verified(PROGRAM);
  BpModule *module = build_ok(ir, target);
  g_setenv("BACKPLANE_CC", machine->compiler, TRUE);
  assert_ok(bp_module_export_library(module, path));
  g_unsetenv("BACKPLANE_CC");
  bp_object_release(module);
  bp_object_release(ir);
  g_free(path);
  write_file("driver.c", driver);
  compile(machine, "-rdynamic -o driver driver.c code.so -Wl,-rpath,.");
}

static void assert_prints(const Machine *machine, const char *cpu, const char *expected) {
  int status;
  char *output = run(&status, "%s -L %s %s ./driver", machine->qemu, machine->libraries, cpu);
  if (!strstr(output, expected))
    g_error("%s %s: \"%s\" instead of \"%s\"", machine->qemu, cpu, output, expected);
  g_free(output);
}

static void test_code_runs(gconstpointer data) {
  const Machine *machine = data;
  if (!is_installed(machine))
    return;
  char *target = g_strconcat("c -mcpu=", machine->name, NULL);
  build_code(machine, target);
  assert_prints(machine, "", "right");
  end();
  g_free(target);
}

/* Code for a CPU with features runs on CPUs that have them, and names missing features on
 * others. */
static void test_code_checks_features(gconstpointer kind) {
  if (!is_installed(&aarch64))
    return;
  char *target = g_strconcat(kind, " -mcpu=cortex-a76", NULL);
  build_code(&aarch64, target);
  assert_prints(&aarch64, "-cpu cortex-a76", "right");
  assert_prints(&aarch64, "-cpu cortex-a72",
                "DeviceError: f: compiled for the CPU cortex-a76, and this one lacks");
  end();
  g_free(target);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  static const Machine *const machines[] = {&aarch64, &riscv64, &ppc64le};
  g_test_add_func("/cpu/cross/native-aarch64-has-what-the-kernel-says", test_native_of_aarch64);
  g_test_add_data_func("/cpu/cross/c/features-are-checked-on-aarch64", "c",
                       test_code_checks_features);
  if (bp_target_kind_info("llvm"))
    g_test_add_data_func("/cpu/cross/llvm/features-are-checked-on-aarch64", "llvm",
                         test_code_checks_features);
  bp_error_clear();
  for (size_t i = 0; i < G_N_ELEMENTS(machines); i++) {
    char *path = g_strdup_printf("/cpu/cross/%s/code-runs", machines[i]->name);
    g_test_add_data_func(path, machines[i], test_code_runs);
    g_free(path);
    path = g_strdup_printf("/cpu/cross/%s/native-is-its-row", machines[i]->name);
    if (i > 0)
      g_test_add_data_func(path, machines[i], test_native_of_other);
    g_free(path);
  }
  return g_test_run();
}
