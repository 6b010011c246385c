# SPDX-License-Identifier: Apache-2.0
# Calls through PyTorch, MLServer, Ray and ONNX Runtime beside Backplane's own; a script.
EXTRA_DIST += bench/bridges/bench_bridges.py
