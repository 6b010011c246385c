/* SPDX-License-Identifier: Apache-2.0 */
/* Generated code agrees with the reference interpreter: for every construct, every data type and
 * several vector lengths, on every target kind of the CPU. */

#include <backplane/emitter_api.h>
#include <dlfcn.h>

#include "tests/plugins/plugin-util.h"

/* How code is checked. Code for a device that may be missing is compiled and not run. */
typedef enum Check { CHECK_RUN, CHECK_NVRTC, CHECK_CLANG } Check;

/* A target of generated code. */
typedef struct CodeTarget {
  const char *name;
  const char *text;
  Check check;
  int lanes;           /* lanes of vectors in operations; compiling wide vectors can take minutes */
  const char *doubles; /* supported float64 functions, each in spaces; NULL: all */
} CodeTarget;

/* Whether the machine has what the target's code needs; otherwise the test is skipped. */
static gboolean is_ready(const CodeTarget *target) {
  if (target->check == CHECK_RUN)
    return has_device_for(target->text);
  if (target->check == CHECK_NVRTC) {
    if (!g_getenv("BP_TEST_NVRTC"))
      g_test_skip("BP_TEST_NVRTC names no NVRTC");
    return g_getenv("BP_TEST_NVRTC") != NULL;
  }
  g_autofree char *clang = g_find_program_in_path("clang");
  if (!clang)
    g_test_skip("there is no clang");
  return clang != NULL;
}

/* Clang compiles the source as OpenCL C of a device that has every extension. */
static void check_opencl(BpModule *built) {
  BpOwnedBytes source;
  char *path = NULL, *log = NULL;
  int status = -1;
  assert_ok(bp_module_get_source(built, "", &source));
  int file = g_file_open_tmp("backplane-XXXXXX.cl", &path, NULL);
  g_assert_cmpint(file, >=, 0);
  close(file);
  g_assert_true(g_file_set_contents(path, source.data, (gssize)source.size, NULL));
  char *args[] = {"clang",
                  "-cl-std=CL1.2",
                  "-Xclang",
                  "-finclude-default-header",
                  "-target",
                  "spir64",
                  "-fsyntax-only",
                  "-Werror=implicit-function-declaration",
                  path,
                  NULL};
  g_assert_true(
      g_spawn_sync(NULL, args, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, &log, &status, NULL));
  if (status != 0)
    g_error("%s\n%s", log, source.data);
  bp_owned_bytes_clear(&source);
  unlink(path);
  g_free(path);
  g_free(log);
}

/* Whether NVRTC has an option to compile in less time, as it does since CUDA 12.8. */
static gboolean nvrtc_has_fast_compile(void) {
  void *library = dlopen(g_getenv("BP_TEST_NVRTC"), RTLD_NOW | RTLD_LOCAL);
  int (*version)(int *major, int *minor) = NULL;
  if (library)
    *(void **)&version = dlsym(library, "nvrtcVersion");
  int major = 0, minor = 0;
  return version && version(&major, &minor) == 0 && (major > 12 || (major == 12 && minor >= 8));
}

/* NVRTC optimizes for a minute. The test does not run the code, and NVRTC accepts the same code
 * without optimization. */
static const char *options_of(const CodeTarget *target) {
  if (target->check != CHECK_NVRTC || g_getenv("BP_TEST_LONG") || !nvrtc_has_fast_compile())
    return "";
  return " -options=-Ofc=max";
}

/* Checks that all functions of a text agree, or at least compile. */
static void check_text(const char *text, const CodeTarget *target) {
  if (target->check == CHECK_RUN) {
    assert_text_agrees(text, target->text);
    return;
  }
  BpIrModule *module = parse_verified(text);
  g_autofree char *compiled_for = g_strconcat(target->text, options_of(target), NULL);
  BpModule *built = build_ok(module, compiled_for);
  if (target->check == CHECK_CLANG)
    check_opencl(built);
  bp_object_release(built);
  bp_object_release(module);
}

/* ---- Operations over data types and lanes ------------------------------------------------ */

/* An expression over @a and @b, of type @T with @L lanes; `types` lists the types to test. */
typedef struct Operation {
  const char *name;
  const char *expression;
  const char *types;
  const char *result; /* type of the result, or NULL: @T */
} Operation;

#define INTS   "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
#define FLOATS "float16 bfloat16 float32 float64"
#define ALL    INTS " " FLOATS
/* Float types that hold every power of two that an integer type holds. */
#define WIDE_FLOATS "bfloat16 float32 float64"

