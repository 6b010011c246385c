/* SPDX-License-Identifier: Apache-2.0 */
/* Reads facts of a SPIR-V binary: the size of work groups, the shared memory, the required
 * features, and the bindings. The binary may come from a file, so each fact is checked before use.
 * The instructions are not checked. */
#include "vulkan.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC        0x07230203u
#define HEADER_WORDS 5
#define MOST_IDS     (1u << 20)

/* Numbers of the SPIR-V specification. */
enum {
  OP_EXECUTION_MODE = 16,
  OP_CAPABILITY = 17,
  OP_TYPE_INT = 21,
  OP_TYPE_FLOAT = 22,
  OP_TYPE_VECTOR = 23,
  OP_TYPE_IMAGE = 25,
  OP_TYPE_ARRAY = 28,
  OP_TYPE_RUNTIME_ARRAY = 29,
  OP_TYPE_STRUCT = 30,
  OP_TYPE_POINTER = 32,
  OP_CONSTANT = 43,
  OP_VARIABLE = 59,
  OP_DECORATE = 71,
  MODE_LOCAL_SIZE = 17,
  DECORATION_BINDING = 33,
  CLASS_UNIFORM_CONSTANT = 0,
  CLASS_UNIFORM = 2,
  CLASS_WORKGROUP = 4,
  CLASS_STORAGE_BUFFER = 12,
  DIM_BUFFER = 5,
};

/* The instruction that defines an id, and two of its operands. */
typedef struct Id {
  uint32_t op;
  uint32_t a, b;
  uint32_t binding; /* plus one */
} Id;

typedef struct Reader {
  const char *name;
  Id *ids;
  uint32_t bound;
  BpVulkanNeeds *needs;
} Reader;

static int32_t damaged(const Reader *reader, const char *what) {
  return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_FORMAT, "kernel %s: its SPIR-V is damaged: %s",
                         reader->name, what);
}

/* ---- Types ------------------------------------------------------------------------------- */

static const Id *get_id(const Reader *reader, uint32_t id) {
  static const Id none = {0};
  return id < reader->bound ? &reader->ids[id] : &none;
}

/* Returns the bytes of a type that shared memory may have; 0: unknown type. */
static uint64_t type_bytes(const Reader *reader, uint32_t type) {
  uint64_t count = 1;
  for (int depth = 0; depth < 16; depth++) {
    const Id *id = get_id(reader, type);
    switch (id->op) {
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
      return count * (id->a / 8);
    case OP_TYPE_VECTOR:
      count *= id->b;
      break;
    case OP_TYPE_ARRAY:
      count *= get_id(reader, id->b)->b;
      break;
    default:
      return 0;
    }
    if (count > UINT32_MAX)
      return count;
    type = id->a;
  }
  return 0;
}

/* Returns the bytes of an element of a storage buffer, a structure whose only member is an array;
 * 0: unknown. */
static uint32_t element_bytes(const Reader *reader, const Id *block) {
  const Id *array = get_id(reader, block->a);
  if (block->op != OP_TYPE_STRUCT || array->op != OP_TYPE_RUNTIME_ARRAY)
    return 0;
  return (uint32_t)type_bytes(reader, array->a);
}

/* Returns the format of a storage texel buffer of generated kernels; VK_FORMAT_UNDEFINED for other
 * formats. */
static VkFormat texel_format(uint32_t format) {
  static const struct {
    uint32_t spirv;
    VkFormat format;
  } formats[] = {{1, VK_FORMAT_R32G32B32A32_SFLOAT}, {3, VK_FORMAT_R32_SFLOAT},
                 {21, VK_FORMAT_R32G32B32A32_SINT},  {24, VK_FORMAT_R32_SINT},
                 {30, VK_FORMAT_R32G32B32A32_UINT},  {33, VK_FORMAT_R32_UINT}};
  for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
    if (formats[i].spirv == format)
      return formats[i].format;
  }
  return VK_FORMAT_UNDEFINED;
}

/* ---- Instructions ------------------------------------------------------------------------ */

