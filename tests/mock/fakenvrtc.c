/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation of NVRTC: it passes the source to the host's C++ compiler, after a header with
 * CUDA's definitions, and the resulting library is the cubin. See fakecuda.h. */
#include "tests/mock/fakecuda.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DECLARE(name, parameters) FAKE_API nvrtcResult name parameters;
BP_NVRTC_FUNCTIONS(DECLARE)

struct _nvrtcProgram {
  char *source;
  char *log;
  char *cubin;
  size_t cubin_size;
  char *ptx;
};

/* A cache that builds share keeps code with the address sanitizer apart, by the version. */
#ifdef __SANITIZE_ADDRESS__
#define FAKE_MINOR 7
#else
#define FAKE_MINOR 8
#endif

nvrtcResult nvrtcVersion(int *major, int *minor) {
  const char *asked = getenv("FAKENVRTC_VERSION"); /* "13.1" */
  if (!asked || sscanf(asked, "%d.%d", major, minor) != 2) {
    *major = 12;
    *minor = FAKE_MINOR;
  }
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                               int num_headers, const char *const *headers,
                               const char *const *names) {
  (void)name;
  if (num_headers != 0 || headers || names)
    return 3; /* NVRTC_ERROR_INVALID_INPUT */
  *program = calloc(1, sizeof(**program));
  (*program)->source = strdup(source);
  (*program)->log = strdup("");
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  free((*program)->source);
  free((*program)->log);
  free((*program)->cubin);
  free((*program)->ptx);
  free(*program);
  *program = NULL;
  return NVRTC_SUCCESS;
}

/* ---- The source -------------------------------------------------------------------------- */

/* Inline PTX, and its replacement in C++. */
static const struct {
  const char *ptx;
  const char *code;
} replacements[] = {
    {"asm(\"\" : \"+l\"(at));", ""},
    {"asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(bits));", "f = fake_half_to_float(bits);"},
    {"asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(f));", "bits = fake_float_to_half(f);"},
    {"asm(NAME \".f16 %0, %1, %2;\" : \"=h\"(r.bits) : \"h\"(a.bits), \"h\"(b.bits));",
     "r.bits = FAKE_HALF(a.bits, OP, b.bits);"},
    {"asm(NAME \".f16x2 %0, %1, %2;\" : \"=r\"(x) : \"r\"(x), \"r\"(y));",
     "x = FAKE_HALF(x, OP, y) | (unsigned)FAKE_HALF(x >> 16, OP, y >> 16) << 16;"},
    {"asm(\"{.reg .pred p; setp.\" NAME \".f16 p, %1, %2; selp.s32 %0, 1, 0, p;}\" \\\n"
     "        : \"=r\"(r) : \"h\"(a.bits), \"h\"(b.bits));",
     "r = fake_half_to_float(a.bits) OP fake_half_to_float(b.bits);"},
    {"asm(\"fma.rn.f16 %0, %1, %2, %3;\"\n"
     "      : \"=h\"(r.bits) : \"h\"(a.bits), \"h\"(b.bits), \"h\"(c.bits));",
     "r.bits = fake_half_fma(a.bits, b.bits, c.bits);"},
};

/* Replaces `extern __shared__ float x[];` by a pointer. Returns the length of the replaced
 * source. */
static int write_dynamic(FILE *file, const char *source) {
  char type[64], name[64];
  int used = 0;
  if (sscanf(source, "extern __shared__ %63[a-zA-Z0-9_] %63[a-zA-Z0-9_][];%n", type, name, &used) !=
          2 ||
      used == 0)
    return 0;
  fprintf(file, "%s *%s = (%s *)fake_dynamic;", type, name, type);
  return used;
}

static void write_source(FILE *file, const char *source) {
  while (*source) {
    source += write_dynamic(file, source);
    size_t i = 0, count = sizeof(replacements) / sizeof(replacements[0]);
    while (i < count && strncmp(source, replacements[i].ptx, strlen(replacements[i].ptx)) != 0)
      i++;
    if (i < count) {
      fputs(replacements[i].code, file);
      source += strlen(replacements[i].ptx);
    } else {
      fputc(*source++, file);
    }
  }
}

/* The entry for the driver, for each `__global__ void __launch_bounds__(N) NAME(`. */
static void write_kernels(FILE *file, const char *source) {
  static const char word[] = "__global__ void ";
  for (const char *p = strstr(source, word); p; p = strstr(p, word)) {
    int bound = FAKE_THREADS, used = 0;
    char name[128];
    p += strlen(word);
    if (sscanf(p, "__launch_bounds__(%d) %n", &bound, &used) >= 1)
      p += used;
    if (sscanf(p, "%127[A-Za-z0-9_]", name) != 1)
      continue;
    const char *next = strstr(p, word), *barrier = strstr(p, "__syncthreads()");
    fprintf(file, "FAKE_KERNEL(%s, %d, %d)\n", name, bound, barrier && (!next || barrier < next));
  }
}

