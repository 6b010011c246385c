# SPDX-License-Identifier: Apache-2.0
# The backplane command.

bin_PROGRAMS += backplane
backplane_SOURCES = tools/backplane.c tools/command.h tools/output.c tools/element.c \
	tools/claims.c tools/model.c tools/shape.c tools/target.c tools/check_target.c tools/png.c tools/archive.c \
	tools/value.c tools/difference.c tools/sides.c tools/onnx.c tools/cmd_list.c tools/cmd_doctor.c tools/cmd_inspect.c tools/cmd_targets.c tools/cmd_compile.c \
	tools/cmd_run.c tools/cmd_compare.c tools/cmd_cache.c tools/cmd_demo.c tools/cmd_bench.c tools/cmd_profile.c tools/cmd_verify.c tools/cmd_new_plugin.c
backplane_CPPFLAGS = $(AM_CPPFLAGS) $(LIBPNG_CFLAGS) $(ZLIB_CFLAGS) -DBP_SDK_DIR='"$(pkgdatadir)/sdk"' \
	-DBP_DIGITS_DIR='"$(pkgdatadir)/examples/digits"'
backplane_LDADD = libbackplane-conformance.la $(LDADD) $(JANSSON_LIBS) $(LIBPNG_LIBS) $(ZLIB_LIBS) -lm

# Tries plugins out; it loads the libbackplane that asks for it.
pkglibexec_PROGRAMS += backplane-trial
backplane_trial_SOURCES = tools/trial.c
backplane_trial_LDADD = -ldl

dist_man_MANS += tools/backplane.1 tools/backplane-new-plugin.1 tools/backplane.conf.5

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = tools/completion/backplane
