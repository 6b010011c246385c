# SPDX-License-Identifier: Apache-2.0
# Calls through PyTorch, MLServer and Ray beside Backplane's own; a script.
EXTRA_DIST += bench/bridges/bench_bridges.py
