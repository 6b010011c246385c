// SPDX-License-Identifier: Apache-2.0
// C = A B. The threads of a block bring a part of each operand to shared memory together, and each
// accumulates eight by eight elements of the block's 64 by 64 in registers. Storage buffers.
#version 460
#extension GL_EXT_control_flow_attributes : enable
layout(local_size_x = 8, local_size_y = 8) in;
layout(constant_id = 0) const int SIZE = 1024;
layout(std430, binding = 0) restrict readonly buffer A { float a[]; };
layout(std430, binding = 1) restrict readonly buffer B { float b[]; };
layout(std430, binding = 2) restrict writeonly buffer C { float c[]; };

const int TILE = 8, SIDE = 64, STEPS = 16;

shared float rows[STEPS][SIDE];
shared float columns[STEPS][SIDE];

void main() {
  const int x = int(gl_LocalInvocationID.x), y = int(gl_LocalInvocationID.y);
  const int row = int(gl_WorkGroupID.y) * SIDE, column = int(gl_WorkGroupID.x) * SIDE;
  const int thread = y * 8 + x;
  float sum[TILE][TILE];
  [[unroll]] for (int i = 0; i < TILE; i++)
    [[unroll]] for (int j = 0; j < TILE; j++)
      sum[i][j] = 0;
  for (int k = 0; k < SIZE; k += STEPS) {
    barrier();
    for (int i = 0; i < STEPS; i++) {
      rows[i][thread] = a[(row + thread) * SIZE + k + i];
      columns[i][thread] = b[(k + i) * SIZE + column + thread];
    }
    barrier();
    for (int step = 0; step < STEPS; step++) {
      float l[TILE], r[TILE];
      [[unroll]] for (int i = 0; i < TILE; i++)
        l[i] = rows[step][y * TILE + i];
      [[unroll]] for (int j = 0; j < TILE; j++)
        r[j] = columns[step][j * 8 + x];
      [[unroll]] for (int i = 0; i < TILE; i++)
        [[unroll]] for (int j = 0; j < TILE; j++)
          sum[i][j] = fma(l[i], r[j], sum[i][j]);
    }
  }
  [[unroll]] for (int i = 0; i < TILE; i++)
    [[unroll]] for (int j = 0; j < TILE; j++)
      c[(row + y * TILE + i) * SIZE + column + j * 8 + x] = sum[i][j];
}
