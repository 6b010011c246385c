/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's descriptor and entry point.
 *
 * The descriptor is an ELF note (owner "Backplane", type BP_PLUGIN_NOTE_TYPE) of lines `key=value`.
 * The host reads it without loading the plugin, and ignores unknown keys. Keys, one line each:
 *
 *  - abi: BP_ABI_NEEDED_TEXT, the least ABI that the plugin needs: "1.0"
 *  - name: identifier of lower-case letters, digits and '-', unique on a machine
 *  - version: of the plugin
 *  - license: SPDX expression
 *  - description: one line
 *  - entry: the exported symbol, bp_plugin_entry_ and the name with '-' as '_'
 *  - provides: registry names, separated by spaces: device_api.X target.build.X and so on
 *  - devices (optional): device kinds, separated by spaces; none of BP_DEVICE_RESERVED_KINDS
 *  - targets (optional): target kinds, separated by spaces
 *  - libraries (optional): sonames that the plugin opens at run time, separated by spaces,
 *    alternatives by '|': "libcuda.so.1 libnvrtc.so.12|libnvrtc.so.13"
 *  - package (optional): the distribution's packages of these libraries, in the same order, '-' for
 *    an unknown one: "libcuda1 -"
 *  - priority (optional): -1000 to 1000, 0 if absent; of two plugins in one folder the one with the
 *    higher priority is asked first
 *  - nodes (optional): device nodes that it opens, absolute paths or shell patterns, separated by
 *    spaces: "/dev/dri/renderD*"
 *  - files (optional): further files and folders on which its devices depend, as nodes:
 *    "/etc/OpenCL/vendors"; also device nodes that only some of its devices need
 *  - variables (optional): environment variables that it or its vendor's libraries read, separated
 *    by spaces
 *  - isa: instruction sets that its code needs, separated by spaces: "x86-64-v3 fma"
 *  - sanitizer: "address" or "thread", if it was built with one
 *
 * BP_PLUGIN_DESCRIPTOR adds isa and sanitizer from the compiler's options. A plugin that works is
 * tried out again when a file, node or variable that the descriptor names changes, or a library
 * that the plugin loaded. A plugin exports its entry point and nothing else.
 *
 * Since: every declaration is there since ABI 1.0, unless its comment names a later version. */
#ifndef BACKPLANE_PLUGIN_H
#define BACKPLANE_PLUGIN_H

#include <backplane/device_api.h>
#include <backplane/host_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI of these headers: major in the upper half. */
#define BP_ABI_MAJOR   1
#define BP_ABI_MINOR   0
#define BP_ABI_TEXT    "1.0"
#define BP_ABI_VERSION (((uint32_t)BP_ABI_MAJOR << 16) | BP_ABI_MINOR)

/* The folder of plugins, below the library folder and below the user's data folder. Plugins of two
 * major versions are installed side by side. */
#define BP_PLUGIN_FOLDER "backplane-1/plugins"

/* The lowest minor version whose plugins a host of this ABI loads: it loads all plugins of the
 * major version. */
#define BP_ABI_OLDEST_MINOR 0
#define BP_ABI_OLDEST       (((uint32_t)BP_ABI_MAJOR << 16) | BP_ABI_OLDEST_MINOR)

/* The lowest ABI that a plugin needs. A plugin defines BP_ABI_NEEDED_MINOR before it includes these
 * headers; every host of that minor version or a later one then loads it, regardless of the headers
 * it was built with. The default is the ABI of these headers. Before a plugin reads a member that
 * was appended after the version that it needs, it checks BP_TABLE_HAS. */
#ifndef BP_ABI_NEEDED_MINOR
#define BP_ABI_NEEDED_MINOR BP_ABI_MINOR
#endif
#if BP_ABI_NEEDED_MINOR < BP_ABI_OLDEST_MINOR
#error "BP_ABI_NEEDED_MINOR is older than what hosts of this ABI load (BP_ABI_OLDEST_MINOR)"
#elif BP_ABI_NEEDED_MINOR > BP_ABI_MINOR
#error "BP_ABI_NEEDED_MINOR is newer than these headers: install a newer SDK, or ask for less"
#endif
#define BP_ABI_NEEDED                     (((uint32_t)BP_ABI_MAJOR << 16) | BP_ABI_NEEDED_MINOR)
#define BP_ABI_TEXT_OF_(major, minor)     #major "." #minor
#define BP_ABI_EXPAND_TEXT_(major, minor) BP_ABI_TEXT_OF_(major, minor)
#define BP_ABI_NEEDED_TEXT                BP_ABI_EXPAND_TEXT_(BP_ABI_MAJOR, BP_ABI_NEEDED_MINOR)

/* Returns whether a plugin that needs the ABI `needed` works in a host that has the ABI `host` and
 * loads plugins from the ABI `oldest` on. The host calls bp_abi_fits before it loads the plugin. */
static inline int32_t bp_abi_fits(uint32_t needed, uint32_t oldest, uint32_t host) {
  return oldest <= needed && needed <= host;
}

/* Words with a meaning of their own in a list of preferences for devices (docs/devices.md). */
#define BP_DEVICE_RESERVED_KINDS "auto help name pci plugin uuid"

