/* SPDX-License-Identifier: Apache-2.0 */
/* Which checks run, which outcomes follow from others, and the result of a run. */
#include <string.h>

#include <backplane/conformance/conformance.h>

#include "conformance/run.h"

static const char *const tag_names[] = {"core", "optional", "stress", "fault", "performance", NULL};

const char *bp__tag_name(unsigned index) {
  return index < G_N_ELEMENTS(tag_names) ? tag_names[index] : NULL;
}

static Result *result_at(const Run *run, guint index) {
  return &g_array_index(run->results, Result, index);
}

static void clear_result(void *data) {
  g_free(((Result *)data)->text);
}

static void clear_fact(void *data) {
  g_free(((Fact *)data)->name);
  g_free(((Fact *)data)->value);
}

void bp__run_create(Run *run) {
  run->results = g_array_new(FALSE, TRUE, sizeof(Result));
  run->facts = g_array_new(FALSE, TRUE, sizeof(Fact));
  g_array_set_clear_func(run->results, clear_result);
  g_array_set_clear_func(run->facts, clear_fact);
  for (size_t i = 0; i < bp__kit_num_sections; i++)
    for (size_t k = 0; k < bp__kit_sections[i]->num_checks; k++) {
      Result result = {.section = bp__kit_sections[i], .check = &bp__kit_sections[i]->checks[k]};
      g_array_append_val(run->results, result);
    }
}

void bp__run_clear(Run *run) {
  g_array_unref(run->results);
  g_array_unref(run->facts);
  g_free(run->identity);
}

/* ---- Selecting checks -------------------------------------------------------------------- */

static gboolean matches(const Result *result, const char *pattern) {
  for (unsigned i = 0; tag_names[i]; i++)
    if (strcmp(tag_names[i], pattern) == 0)
      return (result->check->tags >> i & 1u) != 0;
  return strcmp(result->section->name, pattern) == 0 ||
         g_pattern_match_simple(pattern, result->check->name);
}

static gboolean matches_any(const Result *result, char *const *patterns) {
  for (; patterns && *patterns; patterns++)
    if (matches(result, *patterns))
      return TRUE;
  return FALSE;
}

static int check_pattern(const Run *run, const char *pattern) {
  for (guint i = 0; i < run->results->len; i++)
    if (matches(result_at(run, i), pattern))
      return 0;
  return bp_error_raise(BP_ERROR_VALUE,
                        "\"%s\" is no check, section or tag, and fits no check's name; --list "
                        "shows the names",
                        pattern);
}

static gboolean is_after(const Check *check, const char *name) {
  size_t length = strlen(name);
  for (const char *at = check->after; (at = strstr(at, name)); at += length)
    if ((at == check->after || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
      return TRUE;
  return FALSE;
}

/* Prerequisites come first, so one pass from the end finds all prerequisites. */
static void select_prerequisites(Run *run) {
  for (guint i = run->results->len; i-- > 0;)
    for (guint k = 0; k < i && result_at(run, i)->outcome == OUTCOME_PENDING; k++)
      if (is_after(result_at(run, i)->check, result_at(run, k)->check->name))
        result_at(run, k)->outcome = OUTCOME_PENDING;
}

int bp__run_select(Run *run, char *const *only, char *const *skip) {
  for (char *const *pattern = only; pattern && *pattern; pattern++)
    if (check_pattern(run, *pattern))
      return -1;
  for (char *const *pattern = skip; pattern && *pattern; pattern++)
    if (check_pattern(run, *pattern))
      return -1;
  for (guint i = 0; only && i < run->results->len; i++)
    if (!matches_any(result_at(run, i), only))
      result_at(run, i)->outcome = OUTCOME_LEFT_OUT;
  select_prerequisites(run);
  for (guint i = 0; i < run->results->len; i++)
    if (matches_any(result_at(run, i), skip))
      result_at(run, i)->outcome = OUTCOME_LEFT_OUT;
  return 0;
}

/* ---- Expected failures ------------------------------------------------------------------- */

static int expect_failure(Run *run, const char *pattern) {
  gboolean is_known = FALSE;
  for (guint i = 0; i < run->results->len; i++) {
    Result *result = result_at(run, i);
    if (!g_pattern_match_simple(pattern, result->check->name))
      continue;
    if (result->check->tags & CHECK_CORE)
      return bp_error_raise(BP_ERROR_VALUE,
                            "%s is a core check, which no plugin may be expected to fail",
                            result->check->name);
    result->is_expected_to_fail = is_known = TRUE;
  }
  return is_known ? 0
                  : bp_error_raise(BP_ERROR_VALUE, "\"%s\" fits no check's name; --list shows them",
                                   pattern);
}

int bp__run_expect(Run *run, const char *path) {
  char *text = NULL;
  GError *error = NULL;
  if (!g_file_get_contents(path, &text, NULL, &error)) {
    bp_error_raise(BP_ERROR_IO, "%s", error->message);
    g_error_free(error);
    return -1;
  }
  int rc = 0;
  char **lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; !rc && *line; line++) {
    (*line)[strcspn(*line, "#")] = '\0';
    if (*g_strstrip(*line) && expect_failure(run, *line))
      rc = bp_error_add_context("%s:%d", path, (int)(line - lines) + 1);
  }
  g_strfreev(lines);
  g_free(text);
  return rc;
}

/* ---- Blocked checks ---------------------------------------------------------------------- */

static Outcome follow(Outcome before) {
  switch (before) {
  case OUTCOME_FAILED:
  case OUTCOME_BLOCKED:
    return OUTCOME_BLOCKED;
  case OUTCOME_SKIPPED:
  case OUTCOME_ABSENT:
    return before;
  default:
    return OUTCOME_PENDING;
  }
}

/* Reports the check at the root of a chain of failures. */
static const char *describe_following(const Result *before) {
  return before->outcome == OUTCOME_FAILED || !before->text ? before->check->name : before->text;
}

gboolean bp__run_settle(const Run *run, Result *result) {
  for (guint i = 0; i < run->results->len; i++) {
    const Result *before = result_at(run, i);
    if (before == result)
      return FALSE;
    Outcome outcome = follow(before->outcome);
    if (outcome == OUTCOME_PENDING || !is_after(result->check, before->check->name))
      continue;
    result->outcome = outcome;
    result->text = g_strdup(describe_following(before));
    return TRUE;
  }
  return FALSE;
}

gboolean bp__result_is_bad(const Result *result) {
  return result->outcome == (result->is_expected_to_fail ? OUTCOME_PASSED : OUTCOME_FAILED);
}

/* A check that is still pending after the run was not reached. */
static gboolean is_undone(const Result *result) {
  return result->outcome == OUTCOME_PENDING || result->outcome == OUTCOME_ABSENT ||
         result->outcome == OUTCOME_LEFT_OUT;
}

int bp__run_status(const Run *run) {
  int status = BP_CONFORMANCE_OK;
  for (guint i = 0; i < run->results->len; i++) {
    const Result *result = result_at(run, i);
    if (bp__result_is_bad(result))
      return BP_CONFORMANCE_FAILED;
    if (is_undone(result) && (result->check->tags & CHECK_CORE))
      status = BP_CONFORMANCE_INCOMPLETE;
  }
  return status;
}
