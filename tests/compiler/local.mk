# SPDX-License-Identifier: Apache-2.0
# Tests of: compiler.
test_programs += tests/compiler/test-ir-build
test_programs += tests/compiler/test-ir-constructs
tests_compiler_test_ir_constructs_LDADD = libbackplane-conformance.la $(LDADD) $(JANSSON_LIBS) -lm
test_programs += tests/compiler/test-ir-interpret
tests_compiler_test_ir_interpret_LDADD = $(LDADD) -lm
test_programs += tests/compiler/test-ir-legalize
tests_compiler_test_ir_legalize_LDADD = $(LDADD) -lm
# test-ir-memory replaces malloc, as the sanitizers do.
if !SANITIZED
test_programs += tests/compiler/test-ir-memory
endif
plain_tests += tests/compiler/test-ir-memory
test_programs += tests/compiler/test-ir-random
tests_compiler_test_ir_random_LDADD = libbackplane-conformance.la $(LDADD) $(JANSSON_LIBS) -lm
test_programs += tests/compiler/test-ir-programs
tests_compiler_test_ir_programs_SOURCES = tests/compiler/test-ir-programs.c \
	tests/compiler/random_program.c tests/compiler/random_program.h
tests_compiler_test_ir_programs_LDADD = libbackplane-conformance.la $(LDADD) $(JANSSON_LIBS) -lm
slow_tests += tests/compiler/test-ir-programs
test_programs += tests/compiler/test-ir-text
test_programs += tests/compiler/test-ir-verify
EXTRA_DIST += tests/compiler/ir-util.h
test_programs += tests/compiler/test-te-random-schedules tests/compiler/test-te-tuples \
	tests/compiler/test-te-scan tests/compiler/test-te-statements
slow_tests += tests/compiler/test-te-random-schedules
test_programs += tests/compiler/test-te-open
tests_compiler_test_te_open_LDADD = $(LDADD) -lm
test_programs += tests/compiler/test-te-caches tests/compiler/test-te-partition tests/compiler/test-te-shares
EXTRA_DIST += tests/compiler/te-run.h
long_programs += tests/compiler/test-codegen
EXTRA_DIST += tests/compiler/codegen-util.h
tests_compiler_test_codegen_LDADD = $(LDADD) -ldl -lm
slow_tests += tests/compiler/test-codegen
test_programs += tests/compiler/test-emitted
EXTRA_DIST += tests/compiler/emitted/elementwise.c.txt tests/compiler/emitted/long-sum.c.txt \
	tests/compiler/emitted/example.c.txt tests/compiler/emitted/example.ir.txt \
	tests/compiler/emitted/packed-product.c.txt \
	tests/compiler/emitted/product.c.txt tests/compiler/emitted/softmax.c.txt
regenerate-emitted: all tests/compiler/test-emitted
	BP_TEST_REGENERATE=1 $(MAKE) $(AM_MAKEFLAGS) check TESTS=tests/compiler/test-emitted
.PHONY: regenerate-emitted
