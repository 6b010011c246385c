# SPDX-License-Identifier: Apache-2.0
# Plugins cpu (device, target kind c) and cpu-llvm (target kind llvm).
