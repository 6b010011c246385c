# SPDX-License-Identifier: Apache-2.0
# The builder: from a graph to an artifact.
