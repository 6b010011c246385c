# SPDX-License-Identifier: Apache-2.0
# Tensor expressions and schedules.
