/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs that code can be generated for, their guaranteed features, and the features of this
 * machine. */
#include "cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define V2    "ssse3,sse4.1,sse4.2,popcnt"
#define V3    V2 ",avx,avx2,bmi,bmi2,fma"
#define V4    V3 ",avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
#define ARM82 "lse,fp16,dotprod"

/* The levels of x86-64 are first: a machine is described by its best level and further features. A
 * row named after its architecture guarantees nothing; "generic" is any other architecture. */
static const BpCpu cpus[] = {
    {"x86-64", "x86_64", 128, 16, ""},
    {"x86-64-v2", "x86_64", 128, 16, V2},
    {"x86-64-v3", "x86_64", 256, 16, V3},
    {"x86-64-v4", "x86_64", 512, 32, V4},
    {"nehalem", "x86_64", 128, 16, V2},
    {"sandybridge", "x86_64", 256, 16, V2 ",avx"},
    {"haswell", "x86_64", 256, 16, V3},
    {"broadwell", "x86_64", 256, 16, V3},
    {"skylake", "x86_64", 256, 16, V3},
    {"skylake-avx512", "x86_64", 512, 32, V4},
    {"cascadelake", "x86_64", 512, 32, V4 ",avx512vnni"},
    {"icelake-server", "x86_64", 512, 32, V4 ",avx512vnni,avx512vbmi"},
    {"sapphirerapids", "x86_64", 512, 32, V4 ",avx512vnni,avx512vbmi,avx512bf16"},
    {"alderlake", "x86_64", 256, 16, V3 ",avxvnni"},
    {"bdver4", "x86_64", 256, 16, V3 ",fma4,xop"},
    {"znver1", "x86_64", 256, 16, V3},
    {"znver2", "x86_64", 256, 16, V3},
    {"znver3", "x86_64", 256, 16, V3},
    {"aarch64", "aarch64", 128, 32, ""},
    {"cortex-a53", "aarch64", 128, 32, ""},
    {"cortex-a72", "aarch64", 128, 32, ""},
    {"cortex-a76", "aarch64", 128, 32, ARM82},
    {"neoverse-n1", "aarch64", 128, 32, ARM82},
    {"neoverse-v1", "aarch64", 128, 32, ARM82 ",bf16,i8mm"},
    {"ppc64le", "ppc64le", 128, 64, ""},
    {"riscv64", "riscv64", 0, 32, ""},
    {"loongarch64", "loongarch64", 0, 32, ""},
    {"generic", "another", 0, 16, ""},
};
#define NUM_CPUS   (sizeof(cpus) / sizeof(cpus[0]))
#define NUM_LEVELS 4

#if defined(__x86_64__)
#define THIS_ARCH "x86_64"
#elif defined(__aarch64__)
#define THIS_ARCH "aarch64"
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define THIS_ARCH "ppc64le"
#elif defined(__riscv) && __riscv_xlen == 64
#define THIS_ARCH "riscv64"
#elif defined(__loongarch_lp64)
#define THIS_ARCH "loongarch64"
#else
#define THIS_ARCH "another"
#endif

/* Features that a program can test at run time. On x86-64 the compiler tests them by name; the
 * number is a feature's bit in libgcc's __cpu_model and __cpu_features2. */
#define X86_FEATURES(X)                                                                            \
  X("ssse3", 6)                                                                                    \
  X("sse4.1", 7)                                                                                   \
  X("sse4.2", 8)                                                                                   \
  X("popcnt", 2)                                                                                   \
  X("avx", 9)                                                                                      \
  X("avx2", 10)                                                                                    \
  X("bmi", 16)                                                                                     \
  X("bmi2", 17)                                                                                    \
  X("fma", 14)                                                                                     \
  X("avx512f", 15)                                                                                 \
  X("avx512bw", 21)                                                                                \
  X("avx512cd", 23)                                                                                \
  X("avx512dq", 22)                                                                                \
  X("avx512vl", 20)                                                                                \
  X("avx512vnni", 34)                                                                              \
  X("avx512vbmi", 26)                                                                              \
  X("avx512bf16", 36)                                                                              \
  X("fma4", 12)                                                                                    \
  X("xop", 13)
/* Features of aarch64, tested by getauxval: bits of AT_HWCAP; from 64 on, bits of AT_HWCAP2. */
#define ARM_FEATURES(X)                                                                            \
  X("lse", 8)                                                                                      \
  X("fp16", 10)                                                                                    \
  X("dotprod", 20)                                                                                 \
  X("i8mm", 64 + 13)                                                                               \
  X("bf16", 64 + 14)

typedef struct Feature {
  const char *name, *arch;
  int bit;
} Feature;

#define X86_FEATURE(name, bit) {name, "x86_64", bit},
#define ARM_FEATURE(name, bit) {name, "aarch64", bit},
/* Compilers that lack the name of avxvnni cannot test it, so its bit, plus 64, is that of the
 * instruction CPUID (leaf 7, part 1, register eax). */
#define AVXVNNI_BIT (64 + 4)
static const Feature features[] = {X86_FEATURES(X86_FEATURE){"avxvnni", "x86_64", AVXVNNI_BIT},
                                   ARM_FEATURES(ARM_FEATURE)};
#define NUM_FEATURES (sizeof(features) / sizeof(features[0]))

/* Whether this machine has a feature of its own architecture. */
static int is_present(const Feature *feature) {
#if defined(__x86_64__)
#define PRESENT(name, bit) __builtin_cpu_supports(name) != 0,
  __builtin_cpu_init();
  const int all[] = {X86_FEATURES(PRESENT)};
  unsigned eax = 0, other[3];
  if (feature->bit != AVXVNNI_BIT)
    return all[feature - features];
  return __builtin_cpu_supports("avx2") != 0 &&
         __get_cpuid_count(7, 1, &eax, &other[0], &other[1], &other[2]) != 0 &&
         (eax >> (AVXVNNI_BIT - 64) & 1) != 0;
#elif defined(__aarch64__)
  unsigned long word = getauxval(feature->bit < 64 ? AT_HWCAP : AT_HWCAP2);
  return (int)(word >> feature->bit % 64 & 1);
#else
  (void)feature;
  return 0;
#endif
}

