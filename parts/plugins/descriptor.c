/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing descriptors, and comparing the instruction set and the sanitizer of this process with the
 * plugin's. The text is untrusted: it is shown to people and its names enter the
 * registry, so this file, and only this file, checks the characters and the form of each field. */

#include "parts/plugins/descriptor.h"

#include "parts/plugins/reasons.h"
#include "core/registry/names.h"

#include <backplane/error.h>
#include <backplane/plugin.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <sys/platform/x86.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HOST_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define HOST_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define HOST_SANITIZER "thread"
#endif
#endif
#ifndef HOST_SANITIZER
#define HOST_SANITIZER ""
#endif

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"
#define NAME  LOWER UPPER DIGIT "._-+"

typedef struct KeyInfo {
  char key[16];
  size_t offset;
  int required;
} KeyInfo;

static const KeyInfo keys[] = {
#define KEY_INFO(key, required) {#key, offsetof(Descriptor, key), required},
    BP_DESCRIPTOR_KEYS(KEY_INFO)
#undef KEY_INFO
};
#define NUM_KEYS (sizeof keys / sizeof *keys)

static const char **field_of(Descriptor *descriptor, const KeyInfo *info) {
  return (const char **)((char *)descriptor + info->offset);
}

/* ---- Lines ------------------------------------------------------------------------------- */

/* Whether a character controls the terminal or affects the surrounding text: C0 and C1, Unicode's
 * line and paragraph separators, and characters that change the direction of writing. */
static int is_control(gunichar character) {
  GUnicodeType type = g_unichar_type(character);
  return type == G_UNICODE_CONTROL || type == G_UNICODE_LINE_SEPARATOR ||
         type == G_UNICODE_PARAGRAPH_SEPARATOR || character == 0x061c ||
         (character >= 0x200e && character <= 0x200f) ||
         (character >= 0x202a && character <= 0x202e) ||
         (character >= 0x2066 && character <= 0x2069);
}

static int check_text(const char *text, size_t size) {
  if (!g_utf8_validate(text, (gssize)size, NULL))
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED, "its descriptor is not UTF-8 text");
  for (const char *at = text; at < text + size; at = g_utf8_next_char(at))
    if (*at != '\n' && is_control(g_utf8_get_char(at)))
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                              "its descriptor has a control character at byte %zu",
                              (size_t)(at - text));
  return 0;
}

/* `seen` has a bit for each of `keys`. */
static int parse_line(Descriptor *descriptor, char *line, int number, unsigned *seen) {
  char *equals = strchr(line, '=');
  if (!equals || equals == line)
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                            "line %d of its descriptor is not key=value", number);
  *equals = '\0';
  for (size_t i = 0; i < NUM_KEYS; i++) {
    if (strcmp(line, keys[i].key))
      continue;
    if (*seen & 1u << i)
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                              "its descriptor has the key \"%s\" twice", line);
    *seen |= 1u << i;
    *field_of(descriptor, &keys[i]) = equals + 1;
  }
  return 0;
}

static int parse_lines(Descriptor *descriptor) {
  unsigned seen = 0;
  int number = 0;
  for (char *line = descriptor->text; *line;) {
    char *end = line + strcspn(line, "\n");
    char *next = *end ? end + 1 : end;
    *end = '\0';
    if (parse_line(descriptor, line, ++number, &seen))
      return -1;
    line = next;
  }
  for (size_t i = 0; i < NUM_KEYS; i++)
    if (keys[i].required && !(seen & 1u << i))
      return bp__reason_raise(REASON_DESCRIPTOR_INCOMPLETE, "its descriptor lacks the key \"%s\"",
                              keys[i].key);
  return 0;
}

/* ---- Fields ------------------------------------------------------------------------------ */

static int check_abi(const Descriptor *descriptor) {
  unsigned long numbers[2];
  const char *text = descriptor->abi;
  for (int i = 0; i < 2; i++) {
    char *end;
    if (!*text || !strchr(DIGIT, *text))
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED, "its ABI \"%s\" is not MAJOR.MINOR",
                              descriptor->abi);
    numbers[i] = strtoul(text, &end, 10);
    if (*end != (i ? '\0' : '.'))
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED, "its ABI \"%s\" is not MAJOR.MINOR",
                              descriptor->abi);
    text = end + 1;
  }
  uint32_t version = (uint32_t)(MIN(numbers[0], 0xffff) << 16 | MIN(numbers[1], 0xffff));
  if (bp_abi_fits(version, BP_ABI_OLDEST, BP_ABI_VERSION))
    return 0;
  return bp__reason_raise(version < BP_ABI_OLDEST ? REASON_ABI_TOO_OLD : REASON_ABI_TOO_NEW,
                          "it needs plugin ABI %s and this host loads %d.%d to %s; install a build "
                          "of the plugin that matches, or another backplane",
                          descriptor->abi, BP_ABI_MAJOR, BP_ABI_OLDEST_MINOR, BP_ABI_TEXT);
}

