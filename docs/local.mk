# SPDX-License-Identifier: Apache-2.0
# Documentation. All pages are installed, because they link to each other.

dist_doc_DATA = docs/abi.md docs/architecture.md docs/architecture.svg docs/artifacts.md docs/building.md \
	docs/codegen.md docs/conformance.md docs/debugging.md docs/decisions.md docs/devices.md docs/faq.md docs/glossary.md \
	docs/graph.md docs/ir.md docs/isolation.md docs/layers.md docs/lowering.md docs/measuring.md docs/mlserver.md \
	docs/models.md docs/mpi.md docs/onnxruntime.md docs/operators.md docs/packaging.md docs/plugin-cpu.md \
	docs/plugin-cuda.md docs/plugin-dnnl.md docs/plugin-opencl.md docs/plugin-vulkan.md docs/plugins.md docs/python.md \
	docs/pytorch.md docs/ray.md docs/releasing.md docs/remote.md docs/running.md docs/targets.md docs/testing.md \
	docs/troubleshooting.md docs/trust.md docs/tvm.md docs/vendor-guide.md

measurementsdir = $(docdir)/measurements
dist_measurements_DATA = docs/measurements/bridges-2026-11-27.md docs/measurements/compile-2026-11-30.md \
	docs/measurements/language-model-2026-11-27.md docs/measurements/matmul.md docs/measurements/models-2026-11-21.md \
	docs/measurements/models-2026-11-22.md docs/measurements/models-2026-11-27.md docs/measurements/open-2026-11-29.md docs/measurements/open-2026-11-30.md \
	docs/measurements/plugin-hosts-2026-11-21.md docs/measurements/quantised-2026-11-30.md \
	docs/measurements/coverage-2026-11-23.md docs/measurements/devices-2026-11-26.md \
	docs/measurements/memory-2026-11-25.md docs/measurements/memory-2026-11-29.md \
	docs/measurements/onnx-cases-2026-11-25.md docs/measurements/operators.md \
	docs/measurements/opencl.md docs/measurements/tvm-2026-11-22.md docs/measurements/vulkan.md

# The script beside the picture draws it; a test compares the script's output with the picture.
picturesdir = $(docdir)/pictures
dist_pictures_DATA = docs/pictures/overview.svg
EXTRA_DIST += docs/pictures/draw.py

# The reference of the C API: HTML in reference/html, manual pages in reference/man.
EXTRA_DIST += docs/reference/Doxyfile docs/reference/filter.awk docs/reference/header.html docs/reference/main.md
reference:
	@command -v doxygen >/dev/null || { echo "make reference needs doxygen (on Debian: apt install doxygen)" >&2; exit 1; }
	$(AM_V_GEN)rm -rf reference && $(MKDIR_P) reference && cd $(srcdir) && \
	{ cat docs/reference/Doxyfile && echo 'PROJECT_NUMBER = $(PACKAGE_VERSION)' && \
	  echo 'OUTPUT_DIRECTORY = "$(abs_top_builddir)/reference"' && \
	  echo 'WARN_LOGFILE = "$(abs_top_builddir)/reference/warnings"'; } | doxygen -

# The pages as HTML, with the reference: site/index.html.
EXTRA_DIST += docs/site/make.py docs/site/page.html docs/site/style.css
site: reference
	@command -v pandoc >/dev/null || { echo "make site needs pandoc (on Debian: apt install pandoc)" >&2; exit 1; }
	$(AM_V_GEN)rm -rf site && python3 $(srcdir)/docs/site/make.py $(srcdir) site $(PACKAGE_VERSION) reference/html
.PHONY: reference site
