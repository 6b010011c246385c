/* SPDX-License-Identifier: Apache-2.0 */
/* The program that does nothing, beside which bench-start measures. */

int main(void) {
  return 0;
}
