/* SPDX-License-Identifier: Apache-2.0 */
/* What defect.c and those who change its bytes agree on. */
#ifndef BACKPLANE_TESTS_DEFECT_H
#define BACKPLANE_TESTS_DEFECT_H

/* Lines of the descriptor that tests change. */
#define DEFECT_DEPENDS "nodes=/dev/null\nfiles=\n"
/* A line of the descriptor that gives room to those before it. */
#define DEFECT_TENS    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define DEFECT_PADDING "padding=" DEFECT_TENS DEFECT_TENS DEFECT_TENS "\n"

/* Where the loader searches libraries for it first: a folder that is not there. */
#define DEFECT_RUNPATH "/defect-runpath-xxxxxxxxxxxxxxxxxxxx" DEFECT_TENS

/* How many copies with the defect "meet" wait for each other. */
#define DEFECT_MEETING 10

#endif
