# SPDX-License-Identifier: Apache-2.0
"""Test the execution provider inside onnxruntime: provider_cases.py LIBRARY PACKAGE FOLDER DIGITS [--all]

A session with the provider has the outputs of a session with onnxruntime's CPU provider, or the outputs that ONNX
expects. The tests run ONNX's node cases (a fixed subset, or all with --all), models that are divided, and models
with open shapes, bodies and options. LIBRARY is the bridge, PACKAGE the folder of the Python package, FOLDER may
be written to, DIGITS is an ONNX file. Prints TAP."""

import json
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from itertools import groupby
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

warnings.filterwarnings("ignore")
LIBRARY, PACKAGE, FOLDER, DIGITS = (Path(argument) for argument in sys.argv[1:5])
os.environ["BACKPLANE_ONNXRUNTIME_LIBRARY"] = str(LIBRARY)
sys.path[:0] = [str(PACKAGE), str(Path(__file__).parents[1] / "graph")]
import onnxruntime_ep_backplane as package  # noqa: E402
from onnx_node_cases import all_cases  # noqa: E402

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
MEMORY_SINCE = (1, 28)  # first version with memory of devices
RANDOM = np.random.RandomState(1)
FLOAT = TensorProto.FLOAT
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
onnxruntime.set_default_logger_severity(4)

# Operators of each kind of computation, and operators with bodies.
SUBSET = {"Conv", "ConvTranspose", "MaxPool", "MatMul", "Gemm", "Softmax", "LayerNormalization", "Gather", "Where", "Resize",
          "LSTM", "If", "Loop", "Scan", "TopK", "NonZero", "QLinearConv", "CumSum", "Einsum", "Cast", "Reshape", "Range"}
CASES_OF_EACH = 2
# Cases that onnxruntime's CPU provider computes differently from ONNX, or with different rounding.
OPEN = ("bernoulli", "random", "dropout")


def devices(kind="cpu"):
    return [device for device in onnxruntime.get_ep_devices()
            if device.ep_name == package.get_ep_name() and device.ep_metadata["backplane_device"].startswith(kind)]


def session(model, options=None, config=None, kind="cpu", severity=4):
    """Return a session on Backplane's device of the kind. `model` is a model or a path."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = severity
    for key, value in (config or {}).items():
        settings.add_session_config_entry(key, value)
    settings.add_provider_for_devices(devices(kind)[:1], options or {})
    source = str(model) if isinstance(model, (str, Path)) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, settings)


def on_cpu(model):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    source = str(model) if isinstance(model, (str, Path)) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, settings, providers=["CPUExecutionProvider"])


def difference(got, want):
    """Return the reason why an output is wrong, or None. The rounding error of a sum is relative to its largest
    terms."""
    if isinstance(want, list):
        return next((why for why in map(difference, got, want) if why), None) if len(got) == len(want) else "length"
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    finite = np.abs(want[np.isfinite(want)]) if want.dtype.kind == "f" else np.zeros(0)
    atol = 1e-5 + 5e-6 * float(finite.max(initial=0))
    same = np.allclose(got, want, 1e-3, atol, equal_nan=True) if want.dtype.kind == "f" else np.array_equal(got, want)
    return None if same else f"{got.ravel()[:8]}, not {want.ravel()[:8]}"


def check_same(model, feeds, options=None, config=None):
    """Compare a session of Backplane with one on the CPU provider. Return Backplane's session and its report."""
    ours = session(model, options, config)
    for feed in feeds if isinstance(feeds, list) else [feeds]:
        for got, want in zip(ours.run(None, feed), on_cpu(model).run(None, feed)):
            why = difference(got, want)
            assert why is None, why
    return ours, package.report()[-1]


def graph_model(nodes, inputs, outputs, initializers=(), opsets=None):
    """Return a model. `inputs` and `outputs` are lists of (name, element type, shape)."""
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info(*each) for each in inputs],
                              [helper.make_tensor_value_info(*each) for each in outputs],
                              [numpy_helper.from_array(value, name) for name, value in initializers])
    return helper.make_model(graph, opset_imports=opsets or OPSETS, ir_version=8)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


# ---- Models ----------------------------------------------------------------------------------------


