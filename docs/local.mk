# SPDX-License-Identifier: Apache-2.0
# Documentation.
EXTRA_DIST += docs/building.md docs/models.md docs/testing.md docs/trust.md docs/decisions.md docs/lowering.md docs/graph.md docs/codegen.md
EXTRA_DIST += docs/abi.md docs/artifacts.md
EXTRA_DIST += docs/devices.md docs/plugins.md docs/targets.md
EXTRA_DIST += docs/ir.md
