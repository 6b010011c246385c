#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the extra time of a call through a bridge over a direct call of Backplane, on the CPU, in one process and
in turns; and measure the efficiency of Ray's actors.

    bench_bridges.py [--rounds 30] torch | mlserver | ray
    bench_bridges.py [--rounds 30] onnxruntime MODEL.onnx[:SHAPE]...

The Python that runs it has the packages backplane and onnx, and torch with onnxscript, or mlserver with
tritonclient[all], or ray[data], or onnxruntime with onnxruntime_ep_backplane. A call is relu of 0, 600 kB and 10
MB. Prints the shortest time of a call, direct and through the bridge, and the difference of both. For Ray also:
the time to hand out an artifact of 100 MB; the rate of n actors, of one and of two calls at once, over that of n
independent processes, where a call takes some 10 ms and returns 1 MB or one number; and items lost and seconds
until the next answer after an actor was killed. For onnxruntime a call is a run of a model, whose first input has
the shape, for example 1x3x48x192 (open extents are 1 without it), and the ratio is printed, too.
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np

os.environ.setdefault("BACKPLANE_NUM_THREADS", "1")
import backplane  # pylint: disable=wrong-import-position

SIZES = {"0": 0, "600 kB": 150_000, "10 MB": 2_500_000}
RELU = """
<ir_version: 8, opset_import: ["" : 17]>
relu (float[n] x) => (float[n] y) { y = Relu(x) }
"""
PRODUCTS = """
<ir_version: 8, opset_import: ["" : 17]>
products (float[512,512] x) => (float[512,512] y) { a = MatMul(x, x) b = MatMul(a, x) c = MatMul(b, a) y = MatMul(c, b) }
"""
MAXIMUM = """
<ir_version: 8, opset_import: ["" : 17]>
maximum (float[512,512] x) => (float y) { a = MatMul(x, x) b = MatMul(a, x) c = MatMul(b, a) d = MatMul(c, b) y = ReduceMax<keepdims=0>(d) }
"""


def library(text, folder, name):
    """Compile a model that is given as text."""
    import onnx.parser  # pylint: disable=import-outside-toplevel

    path = folder / f"{name}.so"
    backplane.compile(onnx.parser.parse_model(text).SerializeToString(), "c").export_library(path)
    return path


