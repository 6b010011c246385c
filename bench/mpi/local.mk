# SPDX-License-Identifier: Apache-2.0
# A job of backplane-mpi beside independent ones; a script.
EXTRA_DIST += bench/mpi/bench_mpi.py
