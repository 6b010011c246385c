/* SPDX-License-Identifier: Apache-2.0 */
/* The reports of open sessions, as JSON: which nodes were claimed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/onnxruntime/bridge.h"
#include "bridges/onnxruntime/onnxruntime.h"

typedef struct Report {
  struct Report *next;
  const void *session;
  char *text;
} Report;

/* The reports in the order in which the sessions were made; guarded by the mutex. */
static Report *reports;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Returns the link to a session's report, or the link after the last report. */
static Report **find(const void *session) {
  Report **at = &reports;
  while (*at && (*at)->session != session)
    at = &(*at)->next;
  return at;
}

void report_set(const void *session, char *text) {
  Report *added = text ? calloc(1, sizeof(*added)) : NULL;
  pthread_mutex_lock(&mutex);
  Report **at = find(session), *before = *at;
  if (before)
    *at = before->next;
  if (added) {
    *added = (Report){NULL, session, text};
    *find(NULL) = added; /* the end of the list: no session is NULL */
  }
  pthread_mutex_unlock(&mutex);
  if (!added)
    free(text);
  if (before)
    free(before->text);
  free(before);
}

size_t bp_onnxruntime_report(char *text, size_t capacity) {
  Bytes list = {0};
  pthread_mutex_lock(&mutex);
  bytes_print(&list, "[");
  for (const Report *report = reports; report; report = report->next) {
    bytes_put(&list, report->text, strlen(report->text));
    bytes_print(&list, report->next ? ",\n" : "");
  }
  bytes_print(&list, "]");
  pthread_mutex_unlock(&mutex);
  int status = bytes_end(&list);
  size_t size = status ? 0 : list.size;
  if (capacity > 0) {
    size_t count = size < capacity ? size : capacity - 1;
    if (count > 0)
      memcpy(text, list.data, count);
    text[count] = '\0';
  }
  bytes_free(&list);
  bp_error_clear();
  return size;
}
