// SPDX-License-Identifier: Apache-2.0
// C = A B. A block is eight threads; a thread accumulates eight by eight elements in registers, its
// columns eight apart, so that the threads of a block load and store neighbours. Storage buffers.
#version 460
#extension GL_EXT_control_flow_attributes : enable
layout(local_size_x = 8) in;
layout(constant_id = 0) const int SIZE = 1024;
layout(std430, binding = 0) restrict readonly buffer A { float a[]; };
layout(std430, binding = 1) restrict readonly buffer B { float b[]; };
layout(std430, binding = 2) restrict writeonly buffer C { float c[]; };

const int TILE = 8;

void main() {
  const int row = int(gl_WorkGroupID.y) * TILE;
  const int column = int(gl_WorkGroupID.x) * TILE * 8 + int(gl_LocalInvocationID.x);
  float sum[TILE][TILE];
  [[unroll]] for (int i = 0; i < TILE; i++)
    [[unroll]] for (int j = 0; j < TILE; j++)
      sum[i][j] = 0;
  for (int k = 0; k < SIZE; k++) {
    float x[TILE], y[TILE];
    [[unroll]] for (int i = 0; i < TILE; i++)
      x[i] = a[(row + i) * SIZE + k];
    [[unroll]] for (int j = 0; j < TILE; j++)
      y[j] = b[k * SIZE + column + j * 8];
    [[unroll]] for (int i = 0; i < TILE; i++)
      [[unroll]] for (int j = 0; j < TILE; j++)
        sum[i][j] = fma(x[i], y[j], sum[i][j]);
  }
  [[unroll]] for (int i = 0; i < TILE; i++)
    [[unroll]] for (int j = 0; j < TILE; j++)
      c[(row + i) * SIZE + column + j * 8] = sum[i][j];
}
