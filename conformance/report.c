/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run as text, as TAP, as JUnit's XML and as JSON. */
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <jansson.h>

#include <backplane/conformance/conformance.h>

#include "conformance/run.h"

struct Format {
  const char *name;
  void (*begin)(const Run *run, FILE *out);
  void (*result)(const Result *result, unsigned number, FILE *out);
  void (*finish)(const Run *run, FILE *out);
};

struct Report {
  const Format *format;
  FILE *out;
  guint reported;  /* number of results that were processed */
  unsigned number; /* number of results in the report */
};

static const Result *result_at(const Run *run, guint index) {
  return &g_array_index(run->results, Result, index);
}

static unsigned count_outcome(const Run *run, Outcome outcome) {
  unsigned count = 0;
  for (guint i = 0; i < run->results->len; i++)
    count += result_at(run, i)->outcome == outcome;
  return count;
}

static unsigned count_selected(const Run *run) {
  return run->results->len - count_outcome(run, OUTCOME_LEFT_OUT);
}

/* Returns the tags of a check: "core", "fault" (transfer full). */
static char **list_tags(unsigned tags) {
  GPtrArray *names = g_ptr_array_new();
  for (unsigned i = 0; bp__tag_name(i); i++)
    if (tags >> i & 1u)
      g_ptr_array_add(names, g_strdup(bp__tag_name(i)));
  g_ptr_array_add(names, NULL);
  return (char **)g_ptr_array_free(names, FALSE);
}

static const char *result_text(const Result *result) {
  return result->text ? result->text : "";
}

/* ---- The verdict, in words --------------------------------------------------------------- */

static const char *describe_verdict(const Run *run) {
  switch (bp__run_status(run)) {
  case BP_CONFORMANCE_OK:
    return "conforms";
  case BP_CONFORMANCE_INCOMPLETE:
    return "not shown: checks of the core profile were left out, or lack a device";
  default:
    return "does not conform";
  }
}

static void print_verdict(const Run *run, const char *prefix, FILE *out) {
  fprintf(out, "%s%u passed, %u failed, %u blocked, %u skipped, %u not possible here: %s\n", prefix,
          count_outcome(run, OUTCOME_PASSED), count_outcome(run, OUTCOME_FAILED),
          count_outcome(run, OUTCOME_BLOCKED),
          count_outcome(run, OUTCOME_SKIPPED) + count_outcome(run, OUTCOME_INAPPLICABLE),
          count_outcome(run, OUTCOME_ABSENT), describe_verdict(run));
}

static void print_facts(const Run *run, const char *prefix, FILE *out) {
  for (guint i = 0; i < run->facts->len; i++) {
    const Fact *fact = &g_array_index(run->facts, Fact, i);
    fprintf(out, "%s%s: %s\n", prefix, fact->name, fact->value);
  }
}

/* Prints a text of several lines, each after the prefix. */
static void print_lines(const char *text, const char *prefix, FILE *out) {
  char **lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; line++)
    fprintf(out, "%s%s\n", prefix, *line);
  g_strfreev(lines);
}

/* Returns the first line of a text (transfer full). */
static char *first_line(const char *text) {
  return g_strndup(text, strcspn(text, "\n"));
}

/* ---- Text -------------------------------------------------------------------------------- */

static void text_begin(const Run *run, FILE *out) {
  print_facts(run, "", out);
  fputc('\n', out);
}

static const char *outcome_word(const Result *result) {
  switch (result->outcome) {
  case OUTCOME_PASSED:
    return result->is_expected_to_fail ? "PASS?" : "pass";
  case OUTCOME_FAILED:
    return result->is_expected_to_fail ? "fail*" : "FAIL";
  case OUTCOME_BLOCKED:
    return "block";
  case OUTCOME_SKIPPED:
  case OUTCOME_INAPPLICABLE:
    return "skip";
  default:
    return "none";
  }
}

