# SPDX-License-Identifier: Apache-2.0
# The backplane command: bin_PROGRAMS += backplane.
