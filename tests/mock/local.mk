# SPDX-License-Identifier: Apache-2.0
# Plugins made for tests: odd.c, built with one peculiarity each, and a simulated device.

check_LTLIBRARIES += tests/mock/odd-good.la
tests_mock_odd_good_la_SOURCES = tests/mock/odd.c
tests_mock_odd_good_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-good"' \
	-DODD_ENTRY=bp_plugin_entry_odd_good
tests_mock_odd_good_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-other-abi.la
tests_mock_odd_other_abi_la_SOURCES = tests/mock/odd.c
tests_mock_odd_other_abi_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-other-abi"' \
	-DODD_ENTRY=bp_plugin_entry_odd_other_abi -DODD_ABI='"1.999"'
tests_mock_odd_other_abi_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-no-note.la
tests_mock_odd_no_note_la_SOURCES = tests/mock/odd.c
tests_mock_odd_no_note_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-no-note"' \
	-DODD_ENTRY=bp_plugin_entry_odd_no_note -DODD_NO_NOTE
tests_mock_odd_no_note_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-no-entry.la
tests_mock_odd_no_entry_la_SOURCES = tests/mock/odd.c
tests_mock_odd_no_entry_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-no-entry"' \
	-DODD_ENTRY=bp_plugin_entry_odd_no_entry -DODD_NO_ENTRY
tests_mock_odd_no_entry_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-entry-abi.la
tests_mock_odd_entry_abi_la_SOURCES = tests/mock/odd.c
tests_mock_odd_entry_abi_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-entry-abi"' \
	-DODD_ENTRY=bp_plugin_entry_odd_entry_abi -DODD_ENTRY_ABI
tests_mock_odd_entry_abi_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-entry-fails.la
tests_mock_odd_entry_fails_la_SOURCES = tests/mock/odd.c
tests_mock_odd_entry_fails_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-entry-fails"' \
	-DODD_ENTRY=bp_plugin_entry_odd_entry_fails -DODD_ENTRY_FAILS
tests_mock_odd_entry_fails_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-init-fails.la
tests_mock_odd_init_fails_la_SOURCES = tests/mock/odd.c
tests_mock_odd_init_fails_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-init-fails"' \
	-DODD_ENTRY=bp_plugin_entry_odd_init_fails -DODD_INIT_FAILS
tests_mock_odd_init_fails_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-init-fails-silently.la
tests_mock_odd_init_fails_silently_la_SOURCES = tests/mock/odd.c
tests_mock_odd_init_fails_silently_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-init-fails-silently"' \
	-DODD_ENTRY=bp_plugin_entry_odd_init_fails_silently -DODD_INIT_FAILS_SILENTLY
tests_mock_odd_init_fails_silently_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-registers-less.la
tests_mock_odd_registers_less_la_SOURCES = tests/mock/odd.c
tests_mock_odd_registers_less_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-registers-less"' \
	-DODD_ENTRY=bp_plugin_entry_odd_registers_less -DODD_PROVIDES='"test.odd-registers-less test.odd-missing"'
tests_mock_odd_registers_less_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-slow.la
tests_mock_odd_slow_la_SOURCES = tests/mock/odd.c
tests_mock_odd_slow_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-slow"' \
	-DODD_ENTRY=bp_plugin_entry_odd_slow -DODD_SLOW
tests_mock_odd_slow_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-vendor.la
tests_mock_odd_vendor_la_SOURCES = tests/mock/odd.c
tests_mock_odd_vendor_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-vendor"' \
	-DODD_ENTRY=bp_plugin_entry_odd_vendor -DODD_SLOW
tests_mock_odd_vendor_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-twice.la
tests_mock_odd_twice_la_SOURCES = tests/mock/odd.c
tests_mock_odd_twice_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-twice"' \
	-DODD_ENTRY=bp_plugin_entry_odd_twice
tests_mock_odd_twice_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-later.la
tests_mock_odd_later_la_SOURCES = tests/mock/odd.c
tests_mock_odd_later_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-later"' \
	-DODD_ENTRY=bp_plugin_entry_odd_later
tests_mock_odd_later_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-taken.la
tests_mock_odd_taken_la_SOURCES = tests/mock/odd.c
tests_mock_odd_taken_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-taken"' \
	-DODD_ENTRY=bp_plugin_entry_odd_taken
tests_mock_odd_taken_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-by-path.la
tests_mock_odd_by_path_la_SOURCES = tests/mock/odd.c
tests_mock_odd_by_path_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-by-path"' \
	-DODD_ENTRY=bp_plugin_entry_odd_by_path
tests_mock_odd_by_path_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-listed-a.la
tests_mock_odd_listed_a_la_SOURCES = tests/mock/odd.c
tests_mock_odd_listed_a_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-listed-a"' \
	-DODD_ENTRY=bp_plugin_entry_odd_listed_a
tests_mock_odd_listed_a_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-listed-b.la
tests_mock_odd_listed_b_la_SOURCES = tests/mock/odd.c
tests_mock_odd_listed_b_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-listed-b"' \
	-DODD_ENTRY=bp_plugin_entry_odd_listed_b
