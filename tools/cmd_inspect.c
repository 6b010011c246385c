/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane inspect`: all that is known of one thing, as names and values. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/graph/executor.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

/* Facts in order, each a name and a text or a list of texts. */
typedef struct Facts {
  GPtrArray *names;
  GPtrArray *values; /* char ** lists */
} Facts;

static void add_list(Facts *facts, const char *name, char **values) {
  g_ptr_array_add(facts->names, g_strdup(name));
  g_ptr_array_add(facts->values, values);
}

static void add_text(Facts *facts, const char *name, const char *text) {
  char **list = g_new0(char *, 2);
  list[0] = g_strdup(text);
  add_list(facts, name, list);
}

static void add_value(Facts *facts, const char *name, const BpValue *value) {
  char *text = value_to_text(value);
  add_text(facts, name, text);
  g_free(text);
}

static void add_words(Facts *facts, const char *name, const char *words) {
  add_list(facts, name, g_strsplit(words, " ", -1));
}

/* ---- What can be inspected --------------------------------------------------------------- */

static int inspect_plugin(const char *name, const ModelOptions *options, Facts *facts) {
  (void)options;
  BpPluginList *list = bp_plugin_list();
  if (!list)
    return -1;
  const BpPluginInfo *found = NULL;
  for (size_t i = 0; !found && i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (strcmp(info->name, name) == 0 || strcmp(info->path, name) == 0)
      found = info;
  }
  if (found) {
    add_text(facts, "name", found->name);
    add_text(facts, "version", found->version);
    add_text(facts, "description", found->description);
    add_text(facts, "license", found->license);
    add_text(facts, "path", found->path);
    add_text(facts, "abi", found->abi);
    add_text(facts, "state", bp_plugin_state_name(found->state));
    add_text(facts, "reason", found->reason);
    add_text(facts, "code", found->code);
    add_text(facts, "warning", found->warning);
    add_words(facts, "devices", found->devices);
    add_words(facts, "targets", found->targets);
    add_words(facts, "provides", found->provides);
    add_words(facts, "libraries", found->libraries);
    add_text(facts, "package", found->package);
    add_words(facts, "nodes", found->nodes);
    add_words(facts, "files", found->files);
    add_words(facts, "variables", found->variables);
    add_words(facts, "isa", found->isa);
  }
  bp_plugin_list_free(list);
  return found ? 0
               : bp_error_raise(BP_ERROR_NOT_FOUND,
                                "no plugin '%s' on the search path; `backplane list` shows what is",
                                name);
}

static int add_fact(void *context, const char *name, const BpValue *value) {
  add_value(context, name, value);
  return 0;
}

static int inspect_device(const char *name, const ModelOptions *options, Facts *facts) {
  (void)options;
  BpDevice device;
  char text[64];
  if (bp_device_select(name, &device, NULL) < 0)
    return -1;
  const BpDeviceApi *api = bp_device_api(device.device_type);
  if (!api)
    return -1;
  bp_device_format(device, text);
  add_text(facts, "device", text);
  for (int32_t attr = 0; attr < BP_ATTR_COUNT; attr++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    if (bp_device_get_attr(device, attr, &value) < 0)
      return bp_error_add_context("attribute %s", bp_device_attr_name(attr));
    add_value(facts, bp_device_attr_name(attr), &value);
    bp_value_clear(&value);
  }
  if (api->struct_size > G_STRUCT_OFFSET(BpDeviceApi, visit_facts) && api->visit_facts)
    return api->visit_facts(device.device_id, add_fact, facts);
  return 0;
}

static int add_module(BpModule *module, const char *prefix, Facts *facts) {
  char *name = g_strdup_printf("%skind", prefix);
  add_text(facts, name, bp_module_kind(module));
  g_free(name);
  char **functions = bp_module_list_functions(module, NULL);
  if (!functions)
    return -1;
  name = g_strdup_printf("%sfunctions", prefix);
  add_list(facts, name, g_strdupv(functions));
  g_free(name);
  bp_names_free(functions);
  for (size_t i = 0; i < bp_module_num_imports(module); i++) {
    char *nested = g_strdup_printf("%simports[%zu].", prefix, i);
    int status = add_module(bp_module_get_import(module, i), nested, facts);
    g_free(nested);
    if (status < 0)
      return -1;
  }
  return 0;
}

static int inspect_module(const char *path, const ModelOptions *options, Facts *facts) {
  (void)options;
  /* A compiled model holds a module of the graph library's kind. */
  BpModule *module = bp_graph_initialize() < 0 ? NULL : bp_module_load(path);
  if (!module)
    return -1;
  int status = add_module(module, "", facts);
  bp_object_release(module);
  return status;
}

static int inspect_function(const char *name, const ModelOptions *options, Facts *facts) {
  (void)options;
  BpFunction *function = NULL;
  if (bp_registry_get(name, &function) < 0)
    return -1;
  if (!function)
    return bp_error_raise(BP_ERROR_NOT_FOUND,
                          "no global function '%s', and no installed plugin provides it", name);
  add_text(facts, "name", name);
  add_text(facts, "type", bp_type_name(function->header.type_index));
  bp_object_release(function);
  return 0;
}

static void add_tensor(Facts *facts, const char *role, const BpModelTensorInfo *info) {
  char dtype[32];
  bp_dtype_format(info->dtype, dtype);
  char *shape = shape_to_text(info->shape, info->ndim);
  char *text = info->ndim < 0 ? g_strdup_printf("%s: known in a run", info->name)
                              : g_strdup_printf("%s: %s %s", info->name, dtype, shape);
  add_text(facts, role, text);
  g_free(shape);
  g_free(text);
}

static int add_model(const LoadedModel *loaded, Facts *facts) {
  BpModelTensorInfo info;
  uint64_t parameters, planned;
  add_text(facts, "device", loaded->device_text);
  for (int32_t i = 0; i < bp_model_num_inputs(loaded->model); i++) {
    if (bp_model_input_info(loaded->model, i, &info) < 0)
      return -1;
    add_tensor(facts, "input", &info);
  }
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++) {
    if (bp_model_output_info(loaded->model, i, &info) < 0)
      return -1;
    add_tensor(facts, "output", &info);
  }
  bp_model_memory(loaded->model, &parameters, &planned);
  add_value(facts, "parameter_bytes",
            &(BpValue){.type_index = BP_TYPE_INT, .v_int64 = (int64_t)parameters});
  add_value(facts, "planned_bytes",
            &(BpValue){.type_index = BP_TYPE_INT, .v_int64 = (int64_t)planned});
  return 0;
}

static int inspect_model(const char *path, const ModelOptions *options, Facts *facts) {
  LoadedModel loaded;
  if (model_open(path, options, &loaded) < 0)
    return -1;
  int status = add_model(&loaded, facts);
  model_close(&loaded);
  return status;
}

static const struct {
  const char *what;
  int (*inspect)(const char *name, const ModelOptions *options, Facts *facts);
} subjects[] = {
    {"plugin", inspect_plugin},     {"device", inspect_device}, {"module", inspect_module},
    {"function", inspect_function}, {"model", inspect_model},
};

/* ---- Output ------------------------------------------------------------------------------ */

static void print_text(const Facts *facts) {
  static const char *const headers[] = {"FACT", "VALUE", NULL};
  Table *table = table_new(headers);
  for (guint i = 0; i < facts->names->len; i++) {
    char *text = g_strjoinv(" ", facts->values->pdata[i]);
    table_add(table, facts->names->pdata[i], *text ? text : "-");
    g_free(text);
  }
  table_print(table);
}

/* A JSON object may hold a name once: facts of one name become one array of texts. */
static void print_json(const Facts *facts) {
  JsonBuilder *builder = json_builder_new();
  GHashTable *done = g_hash_table_new(g_str_hash, g_str_equal);
  json_builder_begin_object(builder);
  for (guint i = 0; i < facts->names->len; i++) {
    const char *name = facts->names->pdata[i];
    if (!g_hash_table_add(done, (gpointer)name))
      continue;
    json_builder_set_member_name(builder, name);
    json_builder_begin_array(builder);
    for (guint j = i; j < facts->names->len; j++)
      if (strcmp(facts->names->pdata[j], name) == 0)
        for (char **value = facts->values->pdata[j]; *value; value++)
          json_builder_add_string_value(builder, *value);
    json_builder_end_array(builder);
  }
  json_builder_end_object(builder);
  g_hash_table_unref(done);
  command_print_json(builder);
}

static int inspect_subject(const char *what, const char *name, const ModelOptions *options) {
  for (size_t i = 0; i < G_N_ELEMENTS(subjects); i++) {
    if (strcmp(subjects[i].what, what) != 0)
      continue;
    Facts facts = {g_ptr_array_new_with_free_func(g_free),
                   g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev)};
    int status = EXIT_OK;
    if (subjects[i].inspect(name, options, &facts) < 0)
      status = command_fail(options->json);
    else if (options->json)
      print_json(&facts);
    else
      print_text(&facts);
    g_ptr_array_free(facts.names, TRUE);
    g_ptr_array_free(facts.values, TRUE);
    return status;
  }
  return command_usage_error("cannot inspect a '%s'; it is plugin, device, module, function or "
                             "model",
                             what);
}

int cmd_inspect(int argc, char **argv) {
  ModelOptions options = {.device = NULL};
  GOptionEntry *entries = model_option_entries(&options, NULL);
  int status = EXIT_USAGE;
  if (command_parse(&argc, &argv, entries, "plugin|device|module|function|model NAME",
                    "Shows all that is known of one thing: a plugin (name or path), a device "
                    "(opencl:1),\na module (path of a library), a global function (name) or a "
                    "model (MODEL.onnx|FILE.so).",
                    "Loading a module or a model runs its code's initialisers: only open what you "
                    "trust."))
    status = argc == 3 ? inspect_subject(argv[1], argv[2], &options)
                       : command_usage_error("inspect takes what it is and its name, as "
                                             "`backplane inspect device cpu`");
  g_free(entries);
  model_options_clear(&options);
  return status;
}