static void text_result(const Result *result, unsigned number, FILE *out) {
  (void)number;
  fprintf(out, "%-5s %s", outcome_word(result), result->check->name);
  if (result->outcome == OUTCOME_FAILED) {
    fprintf(out, ": %s\n", result->check->shows);
    print_lines(result_text(result), "      ", out);
    return;
  }
  char *line = first_line(result_text(result));
  if (result->outcome == OUTCOME_PASSED && result->is_expected_to_fail)
    fputs(": it was expected to fail", out);
  else if (*line)
    fprintf(out, ": %s%s", result->outcome == OUTCOME_BLOCKED ? "because of " : "", line);
  fputc('\n', out);
  g_free(line);
}

static void text_finish(const Run *run, FILE *out) {
  fputc('\n', out);
  print_verdict(run, "", out);
}

/* ---- TAP --------------------------------------------------------------------------------- */

static void tap_begin(const Run *run, FILE *out) {
  print_facts(run, "# ", out);
}

static void tap_result(const Result *result, unsigned number, FILE *out) {
  gboolean is_unexpected = result->is_expected_to_fail && result->outcome == OUTCOME_PASSED;
  gboolean is_ok = result->outcome != OUTCOME_FAILED && !is_unexpected;
  char *line = first_line(result_text(result));
  fprintf(out, "%s %u - %s", is_ok ? "ok" : "not ok", number, result->check->name);
  if (result->outcome == OUTCOME_BLOCKED)
    fprintf(out, " # SKIP blocked by %s", line);
  else if (result->outcome != OUTCOME_PASSED && result->outcome != OUTCOME_FAILED)
    fprintf(out, " # SKIP %s", line);
  else if (result->is_expected_to_fail && !is_unexpected)
    fputs(" # TODO it is expected to fail", out);
  fputc('\n', out);
  if (is_unexpected)
    fputs("# it passed and was expected to fail\n", out);
  if (result->outcome == OUTCOME_FAILED) {
    fprintf(out, "# to be shown: %s\n", result->check->shows);
    print_lines(result_text(result), "# ", out);
  }
  g_free(line);
}

/* The plan comes last, because the number of results depends on the run. */
static void tap_finish(const Run *run, FILE *out) {
  fprintf(out, "1..%u\n", count_selected(run));
  print_verdict(run, "# ", out);
}

/* ---- JUnit ------------------------------------------------------------------------------- */

/* Writes text for XML, without the control characters that XML cannot contain. */
static void xml_print(const char *text, FILE *out) {
  char *valid = g_utf8_make_valid(text, -1);
  for (char *at = valid; *at; at++)
    if ((unsigned char)*at < ' ' && *at != '\n' && *at != '\t')
      *at = '?';
  char *escaped = g_markup_escape_text(valid, -1);
  fputs(escaped, out);
  g_free(escaped);
  g_free(valid);
}

static void xml_attribute(const char *name, const char *value, FILE *out) {
  fprintf(out, " %s=\"", name);
  xml_print(value, out);
  fputc('"', out);
}

static unsigned count_bad(const Run *run) {
  unsigned count = 0;
  for (guint i = 0; i < run->results->len; i++)
    count += bp__result_is_bad(result_at(run, i));
  return count;
}

/* Counts the checks that passed and were not expected to fail. */
static unsigned count_good(const Run *run) {
  unsigned count = 0;
  for (guint i = 0; i < run->results->len; i++)
    count += result_at(run, i)->outcome == OUTCOME_PASSED && !bp__result_is_bad(result_at(run, i));
  return count;
}

static void junit_begin(const Run *run, FILE *out) {
  (void)run;
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
}

static void junit_element(const char *element, const char *message, const char *text, FILE *out) {
  fprintf(out, "    <%s", element);
  xml_attribute("message", message, out);
  fputc('>', out);
  xml_print(text, out);
  fprintf(out, "</%s>\n", element);
}

