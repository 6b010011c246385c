/* SPDX-License-Identifier: Apache-2.0 */
/* `backplane inspect`: shows all facts about one subject, as names and values. */
#include "tools/command.h"

#include <stdio.h>
#include <string.h>

#include <backplane/graph/executor.h>
#include <backplane/object.h>
#include <backplane/plugins.h>

/* A fact: its text for people and its value for programs; either may be NULL. An item is an element
 * of a list: in JSON the items of one name are an array. */
typedef struct Fact {
  char *name;
  char *text;
  json_t *value;
  gboolean is_item;
} Fact;

typedef GArray Facts; /* of Fact */

static void fact_clear(void *data) {
  Fact *fact = data;
  g_free(fact->name);
  g_free(fact->text);
  json_decref(fact->value);
}

/* Adds a fact; takes over `text` and `value`. */
static void add_fact(Facts *facts, const char *name, char *text, json_t *value) {
  Fact fact = {g_strdup(name), text, value, FALSE};
  g_array_append_val(facts, fact);
}

static void add_item(Facts *facts, const char *name, char *text, json_t *value) {
  add_fact(facts, name, text, value);
  g_array_index(facts, Fact, facts->len - 1).is_item = TRUE;
}

static json_t *value_json(const BpValue *value, const char *text) {
  switch (value->type_index) {
  case BP_TYPE_NONE:
    return json_null();
  case BP_TYPE_INT:
    return json_integer(value->v_int64);
  case BP_TYPE_BOOL:
    return json_boolean(value->v_int64);
  case BP_TYPE_FLOAT:
    return number_json(value->v_float64);
  case BP_TYPE_SHAPE: {
    const BpShape *shape = (const BpShape *)value->v_obj;
    return shape_json(shape->data, (int32_t)shape->size);
  }
  default:
    return text_json(text);
  }
}

static void add_text(Facts *facts, const char *name, const char *text) {
  add_fact(facts, name, g_strdup(text), text_json(text));
}

static void add_value(Facts *facts, const char *name, const BpValue *value) {
  char *text = value_to_text(value);
  add_fact(facts, name, text, value_json(value, text));
}

/* Adds a numeric attribute of a device: people are shown the number with its unit, programs the
 * number. */
static void add_attr(Facts *facts, int32_t attr, const BpValue *value) {
  const char *name = bp_device_attr_name(attr);
  char *text = value_to_text(value);
  json_t *json = value_json(value, text);
  int is_size = attr == BP_ATTR_MAX_SHARED_MEMORY_PER_BLOCK || attr == BP_ATTR_L2_CACHE_SIZE ||
                attr == BP_ATTR_TOTAL_GLOBAL_MEMORY || attr == BP_ATTR_AVAILABLE_GLOBAL_MEMORY ||
                attr == BP_ATTR_MAX_ALLOCATION || attr == BP_ATTR_DATA_ALIGNMENT;
  char *size = is_size && value->type_index == BP_TYPE_INT && value->v_int64 >= 1024
                   ? size_to_text((uint64_t)value->v_int64)
                   : NULL;
  const char *unit = value->type_index != BP_TYPE_INT ? ""
                     : is_size                        ? " bytes"
                     : attr == BP_ATTR_MAX_CLOCK_RATE ? " kHz"
                                                      : "";
  add_fact(facts, name,
           g_strdup_printf("%s%s%s%s%s", text, unit, size ? " (" : "", size ? size : "",
                           size ? ")" : ""),
           json);
  g_free(size);
  g_free(text);
}

static void add_size(Facts *facts, const char *name, uint64_t size) {
  add_value(facts, name, &(BpValue){.type_index = BP_TYPE_INT, .v_int64 = (int64_t)size});
}

static void add_list(Facts *facts, const char *name, char *const *words) {
  json_t *array = json_array();
  GString *text = g_string_new(NULL);
  for (; *words; words++) {
    if (!**words)
      continue;
    g_string_append_printf(text, "%s%s", text->len ? " " : "", *words);
    json_append(array, text_json(*words));
  }
  add_fact(facts, name, g_string_free(text, FALSE), array);
}

static void add_words(Facts *facts, const char *name, const char *words) {
  char **list = g_strsplit(words, " ", -1);
  add_list(facts, name, list);
  g_strfreev(list);
}

/* ---- The kinds of subjects
 * --------------------------------------------------------------- */

/* Puts the folder of a plugin's file first on the search path; returns the path as it will be
 * listed (transfer full). */
