# SPDX-License-Identifier: Apache-2.0
# Operators, compared with copies and products; Python scripts, started
# by hand.

EXTRA_DIST += bench/operators/bench_operators.py bench/operators/cases.py
