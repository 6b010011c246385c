# SPDX-License-Identifier: Apache-2.0
"""Tests of the bridge to Ray, in a cluster of several nodes on this machine. BP_TEST_RAY names a Python that has
ray[data]."""

import os
import pathlib
import resource
import tempfile

import numpy as np
import pytest

os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
ray = pytest.importorskip("ray", reason="needs ray, which tests/peers.txt leaves out for its size")
pytest.importorskip("pandas", reason="needs ray[data]")
from ray.cluster_utils import Cluster  # pylint: disable=wrong-import-position

import backplane  # pylint: disable=wrong-import-position
import backplane.ray as bridge  # pylint: disable=wrong-import-position
from backplane import errors  # pylint: disable=wrong-import-position
from conftest import SOURCE  # pylint: disable=wrong-import-position

WAIT = 600
DIGITS = SOURCE / "examples/digits/digits.onnx"
KINDS = [kind for kind in ("cpu", "opencl") if bridge.PREFIX + kind in bridge.resources()]


@pytest.fixture(scope="module", name="cluster", autouse=True)
def fixture_cluster(tmp_path_factory):
    """A head without devices, and a node for each kind of device."""
    os.environ["BACKPLANE_NUM_THREADS"] = "1"
    small = {"object_store_memory": 100 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **small})
    for kind in KINDS:
        cluster.add_node(num_cpus=2, resources={bridge.PREFIX + kind: 1}, object_store_memory=100 << 20)
    tests = str(pathlib.Path(__file__).parent)
    ray.init(address=cluster.address, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), tests])}})
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module", name="artifact")
def fixture_artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "digits.so"
    targets = "c,opencl" if "opencl" in KINDS else "c"
    backplane.compile(DIGITS, targets, {"image": (4, 1, 28, 28)}).export_library(path)
    return bridge.put(path)


@pytest.fixture(scope="module", name="open_artifact")
def fixture_open_artifact():
    return bridge.put(DIGITS, "c")


def pictures(count):
    return np.random.default_rng(2).random((count, 1, 28, 28)).astype("float32")


def expected(image):
    return backplane.Model(DIGITS, "cpu").run(image=image)["logits"].numpy()


def test_devices_are_resources():
    given = bridge.resources()
    assert given["backplane:cpu"] == 1
    assert sum(given.values()) == len(backplane.devices())


@pytest.mark.parametrize("kind", KINDS)
def test_actor_takes_the_device_of_its_resource(artifact, kind):
    actor = ray.remote(bridge.Predictor).options(resources=bridge.request(kind)).remote(artifact)
    image = pictures(4)
    assert ray.get(actor.device.remote(), timeout=WAIT) == f"{kind}:0"
    result = ray.get(actor.predict.remote({"image": image}), timeout=WAIT)["logits"]
    assert np.allclose(result, expected(image), atol=1e-4)
    ray.kill(actor)


def test_shares_of_a_device_and_no_more(open_artifact):
    make = ray.remote(bridge.Predictor).options(resources=bridge.request("cpu", 0.5))
    actors = [make.remote(open_artifact) for _ in range(2)]
    assert ray.get([actor.device.remote() for actor in actors], timeout=WAIT) == ["cpu:0"] * 2
    for actor in actors:
        ray.kill(actor)


def test_map_batches(open_artifact):
    image = pictures(50)
    data = ray.data.from_items([{"id": i, "image": each, "other": 1} for i, each in enumerate(image)], override_num_blocks=5)
    result = data.map_batches(bridge.Predictor, fn_constructor_args=(open_artifact,), fn_constructor_kwargs={"keep": ["id"]},
                              resources=bridge.request("cpu"), batch_size=8, compute=ray.data.ActorPoolStrategy(size=1))
    rows = sorted(result.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(50)) and set(rows[0]) == {"id", "logits"}
    assert np.allclose([row["logits"] for row in rows], expected(image), atol=1e-4)


