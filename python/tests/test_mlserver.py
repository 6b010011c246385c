# SPDX-License-Identifier: Apache-2.0
"""Tests of the runtime for MLServer, with tritonclient on the loopback address. BP_TEST_MLSERVER names a Python with
both packages."""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

if not importlib.util.find_spec("mlserver"):  # imported by the server alone: its messages and those of tritonclient have the same names
    pytest.skip("needs mlserver, which tests/peers.txt leaves out for its size", allow_module_level=True)
http = pytest.importorskip("tritonclient.http")
grpc = pytest.importorskip("tritonclient.grpc")

import backplane  # pylint: disable=wrong-import-position
from conftest import SOURCE  # pylint: disable=wrong-import-position

START_SECONDS = 300
DIGITS = SOURCE / "examples/digits/digits.onnx"


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Server:
    def __init__(self, folder, models, **settings):
        for name, model in models.items():
            (folder / name).mkdir(parents=True)
            model = {"name": name, "implementation": "backplane.mlserver.BackplaneRuntime", **model}
            (folder / name / "model-settings.json").write_text(json.dumps(model), encoding="utf-8")
        self.http, self.grpc, metrics = free_ports(3)
        settings = {"host": "127.0.0.1", "http_port": self.http, "grpc_port": self.grpc, "metrics_port": metrics,
                    "metrics_dir": str(folder), "parallel_workers": 0, **settings}
        (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        self.log = folder / "log"
        program = pathlib.Path(sys.executable).with_name("mlserver")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([program, "start", folder], stdout=log, stderr=log, cwd=folder,
                                            env={**os.environ, "BACKPLANE_NUM_THREADS": "1"})

    def wait(self, name):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None and "failed to load" not in self.log.read_text("utf-8"):
            try:
                if http.InferenceServerClient(f"127.0.0.1:{self.http}").is_model_ready(name):
                    return self
            except Exception:  # pylint: disable=broad-exception-caught  # it does not listen yet
                pass
            time.sleep(0.2)
        raise AssertionError(self.log.read_text(encoding="utf-8"))

    def end(self):
        self.process.terminate()
        self.process.wait(60)


@pytest.fixture(scope="module", name="digits")
def fixture_digits():
    return backplane.Model(DIGITS, "cpu")


@pytest.fixture(scope="module", name="roots")
def fixture_roots(tmp_path_factory):
    """A model of vectors, with a number as its second output."""
    onnx = pytest.importorskip("onnx.parser")
    text = """<ir_version: 8, opset_import: ["" : 17]>
              roots (float[n] x) => (float[n] y, float total) { y = Sqrt(x) total = ReduceSum <keepdims = 0> (x) }"""
    path = tmp_path_factory.mktemp("roots") / "model.onnx"
    path.write_bytes(onnx.parse_model(text).SerializeToString())
    return path


@pytest.fixture(scope="module", name="chosen")
def fixture_chosen(tmp_path_factory):
    """A model of integers and truth values."""
    onnx = pytest.importorskip("onnx.parser")
    text = """<ir_version: 8, opset_import: ["" : 17]>
              chosen (int64[n] x, bool[n] c) => (int64[n] y) { zero = Sub(x, x) y = Where(c, x, zero) }"""
    path = tmp_path_factory.mktemp("chosen") / "model.onnx"
    path.write_bytes(onnx.parse_model(text).SerializeToString())
    return path


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory, roots, chosen):
    model = {"parameters": {"uri": str(DIGITS), "extra": {"device": "cpu"}}, "max_batch_size": 8, "max_batch_time": 0.05}
    server = Server(tmp_path_factory.mktemp("server"), 
                    {"digits": model, "roots": {"parameters": {"uri": str(roots.parent), "extra": {"device": "cpu"}}},
                     "chosen": {"parameters": {"uri": str(chosen.parent), "extra": {"device": "cpu"}}}},
                    parallel_workers=2)
    server.wait("roots")
    server.wait("chosen")
    yield server.wait("digits")
    server.end()


def ask(kind, port, image, outputs=None, name="image", datatype="FP32", model="digits"):
    given = kind.InferInput(name, list(image.shape), datatype)
    given.set_data_from_numpy(image, **({"binary_data": False} if kind is http else {}))
    client = kind.InferenceServerClient(f"127.0.0.1:{port}")
    wanted = [kind.InferRequestedOutput(each, **({"binary_data": False} if kind is http else {})) for each in outputs or []]
    return client.infer(model, [given], outputs=wanted or None)


def pictures(count, seed=0):
    return np.random.default_rng(seed).random((count, 1, 28, 28)).astype("float32")