static void junit_case(const Result *result, FILE *out) {
  char seconds[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(seconds, sizeof seconds, "%.3f", result->seconds);
  fputs("   <testcase", out);
  xml_attribute("classname", result->section->name, out);
  xml_attribute("name", result->check->name, out);
  xml_attribute("time", seconds, out);
  fputs(">\n", out);
  char *line = first_line(result_text(result));
  if (result->outcome == OUTCOME_PASSED && result->is_expected_to_fail)
    junit_element("failure", "it passed and was expected to fail", "", out);
  else if (result->outcome == OUTCOME_FAILED && result->is_expected_to_fail)
    junit_element("skipped", "it failed, as expected", result_text(result), out);
  else if (result->outcome == OUTCOME_FAILED)
    junit_element("failure", line, result_text(result), out);
  else if (result->outcome == OUTCOME_BLOCKED)
    junit_element("skipped", "blocked", result_text(result), out);
  else if (result->outcome != OUTCOME_PASSED)
    junit_element("skipped", line, "", out);
  fputs("   </testcase>\n", out);
  g_free(line);
}

static void junit_result(const Result *result, unsigned number, FILE *out) {
  (void)result; /* the totals come first in the document */
  (void)number;
  (void)out;
}

static void junit_finish(const Run *run, FILE *out) {
  unsigned skipped = count_selected(run) - count_bad(run) - count_good(run);
  fprintf(out,
          "<testsuites>\n  <testsuite name=\"backplane.conformance\" tests=\"%u\" "
          "failures=\"%u\" errors=\"0\" skipped=\"%u\">\n   <properties>\n",
          count_selected(run), count_bad(run), skipped);
  for (guint i = 0; i < run->facts->len; i++) {
    const Fact *fact = &g_array_index(run->facts, Fact, i);
    fputs("    <property", out);
    xml_attribute("name", fact->name, out);
    xml_attribute("value", fact->value, out);
    fputs("/>\n", out);
  }
  fputs("    <property", out);
  xml_attribute("name", "verdict", out);
  xml_attribute("value", describe_verdict(run), out);
  fputs("/>\n   </properties>\n", out);
  for (guint i = 0; i < run->results->len; i++)
    if (result_at(run, i)->outcome != OUTCOME_LEFT_OUT)
      junit_case(result_at(run, i), out);
  fputs("  </testsuite>\n</testsuites>\n", out);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void add(json_t *object, const char *name, json_t *value) {
  if (json_object_set_new(object, name, value) < 0)
    g_error("no memory for the report");
}

static void append(json_t *array, json_t *value) {
  if (json_array_append_new(array, value) < 0)
    g_error("no memory for the report");
}

static json_t *text_json(const char *text) {
  char *valid = g_utf8_make_valid(text, -1);
  json_t *json = json_string(valid);
  g_free(valid);
  return json;
}

static void add_text(json_t *object, const char *name, const char *text) {
  add(object, name, text_json(text));
}

/* Frees the words. */
static json_t *words_json(char **words) {
  json_t *array = json_array();
  for (char **word = words; *word; word++)
    append(array, text_json(*word));
  g_strfreev(words);
  return array;
}

/* Frees the document. */
static void json_print(json_t *document, FILE *out) {
  char *text = json_dumps(document, JSON_INDENT(2));
  if (!text)
    g_error("no memory for the report");
  fprintf(out, "%s\n", text);
  free(text);
  json_decref(document);
}

static void json_begin(const Run *run, FILE *out) {
  (void)run;
  (void)out;
}

static void json_result(const Result *result, unsigned number, FILE *out) {
  (void)result; /* a document is written at its end */
  (void)number;
  (void)out;
}

static const char *outcome_name(const Result *result) {
  switch (result->outcome) {
  case OUTCOME_PASSED:
    return "passed";
  case OUTCOME_FAILED:
    return "failed";
  case OUTCOME_BLOCKED:
    return "blocked";
  case OUTCOME_ABSENT:
    return "absent";
  default:
    return "skipped";
  }
}

static json_t *check_json(const Result *result) {
  json_t *object = json_object();
  add_text(object, "name", result->check->name);
  add_text(object, "section", result->section->name);
  add_text(object, "outcome", outcome_name(result));
  add_text(object, "text", result_text(result));
  add(object, "expected_to_fail", json_boolean(result->is_expected_to_fail));
  add(object, "seconds", json_real(result->seconds));
  return object;
}

static json_t *facts_json(const Run *run) {
  json_t *facts = json_array();
  for (guint i = 0; i < run->facts->len; i++) {
    const Fact *fact = &g_array_index(run->facts, Fact, i);
    json_t *object = json_object();
    add_text(object, "name", fact->name);
    add_text(object, "value", fact->value);
    append(facts, object);
  }
  return facts;
}

static void json_finish(const Run *run, FILE *out) {
  unsigned skipped = count_outcome(run, OUTCOME_SKIPPED) + count_outcome(run, OUTCOME_INAPPLICABLE);
  json_t *root = json_object(), *checks = json_array();
  for (guint i = 0; i < run->results->len; i++)
    if (result_at(run, i)->outcome != OUTCOME_LEFT_OUT)
      append(checks, check_json(result_at(run, i)));
  add(root, "checks", checks);
  add(root, "facts", facts_json(run));
  add(root, "passed", json_integer(count_outcome(run, OUTCOME_PASSED)));
  add(root, "failed", json_integer(count_outcome(run, OUTCOME_FAILED)));
  add(root, "blocked", json_integer(count_outcome(run, OUTCOME_BLOCKED)));
  add(root, "skipped", json_integer(skipped));
  add(root, "absent", json_integer(count_outcome(run, OUTCOME_ABSENT)));
  add(root, "status", json_integer(bp__run_status(run)));
  add_text(root, "verdict", describe_verdict(run));
  json_print(root, out);
}

static void json_list(const Run *run, FILE *out) {
  json_t *root = json_object(), *checks = json_array();
  for (guint i = 0; i < run->results->len; i++) {
    const Check *check = result_at(run, i)->check;
    if (result_at(run, i)->outcome == OUTCOME_LEFT_OUT)
      continue;
    json_t *object = json_object();
    add_text(object, "name", check->name);
    add(object, "tags", words_json(list_tags(check->tags)));
    add_text(object, "shows", check->shows);
    add(object, "after", words_json(g_strsplit(check->after, " ", -1)));
    append(checks, object);
  }
  add(root, "checks", checks);
  json_print(root, out);
}

void bp__report_error(FILE *out) {
  json_t *root = json_object(), *error = json_object();
  add_text(error, "kind", bp_error_kind());
  add_text(error, "message", bp_error_message());
  add(root, "error", error);
  json_print(root, out);
}

static const Format json_format = {"json", json_begin, json_result, json_finish};

const Format *bp__report_json(void) {
  return &json_format;
}

/* ---- Reports ----------------------------------------------------------------------------- */

static const Format formats[] = {{"text", text_begin, text_result, text_finish},
                                 {"tap", tap_begin, tap_result, tap_finish},
                                 {"junit", junit_begin, junit_result, junit_finish}};

const Format *bp__report_format(const char *name) {
  for (size_t i = 0; i < G_N_ELEMENTS(formats); i++)
    if (strcmp(formats[i].name, name) == 0)
      return &formats[i];
  bp_error_raise(BP_ERROR_VALUE, "there is no format \"%s\"; there are text, tap and junit", name);
  return NULL;
}

Report *bp__report_begin(const Run *run, const Format *format) {
  Report *report = g_new0(Report, 1);
  *report = (Report){.format = format, .out = run->out};
  format->begin(run, run->out);
  return report;
}

void bp__report_progress(const Run *run, Report *report) {
  for (; report->reported < run->results->len; report->reported++) {
    const Result *result = result_at(run, report->reported);
    if (result->outcome == OUTCOME_PENDING)
      break;
    if (result->outcome != OUTCOME_LEFT_OUT)
      report->format->result(result, ++report->number, report->out);
  }
  fflush(report->out);
}

void bp__report_finish(const Run *run, Report *report) {
  report->format->finish(run, report->out);
  g_free(report);
}

static void text_list(const Run *run, FILE *out) {
  for (guint i = 0; i < run->results->len; i++) {
    const Check *check = result_at(run, i)->check;
    if (result_at(run, i)->outcome == OUTCOME_LEFT_OUT)
      continue;
    char **tags = list_tags(check->tags), *words = g_strjoinv(" ", tags);
    fprintf(out, "%s (%s)\n    %s\n", check->name, words, check->shows);
    if (*check->after)
      fprintf(out, "    after %s\n", check->after);
    g_free(words);
    g_strfreev(tags);
  }
}

void bp__report_list(const Run *run, const Format *format, FILE *out) {
  if (format == &json_format)
    json_list(run, out);
  else
    text_list(run, out);
}