def divided_model():
    """Return a model of two convolutions with a node of ai.onnx.ml between them, which Backplane lacks, and a small
    Add."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
             helper.make_node("Reshape", ["a", "flat"], ["b"]),
             helper.make_node("Scaler", ["b"], ["c"], name="scaler", domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
             helper.make_node("Reshape", ["c", "square"], ["d"]),
             helper.make_node("Conv", ["d", "v"], ["y"], name="second"),
             helper.make_node("Add", ["s", "s"], ["t"], name="small"),
             helper.make_node("Scaler", ["t"], ["z"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0])]
    return graph_model(nodes, [("x", FLOAT, [1, 8, 66, 66]), ("s", FLOAT, [1, 2])],
                       [("y", FLOAT, None), ("z", FLOAT, None)],
                       [("w", floats(32, 8, 3, 3)), ("v", floats(32, 32, 3, 3)), ("flat", np.array([1, -1])),
                        ("square", np.array([1, 32, 64, 64]))])


def divided_feed():
    return {"x": floats(1, 8, 66, 66), "s": floats(1, 2)}


def branches_model():
    """Return a model of an If, both bodies of which read a constant of the outer graph."""
    def body(name, op):
        return helper.make_graph([helper.make_node(op, ["x", "w"], [name])], name, [],
                                 [helper.make_tensor_value_info(name, FLOAT, [2, 3])])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body("p", "Add"), else_branch=body("q", "Mul"))]
    return graph_model(nodes, [("c", TensorProto.BOOL, []), ("x", FLOAT, [2, 3])], [("y", FLOAT, [2, 3])],
                       [("w", floats(2, 3))])


# ---- Tests ------------------------------------------------------------------------------------------


def devices_are_offered():
    assert devices(), "no device of the kind cpu"
    device = devices()[0]
    assert device.ep_vendor == "Backplane" and device.ep_metadata["backplane_device"] == "cpu:0", device.ep_metadata


def provider_is_taken_by_name():
    ours = onnxruntime.InferenceSession(str(DIGITS), providers=["backplane", "CPUExecutionProvider"],
                                        provider_options=[{"device": "cpu"}, {}])
    assert ours.get_providers()[0] == "backplane", ours.get_providers()
    assert package.report()[-1]["device"] == "cpu:0"


def open_batch_gives_each_size():
    feeds = [{"image": floats(size, 1, 28, 28)} for size in (1, 3, 2, 1)]
    _, report = check_same(DIGITS, feeds)
    assert report["claimed"] == report["nodes"] > 0, report


def graph_is_divided_where_a_node_is_missing():
    _, report = check_same(divided_model(), divided_feed())
    left = {entry["node"]: entry["why"] for entry in report["left"]}
    assert report["parts"] == 2, report
    assert "Scaler" in left["scaler"] and "does not become faster" in left["small"], left


def all_that_can_be_is_claimed_on_request():
    _, report = check_same(divided_model(), divided_feed(), {"claim": "all"})
    assert report["parts"] == 3 and "small" not in {entry["node"] for entry in report["left"]}, report


def refused_nodes_fail_a_strict_session():
    try:
        session(divided_model(), config={"session.disable_cpu_ep_fallback": "1"})
    except Exception as error:
        assert "fallback" in str(error), error
    else:
        raise AssertionError("the session was made")


def strict_session_runs_if_all_is_claimed():
    check_same(DIGITS, {"image": floats(2, 1, 28, 28)}, config={"session.disable_cpu_ep_fallback": "1"})


def expect_error(text, options):
    """onnxruntime 1.28 and later raise the error; earlier, onnxruntime's Python code prints it and goes on without
    the provider."""
    try:
        with redirect_stdout(StringIO()) as said:
            made = session(DIGITS, options)
        assert VERSION < (1, 28) and "backplane" not in made.get_providers(), "the session was made"
        assert text in said.getvalue(), said.getvalue()
    except AssertionError:
        raise
    except Exception as error:
        assert text in str(error), error


def wrong_options_are_errors():
    expect_error("has no option 'devcie'; it has: device, target", {"devcie": "cpu"})
    expect_error("a number from 1 to 1024", {"threads": "none"})
    expect_error("\"paying\"", {"claim": "some"})
    expect_error("absolute path", {"cache": "here"})
    expect_error("cpu:7", {"device": "cpu:7"})
    expect_error("does not run on cpu:0", {"target": "opencl"})
    expect_error("'nosuch'", {"target": "nosuch"})
    expect_error("no installed plugin has a graph compiler", {"graph_compilers": "nosuch"})


def options_are_used():
    ours = session(DIGITS, {"device": "cpu", "target": "c", "threads": "2", "cache": str(FOLDER / "cache")})
    assert package.report()[-1]["target"].startswith("c"), package.report()
    assert any((FOLDER / "cache").iterdir()), "nothing is in the cache"
    del ours
    session(DIGITS, {"cache": os.environ["BACKPLANE_CACHE_DIR"]})


def closed_sessions_leave_the_report():
    before = len(package.report())
    ours = session(DIGITS)
    assert len(package.report()) == before + 1
    del ours
    assert len(package.report()) == before


def threads_share_a_session(kind="cpu"):
    ours = session(DIGITS, {"claim": "all"}, kind=kind)
    wanted = on_cpu(DIGITS)
    problems = []

    def work(seed):
        image = np.random.RandomState(seed).rand(1 + seed % 3, 1, 28, 28).astype(np.float32)
        want = wanted.run(None, {"image": image})[0]
        for _ in range(30):
            why = difference(ours.run(None, {"image": image})[0], want)
            if why:
                problems.append(why)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]


def sessions_are_made_at_once():
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: session(DIGITS), range(4)))
    image = floats(1, 1, 28, 28)
    want = on_cpu(DIGITS).run(None, {"image": image})[0]
    for ours in made:
        assert difference(ours.run(None, {"image": image})[0], want) is None


def bodies_are_claimed_with_their_node():
    feeds = [{"c": np.array(flag), "x": floats(2, 3)} for flag in (True, False)]
    if VERSION >= (1, 28):  # an older one does not pass what bodies read
        _, report = check_same(branches_model(), feeds)
        assert report["claimed"] == report["nodes"], report
    else:
        check_same(branches_model(), feeds)


def initializer_that_is_an_input_can_be_set():
    model = graph_model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, [4]), ("w", FLOAT, [4])],
                        [("y", FLOAT, [4])], [("w", floats(4))])
    check_same(model, [{"x": floats(4)}, {"x": floats(4), "w": floats(4)}])


def elements_of_each_type_pass():
    for kind in (np.float16, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64, np.bool_):
        element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        model = graph_model([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], [("x", element, [3])],
                            [("y", element, [6])])
        _, report = check_same(model, {"x": np.array([0, 1, 1]).astype(kind)})
        assert report["claimed"] == 1, (kind, report)


def empty_tensors_pass():
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])])
    check_same(model, [{"x": floats(0, 3)}, {"x": floats(2, 3)}, {"x": floats(0, 3)}])


def unaligned_inputs_are_copied():
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])])
    unaligned = np.frombuffer(bytearray(4 * 6 + 1), np.float32, 6, 1).reshape(2, 3)
    unaligned[...] = RANDOM.randn(2, 3)
    assert not unaligned.flags.aligned
    check_same(model, [{"x": unaligned}, {"x": floats(2, 3)}, {"x": unaligned}])


def names_that_are_not_utf8_are_reported():
    model = graph_model([helper.make_node("Scaler", ["x"], ["y"], "aXb", domain="ai.onnx.ml", offset=[0.0], scale=[1.0])],
                        [("x", FLOAT, [1, 2])], [("y", FLOAT, [1, 2])])
    path = FOLDER / "not-utf8.onnx"
    for name, shown in ((b"a\xffb", "a\ufffdb"), (b"\xe2\x82", "\ufffd\ufffd"), ("\u20ac".encode(), "\u20ac"), (b'a"\n', 'a"\n')):
        source = model.SerializeToString().replace(b"aXb", name.ljust(3, b"."))
        path.write_bytes(source)
        ours = session(path)
        assert package.report()[-1]["left"][0]["node"] == shown + "." * (3 - len(name)), package.report()
        del ours


def wrong_shape_is_an_error_and_the_session_goes_on():
    model = graph_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, ["n", "k"])], [("y", FLOAT, None)],
                        [("w", floats(8, 4))])
    ours, _ = check_same(model, {"x": floats(2, 8)})
    try:
        ours.run(None, {"x": floats(2, 7)})
    except Exception as error:
        assert "7" in str(error) or "8" in str(error), error
    else:
        raise AssertionError("it ran")
    assert ours.run(None, {"x": floats(3, 8)})[0].shape == (3, 4)


def nothing_to_claim_is_said():
    model = graph_model([helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0])],
                        [("x", FLOAT, [1, 2])], [("y", FLOAT, [1, 2])])
    _, report = check_same(model, {"x": floats(1, 2)})
    assert report["claimed"] == 0 and "Scaler" in report["left"][0]["why"], report


def kept_model_holds_the_parts():
    """A model of EPContext nodes runs as its original model, and does not need it."""
    path = FOLDER / "kept.onnx"
    for model, feed in ((onnx.load(DIGITS), {"image": floats(2, 1, 28, 28)}), (divided_model(), divided_feed())):
        path.unlink(missing_ok=True)
        session(model, config={"ep.context_enable": "1", "ep.context_file_path": str(path)})
        kept = onnx.load(path)
        assert any(node.op_type == "EPContext" for node in kept.graph.node), kept.graph.node
        ours = session(path)
        for got, want in zip(ours.run(None, feed), on_cpu(model).run(None, feed)):
            assert difference(got, want) is None


def expect_no_session(model):
    try:
        session(model)
    except Exception as error:
        assert "EPContext" in str(error), error
    else:
        raise AssertionError("the session was made")


def damaged_context_is_an_error():
    path = FOLDER / "damaged.onnx"
    session(DIGITS, config={"ep.context_enable": "1", "ep.context_file_path": str(path)})
    model = onnx.load(path)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = attribute.s[:len(attribute.s) // 2]
    expect_no_session(model)


def context_model(inner, inputs, outputs, initializers=()):
    """Return a model of one node with `inner`, which has the given inputs, initializers and outputs."""
    names = [name for name, *_ in inputs] + [name for name, _ in initializers]
    node = helper.make_node("EPContext", names, [name for name, *_ in outputs], domain="com.microsoft", main_context=1,
                            embed_mode=1, source="Backplane", ep_cache_context=inner.SerializeToString())
    return graph_model([node], inputs, outputs, initializers, [*OPSETS, helper.make_opsetid("com.microsoft", 1)])


def context_of_other_types_is_an_error():
    """The model in a node reads and writes as many bytes as its own types have, whatever types the node has."""
    for types in ((FLOAT, TensorProto.DOUBLE, FLOAT, FLOAT), (TensorProto.DOUBLE, FLOAT, FLOAT, FLOAT),
                  (FLOAT, FLOAT, TensorProto.INT64, FLOAT), (FLOAT, FLOAT, FLOAT, TensorProto.INT8)):
        inner = graph_model([helper.make_node("Cast", ["x"], ["y"], to=types[1])], [("x", types[0], [4])], [("y", types[1], [4])])
        expect_no_session(context_model(inner, [("x", types[2], [4])], [("y", types[3], [4])]))


def context_without_an_output_of_its_node_is_an_error():
    inner = graph_model([helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, [4])], [("y", FLOAT, [4])])
    expect_no_session(context_model(inner, [("x", FLOAT, [4])], [("y", FLOAT, [4]), ("z", FLOAT, [4])]))


def context_of_a_sequence_is_an_error():
    inner = graph_model([helper.make_node("SequenceConstruct", ["x"], ["y"])], [("x", FLOAT, [4])], [])
    inner.graph.output.append(helper.make_tensor_sequence_value_info("y", FLOAT, None))
    expect_no_session(context_model(inner, [("x", FLOAT, [4])], [("y", FLOAT, [4])]))


def constant_of_the_outer_model_is_an_input_of_a_context():
    """ONNX Runtime makes a node before the EPContext node a constant if its inputs are constants."""
    inner = graph_model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, [4]), ("w", FLOAT, [4])], [("y", FLOAT, [4])])
    model = context_model(inner, [("x", FLOAT, [4])], [("y", FLOAT, [4])], [("w", floats(4))])
    feed = {"x": floats(4)}
    want = feed["x"] + numpy_helper.to_array(model.graph.initializer[0])
    why = difference(session(model).run(None, feed)[0], want)
    assert why is None, why


def claims_from_before_functions_are_inlined_are_dropped():
    """ONNX Runtime asks for claims before it inlines functions, and again after it has optimized the graph."""
    for text in ("(float[n] z) { y = own.F (x)  z = Neg (y) }",
                 "(float[n] y, float[n] z, float[n] w) { y = own.F (x)  a = Abs (x)  b = Abs (x)  z = Neg (a)  w = Exp (b) }"):
        model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18, "own": 1]>
          g (float[n] x) => {text}
          <domain: "own", opset_import: ["": 18]> F (u) => (v) {{ t = Exp (u)  v = Neg (t) }}""")
        check_same(model, {"x": floats(5)}, {"claim": "all"})