#define FUNCTION_OF(name, types)                                                                   \
  { #name, "(call @T@X intrinsic \"" #name "\" @a)", types, NULL }
#define FUNCTION(name)      FUNCTION_OF(name, "float32 float64")
#define HALF_FUNCTION(name) FUNCTION_OF(name, "float16 float32 float64")

static const Operation operations[] = {
    {"add", "(add @a @b)", ALL, NULL},
    {"sub", "(sub @a @b)", ALL, NULL},
    {"mul", "(mul @a @b)", ALL, NULL},
    {"div", "(div @a @b)", INTS, NULL},
    {"fdiv", "(div @a @b)", FLOATS, NULL},
    {"div_const", "(div @a @7)", INTS, NULL},
    {"mod", "(mod @a @b)", INTS, NULL},
    {"mod_const", "(mod @a @7)", INTS, NULL},
    {"floordiv", "(floordiv @a @b)", INTS, NULL},
    {"floordiv_const", "(floordiv @a @7)", INTS, NULL},
    {"floordiv_power", "(floordiv @a @8)", INTS, NULL},
    {"floormod", "(floormod @a @b)", INTS, NULL},
    {"floormod_const", "(floormod @a @7)", INTS, NULL},
    {"floormod_power", "(floormod @a @8)", INTS, NULL},
    {"min", "(min @a @b)", ALL, NULL},
    {"max", "(max @a @b)", ALL, NULL},
    {"max_zero", "(max @a @0)", ALL, NULL},
    {"min_const", "(min @7 @a)", ALL, NULL},
    {"eq", "(eq @a @b)", ALL, "bool"},
    {"ne", "(ne @a @b)", ALL, "bool"},
    {"lt", "(lt @a @b)", ALL, "bool"},
    {"le", "(le @a @b)", ALL, "bool"},
    {"gt", "(gt @a @b)", ALL, "bool"},
    {"ge", "(ge @a @b)", ALL, "bool"},
    {"and", "(and (lt @a @b) (lt @0 @b))", ALL, "bool"},
    {"or", "(or (lt @a @b) (not (lt @0 @b)))", ALL, "bool"},
    {"bool_and", "(and @a @b)", "bool", NULL},
    {"bool_or_not", "(or @a (not @b))", "bool", NULL},
    {"bool_eq", "(eq @a @b)", "bool", NULL},
    {"bool_select", "(select @a @b (not @b))", "bool", NULL},
    {"bit_and", "(bit_and @a @b)", INTS, NULL},
    {"bit_or", "(bit_or @a @b)", INTS, NULL},
    {"bit_xor", "(bit_xor @a @b)", INTS, NULL},
    {"shl", "(shl @a @b)", INTS, NULL},
    {"shr", "(shr @a @b)", INTS, NULL},
    {"shl_little", "(shl @a (bit_and @b @7))", INTS, NULL},
    {"shr_little", "(shr @a (bit_and @b @7))", INTS, NULL},
    {"select", "(select (lt @a @b) @a @b)", ALL, NULL},
    {"twice", "(mul (add @a @b) (add @a @b))", ALL, NULL},
    {"to_int64", "(cast int64@X @a)", ALL " bool", "int64"},
    {"to_uint8", "(cast uint8@X @a)", ALL " bool", "uint8"},
    {"far_to_int8", "(cast int8@X (mul @a @2p14))", FLOATS, "int8"},
    {"far_to_uint8", "(cast uint8@X (mul @a @2p14))", FLOATS, "uint8"},
    {"far_to_int16", "(cast int16@X (mul @a @2p14))", FLOATS, "int16"},
    {"far_to_uint16", "(cast uint16@X (mul @a @2p14))", FLOATS, "uint16"},
    {"far_to_int32", "(cast int32@X (mul @a @2p30))", WIDE_FLOATS, "int32"},
    {"far_to_uint32", "(cast uint32@X (mul @a @2p30))", WIDE_FLOATS, "uint32"},
    {"far_to_int64", "(cast int64@X (mul @a @2p62))", WIDE_FLOATS, "int64"},
    {"far_to_uint64", "(cast uint64@X (mul @a @2p62))", WIDE_FLOATS, "uint64"},
    {"to_float32", "(cast float32@X @a)", ALL " bool", "float32"},
    {"to_float64", "(cast float64@X @a)", ALL " bool", "float64"},
    {"to_float16", "(cast float16@X @a)", ALL " bool", "float16"},
    {"to_bfloat16", "(cast bfloat16@X @a)", ALL " bool", "bfloat16"},
    {"to_bool", "(cast bool@X @a)", ALL, "bool"},
    {"near_to_int", "(cast int32@X (call @T@X intrinsic \"round\" (max (min @a @7) @0)))",
     "float32", "int32"},
    {"bits_to_int", "(reinterpret int32@X @a)", "float32", "int32"},
    {"bits_to_float", "(reinterpret float64@X @a)", "int64 uint64", "float64"},
    {"bits_of_constant", "(bit_xor (reinterpret int8@X @a) (reinterpret int8@X @7))", "uint8",
     "int8"},
    {"bits_of_half", "(reinterpret int16@X @a)", "float16 bfloat16", "int16"},
    {"abs", "(call @T@X intrinsic \"abs\" @a)", ALL, NULL},
    {"popcount", "(call @T@X intrinsic \"popcount\" @a)", INTS, NULL},
    {"dot4_us", "(call @T@X intrinsic \"dot4_us\" @a @b (mul @a @b))", "int32", NULL},
    {"dot4_us_alone", "(add @b (call @T@X intrinsic \"dot4_us\" @b @a @0))", "int32", NULL},
    {"isnan", "(call bool@X intrinsic \"isnan\" @a)", FLOATS, "bool"},
    {"isinf", "(call bool@X intrinsic \"isinf\" @a)", FLOATS, "bool"},
    {"fma", "(call @T@X intrinsic \"fma\" (mul @a @a) (mul @b @b) @7)", "float16 float32 float64",
     NULL},
    {"pow", "(call @T@X intrinsic \"pow\" (call @T@X intrinsic \"abs\" @a) @b)", "float32 float64",
     NULL},
    {"fmod", "(call @T@X intrinsic \"fmod\" @a @7)", "float32 float64", NULL},
    {"atan2", "(call @T@X intrinsic \"atan2\" @a @b)", "float32 float64", NULL},
    {"copysign", "(call @T@X intrinsic \"copysign\" @a @b)", "float16 float32 float64", NULL},
    HALF_FUNCTION(exp),
    FUNCTION(exp2),
    FUNCTION(expm1),
    HALF_FUNCTION(log),
    FUNCTION(log2),
    FUNCTION(log10),
    FUNCTION(log1p),
    HALF_FUNCTION(sqrt),
    FUNCTION(rsqrt),
    FUNCTION(sin),
    FUNCTION(cos),
    FUNCTION(tan),
    FUNCTION(asin),
    FUNCTION(acos),
    FUNCTION(atan),
    FUNCTION(sinh),
    FUNCTION(cosh),
    HALF_FUNCTION(tanh),
    FUNCTION(asinh),
    FUNCTION(acosh),
    FUNCTION(atanh),
    FUNCTION(erf),
    FUNCTION(sigmoid),
    HALF_FUNCTION(floor),
    HALF_FUNCTION(ceil),
    HALF_FUNCTION(trunc),
    HALF_FUNCTION(round),
};

static void replace(GString *text, const char *what, const char *with) {
  char **parts = g_strsplit(text->str, what, -1);
  char *joined = g_strjoinv(with, parts);
  g_string_assign(text, joined);
  g_free(joined);
  g_strfreev(parts);
}

/* A constant of the type, broadcast to the lanes. */
static void replace_constant(GString *text, const char *what, const char *number, const char *type,
                             int lanes) {
  char *scalar = g_strdup_printf("%s:%s", number, type);
  char *vector =
      lanes == 1 ? g_strdup(scalar) : g_strdup_printf("(broadcast %s %d)", scalar, lanes);
  replace(text, what, vector);
  g_free(scalar);
  g_free(vector);
}

/* Appends a loop that applies the expression to 64 elements and stores them from `first` on. */
static void append_loop(GString *body, const char *expression, const char *type, int lanes,
                        int first) {
  GString *text = g_string_new(NULL);
  char *lanes_text = lanes == 1 ? g_strdup("") : g_strdup_printf("x%d", lanes);
  char *index =
      lanes == 1 ? g_strdup("i") : g_strdup_printf("(ramp (mul i %d) 1 %d)", lanes, lanes);
  char *place = lanes == 1
                    ? g_strdup_printf("(add i %d)", first)
                    : g_strdup_printf("(ramp (add (mul i %d) %d) 1 %d)", lanes, first, lanes);
  g_string_printf(text, "(for i:int64 0 %d serial (store C %s %s))\n", 64 / lanes, place,
                  expression);
  replace_constant(text, "@2p14", "16384", type, lanes);
  replace_constant(text, "@2p30", "1073741824", type, lanes);
  replace_constant(text, "@2p62", "4611686018427387904", type, lanes);
  replace(text, "@a", "(load A @i)");
  replace(text, "@b", "(load B @i)");
  replace(text, "@i", index);
  replace(text, "@X", lanes_text);
  replace(text, "@T", type);
  replace_constant(text, "@0", "0", type, lanes);
  replace_constant(text, "@1", "1", type, lanes);
  replace_constant(text, "@7", "7", type, lanes);
  replace_constant(text, "@8", "8", type, lanes);
  g_string_append(body, text->str);
  g_string_free(text, TRUE);
  g_free(lanes_text);
  g_free(index);
  g_free(place);
}

/* Whether the language has the function that an operation calls; not every language has all of them
 * for float64. */
static gboolean has_call(const CodeTarget *target, const Operation *operation, const char *type) {
  const char *call = strstr(operation->expression, "intrinsic \"");
  if (!call || !target->doubles || strcmp(type, "float64"))
    return TRUE;
  call += strlen("intrinsic \"");
  char *name = g_strndup(call, strcspn(call, "\""));
  char *spaced = g_strdup_printf(" %s ", name);
  gboolean has = strstr(target->doubles, spaced) != NULL;
  g_free(spaced);
  g_free(name);
  return has;
}

static gboolean is_for(const Operation *operation, const char *type, const char *result) {
  char **types = g_strsplit(operation->types, " ", -1);
  gboolean found = g_strv_contains((const char *const *)types, type);
  g_strfreev(types);
  return found && !strcmp(operation->result ? operation->result : type, result);
}

/* Adds a function of all operations on a type with that result; operation i stores its 64 elements
 * from 64 i on. Devices' compilers take long for each function, so there are few functions. */
static void add_function(const CodeTarget *target, GString *module, const char *type,
                         const char *result, int lanes) {
  GString *body = g_string_new(NULL);
  int count = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(operations); i++)
    if (is_for(&operations[i], type, result) && has_call(target, &operations[i], type)) {
      append_loop(body, operations[i].expression, type, lanes, 64 * count++);
    }
  if (count > 0)
    g_string_append_printf(module,
                           "(function \"%s_%s_%d\" (buffer A %s global 64)"
                           " (buffer B %s global 64) (buffer C %s global %d)"
                           " (attr \"noalias\" 1) (seq %s))\n",
                           type, result, lanes, type, type, result, 64 * count, body->str);
  g_string_free(body, TRUE);
}

static void test_operations_agree_with_the_interpreter(gconstpointer data) {
  const CodeTarget *target = data;
  if (!is_ready(target))
    return;
  char **types = g_strsplit(ALL " bool", " ", -1);
  GString *module = g_string_new("(module\n");
  for (char **type = types; *type; type++)
    for (char **result = types; *result; result++) {
      if (target->check != CHECK_NVRTC)
        add_function(target, module, *type, *result, 1);
      if (target->lanes > 1)
        add_function(target, module, *type, *result, target->lanes);
    }
  g_string_append(module, ")\n");
  check_text(module->str, target);
  g_string_free(module, TRUE);
  g_strfreev(types);
}

