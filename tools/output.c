/* SPDX-License-Identifier: Apache-2.0 */
/* Options, messages, tables and JSON for the subcommands. */
#include "tools/command.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <backplane/graph/npy.h>
#include <backplane/object.h>

/* The original stdout of the command; NULL while fd 1 still is the original. */
static FILE *results;
static int results_fd;

FILE *command_out(void) {
  return results ? results : stdout;
}

int output_descriptor(FILE *out) {
  return out == results ? results_fd : fileno(out);
}

/* Whether the command line has --json, even in the wrong place. */
static gboolean is_json;

void command_begin(char **argv) {
  is_json = g_strv_contains((const char *const *)argv, "--json");
}

static gboolean is_verbose;

gboolean command_is_verbose(void) {
  return is_verbose;
}

static volatile sig_atomic_t has_begun;

gboolean command_has_begun(void) {
  return has_begun;
}

/* Writes bytes of `results`. A signal handler of a plugin or driver can interrupt a write, after
 * which a stream of fdopen would lose its bytes. */
static ssize_t write_results(void *unused, const char *bytes, size_t size) {
  size_t done = 0;
  (void)unused;
  while (done < size) {
    ssize_t written = write(results_fd, bytes + done, size - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      break;
    done += (size_t)written;
  }
  return (ssize_t)done;
}

/* Redirects fd 1, so that later output of plugins and of programs that they start goes to
 * stderr. */
static void keep_stdout(void) {
  static const cookie_io_functions_t functions = {.write = write_results};
  int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  FILE *kept = fd < 0 ? NULL : fopencookie(NULL, "w", functions);
  if (!kept || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    if (kept)
      fclose(kept);
    if (fd >= 0)
      close(fd);
    return;
  }
  setvbuf(kept, NULL, isatty(fd) ? _IOLBF : _IOFBF, BUFSIZ);
  results = kept;
  results_fd = fd;
}

/* While a file is written, fd 1 is the output again: the file may be /dev/stdout. Later output
 * follows it. */
static void lend_stdout(gboolean is_lent) {
  if (!results)
    return;
  if (is_lent)
    fflush(results);
  else
    lseek(results_fd, 0, SEEK_END);
  dup2(is_lent ? results_fd : STDERR_FILENO, STDOUT_FILENO);
}

gboolean command_flush(void) {
  if (fflush(command_out()) == 0 && !ferror(command_out()))
    return TRUE;
  fprintf(stderr, "%s: cannot write the output: %s\n", command_program, g_strerror(errno));
  return FALSE;
}

/* Returns the edit distance: the number of letters omitted, added, changed or exchanged with the
 * next one. */
static size_t count_edits(const char *a, const char *b) {
  size_t rows = strlen(a) + 1, columns = strlen(b) + 1;
  size_t *edits = g_new0(size_t, rows * columns);
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++) {
      size_t *at = edits + i * columns + j;
      *at = i + j;
      if (i)
        *at = MIN(*at, at[-(ptrdiff_t)columns] + 1);
      if (j)
        *at = MIN(*at, at[-1] + 1);
      if (i && j)
        *at = MIN(*at, at[-(ptrdiff_t)columns - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        *at = MIN(*at, at[-2 * (ptrdiff_t)columns - 2] + 1);
    }
  size_t count = edits[rows * columns - 1];
  g_free(edits);
  return count;
}

const char *nearest_word(const char *mistyped, const char *const *words) {
  size_t least = strlen(mistyped) / 3 + 1;
  const char *nearest = NULL;
  for (; *words && strlen(mistyped) <= 64; words++) {
    size_t edits = count_edits(mistyped, *words);
    if (edits < least + !nearest && edits < strlen(*words))
      least = edits, nearest = *words;
  }
  return nearest;
}

/* Returns ", did you mean --device?" for an option that GLib does not know, or "" (transfer
 * full). */
static char *suggest_option(const GError *error, const GOptionEntry *entries) {
  const char *unknown = strstr(error->message, "--");
  GPtrArray *names = g_ptr_array_new();
  char *word = NULL, *text;
  if (g_error_matches(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) && unknown)
    word = g_strndup(unknown + 2, strcspn(unknown + 2, "= \""));
  for (; entries->long_name; entries++)
    if (!(entries->flags & G_OPTION_FLAG_HIDDEN))
      g_ptr_array_add(names, (char *)entries->long_name);
  g_ptr_array_add(names, (char *)"help");
  g_ptr_array_add(names, NULL);
  const char *nearest = word ? nearest_word(word, (const char *const *)names->pdata) : NULL;
  text = nearest ? g_strdup_printf(", did you mean --%s?", nearest) : g_strdup("");
  g_ptr_array_free(names, TRUE);
  g_free(word);
  return text;
}

/* GLib removes "--" only if no later argument begins with a dash. The first "--" is the separator.
 */
static void drop_separator(int *argc, char **argv) {
  for (int i = 1; i < *argc; i++)
    if (strcmp(argv[i], "--") == 0) {
      memmove(argv + i, argv + i + 1, (size_t)(*argc - i - 1) * sizeof *argv);
      argv[--*argc] = NULL;
      return;
    }
}

gboolean command_parse(int *argc, char ***argv, const GOptionEntry *entries, const char *arguments,
                       const char *summary, const char *details) {
  static const GOptionEntry common[] = {
      {"verbose", 'v', 0, G_OPTION_ARG_NONE, &is_verbose, "show the library's log messages", NULL},
      {NULL, 0, 0, 0, NULL, NULL, NULL}};
  const char *command = (*argv)[0];
  char *name = g_strdup_printf("%s %s", command_program, command);
  g_set_prgname(name);
  (*argv)[0] = name;
  GOptionContext *context = g_option_context_new(arguments);
  g_option_context_set_summary(context, summary);
  g_option_context_set_description(context, details);
  g_option_context_add_main_entries(context, entries, NULL);
  g_option_context_add_main_entries(context, common, NULL);
  if (*argc == 2 && strcmp((*argv)[1], MANUAL_OPTION) == 0) {
    manual_print(command, entries, arguments, summary, details);
    exit(EXIT_OK); /* GLib does the same after --help */
  }
  GError *error = NULL;
  gboolean ok = g_option_context_parse(context, argc, argv, &error);
  if (!ok) {
    char *suggestion = suggest_option(error, entries);
    command_usage_error("%s%s; `%s --help` explains the options", error->message, suggestion, name);
    g_free(suggestion);
    g_error_free(error);
  }
  g_option_context_free(context);
  if (ok) {
    drop_separator(argc, *argv);
    keep_stdout();
  }
  has_begun = ok;
  return ok;
}

/* Whether a character controls the terminal or affects the surrounding text. C1 counts, because
 * U+009B means ESC [; so do Unicode's line and paragraph separators and characters that change the
 * direction of writing. */
static gboolean is_control(gunichar c) {
  GUnicodeType type = g_unichar_type(c);
  return type == G_UNICODE_CONTROL || type == G_UNICODE_LINE_SEPARATOR ||
         type == G_UNICODE_PARAGRAPH_SEPARATOR || c == 0x061c || (c >= 0x200e && c <= 0x200f) ||
         (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

char *clean_text(const char *text, const char *allowed) {
  char *valid = g_utf8_make_valid(text, -1);
  GString *clean = g_string_new(NULL);
  for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
    gunichar c = g_utf8_get_char(at);
    g_string_append_unichar(clean, is_control(c) && !strchr(allowed, *at) ? '?' : c);
  }
  g_free(valid);
  return g_string_free(clean, FALSE);
}

static void print_clean(FILE *out, const char *allowed, const char *format, va_list args)
    G_GNUC_PRINTF(3, 0);
static void print_clean(FILE *out, const char *allowed, const char *format, va_list args) {
  char *text = g_strdup_vprintf(format, args);
  char *clean = clean_text(text, allowed);
  fputs(clean, out);
  g_free(clean);
  g_free(text);
}

void command_print(FILE *out, const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_clean(out, "\t\n", format, args);
  va_end(args);
}

void command_print_line(FILE *out, const char *format, ...) {
  va_list args;
  va_start(args, format);
  print_clean(out, "", format, args);
  fputc('\n', out);
  va_end(args);
}

#define USAGE_ERROR "UsageError"

static void print_error_json(const char *kind, const char *message) {
  json_t *root = json_object(), *error = json_object();
  json_add_str(error, "kind", kind);
  json_add_str(error, "message", message);
  json_add(root, "error", error);
  command_print_json(root);
}

static void print_error(const char *message) {
  style_begin(stderr, STYLE_ERROR);
  fprintf(stderr, "%s:", command_program);
  style_end(stderr);
  command_print(stderr, " %s\n", message);
}

int command_usage_error(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *message = g_strdup_vprintf(format, args);
  va_end(args);
  if (is_json)
    print_error_json(USAGE_ERROR, message);
  print_error(message);
  g_free(message);
  return EXIT_USAGE;
}

int command_raise_usage(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *message = g_strdup_vprintf(format, args);
  va_end(args);
  bp_error_raise(USAGE_ERROR, "%s", message);
  g_free(message);
  return -1;
}

int command_check_folder(const char *path) {
  struct stat status;
  if (!path)
    return 0;
  int is_there = stat(path, &status) == 0;
  if (is_there && !S_ISDIR(status.st_mode))
    errno = ENOTDIR;
  else if (is_there && access(path, W_OK | X_OK) == 0)
    return 0;
  return bp_error_raise(BP_ERROR_IO, "cannot write into the folder '%s': %s%s", path,
                        g_strerror(errno), is_there ? "" : "; make it first");
}

gboolean command_is_one_file(const char *path, const char *other) {
  struct stat a, b;
  return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

int command_check_output(const char *option, const char *output, char *const *files) {
  struct stat file;
  if (!output || stat(output, &file) != 0 || !S_ISREG(file.st_mode))
    return 0;
  for (; files && *files; files++) {
    const char *value = strchr(*files, '=');
    if (command_is_one_file(*files, output) || (value && command_is_one_file(value + 1, output)))
      return command_raise_usage("%s %s would replace a file that the command reads: %s", option,
                                 output, *files);
  }
  return 0;
}

/* Reads the first `size` bytes of a file, or fewer if it is shorter; -1 with errno. */
static ssize_t read_begin(const char *path, char *begin, size_t size) {
  int fd;
  ssize_t got;
  do
    fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  do
    got = fd < 0 ? -1 : read(fd, begin, size);
  while (fd >= 0 && got < 0 && errno == EINTR);
  int error = errno;
  if (fd >= 0)
    close(fd);
  errno = error;
  return got;
}

int command_check_kind(const char *option, const char *output, const char *start,
                       const char *kind) {
  struct stat file;
  char begin[16] = "";
  size_t size = MIN(strlen(start), sizeof begin);
  if (!output || stat(output, &file) != 0 || !S_ISREG(file.st_mode) || !file.st_size)
    return 0;
  ssize_t got = read_begin(output, begin, size);
  if (got < 0)
    return bp_error_raise(BP_ERROR_IO,
                          "%s %s would replace a file that cannot be read, to see whether it is a "
                          "%s: %s; remove the file first, or choose another name",
                          option, output, kind, g_strerror(errno));
  return (size_t)got == size && memcmp(begin, start, size) == 0
             ? 0
             : command_raise_usage("%s %s would replace a file that is no %s; remove the file "
                                   "first, or choose another name",
                                   option, output, kind);
}

int command_fail(gboolean json) {
  if (strcmp(bp_error_kind(), USAGE_ERROR) == 0) {
    int status = command_usage_error("%s", bp_error_message());
    bp_error_clear();
    return status;
  }
  if (json)
    print_error_json(bp_error_kind(), bp_error_message());
  print_error(bp_error_message());
  bp_error_clear();
  return EXIT_FAIL;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void end_for_lack_of_memory(void) {
  fputs("backplane: there is no memory for the JSON output\n", stderr);
  _exit(EXIT_FAIL);
}

/* Appends the shortest text that reads back as the number, with a point or an exponent, as for a
 * real. */
static void append_real(GString *out, double number) {
  char text[32];
  for (int digits = 15; digits <= 17; digits++) {
    g_snprintf(text, sizeof text, "%.*g", digits, number);
    if (g_ascii_strtod(text, NULL) == number)
      break;
  }
  g_string_append(out, text);
  if (!text[strcspn(text, ".e")])
    g_string_append(out, ".0");
}

/* Begins a line inside `depth` brackets; appends nothing in a compact document. */
static void append_break(GString *out, int depth) {
  if (depth >= 0)
    g_string_append_printf(out, "\n%*s", 2 * depth, "");
}

static void append_json(GString *out, json_t *value, int depth);

/* JSON requires escapes only for the control characters of ASCII, but a terminal obeys others, too.
 */
static void append_scalar(GString *out, const json_t *value) {
  char *text = json_dumps(value, JSON_ENCODE_ANY);
  if (!text)
    end_for_lack_of_memory();
  for (const char *at = text; *at; at = g_utf8_next_char(at)) {
    gunichar c = g_utf8_get_char(at);
    if (is_control(c))
      g_string_append_printf(out, "\\u%04x", c);
    else
      g_string_append_unichar(out, c);
  }
  free(text);
}

static void append_object(GString *out, json_t *object, int depth) {
  const char *separator = "", *name;
  json_t *member;
  int inner = depth < 0 ? depth : depth + 1;
  g_string_append_c(out, '{');
  json_object_foreach(object, name, member) {
    json_t *key = text_json(name);
    g_string_append(out, separator);
    append_break(out, inner);
    append_scalar(out, key);
    g_string_append(out, depth < 0 ? ":" : ": ");
    append_json(out, member, inner);
    json_decref(key);
    separator = ",";
  }
  if (*separator)
    append_break(out, depth);
  g_string_append_c(out, '}');
}

static void append_array(GString *out, json_t *array, int depth) {
  int inner = depth < 0 ? depth : depth + 1;
  g_string_append_c(out, '[');
  for (size_t i = 0; i < json_array_size(array); i++) {
    g_string_append(out, i ? "," : "");
    append_break(out, inner);
    append_json(out, json_array_get(array, i), inner);
  }
  if (json_array_size(array))
    append_break(out, depth);
  g_string_append_c(out, ']');
}

/* depth: number of brackets around the value; -1: in one line. jansson writes reals with 17
 * digits. */
static void append_json(GString *out, json_t *value, int depth) {
  if (json_is_object(value))
    append_object(out, value, depth);
  else if (json_is_array(value))
    append_array(out, value, depth);
  else if (json_is_real(value))
    append_real(out, json_real_value(value));
  else
    append_scalar(out, value);
}

char *json_finish(json_t *document, gboolean is_compact) {
  GString *text = g_string_new(NULL);
  append_json(text, document, is_compact ? -1 : 0);
  json_decref(document);
  return g_string_free(text, FALSE);
}

void command_print_json(json_t *document) {
  char *text = json_finish(document, FALSE);
  fprintf(command_out(), "%s\n", text);
  g_free(text);
}

json_t *text_json(const char *text) {
  char *valid = g_utf8_make_valid(text, -1);
  json_t *json = json_string(valid);
  g_free(valid);
  return json;
}

json_t *number_json(double number) {
  return isfinite(number) ? json_real(number) : json_null();
}

json_t *shape_json(const int64_t *shape, int32_t ndim) {
  json_t *array = json_array();
  for (int32_t i = 0; i < ndim; i++)
    json_append(array, json_integer(shape[i]));
  return array;
}

void json_add(json_t *object, const char *name, json_t *value) {
  if (json_object_set_new(object, name, value) < 0)
    end_for_lack_of_memory();
}

void json_append(json_t *array, json_t *value) {
  if (json_array_append_new(array, value) < 0)
    end_for_lack_of_memory();
}

void json_add_str(json_t *object, const char *name, const char *text) {
  json_add(object, name, text_json(text));
}

void json_add_int(json_t *object, const char *name, gint64 value) {
  json_add(object, name, json_integer(value));
}

void json_add_double(json_t *object, const char *name, double value) {
  json_add(object, name, number_json(value));
}

void json_add_words(json_t *object, const char *name, const char *words) {
  char **list = g_strsplit(words, " ", -1);
  json_t *array = json_array();
  for (char **word = list; *word; word++)
    if (**word)
      json_append(array, text_json(*word));
  json_add(object, name, array);
  g_strfreev(list);
}

/* ---- Texts ------------------------------------------------------------------------------- */

char *shape_to_text(const int64_t *shape, int32_t ndim) {
  GString *text = g_string_new(ndim < 0 ? "?" : ndim ? NULL : "scalar");
  for (int32_t i = 0; i < ndim; i++)
    if (shape[i] < 0)
      g_string_append(text, i ? "x?" : "?");
    else
      g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i ? "x" : "", shape[i]);
  return g_string_free(text, FALSE);
}

char *size_to_text(uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double size = (double)bytes / 1024.0;
  size_t unit = 0;
  for (; size >= 1024.0 && unit + 1 < G_N_ELEMENTS(units); unit++)
    size /= 1024.0;
  return g_strdup_printf("%.1f %s", size, units[unit]);
}

char *value_to_text(const BpValue *value) {
  BpByteArray view;
  switch (value->type_index) {
  case BP_TYPE_NONE:
    return g_strdup("-");
  case BP_TYPE_INT:
    return g_strdup_printf("%" G_GINT64_FORMAT, value->v_int64);
  case BP_TYPE_BOOL:
    return g_strdup(value->v_int64 ? "yes" : "no");
  case BP_TYPE_FLOAT:
    return g_strdup_printf("%g", value->v_float64);
  case BP_TYPE_SHAPE: {
    const BpShape *shape = (const BpShape *)value->v_obj;
    return shape_to_text(shape->data, (int32_t)shape->size);
  }
  default:
    if (bp_value_view_str(value, &view) == 0)
      return g_strndup(view.data, view.size);
    bp_error_clear();
    return g_strdup_printf("<%s>", bp_type_name(value->type_index));
  }
}

/* ---- Files ------------------------------------------------------------------------------- */

/* Writes to a descriptor and closes it. A negative `fd` is an open that failed. -1 with errno. */
static int write_and_close(int fd, const char *bytes, gsize size) {
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  gboolean is_written = file && fwrite(bytes, 1, size, file) == size;
  int error = errno;
  if (!file && fd >= 0)
    close(fd);
  gboolean is_closed = file && fclose(file) == 0;
  if (!is_written)
    errno = error;
  return is_written && is_closed ? 0 : -1;
}

/* The user may have made the file that is replaced private. The mode stays if it is right: some
 * file systems cannot set it. -1 with errno. */
static int restrict_mode(int fd, const char *path) {
  struct stat before, own;
  if (stat(path, &before) != 0 || !S_ISREG(before.st_mode))
    return 0;
  if (fstat(fd, &own) != 0)
    return -1;
  mode_t mode = own.st_mode & before.st_mode & 0777;
  return mode == (own.st_mode & 0777) ? 0 : fchmod(fd, mode);
}

/* Replaces a file by a new one. The unfinished file's name does not contain the file's name, which
 * may be as long as a name can be. */
static int replace_file(const char *path, const char *bytes, gsize size) {
  g_autofree char *folder = g_path_get_dirname(path);
  g_autofree char *name = g_build_filename(folder, ".backplane-XXXXXX", NULL);
  int fd = g_mkstemp_full(name, O_WRONLY | O_CLOEXEC, 0666);
  int rc = fd >= 0 ? restrict_mode(fd, path) : -1;
  if (rc == 0)
    rc = write_and_close(fd, bytes, size) == 0 ? rename(name, path) : -1;
  else if (fd >= 0)
    close(fd);
  int error = errno;
  if (rc != 0 && fd >= 0)
    unlink(name);
  errno = error;
  return rc;
}

/* Whether a path is a link to an open file, as /dev/stdout. Linux before 5.6 does not tell. */
static gboolean is_descriptor(const char *path) {
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
  if (!g_file_test(path, G_FILE_TEST_IS_SYMLINK))
    return FALSE;
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd >= 0)
    close(fd);
  return fd < 0 && errno == ELOOP;
}

/* A device, a FIFO or an open file, to whose end the bytes are added, stays. */
int command_write_file(const char *path, const char *what, const char *bytes, gsize size) {
  lend_stdout(TRUE);
  gboolean stays = g_file_test(path, G_FILE_TEST_EXISTS) &&
                   (!g_file_test(path, G_FILE_TEST_IS_REGULAR) || is_descriptor(path));
  int rc =
      stays ? write_and_close(open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY), bytes, size)
            : replace_file(path, bytes, size);
  int error = errno;
  lend_stdout(FALSE);
  return rc == 0 ? 0
                 : bp_error_raise(BP_ERROR_IO, "%s: cannot write %s: %s", path, what,
                                  g_strerror(error));
}

int command_write_npy(const char *path, const BpTensorView *view) {
  lend_stdout(TRUE);
  int rc = bp_npy_write(path, view);
  lend_stdout(FALSE);
  return rc;
}
