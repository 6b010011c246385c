# SPDX-License-Identifier: Apache-2.0
# Macros of configure.ac: warnings, sanitizers, required libraries, plugins.

# BP_APPEND_FLAG(VARIABLE, FLAG): appends FLAG to VARIABLE if the compiler takes it.
AC_DEFUN([BP_APPEND_FLAG],[
  bp_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS -Werror $2"
  AC_MSG_CHECKING([whether $CC takes $2])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM],
    [AC_MSG_RESULT([yes]); $1="$$1 $2"],
    [AC_MSG_RESULT([no])])
  CFLAGS=$bp_saved_cflags
])

# BP_COMPILER_FLAGS: WARN_CFLAGS, with -Werror under --enable-strict.
AC_DEFUN([BP_COMPILER_FLAGS],[
  AC_ARG_ENABLE([strict],
    [AS_HELP_STRING([--enable-strict],[make every compiler warning an error])],
    [],[enable_strict=no])
  WARN_CFLAGS=
  m4_foreach_w([flag],[-Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wvla
                       -Wformat=2],[BP_APPEND_FLAG([WARN_CFLAGS],flag)])
  bp_compiler_words="warnings"
  AS_IF([test "x$enable_strict" = xyes],
    [WARN_CFLAGS="$WARN_CFLAGS -Werror"; bp_compiler_words="warnings are errors"])
  AC_SUBST([WARN_CFLAGS])
])

# BP_SMALL_CODE: SMALL_CFLAGS, for the library that every process loads: no padding before functions
# and loops, which is a tenth of its code.
AC_DEFUN([BP_SMALL_CODE],[
  SMALL_CFLAGS=
  m4_foreach_w([flag],[-fno-align-functions -fno-align-loops -fno-align-jumps],
    [BP_APPEND_FLAG([SMALL_CFLAGS],flag)])
  AC_SUBST([SMALL_CFLAGS])
])