/* ---- Texels ------------------------------------------------------------------------------ */

/* Four neighbours are one load. The index has many variables, each used twice: the analysis ends
 * only if it walks over variables, not over paths. */
static void test_texels_of_many_variables_take_linear_time(void) {
  GString *text = g_string_new("(module (function \"f\" (buffer A float32 global 64)"
                               " (buffer B float32 global 64) (attr \"noalias\" 1)"
                               " (attr \"kernel\" 1) (for i:int64 0 16 serial"
                               " (let v0:int64 (mul i 4) ");
  for (int k = 0; k < 60; k++)
    g_string_append_printf(text, "(let v%d:int64 (floormod (add v%d (max v%d 4)) 64) ", k + 1, k,
                           k);
  g_string_append(text, "(store A i (add (add (load B v60) (load B (add v60 1)))"
                        " (add (load B (add v60 2)) (load B (add v60 3)))))");
  for (int k = 0; k < 60; k++)
    g_string_append(text, ")");
  g_string_append(text, "))))");
  BpIrModule *module = parse_verified(text->str); /* the first module makes the table exist */
  const BpEmitterTable *emitter = host_tables()->host->get_table(
      host_tables()->host, BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  BpOwnedBytes code;
  assert_ok(emitter->emit(module, emitter->get_dialect("glsl"), &code));
  g_assert_cmpint(count_parts(code.data, "imageLoad("), ==, 1);
  bp_owned_bytes_clear(&code);
  bp_object_release(module);
  g_string_free(text, TRUE);
}

/* bp_exp needs bp_scale; a program contains no function that it does not use. */
static void test_only_used_parts_of_the_support_text_are_written(void) {
  BpIrModule *module =
      parse_verified("(module (function \"f\" (buffer A float32 global 64) (attr \"kernel\" 1)"
                     " (store A 0 (call float32 intrinsic \"exp\" (load A 1)))))");
  const BpEmitterTable *emitter = host_tables()->host->get_table(
      host_tables()->host, BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  BpOwnedBytes code;
  assert_ok(emitter->emit(module, emitter->get_dialect("glsl"), &code));
  g_assert_cmpint(count_parts(code.data, "float bp_exp("), ==, 1);
  g_assert_cmpint(count_parts(code.data, "float bp_scale("), ==, 1);
  g_assert_cmpint(count_parts(code.data, "float bp_"), ==, 2);
  g_assert_cmpint(count_parts(code.data, "/* part"), ==, 0);
  bp_owned_bytes_clear(&code);
  bp_object_release(module);
}

static void test_reserved_members_of_a_dialect(void) {
  BpIrModule *module = parse_verified("(module (function \"f\" (buffer A float32 global 64)"
                                      " (attr \"noalias\" 1) (store A 0 (load A 1))))");
  const BpEmitterTable *emitter = host_tables()->host->get_table(
      host_tables()->host, BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  BpDialect dialect = *emitter->get_dialect("c");
  BpOwnedBytes code;
  assert_ok(emitter->emit(module, &dialect, &code));
  bp_owned_bytes_clear(&code);
  dialect.reserved_end = 5;
  g_assert_cmpint(emitter->emit(module, &dialect, &code), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "5 in `reserved_end`"));
  bp_error_clear();
  bp_object_release(module);
}

/* A dialect with a member that a later version may add. */
typedef struct LaterDialect {
  BpDialect dialect;
  const char *cooperative;
} LaterDialect;

static void test_unknown_parts_of_a_dialect(void) {
  BpIrModule *module = parse_verified("(module (function \"f\" (buffer A float32 global 64)"
                                      " (attr \"noalias\" 1) (store A 0 (load A 1))))");
  const BpEmitterTable *emitter = host_tables()->host->get_table(
      host_tables()->host, BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  LaterDialect later = {.dialect = *emitter->get_dialect("c")};
  BpOwnedBytes code;
  later.dialect.struct_size = sizeof later;
  assert_ok(emitter->emit(module, &later.dialect, &code));
  bp_owned_bytes_clear(&code);
  later.cooperative = "$1 = mma($2, $3)";
  g_assert_cmpint(emitter->emit(module, &later.dialect, &code), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "which this emitter does not know"));
  later.cooperative = NULL;
  later.dialect.flags |= BP_DIALECT_KNOWN_FLAGS + 1;
  g_assert_cmpint(emitter->emit(module, &later.dialect, &code), ==, -1);
  g_assert_nonnull(strstr(bp_error_message(), "the flags 0x200"));
  bp_error_clear();
  bp_object_release(module);
}

/* Rows of a dialect's tables with members that a later version may add. */
typedef struct LaterType {
  BpDialectType row;
  const char *note;
} LaterType;

static void test_rows_of_a_dialect_are_as_long_as_it_says(void) {
  BpIrModule *module = parse_verified("(module (function \"f\" (buffer A float32 global 64)"
                                      " (attr \"noalias\" 1) (store A 0 (load A 1))))");
  const BpEmitterTable *emitter = host_tables()->host->get_table(
      host_tables()->host, BP_TABLE_EMITTER, BP_TABLE_EMITTER_VERSION);
  const BpDialect *own = emitter->get_dialect("c");
  BpDialect dialect = *own;
  BpOwnedBytes code, expected;
  LaterType *types = g_new0(LaterType, (gsize)own->num_types);
  for (int32_t i = 0; i < own->num_types; i++)
    types[i] = (LaterType){*bp_dialect_type(own, i), "x"};
  dialect.types = &types[0].row;
  dialect.type_size = sizeof(LaterType);
  assert_ok(emitter->emit(module, own, &expected));
  assert_ok(emitter->emit(module, &dialect, &code));
  g_assert_cmpmem(code.data, code.size, expected.data, expected.size);
  bp_owned_bytes_clear(&code);
  bp_owned_bytes_clear(&expected);
  uint64_t *const sizes[] = {&dialect.type_size, &dialect.intrinsic_size, &dialect.axis_size};
  static const char *const names[] = {"type_size", "intrinsic_size", "axis_size"};
  dialect.num_axes = 1;
  dialect.axis_size = sizeof(BpDialectAxis);
  for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
    uint64_t right = *sizes[i];
    *sizes[i] = 8;
    g_assert_cmpint(emitter->emit(module, &dialect, &code), ==, -1);
    g_assert_nonnull(strstr(bp_error_message(), names[i]));
    bp_error_clear();
    *sizes[i] = right;
  }
  g_free(types);
  bp_object_release(module);
}

/* ---- Memory, vectors, statements --------------------------------------------------------- */

/* Bodies over A and B of 64 float32 elements and I of 64 int32 elements. */
static const char *const bodies[] = {
    /* loads and stores */
    "(for i:int64 0 32 serial (store A (mul i 2) (load B (sub 63 i))))",
    "(store A (ramp 0 2 16) (load B (ramp 3 3 16)))",
    "(store A (ramp 15 -1 16) (load B (ramp 0 1 16)))",
    "(store A (ramp 1 1 8) (load B (shuffle 1 (ramp 0 4 8) 7 0 6 1 5 2 4 3)))",
    "(store A (ramp 0 1 16) (load B (ramp 60 1 16) (lt (ramp 60 1 16) (broadcast 64 16))))",
    "(store A (ramp 60 1 16) (load B (ramp 0 1 16)) (lt (ramp 60 1 16) (broadcast 64 16)))",
    "(for i:int64 0 64 serial (store A i (load B i (lt i 7)) (lt i 9)))",
    /* the lanes out of bounds are constant */
    "(store A (ramp 3 -1 8) (load B (ramp 4 -1 8) (ge (ramp 4 -1 8) (broadcast 0 8)))"
    " (ge (ramp 3 -1 8) (broadcast 0 8)))",
    "(for i:int64 0 5 serial (store A (ramp (mul i 16) 1 16) (load B (ramp (mul i 16) 1 16)"
    " (broadcast (lt i 3) 16)) (broadcast (lt i 4) 16)))",
    "(store I (ramp 0 1 16) (ramp 5:int32 -3:int32 16))",
    /* numbers of narrow types also wrap in indices and extents */
    "(for i:int64 0 64 serial (store I (floordiv (cast int64 (sub (cast uint8 i) 200:uint8)) 4)"
    " (cast int32 i)))",
    "(for i:int64 0 (cast int64 (sub 0:uint8 (cast uint8 (bit_or (load I 0) 1:int32)))) serial"
    " (store I (floordiv i 4) (cast int32 i)))",
    "(store I (ramp 0 1 16) (cast int32x16 (lt (load A (ramp 0 1 16)) (load B (ramp 0 1 16)))))",
    /* the start of a loop is read once */
    "(allocate (buffer n int64 local 1) (seq (store n 0 3) (for i:int64 (load n 0) 4 serial (seq"
    " (store n 0 (min (add (load n 0) 1) 12)) (store I i (cast int32 (load n 0)))))))",
    "(seq (store I 0 5:int32) (for i:int32 (load I 0) 1:int32 serial (seq (store I 0 9:int32)"
    " (store I 1 i))))",
    /* masks whose limit is far from the lanes */
    "(allocate (buffer n int64 local 1) (seq (store n 0 9223372036854775807)"
    " (store A (ramp 0 1 8) (broadcast 1:float32 8) (lt (ramp 0 2 8) (broadcast (load n 0) 8)))"
    " (store A (ramp 8 1 8) (load B (ramp 0 2 8) (lt (ramp 0 1 8) (broadcast (load n 0) 8))))))",
    "(allocate (buffer n int64 local 1) (seq (store n 0 -9223372036854775808)"
    " (store A (ramp 0 1 8) (broadcast 1:float32 8) (lt (ramp 3 2 8) (broadcast (load n 0) 8)))"
    " (store A (ramp 8 1 8) (load B (ramp 0 2 8) (ge (ramp 3 1 8) (broadcast (load n 0) 8))))))",
    /* arguments of vectors made of lanes */
    "(store I (ramp 0 1 8) (call int32x8 intrinsic \"dot4_us\" (load I (ramp 1 5 8))"
    " (load I (ramp 2 7 8)) (load I (ramp 3 3 8))))",
    /* vectors */
    "(store A (ramp 0 1 8) (shuffle 2 (load A (ramp 0 1 8)) (load B (ramp 0 1 8)) 0 8 1 9 2 10 3 "
    "11))",
    "(store A (ramp 0 1 16) (shuffle 4 (load B (ramp 0 1 4)) (load B (ramp 8 1 4))"
    " (load B (ramp 20 1 4)) (load B (ramp 40 1 4)) 0 4 8 12 1 5 9 13 2 6 10 14 3 7 11 15))",
    "(store A 3 (shuffle 1 (load B (ramp 0 1 4)) 2))",
    "(store I 5 (cast int32 (eq (shuffle 1 (lt (load I (ramp 0 1 4))"
    " (broadcast 2147483647:int32 4)) 2) true)))",
    "(store I 0 (reduce add (load I (ramp 0 1 16))))",
    "(store I 1 (reduce mul (load I (ramp 0 1 4))))",
    "(store I 2 (reduce min (load I (ramp 0 1 8))))",
    "(store I 3 (reduce max (load I (ramp 0 1 2))))",
    "(store A 0 (reduce max (select (eq (load B (ramp 0 1 16)) (load B (ramp 0 1 16)))"
    " (load B (ramp 0 1 16)) (broadcast 0:float32 16))))",
    "(store A 0 (reduce add (broadcast 0.5:float32 8)))",
    "(store A (ramp 0 1 16) (broadcast (load B 5) 16))",
    "(store A 0 (cast float32 (reduce add (broadcast 0.5:float16 8))))",
    "(store A 1 (cast float32 (reduce min (cast float16x8 (load B (ramp 0 1 8))))))",
    "(store A 2 (cast float32 (reduce max (cast float16x2 (load B (ramp 9 1 2))))))",
    /* choices of the lesser or greater of two vectors, and others */
    "(let x:float32x8 (load A (ramp 0 1 8)) (let y:float32x8 (load B (ramp 0 1 8)) (seq"
    " (store A (ramp 0 1 8) (select (lt x y) x y))"
    " (store A (ramp 8 1 8) (select (lt x y) y x))"
    " (store A (ramp 16 1 8) (select (gt x y) x y))"
    " (store A (ramp 24 1 8) (select (gt x y) y x))"
    " (store A (ramp 32 1 8) (select (lt x y) x (load B (ramp 8 1 8))))"
    " (store A (ramp 40 1 8) (select (lt x y) (load B (ramp 8 1 8)) y))"
    " (store A (ramp 48 1 8) (select (gt x y) (load B (ramp 8 1 8)) x))"
    " (store A (ramp 56 1 8) (select (gt x y) y (load B (ramp 8 1 8)))))))",
    /* statements */
    "(for i:int64 3 20 serial (if (lt (load I i) 0:int32) (store I i 1:int32) (store I i "
    "2:int32)))",
    "(for i:int64 0 64 serial (if (lt i 5) (store I i 1:int32)))",
    /* a lane outside of the mask divides by 0 */
    "(store I (ramp 0 1 16) (floormod (load I (ramp 32 1 16) (lt (ramp 0:int32 1:int32 16)"
    " (broadcast 11:int32 16))) (select (lt (cast int32x16 (mod (ramp 13 1 16) (broadcast 24 16)))"
    " (load I (mod (ramp 13 1 16) (broadcast 24 16)) (lt (ramp 0:int32 1:int32 16) (broadcast"
    " 11:int32 16)))) (broadcast 1:int32 16) (cast int32x16 (mod (ramp 13 1 16) (broadcast 24"
    " 16))))) (lt (ramp 0:int32 1:int32 16) (broadcast 11:int32 16)))",
    "(for i:int64 0 -3 serial (store I 0 1:int32))",
    "(let n:int64 12 (for i:int64 (sub n 4) (add n 1) serial (store I i (cast int32 (mul i n)))))",
    "(let gl_n:int32 (load I 0) (store I 1 (add gl_n 1:int32)))",
    "(let m:boolx16 (lt (load A (ramp 0 1 16)) (broadcast 0:float32 16)) (store I (ramp 0 1 16)"
    " (select m (broadcast 1:int32 16) (broadcast 2:int32 16))))",
    "(seq (store I 0 0:int32) (while (lt (load I 0) 10:int32) (store I 0 (add (load I 0) "
    "3:int32))))",
    "(for i:int64 0 8 unrolled (for j:int64 0 8 vectorized (store I (add (mul i 8) j)"
    " (cast int32 (mul i j)))))",
    "(seq (barrier \"shared\") (store I 0 7:int32) (barrier \"global\"))",
    "(evaluate (call void intrinsic \"prefetch\" (address A 8)))",
    /* allocations */
    "(allocate (buffer T float32 local 16) (seq (store T (ramp 0 1 16) (load B (ramp 0 1 16)))"
    " (for i:int64 0 16 serial (store A i (load T (sub 15 i))))))",
    "(allocate (buffer T float32 local 32) (seq (store T (ramp 0 1 16) (load A (ramp 0 1 16)))"
    " (store T (ramp 16 1 16) (load A (ramp 16 1 16))) (for k:int64 0 4 serial (seq"
    " (store T (ramp 0 1 16) (add (load T (ramp 0 1 16)) (mul (broadcast (load B k) 16)"
    " (load A (ramp 0 1 16))))) (store T (ramp 16 1 16) (load T (ramp 0 1 16)))))"
    " (store A (ramp 32 1 16) (load T (ramp 16 1 16)))))",
    "(allocate (buffer T bool local 16) (seq (store T (ramp 0 1 16) (lt (load A (ramp 0 1 16))"
    " (load B (ramp 0 1 16)))) (for i:int64 0 16 serial (store I i (cast int32 (load T i))))))",
    "(allocate (buffer T int32 shared 64) (seq (for i:int64 0 64 serial"
    " (store T i (load I (sub 63 i)))) (for i:int64 0 64 serial (store I i (load T i)))))",
    /* parallel loops */
    "(for i:int64 0 64 parallel (store I i (cast int32 (mul i i))))",
    "(for i:int32 3:int32 61:int32 parallel (store I i (mul i i)))",
};

/* Bodies that only a host function may have. */
static const char *const host_bodies[] = {
    "(store I 2 (reduce min (load I (ramp 0 1 32))))",
    "(assert (lt 1 2) \"never\")",
    "(allocate (buffer T int32 global 100 100) (seq (for i:int64 0 10000 serial"
    " (store T i (cast int32 i))) (store I 0 (load T 9999))))",
    "(let n:int32 3:int32 (allocate (buffer T int32 global 64) (seq"
    " (for i:int64 0 64 parallel (store T i (mul n (cast int32 i))))"
    " (for i:int64 0 8 parallel (for j:int64 0 8 parallel (store I (add (mul i 8) j)"
    " (load T (add (mul j 8) i))))))))",
    "(for i:int64 0 8 parallel (allocate (buffer T int32 global 8000) (seq (for j:int64 0 8000 "
    "serial"
    " (store T j (cast int32 (add i j)))) (store I i (load T 7999)))))",
    /* the extent of a loop is read once */
    "(allocate (buffer n int64 local 1) (seq (store n 0 3) (for i:int64 0 (load n 0) serial (seq"
    " (store n 0 (min (add (load n 0) 1) 12)) (store I i (cast int32 (load n 0)))))))",
    /* calls */
    "(evaluate (call void packed \"test.codegen.negate\" I))",
    "(store I 5 (call int32 packed \"test.codegen.count\" 3 2.5:float64 \"text\" true))",
};

/* Bodies of kernels: threads of blocks, shared memory, barriers. */
static const char *const kernel_bodies[] = {
    "(for t:int64 0 0 bound \"threadIdx.x\" (store I t 1:int32))",
    "(for b:int64 0 4 bound \"blockIdx.x\" (for t:int64 0 16 bound \"threadIdx.x\""
    " (store I (add (mul b 16) t) (cast int32 (mul b t)))))",
    /* some threads of the last block have no work */
    "(for b:int64 0 5 bound \"blockIdx.x\" (for t:int64 0 13 bound \"threadIdx.x\""
    " (if (lt (add (mul b 13) t) 64) (store I (add (mul b 13) t) (cast int32 t)))))",
    "(for by:int64 0 2 bound \"blockIdx.y\" (for bx:int64 0 4 bound \"blockIdx.x\""
    " (for ty:int64 0 4 bound \"threadIdx.y\" (for tx:int64 0 2 bound \"threadIdx.x\""
    " (store I (add (add (mul by 32) (mul ty 8)) (add (mul bx 2) tx))"
    " (cast int32 (add (mul bx 100) ty)))))))",
    /* each block reverses its part through shared memory */
    "(for b:int64 0 4 bound \"blockIdx.x\" (allocate (buffer S int32 shared 16)"
    " (for t:int64 0 16 bound \"threadIdx.x\" (seq (store S t (load I (add (mul b 16) t)))"
    " (barrier \"shared\") (store I (add (mul b 16) t) (load S (sub 15 t)))))))",
    /* a tree of sums, in two loops over the threads */
    "(allocate (buffer S int32 shared 64) (for t:int64 0 64 bound \"threadIdx.x\" (seq"
    " (store S t (load I t)) (barrier \"shared\") (for k:int64 0 6 serial (seq"
    " (if (lt t (shr 32 k)) (store S t (add (load S t) (load S (add t (shr 32 k))))))"
    " (barrier \"shared\"))) (if (eq t 0) (store I 0 (load S 0))))))",
    /* one block whose threads share a buffer that is declared outside of their loops */
    "(allocate (buffer S int32 shared 64) (seq (for t:int64 0 64 bound \"threadIdx.x\""
    " (store S t (load I t))) (barrier \"shared\") (for u:int64 0 8 bound \"threadIdx.x\""
    " (store I u (add (load S u) (load S (sub 63 u)))))))",
    /* one loop with fewer threads than another; a private array with varying indices */
    "(for b:int64 0 2 bound \"blockIdx.x\" (allocate (buffer S float32 shared 32) (seq"
    " (for t:int64 0 8 bound \"threadIdx.x\" (store S (ramp (mul t 4) 1 4)"
    " (load B (ramp (add (mul b 32) (mul t 4)) 1 4)))) (barrier \"shared\")"
    " (for u:int64 0 32 bound \"threadIdx.x\" (allocate (buffer L float32 local 8) (seq"
    " (for k:int64 0 8 serial (store L k (load S (mod (add u k) 32))))"
    " (store A (add (mul b 32) u) (load L (mod u 8)))))))))",
    /* four neighbours of a read-only buffer, twice, with masks beyond its ends */
    "(for t:int64 0 16 bound \"threadIdx.x\" (let q:int64 (mul t 4) (seq"
    " (store A q (add (load B (add q 1)) (mul (load B q) (load B (add q 3)))))"
    " (store A (add q 1) (sub (load B (add q 2)) (load B (add q 1))))"
    " (store A (add q 2) (add (load B (add q -3) (ge (add q -3) 0))"
    " (load B (add q 6) (lt (add q 6) 64))))"
    " (store A (add q 3) (load B (min (add q 4) 60))))))",
    /* the same index by variables of one name, in branches, in a loop and after it */
    "(for t:int64 0 16 bound \"threadIdx.x\" (seq"
    " (if (lt t 9) (let p:int64 (add t 1) (store A t (load B p)))"
    " (let p:int64 (sub t 9) (store A t (load B p))))"
    " (for k:int64 0 3 serial (store A (add t 16) (add (load B t) (load B (add t k)))))"
    " (store A (add t 32) (load B (add t 1)))"
    " (store A (add t 48) (load B t))))",
    /* indices that change from one statement to the next */
    "(for t:int64 0 16 bound \"threadIdx.x\" (seq"
    " (store I t (cast int32 t)) (store A t (load B (cast int64 (load I t))))"
    " (store I t (cast int32 (add t 20))) (store A (add t 16) (load B (cast int64 (load I t))))))",
};

static void append_bodies(GString *module, const char *name, const char *const *list,
                          size_t count) {
  for (size_t i = 0; i < count; i++)
    g_string_append_printf(module,
                           "(function \"%s_%zu\" (buffer A float32 global 64)"
                           " (buffer B float32 global 64) (buffer I int32 global 64)"
                           " (attr \"noalias\" 1) %s)\n",
                           name, i, list[i]);
}

static void test_host_bodies_agree_with_the_interpreter(gconstpointer data) {
  const CodeTarget *target = data;
  GString *module = g_string_new("(module\n");
  append_bodies(module, "host", host_bodies, G_N_ELEMENTS(host_bodies));
  g_string_append(module, ")\n");
  check_text(module->str, target);
  g_string_free(module, TRUE);
}

static void test_kernels_agree_with_the_interpreter(gconstpointer data) {
  const CodeTarget *target = data;
  if (!is_ready(target))
    return;
  GString *module = g_string_new("(module\n");
  append_bodies(module, "kernel", kernel_bodies, G_N_ELEMENTS(kernel_bodies));
  g_string_append(module, ")\n");
  check_text(module->str, target);
  g_string_free(module, TRUE);
}

static void test_bodies_agree_with_the_interpreter(gconstpointer data) {
  const CodeTarget *target = data;
  if (!is_ready(target))
    return;
  GString *module = g_string_new("(module\n");
  append_bodies(module, "body", bodies, G_N_ELEMENTS(bodies));
  g_string_append(module, "(function \"symbolic\" n:int64 x:float32 (buffer A float32 global n n)"
                          " (for i:int64 0 (mul n n) serial (store A i (mul (load A i) x))))"
                          "(function \"scalar\" (buffer A int32 global) (store A 0 7:int32))"
                          /* aligned vectors, unaligned vectors, and a part of a vector */
                          "(function \"streamed\" (buffer A float32 global 64)"
                          " (buffer B float32 global 64) (buffer I int32 global 64)"
                          " (attr \"streamed\" 0 2 9) (seq (for i:int64 0 3 parallel (seq"
                          " (store A (ramp (mul i 16) 1 16) (load B (ramp (mul i 16) 1 16)))"
                          " (store I (ramp (add (mul i 16) 3) 1 8)"
                          " (broadcast (cast int32 i) 8))))"
                          " (store A (ramp 48 1 16) (load B (ramp 0 1 16))"
                          " (lt (ramp 0 1 16) (broadcast 9 16))) (store I 63 5:int32)))"
                          "(function \"empty\" (buffer A int32 global 0 4) (seq))"
                          "(function \"nothing\" (seq))");
  g_string_append(module, ")\n");
  check_text(module->str, target);
  g_string_free(module, TRUE);
}

/* The packed functions that bodies call. */
static int negate(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)result;
  g_assert_cmpint(num_args, ==, 1);
  g_assert_cmpint(args[0].type_index, ==, BP_TYPE_TENSOR_VIEW);
  BpTensorView *view = args[0].v_view;
  g_assert_cmpint(view->ndim, ==, 1);
  g_assert_cmpint(view->shape[0], ==, 64);
  g_assert_cmpint(view->dtype.bits, ==, 32);
  for (int64_t i = 0; i < view->shape[0]; i++)
    ((uint32_t *)view->data)[i] = -((uint32_t *)view->data)[i];
  return 0;
}

