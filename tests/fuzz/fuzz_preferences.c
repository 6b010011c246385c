/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: lists of preferred devices, and the configuration file that may contain one. An
 * input that starts with '[' is the file. Selection ends in a device or in an error. */

#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/device.h>
#include <backplane/error.h>

#include "tests/fuzz/fuzz.h"

static const FuzzSeed seeds[] = {
    FUZZ_TEXT("cpu:0"),
    FUZZ_TEXT("!opencl:*,cuda:1=20,name:*Radeon*,plugin:cpu,auto"),
    FUZZ_TEXT("+pci:0000:01:00.0,uuid:00112233445566778899aabbccddeeff"),
    FUZZ_TEXT("[device]\nselect=cpu,auto\n[other]\n# x\nkey=1\n"),
};

static const FuzzSeed pieces[] = {
    FUZZ_TEXT(","),
    FUZZ_TEXT("!"),
    FUZZ_TEXT("+"),
    FUZZ_TEXT("=-1"),
    FUZZ_TEXT(":"),
    FUZZ_TEXT("*"),
    FUZZ_TEXT("?"),
    FUZZ_TEXT("[a-"),
    FUZZ_TEXT("name:"),
    FUZZ_TEXT("plugin:"),
    FUZZ_TEXT("uuid:"),
    FUZZ_TEXT("99999999999"),
    FUZZ_TEXT("help"),
    FUZZ_TEXT("\xff"),
    FUZZ_TEXT("\\\n"),
    FUZZ_TEXT("[device]\nselect="),
    FUZZ_TEXT("\r\n"),
    FUZZ_TEXT(" "),
    FUZZ_TEXT("********************"),
};

const FuzzSeed *fuzz_seeds(size_t *count) {
  *count = sizeof seeds / sizeof *seeds;
  return seeds;
}

const FuzzSeed *fuzz_pieces(size_t *count) {
  *count = sizeof pieces / sizeof *pieces;
  return pieces;
}

static char *folder, *inner, *path;

static void remove_folder(void) {
  g_unlink(path);
  g_rmdir(inner);
  g_rmdir(folder);
}

static void make_folder(void) {
  folder = g_dir_make_tmp("backplane-fuzz-XXXXXX", NULL);
  if (!folder)
    g_error("no folder for the configuration: %s", g_strerror(errno));
  inner = g_build_filename(folder, "backplane", NULL);
  path = g_build_filename(inner, "backplane.conf", NULL);
  g_mkdir(inner, 0700);
  atexit(remove_folder);
  g_setenv("XDG_CONFIG_HOME", folder, TRUE);
  g_setenv("BACKPLANE_PLUGIN_PATH", inner, TRUE);
  g_setenv("BACKPLANE_REMOTE_SHELL", "/nowhere/ssh", TRUE);
  g_unsetenv("BACKPLANE_DEVICE");
}

static void read_configuration(const uint8_t *data, size_t size) {
  if (!g_file_set_contents_full(path, (const char *)data, (gssize)size, G_FILE_SET_CONTENTS_NONE,
                                0600, NULL))
    abort();
  char *text = bp_device_preferences();
  if (!text && !*bp_error_message())
    abort();
  bp_str_free(text);
}

static void choose(const uint8_t *data, size_t size) {
  char *text = g_strndup((const char *)data, size), *report = NULL;
  BpDevice device;
  int rc = bp_device_select(text, &device, &report);
  if (rc ? !*bp_error_message() : !report)
    abort();
  bp_str_free(report);
  g_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!folder)
    make_folder();
  if (size && data[0] == '[')
    read_configuration(data, size);
  else
    choose(data, size);
  bp_error_clear();
  return 0;
}