# BP_SANITIZERS: SANITIZER_CFLAGS; NO_UNDEFINED for modules, which sanitizers cannot have.
AC_DEFUN([BP_SANITIZERS],[
  bp_sanitizers=
  AC_ARG_ENABLE([asan],[AS_HELP_STRING([--enable-asan],[build with the address sanitizer])],
    [AS_IF([test "x$enableval" = xyes],[bp_sanitizers="$bp_sanitizers address"])])
  AC_ARG_ENABLE([ubsan],
    [AS_HELP_STRING([--enable-ubsan],[build with the undefined-behaviour sanitizer])],
    [AS_IF([test "x$enableval" = xyes],[bp_sanitizers="$bp_sanitizers undefined"])])
  AC_ARG_ENABLE([tsan],[AS_HELP_STRING([--enable-tsan],[build with the thread sanitizer])],
    [AS_IF([test "x$enableval" = xyes],[bp_sanitizers="$bp_sanitizers thread"])])
  AS_CASE(["$bp_sanitizers"],
    [*address*thread*],[AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
  SANITIZER_CFLAGS=
  for bp_sanitizer in $bp_sanitizers; do
    SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fsanitize=$bp_sanitizer"
  done
  NO_UNDEFINED="-Wl,-z,defs"
  AS_IF([test -n "$bp_sanitizers"],
    [SANITIZER_CFLAGS="$SANITIZER_CFLAGS -fno-sanitize-recover=all -fno-omit-frame-pointer"
     NO_UNDEFINED=])
  AC_SUBST([SANITIZER_CFLAGS])
  AC_SUBST([NO_UNDEFINED])
  AM_CONDITIONAL([SANITIZED],[test -n "$bp_sanitizers"])
])

# BP_REQUIRE(PREFIX, PKG-CONFIG MODULE, DEBIAN PACKAGE): PREFIX_CFLAGS and PREFIX_LIBS.
AC_DEFUN([BP_REQUIRE],[
  PKG_CHECK_MODULES([$1],[$2],[],
    [AC_MSG_ERROR([$2 was not found; on Debian: apt install $3])])
])

# BP_PLUGIN(NAME, CONDITIONAL, WHAT, FINDER): --disable-NAME, and BUILD_CONDITIONAL for automake.
# FINDER sets bp_missing to the reason why the plugin cannot be built; with --enable-NAME a reason
# is an error, otherwise the plugin is left out.
AC_DEFUN([BP_PLUGIN],[
  AC_ARG_ENABLE([$1],
    [AS_HELP_STRING([--disable-$1],[leave out plugin $1: $3 (default: built if it can be)])],
    [],[AS_TR_SH([enable_$1])=auto])
  bp_missing=
  AS_IF([test "x$AS_TR_SH([enable_$1])" != xno],[$4])
  AS_IF([test "x$AS_TR_SH([enable_$1])" = xno],
      [AS_TR_SH([bp_plugin_$1])="left out, by --disable-$1"],
    [test -z "$bp_missing"],
      [AS_TR_SH([bp_plugin_$1])=built],
    [test "x$AS_TR_SH([enable_$1])" = xyes],
      [AC_MSG_ERROR([plugin $1 cannot be built: $bp_missing])],
    [AS_TR_SH([bp_plugin_$1])="left out: $bp_missing"])
  AM_CONDITIONAL([BUILD_$2],[test "x$AS_TR_SH([bp_plugin_$1])" = xbuilt])
])

# BP_FIND_LLVM: LLVM_CFLAGS and LLVM_LIBS of LLVM 15, the one that PoCL and Mesa use on Debian 12.
AC_DEFUN([BP_FIND_LLVM],[
  AC_CHECK_PROGS([LLVM_CONFIG],[llvm-config-15])
  AS_IF([test -z "$LLVM_CONFIG"],
    [bp_missing="no llvm-config-15; on Debian: apt install llvm-15-dev"],
    [LLVM_CFLAGS="-I`$LLVM_CONFIG --includedir`"
     LLVM_LIBS="-L`$LLVM_CONFIG --libdir` `$LLVM_CONFIG --link-shared --libs`"])
  AC_SUBST([LLVM_CFLAGS])
  AC_SUBST([LLVM_LIBS])
])

# BP_FIND_OPENCL_HEADERS: the library itself is opened at run time.
AC_DEFUN([BP_FIND_OPENCL_HEADERS],[
  AC_CHECK_HEADER([CL/cl.h],[],
    [bp_missing="no CL/cl.h; on Debian: apt install opencl-c-headers"],
    [@%:@define CL_TARGET_OPENCL_VERSION 300])
])

# BP_FIND_DNNL_HEADERS: those of oneDNN 2, whose functions version 3 lacks; the library itself is
# opened at run time.
AC_DEFUN([BP_FIND_DNNL_HEADERS],[
  AC_CHECK_DECL([dnnl_pooling_v2_forward_desc_init],[],
    [bp_missing="no oneapi/dnnl/dnnl.h of oneDNN 2; on Debian: apt install libdnnl-dev"],
    [@%:@include <oneapi/dnnl/dnnl.h>])
])

# BP_FIND_DNNL: the benchmark's peer, oneDNN 2, which has no pkg-config file; DNNL_LIBS, with the
# OpenMP library that sets how many threads it uses.
AC_DEFUN([BP_FIND_DNNL],[
  AC_CHECK_HEADER([dnnl.h],[AC_CHECK_LIB([dnnl],[dnnl_matmul_desc_init],[DNNL_LIBS="-ldnnl -lgomp"])])
  AC_SUBST([DNNL_LIBS])
  AM_CONDITIONAL([HAVE_DNNL],[test -n "$DNNL_LIBS"])
])

# BP_FIND_VULKAN_HEADERS: the loader is opened at run time.
AC_DEFUN([BP_FIND_VULKAN_HEADERS],[
  AC_CHECK_HEADER([vulkan/vulkan_core.h],[],
    [bp_missing="no vulkan/vulkan_core.h; on Debian: apt install libvulkan-dev"])
])

# BP_FIND_MPI: MPI_CFLAGS and MPI_LIBS of the MPI library that pkg-config has, Open MPI or MPICH;
# bp_mpi_missing says why there is none.
AC_DEFUN([BP_FIND_MPI],[
  bp_mpi_missing="no pkg-config file of an MPI library (libopenmpi-dev or libmpich-dev)"
  for bp_mpi in mpi-c ompi-c mpich; do
    AS_IF([test -n "$bp_mpi_missing"],
      [PKG_CHECK_MODULES([MPI],[$bp_mpi],[bp_mpi_missing= bp_mpi_found=$bp_mpi],[:])])
  done
])
