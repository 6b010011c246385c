/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing preferences for devices. */
#ifndef BACKPLANE_PARTS_SELECT_PREFERENCES_H
#define BACKPLANE_PARTS_SELECT_PREFERENCES_H

#include <glib.h>
#include <stdint.h>

/* The property by which an entry matches devices. */
typedef enum MatchBy {
  MATCH_ANY,   /* auto */
  MATCH_KIND,  /* opencl; plugin:NAME */
  MATCH_INDEX, /* opencl:1 */
  MATCH_NAME,  /* opencl:GLOB, name:GLOB */
  MATCH_PCI,   /* pci:ADDRESS */
  MATCH_UUID,  /* uuid:UUID */
} MatchBy;

typedef struct Preference {
  char *text; /* the entry's text, without sign and rank */
  MatchBy by;
  char *kinds; /* device kinds that the entry can match, space-separated; NULL: any */
  char *value; /* shell pattern of a name, address or UUID; else NULL */
  int64_t index;
  int64_t rank; /* the rank of an entry WHAT=RANK */
  int matched;  /* whether an examined device matches */
  char *absent; /* why no device can match the entry; NULL: a device may match */
} Preference;

typedef struct Preferences {
  GPtrArray *wanted; /* Preference: tried in order; never empty */
  GPtrArray *denied; /* !WHAT */
  GPtrArray *only;   /* +WHAT */
  GPtrArray *ranked; /* WHAT=RANK */
} Preferences;

/* An explanation of the grammar for people. */
extern const char bp__preferences_help[];

/* Parses a list; clear `preferences` also after a failure. The whole list is checked before any
 * device is queried: BP_ERROR_VALUE for a syntax error, BP_ERROR_NOT_FOUND for an unknown kind or
 * plugin, with the nearest known name. */
int bp__preferences_parse(const char *list, Preferences *preferences);
void bp__preferences_clear(Preferences *preferences);

#endif
