#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# conformance.sh [PLUGIN.so]: the plugin of this build passes the conformance
# kit.
plugin=${1:-.libs/backplane-simdev.so}
exec "${BACKPLANE_COMMAND:-backplane}" verify --conformance "$plugin"
