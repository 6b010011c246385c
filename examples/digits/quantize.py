#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write digits-int8.onnx: the classifier of digits.onnx in 8 bits, with ONNX's quantised operators.

Weights are int8 with a scale for each output channel. Activations are uint8; the images in `images/` determine
their ranges. No Relu is needed, because uint8 with zero point 0 represents no negative number.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

HERE = Path(__file__).parent


def load_images():
    files = sorted((HERE / "images").glob("*.png"))
    pixels = np.stack([np.asarray(Image.open(f), np.float32) for f in files])
    return pixels[:, None] / np.float32(255), [int(f.name[0]) for f in files]


def activations(model, images):
    """Return the outputs of each node for the images."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    for node in model.graph.node:
        copy.graph.output.append(helper.make_empty_tensor_value_info(node.output[0]))
    session = onnxruntime.InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"image": images})))


def quantize_weights(weights, axis):
    """Return int8 values, and a scale for each index of the axis."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    scale = (np.abs(weights).max(axis=others) / 127).astype(np.float32)
    shape = [-1 if i == axis else 1 for i in range(weights.ndim)]
    return np.clip(np.rint(weights / scale.reshape(shape)), -127, 127).astype(np.int8), scale


def build(model, seen):
    given = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def zero(name, value=0, dtype=np.uint8):
        return constant(name, dtype(value))

    def convolution(index, source, scale):
        """Append a convolution with its Relu and pooling; return the name and the scale of the result."""
        weights, weight_scale = quantize_weights(given[f"conv{index}.weight"], 0)
        bias = np.rint(given[f"conv{index}.bias"] / (scale * weight_scale)).astype(np.int32)
        result = np.float32(seen[f"relu{index}"].max() / 255)
        name = f"conv{index}"
        nodes.append(
            helper.make_node(
                "QLinearConv",
                [source, constant(f"{name}.x_scale", scale), zero(f"{name}.x_zero"),
                 constant(f"{name}.weight", weights), constant(f"{name}.w_scale", weight_scale),
                 constant(f"{name}.w_zero", np.zeros(len(weights), np.int8)),
                 constant(f"{name}.y_scale", result), zero(f"{name}.y_zero"), constant(f"{name}.bias", bias)],
                [name], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1],
            )
        )  # fmt: skip
        nodes.append(
            helper.make_node("MaxPool", [name], [f"pool{index}"], f"pool{index}", kernel_shape=[2, 2], strides=[2, 2])
        )
        return f"pool{index}", result

    first = np.float32(1 / 255)
    nodes.append(
        helper.make_node("QuantizeLinear", ["image", constant("scale", first), zero("zero")], ["pixels"], "quantize")
    )
    name, scale = convolution(2, *convolution(1, "pixels", first))
    nodes.append(helper.make_node("Flatten", [name], ["flat"], "flatten", axis=1))
    weights, weight_scale = quantize_weights(given["dense.weight"].T, 1)
    sums = seen["logits"] - given["dense.bias"]
    least, most = min(sums.min(), 0), max(sums.max(), 0)
    result = np.float32((most - least) / 255)
    middle = int(np.rint(-least / result))
    nodes.append(
        helper.make_node(
            "QLinearMatMul",
            ["flat", constant("dense.a_scale", scale), zero("dense.a_zero"), constant("dense.weight", weights),
             constant("dense.b_scale", weight_scale), constant("dense.b_zero", np.zeros(len(weight_scale), np.int8)),
             constant("dense.y_scale", result), zero("dense.y_zero", middle)],
            ["sums"], "dense",
        )
    )  # fmt: skip
    nodes.append(helper.make_node("DequantizeLinear", ["sums", "dense.y_scale", "dense.y_zero"], ["reals"], "dequantize"))
    nodes.append(helper.make_node("Add", ["reals", constant("dense.bias", given["dense.bias"])], ["logits"], "bias"))
    graph = helper.make_graph(nodes, "digits-int8", model.graph.input, model.graph.output, constants)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version, producer_name="quantize.py")


def main():
    images, labels = load_images()
    model = onnx.load(HERE / "digits.onnx")
    quantized = build(model, activations(model, images))
    onnx.checker.check_model(quantized, full_check=True)
    onnx.save(quantized, HERE / "digits-int8.onnx")
    session = onnxruntime.InferenceSession(quantized.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"image": images})[0].argmax(axis=1)
    print(f"digits-int8.onnx: {(HERE / 'digits-int8.onnx').stat().st_size} bytes; {(found == labels).sum()} of {len(labels)}")


if __name__ == "__main__":
    main()