static int check_name(const Descriptor *descriptor) {
  const char *name = descriptor->name;
  size_t length = strlen(name);
  if (!length || length > 63 || strspn(name, LOWER DIGIT "-") != length || !strchr(LOWER, *name))
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                            "its name \"%.80s\" is not of lower-case letters, digits and '-'",
                            name);
  g_autofree char *entry = g_strconcat("bp_plugin_entry_", name, NULL);
  g_strdelimit(entry, "-", '_');
  if (strcmp(entry, descriptor->entry))
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                            "its entry is \"%.80s\" but must be \"%s\"", descriptor->entry, entry);
  return 0;
}

static int check_words(const char *what, const char *list, const char *allowed) {
  size_t length = 0;
  for (const char *word = list; (word = bp__words_next(word, &length));) {
    if (length > 127 || strspn(word, allowed) < length)
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED, "\"%.*s\" in its %s is not a name",
                              (int)(length < 80 ? length : 80), word, what);
  }
  return 0;
}

static int check_kinds(const char *list) {
  size_t length = 0;
  for (const char *word = list; (word = bp__words_next(word, &length));) {
    g_autofree char *kind = g_strndup(word, length);
    if (bp__words_have(BP_DEVICE_RESERVED_KINDS, kind))
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                              "\"%s\" in its devices is not a kind: the word means something else "
                              "where a device is asked for",
                              kind);
  }
  return check_words("devices", list, NAME);
}

/* Absolute paths, which may be shell patterns. */
static int check_paths(const char *what, const char *list) {
  size_t length = 0;
  for (const char *word = list; (word = bp__words_next(word, &length));)
    if (length > 255 || *word != '/')
      return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                              "\"%.*s\" in its %s is not an absolute path",
                              (int)(length < 80 ? length : 80), word, what);
  return 0;
}

static int check_priority(const Descriptor *descriptor) {
  gint64 priority;
  if (!*descriptor->priority || g_ascii_string_to_signed(descriptor->priority, 10, -BP_PRIORITY_MAX,
                                                         BP_PRIORITY_MAX, &priority, NULL))
    return 0;
  return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED,
                          "its priority \"%.80s\" is not a number from -%d to %d",
                          descriptor->priority, BP_PRIORITY_MAX, BP_PRIORITY_MAX);
}

int bp__descriptor_priority(const Descriptor *descriptor) {
  return (int)g_ascii_strtoll(descriptor->priority, NULL, 10);
}

/* ---- The machine ------------------------------------------------------------------------- */

typedef struct Extension {
  const char *word;
  int is_there;
} Extension;

#if defined(__x86_64__)
/* libc has examined the CPU already; __builtin_cpu_supports would examine it again whenever this
 * library is loaded. libc's own CPU_FEATURE_ACTIVE shifts a signed 1 into the sign. */
static int is_active(unsigned feature) {
  const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / 128);
  return leaf->active_array[feature % 128 / 32] >> feature % 32 & 1;
}
#endif

/* Whether this CPU has the feature that a word of BP_PLUGIN_DESCRIPTOR names: 0 or 1, and 0 for
 * another architecture's; -1 if the word is unknown. */
static int cpu_has(const char *word, size_t length) {
#if defined(__x86_64__)
#define HAS(feature) is_active(x86_cpu_##feature)
  int v2 = HAS(SSE4_2) && HAS(POPCNT) && HAS(SSSE3);
  int v3 = v2 && HAS(AVX2) && HAS(FMA) && HAS(BMI1) && HAS(BMI2);
  int v4 = v3 && HAS(AVX512F) && HAS(AVX512BW) && HAS(AVX512CD) && HAS(AVX512DQ) && HAS(AVX512VL);
  int avx = HAS(AVX), avx2 = HAS(AVX2), fma = HAS(FMA), avx512f = HAS(AVX512F);
#undef HAS
#else
  int v2 = 0, v3 = 0, v4 = 0, avx = 0, avx2 = 0, fma = 0, avx512f = 0;
#endif
#if defined(__aarch64__)
  unsigned long has = getauxval(AT_HWCAP);
  int lse = (has & HWCAP_ATOMICS) != 0, sve = (has & HWCAP_SVE) != 0;
#else
  int lse = 0, sve = 0;
#endif
  const Extension extensions[] = {
      {"x86-64-v2", v2}, {"x86-64-v3", v3}, {"x86-64-v4", v4},    {"avx", avx}, {"avx2", avx2},
      {"fma", fma},      {"lse", lse},      {"avx512f", avx512f}, {"sve", sve},
  };
  for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
    if (strlen(extensions[i].word) == length && !memcmp(extensions[i].word, word, length))
      return extensions[i].is_there;
  return -1;
}