def other_devices_give_the_cpus_outputs():
    """Each present kind of device besides the CPU runs models with open and known shapes, claimed parts and other
    nodes."""
    for kind in (device.ep_metadata["backplane_device"] for device in other_kinds()):
        for model, feeds in ((onnx.load(DIGITS), [{"image": floats(n, 1, 28, 28)} for n in (1, 3)]),
                             (divided_model(), [divided_feed()])):
            ours = session(model, {"claim": "all"}, kind=kind)
            report = package.report()[-1]
            assert report["device"].startswith(kind) and report["claimed"], report
            for feed in feeds:
                for got, want in zip(ours.run(None, feed), on_cpu(model).run(None, feed)):
                    assert difference(got, want) is None, (kind, difference(got, want))


def device_of_the_option_need_not_be_passed():
    """ONNX Runtime has no allocator for the device, so tensors are in the host's memory."""
    kinds = ["cpu:0", *(device.ep_metadata["backplane_device"] for device in other_kinds())]
    model, feed = divided_model(), divided_feed()
    for kind in kinds:
        for passed in kinds:
            ours = session(model, {"device": kind, "claim": "all"}, kind=passed)
            report = package.report()[-1]
            assert report["device"] == kind and report["claimed"], report
            for got, want in zip(ours.run(None, feed), on_cpu(model).run(None, feed)):
                assert difference(got, want) is None, (kind, passed, difference(got, want))


