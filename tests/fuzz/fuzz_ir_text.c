/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the text form of the IR. For every text, parsing and verifying end in a module or in
 * an error; a module can be printed; and a well-formed module prints to a text that parses back. */

#include <stdlib.h>
#include <string.h>

#include <backplane/compiler/ir.h>
#include <backplane/device.h>
#include <backplane/error.h>
#include <backplane/object.h>

#include "tests/fuzz/fuzz.h"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT(
        "(module (function \"f\" (buffer A float32 global (mul n:int64 4)) n:int64 x:float32\n"
        "  (attr \"noalias\" 1) (attr \"launch\" \"blockIdx.x\" (add n 1))\n"
        "  (for i:int64 0 n bound \"blockIdx.x\" (allocate (buffer S float16 shared 16) (seq\n"
        "   (let y:float32x4 (load A (ramp (mul i 4) 1 4))\n"
        "    (store A (ramp (mul i 4) 1 4) (call float32x4 intrinsic \"exp\" y)))\n"
        "   (barrier \"shared\") ; comment\n"
        "   (store A i (reduce add (shuffle 1 (broadcast x 4) 0 1 2 3))))))))"),
    FUZZ_TEXT("(module (function \"g\" (buffer A int8 global 8)\n"
              " (for i:int64 0 8 parallel (if (and (lt i 3) true)\n"
              "  (while (lt (load A i) 3:int8) (store A i (add (load A i) 1:int8)))\n"
              "  (assert (ge i 0) \"a\\\"b\\\\\\x01\\n\")))) (function \"h\" (seq)))"),
    FUZZ_TEXT("(module (function \"e\" (evaluate (call void packed \"x.y\" \"s\" -1.5e3:float64"
              " inf:bfloat16 nan:float32 18446744073709551615:uint64 (cast int8 true)))))"),
    FUZZ_TEXT("(module (function \"v\" (buffer A float32 global 64) (store A (ramp 0 1 16)\n"
              " (select (lt (ramp 0 1 16) (broadcast 9 16)) (load A (ramp 16 1 16)\n"
              "  (lt (ramp 0 1 16) (broadcast 9 16))) (broadcast 0:float32 16)))))"),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT("("),
    FUZZ_TEXT(")"),
    FUZZ_TEXT("(seq "),
    FUZZ_TEXT("\""),
    FUZZ_TEXT(":int64"),
    FUZZ_TEXT(":float32x65535"),
    FUZZ_TEXT("(module "),
    FUZZ_TEXT("(function \"f\" "),
    FUZZ_TEXT("(buffer B int32 local 4)"),
    FUZZ_TEXT("(attr \"k\" 1)"),
    FUZZ_TEXT("65535"),
    FUZZ_TEXT("-9223372036854775808"),
    FUZZ_TEXT("1e999:float32"),
    FUZZ_TEXT("\\x00"),
    FUZZ_TEXT("(shuffle 2 "),
    FUZZ_TEXT("(ramp i 1 4)"),
    FUZZ_TEXT("i "),
    FUZZ_TEXT("A "),
    FUZZ_TEXT("(not (not (not (not "),
    FUZZ_TEXT("(let z:int64 1 "),
    FUZZ_TEXT("(evaluate "),
    FUZZ_TEXT("(reinterpret int8x4 "),
    FUZZ_TEXT("true"),
    FUZZ_TEXT("void"),
    FUZZ_TEXT("handle"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

static void check_round_trip(const char *text) {
  BpIrModule *again = bp_ir_parse(text, strlen(text));
  char *second = again ? bp_ir_print(again) : NULL;
  if (!second || bp_ir_verify(again) || strcmp(text, second))
    abort();
  bp_str_free(second);
  bp_object_release(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  BpIrModule *module = bp_ir_parse((const char *)data, size);
  if (module) {
    char *text = bp_ir_print(module);
    if (!text)
      abort();
    if (!bp_ir_verify(module))
      check_round_trip(text);
    bp_str_free(text);
    bp_object_release(module);
  }
  bp_error_clear();
  return 0;
}
