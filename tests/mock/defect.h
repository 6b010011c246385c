/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions that defect.c shares with the tests that change its bytes. */
#ifndef BACKPLANE_TESTS_DEFECT_H
#define BACKPLANE_TESTS_DEFECT_H

/* Lines of the descriptor that tests change. */
#define DEFECT_DEPENDS "nodes=/dev/null\nfiles=\n"
/* A line of the descriptor that leaves room for those before it. */
#define DEFECT_TENS    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define DEFECT_PADDING "padding=" DEFECT_TENS DEFECT_TENS DEFECT_TENS "\n"

/* A missing folder, in which the loader searches for libraries first. */
#define DEFECT_RUNPATH "/defect-runpath-xxxxxxxxxxxxxxxxxxxx" DEFECT_TENS

/* The number of copies with the defect "meet" that wait for each other. */
#define DEFECT_MEETING 10

#endif