def devices_of_another_machine_give_the_cpus_outputs():
    """This machine plays the other one: its worker is started in the place of ssh."""
    os.environ["BACKPLANE_REMOTE_SHELL"] = "sh -c 'eval \"$1\"'"
    os.environ["BACKPLANE_REMOTE_PROGRAM"] = os.environ["BACKPLANE_WORKER_PROGRAM"]
    feed = {"image": floats(2, 1, 28, 28)}
    for device in other_kinds():
        kind = device.ep_metadata["backplane_device"]
        ours = session(str(DIGITS), {"claim": "all", "device": f"remote:{'x' * 64}/{kind}"}, kind=kind)
        report = package.report()[-1]
        assert report["device"] == f"remote:{'x' * 64}/{kind}" and report["claimed"], report
        for got, want in zip(ours.run(None, feed), on_cpu(onnx.load(DIGITS)).run(None, feed)):
            assert difference(got, want) is None, (kind, difference(got, want))


def other_kinds():
    """Return a device of each present kind besides the CPU."""
    found = {device.ep_metadata["backplane_device"].split(":")[0]: device for device in reversed(devices(""))}
    return [device for kind, device in sorted(found.items()) if kind != "cpu"]


def on_device(device, array):
    """Return an OrtValue in the memory of a device."""
    memory = device.memory_info(onnxruntime.OrtDeviceMemoryType.DEFAULT)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", memory.device_id, memory.device_vendor_id)