class Dies(bridge.Predictor):
    """Ends its process once, in the middle of the third batch."""

    def __init__(self, artifact, marker, **named):
        super().__init__(artifact, **named)
        self.marker, self.calls = pathlib.Path(marker), 0

    def __call__(self, batch):
        self.calls += 1
        if self.calls == 3 and not self.marker.exists():
            self.marker.touch()
            os._exit(1)
        return super().__call__(batch)


def test_killed_actor_loses_no_item(open_artifact, tmp_path):
    image = pictures(48)
    data = ray.data.from_items([{"id": i, "image": each} for i, each in enumerate(image)], override_num_blocks=6)
    result = data.map_batches(Dies, fn_constructor_args=(open_artifact, str(tmp_path / "died")),
                              fn_constructor_kwargs={"keep": ["id"]}, resources=bridge.request("cpu"), batch_size=8,
                              compute=ray.data.ActorPoolStrategy(size=1))
    rows = sorted(result.take_all(), key=lambda row: row["id"])
    assert (tmp_path / "died").exists()
    assert [row["id"] for row in rows] == list(range(48))
    assert np.allclose([row["logits"] for row in rows], expected(image), atol=1e-4)


@ray.remote
class Maps(bridge.Predictor):
    def libraries(self):
        with open("/proc/self/maps", encoding="utf-8") as file:
            return {line.split()[-1] for line in file if "backplane-ray-" in line}

    def reads_in_place(self, batch):
        image = batch["image"]
        self(batch)
        return not image.flags.writeable and not image.flags.owndata and image.ctypes.data % 64 == 0


def test_artifact_is_mapped_once_and_inputs_are_views(open_artifact):
    actors = [Maps.options(resources=bridge.request("cpu", 0.5)).remote(open_artifact) for _ in range(2)]
    first, second = ray.get([actor.libraries.remote() for actor in actors], timeout=WAIT)
    assert len(first) == 1 and first == second
    batch = ray.put({"image": pictures(64)})
    assert ray.get(actors[0].reads_in_place.remote(batch), timeout=WAIT)
    for actor in actors:
        ray.kill(actor)


def test_a_file_that_cannot_be_written_whole_is_an_error(tmp_path, monkeypatch):
    """The limit of file sizes plays a full disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    artifact = np.arange(70000).astype("uint8")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (69632, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            bridge._store(artifact)  # pylint: disable=protected-access
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    path, _ = bridge._store(artifact)  # pylint: disable=protected-access
    assert path.read_bytes() == artifact.tobytes()


def test_what_is_refused(open_artifact, tmp_path):
    with pytest.raises(errors.NotFoundError, match="no node of the cluster has 'backplane:hexagon'; the cluster has backplane:cpu"):
        bridge.request("hexagon")
    with pytest.raises(errors.InvalidValueError, match="share"):
        bridge.request("cpu", 2)
    with pytest.raises(errors.InvalidValueError, match="for the targets of the nodes"):
        bridge.put(DIGITS)
    with pytest.raises(FileNotFoundError):
        bridge.put(tmp_path / "missing.so")
    actor = ray.remote(bridge.Predictor).remote(open_artifact, on="cpu")
    with pytest.raises(errors.NotFoundError, match="the batch has no column 'image'; it has picture"):
        ray.get(actor.predict.remote({"picture": pictures(1)}), timeout=WAIT)
    ray.kill(actor)
    ambiguous = ray.remote(bridge.Predictor).remote(open_artifact, keep=["id", "logits"], on="cpu")
    with pytest.raises(ray.exceptions.RayActorError, match="'logits' of keep is an output of the model, too"):
        ray.get(ambiguous.device.remote(), timeout=WAIT)
    greedy = ray.remote(bridge.Predictor).options(resources={"backplane:cpu": 2}).remote(open_artifact)
    ready, _ = ray.wait([greedy.device.remote()], timeout=1)
    assert not ready, "Ray waits for a node that has so many"
    ray.kill(greedy)
    wrong = ray.remote(bridge.Predictor).remote(ray.put(np.zeros(100, np.uint8)), on="cpu")
    with pytest.raises(ray.exceptions.RayActorError, match="BackplaneError|Error"):
        ray.get(wrong.device.remote(), timeout=WAIT)
