# SPDX-License-Identifier: Apache-2.0
"""Backplane from Python, step by step. Run the whole program, or one cell at a time in an editor
that knows "# %%"."""

# %% Devices: those of all installed plugins
import pathlib
import tempfile

import numpy as np

import backplane

for device in backplane.devices():
    print(device, device.attribute("device_name"))

# %% Tensors share memory with numpy's arrays on the CPU, and are copied to other devices
array = np.arange(6, dtype="float32").reshape(2, 3)
shared = backplane.from_dlpack(array)
array[0, 0] = 42
assert shared.numpy()[0, 0] == 42
for device in backplane.devices():
    assert np.array_equal(np.asarray(shared.to_device(device)), array)


# %% Functions: Python's are called by the library, and the library's by Python
@backplane.register_func("example.scale")
def scale(x, factor):
    x.numpy()[...] *= factor


backplane.get_global_func("example.scale")(array, 0.5)
assert array[0, 0] == 21

# %% Tensor expressions: written once, compiled for each device
for device in backplane.devices():
    program = backplane.te.Program()
    x = program.placeholder("x", (2, 3))
    y = program.compute("y", (2, 3), lambda i, j: backplane.te.sigmoid(x[i, j]))
    target = backplane.Target.from_device(device)
    program.schedule(y, target)
    given, result = backplane.tensor(array, device), backplane.empty((2, 3), on=device)
    program.build("sigmoid", [x, y], target)(given, result)
    device.synchronize()
    assert np.allclose(np.asarray(result), 1 / (1 + np.exp(-array)), atol=1e-6)

# %% Models: compiled from ONNX, exported, loaded again
onnx = pathlib.Path(__file__).parents[2] / "examples/digits/digits.onnx"
if onnx.exists():
    module = backplane.compile(onnx, "c", {"image": (1, 1, 28, 28)})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "digits.so"
        module.export_library(path)
        model = backplane.Model(path, "cpu")
        picture = np.zeros((1, 1, 28, 28), "float32")
        outputs = model.run(image=picture)
        print({name: tensor.shape for name, tensor in outputs.items()})
        slowest = max(model.profile(image=picture), key=lambda time: time.duration)
        print(f"the slowest operator is {slowest.function}: {slowest.duration / 1e3:.1f} us")

# %% Errors are exceptions of the kinds that Python has too
try:
    backplane.load("missing.so")
except OSError as error:
    print(type(error).__name__, error)
