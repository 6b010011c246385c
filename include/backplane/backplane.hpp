/* SPDX-License-Identifier: Apache-2.0 */
/* Running models from C++11: objects that release what they own, and errors that are exceptions.
 * The classes are inline over the C functions of backplane/backplane.h, whose rules for threads
 * hold; link with backplane-graph.
 *
 *   backplane::Model model("digits.onnx");
 *   backplane::Context context(model);
 *   context.set("image", backplane::Tensor::of<float>({1, 1, 28, 28}, pixels));
 *   context.run();
 *   std::vector<float> logits = context.output("logits").to_vector<float>();
 */
#ifndef BACKPLANE_BACKPLANE_HPP
#define BACKPLANE_BACKPLANE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <backplane/backplane.h>

namespace backplane {

/* An error of the library: its text, and its kind, a BP_ERROR_*. */
class Error : public std::runtime_error {
public:
  Error(std::string kind, const std::string &message)
      : std::runtime_error(message), kind_(std::move(kind)) {
  }
  const std::string &kind() const noexcept {
    return kind_;
  }

private:
  std::string kind_;
};

namespace detail {

/* Throws this thread's error, which is cleared. */
[[noreturn]] inline void raise() {
  Error error(bp_error_kind(), bp_error_message());
  bp_error_clear();
  throw error;
}

inline void check(int status) {
  if (status < 0)
    raise();
}

template <typename T> T *check(T *pointer) {
  if (!pointer)
    raise();
  return pointer;
}

/* The type of tensors with elements of a C++ type; other types have none. */
template <typename T> struct Element;
template <> struct Element<float> {
  static BpDataType dtype() {
    return {BP_DTYPE_FLOAT, 32, 1};
  }
};
template <> struct Element<double> {
  static BpDataType dtype() {
    return {BP_DTYPE_FLOAT, 64, 1};
  }
};
template <> struct Element<std::int8_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_INT, 8, 1};
  }
};
template <> struct Element<std::int16_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_INT, 16, 1};
  }
};
template <> struct Element<std::int32_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_INT, 32, 1};
  }
};
template <> struct Element<std::int64_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_INT, 64, 1};
  }
};
template <> struct Element<std::uint8_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_UINT, 8, 1};
  }
};
template <> struct Element<std::uint16_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_UINT, 16, 1};
  }
};
template <> struct Element<std::uint32_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_UINT, 32, 1};
  }
};
template <> struct Element<std::uint64_t> {
  static BpDataType dtype() {
    return {BP_DTYPE_UINT, 64, 1};
  }
};

} /* namespace detail */

/* The name of a type, "float32". */
inline std::string to_string(BpDataType dtype) {
  char text[32];
  bp_dtype_format(dtype, text, sizeof text);
  return text;
}

/* The name of a device, "opencl:1". */
inline std::string to_string(BpDevice device) {
  char text[64];
  bp_device_format(device, text, sizeof text);
  return text;
}

/* A tensor on any device. Copies of the object share the tensor. */
class Tensor {
public:
  /* Uninitialised. */
  Tensor(const std::vector<std::int64_t> &shape, BpDataType dtype,
         BpDevice device = BpDevice{BP_DEVICE_CPU, 0})
      : Tensor(detail::check(bp_tensor_create(shape.data(), static_cast<std::int32_t>(shape.size()),
                                              dtype, device, nullptr))) {
  }

  /* Takes over a reference to a tensor of the C functions. */
  explicit Tensor(BpTensor *tensor) : tensor_(tensor, bp_tensor_release) {
  }

  /* Copies values to a device. The number of values must be the number of elements of the shape. */
  template <typename T>
  static Tensor of(const std::vector<std::int64_t> &shape, const std::vector<T> &values,
                   BpDevice device = BpDevice{BP_DEVICE_CPU, 0}) {
    Tensor tensor(shape, detail::Element<T>::dtype(), device);
    detail::check(
        bp_tensor_copy_from_host(&tensor.view(), values.data(), values.size() * sizeof(T)));
    return tensor;
  }

