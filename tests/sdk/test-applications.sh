#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An application's developer uses an installed Backplane, without any file of its source: the example is built with
# pkg-config, CMake and Meson, and runs a model.
set -u
. "$top_srcdir/tests/sdk/stage.sh"
strict="-Wall -Wextra -Wpedantic -Werror"

# A uniformly grey image: NumPy's header of 128 bytes, and 784 times the number 0.5.
make_input() {
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 28, 28), }"
  printf '\0\0\0\77%.0s' $(seq 784)
}

compiles() {
  # shellcheck disable=SC2046,SC2086
  mkdir plain && cc -std=c11 $strict "$example/run-model.c" -o plain/run-model $(pkg-config --cflags --libs backplane-graph)
}

# The C++ example names the output's file after the output.
compiles_cxx() {
  # shellcheck disable=SC2046,SC2086
  mkdir cxx && g++ -std=c++11 $strict "$example/run-model.cc" -o cxx/run-model $(pkg-config --cflags --libs backplane-graph) &&
    says "logits.npy: float32 on cpu:0" cxx/run-model "$digits" image=grey.npy && cmp logits.npy command/logits.npy &&
    fails 1 "input 'image' has not been set" cxx/run-model "$digits" && fails 1 "expected NAME=FILE.npy" cxx/run-model "$digits" grey.npy
}

# Errors are exceptions with a kind, and element types are checked.
throws() {
  printf '%s
' '#include <backplane/backplane.hpp>' '#include <iostream>' 'using namespace backplane;' \
    'template <typename F> void say(F what) { try { what(); } catch (const Error &e) { std::cout << e.kind() << ": " << e.what() << "\n"; } }' \
    'int main() { Tensor t = Tensor::of<std::int32_t>({2, 2}, {1, 2, 3, 4}), same = t; if (same.to_vector<std::int32_t>()[3] != 4) return 1;' \
    'say([&] { t.to_vector<float>(); }); say([] { Tensor::of<float>({2}, {1}); }); say([] { Model("nowhere.onnx"); });' \
    'say([] { Model("nowhere.so", "nodevice"); }); return bp_error_message()[0] != 0; }' >throws.cc
  # shellcheck disable=SC2046,SC2086
  g++ -std=c++11 $strict throws.cc -o cxx/throws $(pkg-config --cflags --libs backplane-graph) &&
    says "TypeError: the tensor has elements of int32, not float32" cxx/throws && grep -q '^ValueError: ' out && grep -c nowhere out | grep -qx 2
}

# A sequence s and an optional o of tensors of two floats; the outputs t and p are equal to them.
make_lists() {
  printf '%b' '\010\010\022\000\072\173\012\020\012\001s\022\001t\042\010Identity\012\020\012\001o\022\001p\042\010' \
    'Identity\022\001gZ\023\012\001s\022\016\042\014\012\012\012\010\010\001\022\004\012\002\010\002Z\023' \
    '\012\001o\022\016J\014\012\012\012\010\010\001\022\004\012\002\010\002b\023\012\001t\022\016\042\014' \
    '\012\012\012\010\010\001\022\004\012\002\010\002b\023\012\001p\022\016J\014\012\012\012\010\010\001' \
    '\022\004\012\002\010\002B\004\012\000\020\022' >lists.onnx
}

# Sequences and optionals are lists of tensors; an object that was moved from is an error.
lists() {
  printf '%s\n' '#include <backplane/backplane.hpp>' '#include <iostream>' 'using namespace backplane;' \
    'int main() { Context context(Model("lists.onnx")); const Tensor a = Tensor::of<float>({2}, {1, 2}), b = Tensor::of<float>({2}, {3, 4});' \
    'context.set_list("s", {a, b}); context.set_no_value("o"); context.run(); std::vector<Tensor> t = context.output_list("t");' \
    'if (t.size() != 2 || t[1].to_vector<float>()[1] != 4 || context.has_value("p") || !context.output_list("p").empty()) return 1;' \
    'context.set_list("s", {}); context.set_list("o", {b}); context.run();' \
    'if (!context.output_list(0).empty() || !context.has_value(1) || context.output_list("p")[0].to_vector<float>()[0] != 3) return 2;' \
    'Context moved(std::move(context)); moved.run();' \
    'Tensor gone(a), taken(std::move(gone)); try { gone.size(); return 3; } catch (const Error &) {}' \
    'try { context.output("t"); return 4; } catch (const Error &e) { if (std::string(e.kind()) != "ValueError") return 5; }' \
    'try { context.run(); } catch (const Error &e) { std::cout << e.kind() << "\n"; } return bp_error_message()[0] != 0; }' >lists.cc
  # shellcheck disable=SC2046,SC2086
  make_lists && g++ -std=c++11 $strict lists.cc -o cxx/lists $(pkg-config --cflags --libs backplane-graph) && says "ValueError" cxx/lists
}