static int check_isa(const char *word, size_t length) {
  int shown = (int)(length < 80 ? length : 80);
  switch (cpu_has(word, length)) {
  case 0:
    return bp__reason_raise(REASON_CPU_TOO_OLD,
                            "it needs a CPU with %.*s, which this one lacks; install a build "
                            "for an older CPU",
                            shown, word);
  case -1:
    return bp__reason_raise(REASON_CPU_TOO_OLD,
                            "it needs a CPU with %.*s, an instruction set that this host cannot "
                            "look for; install a newer backplane, or a build for an older CPU",
                            shown, word);
  default:
    return 0;
  }
}

/* isa: words that each name an instruction-set level or extension ("x86-64-v3 avx512f"); an unknown
 * word is an error. sanitizer: the sanitizer of the plugin's build ("address", "thread"), or "".
 * Code that cannot run is an error, because loading it would kill the process. */
static int check_machine(const char *isa, const char *sanitizer) {
  size_t length = 0;
  for (const char *word = isa; (word = bp__words_next(word, &length));)
    if (check_isa(word, length))
      return -1;
  int needs_runtime = strstr(sanitizer, "address") || strstr(sanitizer, "thread");
  if (needs_runtime && !strstr(sanitizer, *HOST_SANITIZER ? HOST_SANITIZER : "none"))
    return bp__reason_raise(
        REASON_SANITIZER_MISMATCH,
        "it was built with the %s sanitizer and this program was not; rebuild one "
        "of them",
        sanitizer);
  return 0;
}

static int check_fields(const Descriptor *descriptor) {
  if (check_abi(descriptor) || check_name(descriptor) ||
      check_words("provides", descriptor->provides, NAME) || check_kinds(descriptor->devices) ||
      check_words("targets", descriptor->targets, NAME) ||
      check_words("libraries", descriptor->libraries, NAME "|") ||
      check_words("package", descriptor->package, NAME) ||
      check_words("variables", descriptor->variables, NAME) || check_priority(descriptor) ||
      check_paths("nodes", descriptor->nodes) || check_paths("files", descriptor->files))
    return -1;
  if (!*descriptor->provides)
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED, "its descriptor provides nothing");
  return check_machine(descriptor->isa, descriptor->sanitizer);
}

int bp__descriptor_parse(Descriptor *descriptor, const char *text, size_t size) {
  bp__descriptor_clear(descriptor);
  while (size && !text[size - 1])
    size--;
  if (size > BP_DESCRIPTOR_MAX)
    return bp__reason_raise(REASON_DESCRIPTOR_MALFORMED, "its descriptor has more than %d bytes",
                            BP_DESCRIPTOR_MAX);
  if (check_text(text, size))
    return -1;
  descriptor->text = malloc(size + 1);
  if (!descriptor->text)
    return bp__reason_raise(REASON_RESOURCES, "there is no memory for its descriptor");
  memcpy(descriptor->text, text, size);
  descriptor->text[size] = '\0';
  return parse_lines(descriptor) || check_fields(descriptor) ? -1 : 0;
}

char *bp__descriptor_package(const Descriptor *descriptor, const char *library) {
  size_t length = 0, package_length = 0;
  const char *package = descriptor->package;
  for (const char *word = descriptor->libraries; (word = bp__words_next(word, &length));) {
    package = package ? bp__words_next(package, &package_length) : NULL;
    g_autofree char *alternatives = g_strndup(word, length);
    g_auto(GStrv) names = g_strsplit(alternatives, "|", -1);
    if (strcmp(alternatives, library) && !g_strv_contains((const char *const *)names, library))
      continue;
    return package && strncmp(package, "-", package_length) ? g_strndup(package, package_length)
                                                            : NULL;
  }
  return NULL;
}

void bp__descriptor_clear(Descriptor *descriptor) {
  free(descriptor->text);
  descriptor->text = NULL;
  for (size_t i = 0; i < NUM_KEYS; i++)
    *field_of(descriptor, &keys[i]) = "";
}