def tensors_are_bound_in_device_memory():
    """Inputs and outputs stay on the device, and an output is the input of the next session."""
    model = graph_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, ["n", 8])], [("y", FLOAT, ["n", 8])],
                        [("w", floats(8, 8))])
    wanted = on_cpu(model)
    for device in other_kinds():
        for rows in (1, 5, 0):
            x = floats(rows, 8)
            first = on_device(device, x)
            assert np.array_equal(first.numpy(), x)
            second = on_device(device, np.zeros_like(x))
            binding = (ours := session(model, kind=device.ep_metadata["backplane_device"])).io_binding()
            for source, target in ((first, second), (second, first)):
                binding.bind_ortvalue_input("x", source)
                binding.bind_ortvalue_output("y", target)
                ours.run_with_iobinding(binding)
                x = wanted.run(None, {"x": x})[0]
                assert difference(target.numpy(), x) is None, difference(target.numpy(), x)


def joined_model():
    """Return a model of two parts with a node of ai.onnx.ml between them. Another tensor goes directly from part to
    part."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
             helper.make_node("ReduceMean", ["a"], ["b"], axes=[2, 3], keepdims=0),
             helper.make_node("Scaler", ["b"], ["c"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
             helper.make_node("Reshape", ["c", "column"], ["d"]),
             helper.make_node("Mul", ["a", "d"], ["e"]),
             helper.make_node("Conv", ["e", "v"], ["y"], name="second")]
    return graph_model(nodes, [("x", FLOAT, [1, 4, 18, 18])], [("y", FLOAT, None)],
                       [("w", floats(8, 4, 3, 3)), ("v", floats(8, 8, 3, 3)), ("column", np.array([1, 8, 1, 1]))])


def tensors_between_parts_stay_on_the_device():
    """Only tensors that a CPU node reads or writes are copied; onnxruntime's own profile shows the copies."""
    model = joined_model()
    for device in other_kinds():
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(FOLDER / "profile")
        options.add_provider_for_devices([device], {"claim": "all"})
        ours = onnxruntime.InferenceSession(model.SerializeToString(), options)
        assert package.report()[-1]["parts"] == 2, package.report()
        for _ in range(3):  # onnxruntime plans the memory of later runs by the first one
            feed = {"x": floats(1, 4, 18, 18)}
            why = difference(ours.run(None, feed)[0], on_cpu(model).run(None, feed)[0])
            assert why is None, (device.ep_metadata, why)
        events = json.loads(Path(ours.end_profiling()).read_text())
        copies = Counter(event["args"]["op_name"] for event in events
                         if event.get("cat") == "Node" and "Memcpy" in event["args"].get("op_name", ""))
        assert copies == {"MemcpyToHost": 3, "MemcpyFromHost": 3}, copies


