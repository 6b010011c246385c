# SPDX-License-Identifier: Apache-2.0
# The DeviceAPI's front, tensors, host threads.
