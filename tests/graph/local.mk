# SPDX-License-Identifier: Apache-2.0
# Tests of: graph.
test_programs += tests/graph/test-npy tests/graph/test-executor
