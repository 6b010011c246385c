#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a language model of the llama architecture as ONNX, with open lengths.

    write_onnx.py MODEL.gguf OUT.onnx [--weights float32|4-bit]
    write_onnx.py --tiny OUT.onnx [--weights float32|4-bit]

Inputs are input_ids [1, length] and, for each block, past_key_N and past_value_N [1, heads, past, size].
Outputs are the logits of the last token [1, words], and present_key_N and present_value_N [1, heads, past +
length, size], the past of the next step. Weights lie in OUT.onnx.data beside the model, the tokenizer in
OUT.tokenizer.json. With --tiny the weights are random and there is no tokenizer.

With 4-bit weights, products with Q4_1 and Q8_0 weights become MatMulNBits of com.microsoft. The embedding
keeps its 8 bits; the file contains it once.
"""

import argparse
import json

import gguf
import numpy as np
import onnx
from onnx import TensorProto, helper

BLOCK = 32  # weights that share a scale, in GGUF and here


class File:
    """An ONNX model under construction. Nodes are added by the names of their inputs and outputs."""

    def __init__(self, path):
        self.path = path
        self.data = open(path + ".data", "wb")
        self.nodes, self.weights = [], []

    def weight(self, name, array):
        """Append a constant, and write its elements to the data file at once."""
        array = np.asarray(array)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = TensorProto(name=name, dims=array.shape, data_type=dtype)
        if array.nbytes < 1024:
            tensor.raw_data = array.tobytes()
        else:
            self.data.seek(-self.data.tell() % 64, 1)
            place = {"location": self.path.split("/")[-1] + ".data", "offset": self.data.tell(),
                     "length": array.nbytes}
            self.data.write(np.ascontiguousarray(array))
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
        self.weights.append(tensor)
        return name

    def ints(self, *values):
        name = "ints_" + "_".join(map(str, values))
        if all(known.name != name for known in self.weights):
            self.weight(name, np.array(values, np.int64))
        return name

    def op(self, op_type, *inputs, outputs=None, domain="", **attributes):
        names = outputs or [f"{op_type}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op_type, inputs, names, names[0], domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def save(self, inputs, outputs):
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        graph = helper.make_graph(self.nodes, "language_model", inputs, outputs, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), self.path)
        self.data.close()


# ---- Weights -----------------------------------------------------------------------------------


def quantise(kind, weight):
    """Return the bytes of a matrix, in the form of GGUF."""
    return kind, gguf.quants.quantize(weight, kind)


class GgufSource:
    """The description of a model in a GGUF file, and its weights."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents for name, field in reader.fields.items()}
        if fields["general.architecture"]() != "llama":
            raise SystemExit(f"{path}: architecture {fields['general.architecture']()}; expected llama")
        self.fields = fields
        self.width = fields["llama.embedding_length"]()
        self.blocks = fields["llama.block_count"]()
        self.heads = fields["llama.attention.head_count"]()
        self.kv_heads = fields["llama.attention.head_count_kv"]()
        self.base = fields["llama.rope.freq_base"]()
        self.epsilon = fields["llama.attention.layer_norm_rms_epsilon"]()
        self.tensors = {t.name: (t.tensor_type, t.data) for t in reader.tensors}

    def tokenizer(self):
        """Return the tokenizer in the form of the package `tokenizers`."""
        words = self.fields["tokenizer.ggml.tokens"]()
        kinds = self.fields["tokenizer.ggml.token_type"]()
        special = [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False, "special": True}
                   for i, word in enumerate(words) if kinds[i] == gguf.TokenType.CONTROL]
        bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        split = {"type": "Sequence",
                 "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_]}
        pairs = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                 "vocab": {word: i for i, word in enumerate(words)},
                 "merges": self.fields["tokenizer.ggml.merges"]()}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
                "normalizer": None, "pre_tokenizer": split, "post_processor": None, "decoder": bytes_,
                "model": pairs}


