// SPDX-License-Identifier: Apache-2.0
// C = A B. A block is eight threads; a thread accumulates sixteen rows by eight columns in
// registers. Both operands are texel buffers of four elements: of A along its rows, of B along the
// columns.
#version 460
#extension GL_EXT_control_flow_attributes : enable
layout(local_size_x = 8) in;
layout(constant_id = 0) const int SIZE = 1024;
layout(binding = 0, rgba32f) uniform restrict readonly imageBuffer a;
layout(binding = 1, rgba32f) uniform restrict readonly imageBuffer b;
layout(std430, binding = 2) restrict writeonly buffer C { vec4 c[]; };

const int ROWS = 16;

void main() {
  const int row = int(gl_WorkGroupID.y) * ROWS;
  const int column = int(gl_WorkGroupID.x) * 16 + int(gl_LocalInvocationID.x); // in fours
  vec4 left[ROWS], right[ROWS];
  [[unroll]] for (int i = 0; i < ROWS; i++)
    left[i] = right[i] = vec4(0);
  for (int k = 0; k < SIZE; k += 4) {
    vec4 from[ROWS];
    [[unroll]] for (int i = 0; i < ROWS; i++)
      from[i] = imageLoad(a, ((row + i) * SIZE + k) / 4);
    [[unroll]] for (int step = 0; step < 4; step++) {
      const vec4 x = imageLoad(b, (k + step) * (SIZE / 4) + column);
      const vec4 y = imageLoad(b, (k + step) * (SIZE / 4) + column + 8);
      [[unroll]] for (int i = 0; i < ROWS; i++) {
        left[i] = fma(vec4(from[i][step]), x, left[i]);
        right[i] = fma(vec4(from[i][step]), y, right[i]);
      }
    }
  }
  [[unroll]] for (int i = 0; i < ROWS; i++) {
    c[(row + i) * (SIZE / 4) + column] = left[i];
    c[(row + i) * (SIZE / 4) + column + 8] = right[i];
  }
}
