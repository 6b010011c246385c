# SPDX-License-Identifier: Apache-2.0
# The backplane command: bin_PROGRAMS += backplane.

dist_man_MANS += tools/backplane.1

bashcompletiondir = $(datadir)/bash-completion/completions
dist_bashcompletion_DATA = tools/completion/backplane
