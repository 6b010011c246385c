/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables: the one door to them. */
#ifndef BACKPLANE_CORE_SYSTEM_ENV_H
#define BACKPLANE_CORE_SYSTEM_ENV_H

/* The value of an environment variable (transfer none, valid until the program changes it); NULL
 * when it is unset, empty, or the process runs with more rights than its user (setuid). */
const char *bp__env_get(const char *name);

#endif