# CMake is given only the path of the installed tree, which differs from the configured path.
builds_with_cmake() {
  cmake -S "$example" -B cmake "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_FLAGS=$strict" && cmake --build cmake
}

builds_with_meson() {
  meson setup meson "$example" --werror && meson compile -C meson
}

# wants ARGUMENT...: makes a project that calls find_package(Backplane ARGUMENT...).
wants() {
  mkdir -p wanting && printf '%s\n' 'cmake_minimum_required(VERSION 3.17)' 'project(wanting C)' "find_package(Backplane $*)" \
    >wanting/CMakeLists.txt && rm -rf wanting/build && cmake -S wanting -B wanting/build "-DCMAKE_PREFIX_PATH=$prefix"
}

refuses_others() {
  local version
  wants REQUIRED && wants 0.0 REQUIRED && wants 0.1 EXACT REQUIRED && wants 0.1.0 REQUIRED COMPONENTS compiler &&
    wants COMPONENTS graph OPTIONAL_COMPONENTS wings && fails 1 "has no component wings" wants REQUIRED COMPONENTS graph wings || return 1
  for version in 0.1.99 0.99 1.0; do
    fails 1 "requested version \"$version\"" wants "$version" REQUIRED || return 1
  done
}

# runs FOLDER: the program in the folder prints the bytes that the command prints, for a model and for a library.
runs() {
  local model
  for model in "$digits" "$work/digits.so"; do
    rm -f output-0.npy
    says "output-0.npy: logits" "$1/run-model" "$model" image=grey.npy && cmp output-0.npy command/logits.npy || return 1
  done
}

refuses_in_words() {
  fails 1 "input 'image' has not been set" plain/run-model "$digits" && fails 1 "expected NAME=FILE.npy" plain/run-model "$digits" grey.npy &&
    fails 1 "expected MODEL" plain/run-model
}

echo 1..12
ok installs install_staged
cd "$work" || exit 1
prefix=$(pkg-config --variable=prefix backplane)
examples=$(pkg-config --variable=pkgdatadir backplane-plugin-1)/examples
example=$examples/run-model digits=$examples/digits/digits.onnx
export BACKPLANE_PLUGIN_PATH=$plugins BACKPLANE_DEVICE=cpu
make_input >grey.npy
mkdir command
ok command-runs-the-model backplane run "$digits" --input image=grey.npy --output-dir command
ok command-compiles-the-model backplane compile "$digits" --shape image=1x1x28x28 -o digits.so
ok example-builds-with-pkg-config compiles
ok example-runs-a-model-and-a-library runs plain
ok example-says-what-is-missing refuses_in_words
if command -v g++ >/dev/null; then
  ok example-in-cxx-builds-and-runs compiles_cxx
  ok errors-are-exceptions-in-cxx throws
  ok sequences-and-optionals-in-cxx lists
else
  echo "ok $((++count)) example-in-cxx-builds-and-runs # SKIP no g++"
  echo "ok $((++count)) errors-are-exceptions-in-cxx # SKIP no g++"
  echo "ok $((++count)) sequences-and-optionals-in-cxx # SKIP no g++"
fi
if command -v cmake >/dev/null; then
  ok example-builds-with-cmake eval 'builds_with_cmake && runs cmake'
  ok cmake-is-refused-other-versions-and-components refuses_others
else
  echo "ok $((++count)) example-builds-with-cmake # SKIP no cmake"
  echo "ok $((++count)) cmake-is-refused-other-versions-and-components # SKIP no cmake"
fi
if command -v meson >/dev/null; then
  ok example-builds-with-meson eval 'builds_with_meson && runs meson'
else
  echo "ok $((++count)) example-builds-with-meson # SKIP no meson"
fi