static char *search_beside(const char *file) {
  char *path = g_canonicalize_filename(file, NULL), *folder = g_path_get_dirname(path);
  const char *before = g_getenv("BACKPLANE_PLUGIN_PATH");
  char *list = g_strjoin(":", folder, before, NULL);
  g_setenv("BACKPLANE_PLUGIN_PATH", list, TRUE);
  g_free(list);
  g_free(folder);
  return path;
}

static const BpPluginInfo *find_plugin(const BpPluginList *list, const char *name,
                                       const char *path) {
  for (size_t i = 0; i < bp_plugin_list_size(list); i++) {
    const BpPluginInfo *info = bp_plugin_list_get(list, i);
    if (path ? strcmp(info->path, path) == 0 : strcmp(info->name, name) == 0)
      return info;
  }
  return NULL;
}

static int raise_no_plugin(const char *name) {
  if (strchr(name, '/'))
    return bp_error_raise(BP_ERROR_NOT_FOUND, "there is no plugin '%s'; one is a file *.so", name);
  bp_plugin_activate(name); /* raises the error for an unknown plugin */
  return -1;
}

/* A name with a slash is the path of a file, or a plugin of another machine. */
static int inspect_plugin(const char *name, const ModelOptions *options, Facts *facts) {
  (void)options;
  char *path = g_str_has_prefix(name, "remote:") ? g_strdup(name)
               : strchr(name, '/')               ? search_beside(name)
                                                 : NULL;
  BpPluginList *list = bp_plugin_list();
  const BpPluginInfo *found = find_plugin(list, name, path);
  g_free(path);
  if (found) {
    add_text(facts, "name", found->name);
    add_text(facts, "version", found->version);
    add_text(facts, "description", found->description);
    add_text(facts, "license", found->license);
    add_text(facts, "path", found->path);
    add_text(facts, "abi", found->abi);
    add_text(facts, "state", bp_plugin_state_name(found->state));
    add_value(facts, "isolated",
              &(BpValue){.type_index = BP_TYPE_BOOL, .v_int64 = found->is_isolated});
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
    add_text(facts, "sanitizer", found->sanitizer);
    add_value(facts, "priority", &(BpValue){.type_index = BP_TYPE_INT, .v_int64 = found->priority});
  }
  bp_plugin_list_free(list);
  if (found)
    return 0;
  return raise_no_plugin(name);
}

static int add_device_fact(void *context, const char *name, const BpValue *value) {
  add_value(context, name, value);
  return 0;
}

static int inspect_device(const char *name, const ModelOptions *options, Facts *facts) {
  (void)options;
  BpDevice device;
  char text[DEVICE_TEXT_MAX];
  if (bp_device_select(name, &device, NULL) < 0)
    return -1;
  const BpDeviceApi *api = bp_device_api(device.device_type);
  if (!api)
    return -1;
  bp_device_format(device, text, sizeof text);
  add_text(facts, "device", text);
  for (int32_t attr = 0; bp_device_attr_name(attr); attr++) {
    BpValue value = {.type_index = BP_TYPE_NONE};
    if (bp_device_get_attr(device, attr, &value) < 0)
      return bp_error_add_context("attribute %s", bp_device_attr_name(attr));
    add_attr(facts, attr, &value);
    bp_value_clear(&value);
  }
  if (api->struct_size > G_STRUCT_OFFSET(BpDeviceApi, visit_properties) && api->visit_properties)
    return api->visit_properties(api->context, device.device_id, add_device_fact, facts);
  return 0;
}

/* Returns the functions of a module as one text; *json becomes an array of them. -1 with an
 * error. */
static char *describe_functions(BpModule *module, json_t **json) {
  char **functions = bp_module_list_functions(module, NULL);
  if (!functions)
    return NULL;
  *json = json_array();
  for (char **name = functions; *name; name++)
    json_append(*json, text_json(*name));
  char *text = g_strjoinv(" ", functions);
  bp_names_free(functions);
  return text;
}

/* Describes a module and its imports, as an object; for people, as a row for each of its members,
 * named by its path. NULL with an error. */
static json_t *add_module(BpModule *module, const char *prefix, Facts *facts) {
  json_t *functions, *imports = json_array(), *object = json_object();
  char *text = describe_functions(module, &functions), *name;
  int status = text ? 0 : -1;
  json_add_str(object, "kind", bp_module_kind(module));
  if (text) {
    json_add(object, "functions", functions);
    name = g_strdup_printf("%skind", prefix);
    add_fact(facts, name, g_strdup(bp_module_kind(module)), NULL);
    g_free(name);
    name = g_strdup_printf("%sfunctions", prefix);
    add_fact(facts, name, text, NULL);
    g_free(name);
  }
  for (size_t i = 0; i < bp_module_num_imports(module) && status == 0; i++) {
    name = g_strdup_printf("%simports[%zu].", prefix, i);
    json_t *import = add_module(bp_module_get_import(module, i), name, facts);
    status = import ? 0 : -1;
    if (import)
      json_append(imports, import);
    g_free(name);
  }
  json_add(object, "imports", imports);
  if (status == 0)
    return object;
  json_decref(object);
  return NULL;
}

