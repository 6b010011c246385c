/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the subcommands of `backplane`: options, messages, tables, JSON, inputs. */
#ifndef BACKPLANE_TOOLS_COMMAND_H
#define BACKPLANE_TOOLS_COMMAND_H

#include <glib.h>
#include <jansson.h>
#include <stdio.h>

#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/graph/model.h>

/* Exit statuses. */
#define EXIT_OK    0
#define EXIT_FAIL  1 /* the operation failed; the reason is on stderr */
#define EXIT_USAGE 2 /* the command line is wrong */
/* Of doctor, by the worst that it found. */
#define EXIT_WARNING   3 /* something works less well than it should */
#define EXIT_UNUSABLE  4 /* a plugin cannot be used */
#define EXIT_NO_DEVICE 5 /* no device fits what is asked for */

/* The program's name, which begins its messages: "backplane". Each program defines it. */
extern const char command_program[];

typedef struct Command {
  const char *name;
  const char *summary; /* one line */
  int (*run)(int argc, char **argv);
} Command;

int cmd_list(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_targets(int argc, char **argv);
int cmd_operators(int argc, char **argv);
int cmd_compile(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_new_plugin(int argc, char **argv);

/* ---- Options and messages ---------------------------------------------------------------- */

/* Text as it was typed. G_OPTION_ARG_STRING refuses what the locale's encoding does not know, as an
 * input's name beyond ASCII where LC_ALL is C. */
#define OPTION_TEXT       G_OPTION_ARG_FILENAME
#define OPTION_TEXT_ARRAY G_OPTION_ARG_FILENAME_ARRAY

/* What the list of commands says of one. Each program defines it. */
const char *command_summary(const char *name);
/* Prints the page of the manual of a program's command, of what its --help is made of. */
void manual_print(const char *name, const GOptionEntry *entries, const char *arguments,
                  const char *summary, const char *details);
/* The hidden option that prints that page. */
#define MANUAL_OPTION "--help-manual"
/* Parses `entries` for a command whose free arguments are described by `arguments` and whose help
 * ends in `details`. Returns FALSE after saying what is wrong. From then on results go to
 * command_out. */
gboolean command_parse(int *argc, char ***argv, const GOptionEntry *entries, const char *arguments,
                       const char *summary, const char *details);
/* Looks at the whole command line, before anything is printed: errors are JSON as well if it has
 * --json anywhere. */
void command_begin(char **argv);
/* Whether command_parse has succeeded: from then on the command's own code ends the program by
 * returning alone. */
gboolean command_has_begun(void);
/* Whether the command line has --verbose: then what the library logs at info is shown, too. */
gboolean command_is_verbose(void);
/* Which of the words, NULL-terminated, is the nearest to a mistyped one; NULL: none is near. */
const char *nearest_word(const char *mistyped, const char *const *words);
/* Says "backplane: ...", with the program's name, on stderr, and as JSON on stdout if the command
 * line has --json. Returns EXIT_USAGE. */
int command_usage_error(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Raises an error of the command line that is found later than by command_parse: command_fail then
 * returns EXIT_USAGE. Returns -1. */
int command_raise_usage(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Checks, before the work, that files can be made in a folder; NULL is ignored. 0 or -1 with an
 * error. */
int command_check_folder(const char *path);
/* Says this thread's error on stderr, as JSON on stdout if `json`. Returns EXIT_FAIL, or EXIT_USAGE
 * for an error of command_raise_usage. */
int command_fail(gboolean json);

/* ---- Output ------------------------------------------------------------------------------ */

/* Where a command's results go. After command_parse fd 1 is stderr, for plugins run in this process
 * and some print. */
FILE *command_out(void);
/* JSON. Without memory these functions end the command with a message. Each takes the values that
 * it is given. A value: text, made UTF-8 as file names need not be; a number, null where JSON has
 * none for it; a list of extents. */
json_t *text_json(const char *text);
json_t *number_json(double number);
json_t *shape_json(const int64_t *shape, int32_t ndim);
/* Adds a member to an object, an element to an array. */
void json_add(json_t *object, const char *name, json_t *value);
void json_append(json_t *array, json_t *value);
void json_add_str(json_t *object, const char *name, const char *text);
void json_add_int(json_t *object, const char *name, gint64 value);
void json_add_double(json_t *object, const char *name, double value);
/* Adds "name": ["a", "b"] of space-separated words. */
void json_add_words(json_t *object, const char *name, const char *words);
/* The document, which is released, as text (transfer full, g_free), in which each number is the
 * shortest that reads back; or prints it, indented. */
char *json_finish(json_t *document, gboolean is_compact);
void command_print_json(json_t *document);
/* "1x3x48x192" (transfer full); "scalar" when there are no dimensions. */
char *shape_to_text(const int64_t *shape, int32_t ndim);
/* "14.2 KiB", "3.5 MiB" (transfer full). */
char *size_to_text(uint64_t bytes);
/* A value as text for people (transfer full); "-" for None. */
char *value_to_text(const BpValue *value);

/* Whether elements of the type are shown as numbers: integers, bool, float16 to float64 and
 * bfloat16, of one lane. */
gboolean element_is_number(BpDataType dtype);
/* Writes a number as a float16 to float64 or bfloat16; FALSE: the type is another. */
gboolean element_write_float(char *data, BpDataType dtype, double value);
/* Writes what the text says, "1.5", "true", as such an element; FALSE: it is no number of the type.
 */
gboolean element_parse(const char *text, char *data, BpDataType dtype);
/* Such an element as a double; and how far two of them are apart: 0 if both are NaN, infinite if
 * one is, exact where both are integers. */
double element_number(const char *data, BpDataType dtype);
double element_distance(const char *a, BpDataType a_type, const char *b, BpDataType b_type);
/* Appends an element that is a number as text. */
void element_append(GString *text, const char *data, BpDataType dtype);
/* Such an element. JSON has no NaN or infinity: they are null. */
json_t *element_json(const char *data, BpDataType dtype);

/* As fprintf, for text from outside, such as a file's name. It prints UTF-8, and no control
 * characters except tabs and ends of lines. */
void command_print(FILE *out, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The same of one line, which ends where the text does. */
void command_print_line(FILE *out, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* How text looks on a terminal, unless NO_COLOR is set (no-color.org). */
typedef enum Style { STYLE_HEADER, STYLE_GOOD, STYLE_WARNING, STYLE_ERROR } Style;
void style_begin(FILE *out, Style style);
void style_end(FILE *out);

/* A copy of `text` as valid UTF-8, without control characters except those in `allowed` (transfer
 * full). */
char *clean_text(const char *text, const char *allowed);

/* A table whose columns are as wide as their widest cell; on a terminal the text of wide columns
 * goes on in further lines. */
typedef struct Table Table;
Table *table_new(const char *const *headers); /* NULL-terminated */
/* Adds a row of as many strings as there are headers; copies. */
void table_add(Table *table, ...);
/* Prints and frees it. */
void table_print(Table *table);

/* ---- Models ------------------------------------------------------------------------------ */

/* Targets. Appends those of a comma-separated text (BpTarget, owned by the array); -1 with an
 * error. And the one target that an option takes (transfer full); NULL with an error. */
int targets_parse(const char *text, GPtrArray *targets);
BpTarget *target_parse_one(const char *option, const char *text);
/* The kind of its devices, "cpu" (transfer full). Whether it is what its kind alone is. */
char *target_device_kind(const BpTarget *target);
gboolean target_is_default(const BpTarget *target);
/* The target of a kind whose code runs on every device of the kind, or, of one of CPUs, on every
 * CPU of this machine's architecture (transfer full); NULL with an error. */
BpTarget *target_make_portable(const char *kind);
/* Compiles a small model for the kind, and runs it where there is a device. *text says so (transfer
 * full). 0, or -1 with an error. */
int target_check(const char *kind, char **text);

/* Shapes: BpInputShape, owned by the array. Those of options NAME=1x3x48x192, which may be NULL
 * (transfer full, g_array_unref); NULL with an error. That of an input, or NULL. */
GArray *shapes_parse(char *const *options);
const BpInputShape *shapes_find(const GArray *shapes, const char *name);
/* Adds the shapes of files, as options NAME=FILE give them, for inputs whose extents the ONNX file
 * at `path` and the shapes leave open. 0 or -1 with an error. */
int shapes_add_inputs(GArray *shapes, const char *path, char *const *inputs);
/* Which of the names the text NAME=FILE begins with, -1: none; names and paths may hold '=', so the
 * longest name that fits is meant. For inputs none is an error. */
int32_t name_find(const char *option, const GPtrArray *names);
int32_t input_find(const char *option, const GPtrArray *names);
int input_raise_unknown(const char *option, const GPtrArray *names);
/* The texts with ", " between them (transfer full), for errors. */
char *names_join(const GPtrArray *names);
/* Values of --input (transfer full, g_strfreev): "FILE.npz" alone becomes NAME=FILE.npz for each of
 * its arrays. NULL with an error. */
char **inputs_expand(char *const *options);
/* The value of an input (transfer full): a file, or a number or list as text. Extents of the info
 * may be open. NULL with an error. */
BpTensor *input_read(const char *text, const BpModelTensorInfo *info);
/* An array of a .npy or .npz file (transfer full), in the latter the one of that name, or its only
 * one; NULL with an error. */
BpTensor *array_read(const char *path, const char *name);

/* How an ONNX file is compiled. */
typedef struct OnnxOptions {
  char **shapes; /* NAME=1x3x48x192 */
  char **limits; /* NAME=NUMBER */
  gboolean is_reference;
  char **graph_compilers; /* NAME[,NAME...] */
  double required;        /* share of nodes that these must claim */
  gboolean measures;      /* keep what they claim only if it is faster here */
  gboolean specializes;   /* extents stay open, and those of the inputs get code of their own */
  int num_stages, stage;  /* from 2 stages on: the one that is compiled (BpCompileOptions) */
} OnnxOptions;
void onnx_options_clear(OnnxOptions *options);
/* Entries of OnnxOptions for the option tables of commands. */
#define ONNX_SHAPE_ENTRY(options)                                                                  \
  {                                                                                                \
    "shape", 's', 0, OPTION_TEXT_ARRAY, &(options)->shapes,                                        \
        "fixes an input's shape; may be repeated", "NAME=1x3x48x192"                               \
  }
#define ONNX_LIMIT_ENTRY(options)                                                                  \
  {                                                                                                \
    "limit", 0, 0, OPTION_TEXT_ARRAY, &(options)->limits,                                          \
        "most that compiling may take of nodes, constant-bytes, fold-work, functions; may be "     \
        "repeated",                                                                                \
        "NAME=N"                                                                                   \
  }
#define ONNX_REFERENCE_ENTRY(options)                                                              \
  {                                                                                                \
    "reference", 0, 0, G_OPTION_ARG_NONE, &(options)->is_reference,                                \
        "compile each operator by itself, in plain loops: slow, to find what went wrong", NULL     \
  }

#define ONNX_COMPILER_ENTRY(options)                                                               \
  {                                                                                                \
    "graph-compiler", 0, 0, OPTION_TEXT_ARRAY, &(options)->graph_compilers,                        \
        "plugins' libraries of operators and graph compilers that may claim parts of the model; "  \
        "may be repeated",                                                                         \
        "NAME[,NAME...]"                                                                           \
  }
#define ONNX_REQUIRE_ENTRY(options)                                                                \
  {                                                                                                \
    "require", 0, 0, G_OPTION_ARG_DOUBLE, &(options)->required,                                    \
        "an error if --graph-compiler claims a smaller share of the nodes, 0 to 1", "FRACTION"     \
  }

#define ONNX_MEASURE_ENTRY(options)                                                                \
  {                                                                                                \
    "measure", 0, 0, G_OPTION_ARG_NONE, &(options)->measures,                                      \
        "run the model with and without what --graph-compiler claims, and keep the faster", NULL   \
  }

#define ONNX_SPECIALIZE_ENTRY(options)                                                             \
  {                                                                                                \
    "specialize", 0, 0, G_OPTION_ARG_NONE, &(options)->specializes,                                \
        "compile an ONNX file for any extents, and once more for those of the inputs", NULL        \
  }

/* The programs that compute the nodes of a model: the claims of graph compilers, by operator, and
 * the nodes that run on a second device. Zeroed it is empty; claims_clear frees it. */
typedef struct ClaimReport {
  int32_t nodes, claimed;
  GPtrArray *rows;           /* NULL: no graph compiler was asked, or generated code was faster */
  json_t *placed;            /* {node, target, why} of nodes that the target refuses, or NULL */
  BpMeasuredClaims measured; /* its struct_size is 0 if nothing was measured */
} ClaimReport;
void claims_clear(ClaimReport *report);
/* BpCompileOptions::claimed, with the report for its context. */
int claims_add(void *context, const BpClaimedNode *node);
void claims_note_times(void *context, const BpMeasuredClaims *measured);
char **claims_names(char *const *options);
/* Takes the names of graph compilers from a list of targets, "c,dnnl", to those of the options,
 * whose claims are then measured. Replaces the list; one with nothing else stays as it is. */
void claims_take_names(char **targets, OnnxOptions *options);
/* A node that the fallback runs, the target that refuses it, and why. */
void claims_add_placed(ClaimReport *report, const char *node, const char *target, const char *why);
/* How many nodes are claimed, and why others are not, on stderr; the same as "claims" of JSON, with
 * "placed". */
void claims_print(const ClaimReport *report);
void claims_add_json(json_t *root, const ClaimReport *report);

/* Options that run, bench and profile have in common. */
typedef struct ModelOptions {
  char *device;
  char **devices; /* in its place where has_sides */
  char *target;
  OnnxOptions onnx;
  char **inputs; /* NAME=VALUE, FILE.npz */
  char *library; /* of a graph of TVM's, or NULL */
  char *params;
  int threads;
  gboolean has_sides;       /* no option: --device may be repeated, for a run on each */
  const char *input_folder; /* no option: where values of inputs are written, as 0.npy, 1.npy, ...,
                               by the model's order; or NULL */
  gboolean fills; /* no option: inputs that are not given are random numbers, of the shapes given */
  gboolean json;
} ModelOptions;

#define THREADS_DEFAULT G_MININT
#define MODEL_OPTIONS_INIT                                                                         \
  { .threads = THREADS_DEFAULT }

/* Appends the common entries, bound to `options`, to `extra` (transfer full, g_free). */
GOptionEntry *model_option_entries(ModelOptions *options, const GOptionEntry *extra);
void model_options_clear(ModelOptions *options);
/* Explains preferences for devices, if those given, or, where NULL is, BACKPLANE_DEVICE or the
 * configuration, ask for that: "help". *status: the command's exit status where they do. */
gboolean explain_preferences(const char *given, int *status);
/* That the value of --device names something; NULL: it was not given. 0 or -1 with an error. */
int preferences_check(const char *given);

/* A model: selected device, loaded or compiled code; with inputs, ready to run. */
typedef struct LoadedModel {
  const char *path;                       /* borrowed */
  BpDevice devices[BP_MODEL_MAX_DEVICES]; /* the model's, and what a graph on two has beside it */
  size_t num_devices;
  char device_text[160];      /* "opencl:1", "opencl:1 and cpu:0" */
  gboolean is_chosen_by_list; /* devices were named, if only as "auto" */
  char *report;               /* the devices that selection passed over, or "" */
  double compile_ms;          /* 0 for an artifact */
  double load_ms;             /* of an artifact, choosing its device included */
  BpTarget *fallback;         /* that an ONNX file was compiled with, or NULL */
  ClaimReport claims;
  BpModel *model;
  BpModelContext *context; /* NULL before model_set_inputs: it is the memory of a run */
  GArray *shapes;          /* BpInputShape, of the values that are set; NULL: not asked for */
} LoadedModel;

/* Opens a library, or a graph of TVM's with what belongs to it (transfer full); NULL with an error.
 */
BpModule *model_load(const char *path, const ModelOptions *options);
/* Selects the device and loads FILE.so, or compiles MODEL.onnx for it. 0 or -1 with an error. */
int model_open(const char *path, const ModelOptions *options, LoadedModel *loaded);
/* Says on stderr what device selection passed over, if anything, where devices were named. */
void model_print_report(const LoadedModel *loaded);
/* Room for the name of a device: "remote:me@gpubox/opencl:1". */
#define DEVICE_TEXT_MAX 256

/* The devices that the model uses: "opencl:0 and cpu:0" (transfer full). */
char *model_place_text(const LoadedModel *loaded);
void model_close(LoadedModel *loaded);
/* Adds the specialised code that the model has as "specialized", if it has any. */
void model_add_specialized(json_t *root, const LoadedModel *loaded);
/* Makes the context and sets the inputs given on the command line, once. The others are filled with
 * seeded random numbers, if that is so of the command, or an error names all of them. */
int model_set_inputs(LoadedModel *loaded, const ModelOptions *options);

/* What `profile` is asked for, and what it can write. */
typedef struct ProfileOptions {
  char *trace;
  char *dump_dir;
  int runs;       /* at least */
  double seconds; /* at least */
  char *order;    /* "time", "run", or NULL: time */
} ProfileOptions;

/* An operator of a run: when it ran in the fastest of the runs, and the least that it took in any.
 * Noise only adds. What follows the times is the graph's, and 0 or NULL where that says nothing. */
typedef struct Operator {
  char *node;
  char *function;
  int64_t start_ns;
  int64_t duration_ns;
  int64_t min_ns;
  guint place; /* in the order of the run */
  BpDevice device;
  char *shape;         /* of its first output */
  json_t *shape_value; /* the same */
  char *names;         /* of the model's nodes that it computes, with ends of lines between */
  json_t *inputs;      /* the names of the nodes whose results it reads */
  uint64_t bytes;      /* that it reads and writes */
  uint64_t live_bytes; /* of inputs and results that are kept while it runs */
  double steps;        /* how often the bodies of its loops run */
} Operator;

/* Runs a model whose inputs are set, and once more before: *records are its operators in their
 * order (Operator; transfer full, g_array_unref, even after an error). Returns how many runs there
 * were, or -1 with an error. */
int operators_measure(LoadedModel *loaded, const ProfileOptions *options, GArray **records);
json_t *operators_json(const GArray *records);
/* Thousand millions in a second; 0: not known. A step counts as two operations. */
double operator_gflops(const Operator *record);
double operator_gbps(const Operator *record);

/* Several: each path on each of the options' devices (transfer full, g_ptr_array_unref; of
 * LoadedModel); NULL with an error. The paths are borrowed. Adds further ones; 0 or -1 with an
 * error. As explain_preferences, of all devices. */
GPtrArray *sides_open(char *const *paths, const ModelOptions *options);
int sides_add(char *const *paths, const ModelOptions *options, GPtrArray *sides);
gboolean sides_explain_preferences(const ModelOptions *options, int *status);

/* Measures latency of each (LoadedModel), in turns, for at least so many seconds: an array of what
 * `bench --json` prints of one (transfer full); NULL with an error. */
json_t *bench_sides(GPtrArray *sides, const ModelOptions *options, double seconds);
/* The rates of generated code on the model's device: "gflops" and "gbps", or the "reason" why they
 * are unknown (transfer full). */
json_t *ceilings_measure(const LoadedModel *loaded);
/* What `inspect --json` prints of a model, and of a device (transfer full); the latter NULL with an
 * error. */
json_t *inspect_model_json(const LoadedModel *loaded);
json_t *inspect_device_json(const char *name);

/* Compiles an ONNX file for targets (BpTarget), with progress on a terminal (transfer full).
 * fallback: NULL, or the target for nodes that one of them refuses, which are reported. inputs:
 * NULL, or options NAME=FILE whose files fix the shapes that the model and --shape leave open.
 * *devices: where nodes were refused, what a run needs together, "vulkan,cpu" (transfer full); else
 * NULL. claims: empty; what graph compilers claim, which is printed too. */
BpModule *model_compile(const char *path, const GPtrArray *targets, const BpTarget *fallback,
                        const OnnxOptions *onnx, char *const *inputs, const char *dump_dir,
                        char **devices, ClaimReport *claims);

/* Prints an ONNX file as it is, nothing compiled; returns the exit status. */
int onnx_inspect(const char *path, gboolean lists_nodes, gboolean json);

/* Runs an ONNX file with the onnxruntime of the Python that BACKPLANE_PYTHON names, else python3.
 * inputs: names and .npy files, in turn, NULL-terminated. Files of what nodes and outputs give are
 * written into the folder; the result (transfer full) is an object with "version" of onnxruntime,
 * "nodes" and "outputs" ({name, file}; file is null for what has no .npy form). NULL with an error.
 */
json_t *onnxruntime_run(const char *model, const char *folder, const char *const *inputs);

/* Whether model_compile failed for what a target refuses and a fallback may run. */
gboolean model_is_refused(void);

/* Whether the path ends in that extension (".onnx"), in whatever case. */
gboolean path_has_extension(const char *path, const char *extension);

/* ---- Comparing --------------------------------------------------------------------------- */

/* The elements of a tensor of any device in host memory (transfer full); NULL with an error. */
char *elements_copy(const BpTensorView *view);
/* The position of an element, "[0,3]" (transfer full). */
char *index_to_text(int64_t index, const int64_t *shape, int32_t ndim);

/* An element matches if it is at most absolute + relative * |expected| away. */
typedef struct Tolerance {
  double relative, absolute;
} Tolerance;
#define TOLERANCE_INIT                                                                             \
  { .relative = 1e-3, .absolute = 1e-5 }
#define TOLERANCE_ENTRIES(tolerance)                                                               \
  {"rtol",                                                                                         \
   0,                                                                                              \
   0,                                                                                              \
   G_OPTION_ARG_DOUBLE,                                                                            \
   &(tolerance)->relative,                                                                         \
   "part of the expected value that an element may differ by (0.001)",                             \
   "R"},                                                                                           \
  {                                                                                                \
    "atol", 0, 0, G_OPTION_ARG_DOUBLE, &(tolerance)->absolute,                                     \
        "amount that an element may differ by beside that (0.00001)", "A"                          \
  }
int tolerance_check(const Tolerance *tolerance); /* 0 or -1 with an error */

/* How two tensors differ. Places count elements in row-major order; -1: there is none. */
typedef struct Difference {
  int64_t elements, mismatches;
  double absolute, relative; /* the largest; relative ones only where 0 is not expected */
  int64_t absolute_at, relative_at;
  int64_t first;        /* mismatch */
  double got, expected; /* there */
} Difference;
/* 0, or -1 with an error: other shapes, elements that are no numbers. */
int difference_find(const BpTensorView *actual, const BpTensorView *expected,
                    const Tolerance *tolerance, Difference *difference);
/* The largest differences and where they are, as text (transfer full) and as members of an object.
 * `view`: one of the tensors. */
char *difference_absolute_text(const Difference *difference, const BpTensorView *view);
char *difference_relative_text(const Difference *difference, const BpTensorView *view);
void difference_add_json(json_t *object, const Difference *difference, const BpTensorView *view);
/* Raises that there are mismatches; -1. */
int difference_raise(const Difference *difference, const BpTensorView *view,
                     const Tolerance *tolerance);

/* ---- Files ------------------------------------------------------------------------------- */

/* Opens a regular file to be read (fclose), and says how many bytes it has; NULL with an error. */
FILE *file_open(const char *path, gsize *size);
/* The bytes of a file and a zero behind them (transfer full, g_free); NULL with an error. */
char *file_read(const char *path, gsize *size);
/* An .npz archive, of which only what is asked for is read. Opens one (transfer full, npz_close,
 * which ignores NULL); NULL with an error. The number of its arrays, and of one its name, borrowed,
 * and its value (transfer full). */
typedef struct Npz Npz;
Npz *npz_open(const char *path);
void npz_close(Npz *npz);
guint npz_size(const Npz *npz);
const char *npz_name(const Npz *npz, guint index);
BpTensor *npz_get(const Npz *npz, guint index);
/* The array of that name, or the only one (transfer full); NULL with an error. */
BpTensor *npz_read(const char *path, const char *name);
/* Writes a file that the command line names. An earlier file stays as it is until the new one is
 * complete; a pipe or a terminal is written directly. `what` is for the message: "the trace". 0 or
 * -1 with an error. (output.c) */
int command_write_file(const char *path, const char *what, const char *bytes, gsize size);
/* Writes an archive, uncompressed, with tensors of any device. 0 or -1 with an error. */
int npz_write(const char *path, const char *const *names, const BpTensorView *const *views,
              guint count);

/* Whether the path is that of a picture: .png, .jpg, .jpeg. */
gboolean path_is_picture(const char *path);
/* Reads a PNG or JPEG into a float tensor of `shape` (N=1, C of 1 or 3, H, W; or C,H,W or H,W),
 * value/255 (transfer full). N, H and W may be -1: one picture, of its own size. Other sizes are an
 * error. */
BpTensor *picture_read(const char *path, const int64_t *shape, int32_t ndim);

#endif
