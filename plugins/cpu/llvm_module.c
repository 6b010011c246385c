/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `llvm`: an object file for one CPU, which is linked and opened when a function is
 * first asked for, on a machine whose CPU can run the code. */
#include "llvm_gen.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KIND   "llvm"
#define FORMAT "backplane llvm 1"

/* The parts of a module in the order in which they are stored, each after its size. */
enum { CPU, EXTRAS, FUNCTIONS, IR, OBJECT, NUM_PARTS };

typedef struct LlvmModule {
  BpByteArray parts[NUM_PARTS]; /* allocated by malloc, with a NUL at each end */
  pthread_mutex_t lock;
  BpModule *library; /* guarded by lock; set once */
} LlvmModule;

static void destroy(void *context) {
  LlvmModule *module = context;
  bp_cpu_host.object->release(module->library);
  pthread_mutex_destroy(&module->lock);
  for (int i = 0; i < NUM_PARTS; i++)
    free((void *)(uintptr_t)module->parts[i].data);
  free(module);
}

static int32_t no_memory(void) {
  return bp_cpu_module_no_memory(KIND);
}

/* ---- Functions --------------------------------------------------------------------------- */

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  LlvmModule *module = context;
  *function = NULL;
  if (!bp_cpu_module_has(module->parts[FUNCTIONS].data, name))
    return 0;
  if (bp_cpu_module_check_runs(module->parts[CPU].data, module->parts[EXTRAS].data) != 0)
    return -1;
  pthread_mutex_lock(&module->lock);
  if (!module->library)
    module->library = bp_cpu_host.module->load_from_object(&module->parts[OBJECT]);
  BpModule *library = module->library;
  pthread_mutex_unlock(&module->lock);
  return library ? bp_cpu_host.module->get_function(library, name, 0, function) : -1;
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const LlvmModule *module = context;
  return bp_cpu_module_visit(KIND, module->parts[FUNCTIONS].data, visit, visitor);
}

/* ---- Bytes and source -------------------------------------------------------------------- */

static int32_t get_property(void *context, int32_t *flags) {
  const LlvmModule *module = context;
  *flags = bp_cpu_module_flags(module->parts[CPU].data, module->parts[EXTRAS].data);
  return 0;
}

static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const LlvmModule *module = context;
  int part = strcmp(format, "o") == 0                         ? OBJECT
             : strcmp(format, "cpu") == 0                     ? CPU
             : format[0] == '\0' || strcmp(format, "ll") == 0 ? IR
                                                              : -1;
  *source = (BpOwnedBytes){NULL, 0, NULL};
  if (part < 0)
    return 0;
  char *copy = malloc(module->parts[part].size + 1);
  if (!copy)
    return no_memory();
  memcpy(copy, module->parts[part].data, module->parts[part].size + 1);
  source->data = copy;
  source->size = module->parts[part].size;
  source->free_data = free;
  return 0;
}

static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const LlvmModule *module = context;
  size_t size = sizeof(FORMAT);
  for (int i = 0; i < NUM_PARTS; i++)
    size += sizeof(uint64_t) + module->parts[i].size;
  char *data = malloc(size);
  if (!data)
    return no_memory();
  char *end = stpcpy(data, FORMAT) + 1;
  for (int i = 0; i < NUM_PARTS; i++) {
    uint64_t part_size = module->parts[i].size;
    memcpy(end, &part_size, sizeof(part_size));
    memcpy(end + sizeof(part_size), module->parts[i].data, part_size);
    end += sizeof(part_size) + part_size;
  }
  bytes->data = data;
  bytes->size = size;
  bytes->free_data = free;
  return 0;
}

static const BpModuleApi api = {
    .struct_size = sizeof(BpModuleApi),
    .kind = KIND,
    .get_function = get_function,
    .get_property = get_property,
    .save_to_bytes = save_to_bytes,
    .get_source = get_source,
    .visit_functions = visit_functions,
    .destroy = destroy,
};

/* ---- Making modules ---------------------------------------------------------------------- */

static BpModule *create(const BpByteArray *parts) {
  LlvmModule *module = calloc(1, sizeof(*module));
  int is_complete = module != NULL;
  if (module)
    pthread_mutex_init(&module->lock, NULL);
  for (int i = 0; module && i < NUM_PARTS; i++) {
    char *copy = malloc(parts[i].size + 1);
    is_complete = is_complete && copy;
    if (!copy)
      continue;
    memcpy(copy, parts[i].data, parts[i].size);
    copy[parts[i].size] = '\0';
    module->parts[i] = (BpByteArray){copy, parts[i].size};
  }
  if (is_complete)
    return bp_cpu_host.module->create(&api, module);
  if (module)
    destroy(module);
  no_memory();
  return NULL;
}

BpModule *bp_cpu_llvm_module_create(const BpLlvmCode *code) {
  const BpByteArray parts[NUM_PARTS] = {
      [CPU] = {code->cpu, strlen(code->cpu)},
      [EXTRAS] = {code->extras, strlen(code->extras)},
      [FUNCTIONS] = {code->functions, strlen(code->functions)},
      [IR] = code->ir,
      [OBJECT] = code->object,
  };
  return create(parts);
}

static int32_t bad_bytes(const char *what) {
  return bp_plugin_raise(&bp_cpu_host, BP_ERROR_FORMAT,
                         "module of kind llvm: %s; the artifact is damaged or was made by "
                         "another version",
                         what);
}

/* Finds the parts in the bytes of a module, without copying them. */
static int32_t read_parts(const BpByteArray *bytes, BpByteArray *parts) {
  const char *next = bytes->data + sizeof(FORMAT);
  const char *end = bytes->data + bytes->size;
  if (bytes->size < sizeof(FORMAT) || memcmp(bytes->data, FORMAT, sizeof(FORMAT)) != 0)
    return bad_bytes("its bytes do not begin with \"" FORMAT "\"");
  for (int i = 0; i < NUM_PARTS; i++) {
    uint64_t size = 0;
    if ((size_t)(end - next) < sizeof(size))
      return bad_bytes("it ends too early");
    memcpy(&size, next, sizeof(size));
    next += sizeof(size);
    if (size > (uint64_t)(end - next))
      return bad_bytes("it ends too early");
    if (i != OBJECT && memchr(next, '\0', size))
      return bad_bytes("a NUL is in one of its texts");
    parts[i] = (BpByteArray){next, size};
    next += size;
  }
  return next == end ? 0 : bad_bytes("there are bytes after its end");
}

static BpModule *load(const BpByteArray *bytes) {
  BpByteArray parts[NUM_PARTS];
  char name[64];
  if (read_parts(bytes, parts) != 0)
    return NULL;
  size_t size = parts[CPU].size < sizeof(name) ? parts[CPU].size : 0;
  memcpy(name, parts[CPU].data, size);
  name[size] = '\0';
  if (!bp_cpu_find(name)) {
    bad_bytes("it names a CPU that is not known");
    return NULL;
  }
  return create(parts);
}

int bp_cpu_loadbinary_llvm(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_cpu_module_loadbinary(KIND, load, args, num_args, result);
}