static int32_t capability(Reader *reader, uint32_t number) {
  BpVulkanFeatures *needs = &reader->needs->features;
  static const struct {
    uint32_t number;
    size_t offset;
  } known[] = {
      {9, offsetof(BpVulkanFeatures, float16)},     {10, offsetof(BpVulkanFeatures, float64)},
      {11, offsetof(BpVulkanFeatures, int64)},      {22, offsetof(BpVulkanFeatures, int16)},
      {39, offsetof(BpVulkanFeatures, int8)},       {4433, offsetof(BpVulkanFeatures, storage16)},
      {4448, offsetof(BpVulkanFeatures, storage8)}, {4467, offsetof(BpVulkanFeatures, even16)},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    if (known[i].number == number)
      *(VkBool32 *)(void *)((char *)needs + known[i].offset) = VK_TRUE;
  }
  return 0;
}

static int32_t execution_mode(Reader *reader, const uint32_t *words, uint32_t count) {
  if (count < 3 || words[2] != MODE_LOCAL_SIZE)
    return 0;
  if (count < 6 || !words[3] || !words[4] || !words[5])
    return damaged(reader, "the size of its work group");
  for (int i = 0; i < 3; i++)
    reader->needs->local_size[i] = words[3 + i];
  return 0;
}

static int32_t variable(Reader *reader, const uint32_t *words, uint32_t count) {
  if (count < 4 || words[2] >= reader->bound)
    return damaged(reader, "a variable");
  const Id *pointer = get_id(reader, words[1]);
  uint32_t binding = get_id(reader, words[2])->binding;
  BpVulkanNeeds *needs = reader->needs;
  if (pointer->op != OP_TYPE_POINTER)
    return damaged(reader, "the type of a variable");
  if (words[3] == CLASS_WORKGROUP)
    needs->shared_bytes += type_bytes(reader, pointer->b);
  if (binding == 0)
    return 0;
  const Id *type = get_id(reader, pointer->b);
  if (words[3] == CLASS_STORAGE_BUFFER) {
    needs->bindings[binding - 1] = BP_VULKAN_STORAGE;
    needs->element_bytes[binding - 1] = element_bytes(reader, type);
    return 0;
  }
  if (words[3] == CLASS_UNIFORM) {
    needs->bindings[binding - 1] = BP_VULKAN_SCALARS;
    return 0;
  }
  needs->formats[binding - 1] = texel_format(type->b);
  if (words[3] != CLASS_UNIFORM_CONSTANT || type->op != OP_TYPE_IMAGE || type->a != DIM_BUFFER ||
      needs->formats[binding - 1] == VK_FORMAT_UNDEFINED)
    return damaged(reader, "a binding that is no storage, uniform or texel buffer");
  needs->bindings[binding - 1] = BP_VULKAN_TEXELS;
  return 0;
}

static int32_t decorate(Reader *reader, const uint32_t *words, uint32_t count) {
  if (count < 4 || words[2] != DECORATION_BINDING)
    return 0;
  if (words[1] >= reader->bound || words[3] > BP_KERNEL_MAX_ARGS)
    return damaged(reader, "the number of a binding");
  reader->ids[words[1]].binding = words[3] + 1;
  return 0;
}

/* Stores operands `a` and `b` of the instruction that defines words[result]. */
static int32_t keep(Reader *reader, const uint32_t *words, uint32_t count, uint32_t result,
                    uint32_t a, uint32_t b) {
  if (result >= count || a >= count || b >= count || words[result] >= reader->bound)
    return damaged(reader, "a type or constant");
  Id *id = &reader->ids[words[result]];
  id->op = words[0] & 0xffff;
  id->a = words[a];
  id->b = words[b];
  return 0;
}

static int32_t instruction(Reader *reader, const uint32_t *words, uint32_t count) {
  switch (words[0] & 0xffff) {
  case OP_CAPABILITY:
    return count < 2 ? damaged(reader, "a capability") : capability(reader, words[1]);
  case OP_EXECUTION_MODE:
    return execution_mode(reader, words, count);
  case OP_DECORATE:
    return decorate(reader, words, count);
  case OP_TYPE_INT:
  case OP_TYPE_FLOAT:
  case OP_TYPE_RUNTIME_ARRAY:
    return keep(reader, words, count, 1, 2, 2);
  case OP_TYPE_STRUCT: /* it may have no member, and is of interest if it has one */
    return count == 3 ? keep(reader, words, count, 1, 2, 2) : 0;
  case OP_TYPE_VECTOR:
  case OP_TYPE_ARRAY:
  case OP_TYPE_POINTER:
    return keep(reader, words, count, 1, 2, 3);
  case OP_TYPE_IMAGE:
    return keep(reader, words, count, 1, 3, 8);
  case OP_CONSTANT:
    return keep(reader, words, count, 2, 1, 3);
  case OP_VARIABLE:
    return variable(reader, words, count);
  default:
    return 0;
  }
}

