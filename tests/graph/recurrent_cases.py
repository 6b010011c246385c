# SPDX-License-Identifier: Apache-2.0
"""Compares recurrent layers with NumPy: recurrent_cases.py BACKPLANE FOLDER TARGET.

The cases cover features that ONNX's own node cases leave out: clip, numbers of activation functions,
input_forget, sequence lengths in each direction, states before the first step, float16. The formulas are those of
ONNX's specification of LSTM, GRU and RNN. Each case runs as models of fixed shapes. One library, compiled for any
number of steps and any batch, also runs with several shapes. Prints TAP."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

INPUT, HIDDEN = 4, 7
CLOSED = [(5, 3), (0, 2), (4, 0)]
OPEN = [(5, 3), (1, 1), (9, 1), (2, 10), (0, 2), (3, 0), (5, 3)]
FUNCTIONS = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "Elu": lambda x, a, b: np.where(x < 0, a * (np.exp(x) - 1), x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "Affine": lambda x, a, b: a * x + b,
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
}
ORDER = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
DEVICES = {"c": "cpu", "llvm": "cpu", "opencl": "opencl", "vulkan": "vulkan"}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
NUMBERS = {"HardSigmoid": 2, "Affine": 2, "ScaledTanh": 2, "LeakyRelu": 1, "Elu": 1, "ThresholdedRelu": 1}

# Operator, inputs besides X, W and R, attributes.
CASES = {
    "lstm_clip": ("LSTM", "B", {"clip": 0.3}),
    "lstm_input_forget": ("LSTM", "B initial_h initial_c", {"input_forget": 1}),
    "lstm_lengths_both_ways": ("LSTM", "B sequence_lens initial_h initial_c P", {"direction": "bidirectional"}),
    "lstm_lengths_backwards_by_batch": ("LSTM", "sequence_lens", {"direction": "reverse", "layout": 1}),
    "lstm_functions": ("LSTM", "B", {"activations": ["HardSigmoid", "Affine", "ScaledTanh"],
                                     "activation_alpha": [0.3, 0.8, 1.2], "activation_beta": [0.4, 0.1, 0.7]}),
    "lstm_functions_each_way": ("LSTM", "B", {
        "direction": "bidirectional", "activations": ["Sigmoid", "Softsign", "Tanh", "HardSigmoid", "Tanh", "LeakyRelu"],
        "activation_alpha": [0.25, 0.05], "activation_beta": [0.45]}),
    "gru_clip": ("GRU", "B initial_h", {"clip": 0.2}),
    "gru_reset_after_both_ways": ("GRU", "B sequence_lens initial_h",
                                  {"direction": "bidirectional", "linear_before_reset": 1}),
    "gru_functions": ("GRU", "", {"activations": ["HardSigmoid", "Elu"], "activation_alpha": [0.2, 0.9],
                                  "activation_beta": [0.5]}),
    **{f"{operator.lower()}_float16": (operator, "B initial_h", {"direction": "bidirectional"}) for operator in GATES},
    **{f"rnn_{name.lower()}": ("RNN", "B initial_h", {
        "activations": [name], **({"activation_alpha": [0.7]} if name in NUMBERS else {}),
        **({"activation_beta": [0.2]} if NUMBERS.get(name) == 2 else {})}) for name in FUNCTIONS},
    "rnn_lengths_backwards": ("RNN", "sequence_lens initial_h", {"direction": "reverse", "clip": 0.5}),
}


def functions_of(operator, attributes, directions):
    names = attributes.get("activations", DEFAULTS[operator] * directions)
    alphas, betas = iter(attributes.get("activation_alpha", [])), iter(attributes.get("activation_beta", []))
    clip = attributes.get("clip")
    result = []
    for name in names:
        a = next(alphas) if NUMBERS.get(name, 0) > 0 else 0
        b = next(betas) if NUMBERS.get(name, 0) > 1 else 0
        result.append(lambda x, f=FUNCTIONS[name], a=a, b=b: f(x if clip is None else np.clip(x, -clip, clip), a, b))
    return [result[i * len(DEFAULTS[operator]):] for i in range(directions)]


def lstm(x, h, c, w, r, bias, p, functions, attributes):
    f, g, last = functions[:3]
    i, o, forget, fresh = np.split(x @ w.T + h @ r.T + bias[0] + bias[1], 4)
    pi, po, pf = np.split(p, 3)
    i = f(i + pi * c)
    forget = 1 - i if attributes.get("input_forget") else f(forget + pf * c)
    c = forget * c + i * g(fresh)
    return f(o + po * c) * last(c), c


def gru(x, h, c, w, r, bias, p, functions, attributes):
    f, g = functions[:2]
    wz, wr, wh = np.split(x @ w.T + bias[0], 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh = np.split(bias[1], 3)
    z, reset = f(wz + h @ rz.T + bz), f(wr + h @ rr.T + br)
    if attributes.get("linear_before_reset"):
        fresh = g(wh + reset * (h @ rh.T + bh))
    else:
        fresh = g(wh + (reset * h) @ rh.T + bh)
    return (1 - z) * fresh + z * h, c


def rnn(x, h, c, w, r, bias, p, functions, attributes):
    return functions[0](x @ w.T + h @ r.T + bias[0] + bias[1]), c


def reference(operator, given, attributes, directions):
    """Return Y, Y_h and Y_c with layout 0."""
    steps, batch = given["X"].shape[:2]
    cell = {"LSTM": lstm, "GRU": gru, "RNN": rnn}[operator]
    functions = functions_of(operator, attributes, directions)
    rows = GATES[operator] * HIDDEN
    y = np.zeros((steps, directions, batch, HIDDEN))
    last = np.zeros((2, directions, batch, HIDDEN))
    for d in range(directions):
        backwards = d == 1 or attributes.get("direction") == "reverse"
        bias = given["B"][d].reshape(2, rows) if "B" in given else np.zeros((2, rows))
        p = given["P"][d] if "P" in given else np.zeros(3 * HIDDEN)
        for n in range(batch):
            h, c = (given[name][d, n] if name in given else np.zeros(HIDDEN) for name in ("initial_h", "initial_c"))
            length = given["sequence_lens"][n] if "sequence_lens" in given else steps
            for t in reversed(range(length)) if backwards else range(length):
                h, c = cell(given["X"][t, n], h, c, given["W"][d], given["R"][d], bias, p, functions[d], attributes)
                y[t, d, n] = h
            last[:, d, n] = h, c
    return [y, last[0], last[1]]


def by_batch(name, value):
    if name in ("X", "initial_h", "initial_c"):
        return np.ascontiguousarray(np.swapaxes(value, 0, 1))
    return value


def make_inputs(name, steps, batch, random):
    operator, extra, attributes = CASES[name]
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * HIDDEN
    shapes = {"X": (steps, batch, INPUT), "W": (directions, rows, INPUT), "R": (directions, rows, HIDDEN),
              "B": (directions, 2 * rows), "initial_h": (directions, batch, HIDDEN),
              "initial_c": (directions, batch, HIDDEN), "P": (directions, 3 * HIDDEN)}
    names = [n for n in ORDER if n in ("X", "W", "R") or n in extra.split()]
    dtype = np.float16 if name.endswith("float16") else np.float32
    given = {n: random.uniform(-0.8, 0.8, shapes[n]).astype(dtype) for n in names if n in shapes}
    if "sequence_lens" in names:
        least = 0 if operator == "RNN" else 1
        lengths = np.array([steps, 2, least] * batch, np.int32)[:batch]
        given["sequence_lens"] = np.minimum(lengths, steps)
    want = reference(operator, given, attributes, directions)[:3 if operator == "LSTM" else 2]
    if attributes.get("layout"):
        given = {n: by_batch(n, v) for n, v in given.items()}
        want = [want[0].transpose(2, 0, 1, 3)] + [np.swapaxes(v, 0, 1) for v in want[1:]]
    return given, want


def shape_of(name, value, is_open, layout):
    """Return the shape of an input. With is_open, the extents of steps and batch are names."""
    open_dims = {"X": ["steps", "batch"], "sequence_lens": ["batch"], "initial_h": [None, "batch"],
                 "initial_c": [None, "batch"]}.get(name, [])
    if layout and len(open_dims) == 2:
        open_dims = open_dims[::-1]
    dims = open_dims + [None] * (value.ndim - len(open_dims))
    return [dim if is_open and dim else extent for dim, extent in zip(dims, value.shape)]


def make_model(name, given, want, is_open):
    operator, _, attributes = CASES[name]
    used = ORDER[:max(ORDER.index(n) for n in given) + 1]
    outputs = ["Y", "Y_h", "Y_c"][:len(want)]
    node = helper.make_node(operator, [n if n in given else "" for n in used], outputs, hidden_size=HIDDEN, **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype),
                                           shape_of(n, v, is_open, attributes.get("layout")))
             for n, v in given.items()]
    element = helper.np_dtype_to_tensor_dtype(given["X"].dtype)
    results = [helper.make_tensor_value_info(n, element, [None] * v.ndim if is_open else v.shape)
               for n, v in zip(outputs, want)]
    return helper.make_model(helper.make_graph([node], name, infos, results),
                             opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def run_once(command, program, place, given, want):
    arguments = [command, "run", *program, "-o", str(place)]
    for n, value in given.items():
        np.save(place / f"{n}.npy", value)
        arguments += ["-i", f"{n}={place}/{n}.npy"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    for n, value in zip(["Y", "Y_h", "Y_c"], want):
        got = np.load(place / f"{n}.npy")
        relative, absolute = (2e-3, 2e-3) if got.dtype == np.float16 else (1e-4, 1e-5)
        if got.shape != value.shape or not np.allclose(got, value, relative, absolute):
            return f"{n} is {got.shape} {got.ravel()[:8]}, not {value.shape} {value.ravel()[:8]}"
    return None


def run_case(command, folder, target, name, number, is_open):
    random = np.random.default_rng(number)
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    if is_open:
        onnx.save(make_model(name, *make_inputs(name, 5, 3, random), is_open), place / "model.onnx")
    device = ["-d", DEVICES[target.split()[0]]]
    program = [str(place / "model.onnx"), "-t", target, *device]
    if is_open:
        done = subprocess.run([command, "compile", str(place / "model.onnx"), "-t", target, "-o", str(place / "model.so")],
                              capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()
        program = [str(place / "model.so"), *device]
    for steps, batch in OPEN if is_open else CLOSED:
        given, want = make_inputs(name, steps, batch, random)
        if not is_open:
            onnx.save(make_model(name, given, want, is_open), place / "model.onnx")
        why = run_once(command, program, place, given, want)
        if why:
            return f"{steps} steps of {batch}: {why}"
    return None


def main():
    command, folder, target = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    cases = [(name, is_open) for is_open in (False, True) for name in CASES]
    failed = 0
    print(f"1..{len(cases)}")
    for number, (name, is_open) in enumerate(cases, 1):
        why = run_case(command, folder, target, name, number, is_open)
        group = f"/recurrent/{target.split()[0]}" + ("/open" if is_open else "")
        print(f"{'not ok' if why else 'ok'} {number} {group}/{name}", flush=True)
        if why:
            failed += 1
            print("# " + why.replace("\n", "\n# "))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