#define BP_PLUGIN_NOTE_OWNER "Backplane"
#define BP_PLUGIN_NOTE_TYPE  0x42500001u

/* A plugin's description, which its entry point fills in. The host zeroes the structure and sets
 * struct_size before it calls the entry point; the plugin writes no member beyond struct_size. */
typedef struct BpPlugin {
  uint64_t struct_size; /* sizeof(BpPlugin) of the host's headers */
  uint32_t abi_version; /* the plugin sets BP_ABI_NEEDED */
  uint32_t reserved;    /* zero; the host refuses another value */
  void *context;        /* passed to initialize; may be NULL */
  /* Registers every name of the descriptor's `provides`, and every kind of its `targets`. Threads:
   * called once, by one thread, after the versions were compared. Returns 0, or -1 with an error
   * raised: then none of the plugin's names stay registered, and the plugin stays mapped,
   * unused. */
  int32_t (*initialize)(void *context);
} BpPlugin;

/* The entry point. The function keeps `host` and fills in `plugin`. The function does no other work
 * and accesses no hardware. host: valid for ever. plugin: borrowed for the call. Threads: called
 * once, by one thread. Returns 0, or -1 if the plugin does not support the host's abi_version. */
typedef int32_t (*BpPluginEntry)(const BpHost *host, BpPlugin *plugin);

#if !defined(__GNUC__) || !defined(__ELF__)
#error "a plugin is an ELF file, made by gcc, clang or a compiler with their extensions"
#endif

#define BP_PLUGIN_EXPORT __attribute__((visibility("default")))

/* Defines a note in the object file. `owner` and `text` are string literals. */
#define BP_ELF_NOTE(variable, section_name, owner_text, note_type, text)                           \
  __attribute__((used, aligned(4), section(section_name))) static const struct {                   \
    uint32_t name_size, text_size, type;                                                           \
    char name[(sizeof(owner_text) + 3) / 4 * 4];                                                   \
    char body[(sizeof(text) + 3) / 4 * 4];                                                         \
  } variable = {sizeof(owner_text), sizeof(text), note_type, owner_text, text}

/* The instruction sets and the sanitizer that the compiler's options select, as lines of the
 * descriptor. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) &&                      \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#define BP_PLUGIN_ISA_LEVEL "x86-64-v4"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI__) && defined(__BMI2__)
#define BP_PLUGIN_ISA_LEVEL "x86-64-v3"
#elif defined(__SSE4_2__) && defined(__SSSE3__) && defined(__POPCNT__)
#define BP_PLUGIN_ISA_LEVEL "x86-64-v2"
#else
#define BP_PLUGIN_ISA_LEVEL ""
#endif
#if defined(__AVX512F__)
#define BP_PLUGIN_ISA_EXTENSION " avx512f"
#elif defined(__AVX2__)
#define BP_PLUGIN_ISA_EXTENSION " avx2"
#elif defined(__AVX__)
#define BP_PLUGIN_ISA_EXTENSION " avx"
#elif defined(__ARM_FEATURE_SVE)
#define BP_PLUGIN_ISA_EXTENSION " sve"
#elif defined(__ARM_FEATURE_ATOMICS)
#define BP_PLUGIN_ISA_EXTENSION " lse"
#else
#define BP_PLUGIN_ISA_EXTENSION ""
#endif
#if defined(__FMA__)
#define BP_PLUGIN_ISA_FMA " fma"
#else
#define BP_PLUGIN_ISA_FMA ""
#endif
#if defined(__SANITIZE_ADDRESS__)
#define BP_PLUGIN_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define BP_PLUGIN_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_PLUGIN_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define BP_PLUGIN_SANITIZER "thread"
#endif
#endif
#ifndef BP_PLUGIN_SANITIZER
#define BP_PLUGIN_SANITIZER ""
#endif
#define BP_PLUGIN_BUILD_TEXT                                                                       \
  "isa=" BP_PLUGIN_ISA_LEVEL BP_PLUGIN_ISA_EXTENSION BP_PLUGIN_ISA_FMA                             \
  "\nsanitizer=" BP_PLUGIN_SANITIZER "\n"

/* Defines the descriptor: BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n" "name=opencl\n" ...);
 */
#define BP_PLUGIN_DESCRIPTOR(text)                                                                 \
  BP_ELF_NOTE(bp_plugin_descriptor, ".note.backplane", BP_PLUGIN_NOTE_OWNER, BP_PLUGIN_NOTE_TYPE,  \
              BP_PLUGIN_BUILD_TEXT text)

/* Defines a `.note.dlopen` (the uapi-group's ELF dlopen metadata); `json` is a literal such as
 * "[{\"feature\":\"opencl\",\"priority\":\"recommended\",\"soname\":[\"libOpenCL.so.1\"]}]". */
#define BP_PLUGIN_DLOPEN_NOTE(json)                                                                \
  BP_ELF_NOTE(bp_plugin_dlopen_note, ".note.dlopen", "FDO", 0x407c0c0au, json)

#ifdef __cplusplus
}
#endif

#endif
