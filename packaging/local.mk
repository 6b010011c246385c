# SPDX-License-Identifier: Apache-2.0
# Files for build systems and packagers.

# CMake's configuration, the counterpart of the .pc files of pkg-config. The configuration finds headers relative to the
# folder of the libraries, so that the installed tree may be moved, or may belong to another machine.
cmakedir = $(libdir)/cmake/Backplane
nodist_cmake_DATA = packaging/BackplaneConfig.cmake packaging/BackplaneConfigVersion.cmake
EXTRA_DIST += packaging/BackplaneConfig.cmake.in packaging/BackplaneConfigVersion.cmake.in
CLEANFILES += $(nodist_cmake_DATA)
$(nodist_cmake_DATA): %: %.in Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && headers=$$(realpath -m --relative-to='$(libdir)' '$(includedir)') && \
	$(SED) -e "s|@headers@|$$headers|" -e 's|@version@|$(PACKAGE_VERSION)|' $< >$@

# The names of this project's packages for messages, installed in packages.d beside the folder `plugins`.
packagesdir = $(plugindir:%/plugins=%)/packages.d
dist_packages_DATA = packaging/libbackplane1.conf

# Packages: dpkg-buildpackage builds debian/, and rpmbuild builds backplane.spec; see docs/packaging.md.

EXTRA_DIST += scripts/check-packages packaging/backplane.spec packaging/dh_backplane packaging/backplane.pm \
	debian/changelog debian/clean debian/control debian/copyright debian/not-installed debian/rules \
	debian/source/format debian/tests/control debian/tests/develop debian/tests/digits \
	debian/tests/python debian/backplane-tools.install debian/backplane-tools.postinst \
	debian/backplane-tools.triggers.in debian/backplane-doc.doc-base debian/backplane-doc.install debian/libbackplane-dev.install \
	debian/libbackplane-dev.lintian-overrides \
	debian/libbackplane1.install debian/libbackplane1.symbols \
	debian/libbackplane-compiler1.install debian/libbackplane-compiler1.symbols \
	debian/libbackplane-graph1.install debian/libbackplane-graph1.symbols \
	debian/backplane-plugin-cpu.install debian/backplane-plugin-cpu-llvm.install \
	debian/backplane-layers.install debian/backplane-mpi.install debian/backplane-onnxruntime.install debian/backplane-plugin-cuda.install debian/backplane-plugin-cudalibs.install debian/backplane-plugin-dnnl.install \
	debian/backplane-plugin-opencl.install \
	debian/backplane-plugin-vulkan.install debian/backplane-worker.install
