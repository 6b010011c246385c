/* SPDX-License-Identifier: Apache-2.0 */
/* Code generators, kept as they are: target kind `frozen-walk` reads the IR by itself and writes C,
 * `frozen-c` emits C by a copy of the host's dialect, and the modules of `frozen-text` give what
 * each of the host's dialects emits as source. */
#include <backplane/kernel_helpers.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

BP_PLUGIN_DESCRIPTOR("abi=" BP_ABI_NEEDED_TEXT "\n"
                     "name=frozen-generator\n"
                     "version=1.0\n"
                     "license=Apache-2.0\n"
                     "description=Code generators that do not change\n"
                     "entry=bp_plugin_entry_frozen_generator\n"
                     "provides=target.build.frozen-walk target.build.frozen-c "
                     "target.build.frozen-text\n"
                     "targets=frozen-walk frozen-c frozen-text\n");

static BpPluginTables host;

static const void *table(const char *name, uint32_t version) {
  return host.host->get_table(host.host, name, version);
}

/* ---- C by a walk over the IR ------------------------------------------------------------- */

typedef struct Walk {
  const BpIrTable *ir;
  const BpIrNode *function;
  FILE *out;
  int32_t failed;
} Walk;

static int32_t find_parameter(const Walk *walk, const BpIrNode *buffer) {
  for (int32_t i = 0; i < walk->ir->int_value(walk->function); i++)
    if (walk->ir->operand(walk->function, i) == buffer)
      return i;
  return -1;
}

static const char *operator_of(int32_t kind) {
  switch (kind) {
  case BP_IR_ADD:
    return "+";
  case BP_IR_SUB:
    return "-";
  case BP_IR_MUL:
    return "*";
  case BP_IR_GT:
    return ">";
  case BP_IR_LT:
    return "<";
  default:
    return NULL;
  }
}

static void fail(Walk *walk, const BpIrNode *node) {
  if (!walk->failed)
    bp_plugin_raise(&host, BP_ERROR_NOT_IMPLEMENTED, "frozen-walk: %s",
                    walk->ir->kind_name(walk->ir->kind(node)));
  walk->failed = 1;
}

static void write_expression(Walk *walk, const BpIrNode *node) {
  const BpIrTable *ir = walk->ir;
  int32_t kind = ir->kind(node);
  const char *sign = operator_of(kind);
  if (sign) {
    fputc('(', walk->out);
    write_expression(walk, ir->operand(node, 0));
    fprintf(walk->out, " %s ", sign);
    write_expression(walk, ir->operand(node, 1));
    fputc(')', walk->out);
  } else if (kind == BP_IR_INT_IMM) {
    fprintf(walk->out, "%" PRId64, ir->int_value(node));
  } else if (kind == BP_IR_FLOAT_IMM) {
    fprintf(walk->out, "(float)%.17g", ir->float_value(node));
  } else if (kind == BP_IR_VAR) {
    fprintf(walk->out, "v%llx", (unsigned long long)(uintptr_t)node);
  } else if (kind == BP_IR_SELECT) {
    fputc('(', walk->out);
    write_expression(walk, ir->operand(node, 0));
    fputs(" ? ", walk->out);
    write_expression(walk, ir->operand(node, 1));
    fputs(" : ", walk->out);
    write_expression(walk, ir->operand(node, 2));
    fputc(')', walk->out);
  } else if (kind == BP_IR_LOAD && ir->num_operands(node) == 2) {
    fprintf(walk->out, "p%d[", find_parameter(walk, ir->operand(node, 0)));
    write_expression(walk, ir->operand(node, 1));
    fputc(']', walk->out);
  } else {
    fail(walk, node);
  }
}

static void write_loop(Walk *walk, const BpIrNode *node);