def threads_share_a_session_on_each_device():
    """The contexts of a part move from the stream of one run to the stream of another run."""
    for device in other_kinds():
        threads_share_a_session(device.ep_metadata["backplane_device"])


def row_model(rows, columns):
    """Return a model of two parts. The second part reads the first part's output, and a value that a CPU node
    computed from another input."""
    nodes = [helper.make_node("Scaler", ["s"], ["t"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0]),
             helper.make_node("Transpose", ["t"], ["c"], perm=[1, 0]),
             helper.make_node("Add", ["x", "x"], ["a"]),
             helper.make_node("Mul", ["a", "c"], ["y"])]
    model = graph_model(nodes, [("x", FLOAT, [rows, columns]), ("s", FLOAT, [1, rows])], [("y", FLOAT, None)])
    model.graph.value_info.append(helper.make_tensor_value_info("t", FLOAT, [1, rows]))
    return model


def check_rows(kind, model, rows, columns, times):
    ours = session(model, {"claim": "all"}, kind=kind)
    assert package.report()[-1]["parts"] == 2, package.report()
    for value in range(1, 1 + times):
        feed = {"x": np.full((rows, columns), value, np.float32), "s": np.full((1, rows), value, np.float32)}
        wrong = np.count_nonzero(ours.run(None, feed)[0] != 2 * value * value)
        assert wrong == 0, f"{kind}: {wrong} of {rows * columns} elements"


def parts_wait_for_copies():
    """A part reads a large output of another part, which is still being copied when a CPU node has finished."""
    for device in other_kinds():
        for model in (row_model(1000, 8000), row_model("n", 8000)):
            check_rows(device.ep_metadata["backplane_device"], model, 1000, 8000, 3)


def launches_and_waits(kind, program):
    """Return the events that the layer `trace` records of a program in a separate process, in order: "launch" and
    "stream_sync"."""
    trace = FOLDER / "trace.json"
    in_process(program, BACKPLANE_LAYERS=f"trace:{kind}", BACKPLANE_TRACE_FILE=str(trace))
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    return [event["cat"] for event in sorted(events, key=lambda event: event["ts"]) if event["cat"] in ("launch", "stream_sync")]


def parts_in_a_row_are_queued():
    """The host does not wait between a part and the part that reads its output."""
    for kind in (device.ep_metadata["backplane_device"].split(":")[0] for device in other_kinds()):
        for rows in (50, "n"):
            calls = launches_and_waits(kind, f"cases.check_rows({kind!r}, cases.row_model({rows!r}, 80), 50, 80, 3)")
            runs = [list(group) for is_wait, group in groupby(calls, lambda call: call == "stream_sync") if not is_wait]
            assert [len(run) for run in runs] == [2, 2, 2], (kind, rows, calls)


