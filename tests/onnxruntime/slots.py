# SPDX-License-Identifier: Apache-2.0
"""Make a round trip through each slot of ort_abi.h: slots.py LIBRARY HEADER FOLDER

LIBRARY is slots_provider.c, which records each slot that works; HEADER declares the slots. Prints TAP."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

LIBRARY, HEADER, FOLDER = (Path(argument) for argument in sys.argv[1:4])
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
FLOAT = TensorProto.FLOAT

# The bridge and this test's provider use these slots only with onnxruntime 1.28 and later.
MEMORY = re.compile(r"OrtAllocator|OrtDataTransferImpl|OrtKernelImpl|OrtSync|OrtEpFactory\.\w*(Allocator|Stream)"
                    r"|OrtApi\.\w*(MemoryInfo|SyncStream)|OrtEp\.Get(Kernel|Default)"
                    r"|OrtEpApi\.(?!CreateEpDevice|ReleaseEpDevice|AddNodesToFuse)")
LATER = {"OrtApi.TensorTypeAndShape_HasShape": (1, 24), "OrtApi.GetTensorElementTypeAndShapeDataReference": (1, 24)}
# Slots that onnxruntime does not call in this test. Reserve is for initialisers, and a provider
# that takes them over has none. No tested version requests the vendor. All nodes of a run on one
# device share a stream.
NEVER_CALLED = {"OrtAllocator.Reserve", "OrtEpFactory.GetVendorId", "OrtSyncNotificationImpl.WaitOnDevice"}


def slots_of_header():
    """Return the slots that the header declares and this version has."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = {f"{table}.{slot}" for body, table in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.DOTALL)
             for slot in re.findall(r"\(\*(\w+)\)\(", body)}
    return {slot for slot in found - NEVER_CALLED
            if VERSION >= LATER.get(slot, (1, 23)) and (VERSION >= (1, 28) or not MEMORY.match(slot))}


def model():
    def body(name, op, output):
        return helper.make_graph([helper.make_node(op, ["d"], [output])], name, [],
                                 [helper.make_tensor_value_info(output, FLOAT, None)])
    nodes = [helper.make_node("LeakyRelu", ["x"], ["a"], name="first", alpha=0.5),
             helper.make_node("Add", ["a", "w"], ["b"], name="second"),
             helper.make_node("Clip", ["b", "", "m"], ["d"], name="third"),
             helper.make_node("If", ["c"], ["y"], name="fourth", then_branch=body("then", "Neg", "p"),
                              else_branch=body("else", "Abs", "q")),
             helper.make_node("ConstantOfShape", ["k"], ["z"], name="fifth", value=numpy_helper.from_array(np.array([7]))),
             helper.make_node("Gelu", ["d"], ["u"], name="sixth", domain="com.microsoft"),
             helper.make_node("Identity", ["r"], ["s"], name="seventh")]
    inputs = [("x", FLOAT, ["n", 3]), ("c", TensorProto.BOOL, []), ("k", TensorProto.INT64, [1]), ("r", FLOAT, None)]
    outputs = [("y", FLOAT, None), ("z", TensorProto.INT64, None), ("u", FLOAT, None), ("s", FLOAT, None)]
    graph = helper.make_graph(nodes, "the graph", [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs],
                              [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w"),
                               numpy_helper.from_array(np.array(2.5, np.float32), "m")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=8)


def session(device, config=()):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in config:
        options.add_session_config_entry(key, value)
    options.add_provider_for_devices([device], {"word": "a value"})
    return onnxruntime.InferenceSession(model().SerializeToString(), options)


def check_device(device):
    kind = device.device.type
    assert device.ep_vendor == "a vendor" and device.ep_metadata["version"] == "1.2.3", device.ep_metadata
    assert int(device.ep_metadata["type"]) == int(getattr(kind, "value", kind)), (device.ep_metadata, kind)
    if VERSION >= (1, 28):
        memory = device.memory_info(onnxruntime.OrtDeviceMemoryType.DEFAULT)
        assert (memory.name, memory.device_id, memory.device_vendor_id) == ("slots", 3, 0x534C4F), memory


def check_runs(device):
    x = np.array([[-4, 1, -2], [0, -0.5, 3]], np.float32)
    feed = {"x": x, "c": np.array(True), "k": np.array([2]), "r": x}
    ours = session(device)
    assert ours.get_providers()[0] == "slots", ours.get_providers()
    y, z, _, s = ours.run(None, feed)
    b = np.where(x < 0, 0.5 * x, x) + np.array([1, 2, 3], np.float32)
    assert np.array_equal(y, -np.minimum(b, np.float32(2.5))) and z.tolist() == [7, 7] and np.array_equal(s, x), (y, z, s)


def check_kept(device):
    path = FOLDER / "slots-kept.onnx"
    path.unlink(missing_ok=True)
    session(device, [("ep.context_enable", "1"), ("ep.context_file_path", str(path))])
    kept = next(node for node in onnx.load(path).graph.node if node.op_type == "EPContext")
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in kept.attribute}
    wanted = {"embed_mode": 1, "main_context": 1, "ep_cache_context": b"kept"}
    assert list(kept.input) == ["x"] and list(kept.output) == ["b"] and wanted.items() <= values.items(), kept


def main():
    seen_path = FOLDER / "slots-seen"
    seen_path.unlink(missing_ok=True)
    os.environ["BP_SLOTS"] = str(seen_path)
    onnxruntime.register_execution_provider_library("slots", str(LIBRARY))
    device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == "slots")
    check_device(device)
    check_runs(device)
    check_kept(device)
    del device
    onnxruntime.unregister_execution_provider_library("slots")
    lines = {tuple(line.split()) for line in seen_path.read_text().splitlines()}
    wrong = sorted(slot for slot, state in lines if state == "wrong")
    unseen = sorted(slots_of_header() - {slot for slot, _ in lines})
    print(f"# {len(lines)} slots of onnxruntime {onnxruntime.__version__}")
    print(f"1..2\n{'not ' * bool(wrong)}ok 1 /onnxruntime/slots-do-what-they-should {wrong or ''}")
    print(f"{'not ' * bool(unseen)}ok 2 /onnxruntime/each-slot-is-called {unseen or ''}")


if __name__ == "__main__":
    main()
