# SPDX-License-Identifier: Apache-2.0
"""onnxruntime_values MODEL FOLDER INPUT FILE [INPUT FILE...]: computes the value of each node of an ONNX file with
onnxruntime, without optimisations. Writes the values as .npy files to the folder, and their names to stdout as
JSON. `backplane compare --onnxruntime` runs it."""
import json
import sys

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    sys.exit(f"{error}; install the Python packages onnxruntime and onnx, or name a Python that has them with BACKPLANE_PYTHON")


def show_nodes(model):
    """Make each node's first output an output of the model."""
    known = {value.name for value in model.graph.output}
    for node in model.graph.node:
        if node.output and node.output[0] and node.output[0] not in known:
            known.add(node.output[0])
            model.graph.output.add(name=node.output[0])


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, feeds)))


def main(path, folder, *inputs):
    model = onnx.load(path)
    outputs = [value.name for value in model.graph.output]
    show_nodes(model)
    values = run(model, {name: numpy.load(file) for name, file in zip(inputs[::2], inputs[1::2])})
    files = {}
    for name, value in values.items():
        # The .npy format has no sequences, no strings, and none of the types that numpy lacks.
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            files[name] = f"{folder}/value-{len(files)}.npy"
            numpy.save(files[name], value)
    nodes = [{"name": name, "file": files[node.output[0]]} for node in model.graph.node
             if node.output and node.output[0] in files for name in {node.name, node.output[0]} if name]
    print(json.dumps({"version": onnxruntime.__version__, "nodes": nodes,
                      "outputs": [{"name": name, "file": files.get(name)} for name in outputs]}))


main(*sys.argv[1:])
