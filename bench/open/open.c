/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a model compiled with open extents with the same model compiled for one shape, in one
 * process, in turns. Prints the shortest run of each in microseconds and their ratio.
 *
 *   bench-open [-t TARGET] MODEL.onnx INPUT=1x128x384... [-- INPUT=...]...
 *
 * The shapes after a "--" are measured next, with the same open model, and it is printed how much
 * longer the open model's shortest run is directly after a run with the shapes before.
 * Integer inputs are zeros, other inputs are from 0 to 1. */
#include "bench/bench.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <backplane/error.h>
#include <backplane/graph/model.h>
#include <backplane/object.h>
#include <backplane/target.h>
#include <backplane/tensor.h>

#define MAX_INPUTS 16
#define MAX_NDIM   8
#define SECONDS    3.0
#define LEAST_RUNS 20

static const BpDevice cpu = {BP_DEVICE_CPU, 0};

typedef struct Shapes {
  char text[512]; /* the shapes as text */
  BpInputShape shapes[MAX_INPUTS];
  int64_t extents[MAX_INPUTS][MAX_NDIM];
  char names[MAX_INPUTS][128];
  int32_t count;
} Shapes;

typedef struct Program {
  BpModule *module;
  BpModel *model;
  BpModelContext *context;
} Program;

static void read_shape(Shapes *shapes, const char *text) {
  const char *equals = strchr(text, '=');
  int32_t i = shapes->count++;
  if (!equals || i == MAX_INPUTS || equals - text >= (int)sizeof(shapes->names[i])) {
    fprintf(stderr, "bench-open: '%s' does not have the form INPUT=1x3x224x224\n", text);
    exit(2);
  }
  memcpy(shapes->names[i], text, (size_t)(equals - text));
  shapes->shapes[i].name = shapes->names[i];
  shapes->shapes[i].shape = shapes->extents[i];
  char *rest = (char *)(uintptr_t)equals;
  while (*rest && shapes->shapes[i].ndim < MAX_NDIM)
    shapes->extents[i][shapes->shapes[i].ndim++] = strtoll(rest + 1, &rest, 10);
  size_t used = strlen(shapes->text);
  snprintf(shapes->text + used, sizeof(shapes->text) - used, "%s%s", used ? " " : "", text);
}

static Program start(const char *path, const char *target_text, const Shapes *shapes) {
  const BpTarget *target = bp_target_parse(target_text);
  must(!target, target_text);
  BpCompileOptions options = {.struct_size = sizeof(options),
                              .targets = &target,
                              .num_targets = 1,
                              .shapes = shapes ? shapes->shapes : NULL,
                              .num_shapes = shapes ? shapes->count : 0,
                              .shape_size = sizeof(BpInputShape)};
  Program program = {bp_model_compile(path, &options), NULL, NULL};
  must(!program.module, path);
  program.model = bp_model_create(program.module, &cpu, 1);
  must(!program.model, "a model");
  program.context = bp_model_context_create(program.model);
  must(!program.context, "a context");
  bp_object_release((BpTarget *)(uintptr_t)target);
  return program;
}

static void end(Program *program) {
  bp_model_context_free(program->context);
  bp_model_release(program->model);
  bp_object_release(program->module);
}

static void set_inputs(const Program *program, const Shapes *shapes) {
  for (int32_t i = 0; i < bp_model_num_inputs(program->model); i++) {
    const BpModelTensorInfo *info = bp_model_input_info(program->model, i);
    must(!info, "an input");
    const BpInputShape *shape = NULL;
    for (int32_t k = 0; k < shapes->count; k++)
      if (!strcmp(shapes->names[k], info->name))
        shape = &shapes->shapes[k];
    must(!shape, info->name);
    BpTensor *value = bp_tensor_create(shape->shape, shape->ndim, info->dtype, cpu, NULL);
    must(!value, info->name);
    memset(value->view.data, 0, (size_t)bp_view_num_bytes(&value->view));
    float *numbers = value->view.data;
    for (int64_t k = 0; info->dtype.code == BP_DTYPE_FLOAT && info->dtype.bits == 32 &&
                        k < bp_view_num_elements(&value->view);
         k++)
      numbers[k] = (float)(k % 97) / 97.0F;
    must(bp_model_set_input(program->context, info->name, &value->view), info->name);
    bp_object_release(value);
  }
}

static double run(const Program *program) {
  double began = now();
  must(bp_model_run(program->context), "a run");
  return (now() - began) * 1e6;
}

/* How much longer the shortest run directly after a run with other shapes is than the shortest one
 * after a run with the same shapes. */
static double cost_of_change(const Program *open, const Shapes *others, const Shapes *shapes) {
  double least[2] = {HUGE_VAL, HUGE_VAL};
  for (int i = 0; i < LEAST_RUNS; i++) {
    set_inputs(open, others);
    run(open);
    set_inputs(open, shapes);
    for (int k = 0; k < 2; k++) {
      double took = run(open);
      least[k] = took < least[k] ? took : least[k];
    }
  }
  return least[0] - least[1];
}

/* `others`, if it is not NULL, has the shapes of the last measurement. */
static void measure(const char *path, const char *target, const Program *open, const Shapes *shapes,
                    const Shapes *others) {
  Program closed = start(path, target, shapes);
  set_inputs(&closed, shapes);
  set_inputs(open, shapes);
  double began = now(), least[2] = {run(open), run(&closed)};
  for (int i = 0; i < LEAST_RUNS || now() - began < SECONDS; i++) {
    double took[2] = {run(open), run(&closed)};
    for (int k = 0; k < 2; k++)
      least[k] = took[k] < least[k] ? took[k] : least[k];
  }
  printf("%s: open %.1f us, closed %.1f us, ratio %.2f", shapes->text, least[0], least[1],
         least[0] / least[1]);
  if (others)
    printf("; after %s %.1f us more", others->text, cost_of_change(open, others, shapes));
  printf("\n");
  fflush(stdout);
  end(&closed);
}

int main(int argc, char **argv) {
  const char *target = "llvm";
  int at = 1;
  if (argc > 2 && !strcmp(argv[1], "-t")) {
    target = argv[2];
    at = 3;
  }
  if (argc < at + 2) {
    fprintf(stderr, "usage: bench-open [-t TARGET] MODEL.onnx INPUT=1x128... [-- INPUT=...]...\n");
    return 2;
  }
  const char *path = argv[at++];
  Program open = start(path, target, NULL);
  Shapes shapes[2] = {{.count = 0}, {.count = 0}};
  for (int i = 0; at < argc; i++, at++) {
    Shapes *these = &shapes[i % 2];
    *these = (Shapes){.count = 0};
    for (; at < argc && strcmp(argv[at], "--"); at++)
      read_shape(these, argv[at]);
    measure(path, target, &open, these, i ? &shapes[(i + 1) % 2] : NULL);
  }
  end(&open);
  return 0;
}
