# SPDX-License-Identifier: Apache-2.0
# Tests of the build itself.

test_programs += tests/frame/test-version
test_scripts += tests/frame/test-lint.sh
slow_tests += tests/frame/test-lint.sh
EXTRA_DIST += tests/frame/test-lint.sh

# Tests of the installed files. Under sanitizers an application would need a build with
# sanitizers, too.
EXTRA_DIST += tests/frame/installcheck.sh tests/frame/installcheck-plugins.sh
installcheck-local:
if !SANITIZED
	@PKG_CONFIG='$(PKG_CONFIG)' CC='$(CC)' libdir='$(libdir)' \
	  bash $(srcdir)/tests/frame/installcheck.sh
	@PKG_CONFIG='$(PKG_CONFIG)' CC='$(CC)' srcdir='$(srcdir)' libdir='$(libdir)' bindir='$(bindir)' \
	  sysconfdir='$(sysconfdir)' bash $(srcdir)/tests/frame/installcheck-plugins.sh
endif
