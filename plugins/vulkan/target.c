/* SPDX-License-Identifier: Apache-2.0 */
/* Target kind `vulkan`: the emitter's dialect of that name writes each kernel as GLSL, which is
 * compiled to a SPIR-V binary of its own. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>

static const BpTargetAttr attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels run over blocks of threads"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, "128", "threads in a block"},
    {BP_TARGET_THREAD_WARP_SIZE, BP_TYPE_INT, 0, "32", "threads in lock-step"},
    {BP_TARGET_MAX_SHARED_MEMORY, BP_TYPE_INT, 0, "16384", "bytes of shared memory of a block"},
    {BP_TARGET_INDEX_BITS, BP_TYPE_INT, 0, "32", "width of indices that fit; others have 64"},
    {BP_TARGET_SERIAL_WARPS, BP_TYPE_BOOL, 0, "false", "a core runs one warp after the other"},
    {BP_TARGET_NUM_CORES, BP_TYPE_INT, 0, "1", "processors"},
    {BP_TARGET_WINOGRAD, BP_TYPE_BOOL, 0, "false",
     "convolutions by Winograd's algorithm, which rounds a little more"},
    {BP_TARGET_MAX_BUFFER_BYTES, BP_TYPE_INT, 0, "134217728",
     "bytes of a tensor that a kernel takes"},
    {BP_TARGET_MAX_BUFFERS, BP_TYPE_INT, 0, "32", "tensors that a kernel takes"},
    {BP_TARGET_MAX_ITERATIONS, BP_TYPE_INT, 0, "65535",
     "iterations of a thread's loops that the driver runs, 0 for any number"},
    {"texel_buffers", BP_TYPE_BOOL, 0, "false",
     "32-bit elements that a kernel only reads are read as texels"},
    {"supports_int8", BP_TYPE_BOOL, 0, "true", "8-bit integers and bools, also in buffers"},
    {"supports_int16", BP_TYPE_BOOL, 0, "true", "16-bit integers and floats, also in buffers"},
    {BP_TARGET_SUPPORTS_INT64, BP_TYPE_BOOL, 0, "true", "64-bit integers"},
    {"supports_float64", BP_TYPE_BOOL, 0, "false", "64-bit floats"},
    {"supports_float16", BP_TYPE_BOOL, 0, "false",
     "arithmetic of 16-bit floats that rounds to even"},
};

static int32_t get_flag(const BpTarget *target, const char *attribute, int64_t *value) {
  BpValue given = {0};
  if (bp_vulkan_host.target->get_attr(target, attribute, &given) != 0)
    return -1;
  *value = given.v_int64;
  return 0;
}

static int32_t complete(void *context, BpTarget *target) {
  (void)context;
  int64_t shorts = 0, halves = 0;
  if (get_flag(target, "supports_int16", &shorts) != 0 ||
      get_flag(target, "supports_float16", &halves) != 0)
    return -1;
  if (shorts || !halves)
    return 0;
  return bp_plugin_raise(
      &bp_vulkan_host, BP_ERROR_VALUE,
      "target vulkan: -supports_float16=true needs -supports_int16=true, without which there are "
      "no 16-bit elements in buffers");
}

const BpTargetKind bp_vulkan_kind = {
    .struct_size = sizeof(BpTargetKind),
    .name = "vulkan",
    .device_type = BP_DEVICE_VULKAN,
    .ir_level = BP_IR_LEVEL,
    .attrs = attrs,
    .attr_size = sizeof(BpTargetAttr),
    .num_attrs = sizeof(attrs) / sizeof(attrs[0]),
    .description = "GLSL for Vulkan 1.2, compiled to SPIR-V",
    .complete = complete,
};

/* ---- The language ------------------------------------------------------------------------ */

/* Returns the name of the attribute that says whether a type is supported; NULL: the type always
 * is. */
static const char *attribute_of(BpDataType dtype) {
  int is_float = dtype.code == BP_DTYPE_FLOAT;
  if (dtype.code == BP_DTYPE_BOOL || dtype.bits == 32)
    return NULL;
  if (dtype.bits == 8)
    return "supports_int8";
  if (dtype.bits == 16)
    return "supports_int16";
  return is_float ? "supports_float64" : BP_TARGET_SUPPORTS_INT64;
}

static int32_t restrict_texels(BpLanguage *language, const BpTarget *target) {
  int64_t is_allowed = 0;
  if (get_flag(target, "texel_buffers", &is_allowed) != 0)
    return -1;
  if (!is_allowed)
    language->dialect.texel_param = NULL;
  return 0;
}

/* A function that is the instruction OpBitcast: the language's functions for the bits of a float16
 * are of version 4.50, which the dialect does not use. */
#define BITCAST(to, from) "spirv_instruction(id = 124) " to " bp_" to "_of_" from "(" from " x);\n"

/* The execution mode RoundingModeRTE for 16 bits. */
#define ROUND_TO_EVEN                                                                              \
  "spirv_execution_mode(extensions = [\"SPV_KHR_float_controls\"], capabilities = [4467], 4462, "  \
  "16);\n"

/* float16 as a type of the language instead of as an integer: instructions of the device load and
 * convert it. Conversions and arithmetic round to even only if the code asks for it. */
