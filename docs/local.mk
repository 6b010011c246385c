# SPDX-License-Identifier: Apache-2.0
# Documentation.
EXTRA_DIST += docs/building.md docs/testing.md
