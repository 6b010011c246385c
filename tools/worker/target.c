/* SPDX-License-Identifier: Apache-2.0 */
/* Target kinds and code generation. */

#include "worker.h"

#include <backplane/compiler/ir.h>
#include <backplane/target.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Kinds ------------------------------------------------------------------------------- */

static void describe_attr(Job *job, const BpTargetAttr *attr) {
  bp_wire_put_str(&job->out, attr->name);
  bp_wire_put(&job->out, (uint32_t)attr->type);
  bp_wire_put(&job->out, attr->default_value != NULL);
  bp_wire_put_str(&job->out, attr->default_value ? attr->default_value : "");
  bp_wire_put_str(&job->out, attr->description ? attr->description : "");
}

static int describe_target(Job *job, const char *name) {
  const BpTargetKind *kind = bp_target_kind_info(name);
  if (!kind)
    return -1;
  bp_wire_put_str(&job->out, kind->name);
  bp_wire_put(&job->out, (uint32_t)kind->device_type);
  bp_wire_put(&job->out, (uint32_t)kind->ir_level);
  bp_wire_put_str(&job->out, kind->description ? kind->description : "");
  bp_wire_put(&job->out, kind->complete != NULL);
  bp_wire_put(&job->out, (uint32_t)kind->num_attrs);
  for (int32_t i = 0; i < kind->num_attrs; i++)
    describe_attr(job, bp_target_kind_attr(kind, i));
  return 0;
}

/* The number of kinds is written before the kinds, once it is known. */
int worker_describe_targets(Job *job, BpByteArray names) {
  char *copy = strndup(names.data, names.size), *rest = NULL;
  BpWire count = job->out;
  uint64_t found = 0;
  int rc = copy ? 0 : bp_error_raise(BP_ERROR_MEMORY, "no memory");
  bp_wire_put(&job->out, 0);
  for (char *name = copy ? strtok_r(copy, " ", &rest) : NULL; name && !rc;
       name = strtok_r(NULL, " ", &rest), found++)
    rc = describe_target(job, name);
  bp_wire_put(&count, found);
  free(copy);
  return rc;
}

int worker_complete(Job *job) {
  BpByteArray json = bp_wire_get_bytes(&job->in);
  char *text = strndup(json.data, json.size);
  BpTarget *target = text ? bp_target_parse(text) : NULL;
  free(text);
  const BpTargetKind *kind = target ? bp_target_kind_info(bp_target_kind(target)) : NULL;
  int rc = kind ? 0 : -1;
  for (int32_t i = 0; kind && i < kind->num_attrs && !rc; i++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    rc = bp_target_get_attr(target, bp_target_kind_attr(kind, i)->name, &value);
    worker_put_value(job, &value);
  }
  bp_object_release(target);
  return rc;
}

/* ---- Code generation --------------------------------------------------------------------- */

typedef BpIrModule *(*Parse)(const char *text, size_t size);

/* The compiler is a library of its own, which a host without compilation does not have. */
static Parse find_parser(void) {
  void *library = dlopen(BP_COMPILER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, "bp_ir_parse") : NULL;
  Parse parse = NULL;
  if (symbol)
    memcpy(&parse, &symbol, sizeof parse);
  else
    bp_error_raise(BP_ERROR_NOT_FOUND, "the worker cannot load the compiler: %s", dlerror());
  return parse;
}

static BpModule *generate(const char *kind, BpIrModule *ir, BpTarget *target) {
  char name[160];
  BpFunction *function = NULL;
  snprintf(name, sizeof name, "target.build.%.100s", kind);
  if (bp_registry_get(name, &function))
    return NULL;
  if (!function) {
    bp_error_raise(BP_ERROR_NOT_FOUND, "there is no %s in the worker", name);
    return NULL;
  }
  const BpValue args[] = {{.type_index = BP_TYPE_IR_MODULE, .v_obj = (BpObject *)(void *)ir},
                          {.type_index = BP_TYPE_TARGET, .v_obj = (BpObject *)(void *)target}};
  BpValue result = {.type_index = BP_TYPE_NONE};
  int rc = bp_function_call(function, args, 2, &result);
  bp_object_release(function);
  if (!rc && result.type_index == BP_TYPE_MODULE)
    return (BpModule *)(void *)result.v_obj;
  if (!rc)
    bp_error_raise(BP_ERROR_TYPE, "%s returned no module", name);
  bp_value_clear(&result);
  return NULL;
}

int worker_answer_build(Job *job, BpModule *module) {
  BpOwnedBytes bytes = {NULL, 0, NULL};
  if (bp_module_save_to_bytes(module, &bytes))
    return -1;
  Blob *blob = worker_blob_create(bytes.data, bytes.size);
  int rc = -1;
  if (blob) {
    bp_wire_put_str(&job->out, bp_module_kind(module));
    worker_put_pointer(job, blob);
    bp_wire_put(&job->out, bytes.size);
    rc = worker_describe_module(job, module);
  }
  bp_owned_bytes_clear(&bytes);
  if (rc)
    free(blob);
  return rc;
}

int worker_build(Job *job) {
  char *kind = bp_wire_get_str(&job->in);
  BpByteArray json = bp_wire_get_bytes(&job->in);
  Blob *blob = worker_get_pointer(job);
  char *text = strndup(json.data, json.size);
  Parse parse = find_parser();
  BpTarget *target = kind && text && parse ? bp_target_parse(text) : NULL;
  BpIrModule *ir = target ? parse(blob->data, blob->size) : NULL;
  BpModule *module = ir ? generate(kind, ir, target) : NULL;
  int rc = module ? worker_answer_build(job, module) : -1;
  if (rc)
    bp_object_release(module);
  bp_object_release(ir);
  bp_object_release(target);
  free(text);
  free(kind);
  free(blob);
  return rc;
}