static int write_program(const char *path, const char *source, uint32_t arch) {
  FILE *file = fopen(path, "w");
  if (!file)
    return -1;
  fprintf(file, "#define __CUDA_ARCH__ %u0\n", arch);
  fprintf(file, "#include \"%s\"\n#line 1 \"backplane.cu\"\n", FAKE_KERNEL_HEADER);
  write_source(file, source);
  fputc('\n', file);
  write_kernels(file, source);
  return fclose(file);
}

/* ---- The compiler ------------------------------------------------------------------------ */

static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *data = NULL;
  if (!file)
    return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  data = calloc(1, *size + 1);
  if (fread(data, 1, *size, file) != *size)
    *size = 0;
  fclose(file);
  return data;
}

/* Compiles with C's <math.h>, which declares the functions that kernels call. C++'s <math.h> would
 * take most of the compiler's time. */
static int run_compiler(const char *source, const char *library, const char *log) {
  const char *args[] = {"c++",
                        "-x",
                        "c++",
                        "-std=c++17",
                        "-O0", /* compiling takes longer than running */
                        "-nostdinc++",
                        "-shared",
                        "-fPIC",
                        "-w",
                        "-pthread",
                        "-fno-strict-aliasing",
                        "-fwrapv",
                        "-ffp-contract=off",
#ifdef __SANITIZE_ADDRESS__
                        "-fsanitize=address", /* finds kernels that exceed their buffers, too */
#endif
                        source,
                        "-o",
                        library,
                        "-nodefaultlibs", /* linking libstdc++ takes as long as compiling */
                        "-lm",
                        "-lc",
                        "-lgcc",
                        NULL};
  pid_t child = fork();
  if (child == 0) {
    int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(file, 1);
    dup2(file, 2);
    unsetenv("LD_PRELOAD");
    execvp(args[0], (char *const *)(uintptr_t)args);
    _exit(127);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

static void keep_code(nvrtcProgram program, const char *library, size_t size, uint32_t arch) {
  static const char digits[] = "0123456789abcdef";
  FakeCubin header = {.magic = FAKE_MAGIC, .arch = arch, .size = size};
  program->cubin_size = sizeof(header) + size;
  program->cubin = malloc(program->cubin_size);
  memcpy(program->cubin, &header, sizeof(header));
  memcpy(program->cubin + sizeof(header), library, size);
  size_t start = strlen(FAKE_PTX);
  program->ptx = calloc(1, start + 2 * program->cubin_size + 1);
  memcpy(program->ptx, FAKE_PTX, start);
  for (size_t i = 0; i < program->cubin_size; i++) {
    program->ptx[start + 2 * i] = digits[(unsigned char)program->cubin[i] >> 4];
    program->ptx[start + 2 * i + 1] = digits[program->cubin[i] & 15];
  }
}

static nvrtcResult compile(nvrtcProgram program, uint32_t arch) {
  char folder[] = "/tmp/fakenvrtc.XXXXXX", source[64], library[64], log[64];
  size_t size = 0;
  if (!mkdtemp(folder))
    return NVRTC_ERROR_COMPILATION;
  snprintf(source, sizeof(source), "%s/code.cc", folder);
  snprintf(library, sizeof(library), "%s/code.so", folder);
  snprintf(log, sizeof(log), "%s/log", folder);
  int rc = write_program(source, program->source, arch);
  rc = rc == 0 ? run_compiler(source, library, log) : rc;
  free(program->log);
  program->log = read_file(log, &size);
  if (!program->log)
    program->log = strdup("");
  char *data = rc == 0 ? read_file(library, &size) : NULL;
  if (data)
    keep_code(program, data, size, arch);
  free(data);
  remove(source);
  remove(library);
  remove(log);
  remove(folder);
  return data ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int num_options, const char *const *options) {
  unsigned arch = 0;
  for (int i = 0; i < num_options; i++) {
    int is_arch = sscanf(options[i], "--gpu-architecture=sm_%u", &arch) == 1 ||
                  sscanf(options[i], "--gpu-architecture=compute_%u", &arch) == 1;
    if (!is_arch && strncmp(options[i], "--", 2) != 0 && strncmp(options[i], "-D", 2) != 0)
      return 5; /* NVRTC_ERROR_INVALID_OPTION */
  }
  if (arch >= 50 && arch <= 120)
    return compile(program, arch);
  free(program->log);
  program->log = strdup("nvrtc: error: invalid value for --gpu-architecture (-arch)\n");
  return 5;
}

/* ---- Results ----------------------------------------------------------------------------- */

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size) {
  *size = strlen(program->log) + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  memcpy(log, program->log, strlen(program->log) + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size) {
  *size = program->ptx ? strlen(program->ptx) + 1 : 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx) {
  memcpy(ptx, program->ptx, strlen(program->ptx) + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size) {
  *size = program->cubin_size;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  memcpy(cubin, program->cubin, program->cubin_size);
  return NVRTC_SUCCESS;
}
