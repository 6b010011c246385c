# SPDX-License-Identifier: Apache-2.0
# What build systems and packagers find.

# For CMake, as the files .pc are for pkg-config. Headers are found from the libraries' folder, so
# that the installed tree can be moved, or be another machine's.
cmakedir = $(libdir)/cmake/Backplane
nodist_cmake_DATA = packaging/BackplaneConfig.cmake packaging/BackplaneConfigVersion.cmake
EXTRA_DIST += packaging/BackplaneConfig.cmake.in packaging/BackplaneConfigVersion.cmake.in
CLEANFILES += $(nodist_cmake_DATA)
$(nodist_cmake_DATA): %: %.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && headers=$$(realpath -m --relative-to='$(libdir)' '$(includedir)') && \
	$(SED) -e "s|@headers@|$$headers|" -e 's|@version@|$(PACKAGE_VERSION)|' $< >$@

# Packages: debian/ is built by dpkg-buildpackage, backplane.spec by rpmbuild; docs/packaging.md.

EXTRA_DIST += scripts/check-packages packaging/backplane.spec packaging/dh_backplane packaging/backplane.pm \
	debian/changelog debian/clean debian/control debian/copyright debian/not-installed debian/rules \
	debian/source/format debian/tests/control debian/tests/develop debian/tests/digits \
	debian/tests/python debian/backplane-tools.install debian/backplane-tools.postinst \
	debian/backplane-tools.triggers.in debian/backplane-doc.install debian/libbackplane-dev.install \
	debian/libbackplane-dev.lintian-overrides \
	debian/libbackplane0.install debian/libbackplane0.symbols \
	debian/libbackplane-compiler0.install debian/libbackplane-compiler0.symbols \
	debian/libbackplane-graph0.install debian/libbackplane-graph0.symbols \
	debian/backplane-plugin-cpu.install debian/backplane-plugin-cpu-llvm.install \
	debian/backplane-layers.install debian/backplane-plugin-cuda.install debian/backplane-plugin-dnnl.install \
	debian/backplane-plugin-opencl.install \
	debian/backplane-plugin-vulkan.install