def error_of_bound_run(kind):
    """Run with inputs and outputs in the memory of a device. Return None."""
    model = graph_model([helper.make_node("Add", ["x", "x"], ["y"])], [("x", FLOAT, [4, 8])], [("y", FLOAT, [4, 8])])
    binding = (ours := session(model, {"claim": "all"}, kind=kind)).io_binding()
    binding.bind_ortvalue_input("x", on_device(devices(kind)[0], floats(4, 8)))
    binding.bind_ortvalue_output("y", on_device(devices(kind)[0], floats(4, 8)))
    try:
        ours.run_with_iobinding(binding)
    except Exception as error:
        return str(error)
    return None


def failed_work_fails_its_run():
    """A device reports a failure when the host waits, at the end of a run. onnxruntime only logs errors of other
    waits."""
    for kind in (device.ep_metadata["backplane_device"].split(":")[0] for device in other_kinds()):
        program = f"print(cases.error_of_bound_run({kind!r}))"
        calls = launches_and_waits(kind, program)
        first = calls[:calls.index("launch")].count("stream_sync") + 1
        said = in_process(program, BACKPLANE_LAYERS=f"fault:{kind}", BACKPLANE_FAULT=f"stream_sync:{first}")
        assert "fault: " in said, (kind, first, said)


def in_process(program, **environment):
    """Run a program with the provider and `cases`, this module, in a separate process. Return the printed text."""
    head = f"""import sys; sys.argv[1:] = {[str(each) for each in (LIBRARY, PACKAGE, FOLDER, DIGITS)]!r}
import provider_cases as cases
cases.onnxruntime.register_execution_provider_library("again", cases.package.get_library_path())
"""
    return subprocess.run([sys.executable, "-c", head + program], cwd=Path(__file__).parent, check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, **environment}).stdout


def held_memory(kind, path):
    """Return the KiB of private memory that a session of a model uses after a run, in a separate process."""
    return int(in_process(f"""
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Anonymous:"))
before = anonymous()
ours = cases.session({str(path)!r}, {{"target": "llvm"}}) if {kind!r} == "backplane" else cases.on_cpu({str(path)!r})
ours.run(None, {{"x": cases.floats(4, 1024)}})
print(anonymous() - before)
"""))


def constants_are_held_once():
    """With 64 MB of constants, and open or known shapes, the provider uses at most 1.1 times the memory of
    onnxruntime's CPU provider."""
    for rows in (4, "n"):
        nodes, value = [], "x"
        for i in range(16):
            nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"y{i}"]))
            value = f"y{i}"
        path = FOLDER / "constants.onnx"
        onnx.save(graph_model(nodes, [("x", FLOAT, [rows, 1024])], [(value, FLOAT, [rows, 1024])],
                              [(f"w{i}", floats(1024, 1024)) for i in range(16)]), path)
        ours, theirs = held_memory("backplane", path), held_memory("cpu", path)
        assert ours <= 1.1 * theirs, f"rows {rows}: {ours} KiB, the CPU provider {theirs} KiB"


def old_onnxruntime_is_refused_in_words():
    program = ("import sys, types\nold = types.ModuleType('onnxruntime')\nold.__version__ = '1.22.1'\nsys.modules['onnxruntime'] = old\n"
               "sys.path.insert(0, sys.argv[1])\nimport onnxruntime_ep_backplane")
    done = subprocess.run([sys.executable, "-c", program, PACKAGE], capture_output=True, text=True, check=False)
    assert done.returncode and "this is onnxruntime 1.22.1" in done.stderr and "needs 1.23" in done.stderr, done.stderr


def unregistering_leaves_sessions_running():
    """The provider can be unregistered. The test of unregistering is the last one."""
    image = floats(1, 1, 28, 28)
    open_sessions = [session(DIGITS)]
    if VERSION >= MEMORY_SINCE:
        open_sessions += [session(DIGITS, kind=device.ep_metadata["backplane_device"]) for device in other_kinds()]
    want = open_sessions[0].run(None, {"image": image})[0]
    onnxruntime.unregister_execution_provider_library("again")
    for ours in open_sessions:
        assert difference(ours.run(None, {"image": image})[0], want) is None
    del ours, open_sessions
    onnxruntime.register_execution_provider_library("again", package.get_library_path())
    assert difference(session(DIGITS).run(None, {"image": image})[0], want) is None


