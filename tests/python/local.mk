# SPDX-License-Identifier: Apache-2.0
# The Python package.

long_scripts += tests/python/test-open-shapes.sh tests/python/test-control-flow.sh tests/python/test-python.sh
slow_tests += tests/python/test-open-shapes.sh tests/python/test-control-flow.sh tests/python/test-python.sh
EXTRA_DIST += tests/python/package.sh tests/python/test-open-shapes.sh tests/python/test-control-flow.sh tests/python/test-python.sh
long_scripts += tests/python/test-torch.sh tests/python/test-mlserver.sh tests/python/test-ray.sh
slow_tests += tests/python/test-torch.sh tests/python/test-mlserver.sh tests/python/test-ray.sh
EXTRA_DIST += tests/python/test-torch.sh tests/python/test-mlserver.sh tests/python/test-ray.sh
# The wheel.
long_scripts += tests/python/test-wheel.sh
slow_tests += tests/python/test-wheel.sh
EXTRA_DIST += tests/python/test-wheel.sh packaging/make-wheel
EXTRA_DIST += python/pyproject.toml python/setup.py python/core/core.h python/core/core.c \
	python/core/errors.c python/core/function.c python/core/ir.c python/core/model.c python/core/module.c \
	python/core/target.c python/core/te.c python/core/tensor.c python/core/value.c python/examples/first_steps.py \
	python/src/backplane/__init__.py python/src/backplane/_core.pyi \
	python/src/backplane/dtype.py python/src/backplane/errors.py python/src/backplane/target.py \
	python/src/backplane/mlserver.py python/src/backplane/ray.py python/src/backplane/te.py python/src/backplane/torch.py python/src/backplane/py.typed python/tests/conftest.py \
	python/tests/test_control_flow.py python/tests/test_functions.py python/tests/test_models.py \
	python/tests/test_narrow_types.py python/tests/test_open_shapes.py python/tests/test_few_bits.py python/tests/test_quantized.py python/tests/test_sequences.py python/tests/test_te.py python/tests/test_tensors.py \
	python/tests/test_torch.py python/tests/test_mlserver.py python/tests/test_ray.py