def shortest(calls, rounds):
    """Return the shortest time of each of several functions, which run in turns."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, found in zip(calls, times):
            began = time.perf_counter()
            call()
            found.append(time.perf_counter() - began)
    return [min(found) for found in times]


def compare(name, calls_of, rounds):
    for size, count in SIZES.items():
        own, bridge = (1e6 * seconds for seconds in shortest(calls_of(backplane.tensor(np.ones(count, np.float32)).numpy()), rounds))
        print(f"{name} {size:>7}: own {own:9.1f} us, bridge {bridge:9.1f} us, over it {bridge - own:9.1f} us")


# ---- PyTorch -----------------------------------------------------------------------------------------


def bench_torch(options, path):
    import torch  # pylint: disable=import-outside-toplevel

    model = backplane.Model(path, "cpu")
    compiled = torch.compile(torch.nn.ReLU(), backend="backplane", dynamic=True, options={"device": "cpu"})
    torch.set_num_threads(1)

    def calls_of(x):
        tensor = torch.from_numpy(x)

        def bridge():
            with torch.no_grad():
                return compiled(tensor)

        return [lambda: model.run(x=x), bridge]

    compare("torch", calls_of, options.rounds)


# ---- ONNX Runtime ------------------------------------------------------------------------------------


def bench_onnxruntime(options, folder):
    import onnx  # pylint: disable=import-outside-toplevel
    import onnxruntime  # pylint: disable=import-outside-toplevel
    import onnxruntime_ep_backplane as provider  # pylint: disable=import-outside-toplevel

    onnxruntime.register_execution_provider_library("backplane", provider.get_library_path())
    device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == provider.get_ep_name())
    for word in options.models:
        source, _, shape = word.partition(":")
        model = onnx.load(source)
        extents = model.graph.input[0].type.tensor_type.shape.dim
        for extent, number in zip(extents, shape.split("x") if shape else [extent.dim_value or 1 for extent in extents]):
            extent.dim_value = int(number)
        del model.graph.value_info[:]
        text, path = model.SerializeToString(), folder / "model.so"
        settings = onnxruntime.SessionOptions()
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        settings.add_provider_for_devices([device], {"threads": os.environ["BACKPLANE_NUM_THREADS"], "target": "c"})
        session = onnxruntime.InferenceSession(text, settings)
        backplane.compile(text, "c").export_library(path)
        own = backplane.Model(path, "cpu")
        feed = {value.name: backplane.tensor(np.ones(value.shape, np.float32)).numpy() for value in session.get_inputs()}
        binding = session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        for value, array in zip(session.get_outputs(), session.run(None, feed)):
            binding.bind_ortvalue_output(value.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        least = shortest([lambda: own.run(feed), lambda: session.run_with_iobinding(binding)], options.rounds)  # pylint: disable=cell-var-from-loop
        print(f"{pathlib.Path(source).name}: own {1e3 * least[0]:.3f} ms, provider {1e3 * least[1]:.3f} ms, ratio {least[1] / least[0]:.3f}")


# ---- MLServer ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def serve(path, folder):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    (folder / "model-settings.json").write_text(json.dumps({
        "name": "relu", "implementation": "backplane.mlserver.BackplaneRuntime",
        "parameters": {"uri": str(path), "extra": {"device": "cpu"}}}), "utf-8")
    (folder / "settings.json").write_text(json.dumps({
        "host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1], "metrics_port": ports[2], "parallel_workers": 0,
        "debug": False, "grpc_max_message_length": 64 << 20, "metrics_dir": str(folder)}), "utf-8")
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([pathlib.Path(sys.executable).with_name("mlserver"), "start", folder], stdout=log, stderr=log)
    try:
        yield ports[1]
    finally:
        server.terminate()
        server.wait(60)


def bench_mlserver(options, path, folder):
    import tritonclient.grpc as grpc  # pylint: disable=import-outside-toplevel

    model = backplane.Model(path, "cpu")
    with serve(path, folder) as port:
        client = grpc.InferenceServerClient(f"127.0.0.1:{port}")
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            with contextlib.suppress(Exception):
                if client.is_model_ready("relu"):
                    break
            time.sleep(0.2)

        def calls_of(x):
            given = grpc.InferInput("x", list(x.shape), "FP32")
            given.set_data_from_numpy(x)
            return [lambda: model.run(x=x), lambda: client.infer("relu", [given]).as_numpy("y")]

        compare("mlserver by gRPC", calls_of, options.rounds)


# ---- Ray ---------------------------------------------------------------------------------------------


def alone(path, items):
    """Start a program that runs a model `items` times and prints the seconds."""
    program = ("import sys, time, numpy, backplane; model = backplane.Model(sys.argv[1], 'cpu'); x = backplane.tensor(numpy.ones((512, 512), 'float32'))\n"
               "model.run(x=x); print(flush=True); sys.stdin.readline(); began = time.perf_counter()\n"
               "for _ in range(int(sys.argv[2])): model.run(x=x)\nprint(time.perf_counter() - began)")
    return subprocess.Popen([sys.executable, "-c", program, path, str(items)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            start_new_session=True)  # as Ray does: the kernel may share cores by session


def independent_seconds(path, count, items):
    programs = [alone(path, items) for _ in range(count)]
    for program in programs:
        program.stdout.readline()
    for program in programs:
        program.stdin.write("\n")
        program.stdin.flush()
    return max(float(program.communicate()[0]) for program in programs)


def start_actors(ray, bridge, artifact, batch, count, at_once):
    remote = ray.remote(bridge.Predictor).options(num_cpus=0, max_concurrency=at_once, max_restarts=-1, max_task_retries=-1)
    actors = [remote.remote(artifact, on="cpu") for _ in range(count)]
    ray.get([actor.predict.remote(batch) for actor in actors])
    return actors


def seconds_of(ray, actors, batch, items):
    began = time.perf_counter()
    ray.get([actor.predict.remote(batch) for _ in range(items) for actor in actors])
    return time.perf_counter() - began


def bench_actors(ray, bridge, products, items, rounds):
    artifact, batch = bridge.put(products), ray.put({"x": np.ones((512, 512), np.float32)})
    for count in 1, 2, 4:
        groups = [start_actors(ray, bridge, artifact, batch, count, at_once) for at_once in (1, 2)]
        together, apart = [[], []], []
        for _ in range(rounds):
            for group, found in zip(groups, together):
                found.append(seconds_of(ray, group, batch, items))
            apart.append(independent_seconds(products, count, items))
        least = min(apart)
        print(f"ray {products.stem}, {count} actors: a call {least / items * 1e3:.1f} ms, efficiency {least / min(together[0]):.3f}, "
              f"with max_concurrency=2 {least / min(together[1]):.3f}")
        for actor in groups[0] + groups[1]:
            ray.kill(actor)


def bench_kill(ray, bridge, products, items):
    artifact, batch = bridge.put(products), ray.put({"x": np.ones((512, 512), np.float32)})
    (actor,) = start_actors(ray, bridge, artifact, batch, 1, 1)
    began = time.perf_counter()
    pending = [actor.predict.remote(batch) for _ in range(items)]
    ray.kill(actor, no_restart=False)
    answers = ray.get(pending)
    print(f"ray after a kill: {items - len(answers)} items of {items} lost, {time.perf_counter() - began:.2f} s for all of them")


def bench_ray(options, path, folder):
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own is 15: the processes beside the actors would get all the time
    import ray  # pylint: disable=import-outside-toplevel
    from backplane import ray as bridge  # pylint: disable=import-outside-toplevel

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=1 << 30)
    model = backplane.Model(path, "cpu")
    actor = ray.remote(bridge.Predictor).remote(bridge.put(path), on="cpu")

    def calls_of(x):
        return [lambda: model.run(x=x), lambda: ray.get(actor.predict.remote({"x": x}))]

    compare("ray", calls_of, options.rounds)
    began = time.perf_counter()
    ray.get(ray.remote(lambda array: len(array)).remote(ray.put(np.ones(100_000_000, np.uint8))))  # pylint: disable=unnecessary-lambda
    print(f"ray hands out 100 MB in {time.perf_counter() - began:.3f} s, the start of a worker included")
    products = library(PRODUCTS, folder, "products")
    for artifact in products, library(MAXIMUM, folder, "maximum"):
        bench_actors(ray, bridge, artifact, 40, max(options.rounds // 10, 1))
    bench_kill(ray, bridge, products, 40)
    ray.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bridge", choices=["torch", "mlserver", "ray", "onnxruntime"])
    parser.add_argument("models", nargs="*", metavar="MODEL.onnx[:SHAPE]")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, BACKPLANE_NUM_THREADS={os.environ['BACKPLANE_NUM_THREADS']}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = library(RELU, folder, "relu")
        if options.bridge == "onnxruntime":
            bench_onnxruntime(options, folder)
        elif options.bridge == "torch":
            bench_torch(options, path)
        elif options.bridge == "mlserver":
            bench_mlserver(options, path, folder)
        else:
            bench_ray(options, path, folder)


if __name__ == "__main__":
    main()
