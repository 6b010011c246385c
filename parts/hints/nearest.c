/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest match by the edit distance with swaps of neighbours (optimal string alignment),
 * ignoring case. */

#include "parts/hints/hints.h"

#include <glib.h>
#include <string.h>

#define LENGTH_MAX 63

static unsigned min_of(unsigned a, unsigned b) {
  return a < b ? a : b;
}

/* Whether two letters are equal, ignoring case. */
static int is_same(char a, char b) {
  return g_ascii_tolower(a) == g_ascii_tolower(b);
}

/* Computes the edit distance. Both lengths are at most LENGTH_MAX. `rows` are the table's last
 * three rows. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  unsigned rows[3][LENGTH_MAX + 1];
  for (size_t j = 0; j <= b_length; j++)
    rows[0][j] = (unsigned)j;
  for (size_t i = 1; i <= a_length; i++) {
    unsigned *row = rows[i % 3];
    const unsigned *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_length; j++) {
      row[j] =
          min_of(above[j - 1] + !is_same(a[i - 1], b[j - 1]), min_of(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]))
        row[j] = min_of(row[j], two_above[j - 2] + 1);
    }
  }
  return rows[a_length % 3][b_length];
}

/* Short names are within one edit of many words, so their first letters must match: "gpu" is not a
 * misspelt "cpu", but "pcu" is. */
static int begins_alike(const char *a, const char *b, size_t length) {
  return length >= 6 || is_same(*a, *b) || (*a && *b && is_same(a[0], b[1]) && is_same(a[1], b[0]));
}

const char *bp__find_nearest(const char *name, const char *const *candidates, size_t count) {
  size_t length = strlen(name);
  const char *best = NULL;
  unsigned best_distance = 0;
  for (size_t i = 0; length <= LENGTH_MAX && i < count; i++) {
    size_t other = candidates[i] ? strlen(candidates[i]) : LENGTH_MAX + 1;
    if (other > LENGTH_MAX)
      continue;
    size_t longer = length > other ? length : other;
    unsigned distance = edit_distance(name, length, candidates[i], other);
    if (distance * 3 > longer || (best && distance >= best_distance) ||
        !begins_alike(name, candidates[i], longer))
      continue;
    best = candidates[i];
    best_distance = distance;
  }
  return best;
}
