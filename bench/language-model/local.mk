# SPDX-License-Identifier: Apache-2.0
# A language model, compared with onnxruntime.

EXTRA_DIST += bench/language-model/bench_language_model.py
