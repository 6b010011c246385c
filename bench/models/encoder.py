# SPDX-License-Identifier: Apache-2.0
"""The sentence encoder all-MiniLM-L6-v2 as ONNX, written from its weights as PyTorch's
exporter would: six layers of 384 with 12 heads. Its only input is input_ids, int64
[batch, tokens], with both extents open; token 0 is padding and is masked. Its output is
last_hidden_state."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

LAYERS, SIZE, HEADS, EPSILON = 6, 384, 12, 1e-12
HEAD = SIZE // HEADS


class Writer:
    """A growing graph; each method appends nodes and returns the name of their result."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.setdefault(name, numpy_helper.from_array(value, name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def number(self, value: float) -> str:
        return self.constant(f"number {value}", np.float32(value))

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        result = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], result, **attributes))
        return result

    def linear(self, x: str, name: str) -> str:
        transposed = np.ascontiguousarray(self.weights[f"{name}.weight"].T)
        product = self.node("MatMul", x, self.constant(f"{name}.transposed", transposed))
        return self.node("Add", product, self.weight(f"{name}.bias"))

    def normalize(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.number(2**0.5)))
        doubled = self.node("Mul", x, self.node("Add", erf, self.number(1)))
        return self.node("Mul", doubled, self.number(0.5))

    def heads(self, x: str, *perm: int) -> str:
        shape = self.constant("heads", np.array([0, 0, HEADS, HEAD], np.int64))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=perm)

    def attention(self, x: str, mask: str, name: str) -> str:
        query = self.heads(self.linear(x, f"{name}.self.query"), 0, 2, 1, 3)
        key = self.heads(self.linear(x, f"{name}.self.key"), 0, 2, 3, 1)
        value = self.heads(self.linear(x, f"{name}.self.value"), 0, 2, 1, 3)
        scores = self.node("Div", self.node("MatMul", query, key), self.number(HEAD**0.5))
        weights = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", weights, value), perm=[0, 2, 1, 3])
        shape = self.constant("joined", np.array([0, 0, SIZE], np.int64))
        dense = self.linear(self.node("Reshape", mixed, shape), f"{name}.output.dense")
        return self.normalize(self.node("Add", dense, x), f"{name}.output.LayerNorm")

    def layer(self, x: str, mask: str, name: str) -> str:
        x = self.attention(x, mask, f"{name}.attention")
        inner = self.gelu(self.linear(x, f"{name}.intermediate.dense"))
        outer = self.linear(inner, f"{name}.output.dense")
        return self.normalize(self.node("Add", outer, x), f"{name}.output.LayerNorm")

    def embeddings(self, tokens: str) -> str:
        words = self.node("Gather", self.weight("embeddings.word_embeddings.weight"), tokens)
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        typed = self.node("Add", words, self.constant("embeddings.type", types))
        length = self.node("Shape", tokens, start=1, end=2)
        zero = self.constant("zero", np.array([0], np.int64))
        table = self.weight("embeddings.position_embeddings.weight")
        placed = self.node("Add", typed, self.node("Slice", table, zero, length))
        return self.normalize(placed, "embeddings.LayerNorm")

    def mask(self, tokens: str) -> str:
        """The mask [batch, 1, 1, tokens]: the lowest number where the token is padding."""
        padding = self.node("Equal", tokens, self.constant("padding", np.int64(0)))
        number = self.node("Cast", padding, to=TensorProto.FLOAT)
        lowest = self.number(float(np.finfo(np.float32).min))
        axes = self.constant("axes", np.array([1, 2], np.int64))
        return self.node("Unsqueeze", self.node("Mul", number, lowest), axes)


def write_encoder(weights: Path, path: Path) -> None:
    writer = Writer(load_file(weights))
    mask, x = writer.mask("input_ids"), writer.embeddings("input_ids")
    for i in range(LAYERS):
        x = writer.layer(x, mask, f"encoder.layer.{i}")
    writer.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    value, dims = helper.make_tensor_value_info, ["batch", "tokens"]
    graph = helper.make_graph(
        writer.nodes,
        "encoder",
        [value("input_ids", TensorProto.INT64, dims)],
        [value("last_hidden_state", TensorProto.FLOAT, [*dims, SIZE])],
        list(writer.constants.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, path)