static int count_args(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  BpByteArray text;
  (void)self;
  g_assert_cmpint(num_args, ==, 4);
  g_assert_cmpint(args[0].v_int64, ==, 3);
  g_assert_cmpfloat(args[1].v_float64, ==, 2.5);
  assert_ok(bp_value_view_str(&args[2], &text));
  g_assert_cmpmem(text.data, text.size, "text", 4);
  g_assert_cmpint(args[3].type_index, ==, BP_TYPE_BOOL);
  *result = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 1234};
  return 0;
}

static int fail(void *self, const BpValue *args, int32_t num_args, BpValue *result) {
  (void)self;
  (void)args;
  (void)num_args;
  (void)result;
  return bp_error_raise(BP_ERROR_INDEX, "it went wrong");
}

static void register_function(const char *name, BpPackedCall call) {
  BpFunction *function = bp_function_create(call, NULL, NULL);
  assert_ok(bp_registry_set(name, function, 0));
  bp_object_release(function);
}

/* ---- Failures ---------------------------------------------------------------------------- */

/* Calls a function, which must fail. */
static void call_fails(BpModule *built, const char *name, const BpValue *args, int32_t count,
                       const char *kind, const char *message) {
  BpFunction *function = NULL;
  BpValue result;
  assert_ok(bp_module_get_function(built, name, 1, &function));
  g_assert_nonnull(function);
  g_assert_cmpint(bp_function_call(function, args, count, &result), ==, -1);
  assert_error(kind, message);
  bp_object_release(function);
}

