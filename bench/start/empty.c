/* SPDX-License-Identifier: Apache-2.0 */
/* An empty program, for comparison with bench-start. */

int main(void) {
  return 0;
}
