# SPDX-License-Identifier: Apache-2.0
# Real models, compared with onnxruntime's outputs. Only the outputs of one model are
# committed.

models_references = \
	tests/models/references/ppocr-cls/random/inputs/x.npy \
	tests/models/references/ppocr-cls/random/outputs/save_infer_model_scale_0.tmp_1.npy \
	tests/models/references/ppocr-cls/real/inputs/x.npy \
	tests/models/references/ppocr-cls/real/outputs/save_infer_model_scale_0.tmp_1.npy

test_scripts += tests/models/test-models.sh
EXTRA_DIST += tests/models/test-models.sh tests/models/check_models.py \
	tests/models/compare.py tests/models/fetch_models.py tests/models/inputs.py \
	tests/models/make_references.py tests/models/models.py tests/models/requirements.txt \
	$(models_references)