class TinySource:
    """Two blocks of width 64 with random weights, quantised as the weights of the real file."""

    width, blocks, heads, kv_heads, base, epsilon = 64, 2, 4, 2, 10000.0, 1e-5
    words, inner = 320, 96

    def __init__(self):
        random = np.random.default_rng(7)

        def matrix(rows, columns, kind=gguf.GGMLQuantizationType.Q4_1):
            return quantise(kind, random.standard_normal((rows, columns), np.float32) / np.sqrt(columns))

        def scales():
            return gguf.GGMLQuantizationType.F32, random.uniform(0.5, 1.5, self.width).astype(np.float32)

        kv = self.width // self.heads * self.kv_heads
        rows = {"attn_q": (self.width, self.width), "attn_k": (kv, self.width), "attn_v": (kv, self.width),
                "attn_output": (self.width, self.width), "ffn_gate": (self.inner, self.width),
                "ffn_up": (self.inner, self.width), "ffn_down": (self.width, self.inner)}
        self.tensors = {"token_embd.weight": matrix(self.words, self.width, gguf.GGMLQuantizationType.Q8_0),
                        "output_norm.weight": scales()}
        for block in range(self.blocks):
            for name, shape in rows.items():
                self.tensors[f"blk.{block}.{name}.weight"] = matrix(*shape)
            for name in "attn_norm", "ffn_norm":
                self.tensors[f"blk.{block}.{name}.weight"] = scales()

    def tokenizer(self):
        return None