  static Tensor read_npy(const std::string &path) {
    return Tensor(detail::check(bp_npy_read(path.c_str())));
  }
  void write_npy(const std::string &path) const {
    detail::check(bp_npy_write(path.c_str(), &view()));
  }

  /* Throws an Error if the tensor was moved from. */
  const BpTensorView &view() const {
    if (!tensor_)
      throw Error(BP_ERROR_VALUE, "the tensor was moved from");
    return tensor_->view;
  }
  BpTensor *get() const {
    return tensor_.get();
  }
  BpDataType dtype() const {
    return view().dtype;
  }
  BpDevice device() const {
    return view().device;
  }
  std::vector<std::int64_t> shape() const {
    return std::vector<std::int64_t>(view().shape, view().shape + view().ndim);
  }
  std::int64_t size() const {
    std::int64_t count = bp_view_num_elements(&view());
    detail::check(count < 0 ? -1 : 0);
    return count;
  }

  /* The elements in row-major order. Throws an Error if T is not the tensor's type. */
  template <typename T> std::vector<T> to_vector() const {
    const BpDataType wanted = detail::Element<T>::dtype(), has = dtype();
    if (wanted.code != has.code || wanted.bits != has.bits || wanted.lanes != has.lanes)
      throw Error(BP_ERROR_TYPE,
                  "the tensor has elements of " + to_string(has) + ", not " + to_string(wanted));
    std::vector<T> values(static_cast<std::size_t>(size()));
    detail::check(bp_tensor_copy_to_host(&view(), values.data(), values.size() * sizeof(T)));
    return values;
  }

private:
  std::shared_ptr<BpTensor> tensor_;
};

/* An input or output of a model. An extent of -1 is open; the whole shape is open if `has_type` is
 * false. `kind` is BP_MODEL_TENSOR, or a sum of BP_MODEL_SEQUENCE and BP_MODEL_OPTIONAL. */
struct TensorInfo {
  std::string name;
  bool has_type;
  BpDataType dtype;
  std::vector<std::int64_t> shape;
  std::int32_t kind;
};

/* A shape of an input that an ONNX file leaves open. */
struct InputShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/* A model on its devices. Copies of the object share the model; any thread may use the model. */
class Model {
public:
  /* Opens or compiles a model and chooses its devices, as bp_model_load_for. `preferences` ""
   * stands for the default preferences. */
  explicit Model(const std::string &path, const std::string &preferences = std::string(),
                 const std::vector<InputShape> &shapes = std::vector<InputShape>()) {
    std::vector<BpInputShape> rows;
    for (const InputShape &each : shapes)
      rows.push_back(
          {each.name.c_str(), each.shape.data(), static_cast<std::int32_t>(each.shape.size())});
    BpCompileOptions options = BpCompileOptions();
    options.struct_size = sizeof options;
    options.shapes = rows.data();
    options.num_shapes = static_cast<std::int32_t>(rows.size());
    options.shape_size = sizeof(BpInputShape);
    model_.reset(
        detail::check(bp_model_load_for(
            path.c_str(), preferences.empty() ? nullptr : preferences.c_str(), &options, nullptr)),
        bp_model_release);
  }

  /* Takes over a reference to a model of the C functions. */
  explicit Model(BpModel *model) : model_(model, bp_model_release) {
  }

  BpModel *get() const {
    return model_.get();
  }

  std::vector<TensorInfo> inputs() const {
    return describe(bp_model_num_inputs(get()), bp_model_input_info);
  }
  std::vector<TensorInfo> outputs() const {
    return describe(bp_model_num_outputs(get()), bp_model_output_info);
  }

  /* Returns the devices of the model; the first is the device of inputs and outputs. */
  std::vector<BpDevice> devices() const {
    std::size_t count = 0;
    const BpDevice *devices = detail::check(bp_model_devices(get(), &count));
    return std::vector<BpDevice>(devices, devices + count);
  }

private:
  std::vector<TensorInfo> describe(std::int32_t count,
                                   const BpModelTensorInfo *(*get_info)(const BpModel *,
                                                                        std::int32_t)) const {
    std::vector<TensorInfo> all;
    detail::check(count);
    for (std::int32_t i = 0; i < count; i++) {
      const BpModelTensorInfo *info = detail::check(get_info(get(), i));
      const std::int32_t ndim = info->ndim < 0 ? 0 : info->ndim;
      all.push_back({info->name, info->ndim >= 0, info->dtype,
                     std::vector<std::int64_t>(info->shape, info->shape + ndim), info->kind});
    }
    return all;
  }

