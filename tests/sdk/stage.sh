# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the SDK: installs this build into a folder of its own, $stage, and works
# there as on a machine that has the packages and not our source.
. "$top_srcdir/tests/tap.sh"
stage=$work/stage

install_staged() {
  local prefix
  make -C "$top_builddir" install DESTDIR="$stage" >"$work/install.log" 2>&1 || {
    tail -n 20 "$work/install.log" | sed 's/^/# /'
    return 1
  }
  # As packages are: without libtool's descriptions.
  find "$stage" -name '*.la' -delete
  prefix=$(find "$stage" -path '*/bin/backplane')
  prefix=${prefix%/bin/backplane}
  sed -i "s|^prefix=.*|prefix=$prefix|" "$(find "$stage" -name pkgconfig)"/*.pc
  unset BACKPLANE_PLUGIN_PATH top_srcdir top_builddir MAKEFLAGS MFLAGS MAKELEVEL
  PATH=$prefix/bin:$PATH
  LD_LIBRARY_PATH=$(dirname "$(find "$stage" -name libbackplane.so)")
  PKG_CONFIG_PATH=$(find "$stage" -name pkgconfig)
  ACLOCAL_PATH=$prefix/share/aclocal
  BACKPLANE_SDK_DIR=$prefix/share/backplane/sdk
  BACKPLANE_TRIAL_PROGRAM=$(find "$stage" -name backplane-trial)
  plugins=$(find "$stage" -type d -path '*/backplane-0/plugins')
  export PATH LD_LIBRARY_PATH PKG_CONFIG_PATH ACLOCAL_PATH BACKPLANE_SDK_DIR BACKPLANE_TRIAL_PROGRAM
}