tests_mock_odd_listed_b_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-asks-other.la
tests_mock_odd_asks_other_la_SOURCES = tests/mock/odd.c
tests_mock_odd_asks_other_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-asks-other"' \
	-DODD_ENTRY=bp_plugin_entry_odd_asks_other -DODD_ASKS='"test.odd-good"'
tests_mock_odd_asks_other_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-asks-itself.la
tests_mock_odd_asks_itself_la_SOURCES = tests/mock/odd.c
tests_mock_odd_asks_itself_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-asks-itself"' \
	-DODD_ENTRY=bp_plugin_entry_odd_asks_itself -DODD_ASKS='"test.odd-asks-itself"'
tests_mock_odd_asks_itself_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-asks-cycle-a.la
tests_mock_odd_asks_cycle_a_la_SOURCES = tests/mock/odd.c
tests_mock_odd_asks_cycle_a_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-asks-cycle-a"' \
	-DODD_ENTRY=bp_plugin_entry_odd_asks_cycle_a -DODD_SLOW -DODD_ASKS='"test.odd-asks-cycle-b"'
tests_mock_odd_asks_cycle_a_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-asks-cycle-b.la
tests_mock_odd_asks_cycle_b_la_SOURCES = tests/mock/odd.c
tests_mock_odd_asks_cycle_b_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-asks-cycle-b"' \
	-DODD_ENTRY=bp_plugin_entry_odd_asks_cycle_b -DODD_SLOW -DODD_ASKS='"test.odd-asks-cycle-a"'
tests_mock_odd_asks_cycle_b_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

check_LTLIBRARIES += tests/mock/odd-bulk-000.la
tests_mock_odd_bulk_000_la_SOURCES = tests/mock/odd.c
tests_mock_odd_bulk_000_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -DODD_NAME='"odd-bulk-000"' \
	-DODD_ENTRY=bp_plugin_entry_odd_bulk_000
tests_mock_odd_bulk_000_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

# A device with a defect. Tests choose the defect in copies of the plugin.
check_LTLIBRARIES += tests/mock/defect.la
tests_mock_defect_la_SOURCES = tests/mock/defect.c tests/mock/defect.h
tests_mock_defect_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -I$(srcdir)
# The folder equals DEFECT_RUNPATH of defect.h.
tests_mock_defect_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN) \
  -Wl,--enable-new-dtags,-rpath,/defect-runpath-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx

# Simulated devices: the unchanged plugin of the SDK's template.
check_LTLIBRARIES += tests/mock/simdev.la
tests_mock_simdev_la_SOURCES = $(template_plugin_sources)
tests_mock_simdev_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
tests_mock_simdev_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

# Devices whose kernels end their process, for tests of isolation.
check_LTLIBRARIES += tests/mock/fragile.la
tests_mock_fragile_la_SOURCES = tests/mock/fragile.c
tests_mock_fragile_la_CPPFLAGS = $(CPPFLAGS_PLUGIN) -I$(srcdir)
tests_mock_fragile_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)

# A simulated accelerator that claims operators: the unchanged plugin of the template `--kind npu`. The plugin, in
# tests/mock/.libs, starts the program tests/mock/simdev-chip.
check_LTLIBRARIES += tests/mock/simnpu.la
tests_mock_simnpu_la_SOURCES = $(template_npu_sources)
tests_mock_simnpu_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
tests_mock_simnpu_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
check_PROGRAMS += tests/mock/simdev-chip
tests_mock_simdev_chip_SOURCES = sdk/template-npu/src/chip.c sdk/template-npu/src/chip.h
tests_mock_simdev_chip_LDADD = -lm

# A simulation of NVIDIA's driver, of NVRTC, and of cuBLAS and cuDNN.
check_LTLIBRARIES += tests/mock/fakecuda.la
tests_mock_fakecuda_la_SOURCES = tests/mock/fakecublas.c tests/mock/fakecuda.c \
	tests/mock/fakecuda.h tests/mock/fakecudnn.c tests/mock/fakelibs.c tests/mock/fakelibs.h \
	tests/mock/fakecuda_memory.c tests/mock/fakecuda_module.c tests/mock/fakecuda_stream.c
tests_mock_fakecuda_la_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir)
tests_mock_fakecuda_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
tests_mock_fakecuda_la_LIBADD = -ldl -lm
check_LTLIBRARIES += tests/mock/fakenvrtc.la
tests_mock_fakenvrtc_la_SOURCES = tests/mock/fakenvrtc.c
tests_mock_fakenvrtc_la_CPPFLAGS = -D_GNU_SOURCE -I$(srcdir) \
	-DFAKE_KERNEL_HEADER='"$(abs_top_srcdir)/tests/mock/fakecuda_kernel.hpp"'
tests_mock_fakenvrtc_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
EXTRA_DIST += tests/mock/fakecuda_kernel.hpp

# A graph compiler.
check_LTLIBRARIES += tests/mock/tiny.la
tests_mock_tiny_la_SOURCES = tests/mock/tiny.c
tests_mock_tiny_la_CPPFLAGS = $(CPPFLAGS_PLUGIN)
tests_mock_tiny_la_LDFLAGS = $(LDFLAGS_TEST_PLUGIN)