const BpCpu *bp_cpu_find(const char *name) {
  for (size_t i = 0; i < NUM_CPUS; i++) {
    if (strcmp(cpus[i].name, name) == 0)
      return &cpus[i];
  }
  return NULL;
}

void bp_cpu_names(char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < NUM_CPUS && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", cpus[i].name);
}

/* ---- Lists of features ------------------------------------------------------------------- */

int bp_cpu_each(const char *list, char separator,
                int (*visit)(void *context, const char *item, size_t size), void *context) {
  int rc = 0;
  while (*list && rc == 0) {
    size_t size = (size_t)(strchrnul(list, separator) - list);
    if (size > 0)
      rc = visit(context, list, size);
    list += size + (list[size] != '\0');
  }
  return rc;
}

/* NULL: the architecture has no feature of that name. */
static const Feature *find_feature(const char *arch, const char *name, size_t size) {
  for (size_t i = 0; i < NUM_FEATURES; i++) {
    if (strcmp(features[i].arch, arch) == 0 && strlen(features[i].name) == size &&
        memcmp(features[i].name, name, size) == 0)
      return &features[i];
  }
  return NULL;
}

int bp_cpu_feature_bit(const BpCpu *cpu, const char *name, size_t size) {
  const Feature *feature = find_feature(cpu->arch, name, size);
  return feature ? feature->bit : -1;
}

typedef struct Text {
  char *data;
  size_t size;
  size_t used;
} Text;

static void add_item(Text *text, const char *item, size_t size) {
  if (text->used + size + 2 > text->size)
    return;
  if (text->used)
    text->data[text->used++] = ',';
  memcpy(text->data + text->used, item, size);
  text->used += size;
  text->data[text->used] = '\0';
}

static int add_if_missing(void *context, const char *item, size_t size) {
  const Feature *feature = find_feature(THIS_ARCH, item, size);
  if (!feature || !is_present(feature))
    add_item(context, item, size);
  return 0;
}

int bp_cpu_can_run(const BpCpu *cpu, const char *extras, char *why, size_t size) {
  char missing[512] = "";
  Text list = {missing, sizeof(missing), 0};
  if (strcmp(cpu->arch, THIS_ARCH) != 0) {
    snprintf(why, size, "this is no %s machine", cpu->arch);
    return 0;
  }
  bp_cpu_each(cpu->features, ',', add_if_missing, &list);
  bp_cpu_each(extras, ',', add_if_missing, &list);
  snprintf(why, size, "this CPU lacks %s", missing);
  return list.used == 0;
}

/* ---- This machine ------------------------------------------------------------------------ */

int64_t bp_cpu_usable_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return CPU_COUNT(&set);
  return sysconf(_SC_NPROCESSORS_ONLN);
}

const BpCpu *bp_cpu_native(void) {
  char why[512];
  for (int i = NUM_LEVELS - 1; i > 0; i--) {
    if (bp_cpu_can_run(&cpus[i], "", why, sizeof(why)))
      return &cpus[i];
  }
  for (size_t i = 0; i < NUM_CPUS; i++) {
    if (strcmp(cpus[i].arch, THIS_ARCH) == 0)
      return &cpus[i];
  }
  return &cpus[NUM_CPUS - 1];
}

typedef struct Search {
  const char *name;
  size_t size;
} Search;

static int is_item(void *context, const char *item, size_t size) {
  const Search *search = context;
  return size == search->size && memcmp(item, search->name, size) == 0;
}

int bp_cpu_has_feature(const BpCpu *cpu, const char *extras, const char *name) {
  Search search = {name, strlen(name)};
  return bp_cpu_each(cpu->features, ',', is_item, &search) ||
         bp_cpu_each(extras, ',', is_item, &search);
}

static int is_beyond(void *context, const char *item, size_t size) {
  Search search = {item, size};
  const BpCpu *cpu = context;
  return !bp_cpu_each(cpu->features, ',', is_item, &search);
}

const BpCpu *bp_cpu_level(const BpCpu *cpu) {
  BpCpu given = *cpu;
  int level = NUM_LEVELS - 1;
  for (size_t i = NUM_LEVELS; i < NUM_CPUS; i++) {
    if (strcmp(cpus[i].arch, cpu->arch) == 0 && strcmp(cpu->arch, cpus[0].arch) != 0)
      return &cpus[i];
  }
  while (bp_cpu_each(cpus[level].features, ',', is_beyond, &given))
    level--; /* the first level guarantees nothing */
  return &cpus[level];
}

void bp_cpu_native_extras(const BpCpu *cpu, char *text, size_t size) {
  Text list = {text, size, 0};
  Search other = {"avx512vnni", strlen("avx512vnni")};
  if (size > 0)
    text[0] = '\0';
  if (strcmp(cpu->arch, THIS_ARCH) != 0)
    return;
  for (size_t i = 0; i < NUM_FEATURES; i++) {
    Search search = {features[i].name, strlen(features[i].name)};
    if (features[i].bit == AVXVNNI_BIT && bp_cpu_each(text, ',', is_item, &other))
      continue; /* its instructions are among those of avx512vnni */
    if (strcmp(features[i].arch, THIS_ARCH) == 0 && is_present(&features[i]) &&
        !bp_cpu_each(cpu->features, ',', is_item, &search))
      add_item(&list, search.name, search.size);
  }
}