static void test_failures_inside_are_errors(gconstpointer context) {
  const CodeTarget *target = context;
  BpIrModule *module = parse_verified(
      "(module"
      " (function \"asserts\" (buffer A int32 global 4) (allocate (buffer T int32 global 9999)"
      "  (seq (store T 0 1:int32) (assert (lt (load A 0) (load T 0)) \"A begins with \\\"1\\\"\")"
      "  (store A 0 9:int32))))"
      " (function \"asserts_in_parallel\" (buffer A int32 global 4)"
      "  (for i:int64 0 4 parallel (assert (ne i 2) \"i is two\")))"
      " (function \"calls\" (buffer A int32 global 4)"
      "  (evaluate (call void packed \"test.codegen.fail\" 1)))"
      " (function \"misses\" (buffer A int32 global 4)"
      "  (evaluate (call void packed \"test.codegen.absent\" 1))))");
  BpModule *built = build_ok(module, target->text);
  int32_t data[4] = {5, 6, 7, 8};
  Array array;
  BpValue arg = array_value(&array, data, dtype_of("int32"), 4);
  call_fails(built, "asserts", &arg, 1, BP_ERROR_VALUE, "A begins with \"1\"");
  g_assert_cmpint(data[0], ==, 5);
  call_fails(built, "asserts_in_parallel", &arg, 1, BP_ERROR_VALUE, "i is two");
  call_fails(built, "calls", &arg, 1, BP_ERROR_INDEX, "it went wrong");
  call_fails(built, "misses", &arg, 1, BP_ERROR_NOT_FOUND, "test.codegen.absent");
  bp_object_release(built);
  bp_object_release(module);
}