int32_t bp_vulkan_read_spirv(const char *name, const uint32_t *words, size_t num_words,
                             BpVulkanNeeds *needs) {
  Reader reader = {.name = name, .needs = needs};
  if (num_words < HEADER_WORDS || words[0] != MAGIC || words[3] == 0 || words[3] > MOST_IDS)
    return damaged(&reader, "its header");
  reader.bound = words[3];
  reader.ids = calloc(reader.bound, sizeof(*reader.ids));
  if (!reader.ids)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "kernel %s: out of memory", name);
  int32_t rc = 0;
  for (size_t i = HEADER_WORDS; rc == 0 && i < num_words;) {
    uint32_t count = words[i] >> 16;
    if (count == 0 || count > num_words - i)
      rc = damaged(&reader, "an instruction goes beyond its end");
    else
      rc = instruction(&reader, words + i, count);
    i += count;
  }
  if (rc == 0 && needs->local_size[0] == 0)
    rc = damaged(&reader, "it states no size of its work group");
  free(reader.ids);
  return rc;
}

/* ---- Marking arithmetic whose order must be kept ----------------------------------------- */

enum {
  OP_TYPE_FIRST = 19, /* types follow the decorations */
  OP_TYPE_LAST = 39,
  OP_F_NEGATE = 127,
  OP_F_ADD = 129,
  OP_F_SUB = 131,
  OP_F_MUL = 133,
  OP_F_DIV = 136,
  DECORATION_NO_CONTRACTION = 42,
  DECORATION_WORDS = 3,
};

static int is_float_arithmetic(uint32_t op) {
  return op == OP_F_NEGATE || op == OP_F_ADD || op == OP_F_SUB || op == OP_F_MUL || op == OP_F_DIV;
}

/* The number of words of the instruction at words[i]; 0 if the binary is damaged. */
static uint32_t instruction_words(const uint32_t *words, size_t i, size_t num_words) {
  uint32_t count = words[i] >> 16;
  return count <= num_words - i ? count : 0;
}

int32_t bp_vulkan_mark_exact(const char *name, const char *bytes, size_t size,
                             BpOwnedBytes *marked) {
  const Reader reader = {.name = name};
  const uint32_t *words = (const uint32_t *)(const void *)bytes;
  size_t num_words = size / 4, place = 0, num_marks = 0;
  for (size_t i = HEADER_WORDS, count = 1; i < num_words && count; i += count) {
    uint32_t op = words[i] & 0xffff;
    count = instruction_words(words, i, num_words);
    num_marks += is_float_arithmetic(op) && count > 2;
    if (!place && op >= OP_TYPE_FIRST && op <= OP_TYPE_LAST)
      place = i;
  }
  if (!place)
    return damaged(&reader, "it has no types");
  uint32_t *result = malloc(size + num_marks * DECORATION_WORDS * 4 + 1), *end = result;
  if (!result)
    return bp_plugin_raise(&bp_vulkan_host, BP_ERROR_MEMORY, "kernel %s: out of memory", name);
  memcpy(end, words, place * 4);
  end += place;
  for (size_t i = place, count = 1; i < num_words && count; i += count) {
    count = instruction_words(words, i, num_words);
    if (!is_float_arithmetic(words[i] & 0xffff) || count < 3)
      continue;
    *end++ = DECORATION_WORDS << 16 | OP_DECORATE;
    *end++ = words[i + 2];
    *end++ = DECORATION_NO_CONTRACTION;
  }
  memcpy(end, words + place, (num_words - place) * 4);
  end += num_words - place;
  *marked = (BpOwnedBytes){(char *)result, (size_t)(end - result) * 4, free};
  return 0;
}
