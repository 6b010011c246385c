# SPDX-License-Identifier: Apache-2.0
"""Tests of the bridge to PyTorch. BP_TEST_TORCH names a Python that has torch, onnxscript and pytest."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch and onnxscript, which tests/peers.txt leaves out for their size")
pytest.importorskip("onnxscript")

import backplane  # pylint: disable=wrong-import-position
from backplane import errors  # pylint: disable=wrong-import-position


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 16, 3, stride=2)
        self.last = torch.nn.Linear(16, 5)

    def forward(self, image):
        features = torch.relu(self.norm(self.first(image)))
        features = torch.relu(self.second(torch.max_pool2d(features, 2)))
        return self.last(features.mean((2, 3)))


class Condition(torch.nn.Module):
    """A branch that stays in the graph."""

    def __init__(self):
        super().__init__()
        self.small, self.large = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, values):
        return torch.cond(values.sum() > 0, lambda x: self.large(x) + 1, lambda x: self.small(x) * 2, (values,))


class Branches(torch.nn.Module):
    """A branch that Python decides splits the graph; each part is compiled."""

    def __init__(self):
        super().__init__()
        self.small, self.large = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, values):
        values = torch.tanh(self.small(values))
        if values.sum() > 0:
            return self.large(values) * 2
        for _ in range(3):
            values = self.small(values) + 1
        return values


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(1)
    torch._dynamo.reset()


@pytest.fixture(name="calls")
def fixture_calls(monkeypatch):
    """Return the number of runs of models, which shows that Backplane computed the result."""
    counted = []
    run = backplane.Model.run

    def count(self, *args, **named):
        counted.append(self)
        return run(self, *args, **named)

    monkeypatch.setattr(backplane.Model, "run", count)
    return counted


def compile_module(module, device="cpu", **options):
    return torch.compile(module, backend="backplane", options={"device": device}, **options)


def agrees(compiled, module, *args):
    with torch.no_grad():
        given, expected = compiled(*args), module(*args)
    torch.testing.assert_close(given, expected, rtol=1e-4, atol=1e-5)
    return given


def test_convolutions(calls):
    module = Convolutions().eval()
    compiled = compile_module(module)
    image = torch.randn(2, 3, 16, 16)
    agrees(compiled, module, image)
    agrees(compiled, module, image.to(memory_format=torch.channels_last))
    assert len(calls) == 2


@pytest.mark.parametrize("kind", sorted({str(device).split(":", maxsplit=1)[0] for device in backplane.devices()} - {"cpu"}))
def test_devices_that_torch_does_not_know(calls, kind):
    module = Convolutions().eval()
    agrees(compile_module(module, kind), module, torch.randn(2, 3, 16, 16))
    assert str(calls[0].device).startswith(kind)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types(dtype):
    module = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(dtype).eval()
    x = torch.randn(4, 32, dtype=dtype)
    with torch.no_grad():
        given, expected = compile_module(module)(x), module(x)
    assert given.dtype == dtype
    torch.testing.assert_close(given.float(), expected.float(), rtol=0.05, atol=0.02)


def test_open_shapes_compile_once(calls):
    module = Convolutions().eval()
    compiled = compile_module(module, dynamic=True)
    for batch, side in (2, 16), (3, 16), (5, 24):
        agrees(compiled, module, torch.randn(batch, 3, side, side))
    assert len(calls) == 3 and len(set(map(id, calls))) == 1


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_encoder(calls, norm_first):
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first, activation="gelu")
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    compiled = compile_module(module, dynamic=True)
    agrees(compiled, module, torch.randn(2, 7, 32))
    agrees(compiled, module, torch.randn(3, 9, 32))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(9)
    agrees(compiled, module, torch.randn(3, 9, 32), mask)
    assert calls


def test_attention_gives_weights():
    module = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    compiled = compile_module(module)
    x = torch.randn(2, 5, 16)
    agrees(compiled, module, x, x, x)


def test_graph_breaks(calls):
    module = Branches().eval()
    compiled = compile_module(module)
    for sign in 1, -1:
        with torch.no_grad():
            module.small.bias.fill_(4.0 * sign)
        agrees(compiled, module, torch.randn(2, 6))
    assert len(calls) >= 4


def test_condition_in_the_graph(calls):
    module = Condition().eval()
    compiled = compile_module(module)
    for sign in 1, -1:
        agrees(compiled, module, sign * torch.rand(2, 6))
    assert len(calls) == 2 and calls[0] is calls[1]


def test_refused_open_shapes_are_compiled_for_each_shape(calls):
    compiled = compile_module(torch.nn.functional.conv2d, dynamic=True)
    for size in 3, 5, 3:
        agrees(compiled, torch.nn.functional.conv2d, torch.randn(1, 2, 9, 9), torch.randn(4, 2, size, size))
    assert len(calls) == 3 and calls[0] is calls[2] and calls[0] is not calls[1]


def test_writes_and_views_reach_the_caller():
    def function(x, y):
        x.add_(1)
        return x.view(-1), y * x.shape[0], x.shape[1]

    compiled = compile_module(function, dynamic=True)
    for shape in (2, 3), (4, 5):
        x, y = torch.randn(shape), torch.randn(shape)
        expected = x.clone()
        view, product, extent = compiled(x, y)
        torch.testing.assert_close(x, expected + 1)
        torch.testing.assert_close(product, y * shape[0])
        assert extent == shape[1]
        view.zero_()
        assert not x.any(), "the output is a view of the input"


def test_changed_parameters_count(calls):
    module = torch.nn.Linear(4, 3).eval()
    compiled = compile_module(module)
    x = torch.randn(2, 4)
    agrees(compiled, module, x)
    for change in range(3):
        with torch.no_grad():
            module.weight.mul_(2)
        agrees(compiled, module, x)
    module.weight.data = torch.randn(3, 4)
    agrees(compiled, module, x)
    module.load_state_dict({"weight": torch.ones(3, 4), "bias": torch.zeros(3)})
    agrees(compiled, module, x)
    assert len({id(call) for call in calls[1:4]}) == 1, "a parameter that changed is an input from then on"


def test_training_state_is_written():
    module = torch.nn.BatchNorm1d(4).train()
    reference = torch.nn.BatchNorm1d(4).train()
    compiled = compile_module(module)
    for _ in range(3):
        x = torch.randn(8, 4)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), reference(x))
    torch.testing.assert_close(module.running_mean, reference.running_mean)
    assert module.num_batches_tracked == 3


def test_statistics_of_an_instance():
    module = torch.nn.InstanceNorm1d(4, affine=True).eval()
    agrees(compile_module(module), module, torch.randn(3, 4, 8))


def test_gradients_are_an_error():
    module = torch.nn.Linear(4, 3)
    result = compile_module(module)(torch.randn(2, 4))
    torch.testing.assert_close(result, module.weight.new_tensor(result.tolist()))
    with pytest.raises(errors.BackplaneError, match="computes no gradients"):
        result.sum().backward()


def test_what_is_refused():
    with pytest.raises(Exception, match="no option 'devise'"):
        torch.compile(torch.relu, backend="backplane", options={"devise": "cpu"})(torch.randn(2))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="cpu:99"):
        torch.compile(torch.relu, backend="backplane", options={"device": "cpu:99"})(torch.randn(2))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no mode 'max-autotune'"):
        torch.compile(torch.relu, backend="backplane", mode="max-autotune")(torch.randn(2))
    torch._dynamo.reset()
    with pytest.raises(errors.BackplaneError, match="(?i)random"):
        compile_module(lambda x: x + torch.rand(3))(torch.randn(3))
    with pytest.raises(errors.BackplaneError):
        compile_module(torch.nn.Dropout(0.5).train())(torch.randn(3))


def test_from_torch():
    module = Convolutions().eval()
    model = backplane.from_torch(module, torch.randn(2, 3, 16, 16), "cpu", {"image": {0: torch.export.Dim("batch")}})
    assert [info.name for info in model.inputs] == ["image"] and model.inputs[0].shape[0] == -1
    image = torch.randn(5, 3, 16, 16)
    with torch.no_grad():
        expected = module(image)
    (given,) = model.run(image=image).values()
    torch.testing.assert_close(torch.from_dlpack(given), expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        module.last.weight.zero_()
    (again,) = model.run(image=image).values()
    torch.testing.assert_close(torch.from_dlpack(again), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(errors.InvalidValueError, match="writes to"):
        backplane.from_torch(Convolutions().train(), image)
