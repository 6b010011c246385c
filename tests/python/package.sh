# SPDX-License-Identifier: Apache-2.0
# Functions that tests of the Python package share. Sourced after tests/tap.sh.

# need_python MODULES: skips the test unless BP_TEST_PYTHON has the modules and the packages that build extensions.
need_python() {
  local include
  if ! "${BP_TEST_PYTHON:-false}" -c "import $*" 2>/dev/null; then
    echo 1..1
    echo "ok 1 /python # SKIP BP_TEST_PYTHON names no Python with $*"
    exit 0
  fi
  include=$("$BP_TEST_PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  if [ ! -e "$include/Python.h" ]; then
    echo 1..1
    echo "ok 1 /python # SKIP there is no $include/Python.h; install python3-dev"
    exit 0
  fi
}

# package_builds PYTHON: builds the package and its metadata, which name entry points, against this build. Afterwards the current folder is
# $work/python, a copy of the sources, and PYTHONPATH names the result, $work/built.
package_builds() {
  export PYTHONDONTWRITEBYTECODE=1
  export BACKPLANE_CFLAGS="-Werror -I$top_srcdir/include -I$top_srcdir/sdk/include"
  export BACKPLANE_LIBS="-L$top_builddir/.libs -lbackplane-graph -lbackplane-compiler -lbackplane -Wl,-rpath,$top_builddir/.libs"
  export PYTHONPATH=$work/built
  cp -r "$top_srcdir/python" "$work/python"
  chmod -R u+w "$work/python"
  cd "$work/python" && "$1" setup.py -q build --build-lib "$work/built" egg_info --egg-base "$work/built"
}
