# SPDX-License-Identifier: Apache-2.0
# A language model: the script that writes it as ONNX, and programs that generate text.

EXTRA_DIST += examples/language-model/README.md examples/language-model/write_onnx.py \
	examples/language-model/generate.py examples/language-model/requirements.txt

noinst_PROGRAMS += language-model-generate
language_model_generate_SOURCES = examples/language-model/generate.c