/* Functions whose parallel loops are equal but for names share the loops' code, also between pieces
 * of the source that are compiled apart. */
static void test_equal_loops_are_written_once(void) {
  enum { COUNT = 500 };
  GString *text = g_string_new("(module");
  for (int i = 0; i < COUNT; i++)
    g_string_append_printf(
        text,
        " (function \"f%d\" (buffer A%d int32 global 64) (seq"
        " (for i%d:int64 0 64 parallel (store A%d i%d (cast int32 i%d)))"
        " (for j:int64 0 64 parallel (store A%d j (add (load A%d j) %d:int32)))))",
        i, i, i, i, i, i, i, i, i);
  g_string_append_c(text, ')');
  BpIrModule *module = parse_verified(text->str);
  BpModule *built = build_ok(module, "c");
  BpOwnedBytes source;
  assert_ok(bp_module_get_source(built, "c", &source));
  g_assert_cmpuint(source.size, >, 600000);
  g_assert_cmpint(count_parts(source.data, "int share_of_task_f0_") -
                      count_parts(source.data, "BP_OUR int share_of_task_f0_"),
                  ==, 1);
  g_assert_cmpint(count_parts(source.data, "static int share_of_task_"), ==, COUNT);
  for (int i = 0; i < COUNT; i += 100) {
    g_autofree char *name = g_strdup_printf("f%d", i);
    int32_t data[64] = {0};
    Array array;
    BpValue arg = array_value(&array, data, dtype_of("int32"), 64), result;
    BpFunction *function;
    assert_ok(bp_module_get_function(built, name, 0, &function));
    assert_ok(bp_function_call(function, &arg, 1, &result));
    for (int k = 0; k < 64; k++)
      g_assert_cmpint(data[k], ==, k + i);
    bp_object_release(function);
  }
  bp_owned_bytes_clear(&source);
  bp_object_release(built);
  bp_object_release(module);
  g_string_free(text, TRUE);
}

