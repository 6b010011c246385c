#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Devices as resources of Ray, models in its actors, and the program of docs/ray.md. BP_TEST_RAY names a Python that has
# ray[data], pytest and setuptools; `./quickstart check` does not install Ray.
if ! "${BP_TEST_RAY:-false}" -c 'import ray.data, pytest, setuptools' 2>/dev/null; then
  echo "1..0 # SKIP BP_TEST_RAY names no Python with ray[data], pytest and setuptools"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python/package.sh"
ok /ray/package-builds package_builds "$BP_TEST_RAY"
ok /ray/tests-pass "$BP_TEST_RAY" -m pytest -q -p no:cacheprovider tests/test_ray.py
page_runs() {
  cp "$top_srcdir/examples/digits/digits.onnx" "$work/" &&
    "$BP_TEST_RAY" "$top_srcdir/tests/docs/check_pages.py" --python "$top_srcdir/docs/ray.md" "$work"
}
ok /ray/page-runs page_runs
echo "1..$count"
