# SPDX-License-Identifier: Apache-2.0
# A script that compares calls through PyTorch, MLServer, Ray and ONNX Runtime with
# direct calls of Backplane.
EXTRA_DIST += bench/bridges/bench_bridges.py
