/* SPDX-License-Identifier: Apache-2.0 */
/* run-model.c in C++11:
 *
 *   run-model MODEL NAME=FILE.npy...
 */
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <backplane/backplane.hpp>

using backplane::Tensor;

static void run(const std::string &path,
                const std::vector<std::pair<std::string, Tensor>> &inputs) {
  std::vector<backplane::InputShape> shapes;
  for (const auto &input : inputs)
    shapes.push_back({input.first, input.second.shape()});
  const backplane::Model model(path, "", shapes);
  backplane::Context context(model);
  for (const auto &input : inputs)
    context.set(input.first, input.second);
  context.run();
  for (const backplane::TensorInfo &info : model.outputs()) {
    const Tensor output = context.output(info.name);
    output.write_npy(info.name + ".npy");
    std::cout << info.name << ".npy: " << backplane::to_string(output.dtype()) << " on "
              << backplane::to_string(output.device()) << "\n";
  }
}

int main(int argc, char **argv) {
  try {
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (int i = 2; i < argc; i++) {
      const std::string text = argv[i];
      const std::size_t sign = text.find('=');
      if (sign == std::string::npos)
        throw backplane::Error(BP_ERROR_VALUE, text + ": expected NAME=FILE.npy");
      inputs.emplace_back(text.substr(0, sign), Tensor::read_npy(text.substr(sign + 1)));
    }
    if (argc < 2)
      throw backplane::Error(BP_ERROR_VALUE, "expected MODEL NAME=FILE.npy...");
    run(argv[1], inputs);
  } catch (const std::exception &error) {
    std::cerr << "run-model: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
