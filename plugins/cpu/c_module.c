/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of kind `c`: C source and the arguments to compile it. The module compiles its source
 * when a function is first asked for, on a machine whose CPU can run the code. */
#include "cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The strings of a BpCSource, in the order of its members, as they are stored. */
#define NUM_STRINGS 5
#define KIND        "c"
#define FORMAT      "backplane c 1"

typedef struct CModule {
  char *strings[NUM_STRINGS];
  pthread_mutex_t lock;
  BpModule *library; /* guarded by lock; set once */
} CModule;

enum { CPU, EXTRAS, FLAGS, FUNCTIONS, SOURCE };

static int32_t no_memory(void) {
  return bp_cpu_module_no_memory(KIND);
}

static void destroy(void *context) {
  CModule *module = context;
  bp_cpu_host.object->release(module->library);
  pthread_mutex_destroy(&module->lock);
  for (int i = 0; i < NUM_STRINGS; i++)
    free(module->strings[i]);
  free(module);
}

/* ---- Functions --------------------------------------------------------------------------- */

typedef struct Flags {
  char **items;
  size_t count;
} Flags;

static int add_flag(void *context, const char *line, size_t size) {
  Flags *flags = context;
  char *copy = strndup(line, size);
  flags->items[flags->count++] = copy;
  return copy ? 0 : -1;
}

static void free_flags(Flags *flags) {
  for (size_t i = 0; i < flags->count; i++)
    free(flags->items[i]);
  free(flags->items);
}

static int32_t compile(CModule *module) {
  BpByteArray source = {module->strings[SOURCE], strlen(module->strings[SOURCE])};
  Flags flags = {calloc(strlen(module->strings[FLAGS]) + 1, sizeof(char *)), 0};
  if (!flags.items || bp_cpu_each(module->strings[FLAGS], '\n', add_flag, &flags) != 0)
    no_memory();
  else
    module->library = bp_cpu_host.module->load_from_c(&source, (const char *const *)flags.items);
  free_flags(&flags);
  return module->library ? 0 : -1;
}

/* Returns the compiled library (transfer none); NULL with an error. */
static BpModule *get_library(CModule *module) {
  if (bp_cpu_module_check_runs(module->strings[CPU], module->strings[EXTRAS]) != 0)
    return NULL;
  pthread_mutex_lock(&module->lock);
  int32_t rc = module->library ? 0 : compile(module);
  pthread_mutex_unlock(&module->lock);
  return rc == 0 ? module->library : NULL;
}

static int32_t get_function(void *context, const char *name, BpFunction **function) {
  CModule *module = context;
  *function = NULL;
  if (!bp_cpu_module_has(module->strings[FUNCTIONS], name))
    return 0;
  BpModule *library = get_library(module);
  return library ? bp_cpu_host.module->get_function(library, name, 0, function) : -1;
}

static int32_t visit_functions(void *context,
                               int32_t (*visit)(void *visitor, const char *name,
                                                const char *signature),
                               void *visitor) {
  const CModule *module = context;
  return bp_cpu_module_visit(KIND, module->strings[FUNCTIONS], visit, visitor);
}

/* ---- Bytes and source -------------------------------------------------------------------- */

static int32_t get_property(void *context, int32_t *flags) {
  const CModule *module = context;
  *flags = bp_cpu_module_flags(module->strings[CPU], module->strings[EXTRAS]);
  return 0;
}

static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const CModule *module = context;
  const char *text = NULL;
  if (strcmp(format, "") == 0 || strcmp(format, "c") == 0)
    text = module->strings[SOURCE];
  else if (strcmp(format, "cflags") == 0)
    text = module->strings[FLAGS];
  else if (strcmp(format, "cpu") == 0)
    text = module->strings[CPU];
  *source = (BpOwnedBytes){NULL, 0, NULL};
  if (!text)
    return 0;
  char *copy = strdup(text);
  if (!copy)
    return no_memory();
  source->data = copy;
  source->size = strlen(copy);
  source->free_data = free;
  return 0;
}

/* Writes the format's name and the strings, each with its NUL. */
static int32_t save_to_bytes(void *context, BpOwnedBytes *bytes) {
  const CModule *module = context;
  size_t size = sizeof(FORMAT);
  for (int i = 0; i < NUM_STRINGS; i++)
    size += strlen(module->strings[i]) + 1;
  char *data = malloc(size);
  if (!data)
    return no_memory();
  char *end = stpcpy(data, FORMAT) + 1;
  for (int i = 0; i < NUM_STRINGS; i++)
    end = stpcpy(end, module->strings[i]) + 1;
  *bytes = (BpOwnedBytes){data, size, free};
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

static BpModule *create(const char *const *strings) {
  CModule *module = calloc(1, sizeof(*module));
  int is_complete = module != NULL;
  if (module)
    pthread_mutex_init(&module->lock, NULL);
  for (int i = 0; module && i < NUM_STRINGS; i++) {
    module->strings[i] = strdup(strings[i]);
    is_complete = is_complete && module->strings[i];
  }
  if (is_complete)
    return bp_cpu_host.module->create(&api, module);
  if (module)
    destroy(module);
  no_memory();
  return NULL;
}

BpModule *bp_cpu_c_module_create(const BpCSource *source) {
  const char *const strings[NUM_STRINGS] = {source->cpu, source->extras, source->flags,
                                            source->functions, source->source};
  return create(strings);
}

static int32_t bad_bytes(const char *what) {
  return bp_plugin_raise(&bp_cpu_host, BP_ERROR_FORMAT,
                         "module of kind c: %s; the artifact is damaged or was made by "
                         "another version",
                         what);
}

/* Finds the strings in the bytes of a module, without copying them. */
static int32_t read_strings(const BpByteArray *bytes, const char **strings) {
  const char *next = bytes->data;
  const char *end = bytes->data + bytes->size;
  if (bytes->size < sizeof(FORMAT) || memcmp(next, FORMAT, sizeof(FORMAT)) != 0)
    return bad_bytes("its bytes do not begin with \"" FORMAT "\"");
  next += sizeof(FORMAT);
  for (int i = 0; i < NUM_STRINGS; i++) {
    const char *nul = next < end ? memchr(next, '\0', (size_t)(end - next)) : NULL;
    if (!nul)
      return bad_bytes("it ends too early");
    strings[i] = next;
    next = nul + 1;
  }
  if (next != end)
    return bad_bytes("there are bytes after its end");
  return bp_cpu_find(strings[CPU]) ? 0 : bad_bytes("it names a CPU that is not known");
}

static BpModule *load(const BpByteArray *bytes) {
  const char *strings[NUM_STRINGS];
  return read_strings(bytes, strings) == 0 ? create(strings) : NULL;
}

int bp_cpu_loadbinary_c(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  return bp_cpu_module_loadbinary(KIND, load, args, num_args, result);
}
