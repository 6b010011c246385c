# SPDX-License-Identifier: Apache-2.0
# Operators beside copies and products; Python, started by hand.

EXTRA_DIST += bench/operators/bench_operators.py bench/operators/cases.py
