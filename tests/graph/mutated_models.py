# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs mutated models: mutated_models.py BACKPLANE FOLDER COUNT SEED

The models are ONNX's own node cases with random changes: other extents, attributes, types, inputs, operators and
operator sets, inputs that become constants with numbers at the limits of their types, and constants of types that
numpy lacks. Each is run, or refused with a message. A crash, a report of a sanitizer, no message, or more than five
minutes is a failure, whose model stays in FOLDER. Prints TAP, one line for each hundred models."""

import random
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from onnx_node_cases import all_cases

warnings.filterwarnings("ignore")

EDGES = [0, 1, -1, 2, -2, 3, 7, 255, 256, 65535, 2**31 - 1, 2**31, -2**31, 2**32, 2**40, 2**62, 2**63 - 1, -2**63]
FLOATS = [0.0, -1.0, float("nan"), float("inf"), 1e30, 1e-30]
TEXTS = [b"", b"x", b"linear", b"SAME_UPPER", b"max"]
FEW_BITS = {16: 16, 17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 25: 2, 26: 2}  # by the number of an ONNX type
REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:")


class Nothing(Exception):
    """A change finds nothing that it can change."""


def one_of(draw, items):
    items = list(items)
    if not items:
        raise Nothing
    return draw.choice(items)


def a_tensor(draw, graph):
    return one_of(draw, [info for info in graph.input if info.type.HasField("tensor_type")])


def change_extent(draw, model):
    shape = a_tensor(draw, model.graph).type.tensor_type.shape
    extent = draw.choice(shape.dim) if shape.dim else shape.dim.add()
    if draw.random() < .3:
        extent.dim_param = draw.choice("abc")
    else:
        extent.dim_value = draw.choice(EDGES)


def change_attribute(draw, model):
    attribute = one_of(draw, one_of(draw, model.graph.node).attribute)
    if attribute.type == AttributeProto.INT:
        attribute.i = draw.choice(EDGES)
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(EDGES)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = draw.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = draw.choice(TEXTS)


def change_number_of_attributes(draw, model):
    node = one_of(draw, model.graph.node)
    attribute = one_of(draw, node.attribute)
    if attribute.type != AttributeProto.INTS or draw.random() < .5:
        node.attribute.remove(attribute)
    elif attribute.ints and draw.random() < .5:
        del attribute.ints[-1]
    else:
        attribute.ints.append(draw.choice(EDGES))


def change_type(draw, model):
    a_tensor(draw, model.graph).type.tensor_type.elem_type = draw.randrange(1, 27)


def change_input(draw, model):
    node = one_of(draw, model.graph.node)
    place = one_of(draw, range(len(node.input)))
    node.input[place] = draw.choice(["", *node.input, *(info.name for info in model.graph.input)])


def change_number_of_inputs(draw, model):
    node = one_of(draw, model.graph.node)
    if node.input and draw.random() < .5:
        del node.input[-1]
    else:
        node.input.append(one_of(draw, model.graph.input).name)


def change_operator(draw, model):
    other = one_of(draw, draw.choice(all_models()).graph.node)
    one_of(draw, model.graph.node).op_type = other.op_type


def change_operator_set(draw, model):
    one_of(draw, model.opset_import).version = draw.randrange(1, 28)


def make_constant(draw, model):
    info = a_tensor(draw, model.graph)
    shape = [extent.dim_value for extent in info.type.tensor_type.shape.dim]
    count, number = int(np.prod(shape)), info.type.tensor_type.elem_type
    if not 0 <= count < 10000:
        raise Nothing
    if draw.random() < .3:
        number = draw.choice(list(FEW_BITS))
    if number in FEW_BITS:
        size = (count * FEW_BITS[number] + 7) // 8
        constant = TensorProto(data_type=number, dims=shape, raw_data=draw.randbytes(size))
    else:
        dtype = helper.tensor_dtype_to_np_dtype(number)
        if dtype.kind not in "iufb":
            raise Nothing
        edges = np.array([draw.choice(EDGES) % 2**64 for _ in range(count)], np.uint64)
        constant = numpy_helper.from_array(edges.astype(dtype).reshape(shape))
    constant.name = info.name
    model.graph.initializer.append(constant)
    model.graph.input.remove(info)


CHANGES = [change_extent, change_attribute, change_number_of_attributes, change_type, change_input,
           change_number_of_inputs, change_operator, change_operator_set, make_constant, make_constant]


def all_models(kept=[]):  # pylint: disable=dangerous-default-value
    if not kept:
        kept.extend(case.model for case in all_cases() if case.model.ByteSize() < 2**16)
    return kept


def mutated(draw):
    model = ModelProto()
    model.CopyFrom(draw.choice(all_models()))
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        try:
            draw.choice(CHANGES)(draw, model)
        except (Nothing, ValueError, OverflowError):  # of a field that cannot hold the number
            continue
    return model


def write_inputs(model, folder):
    """Return the options that give the inputs random numbers, or None if there is an input that cannot be given."""
    options = []
    for place, info in enumerate(model.graph.input):
        tensor = info.type.tensor_type
        shape = [extent.dim_value if extent.HasField("dim_value") else 3 for extent in tensor.shape.dim]
        if not info.type.HasField("tensor_type") or min(shape, default=0) < 0 or np.prod(shape, dtype=float) > 1e6:
            return None
        if tensor.elem_type in {*FEW_BITS, 0, 8, 14, 15, 24} or tensor.elem_type > 26:
            return None
        numbers = np.random.default_rng(place).standard_normal(shape) * 3
        np.save(folder / f"{place}.npy", np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
        options += ["--input", f"{info.name}={folder}/{place}.npy"]
    return options


def fault_of(command, counts):
    """Return what a command does that it must not do, or None; counts what it does."""
    try:
        ended = subprocess.run(command, capture_output=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "it does not end"
    counts[(command[1], "works" if ended.returncode == 0 else "is refused")] += 1
    text = ended.stderr.decode(errors="replace")
    report = next((line for line in text.splitlines() if any(word in line for word in REPORTS)), None)
    if report or ended.returncode not in (0, 1):
        return f"status {ended.returncode}: {report or text[-200:]}"
    return None if ended.returncode == 0 or text.strip() else "it fails without a message"


def check(backplane, folder, seed, counts):
    """Return what is wrong with the model of a seed, or None."""
    draw, path = random.Random(seed), folder / "m.onnx"
    model = mutated(draw)
    path.write_bytes(model.SerializeToString())
    inputs = write_inputs(model, folder)
    target = draw.choice(["llvm -opt=0", "llvm -opt=0 -vector_bits=0"])
    command = ([backplane, "run", path, "--device", "cpu", "--target", target, *inputs] if inputs is not None else
               [backplane, "compile", path, "--target", target, "--output", folder / "m.so"])
    fault = fault_of(command, counts)
    if fault:
        path.rename(folder / f"{seed}.onnx")
        fault = f"seed {seed}, {' '.join(map(str, command))}: {fault}"
    return fault


def main():
    backplane, folder, count, first = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    number, counts = 0, Counter()
    for begin in range(first, first + count, 100):
        seeds = range(begin, min(begin + 100, first + count))
        faults = [fault for fault in (check(backplane, folder, seed, counts) for seed in seeds) if fault]
        if not counts[("run", "works")]:
            faults.append("no model runs")
        number += 1
        print(f"{'not ok' if faults else 'ok'} {number} /mutated-models/seeds_{seeds[0]}_to_{seeds[-1]}_run_or_are_refused")
        print("".join(f"# {fault}\n" for fault in faults), end="", flush=True)
    print("".join(f"# {command} {end}: {times}\n" for (command, end), times in sorted(counts.items())), end="")
    print(f"1..{number}")


if __name__ == "__main__":
    main()