static const BpDialectType half = {
    .dtype = {BP_DTYPE_FLOAT, 16, 1},
    .compute_bits = 32,
    .name = "float16_t",
    .widen = "float($1)",
    .narrow = "float16_t($1)",
    .support = BITCAST("int16_t", "float16_t") BITCAST("uint16_t", "float16_t")
        BITCAST("float16_t", "int16_t") BITCAST("float16_t", "uint16_t") ROUND_TO_EVEN,
};

static int32_t allow_halves(BpLanguage *language, const BpTarget *target) {
  int64_t is_allowed = 0;
  if (get_flag(target, "supports_float16", &is_allowed) != 0)
    return -1;
  if (is_allowed)
    bp_language_add_halves(language, &half);
  return 0;
}

static int32_t restrict_types(BpLanguage *language, const BpTarget *target) {
  BpDialect *dialect = &language->dialect;
  int32_t count = 0;
  for (int32_t i = 0; i < dialect->num_types; i++) {
    const char *attribute = attribute_of(language->types[i].dtype);
    int64_t is_allowed = 1;
    if (attribute && get_flag(target, attribute, &is_allowed) != 0)
      return -1;
    if (is_allowed)
      language->types[count++] = language->types[i];
  }
  dialect->num_types = count;
  return 0;
}

/* Makes the dialect without the types that the target lacks. */
static int32_t make_language(const BpEmitterTable *emitter, const BpTarget *target,
                             BpLanguage *language) {
  if (bp_language_copy(&bp_vulkan_host, emitter, "glsl", language) != 0 ||
      restrict_texels(language, target) != 0 || restrict_types(language, target) != 0)
    return -1;
  return allow_halves(language, target);
}

/* ---- The module -------------------------------------------------------------------------- */

static int32_t no_memory(void) {
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "target vulkan: out of memory");
}

static uint32_t scalar_bytes(const BpIrTable *ir, const BpIrNode *function) {
  uint32_t bytes = 0;
  for (int32_t i = 0; i < ir->int_value(function); i++) {
    const BpIrNode *param = ir->operand(function, i);
    if (ir->kind(param) != BP_IR_BUFFER)
      bp_vulkan_place_scalar(ir->dtype(param), &bytes);
  }
  return bytes;
}

/* Emits a function; the scalars are in a uniform buffer if they are too many for push constants. */
static int32_t emit_function(const BpIrTable *ir, const BpEmitterTable *emitter, BpDialect dialect,
                             const BpIrModule *module, int32_t i, BpOwnedBytes *source) {
  const BpIrNode *function = ir->get_function(module, i);
  char block[96];
  snprintf(block, sizeof(block), "layout(set = 0, binding = %d, std140) uniform bp_scalars { $1 };",
           (int)ir->int_value(function));
  if (scalar_bytes(ir, function) > BP_VULKAN_PUSH_BYTES)
    dialect.scalar_block = block;
  return emitter->emit_function(module, i, &dialect, source);
}

/* Emits function i to sources[i], freed by its free_data, and all of them as one text (free). */
static int32_t emit(const BpIrTable *ir, const BpEmitterTable *emitter, const BpDialect *dialect,
                    const BpIrModule *module, BpOwnedBytes *sources, char **text) {
  size_t size = 0;
  FILE *out = open_memstream(text, &size);
  int32_t rc = out ? 0 : no_memory();
  for (int32_t i = 0; rc == 0 && i < ir->num_functions(module); i++) {
    rc = emit_function(ir, emitter, *dialect, module, i, &sources[i]);
    if (rc == 0 && fwrite(sources[i].data, 1, sources[i].size, out) != sources[i].size)
      rc = no_memory();
  }
  if (out && fclose(out) != 0 && rc == 0)
    rc = no_memory();
  return rc;
}

static BpModule *make_module(const BpIrTable *ir, const BpEmitterTable *emitter,
                             const BpDialect *dialect, const BpIrModule *module,
                             BpOwnedBytes *sources) {
  char *text = NULL;
  BpOwnedBytes binaries = {NULL, 0, NULL};
  BpModule *result = NULL;
  if (emit(ir, emitter, dialect, module, sources, &text) == 0 &&
      bp_vulkan_compile(ir, module, sources, &binaries) == 0) {
    const BpKernelCode code = {bp_vulkan_module_kind.format, {binaries.data, binaries.size}, text};
    result = bp_kernel_module_from_code(&bp_vulkan_module_kind, ir, module, &code);
  }
  free(binaries.data);
  free(text);
  return result;
}

static BpModule *build(const BpIrModule *module, const BpTarget *target) {
  BpCompilerTables compiler;
  BpLanguage language;
  if (bp_kernel_fetch_compiler(&bp_vulkan_host, "vulkan", &compiler) != 0 ||
      make_language(compiler.emitter, target, &language) != 0)
    return NULL;
  size_t count = (size_t)compiler.ir->num_functions(module);
  BpOwnedBytes *sources = calloc(count + 1, sizeof(*sources));
  if (!sources) {
    no_memory();
    return NULL;
  }
  BpModule *result = make_module(compiler.ir, compiler.emitter, &language.dialect, module, sources);
  for (size_t i = 0; i < count; i++) {
    if (sources[i].data)
      sources[i].free_data(sources[i].data);
  }
  free(sources);
  return result;
}

int bp_vulkan_build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_kernel_module_build(&bp_vulkan_module_kind, build, args, num_args, result);
}