static void write_statement(Walk *walk, const BpIrNode *node) {
  const BpIrTable *ir = walk->ir;
  int32_t kind = ir->kind(node);
  if (kind == BP_IR_SEQ) {
    for (int32_t i = 0; i < ir->num_operands(node); i++)
      write_statement(walk, ir->operand(node, i));
  } else if (kind == BP_IR_STORE && ir->num_operands(node) == 3) {
    fprintf(walk->out, "p%d[", find_parameter(walk, ir->operand(node, 0)));
    write_expression(walk, ir->operand(node, 1));
    fputs("] = ", walk->out);
    write_expression(walk, ir->operand(node, 2));
    fputs(";\n", walk->out);
  } else if (kind == BP_IR_FOR) {
    write_loop(walk, node);
  } else {
    fail(walk, node);
  }
}

static void write_loop(Walk *walk, const BpIrNode *node) {
  unsigned long long var = (unsigned long long)(uintptr_t)walk->ir->operand(node, 0);
  fprintf(walk->out, "for (int64_t v%llx = ", var);
  write_expression(walk, walk->ir->operand(node, 1));
  fprintf(walk->out, ", n%llx = ", var);
  write_expression(walk, walk->ir->operand(node, 2));
  fprintf(walk->out, "; n%llx > 0; n%llx--, v%llx++) {\n", var, var, var);
  write_statement(walk, walk->ir->operand(node, 3));
  fputs("}\n", walk->out);
}

static void write_function(Walk *walk) {
  const BpIrTable *ir = walk->ir;
  int32_t num_parameters = (int32_t)ir->int_value(walk->function);
  fprintf(walk->out,
          "int __tvm_ffi_%s(void *self, const Value *args, int32_t num_args, Value *result) {\n"
          "if (num_args != %d) return -1;\n",
          ir->str_value(walk->function), num_parameters);
  for (int32_t i = 0; i < num_parameters; i++) {
    BpDataType dtype = ir->dtype(ir->operand(walk->function, i));
    if (ir->kind(ir->operand(walk->function, i)) != BP_IR_BUFFER || dtype.bits != 32 ||
        dtype.code != BP_DTYPE_FLOAT)
      fail(walk, ir->operand(walk->function, i));
    fprintf(walk->out, "float *p%d = (float *)(args[%d].view->data + args[%d].view->offset);\n", i,
            i, i);
  }
  write_statement(walk, ir->operand(walk->function, ir->num_operands(walk->function) - 1));
  fputs("return 0;\n}\n", walk->out);
}

static BpModule *build_by_walk(const BpIrModule *module) {
  static const char head[] =
      "#include <stdint.h>\n"
      "typedef struct { char *data; int32_t device[2], ndim, dtype; int64_t *shape, *strides;\n"
      "uint64_t offset; } View;\n"
      "typedef struct { int32_t type, padding; View *view; } Value;\n";
  char *text = NULL;
  size_t size = 0;
  Walk walk = {.ir = (const BpIrTable *)table(BP_TABLE_IR, BP_TABLE_IR_VERSION),
               .out = open_memstream(&text, &size)};
  if (!walk.ir || !walk.out)
    return NULL;
  fputs(head, walk.out);
  for (int32_t i = 0; i < walk.ir->num_functions(module); i++) {
    walk.function = walk.ir->get_function(module, i);
    write_function(&walk);
  }
  fclose(walk.out);
  const BpByteArray source = {text, size};
  static const char *const flags[] = {"-O1", NULL};
  BpModule *library = walk.failed ? NULL : host.module->load_from_c(&source, flags);
  free(text);
  return library;
}

/* ---- C by the emitter -------------------------------------------------------------------- */

