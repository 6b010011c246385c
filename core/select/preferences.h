/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of preferences for devices, parsed. */
#ifndef BACKPLANE_CORE_SELECT_PREFERENCES_H
#define BACKPLANE_CORE_SELECT_PREFERENCES_H

#include <glib.h>
#include <stdint.h>

/* What an entry tells devices by. */
typedef enum MatchBy {
  MATCH_ANY,   /* auto */
  MATCH_KIND,  /* opencl; plugin:NAME */
  MATCH_INDEX, /* opencl:1 */
  MATCH_NAME,  /* opencl:GLOB, name:GLOB */
  MATCH_PCI,   /* pci:ADDRESS */
  MATCH_UUID,  /* uuid:UUID */
} MatchBy;

typedef struct Preference {
  char *text; /* as it was written, without sign and rank */
  MatchBy by;
  char *kinds; /* kinds that it can mean, space-separated; NULL: any */
  char *value; /* shell pattern of a name, address or UUID; else NULL */
  int64_t index;
  int64_t rank; /* of an entry WHAT=RANK */
  int matched;  /* some device that was looked at */
} Preference;

typedef struct Preferences {
  GPtrArray *wanted; /* Preference: to be tried in order; never empty */
  GPtrArray *denied; /* !WHAT */
  GPtrArray *only;   /* +WHAT */
  GPtrArray *ranked; /* WHAT=RANK */
} Preferences;

/* Parses a list; cleared also after a failure. All of it is checked before any device is asked:
 * BP_ERROR_VALUE for what is not of the grammar, BP_ERROR_NOT_FOUND for a kind or plugin that
 * nobody ever heard of, with the nearest that there is. */
int bp__preferences_parse(const char *list, Preferences *preferences);
void bp__preferences_clear(Preferences *preferences);

#endif
