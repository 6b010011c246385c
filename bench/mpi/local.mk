# SPDX-License-Identifier: Apache-2.0
# A script that compares a job of backplane-mpi with
# independent jobs.
EXTRA_DIST += bench/mpi/bench_mpi.py
