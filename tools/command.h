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
/* Exit statuses of doctor: the worst finding decides. */
#define EXIT_WARNING   3 /* something works with restrictions */
#define EXIT_UNUSABLE  4 /* a plugin cannot be used */
#define EXIT_NO_DEVICE 5 /* no device matches the preferences */

/* The program's name, which begins its messages: "backplane". Each program defines its own. */
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

/* Text exactly as typed. G_OPTION_ARG_STRING refuses text outside the locale's encoding, such as an
 * input's non-ASCII name when LC_ALL is C. */
#define OPTION_TEXT       G_OPTION_ARG_FILENAME
#define OPTION_TEXT_ARRAY G_OPTION_ARG_FILENAME_ARRAY

/* Returns a command's summary for the list of commands. Each program defines this function. */
const char *command_summary(const char *name);
/* Prints the manual page of a command, from the parts of its --help. */
void manual_print(const char *name, const GOptionEntry *entries, const char *arguments,
                  const char *summary, const char *details);
/* The hidden option that prints the manual page. */
#define MANUAL_OPTION "--help-manual"
/* Parses `entries` for a command whose positional arguments `arguments` describes and whose help
 * ends in `details`. Returns FALSE after an error message. After command_parse results go to
 * command_out. */
gboolean command_parse(int *argc, char ***argv, const GOptionEntry *entries, const char *arguments,
                       const char *summary, const char *details);
/* Reads the whole command line, before any output: if it has --json anywhere, errors are printed as
 * JSON as well. */
void command_begin(char **argv);
/* Whether command_parse has succeeded: after that the command's own code ends the program only by
 * returning. */
gboolean command_has_begun(void);
/* Whether the command line has --verbose: then the library's messages of level info are shown,
 * too. */
gboolean command_is_verbose(void);
/* Returns the word of a NULL-terminated list that is nearest to a mistyped one; NULL: none is
 * near. */
const char *nearest_word(const char *mistyped, const char *const *words);
/* Prints "backplane: ...", with the program's name, on stderr, and as JSON on stdout if the command
 * line has --json. Returns EXIT_USAGE. */