  std::shared_ptr<BpModel> model_;
};

/* The inputs and results of one run at a time, for one thread at a time. The context keeps the
 * model alive. */
class Context {
public:
  explicit Context(const Model &model)
      : model_(model),
        context_(detail::check(bp_model_context_create(model.get())), bp_model_context_free) {
  }

  BpModelContext *get() const {
    return context_.get();
  }

  /* Copies a tensor of any device in. */
  void set(const std::string &name, const Tensor &value) {
    detail::check(bp_model_set_input(get(), name.c_str(), &value.view()));
  }

  /* Copies tensors of any device into an input that is a sequence or an optional: the tensors of
   * the sequence, or the one of an optional tensor. */
  void set_list(const std::string &name, const std::vector<Tensor> &values) {
    const BpTensorView *none = nullptr;
    std::vector<const BpTensorView *> views;
    for (const Tensor &value : values)
      views.push_back(&value.view());
    detail::check(bp_model_set_input_list(get(), name.c_str(), views.empty() ? &none : views.data(),
                                          static_cast<std::int64_t>(views.size())));
  }

  /* Sets an input that is an optional to no value. */
  void set_no_value(const std::string &name) {
    detail::check(bp_model_set_input_list(get(), name.c_str(), nullptr, BP_MODEL_NO_VALUE));
  }

  void run() {
    detail::check(bp_model_run(get()));
  }

  /* Waits for the run and returns an output, whose memory the next run overwrites. */
  Tensor output(std::int32_t index) const {
    BpTensor *tensor = detail::check(bp_model_get_output(get(), index));
    return Tensor(static_cast<BpTensor *>(bp_object_retain(tensor)));
  }
  Tensor output(const std::string &name) const {
    return output(index_of(name));
  }

  /* Waits for the run; whether an output has a value, as all but optionals have. */
  bool has_value(std::int32_t index) const {
    return output_kind(index) == BP_MODEL_TENSOR || length(index) != BP_MODEL_NO_VALUE;
  }
  bool has_value(const std::string &name) const {
    return has_value(index_of(name));
  }

  /* Waits for the run and returns the tensors in an output that is a sequence or an optional, whose
   * memory the next run overwrites; none for an optional without a value. */
  std::vector<Tensor> output_list(std::int32_t index) const {
    std::vector<Tensor> all;
    const std::int64_t count = length(index);
    for (std::int64_t i = 0; i < count; i++) {
      BpTensor *tensor = detail::check(bp_model_get_output_item(get(), index, i));
      all.push_back(Tensor(static_cast<BpTensor *>(bp_object_retain(tensor))));
    }
    return all;
  }
  std::vector<Tensor> output_list(const std::string &name) const {
    return output_list(index_of(name));
  }

private:
  std::int32_t output_kind(std::int32_t index) const {
    return detail::check(bp_model_output_info(model_.get(), index))->kind;
  }

  std::int64_t length(std::int32_t index) const {
    std::int64_t count = 0;
    detail::check(bp_model_get_output_length(get(), index, &count));
    return count;
  }

  std::int32_t index_of(const std::string &name) const {
    std::string names;
    const std::int32_t count = bp_model_num_outputs(model_.get());
    detail::check(count);
    for (std::int32_t i = 0; i < count; i++) {
      const std::string known = bp_model_output_info(model_.get(), i)->name;
      if (known == name)
        return i;
      names += (i ? ", " : "") + known;
    }
    throw Error(BP_ERROR_NOT_FOUND, "the model has no output '" + name + "'; it has " + names);
  }

  Model model_;
  std::unique_ptr<BpModelContext, void (*)(BpModelContext *)> context_;
};

} /* namespace backplane */

#endif
