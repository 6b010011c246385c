/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, and the properties of the terminal: tables fit its width, and headers and errors have
 * colours. Output to a file or pipe is plain. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP         2  /* blanks between columns */
#define LEAST_WIDTH 16 /* least width of a wrapped column */

/* ---- Terminals --------------------------------------------------------------------------- */

static gboolean has_styles(FILE *out) {
  const char *none = g_getenv("NO_COLOR"), *terminal = g_getenv("TERM");
  return !(none && *none) && terminal && strcmp(terminal, "dumb") != 0 &&
         isatty(output_descriptor(out));
}

void style_begin(FILE *out, Style style) {
  static const char *const codes[] = {
      [STYLE_HEADER] = "1", [STYLE_GOOD] = "32", [STYLE_WARNING] = "33", [STYLE_ERROR] = "31"};
  if (has_styles(out))
    fprintf(out, "\033[%sm", codes[style]);
}

void style_end(FILE *out) {
  if (has_styles(out))
    fputs("\033[0m", out);
}

/* Returns the characters in a line of the terminal; 0 for other output. */
static glong terminal_width(FILE *out) {
  struct winsize size;
  const char *columns = g_getenv("COLUMNS");
  if (!isatty(output_descriptor(out)))
    return 0;
  gint64 given = columns ? g_ascii_strtoll(columns, NULL, 10) : 0;
  if (given > 0 && given <= 10000)
    return (glong)given;
  return ioctl(output_descriptor(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* ---- Tables ------------------------------------------------------------------------------ */

struct Table {
  guint columns;
  GPtrArray *cells; /* rows in sequence, the headers first */
};

Table *table_new(const char *const *headers) {
  Table *table = g_new0(Table, 1);
  table->cells = g_ptr_array_new_with_free_func(g_free);
  for (; headers[table->columns]; table->columns++)
    g_ptr_array_add(table->cells, g_strdup(headers[table->columns]));
  return table;
}

void table_add(Table *table, ...) {
  va_list args;
  va_start(args, table);
  for (guint i = 0; i < table->columns; i++)
    g_ptr_array_add(table->cells, clean_text(va_arg(args, const char *), ""));
  va_end(args);
}

/* Narrows the widest columns, one after the other, until a row fits into a line, or no column can
 * be narrower. */
static void fit_widths(glong *widths, guint columns, glong line) {
  glong excess = (glong)(columns - 1) * GAP - line;
  for (guint i = 0; i < columns; i++)
    excess += widths[i];
  for (guint turn = 0; excess > 0 && turn < columns; turn++) {
    guint widest = 0;
    for (guint i = 1; i < columns; i++)
      widest = widths[i] > widths[widest] ? i : widest;
    glong less = MIN(excess, widths[widest] - LEAST_WIDTH);
    if (less <= 0)
      return;
    widths[widest] -= less;
    excess -= less;
  }
}

/* Returns how many characters of `text` go into a line of `width`: up to a blank if there is
 * one. */
static glong fit_words(const char *text, glong width) {
  glong count = 0, blank = 0;
  for (; *text && count < width; text = g_utf8_next_char(text), count++)
    blank = *text == ' ' ? count : blank;
  return *text && *text != ' ' && blank ? blank : count;
}

/* Prints the next line of a cell, and advances *text past it. */
static void print_cell(FILE *out, const char **text, glong width, gboolean is_last) {
  glong count = fit_words(*text, width);
  const char *end = g_utf8_offset_to_pointer(*text, count);
  fprintf(out, "%.*s", (int)(end - *text), *text);
  if (!is_last)
    fprintf(out, "%*s", (int)(width - count + GAP), "");
  *text = end + strspn(end, " ");
}

static void print_row(FILE *out, char *const *cells, const glong *widths, guint columns) {
  const char **rest = g_new0(const char *, columns);
  memcpy(rest, cells, columns * sizeof *rest);
  for (gboolean is_done = FALSE; !is_done;) {
    is_done = TRUE;
    for (guint i = 0; i < columns; i++) {
      print_cell(out, &rest[i], widths[i], i + 1 == columns);
      is_done = is_done && !*rest[i];
    }
    fputc('\n', out);
  }
  g_free(rest);
}

void table_print(Table *table) {
  FILE *out = command_out();
  char *const *cells = (char *const *)table->cells->pdata;
  glong *widths = g_new0(glong, table->columns), line = terminal_width(out);
  for (guint i = 0; i < table->cells->len; i++)
    widths[i % table->columns] = MAX(widths[i % table->columns], g_utf8_strlen(cells[i], -1));
  if (line > 0)
    fit_widths(widths, table->columns, line);
  for (guint row = 0; row < table->cells->len; row += table->columns) {
    if (row == 0)
      style_begin(out, STYLE_HEADER);
    print_row(out, cells + row, widths, table->columns);
    if (row == 0)
      style_end(out);
  }
  g_free(widths);
  g_ptr_array_free(table->cells, TRUE);
  g_free(table);
}