static int is_library(const char *path) {
  return (g_str_has_suffix(path, ".so") || strstr(path, ".so.")) &&
         !g_file_test(path, G_FILE_TEST_IS_DIR);
}

static int inspect_module(const char *path, const ModelOptions *options, Facts *facts) {
  (void)options;
  /* A compiled model contains a module of the graph library's kind. */
  BpModule *module = bp_graph_initialize() ? NULL
                     : is_library(path)    ? bp_module_read(path)
                                           : bp_model_open(path);
  if (!module)
    return -1;
  json_t *object = add_module(module, "", facts);
  bp_object_release(module);
  if (!object)
    return -1;
  const char *name;
  json_t *member;
  json_object_foreach(object, name, member) add_fact(facts, name, NULL, json_incref(member));
  json_decref(object);
  return 0;
}

static int inspect_function(const char *name, const ModelOptions *options, Facts *facts) {
  (void)options;
  BpFunction *function = NULL;
  if (bp_graph_initialize() < 0 || bp_registry_get(name, &function) < 0)
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
  bp_dtype_format(info->dtype, dtype, sizeof dtype);
  char *shape = shape_to_text(info->shape, info->ndim);
  gboolean is_typed = info->dtype.bits > 0, is_shaped = is_typed && info->ndim >= 0;
  char *text = !info->kind && !is_shaped
                   ? g_strdup_printf("%s: known in a run", info->name)
                   : g_strdup_printf("%s: %s%s%s%s%s", info->name,
                                     info->kind ? kind_to_text(info->kind) : "",
                                     info->kind ? " of " : "", is_typed ? dtype : "no tensor",
                                     is_shaped ? " " : "", is_shaped ? shape : "");
  json_t *object = json_object();
  json_add_str(object, "name", info->name);
  if (is_shaped || (info->kind && is_typed))
    json_add_str(object, "dtype", dtype);
  if (is_shaped)
    json_add(object, "shape", shape_json(info->shape, info->ndim));
  json_add_str(object, "kind", kind_to_text(info->kind));
  add_item(facts, role, text, object);
  g_free(shape);
}

static void add_model(const LoadedModel *loaded, Facts *facts) {
  uint64_t parameters, planned;
  add_text(facts, "device", loaded->device_text);
  for (int32_t i = 0; i < bp_model_num_targets(loaded->model); i++) {
    const char *target = bp_model_target(loaded->model, i);
    add_item(facts, "target", g_strdup(target), text_json(target));
  }
  for (int32_t i = 0; i < bp_model_num_inputs(loaded->model); i++)
    add_tensor(facts, "input", bp_model_input_info(loaded->model, i));
  for (int32_t i = 0; i < bp_model_num_outputs(loaded->model); i++)
    add_tensor(facts, "output", bp_model_output_info(loaded->model, i));
  bp_model_memory(loaded->model, &parameters, &planned);
  add_size(facts, "parameter_bytes", parameters);
  add_size(facts, "planned_bytes", planned);
  const char *likely, *expression = bp_model_planned_expression(loaded->model, &likely);
  if (expression) {
    add_text(facts, "planned_for", likely);
    add_text(facts, "planned", expression);
  }
}

/* Default values are constants unless an input is set. */
static int visit_tensor(void *facts, int32_t role, const BpModelTensorInfo *info) {
  if (role != BP_TENSOR_DEFAULT)
    add_tensor(facts, role == BP_TENSOR_OUTPUT ? "output" : "input", info);
  return 0;
}

/* Shows the inputs and outputs of a model without its devices; the error that was just raised says
 * which device is missing. */
static int inspect_without_device(const char *path, const ModelOptions *options, Facts *facts) {
  char *none = g_strconcat("none: ", bp_error_message(), NULL);
  add_text(facts, "device", none);
  g_free(none);
  bp_error_clear();
  BpModule *module = model_load(path, options);
  int status = module ? bp_model_visit_tensors(module, visit_tensor, facts) : -1;
  bp_object_release(module);
  return status;
}

