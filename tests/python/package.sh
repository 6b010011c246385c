# SPDX-License-Identifier: Apache-2.0
# What tests of the Python package share. Sourced after tests/tap.sh.

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
