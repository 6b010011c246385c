# SPDX-License-Identifier: Apache-2.0
# Modules and their serialised forms.