static int32_t emit(const BpIrModule *module, const char *name, BpOwnedBytes *text) {
  const BpEmitterTable *emitter =
      (const BpEmitterTable *)table(BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  BpDialect dialect;
  if (!emitter)
    return bp_plugin_raise(&host, BP_ERROR_NOT_FOUND, "no emitter");
  return bp_kernel_copy_dialect(emitter, name, &dialect) || emitter->emit(module, &dialect, text)
             ? -1
             : 0;
}

static BpModule *build_by_emitter(const BpIrModule *module) {
  static const char *const flags[] = {NULL};
  BpOwnedBytes text;
  if (emit(module, "c", &text))
    return NULL;
  const BpByteArray source = {text.data, text.size};
  BpModule *library = host.module->load_from_c(&source, flags);
  text.free_data(text.data);
  return library;
}

/* ---- Modules that are texts -------------------------------------------------------------- */

static const char *const dialects[] = {"c", "opencl", "cuda", "glsl"};
#define NUM_DIALECTS 4

typedef struct Texts {
  BpOwnedBytes of[NUM_DIALECTS];
} Texts;

static int32_t get_no_function(void *context, const char *name, BpFunction **function) {
  (void)context, (void)name;
  *function = NULL;
  return 0;
}

static int32_t get_source(void *context, const char *format, BpOwnedBytes *source) {
  const Texts *texts = (const Texts *)context;
  *source = (BpOwnedBytes){NULL, 0, NULL};
  for (int32_t i = 0; i < NUM_DIALECTS; i++)
    if (strcmp(format, dialects[i]) == 0 && texts->of[i].data)
      *source = (BpOwnedBytes){strdup(texts->of[i].data), texts->of[i].size, free};
  return 0;
}

static void free_texts(void *context) {
  Texts *texts = (Texts *)context;
  for (int32_t i = 0; i < NUM_DIALECTS; i++)
    if (texts->of[i].free_data)
      texts->of[i].free_data(texts->of[i].data);
  free(texts);
}

static const BpModuleApi texts_api = {.struct_size = sizeof(BpModuleApi),
                                      .kind = "frozen-text",
                                      .get_function = get_no_function,
                                      .get_source = get_source,
                                      .destroy = free_texts};

static BpModule *build_texts(const BpIrModule *module) {
  Texts *texts = (Texts *)bp_plugin_calloc(&host, sizeof *texts);
  for (int32_t i = 1; texts && i < NUM_DIALECTS; i++)
    if (emit(module, dialects[i], &texts->of[i])) {
      free_texts(texts);
      return NULL;
    }
  return texts ? host.module->create(&texts_api, texts) : NULL;
}

/* ---- The plugin -------------------------------------------------------------------------- */

static const BpTargetAttr attrs[] = {
    {BP_TARGET_THREAD_AXES, BP_TYPE_BOOL, 0, "true", "kernels over thread axes"},
    {BP_TARGET_MAX_NUM_THREADS, BP_TYPE_INT, 0, "64", "threads in a block"},
};

typedef struct Generator {
  BpTargetKind kind;
  BpModule *(*build)(const BpIrModule *module);
} Generator;

#define KIND(text)                                                                                 \
  .struct_size = sizeof(BpTargetKind), .name = (text), .device_type = BP_DEVICE_CPU,               \
  .ir_level = 1, .attrs = attrs, .attr_size = sizeof(BpTargetAttr), .description = "Frozen"

static const Generator generators[] = {
    {{KIND("frozen-walk")}, build_by_walk},
    {{KIND("frozen-c")}, build_by_emitter},
    {{KIND("frozen-text"), .num_attrs = 2}, build_texts},
};

static int build(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  const Generator *generator = (const Generator *)((BpClosure *)self)->context;
  if (num_args != 2 || args[0].type_index != BP_TYPE_IR_MODULE)
    return bp_plugin_raise(&host, BP_ERROR_TYPE, "a generator takes an IR module and a target");
  return bp_plugin_answer_module(result, generator->build((const BpIrModule *)args[0].v_ptr));
}

static int32_t initialize(void *context) {
  char name[64];
  (void)context;
  for (size_t i = 0; i < sizeof generators / sizeof *generators; i++) {
    snprintf(name, sizeof name, "target.build.%s", generators[i].kind.name);
    if (host.target->register_kind(&generators[i].kind) ||
        bp_plugin_register(&host, name, build, (void *)(uintptr_t)&generators[i]))
      return -1;
  }
  return 0;
}

BP_PLUGIN_EXPORT int32_t bp_plugin_entry_frozen_generator(const BpHost *from, BpPlugin *plugin);
BP_PLUGIN_EXPORT int32_t bp_plugin_entry_frozen_generator(const BpHost *from, BpPlugin *plugin) {
  plugin->abi_version = BP_ABI_NEEDED;
  plugin->initialize = initialize;
  return bp_plugin_fetch_tables(from, &host);
}
