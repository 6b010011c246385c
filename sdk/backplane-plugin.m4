# SPDX-License-Identifier: Apache-2.0
# Macros for plugins of Backplane that are built with Autotools; backplane-sdk(7) explains them.

# BACKPLANE_PLUGIN_INIT([VERSION])
# Finds the SDK, of that version or later. Sets, for Makefile.am:
#   BACKPLANE_PLUGIN_CFLAGS   where the SDK's headers are
#   BACKPLANE_PLUGIN_LDFLAGS  for the plugin's library, after -module: it lacks no symbol and exports
#                             its entry point alone
#   BACKPLANE_PLUGINDIR       where to install it: where Backplane looks, or --with-plugindir
#   BACKPLANE_PLUGIN_ABI      the ABI of the headers
AC_DEFUN([BACKPLANE_PLUGIN_INIT],[
  AC_REQUIRE([PKG_PROG_PKG_CONFIG])
  PKG_CHECK_MODULES([BACKPLANE_PLUGIN],[backplane-plugin-1 m4_ifnblank([$1],[>= $1])],[],
    [AC_MSG_ERROR([the SDK of Backplane was not found; on Debian: apt install libbackplane-dev])])
  PKG_CHECK_VAR([BACKPLANE_PLUGIN_ABI],[backplane-plugin-1],[abi])
  AC_ARG_WITH([plugindir],
    [AS_HELP_STRING([--with-plugindir=DIR],
      [folder for the plugin (default: where Backplane looks for plugins)])],
    [BACKPLANE_PLUGINDIR=$withval],
    [PKG_CHECK_VAR([BACKPLANE_PLUGINDIR],[backplane-plugin-1],[plugindir])])
  AC_SUBST([BACKPLANE_PLUGINDIR])
  AC_SUBST([BACKPLANE_PLUGIN_LDFLAGS],
    ["-avoid-version -shared -Wl,-z,defs -export-symbols-regex '^bp_plugin_entry_[[a-z0-9_]]*\$\$'"])
])

# BACKPLANE_PLUGIN_WARNINGS
# Sets BACKPLANE_PLUGIN_WARN_CFLAGS: warnings, which --enable-werror makes errors.
AC_DEFUN([BACKPLANE_PLUGIN_WARNINGS],[
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror],[make every compiler warning an error])])
  BACKPLANE_PLUGIN_WARN_CFLAGS="-Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow"
  AS_IF([test "x$enable_werror" = xyes],
    [BACKPLANE_PLUGIN_WARN_CFLAGS="$BACKPLANE_PLUGIN_WARN_CFLAGS -Werror"])
  AC_SUBST([BACKPLANE_PLUGIN_WARN_CFLAGS])
])