static void test_wrong_arguments_are_errors(gconstpointer context) {
  const CodeTarget *target = context;
  BpIrModule *module =
      parse_verified("(module (function \"f\" n:int8 x:float32 (buffer A float32 global 4 5)"
                     " (buffer B float32 global n) (attr \"alignment\" 32) (store A 0 x)))");
  BpModule *built = build_ok(module, target->text);
  _Alignas(64) float data[64];
  int64_t shape[] = {4, 5}, other[] = {4, 6}, one[] = {3}, wide[] = {10, 1}, compact[] = {5, 1};
  BpTensorView a = {.data = data, .device = {BP_DEVICE_CPU, 0}, .ndim = 2};
  a.dtype = dtype_of("float32");
  a.shape = shape;
  a.strides = compact;
  BpTensorView b = a;
  b.ndim = 1;
  b.shape = one;
  b.strides = NULL;
  BpValue args[] = {{.type_index = BP_TYPE_INT, .v_int64 = 3},
                    {.type_index = BP_TYPE_FLOAT, .v_float64 = 1},
                    {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &a},
                    {.type_index = BP_TYPE_TENSOR_VIEW, .v_view = &b}};
  BpFunction *function = NULL;
  BpValue result;
  assert_ok(bp_module_get_function(built, "f", 1, &function));
  assert_ok(bp_function_call(function, args, 4, &result));
  bp_object_release(function);

  call_fails(built, "f", args, 3, BP_ERROR_TYPE, "f: expected 4 arguments, got 3");
  args[0] = (BpValue){.type_index = BP_TYPE_FLOAT, .v_float64 = 3};
  call_fails(built, "f", args, 4, BP_ERROR_TYPE, "f: argument 0 (n): expected int8");
  args[0] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 300};
  call_fails(built, "f", args, 4, BP_ERROR_VALUE, "f: argument 0 (n): expected int8, got 300");
  args[0].v_int64 = 4;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE,
             "f: argument 3 (B): dimension 0: expected extent 4, got 3");
  args[0].v_int64 = 3;
  args[1] = (BpValue){.type_index = BP_TYPE_NONE};
  call_fails(built, "f", args, 4, BP_ERROR_TYPE,
             "f: argument 1 (x): expected float32, got None (type 0)");
  args[1] = (BpValue){.type_index = BP_TYPE_INT, .v_int64 = 1};
  BpValue tensor = args[2];
  args[2] = args[0];
  call_fails(built, "f", args, 4, BP_ERROR_TYPE,
             "f: argument 2 (A): expected a tensor, got int (type 1)");
  args[2] = tensor;
  a.dtype = dtype_of("float64");
  call_fails(built, "f", args, 4, BP_ERROR_TYPE, "expected a tensor of float32, got float64");
  a.dtype = dtype_of("float32");
  a.ndim = 1;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE, "expected 2 dimensions, got 1");
  a.ndim = 2;
  a.shape = other;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE, "dimension 1: expected extent 5, got 6");
  a.shape = shape;
  a.strides = wide;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE, "expected compact strides");
  a.strides = NULL;
  a.device.device_type = BP_DEVICE_OPENCL;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE,
             "expected a tensor in host memory, got one of opencl (device type 4)");
  a.device.device_type = BP_DEVICE_CPU;
  a.byte_offset = 4;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE, "multiple of 32");
  a.byte_offset = 0;
  a.data = NULL;
  call_fails(built, "f", args, 4, BP_ERROR_VALUE, "got NULL");
  bp_object_release(built);
  bp_object_release(module);
}

static void test_byte_offset_is_honoured(gconstpointer context) {
  const CodeTarget *target = context;
  BpIrModule *module = parse_verified("(module (function \"f\" (buffer A int32 global 2)"
                                      " (store A 1 (add (load A 0) 1:int32))))");
  BpModule *built = build_ok(module, target->text);
  int32_t data[] = {1, 2, 30, 4};
  Array array;
  BpValue arg = array_value(&array, data, dtype_of("int32"), 2), result;
  array.view.byte_offset = 8;
  BpFunction *function = NULL;
  assert_ok(bp_module_get_function(built, "f", 1, &function));
  assert_ok(bp_function_call(function, &arg, 1, &result));
  const int32_t expected[] = {1, 2, 30, 31};
  g_assert_cmpmem(data, sizeof data, expected, sizeof expected);
  bp_object_release(function);
  bp_object_release(built);
  bp_object_release(module);
}

/* The interpreter cannot call C functions. */
static void test_extern_calls_reach_c_functions(gconstpointer context) {
  const CodeTarget *target = context;
  BpIrModule *module =
      parse_verified("(module (function \"f\" (buffer A int32 global 4) (seq"
                     " (evaluate (call handle extern \"memcpy\" (address A 2) A 8:uint64))"
                     " (store A 0 (call int32 extern \"abs\" (load A 0))))))");
  BpModule *built = build_ok(module, target->text);
  int32_t data[] = {-5, 6, 7, 8};
  Array array;
  BpValue arg = array_value(&array, data, dtype_of("int32"), 4), result;
  BpFunction *function = NULL;
  assert_ok(bp_module_get_function(built, "f", 1, &function));
  assert_ok(bp_function_call(function, &arg, 1, &result));
  const int32_t expected[] = {5, 6, -5, 6};
  g_assert_cmpmem(data, sizeof data, expected, sizeof expected);
  bp_object_release(function);
  bp_object_release(built);
  bp_object_release(module);
}

static void assert_refused(const char *target, const char *body, const char *message) {
  BpTarget *parsed = bp_target_parse(target);
  char *text = with_buffer("int32", 64, body);
  BpIrModule *module = parse_verified(text);
  g_assert_null(bp_target_build(module, parsed));
  assert_error(BP_ERROR_NOT_IMPLEMENTED, message);
  bp_object_release(module);
  g_free(text);
  bp_object_release(parsed);
}

/* Constructs that no CPU target supports are refused by name. */
static void test_unsupported_constructs_are_refused(gconstpointer context) {
  const CodeTarget *target = context;
  assert_refused(target->text,
                 "(for i:int64 0 4 bound \"threadIdx.x\" (seq (barrier \"shared\")"
                 " (store A i 1:int32)))",
                 "has a barrier");
}

static void test_c_refuses_odd_vectors(void) {
  assert_refused("c", "(store A (ramp 0 1 3) (broadcast 1:int32 3))", "int32x3");
}

/* A buffer whose number of bytes is unknown is refused, too. */
static void test_simdev_refuses_more_shared_memory_than_there_is(void) {
  static const char *const extents[] = {"8193", "4611686018427387904 4", "4611686018427387904"};
  for (size_t i = 0; i < G_N_ELEMENTS(extents); i++) {
    g_autofree char *body = g_strdup_printf(
        "(allocate (buffer S int32 shared %s) (store A 0:int64 1:int32))", extents[i]);
    assert_refused("simdev", body, "shares");
  }
}

/* ---- Halves ------------------------------------------------------------------------------ */

/* A constant in every lane (g_free). */
static char *lanes_of(uint32_t value, const char *type, int lanes) {
  return lanes > 1 ? g_strdup_printf("(broadcast %u:%s %d)", value, type, lanes)
                   : g_strdup_printf("%u:%s", value, type);
}

/* A function over all 65536 values of a 16-bit float type, as bits, with 0 for NaN: it gives each
 * value as a float32, and as the nearest 16-bit value with `delta` added to its bits. */
static void add_half_function(GString *module, const char *type, uint32_t infinity, int lanes,
                              uint32_t delta) {
  char vector[8] = "";
  if (lanes > 1)
    g_snprintf(vector, sizeof vector, "x%d", lanes);
  g_autofree char *at =
      lanes > 1 ? g_strdup_printf("(ramp (mul i %d) 1 %d)", lanes, lanes) : g_strdup("i");
  g_autofree char *zero = lanes_of(0, "uint32", lanes);
  g_autofree char *mask = lanes_of(0x7fff, "uint32", lanes);
  g_autofree char *largest = lanes_of(infinity, "uint32", lanes);
  g_autofree char *more = lanes_of(delta, "uint32", lanes);
  g_autofree char *all = g_strdup_printf("(cast uint32%s %s)", vector, at);
  g_autofree char *numbers =
      g_strdup_printf("(select (le (bit_and %s %s) %s) %s %s)", all, mask, largest, all, zero);
  g_autofree char *half =
      g_strdup_printf("(reinterpret %s%s (cast uint16%s %s))", type, vector, vector, numbers);
  g_autofree char *bits =
      g_strdup_printf("(reinterpret uint32%s (cast float32%s %s))", vector, vector, half);
  g_autofree char *moved =
      g_strdup_printf("(reinterpret float32%s (add %s %s))", vector, bits, more);
  g_string_append_printf(
      module,
      "(function \"%s_%d_%u\" (buffer W uint32 global 65536) (buffer N uint16 global 65536)"
      " (for i:int64 0 %d serial (seq (store W %s %s)"
      "  (store N %s (cast uint16%s (select (call bool%s intrinsic \"isnan\" %s) %s"
      "   (cast uint32%s (reinterpret uint16%s (cast %s%s %s)))))))))",
      type, lanes, delta, 65536 / lanes, at, bits, at, vector, vector, moved, zero, vector, vector,
      type, vector, moved);
}

/* Conversions are exact to the last bit: of every 16-bit float, and of floats at and next to every
 * tie. */
