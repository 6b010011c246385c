#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# So does the program that it is linked into: conformance-static.sh [PROGRAM]
exec "${1:-./conformance-static}" simdev