int command_usage_error(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Raises an error of the command line that is detected after command_parse: command_fail then
 * returns EXIT_USAGE. Returns -1. */
int command_raise_usage(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Checks, before the work, that files can be created in a folder; NULL is ignored. 0 or -1 with an
 * error. */
int command_check_folder(const char *path);
/* Whether two paths lead to one existing file or folder. */
gboolean command_is_one_file(const char *path, const char *other);
/* Checks that an output does not replace one of the files that the command reads, whatever their
 * names. `option` is for the message: "--output". `files` ends with NULL, and has FILE or
 * NAME=FILE. An output of NULL, and a list of NULL, are ignored. 0 or -1 with an error. */
int command_check_output(const char *option, const char *output, char *const *files);
/* Checks that an output does not replace a file of another kind, which a model may read: the file
 * is missing or empty, or begins with `start`. `kind` is for the message: "library". An output of
 * NULL is ignored. 0 or -1 with an error. */
int command_check_kind(const char *option, const char *output, const char *start, const char *kind);
/* Prints this thread's error on stderr, and as JSON on stdout if `json`. Returns EXIT_FAIL, or
 * EXIT_USAGE for an error of command_raise_usage. */
int command_fail(gboolean json);

/* ---- Output ------------------------------------------------------------------------------ */

/* Returns the stream for a command's results. After command_parse fd 1 is stderr, because plugins
 * run in this process and some print. */
FILE *command_out(void);
/* Writes the results that are still in memory. FALSE with a message on stderr: results were not
 * written. */
gboolean command_flush(void);
/* The descriptor to which a stream writes: command_out, or a stream of stdio. */
int output_descriptor(FILE *out);
/* JSON. If memory is exhausted, the functions for JSON end the command with a message. The
 * functions take over the values that they are given. A value is a text, made valid UTF-8 since
 * file names need not be; a number, which is null if JSON cannot represent it; or a list of
 * extents. */
json_t *text_json(const char *text);
json_t *number_json(double number);
json_t *shape_json(const int64_t *shape, int32_t ndim);
/* Add a member to an object, and an element to an array. */
void json_add(json_t *object, const char *name, json_t *value);
void json_append(json_t *array, json_t *value);
void json_add_str(json_t *object, const char *name, const char *text);
void json_add_int(json_t *object, const char *name, gint64 value);
void json_add_double(json_t *object, const char *name, double value);
/* Adds "name": Returns the list ["a", "b"] of space-separated words. */
void json_add_words(json_t *object, const char *name, const char *words);
/* Return the document as text, and release it (transfer full, g_free): each number is the shortest
 * text that reads back; or print it, indented. */
char *json_finish(json_t *document, gboolean is_compact);
void command_print_json(json_t *document);
/* Formats a shape: "1x3x48x192" (transfer full); "scalar" if there are no dimensions. */
char *shape_to_text(const int64_t *shape, int32_t ndim);
/* Formats a size: "14.2 KiB", "3.5 MiB" (transfer full). */
char *size_to_text(uint64_t bytes);
/* Formats a value for people (transfer full); "-" for None. */
char *value_to_text(const BpValue *value);

/* Whether elements of the type are shown as numbers: integers, bool, float16 to float64 and
 * bfloat16, with one lane. */
gboolean element_is_number(BpDataType dtype);
/* Writes a number as a float16 to float64 or bfloat16; FALSE: the type is a different one. */
gboolean element_write_float(char *data, BpDataType dtype, double value);
/* Parses a text such as "1.5" or "true" as an element; FALSE: the text is not a number of the
 * type. */
gboolean element_parse(const char *text, char *data, BpDataType dtype);
/* Return an element as a double; and the distance between two elements: 0 if both are NaN, infinite
 * if one is, exact if both are integers. */
double element_number(const char *data, BpDataType dtype);
double element_distance(const char *a, BpDataType a_type, const char *b, BpDataType b_type);
/* Appends a numeric element as text. */
void element_append(GString *text, const char *data, BpDataType dtype);
/* Makes a JSON value of a numeric element; NaN and infinity become null. */
json_t *element_json(const char *data, BpDataType dtype);

/* fprintf for untrusted text, such as a file's name. The function prints UTF-8, and no control
 * characters except tabs and newlines. */
void command_print(FILE *out, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* fprintf for untrusted text in one line, which ends at the end of the text. */
void command_print_line(FILE *out, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* How text appears on a terminal, unless NO_COLOR is set (no-color.org). */
typedef enum Style { STYLE_HEADER, STYLE_GOOD, STYLE_WARNING, STYLE_ERROR } Style;
void style_begin(FILE *out, Style style);
void style_end(FILE *out);

/* Returns `text` as valid UTF-8, without control characters except those in `allowed` (transfer
 * full). */
char *clean_text(const char *text, const char *allowed);

/* A table whose columns are as wide as their widest cell; on a terminal, the text of wide columns
 * is wrapped. */
typedef struct Table Table;
Table *table_new(const char *const *headers); /* NULL-terminated */
/* Adds a row with as many strings as there are headers; copies the strings. */
void table_add(Table *table, ...);
/* Prints the table and frees it. */
void table_print(Table *table);

/* ---- Models ------------------------------------------------------------------------------ */

/* Targets. targets_parse appends the targets of a comma-separated text (BpTarget, owned by the
 * array); -1 with an error. target_parse_one returns the one target of an option (transfer full);
 * NULL with an error. */
int targets_parse(const char *text, GPtrArray *targets);
BpTarget *target_parse_one(const char *option, const char *text);
/* Return the device kind of a target, "cpu" (transfer full); and whether the target equals the one
 * that its kind alone gives. */
char *target_device_kind(const BpTarget *target);
gboolean target_is_default(const BpTarget *target);
/* Returns the target of a kind whose code runs on every device of the kind or, for CPUs, on every
 * CPU of this machine's architecture (transfer full); NULL with an error. */
BpTarget *target_make_portable(const char *kind);
/* Compiles a small model for the kind, and runs it if there is a device. *text describes the result
 * (transfer full). 0, or -1 with an error. */
int target_check(const char *kind, char **text);

/* Shapes (BpInputShape, owned by the array). shapes_parse reads options NAME=1x3x48x192; `options`
 * may be NULL (transfer full, g_array_unref); NULL with an error. shapes_find returns the shape of
 * an input, or NULL. */
GArray *shapes_parse(char *const *options);
const BpInputShape *shapes_find(const GArray *shapes, const char *name);
/* Adds the shapes of the files in options NAME=FILE, for inputs whose extents the ONNX file at
 * `path` and the shapes leave open. 0 or -1 with an error. */
int shapes_add_inputs(GArray *shapes, const char *path, char *const *inputs);
/* Returns which of the names the text NAME=FILE begins with; -1: none. Names and paths may contain
 * '=', so the longest matching name counts. input_find raises an error if there is none. */
int32_t name_find(const char *option, const GPtrArray *names);
int32_t input_find(const char *option, const GPtrArray *names);
int input_raise_unknown(const char *option, const GPtrArray *names);
/* Joins texts with ", " (transfer full), for errors. */
char *names_join(const GPtrArray *names);
/* Expands the values of --input (transfer full, g_strfreev): "FILE.npz" alone becomes NAME=FILE.npz
 * for each of its arrays. NULL with an error. */
char **inputs_expand(char *const *options);
/* Reads the value of an input (transfer full): a file, or a number or list as text. Extents of the
 * info may be open. NULL with an error. */
BpTensor *input_read(const char *text, const BpModelTensorInfo *info);
/* Reads an array of a .npy or .npz file (transfer full): in an .npz file the array with the name,
 * or the only array; NULL with an error. */
BpTensor *array_read(const char *path, const char *name);

/* Options for compiling an ONNX file. */
typedef struct OnnxOptions {
  char **shapes; /* NAME=1x3x48x192 */
  char **limits; /* NAME=NUMBER */
  gboolean is_reference;
  char **graph_compilers; /* NAME[,NAME...] */
  double required;        /* share of nodes that graph compilers must claim */
  gboolean measures;      /* keep claimed parts only if they are faster here */
  gboolean specializes;   /* keep extents open, and specialise for the inputs' shapes */
  int num_stages, stage;  /* from 2 stages on: the stage to compile (BpCompileOptions) */
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
        "limits compilation: NAME is nodes, constant-bytes, fold-work or functions; may be "       \
        "repeated",                                                                                \
        "NAME=N"                                                                                   \
  }
#define ONNX_REFERENCE_ENTRY(options)                                                              \
  {                                                                                                \
    "reference", 0, 0, G_OPTION_ARG_NONE, &(options)->is_reference,                                \
        "compile each operator by itself, in plain loops: slow, for finding errors", NULL          \
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
        "run the model with and without the claims of --graph-compiler, and keep the faster "      \
        "version",                                                                                 \
        NULL                                                                                       \
  }

#define ONNX_SPECIALIZE_ENTRY(options)                                                             \
  {                                                                                                \
    "specialize", 0, 0, G_OPTION_ARG_NONE, &(options)->specializes,                                \
        "compile an ONNX file for any extents, and once more for those of the inputs", NULL        \
  }

/* The programs that compute the nodes of a model: the claims of graph compilers, by operator, and
 * the nodes that run on other devices. A zeroed report is empty; claims_clear frees it. */
typedef struct ClaimReport {
  int32_t nodes, claimed;
  GPtrArray *rows;           /* NULL: no graph compiler was asked, or generated code was faster */
  json_t *placed;            /* {node, target, why} of nodes that the target refuses, or NULL */
  guint32 takers;            /* fallbacks that got a node, a bit each */
  BpMeasuredClaims measured; /* its struct_size is 0 if nothing was measured */
} ClaimReport;
void claims_clear(ClaimReport *report);
/* BpCompileOptions::claimed; its context is the report. */
int claims_add(void *context, const BpClaimedNode *node);
void claims_note_times(void *context, const BpMeasuredClaims *measured);
char **claims_names(char *const *options);
/* Moves the names of graph compilers in a list of targets, "c,dnnl", to the options; their claims
 * are then measured. Replaces the list; a list without other entries is unchanged. */
void claims_take_names(char **targets, OnnxOptions *options);
/* A node that a fallback runs, a target that refuses it, and why. */
void claims_add_placed(ClaimReport *report, const char *node, const char *target, const char *why);
/* Sets the target that runs a node of claims_add_placed. */
void claims_set_taker(ClaimReport *report, const char *node, const char *taker);
/* Print on stderr how many nodes are claimed, and why others are not; and add the same as "claims"
 * to JSON, with "placed". */
void claims_print(const ClaimReport *report);
void claims_add_json(json_t *root, const ClaimReport *report);

/* Options that run, bench and profile share. */
typedef struct ModelOptions {
  char *device;
  char **devices; /* instead of `device` if has_sides */
  char *target;
  OnnxOptions onnx;
  char **inputs; /* NAME=VALUE, FILE.npz */
  char *library; /* library of a TVM graph, or NULL */
  char *params;
  int threads;
  gboolean has_sides;       /* not an option: --device may be repeated, for a run on each */
  const char *input_folder; /* not an option: folder of the inputs 0.npy, 1.npy, ...; or NULL */
  gboolean fills;           /* not an option: inputs that are not given get random numbers */
  gboolean json;
} ModelOptions;

#define THREADS_DEFAULT G_MININT
#define MODEL_OPTIONS_INIT                                                                         \
  { .threads = THREADS_DEFAULT }

/* Appends the common entries, bound to `options`, to `extra` (transfer full, g_free). */
GOptionEntry *model_option_entries(ModelOptions *options, const GOptionEntry *extra);
void model_options_clear(ModelOptions *options);
/* Explains preferences for devices if `given` asks for that ("help"); if `given` is NULL,
 * BACKPLANE_DEVICE or the configuration may ask. *status becomes the command's exit status in that
 * case. */
gboolean explain_preferences(const char *given, int *status);
/* Checks that the value of --device is not empty; NULL: the option was not given. 0 or -1 with an
 * error. */
int preferences_check(const char *given);

/* A model: its selected devices, its loaded or compiled code, and a context with inputs, ready to
 * run. */
typedef struct LoadedModel {
  const char *path;                       /* borrowed */
  BpDevice devices[BP_MODEL_MAX_DEVICES]; /* the model's device, and then the other devices that it
                                             uses */
  size_t num_devices;
  char device_text[1024];     /* "opencl:1", "opencl:1 and cpu:0" */
  gboolean is_chosen_by_list; /* devices were named, if only as "auto" */
  char *report;               /* the devices that selection passed over, or "" */
  double compile_ms;          /* time of compilation; 0 for an artifact */
  double load_ms;             /* time of loading an artifact, choosing its device included */
  GPtrArray *fallbacks; /* BpTarget: the fallbacks of a compiled ONNX file; NULL for other files */
  ClaimReport claims;
  BpModel *model;
  BpModelContext *context; /* NULL before model_set_inputs: it has the memory of a run */
  GArray *shapes;          /* BpInputShape of the set values; NULL: not requested */
} LoadedModel;

/* Opens a library, or a graph of TVM with its other files (transfer full); NULL with an error. */
BpModule *model_load(const char *path, const ModelOptions *options);
/* Selects the device and loads FILE.so, or compiles MODEL.onnx for it. 0 or -1 with an error. */
int model_open(const char *path, const ModelOptions *options, LoadedModel *loaded);
/* The files beside an ONNX file that have elements of its tensors, valid until the next call; none
 * if the file is no ONNX file or cannot be read. */
char *const *model_files_beside(const char *path);
/* command_check_output for the files of models, those beside them, and those of the options:
 * `paths` ends with NULL. */
int model_check_output(const char *option, const char *output, char *const *paths,
                       const ModelOptions *options);
/* If devices were named, prints on stderr which devices the selection passed over. */
void model_print_report(const LoadedModel *loaded);
/* Bytes for the name of a device, such as "remote:me@gpubox/opencl:1". */
#define DEVICE_TEXT_MAX 256

/* Formats the devices that the model uses: "opencl:0 and cpu:0" (transfer full). */
char *model_place_text(const LoadedModel *loaded);
void model_close(LoadedModel *loaded);
/* Waits for all outputs of the last run. 0 or -1 with an error. */
int model_wait(const LoadedModel *loaded);
/* The kind of an input or output as text. */
const char *kind_to_text(int32_t kind);
/* Fails if an input or output of the model is a sequence or an optional. */
int model_check_tensors(const BpModel *model);
/* Adds the model's specialised code as "specialized", if it has any. */
void model_add_specialized(json_t *root, const LoadedModel *loaded);
/* Makes the context and sets the inputs given on the command line, once. If the command fills
 * inputs, the others get seeded random numbers; otherwise an error names all of them. */
int model_set_inputs(LoadedModel *loaded, const ModelOptions *options);

/* The options of `profile`. */
typedef struct ProfileOptions {
  char *trace;
  char *dump_dir;
  int runs;       /* least number of runs */
  double seconds; /* least time */
  char *order;    /* "time", "run", or NULL: time */
} ProfileOptions;

/* An operator of a run: its time in the fastest run, and its minimum over all runs, since noise
 * only adds time. The members after the times come from the graph, and are 0 or NULL if the graph
 * lacks them. */
typedef struct Operator {
  char *node;
  char *function;
  int64_t start_ns;
  int64_t duration_ns;
  int64_t min_ns;
  guint place; /* position in the order of the run */
  BpDevice device;
  char *shape;         /* shape of its first output */
  json_t *shape_value; /* the shape as JSON */
  char *names;         /* names of the model's nodes that the operator computes, one a line */
  json_t *inputs;      /* names of the nodes whose results the operator reads */
  uint64_t bytes;      /* bytes that it reads and writes */
  uint64_t live_bytes; /* bytes of inputs and results that are alive while it runs */
  double steps;        /* how often the bodies of its loops run */
} Operator;

/* Runs a model whose inputs are set, after one unmeasured run. *records are its operators in order
 * (Operator; transfer full, g_array_unref, even after an error). Returns the number of runs, or -1
 * with an error. */
int operators_measure(LoadedModel *loaded, const ProfileOptions *options, GArray **records);
json_t *operators_json(const GArray *records);
/* Return billions of operations or bytes per second; 0: unknown. A step counts as two
 * operations. */
double operator_gflops(const Operator *record);
double operator_gbps(const Operator *record);

/* Several models. sides_open opens each path on each of the options' devices (transfer full,
 * g_ptr_array_unref; of LoadedModel); NULL with an error. The paths are borrowed. sides_add adds
 * further models; 0 or -1 with an error. sides_explain_preferences is explain_preferences for all
 * devices. */
GPtrArray *sides_open(char *const *paths, const ModelOptions *options);
int sides_add(char *const *paths, const ModelOptions *options, GPtrArray *sides);
gboolean sides_explain_preferences(const ModelOptions *options, int *status);

/* Measures the latency of each LoadedModel, in turns, for at least `seconds`; returns an array of
 * the objects that `bench --json` prints (transfer full); NULL with an error. */
json_t *bench_sides(GPtrArray *sides, const ModelOptions *options, double seconds);
/* The rates of generated code on the model's device: "gflops" and "gbps", or the "reason" why they
 * are unknown (transfer full). */
json_t *ceilings_measure(const LoadedModel *loaded);
/* Return the objects that `inspect --json` prints for a model, and for a device (transfer full);
 * NULL with an error for a device. */
json_t *inspect_model_json(const LoadedModel *loaded);
json_t *inspect_device_json(const char *name);

/* Compiles an ONNX file for targets (BpTarget), with progress on a terminal (transfer full).
 * fallbacks: NULL, or targets for nodes that one of them refuses, which are reported. inputs:
 * NULL, or options NAME=FILE whose files fix the shapes that the model and --shape leave open.
 * *devices: where nodes were refused, what a run needs together, "vulkan,cpu" (transfer full); else
 * NULL. claims: empty; what graph compilers claim, which is printed too. */
BpModule *model_compile(const char *path, const GPtrArray *targets, const GPtrArray *fallbacks,
                        const OnnxOptions *onnx, char *const *inputs, const char *dump_dir,
                        char **devices, ClaimReport *claims);

/* Describes an ONNX file without compiling it; returns the exit status. */
int onnx_inspect(const char *path, gboolean lists_nodes, gboolean json);

/* Runs an ONNX file with the onnxruntime of the Python that BACKPLANE_PYTHON names, else python3.
 * inputs: names and .npy files, in turn, NULL-terminated. The values of nodes and outputs are
 * written as files to the folder; the result (transfer full) is an object with "version" of
 * onnxruntime, "nodes" and "outputs" ({name, file}; file is null for a value that .npy does not
 * support). NULL with an error.
 */
json_t *onnxruntime_run(const char *model, const char *folder, const char *const *inputs);

/* Whether model_compile failed because a target refuses a construct that a fallback may run. */
gboolean model_is_refused(void);

/* Whether the path ends in the given extension (".onnx"), ignoring case. */
gboolean path_has_extension(const char *path, const char *extension);

/* ---- Comparing --------------------------------------------------------------------------- */

/* Copies the elements of a tensor of any device to host memory (transfer full); NULL with an
 * error. */
char *elements_copy(const BpTensorView *view);
/* Formats the position of an element, "[0,3]" (transfer full). */
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
        "amount that an element may differ by, added to that of --rtol (0.00001)", "A"             \
  }
int tolerance_check(const Tolerance *tolerance); /* 0 or -1 with an error */

/* The difference between two tensors. Positions count elements in row-major order; -1: there is
 * none. */
typedef struct Difference {
  int64_t elements, mismatches;
  double absolute,
      relative; /* largest differences; `relative` only where the expected element is not 0 */
  int64_t absolute_at, relative_at;
  int64_t first;        /* mismatch */
  double got, expected; /* values at the first mismatch */
} Difference;
/* Compares two tensors. 0, or -1 with an error for different shapes or elements that are not
 * numbers. */
int difference_find(const BpTensorView *actual, const BpTensorView *expected,
                    const Tolerance *tolerance, Difference *difference);
/* Format the largest differences and their positions, as text (transfer full) and as members of an
 * object. `view`: one of the tensors. */
char *difference_absolute_text(const Difference *difference, const BpTensorView *view);
char *difference_relative_text(const Difference *difference, const BpTensorView *view);
void difference_add_json(json_t *object, const Difference *difference, const BpTensorView *view);
/* Raises the error that there are mismatches; -1. */
int difference_raise(const Difference *difference, const BpTensorView *view,
                     const Tolerance *tolerance);

/* ---- Files ------------------------------------------------------------------------------- */

/* Temporary files, and folders that have only files. After temporary_add (which copies the path)
 * SIGHUP, SIGINT and SIGTERM remove the file or folder before they end the program.
 * temporary_remove removes it at once. Only one thread may call these functions. (temporary.c) */
void temporary_add(const char *path);
void temporary_remove(const char *path);

/* Opens a regular file for reading (fclose), and gives its size in bytes; NULL with an error. */
FILE *file_open(const char *path, gsize *size);
/* Reads a file, with a NUL after its bytes (transfer full, g_free); NULL with an error. */
char *file_read(const char *path, gsize *size);
/* An .npz archive, of which only requested members are read. npz_open opens an archive (transfer
 * full, npz_close, which ignores NULL); NULL with an error. npz_size returns the number of arrays,
 * npz_name the name of one, borrowed, and npz_get its value (transfer full). */
typedef struct Npz Npz;
Npz *npz_open(const char *path);
void npz_close(Npz *npz);
guint npz_size(const Npz *npz);
const char *npz_name(const Npz *npz, guint index);
BpTensor *npz_get(const Npz *npz, guint index);
/* Finds the array with a name, or the only array (transfer full); NULL with an error. */
BpTensor *npz_read(const char *path, const char *name);
/* Writes a file that the command line names. An existing file is replaced only when the new one is
 * complete; a pipe or a terminal is written directly. `what` is for the message: "the trace". 0 or
 * -1 with an error. (output.c) */
int command_write_file(const char *path, const char *what, const char *bytes, gsize size);
/* Writes a tensor to a .npy file as bp_npy_write does. (output.c) */
int command_write_npy(const char *path, const BpTensorView *view);
/* Writes an archive, uncompressed, with tensors of any device. 0 or -1 with an error. */
int npz_write(const char *path, const char *const *names, const BpTensorView *const *views,
              guint count);

/* Whether the path is a picture: .png, .jpg, .jpeg. */
gboolean path_is_picture(const char *path);
/* Reads a PNG or JPEG into a float tensor of `shape` (N=1, C of 1 or 3, H, W; or C,H,W or H,W),
 * value/255 (transfer full). N, H and W may be -1: then the input takes one picture of any size.
 * Known sizes must match the picture's. */
BpTensor *picture_read(const char *path, const int64_t *shape, int32_t ndim);

#endif
