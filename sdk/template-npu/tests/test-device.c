/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of this device beyond the ABI (the conformance kit checks the ABI): handles are not
 * addresses; copies keep the other bytes of a line; a program that does not fit the chip is refused
 * before the chip gets it; and the end of the chip's process is an error, not a hang. */
#include "testing.h"

/* Host memory and a freed buffer are refused by name. */
static void test_only_its_handles_are_taken(BpDevice device) {
  char here[16] = "";
  void *mine = alloc(device, 16);
  CHECK(upload(device, here, here, 0, 16) == -1);
  CHECK(!strcmp(bp_error_kind(), BP_ERROR_VALUE));
  CHECK(bp_device_free(device, mine) == 0);
  CHECK(upload(device, here, mine, 0, 16) == -1);
  CHECK(upload(device, here, alloc(device, 16), 0, 17) == -1);
  CHECK(!strcmp(bp_error_kind(), BP_ERROR_INDEX));
  bp_error_clear();
}

/* Copies have any offset and size, although the chip's DMA moves whole lines. */
static void test_copies_keep_the_rest_of_their_lines(BpDevice device) {
  unsigned char all[320], some[320], got[320], expected[320];
  void *handle = alloc(device, sizeof all);
  for (size_t i = 0; i < sizeof all; i++)
    all[i] = (unsigned char)i, some[i] = 255;
  for (uint64_t begin = 0; begin < 130; begin += 13)
    for (uint64_t size = 1; size < 190; size += 21) {
      memcpy(expected, all, sizeof all);
      memset(expected + begin, 255, size);
      CHECK(upload(device, all, handle, 0, sizeof all) == 0);
      CHECK(upload(device, some, handle, begin, size) == 0);
      CHECK(download(device, handle, got, sizeof got) == 0);
      CHECK(memcmp(got, expected, sizeof got) == 0);
    }
  CHECK(bp_device_free(device, handle) == 0);
}

static void test_memory_is_of_8_mib(BpDevice device) {
  void *most = alloc(device, CHIP_MEMORY / 2), *more = NULL;
  const BpAllocation half = {sizeof(BpAllocation), CHIP_MEMORY / 2 + 1, 64, bytes, 0, NULL};
  CHECK(bp_device_alloc(device, &half, &more) == -1);
  CHECK(!strcmp(bp_error_kind(), BP_ERROR_MEMORY));
  bp_error_clear();
  CHECK(bp_device_free(device, most) == 0);
}

/* Makes a program of one instruction, for a version of the chip. */
static BpModule *make_module(int32_t version, ChipInstruction instruction) {
  struct {
    SimdevHeader header;
    SimdevArgument argument;
    ChipInstruction instruction;
  } all = {{SIMDEV_MAGIC, version, 0, 1, 1, 0, 128}, {1, 2, {1, 64}}, instruction};
  char *copy = malloc(sizeof all);
  CHECK(copy != NULL);
  memcpy(copy, &all, sizeof all);
  return simdev_module_create("part", copy, sizeof all);
}

static void test_programs_that_do_not_fit_are_refused(void) {
  const ChipInstruction fitting = {.kind = CHIP_LOAD, .memory = {1, 0}, .rows = 1, .row_bytes = 64};
  ChipInstruction beyond = fitting, unaligned = fitting, large = fitting, reserved = fitting;
  BpModule *module = make_module(CHIP_VERSION, fitting);
  CHECK(module != NULL);
  simdev_host.object->release(module);
  CHECK(!make_module(CHIP_VERSION + 1, fitting));
  CHECK(strstr(bp_error_message(), "version 2 of the chip"));
  beyond.memory.offset = 128;
  unaligned.memory.offset = 1;
  large.row_bytes = CHIP_SCRATCHPAD + 64;
  reserved.reserved[0] = 1;
  const ChipInstruction wrong[] = {beyond, unaligned, large, reserved};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CHECK(!make_module(CHIP_VERSION, wrong[i]));
  bp_error_clear();
}

/* The last test: the chip ends for good. A program with too many regions ends its process. */
static void test_a_lost_chip_is_an_error(BpDevice device) {
  char here[16] = "";
  const ChipRegion too_many[CHIP_MAX_REGIONS + 1] = {{0, 0}};
  void *handle = alloc(device, 16);
  pthread_mutex_lock(&simdev_lock);
  CHECK(simdev_link_run(0, 1, too_many, CHIP_MAX_REGIONS + 1) == -1);
  pthread_mutex_unlock(&simdev_lock);
  CHECK(!strcmp(bp_error_kind(), BP_ERROR_DEVICE_LOST));
  CHECK(upload(device, here, handle, 0, 16) == -1);
  CHECK(!strcmp(bp_error_kind(), BP_ERROR_DEVICE_LOST));
  CHECK(bp_device_free(device, handle) == 0);
  bp_error_clear();
}

int main(void) {
  BpDevice device = open_device();
  test_only_its_handles_are_taken(device);
  test_copies_keep_the_rest_of_their_lines(device);
  test_memory_is_of_8_mib(device);
  test_programs_that_do_not_fit_are_refused();
  test_a_lost_chip_is_an_error(device);
  return 0;
}
