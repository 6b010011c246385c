# SPDX-License-Identifier: Apache-2.0
# Bridges: libraries that other programs load to use Backplane. Each bridge has its own
# package.

bridge_LTLIBRARIES =

include bridges/onnxruntime/local.mk
