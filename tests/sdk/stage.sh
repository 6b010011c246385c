# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the SDK: copies the installed files of this build to $stage, and works
# there as on a machine that has the packages and not Backplane's source.
. "$top_srcdir/tests/tap.sh"
stage=$work/stage

install_staged() {
  local prefix
  cp -a "$top_builddir/tests/sdk/installed" "$stage" || return 1
  # Remove libtool's descriptions (.la), as packages do.
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
  plugins=$(find "$stage" -type d -path '*/backplane-1/plugins')
  export PATH LD_LIBRARY_PATH PKG_CONFIG_PATH ACLOCAL_PATH BACKPLANE_SDK_DIR BACKPLANE_TRIAL_PROGRAM
}
