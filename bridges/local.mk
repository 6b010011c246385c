# SPDX-License-Identifier: Apache-2.0
# Bridges: libraries that other programs open to use Backplane, each with a package of its own.

bridge_LTLIBRARIES =

include bridges/onnxruntime/local.mk