TESTS = [devices_are_offered, open_batch_gives_each_size, graph_is_divided_where_a_node_is_missing,
         all_that_can_be_is_claimed_on_request, refused_nodes_fail_a_strict_session, strict_session_runs_if_all_is_claimed,
         wrong_options_are_errors, options_are_used, closed_sessions_leave_the_report, threads_share_a_session,
         sessions_are_made_at_once, bodies_are_claimed_with_their_node, initializer_that_is_an_input_can_be_set,
         elements_of_each_type_pass, empty_tensors_pass, unaligned_inputs_are_copied, names_that_are_not_utf8_are_reported,
         wrong_shape_is_an_error_and_the_session_goes_on, old_onnxruntime_is_refused_in_words,
         nothing_to_claim_is_said, kept_model_holds_the_parts, damaged_context_is_an_error,
         context_of_other_types_is_an_error, context_without_an_output_of_its_node_is_an_error, context_of_a_sequence_is_an_error,
         constant_of_the_outer_model_is_an_input_of_a_context, claims_from_before_functions_are_inlined_are_dropped,
         other_devices_give_the_cpus_outputs, device_of_the_option_need_not_be_passed,
         devices_of_another_machine_give_the_cpus_outputs, constants_are_held_once]
if VERSION >= (1, 26):
    TESTS.insert(1, provider_is_taken_by_name)
if VERSION >= MEMORY_SINCE:
    TESTS += [tensors_are_bound_in_device_memory, tensors_between_parts_stay_on_the_device, parts_wait_for_copies,
              parts_in_a_row_are_queued, failed_work_fails_its_run, threads_share_a_session_on_each_device]
TESTS.append(unregistering_leaves_sessions_running)


# ---- ONNX's node cases --------------------------------------------------------------------------------


def node_cases(is_all):
    """Return all cases, or a few cases of each operator of the subset."""
    taken = Counter()
    for case in all_cases():
        nodes = case.model.graph.node
        operator = nodes[0].op_type if len(nodes) == 1 else ""
        is_wanted = is_all or (operator in SUBSET and taken[operator] < CASES_OF_EACH)
        if is_wanted and not any(word in case.name for word in OPEN):
            taken[operator] += 1
            yield case


def array_of(value):
    """Return an input of a case in onnxruntime's form. The case may hold a message; a sequence is a list."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return value if isinstance(value, list) else np.asarray(value)


def run_case(case):
    """Return the reason of a failure or None, and the number of claimed nodes."""
    feeds = {info.name: array_of(value) for info, value in zip(case.model.graph.input, case.data_sets[0][0])}
    try:
        wanted = on_cpu(case.model).run(None, feeds)
    except Exception:
        return None, -1  # the CPU provider lacks the operator
    try:
        ours = session(case.model, {"claim": "all", "target": "llvm -opt=0"})
        results = ours.run(None, feeds)
    except Exception as error:
        return str(error), 0
    # The CPU provider may differ from ONNX: it masks scores of Attention with the lowest float instead of -inf.
    for got, want, expected in zip(results, wanted, case.data_sets[0][1]):
        why = difference(got, want)
        if why and difference(got, array_of(expected)):
            return why, 0
    return None, 1


def inlined_functions_give_a_session():
    """ONNX Runtime asks for claims again after it has inlined functions."""
    why, _ = run_case(next(case for case in node_cases(True) if case.name == "test_affine_grid_2d_expanded"))
    assert why is None, why


def main():
    TESTS.insert(1, inlined_functions_give_a_session)
    onnxruntime.register_execution_provider_library("again", package.get_library_path())
    cases = list(node_cases("--all" in sys.argv))
    print(f"1..{len(TESTS) + 1}")
    failures, compared, number = [], 0, 0
    with ThreadPoolExecutor(2) as pool:
        for case, (why, count) in zip(cases, pool.map(run_case, cases)):
            compared += count >= 0
            if why:
                failures.append(f"{case.name}: {why}")
    print(f"{'not ok' if failures else 'ok'} 1 /onnxruntime/node-cases-give-the-outputs-of-the-cpu-provider")
    print(f"# {compared} cases compared, {len(cases) - compared} unknown to the CPU provider")
    for failure in failures:
        print("# " + failure.replace("\n", "\n# "))
    failed = bool(failures)
    for number, test in enumerate(TESTS, 2):
        name = f"/onnxruntime/{test.__name__.replace('_', '-')}"
        try:
            test()
            print(f"ok {number} {name}", flush=True)
        except Exception as error:
            failed = True
            print(f"not ok {number} {name}\n# " + f"{type(error).__name__}: {error}".replace("\n", "\n# "), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
