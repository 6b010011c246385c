/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages, made from the text of --help, so that the two cannot differ. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/version.h>

/* Escapes text for man: a '-' is a plain hyphen, and a point or quote at the beginning of a line is
 * no request. */
static void print_text(const char *text) {
  gboolean begins = TRUE;
  for (; *text; text++) {
    if (begins && strchr(".'", *text))
      fputs("\\&", stdout);
    if (*text == '-')
      fputs("\\-", stdout);
    else if (*text == '\\')
      fputs("\\e", stdout);
    else
      fputc(*text, stdout);
    begins = *text == '\n';
  }
}

static void print_option(const GOptionEntry *entry) {
  fputs(".TP\n\\fB", stdout);
  if (entry->short_name)
    printf("\\-%c\\fR, \\fB", entry->short_name);
  fputs("\\-\\-", stdout);
  print_text(entry->long_name);
  fputs("\\fR", stdout);
  if (entry->arg_description) {
    fputs("=\\fI", stdout);
    print_text(entry->arg_description);
    fputs("\\fR", stdout);
  }
  fputc('\n', stdout);
  print_text(entry->description);
  fputc('\n', stdout);
}

static void print_heading(const char *name, const char *arguments) {
  char *page = g_strdup_printf("%s-%s", command_program, name);
  char *upper = g_ascii_strup(page, -1);
  printf(".\\\" SPDX-License-Identifier: Apache-2.0\n"
         ".\\\" Written by `make manual`, from what `%s %s --help` says.\n"
         ".TH %s 1 \"\" \"Backplane %d.%d\" \"User Commands\"\n.SH NAME\n",
         command_program, name, upper, BP_VERSION_MAJOR, BP_VERSION_MINOR);
  print_text(page);
  printf(" \\- %s\n.SH SYNOPSIS\n.B ", command_summary(name));
  print_text(command_program);
  printf(" %s\n.RI [ OPTION ...]\n", name);
  if (arguments) {
    fputs(".I ", stdout);
    print_text(arguments);
    fputc('\n', stdout);
  }
  g_free(upper);
  g_free(page);
}

void manual_print(const char *name, const GOptionEntry *entries, const char *arguments,
                  const char *summary, const char *details) {
  static const GOptionEntry common[] = {
      {"verbose", 'v', 0, G_OPTION_ARG_NONE, NULL, "show the library's log messages", NULL},
      {"help", 'h', 0, G_OPTION_ARG_NONE, NULL, "show the options", NULL}};
  print_heading(name, arguments);
  fputs(".SH DESCRIPTION\n", stdout);
  print_text(summary);
  if (details) {
    fputs("\n.PP\n", stdout);
    print_text(details);
  }
  fputs("\n.SH OPTIONS\n", stdout);
  for (; entries->long_name; entries++)
    if (!(entries->flags & G_OPTION_FLAG_HIDDEN))
      print_option(entries);
  for (size_t i = 0; i < G_N_ELEMENTS(common); i++)
    print_option(&common[i]);
  fputs(".SH SEE ALSO\n.BR backplane (1)\nexplains the commands, their environment, files and exit "
        "statuses further.\n",
        stdout);
}
