#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The plugin of this build passes the conformance kit: conformance.sh [PLUGIN.so]
plugin=${1:-.libs/backplane-simdev.so}
exec "${BACKPLANE_COMMAND:-backplane}" verify --conformance "$plugin"
