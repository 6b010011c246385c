# SPDX-License-Identifier: Apache-2.0
# Examples and their data.

include examples/digits/local.mk
include examples/language-model/local.mk