static int inspect_model(const char *path, const ModelOptions *options, Facts *facts) {
  gboolean is_onnx = path_has_extension(path, ".onnx");
  LoadedModel loaded;
  if (model_open(path, options, &loaded) < 0)
    return !is_onnx && !options->device && bp_error_is(BP_ERROR_NOT_FOUND)
               ? inspect_without_device(path, options, facts)
               : -1;
  add_model(&loaded, facts);
  model_close(&loaded);
  return 0;
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
  for (guint i = 0; i < facts->len; i++) {
    const Fact *fact = &g_array_index(facts, Fact, i);
    if (fact->text && *fact->text && strcmp(fact->text, "-") != 0) /* skips facts without text */
      table_add(table, fact->name, fact->text);
  }
  table_print(table);
}

static json_t *items_json(const Facts *facts, const char *name) {
  json_t *array = json_array();
  for (guint i = 0; i < facts->len; i++) {
    const Fact *fact = &g_array_index(facts, Fact, i);
    if (fact->is_item && strcmp(fact->name, name) == 0)
      json_append(array, json_incref(fact->value));
  }
  return array;
}

static json_t *facts_json(const Facts *facts) {
  json_t *root = json_object();
  for (guint i = 0; i < facts->len; i++) {
    const Fact *fact = &g_array_index(facts, Fact, i);
    if (fact->value && !json_object_get(root, fact->name))
      json_add(root, fact->name,
               fact->is_item ? items_json(facts, fact->name) : json_incref(fact->value));
  }
  return root;
}

static Facts *create_facts(void) {
  Facts *facts = g_array_new(FALSE, FALSE, sizeof(Fact));
  g_array_set_clear_func(facts, fact_clear);
  return facts;
}

json_t *inspect_model_json(const LoadedModel *loaded) {
  Facts *facts = create_facts();
  add_model(loaded, facts);
  json_t *root = facts_json(facts);
  g_array_unref(facts);
  return root;
}

json_t *inspect_device_json(const char *name) {
  Facts *facts = create_facts();
  json_t *root = inspect_device(name, NULL, facts) < 0 ? NULL : facts_json(facts);
  g_array_unref(facts);
  return root;
}

/* An ONNX file is compiled only if a shape, a target or a device is given. */
static gboolean is_plain_onnx(const char *what, const char *name, const ModelOptions *options) {
  return strcmp(what, "model") == 0 && path_has_extension(name, ".onnx") && !options->onnx.shapes &&
         !options->target && !options->device;
}

static int inspect_subject(const char *what, const char *name, const ModelOptions *options,
                           gboolean lists_nodes) {
  if (is_plain_onnx(what, name, options))
    return onnx_inspect(name, lists_nodes, options->json);
  if (lists_nodes)
    return command_usage_error("--nodes: it is for an ONNX file as it is; `backplane profile` "
                               "shows those of a compiled model");
  for (size_t i = 0; i < G_N_ELEMENTS(subjects); i++) {
    if (strcmp(subjects[i].what, what) != 0)
      continue;
    Facts *facts = create_facts();
    int status = EXIT_OK;
    if (subjects[i].inspect(name, options, facts) < 0)
      status = command_fail(options->json);
    else if (options->json)
      command_print_json(facts_json(facts));
    else
      print_text(facts);
    g_array_unref(facts);
    return status;
  }
  return command_usage_error("cannot inspect a '%s'; it is plugin, device, module, function or "
                             "model",
                             what);
}

int cmd_inspect(int argc, char **argv) {
  ModelOptions options = MODEL_OPTIONS_INIT;
  gboolean lists_nodes = FALSE;
  const GOptionEntry own[] = {{"nodes", 0, 0, G_OPTION_ARG_NONE, &lists_nodes,
                               "list the nodes of an ONNX file, with the shapes of their outputs",
                               NULL},
                              {NULL, 0, 0, 0, NULL, NULL, NULL}};
  GOptionEntry *entries = model_option_entries(&options, own);
  int status = EXIT_USAGE;
  if (command_parse(
          &argc, &argv, entries, "plugin|device|module|function|model NAME",
          "Shows the properties of a plugin (name or path), a device "
          "(opencl:1),\na module (path of a library), a global function (name) or a "
          "model (MODEL.onnx|FILE.so|GRAPH.json|FOLDER).",
          "An ONNX file is shown as it is, and with --shape, --target or --device as it is "
          "compiled.\nLoading a plugin or a model runs its code's initialisers: only open "
          "what you trust. A module is only read."))
    status = argc == 3 && strcmp(argv[1], "device") == 0 && explain_preferences(argv[2], &status)
                 ? status
             : argc == 3 ? inspect_subject(argv[1], argv[2], &options, lists_nodes)
                         : command_usage_error("inspect takes a kind of thing and a name, as "
                                               "`backplane inspect device cpu`");
  g_free(entries);
  model_options_clear(&options);
  return status;
}