static void test_halves(gconstpointer target) {
  static const char *const types[] = {"float16", "bfloat16"};
  static const uint32_t infinities[] = {0x7c00, 0x7f80};
  static const uint32_t deltas[] = {0, 0x1000, 0xfff, 0x1001, 0x8000, 0x7fff, UINT32_MAX};
  static const int lanes[] = {1, 2, 4, 8, 16, 32, 64};
  GString *module = g_string_new("(module ");
  for (size_t t = 0; t < G_N_ELEMENTS(types); t++)
    for (size_t i = 0; i < G_N_ELEMENTS(deltas); i++)
      add_half_function(module, types[t], infinities[t], lanes[i], deltas[i]);
  g_string_append(module, ")");
  assert_text_agrees(module->str, target);
  g_string_free(module, TRUE);
}

typedef struct CodeTest {
  const char *name;
  GTestDataFunc function;
} CodeTest;

static const CodeTest tests[] = {
    {"operations-agree-with-the-interpreter", test_operations_agree_with_the_interpreter},
    {"bodies-agree-with-the-interpreter", test_bodies_agree_with_the_interpreter},
};

static const CodeTest host_tests[] = {
    {"host-bodies-agree-with-the-interpreter", test_host_bodies_agree_with_the_interpreter},
    {"failures-inside-are-errors", test_failures_inside_are_errors},
    {"wrong-arguments-are-errors", test_wrong_arguments_are_errors},
    {"byte-offset-is-honoured", test_byte_offset_is_honoured},
    {"extern-calls-reach-c-functions", test_extern_calls_reach_c_functions},
    {"unsupported-constructs-are-refused", test_unsupported_constructs_are_refused},
};

static const CodeTest device_tests[] = {
    {"kernels-agree-with-the-interpreter", test_kernels_agree_with_the_interpreter},
};

static void add_tests(const CodeTarget *target, const CodeTest *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *path = g_strdup_printf("/codegen/%s/%s", target->name, list[i].name);
    g_test_add_data_func(path, target, list[i].function);
    g_free(path);
  }
}

static const CodeTarget host_targets[] = {
    {"c", "c -options=-O1", CHECK_RUN, 16, NULL},
    {"c-x86-64", "c -mcpu=x86-64 -options=-O1", CHECK_RUN, 16, NULL},
    {"llvm", "llvm -opt=1", CHECK_RUN, 16, NULL},
};

/* Targets with instructions for dot products of bytes. */
static const CodeTarget dot_targets[] = {
    {"c-avxvnni", "c -mcpu=alderlake -options=-O1", CHECK_RUN, 8, NULL},
    {"llvm-avxvnni", "llvm -mcpu=alderlake -opt=1", CHECK_RUN, 8, NULL},
};

#define GLSL_DOUBLES                                                                               \
  " abs sqrt rsqrt floor ceil trunc round fma isnan isinf exp exp2 expm1 log log2 log10 log1p "    \
  "tanh "                                                                                          \
  "sinh cosh asinh acosh atanh pow fmod "

/* The device has one entry. */
static const CodeTarget device_targets[] = {
    {"cuda", "cuda", CHECK_RUN, 16, NULL},
    {"cuda-sm_75", "cuda -arch=sm_75", CHECK_NVRTC, 2, NULL},
    {"cuda-sm_80", "cuda -arch=sm_80", CHECK_NVRTC, 2, NULL},
    {"cuda-sm_90", "cuda -arch=sm_90", CHECK_NVRTC, 2, NULL},
    {"opencl", "opencl", CHECK_RUN, 16, NULL},
    {"opencl-halves", "opencl -supports_float16", CHECK_CLANG, 16, NULL},
    {"simdev", "simdev", CHECK_RUN, 4, NULL},
    {"vulkan", "vulkan -supports_float64", CHECK_RUN, 1, GLSL_DOUBLES},
    {"vulkan-texels", "vulkan -supports_float64 -texel_buffers", CHECK_RUN, 1, GLSL_DOUBLES},
    {"vulkan-halves", "vulkan -supports_float64 -supports_float16", CHECK_RUN, 1, GLSL_DOUBLES},
};

/* Whether the plugin of the target was built. */
static gboolean has_kind(const CodeTarget *target) {
  char *kind = g_strndup(target->text, strcspn(target->text, " "));
  gboolean found = bp_target_kind_info(kind) != NULL;
  g_free(kind);
  return found;
}

/* Whether this machine runs the code of a target of the CPU. */
static gboolean can_run(const CodeTarget *target) {
  if (!has_kind(target))
    return FALSE;
  BpIrModule *module = parse_verified("(module (function \"f\" (evaluate 0)))");
  BpModule *built = build_ok(module, target->text);
  gboolean can = (bp_module_get_property(built) & BP_MODULE_RUNNABLE) != 0;
  bp_object_release(built);
  bp_object_release(module);
  return can;
}

static void add_dot_tests(void) {
  for (size_t i = 0; i < G_N_ELEMENTS(dot_targets); i++)
    if (can_run(&dot_targets[i]))
      add_tests(&dot_targets[i], tests, 1);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  if (g_getenv("BP_TEST_NVRTC"))
    g_setenv("BACKPLANE_NVRTC_LIBRARY", g_getenv("BP_TEST_NVRTC"), TRUE);
  const char *build = g_getenv("top_builddir"), *built = g_getenv("BACKPLANE_PLUGIN_PATH");
  g_autofree char *path =
      g_strdup_printf("%s:%s/tests/mock/.libs", built ? built : "", build ? build : ".");
  g_setenv("BACKPLANE_PLUGIN_PATH", path, TRUE);
  BpDevice simulated; /* the device type, in the private range, is known once the kind was named */
  assert_ok(bp_device_parse("simdev:0", &simulated));
  register_function("test.codegen.negate", negate);
  register_function("test.codegen.count", count_args);
  register_function("test.codegen.fail", fail);
  g_test_add_func("/codegen/equal-loops-are-written-once", test_equal_loops_are_written_once);
  g_test_add_func("/codegen/c-refuses-odd-vectors", test_c_refuses_odd_vectors);
  g_test_add_func("/codegen/simdev-refuses-more-shared-memory-than-there-is",
                  test_simdev_refuses_more_shared_memory_than_there_is);
  g_test_add_func("/codegen/texels-of-many-variables-take-linear-time",
                  test_texels_of_many_variables_take_linear_time);
  g_test_add_func("/codegen/only_used_parts_of_the_support_text_are_written",
                  test_only_used_parts_of_the_support_text_are_written);
  g_test_add_func("/codegen/rows-of-a-dialect-are-as-long-as-it-says",
                  test_rows_of_a_dialect_are_as_long_as_it_says);
  g_test_add_func("/codegen/unknown_members_and_flags_of_a_dialect_are_refused",
                  test_unknown_parts_of_a_dialect);
  g_test_add_func("/codegen/reserved_members_of_a_dialect_are_zero",
                  test_reserved_members_of_a_dialect);
  for (size_t i = 0; i < G_N_ELEMENTS(host_targets); i++) {
    if (!strcmp(host_targets[i].name, "llvm") && !bp_target_kind_info("llvm"))
      continue;
    add_tests(&host_targets[i], tests, G_N_ELEMENTS(tests));
    add_tests(&host_targets[i], host_tests, G_N_ELEMENTS(host_tests));
  }
  add_dot_tests();
  static const char *const half_targets[] = {"c", "c -mcpu=x86-64", "llvm", "llvm -mcpu=x86-64"};
  for (size_t i = 0; i < G_N_ELEMENTS(half_targets); i++) {
    char *name = g_strdup_printf("/codegen/%s/halves-are-exact", half_targets[i]);
    if (*half_targets[i] == 'c' || bp_target_kind_info("llvm"))
      g_test_add_data_func(name, half_targets[i], test_halves);
    g_free(name);
  }
  for (size_t i = 0; i < G_N_ELEMENTS(device_targets); i++) {
    if (!has_kind(&device_targets[i]))
      continue;
    /* NVRTC takes long for each architecture. The code is the same for all architectures, and the
     * oldest one has the fewest functions. */
    if (device_targets[i].check == CHECK_NVRTC && !strstr(device_targets[i].text, "sm_75") &&
        !g_getenv("BP_TEST_LONG"))
      continue;
    add_tests(&device_targets[i], tests, G_N_ELEMENTS(tests));
    add_tests(&device_targets[i], device_tests, G_N_ELEMENTS(device_tests));
  }
  bp_error_clear();
  return g_test_run();
}
