/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model:
 *
 *   run-model MODEL NAME=FILE.npy...
 *
 * MODEL is an ONNX file, or what `backplane compile` made of one. BACKPLANE_DEVICE names the
 * devices to choose from. Output N is written to output-N.npy. */
#include <stdio.h>
#include <string.h>

#include <backplane/backplane.h>

#define MOST_INPUTS 16

static BpTensor *inputs[MOST_INPUTS];
static BpInputShape shapes[MOST_INPUTS]; /* shapes and names of the inputs */
static int32_t num_inputs;

/* Cuts NAME=FILE.npy at the sign and reads the file. */
static int read_input(char *argument) {
  char *sign = strchr(argument, '=');
  if (!sign || num_inputs == MOST_INPUTS)
    return bp_error_raise(BP_ERROR_VALUE, "%s: expected NAME=FILE.npy, at most %d times", argument,
                          MOST_INPUTS);
  *sign = '\0';
  BpTensor *value = bp_npy_read(sign + 1);
  if (!value)
    return -1;
  shapes[num_inputs] = (BpInputShape){argument, value->view.shape, value->view.ndim};
  inputs[num_inputs++] = value;
  return 0;
}

static int write_output(const BpModel *model, BpModelContext *context, int32_t index) {
  char path[32];
  const BpModelTensorInfo *info = bp_model_output_info(model, index);
  BpTensor *value = info ? bp_model_get_output(context, index) : NULL; /* waits for the run */
  if (!value)
    return -1;
  snprintf(path, sizeof path, "output-%d.npy", (int)index);
  printf("%s: %s\n", path, info->name);
  return bp_npy_write(path, &value->view);
}

static int run(const BpModel *model, BpModelContext *context) {
  int status = 0;
  for (int32_t i = 0; i < num_inputs && status == 0; i++)
    status = bp_model_set_input(context, shapes[i].name, &inputs[i]->view);
  if (status == 0)
    status = bp_model_run(context);
  for (int32_t i = 0; i < bp_model_num_outputs(model) && status == 0; i++)
    status = write_output(model, context, i);
  return status;
}

int main(int argc, char **argv) {
  int status = argc < 2 ? bp_error_raise(BP_ERROR_VALUE, "expected MODEL NAME=FILE.npy...") : 0;
  for (int i = 2; i < argc && status == 0; i++)
    status = read_input(argv[i]);
  const BpCompileOptions options = {.struct_size = sizeof options,
                                    .num_shapes = num_inputs,
                                    .shape_size = sizeof(BpInputShape),
                                    .shapes = shapes};
  BpModel *model = status == 0 ? bp_model_load_for(argv[1], NULL, &options, NULL) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  status = context ? run(model, context) : -1;
  if (status < 0)
    fprintf(stderr, "run-model: %s\n", bp_error_message());
  bp_model_context_free(context);
  bp_model_release(model);
  while (num_inputs > 0)
    bp_tensor_release(inputs[--num_inputs]);
  return status < 0 ? 1 : 0;
}
