#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# conformance-static.sh [PROGRAM]: a program that contains the plugin passes
# the conformance kit.
exec "${1:-./conformance-static}" simdev