@pytest.mark.parametrize("kind", [http, grpc])
def test_answers_are_the_models(server, digits, kind):
    port = server.http if kind is http else server.grpc
    for count in 1, 3:
        image = pictures(count)
        given = ask(kind, port, image).as_numpy("logits")
        assert given.shape == (count, 10)
        assert np.allclose(given, digits.run(image=image)["logits"].numpy(), atol=1e-4)
    assert ask(kind, port, pictures(1), ["logits"]).as_numpy("logits").shape == (1, 10)


@pytest.mark.parametrize("kind", [http, grpc])
def test_shapes_and_nan_are_kept(server, kind):
    values = np.array([4, -1, 9], "float32")
    answer = ask(kind, server.http if kind is http else server.grpc, values, name="x", model="roots")
    assert np.array_equal(answer.as_numpy("y"), np.array([2, np.nan, 3], "float32"), equal_nan=True)
    assert answer.as_numpy("total").shape == () and answer.as_numpy("total") == 12


def test_metadata_are_the_models(server):
    about = http.InferenceServerClient(f"127.0.0.1:{server.http}").get_model_metadata("digits")
    assert about["inputs"][0]["name"] == "image" and about["inputs"][0]["datatype"] == "FP32"
    assert about["inputs"][0]["shape"] == [-1, 1, 28, 28] and about["outputs"][0]["name"] == "logits"


def test_requests_at_once_get_their_own_answers(server, digits):
    images = [pictures(1 + i % 2, i) for i in range(24)]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda image: ask(grpc, server.grpc, image).as_numpy("logits"), images))
    for image, answer in zip(images, answers):
        assert np.allclose(answer, digits.run(image=image)["logits"].numpy(), atol=1e-4)


@pytest.mark.parametrize("kind", [http, grpc])
def test_wrong_requests_are_told_what_is_expected(server, kind):
    port = server.http if kind is http else server.grpc
    for changes, text in (({"name": "picture"}, "picture"), ({"outputs": ["digit"]}, "no output 'digit'"),
                          ({"image": np.zeros((1, 1, 28, 28), "float64"), "datatype": "FP64"}, "expected FP32"),
                          ({"image": np.zeros((1, 1, 28, 27), "float32")}, "28")):
        with pytest.raises(Exception, match=text):
            ask(kind, port, **{"image": pictures(1), **changes})
    assert ask(kind, port, pictures(1)).as_numpy("logits").shape == (1, 10)


def post(port, model, inputs):
    """Return the status and the document of an answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/{model}/infer", json.dumps({"inputs": inputs}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_elements_are_not_converted(server):
    x = {"name": "x", "datatype": "INT64", "shape": [2], "data": [3, -4]}
    c = {"name": "c", "datatype": "BOOL", "shape": [2], "data": [True, False]}
    status, answer = post(server.http, "chosen", [x, c])
    assert status == 200 and answer["outputs"][0]["data"] == [3, 0]
    for inputs, text in (([{**x, "data": [1.5, 2]}, c], "not of datatype INT64"), ([{**x, "data": ["1", 2]}, c], "not of datatype INT64"),
                         ([{**x, "data": [2**70, 2]}, c], "cannot be read"), ([x, {**c, "data": ["false", True]}], "not of datatype BOOL"),
                         ([x, {**c, "data": [5, 0]}], "not of datatype BOOL"), ([x, x, c], "two inputs 'x'"),
                         ([{**x, "parameters": {"content_type": "str"}}, c], "'x'"), ([x, {**c, "shape": [1], "data": [True]}], "shape")):
        status, answer = post(server.http, "chosen", inputs)
        assert status == 400 and text in answer["error"], (inputs, answer)


@pytest.mark.parametrize("settings, text", [
    ({"parameters": {"uri": "missing.onnx"}}, "missing.onnx"),
    ({"parameters": {"uri": str(DIGITS), "extra": {"devise": "cpu"}}}, "no option 'devise'"),
    ({"parameters": {"uri": str(DIGITS), "extra": {"device": "cpu:99"}}}, "cpu:99"),
    ({"parameters": {"uri": str(DIGITS), "extra": {"device": "cpu", "shapes": {"image": [1, 1, 28, 28]}}}, "max_batch_size": 4},
     "max_batch_size joins requests")])
def test_models_that_cannot_be_loaded_say_why(tmp_path, settings, text):
    server = Server(tmp_path, {"digits": settings})
    deadline = time.monotonic() + START_SECONDS
    try:
        while text not in server.log.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline, server.log.read_text(encoding="utf-8")
            time.sleep(0.2)
    finally:
        server.end()
