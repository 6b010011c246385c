# SPDX-License-Identifier: Apache-2.0
# Documentation. All of it is installed, for its pages refer to each other.

dist_doc_DATA = docs/abi.md docs/architecture.md docs/artifacts.md docs/building.md docs/codegen.md docs/conformance.md \
	docs/decisions.md docs/devices.md docs/faq.md docs/glossary.md docs/graph.md docs/ir.md docs/layers.md docs/lowering.md docs/measuring.md \
	docs/models.md docs/operators.md docs/packaging.md docs/plugin-cpu.md docs/plugin-cuda.md docs/plugin-dnnl.md \
	docs/plugin-opencl.md docs/plugin-vulkan.md docs/plugins.md docs/python.md docs/releasing.md docs/running.md \
	docs/targets.md docs/testing.md docs/troubleshooting.md docs/trust.md docs/tvm.md docs/vendor-guide.md

measurementsdir = $(docdir)/measurements
dist_measurements_DATA = docs/measurements/language-model-2026-11-23.md docs/measurements/matmul.md docs/measurements/models-2026-11-21.md \
	docs/measurements/models-2026-11-22.md \
	docs/measurements/coverage-2026-11-23.md \
	docs/measurements/operators.md \
	docs/measurements/tvm-2026-11-22.md docs/measurements/vulkan.md

# The picture is drawn by the script beside it; a test compares the two.
picturesdir = $(docdir)/pictures
dist_pictures_DATA = docs/pictures/overview.svg
EXTRA_DIST += docs/pictures/draw.py

# The reference of the C API: reference/html, and pages for man in reference/man.
EXTRA_DIST += docs/reference/Doxyfile docs/reference/filter.awk docs/reference/main.md
reference:
	@command -v doxygen >/dev/null || { echo "make reference needs doxygen (on Debian: apt install doxygen)" >&2; exit 1; }
	$(AM_V_GEN)rm -rf reference && $(MKDIR_P) reference && cd $(srcdir) && \
	{ cat docs/reference/Doxyfile && echo 'PROJECT_NUMBER = $(PACKAGE_VERSION)' && \
	  echo 'OUTPUT_DIRECTORY = "$(abs_top_builddir)/reference"' && \
	  echo 'WARN_LOGFILE = "$(abs_top_builddir)/reference/warnings"'; } | doxygen -
.PHONY: reference
