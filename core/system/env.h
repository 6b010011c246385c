/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: all reads go through here. */
#ifndef BACKPLANE_CORE_SYSTEM_ENV_H
#define BACKPLANE_CORE_SYSTEM_ENV_H

/* The value of an environment variable (transfer none, valid until the program changes it); NULL if
 * it is unset or empty, or if the process has more rights than its user (setuid). */
const char *bp__env_get(const char *name);

#endif