def unpermute(rows, heads):
    """Reorder the rotated rows: GGUF interleaves the two halves; in the result the second half follows the
    first."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def q4_1(data):
    """Convert Q4_1 to the form of MatMulNBits: bytes [rows, blocks, 16], scales and zeros [rows, blocks]."""
    blocks = data.reshape(data.shape[0], -1, 20)
    scale, least = np.moveaxis(blocks[..., :4].copy().view(np.float16).astype(np.float32), -1, 0)
    numbers = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], -1)
    zero = -least / np.where(scale == 0, 1, scale)
    # A block of equal weights has scale 0: (0 - -1) * weight.
    numbers = np.where(scale[..., None] == 0, 0, numbers).astype(np.uint8)
    zero, scale = np.where(scale == 0, -1, zero), np.where(scale == 0, least, scale)
    return numbers[..., ::2] | numbers[..., 1::2] << 4, scale, zero.astype(np.float32)


def q8_0(data):
    """Convert Q8_0 to the form of MatMulNBits: bytes [rows, blocks, 32], scales [rows, blocks]; each zero is
    128."""
    blocks = data.reshape(data.shape[0], -1, 34)
    scale = blocks[..., :2].copy().view(np.float16)[..., 0].astype(np.float32)
    return blocks[..., 2:] ^ 128, scale, None


# ---- The model ---------------------------------------------------------------------------------


class Writer:
    def __init__(self, source, file, few_bits):
        self.source, self.file, self.op = source, file, file.op
        self.few_bits = few_bits
        self.size = source.width // source.heads

    def floats(self, name):
        return gguf.quants.dequantize(self.source.tensors[name][1], self.source.tensors[name][0])

    def product(self, x, name, heads=0):
        """Multiply x with the transpose of a weight. With `heads`, the weight's rows are reordered for each
        head."""
        kind, data = self.source.tensors[name]
        data = unpermute(data, heads) if heads else data
        if self.few_bits and kind == gguf.GGMLQuantizationType.Q4_1:
            return self.product_of_bits(x, name, 4, *q4_1(data))
        return self.op("MatMul", x, self.file.weight(name, gguf.quants.dequantize(data, kind).T))

    def product_of_bits(self, x, name, bits, numbers, scale, zero):
        names = [self.file.weight(name, numbers), self.file.weight(name + ".scale", scale)]
        if zero is not None:
            names.append(self.file.weight(name + ".zero", zero))
        return self.nbits(x, names, bits, numbers.shape)

    def nbits(self, x, names, bits, shape):
        return self.op("MatMulNBits", x, *names, domain="com.microsoft", bits=bits, block_size=BLOCK,
                       N=shape[0], K=shape[1] * BLOCK)

    def norm(self, x, name):
        """Divide x by the root of the mean of its squares, and multiply by a weight."""
        squares = self.op("ReduceMean", self.op("Mul", x, x), self.file.ints(-1), keepdims=1)
        root = self.op("Sqrt", self.op("Add", squares, self.epsilon))
        return self.op("Mul", self.op("Div", x, root), self.file.weight(name, self.floats(name)))

    def rotate(self, x):
        """Rotate each pair of elements [..., i] and [..., i + size / 2] by its angle."""
        halves = [f"{x}_low", f"{x}_high"]
        low, high = self.op("Split", x, outputs=halves, axis=-1, num_outputs=2)
        mul, add, sub = (lambda *xs, o=o: self.op(o, *xs) for o in ("Mul", "Add", "Sub"))
        turned = (sub(mul(low, self.cos), mul(high, self.sin)), add(mul(high, self.cos), mul(low, self.sin)))
        return self.op("Concat", *turned, axis=-1)

    def split_heads(self, x, *heads):
        """Transpose [1, length, width] to [1, heads..., length, size]."""
        apart = self.op("Reshape", x, self.file.ints(1, -1, *heads, self.size))
        places = range(2, 2 + len(heads))
        return self.op("Transpose", apart, perm=[0, *places, 1, 2 + len(heads)])

    def remember(self, kind, block, x):
        return self.op("Concat", f"past_{kind}_{block}", x, outputs=[f"present_{kind}_{block}"], axis=2)

    def attention(self, x, block):
        """Append attention. Heads that share a key are rows of one product."""
        kv, each = self.source.kv_heads, self.source.heads // self.source.kv_heads
        name = f"blk.{block}.attn_{{}}.weight".format
        q = self.rotate(self.split_heads(self.product(x, name("q"), self.source.heads), kv, each))
        k = self.rotate(self.split_heads(self.product(x, name("k"), kv), kv))
        v = self.split_heads(self.product(x, name("v")), kv)
        keys, values = self.remember("key", block, k), self.remember("value", block, v)
        rows = self.op("Reshape", self.op("Mul", q, self.scale), self.file.ints(1, kv, -1, self.size))
        scores = self.op("MatMul", rows, self.op("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = self.op("Reshape", scores, self.scores_shape)
        weights = self.op("Softmax", self.op("Where", self.seen, scores, self.never), axis=-1)
        mixed = self.op("MatMul", self.op("Reshape", weights, self.rows_shape), values)
        mixed = self.op("Reshape", mixed, self.heads_shape)
        mixed = self.op("Transpose", mixed, perm=[0, 3, 1, 2, 4])
        joined = self.op("Reshape", mixed, self.file.ints(1, -1, self.source.width))
        return self.product(joined, name("output"))

    def feed_forward(self, x, block):
        name = f"blk.{block}.ffn_{{}}.weight".format
        gate = self.product(x, name("gate"))
        gate = self.op("Mul", gate, self.op("Sigmoid", gate))
        return self.product(self.op("Mul", gate, self.product(x, name("up"))), name("down"))

    def embed(self):
        kind, data = self.source.tensors["token_embd.weight"]
        if not self.few_bits:
            name = self.file.weight("embedding", gguf.quants.dequantize(data, kind))
            return self.op("Gather", name, "input_ids"), lambda x: self.op("Gemm", x, name, transB=1)
        numbers, scale, _ = q8_0(data)
        names = self.file.weight("embedding", numbers), self.file.weight("embedding.scale", scale[..., None])
        codes = self.op("Cast", self.op("Gather", names[0], "input_ids"), to=TensorProto.FLOAT)
        middle = self.file.weight("embedding.zero", np.float32(128))
        x = self.op("Mul", self.op("Sub", codes, middle), self.op("Gather", names[1], "input_ids"))
        flat = self.op("Reshape", names[1], self.file.ints(-1))
        return (self.op("Reshape", x, self.file.ints(1, -1, self.source.width)),
                lambda x: self.nbits(x, (names[0], flat), 8, numbers.shape))

    def positions(self):
        """Append the values that all blocks share: angles, the mask of visible keys, shapes."""
        op, ints, source = self.op, self.file.ints, self.source
        length = op("Shape", "input_ids", start=1, end=2)
        past = op("Shape", "past_key_0", start=2, end=3)
        total = op("Add", past, length)
        count = self.file.weight("one", np.int64(1))
        keys = op("Range", self.file.weight("none", np.int64(0)), op("Squeeze", total), count)
        own = op("Range", op("Squeeze", past), op("Squeeze", total), count)
        rows = op("Unsqueeze", own, ints(1))
        speeds = source.base ** (-np.arange(0, self.size, 2, dtype=np.float64) / self.size)
        angles = op("Mul", op("Cast", rows, to=TensorProto.FLOAT),
                    self.file.weight("speeds", speeds.astype(np.float32)))
        self.cos, self.sin = op("Cos", angles), op("Sin", angles)
        self.seen = op("LessOrEqual", keys, rows)
        kv, each = source.kv_heads, source.heads // source.kv_heads
        self.scores_shape = op("Concat", ints(1, kv, each), length, total, axis=0)
        self.rows_shape = op("Concat", ints(1, kv, -1), total, axis=0)
        self.heads_shape = op("Concat", ints(1, kv, each), length, ints(self.size), axis=0)

    def write(self):
        source, constant = self.source, self.file.weight
        self.epsilon = constant("epsilon", np.float32(source.epsilon))
        self.scale = constant("scale", np.float32(self.size ** -0.5))
        self.never = constant("never", np.float32(-np.inf))
        self.positions()
        x, head = self.embed()
        for block in range(source.blocks):
            x = self.op("Add", x, self.attention(self.norm(x, f"blk.{block}.attn_norm.weight"), block))
            x = self.op("Add", x, self.feed_forward(self.norm(x, f"blk.{block}.ffn_norm.weight"), block))
        last = self.op("Gather", x, constant("last", np.int64(-1)), axis=1)
        logits = head(self.norm(last, "output_norm.weight"))
        self.file.nodes[-1].output[0] = "logits"
        self.save(logits)

    def save(self, logits):
        def value(name, dtype, *shape):
            return helper.make_tensor_value_info(name, dtype, shape)

        def cache(name, length):
            return [value(f"{name}_{kind}_{block}", TensorProto.FLOAT, 1, self.source.kv_heads, length, self.size)
                    for block in range(self.source.blocks) for kind in ("key", "value")]

        words = len(self.source.tensors["token_embd.weight"][1])
        self.file.save([value("input_ids", TensorProto.INT64, 1, "length"), *cache("past", "past")],
                       [value("logits", TensorProto.FLOAT, 1, words), *cache("present", "total")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gguf", nargs="?", help="a model of the llama architecture")
    parser.add_argument("onnx", help="the file to write")
    parser.add_argument("--tiny", action="store_true", help="two small blocks with random weights instead")
    parser.add_argument("--weights", choices=("float32", "4-bit"), default="float32")
    options = parser.parse_args()
    if bool(options.gguf) == options.tiny:
        parser.error("give a GGUF file or --tiny")
    source = TinySource() if options.tiny else GgufSource(options.gguf)
    Writer(source, File(options.onnx), options.weights == "4-bit").write()
    if source.tokenizer():
        with open(options.onnx.removesuffix(".onnx") + ".tokenizer.json", "w", encoding="utf-8") as file:
            json.dump(source.tokenizer(), file, ensure_ascii=False)


if __name__ == "__main__":
    main()
