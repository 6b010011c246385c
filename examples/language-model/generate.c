/* SPDX-License-Identifier: Apache-2.0 */
/* Continues a text with the likeliest tokens:
 *
 *   generate MODEL COUNT TOKEN...
 *
 * MODEL is what write_onnx.py wrote, or what `backplane compile` made of it. BACKPLANE_DEVICE names
 * the devices to choose from. Prints COUNT tokens. Keys and values of earlier tokens stay where
 * they are on the device: a step writes those of its own tokens behind them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <backplane/backplane.h>

/* The place of the highest logit; -1 with an error. */
static int64_t likeliest(const BpTensor *logits) {
  int64_t best = 0, count = bp_view_num_elements(&logits->view);
  uint64_t size = (uint64_t)count * sizeof(float);
  float *values = malloc(size);
  if (!values)
    best = bp_error_raise(BP_ERROR_MEMORY, "no memory for the logits");
  else if (bp_tensor_copy_to_host(&logits->view, values, size) < 0)
    best = -1;
  for (int64_t i = 1; i < count && best >= 0; i++)
    if (values[i] > values[best])
      best = i;
  free(values);
  return best;
}

/* Keeps an input, keys or values, in memory for `room` tokens: each step of the model appends to
 * the memory. */
static int bind_cache(const BpModel *model, BpModelContext *context, int32_t input, int64_t room) {
  const BpModelTensorInfo *from = bp_model_input_info(model, input);
  const BpModelTensorInfo *to = bp_model_output_info(model, input);
  int64_t shape[8];
  size_t num_devices;
  BpDevice device = bp_model_devices(model, &num_devices)[0];
  if (!from || !to)
    return -1;
  for (int32_t i = 0; i < from->ndim && i < 8; i++)
    shape[i] = from->shape[i] < 0 ? room : from->shape[i];
  BpTensor *memory = bp_tensor_create(shape, from->ndim, from->dtype, device, NULL);
  int status = memory ? bp_model_bind_cache(context, from->name, to->name, memory, 0) : -1;
  bp_tensor_release(memory);
  return status;
}

/* Runs the model with `count` tokens more. Returns the next token, or -1 with an error. */
static int64_t step(BpModelContext *context, const int64_t *tokens, int64_t count) {
  const int64_t shape[] = {1, count};
  const BpTensorView view = {.data = (void *)(uintptr_t)tokens,
                             .device = {BP_DEVICE_CPU, 0},
                             .ndim = 2,
                             .dtype = {BP_DTYPE_INT, 64, 1},
                             .shape = (int64_t *)(uintptr_t)shape};
  if (bp_model_set_input(context, "input_ids", &view) < 0 || bp_model_run(context) < 0)
    return -1;
  const BpTensor *logits = bp_model_get_output(context, 0);
  return logits ? likeliest(logits) : -1;
}

static int generate(const BpModel *model, BpModelContext *context, const int64_t *tokens,
                    int64_t num_tokens, long count) {
  for (int32_t i = 1; i < bp_model_num_inputs(model); i++)
    if (bind_cache(model, context, i, num_tokens + count) < 0)
      return -1;
  int64_t next = step(context, tokens, num_tokens);
  for (long i = 0; i < count && next >= 0; i++) {
    printf("%" PRId64 "%s", next, i == count - 1 ? "\n" : " ");
    fflush(stdout);
    if (i < count - 1)
      next = step(context, &next, 1);
  }
  return next < 0 ? -1 : 0;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: generate MODEL COUNT TOKEN...\n");
    return 2;
  }
  int64_t num_tokens = argc - 3, *tokens = calloc((size_t)num_tokens, sizeof *tokens);
  for (int64_t i = 0; tokens && i < num_tokens; i++)
    tokens[i] = strtoll(argv[i + 3], NULL, 10);
  BpModel *model = tokens ? bp_model_load_for(argv[1], NULL, NULL, NULL) : NULL;
  BpModelContext *context = model ? bp_model_context_create(model) : NULL;
  int status =
      context ? generate(model, context, tokens, num_tokens, strtol(argv[2], NULL, 10)) : -1;
  if (status < 0)
    fprintf(stderr, "generate: %s\n", bp_error_message());
  bp_model_context_free(context);
  bp_model_release(model);
  free(tokens);
  return status < 0 ? 1 : 0;
}
