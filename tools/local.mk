# SPDX-License-Identifier: Apache-2.0
# The backplane command.

# Code that the commands share.
noinst_LIBRARIES += tools/libcommand.a
tools_libcommand_a_SOURCES = tools/command.h tools/output.c tools/element.c tools/claims.c tools/model.c \
	tools/shape.c tools/target.c tools/picture.c tools/archive.c tools/value.c tools/manual.c \
	tools/table.c tools/temporary.c
tools_libcommand_a_CPPFLAGS = $(AM_CPPFLAGS) $(LIBPNG_CFLAGS) $(TURBOJPEG_CFLAGS) $(ZLIB_CFLAGS)
command_libs = tools/libcommand.a $(LDADD) $(JANSSON_LIBS) $(LIBPNG_LIBS) $(TURBOJPEG_LIBS) $(ZLIB_LIBS) -lm

bin_PROGRAMS += backplane
backplane_SOURCES = tools/backplane.c tools/check_target.c tools/difference.c tools/sides.c tools/onnx.c tools/onnxruntime.c tools/timing.c \
	tools/ceiling.c tools/cmd_list.c tools/cmd_doctor.c tools/cmd_inspect.c tools/cmd_targets.c tools/cmd_compile.c \
	tools/cmd_run.c tools/cmd_compare.c tools/cmd_cache.c tools/cmd_demo.c tools/cmd_bench.c tools/cmd_profile.c tools/cmd_report.c tools/cmd_verify.c tools/cmd_new_plugin.c
nodist_backplane_SOURCES = $(embedded_headers)
backplane_CPPFLAGS = $(AM_CPPFLAGS) -DBP_SDK_DIR='"$(pkgdatadir)/sdk"' -DBP_DIGITS_DIR='"$(pkgdatadir)/examples/digits"'
backplane_LDADD = libbackplane-conformance.la $(command_libs)

# The page of `backplane report` and the program of `compare --onnxruntime`, as C strings.
EXTRA_DIST += tools/report.html tools/onnxruntime_values.py
embedded_headers = tools/report-page.h tools/onnxruntime-values.h
BUILT_SOURCES += $(embedded_headers)
CLEANFILES += $(embedded_headers)
embed = $(AM_V_GEN)$(MKDIR_P) tools && sed 's/[\\"]/\\&/g; s/^/  "/; s/$$/\\n",/'
tools/report-page.h: tools/report.html
	$(embed) $(srcdir)/tools/report.html >$@
tools/onnxruntime-values.h: tools/onnxruntime_values.py
	$(embed) $(srcdir)/tools/onnxruntime_values.py >$@

# The program that tries plugins; it loads the libbackplane that starts it.
pkglibexec_PROGRAMS += backplane-trial
backplane_trial_SOURCES = tools/trial.c
backplane_trial_LDADD = -ldl

dist_man_MANS += tools/backplane.1 tools/backplane-new-plugin.1 tools/backplane.conf.5
# The manual pages of the commands. `make manual` writes them, and a build does not: a cross build cannot run the
# command.
dist_man_MANS += tools/man/backplane-list.1 tools/man/backplane-demo.1 tools/man/backplane-doctor.1 \
	tools/man/backplane-inspect.1 tools/man/backplane-targets.1 tools/man/backplane-operators.1 \
	tools/man/backplane-compile.1 tools/man/backplane-run.1 tools/man/backplane-compare.1 \
	tools/man/backplane-bench.1 tools/man/backplane-profile.1 tools/man/backplane-report.1 \
	tools/man/backplane-cache.1 tools/man/backplane-verify.1
other_manuals =
manual: backplane $(other_manuals)
	$(AM_V_GEN)for command in list demo doctor inspect targets operators compile run \
	    compare bench profile report cache verify; do \
	  ./backplane $$command --help-manual >$(srcdir)/tools/man/backplane-$$command.1 || exit 1; done
.PHONY: manual

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = tools/completion/backplane
