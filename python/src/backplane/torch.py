# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the backend `backplane` of torch.compile, and from_torch. See docs/pytorch.md.

    compiled = torch.compile(module, backend="backplane", options={"device": "cpu"})

A graph goes through AOTAutograd, which replaces views and writes to inputs by values, and then through
PyTorch's exporter to ONNX. The constants stay in PyTorch's memory while Backplane compiles."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import backplane
from . import Model, Preferences, Target, errors, select_device

try:
    import torch
except ImportError as missing:
    raise ImportError(f"{missing}: backplane.torch and from_torch need PyTorch; pip install torch") from None
import torch.nn.functional as functional
from torch._decomp import get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses import FakeTensor

try:
    import onnx_ir
    import onnxscript  # noqa: F401  # pylint: disable=unused-import  # torch.onnx needs it
except ImportError as missing:
    raise ImportError(f"{missing}: PyTorch exports graphs with it; pip install onnxscript") from None

log = logging.getLogger("backplane.torch")

# Constants of fewer bytes stay inside the model.
LEAST_EXTERNAL_BYTES = 1024


# ---- PyTorch operators that its exporter lacks or exports wrongly --------------------------------------


def _attend(query: Any, key: Any, value: Any, heads: int, weight: Any, bias: Any, mask: Any, mask_type: int | None
            ) -> tuple[torch.Tensor, torch.Tensor]:
    """Return multi-head attention before the last projection, and its weights [batch, heads, query, key]. If
    `mask_type` is 0, the mask is [query, key]; if 1, [batch, key]; otherwise [batch, heads, query, key]."""
    parts = [
        functional.linear(each, part, offset).unflatten(-1, (heads, -1)).transpose(1, 2)
        for each, part, offset in zip((query, key, value), weight.chunk(3), bias.chunk(3))
    ]
    scores = parts[0] @ parts[1].transpose(-1, -2) * parts[0].shape[-1] ** -0.5
    if mask is not None:
        mask = mask[:, None, None, :] if mask_type == 1 else mask
        scores = scores.masked_fill(mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1)
    return (weights @ parts[2]).transpose(1, 2).flatten(2), weights


def _multi_head_attention(query: Any, key: Any, value: Any, embed_dim: int, heads: int, weight: Any, bias: Any,
                          proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True,
                          average_attn_weights: bool = True, mask_type: int | None = None) -> Any:
    del embed_dim
    result, weights = _attend(query, key, value, heads, weight, bias, mask, mask_type)
    if average_attn_weights:
        weights = weights.mean(1)
    return functional.linear(result, proj_weight, proj_bias), weights if need_weights else weights.new_empty(0)


def _encoder_layer(x: Any, embed_dim: int, heads: int, weight: Any, bias: Any, proj_weight: Any, proj_bias: Any,
                   use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any,
                   norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any,
                   ffn_bias_2: Any, mask: Any = None, mask_type: int | None = None) -> torch.Tensor:
    def normalize(values: Any, scale: Any, offset: Any) -> torch.Tensor:
        return functional.layer_norm(values, (embed_dim,), scale, offset, eps)

    def attend(values: Any) -> torch.Tensor:
        return functional.linear(_attend(values, values, values, heads, weight, bias, mask, mask_type)[0],
                                 proj_weight, proj_bias)

    def feed_forward(values: Any) -> torch.Tensor:
        activate = functional.gelu if use_gelu else functional.relu
        return functional.linear(activate(functional.linear(values, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = x + attend(normalize(x, norm_weight_1, norm_bias_1))
        return x + feed_forward(normalize(x, norm_weight_2, norm_bias_2))
    x = normalize(x + attend(x), norm_weight_1, norm_bias_1)
    return normalize(x + feed_forward(x), norm_weight_2, norm_bias_2)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    # PyTorch's exporter normalises with the running statistics even if the operator's arguments exclude them.
    **get_decompositions([torch.ops.aten._native_batch_norm_legit, torch.ops.aten._native_batch_norm_legit_functional]),
    torch.ops.aten._native_multi_head_attention.default: _multi_head_attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}


# ---- To ONNX -----------------------------------------------------------------------------------------


def _take_constants(model: Any) -> dict[str, Any]:
    """Make the large initializers of an ONNX model external, and return their elements by name. The elements are
    tensors of bytes, because DLPack lacks some element types of PyTorch."""
    elements: dict[str, Any] = {}
    for name, value in model.graph.initializers.items():
        held = value.const_value
        if held is None or held.nbytes < LEAST_EXTERNAL_BYTES or held.dtype.bitwidth < 8:
            continue
        raw = getattr(held, "raw", None)
        if isinstance(raw, torch.Tensor):
            elements[name] = raw.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        else:
            elements[name] = torch.frombuffer(bytearray(held.tobytes()), dtype=torch.uint8)
        value.const_value = onnx_ir.ExternalTensor("memory", 0, held.nbytes, held.dtype,
                                                   shape=held.shape, name=name)
    return elements


def _make_model(program: torch.export.ExportedProgram, options: _Options) -> Model:
    """Return a model of an exported program, with copies of its parameters."""
    device = select_device(options.device)
    try:
        exported = torch.onnx.export(program, dynamo=True, verbose=False)
    except Exception as error:
        raise errors.BackplaneError(
            f"PyTorch does not export the graph to ONNX: {error}") from error
    assert exported is not None
    model = exported.model
    elements = _take_constants(model)
    encoded = onnx_ir.to_proto(model).SerializeToString()
    target = options.target or Target.from_device(device)
    return Model(backplane.compile(encoded, target, tensors=elements), device)


def _refuse_writes(program: torch.export.ExportedProgram) -> None:
    """Raise an error if a program writes to buffers or inputs. A model has only outputs, so writes to inputs would be lost."""
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise errors.InvalidValueError(
            f"a run of the module writes to {', '.join(map(repr, written))}, which a model cannot; call module.eval() "
            'first, or use torch.compile(module, backend="backplane")')


def from_torch(module: torch.nn.Module, example: Any, on: Preferences, dynamic_shapes: Any,
               target: Target | str | None) -> Model:
    """Implement backplane.from_torch."""
    by_name = dict(example) if isinstance(example, Mapping) else {}
    in_order = () if by_name else tuple(example) if isinstance(example, (tuple, list)) else (example,)
    with torch.no_grad():
        program = torch.export.export(module, in_order, by_name, dynamic_shapes=dynamic_shapes)
        program = program.run_decompositions({**torch.export.default_decompositions(), **DECOMPOSITIONS})
    _refuse_writes(program)
    return _make_model(program, _Options(on, target))


# ---- To and from tensors -----------------------------------------------------------------------------


def _lend(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in a form that DLPack accepts. A compact tensor is not copied."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _take(result: backplane.Tensor, device: torch.device) -> torch.Tensor:
    """Return an output as a PyTorch tensor on `device`."""
    try:
        tensor = torch.from_dlpack(result)
    except (BufferError, RuntimeError, ValueError):  # a device that PyTorch does not know
        tensor = torch.from_dlpack(result.to_device("cpu"))
    return tensor.to(device)


# ---- A graph -----------------------------------------------------------------------------------------


class _Options(NamedTuple):
    device: Preferences = None
    target: Target | str | None = None


class _Fixed:
    """An argument whose value is compiled into the code: a parameter or a number."""

    def __init__(self, value: Any) -> None:
        self.state = self.state_of(value)
        self.held = value.detach() if isinstance(value, torch.Tensor) else None  # kept, so that no other tensor gets its address

    @staticmethod
    def state_of(value: Any) -> Any:
        """Return a value that differs after each change that PyTorch counts."""
        if isinstance(value, torch.Tensor):
            return value.data_ptr(), value._version  # pylint: disable=protected-access
        return value

    def is_unchanged(self, value: Any) -> bool:
        """Return whether the compiled code is still valid for the argument."""
        return bool(self.state == self.state_of(value))


class _Compiled(NamedTuple):
    model: Model
    inputs: list[int]  # for each input of the model, the index of its argument
    fixed: dict[int, _Fixed]


class _Graph:
    """A graph of aten operators. The first call compiles the graph, because the parameters are unknown before."""

    _boxed_call = True  # AOTAutograd passes one list, which is cleared

    def __init__(self, graph: torch.fx.GraphModule, constants: set[int], options: _Options) -> None:
        """Keep a graph. `constants` are the addresses of parameters and buffers."""
        self.graph, self.constants, self.options = graph, constants, options
        self.places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.results: Sequence[Any] = next(node.args[0] for node in graph.graph.nodes if node.op == "output")
        # The tensors that a model computes.
        self.computed = list(dict.fromkeys(
            node for node in self.results if isinstance(node, torch.fx.Node) and node.op != "placeholder"
            and isinstance(node.meta["val"], torch.Tensor)))
        self.varying: set[int] = set()  # indices of parameters that have changed, and are inputs since then
        self.has_fixed_shapes = not any(isinstance(node.meta["val"], torch.SymInt) for node in self.places)
        self.compiled: dict[Any, _Compiled] = {}
        self.lock = threading.Lock()

    # ---- Compiling

    def _is_constant(self, index: int, value: torch.Tensor) -> bool:
        return (index not in self.varying and not value.is_inference() and value.numel() > 0
                and value.data_ptr() in self.constants)

    def _size(self, extent: Any, tensors: Sequence[torch.fx.Node]) -> tuple[torch.fx.Node, int] | None:
        """Return a tensor that has this open extent, and the index of the dimension."""
        for node in tensors:
            for axis, other in enumerate(node.meta["val"].shape):
                if isinstance(other, torch.SymInt) and other.node.expr == extent.node.expr:
                    return node, axis
        return None

    def _module(self, args: Sequence[Any]) -> tuple[torch.fx.GraphModule, list[int], dict[int, _Fixed]]:
        """Return the graph with its constants inside and the computed tensors as outputs, the indices of the
        arguments that are its inputs, and the other arguments by index."""
        root, graph = torch.nn.Module(), torch.fx.Graph()
        copies: dict[torch.fx.Node, Any] = {}
        inputs: list[int] = []
        fixed: dict[int, _Fixed] = {}
        for index, (node, value) in enumerate(zip(self.places, args)):
            if not isinstance(value, torch.Tensor):
                continue
            if self._is_constant(index, value):
                root.register_buffer(f"constant_{index}", value.detach())
                copies[node] = graph.get_attr(f"constant_{index}")
                fixed[index] = _Fixed(value)
            else:
                copies[node] = graph.placeholder(node.name)
                inputs.append(index)
        tensors = [self.places[index] for index in inputs]
        for index, (node, value) in enumerate(zip(self.places, args)):
            if node in copies:
                continue
            size = None if self.has_fixed_shapes else self._size(node.meta["val"], tensors)
            if size:
                copies[node] = graph.call_function(torch.ops.aten.sym_size.int, (copies[size[0]], size[1]))
            else:
                copies[node] = value
                fixed[index] = _Fixed(value)
        for node in self.graph.graph.nodes:
            if node.op == "get_attr":
                name = str(node.target).split(".", maxsplit=1)[0]
                setattr(root, name, getattr(self.graph, name))
            if node.op not in ("placeholder", "output"):
                copies[node] = graph.node_copy(node, lambda old: copies[old])
                copies[node].meta = {}  # `meta` belongs to the graph that is copied
        graph.output(tuple(copies[node] for node in self.computed))
        return torch.fx.GraphModule(root, graph), inputs, fixed

    @torch.no_grad()
    def _compile(self, args: Sequence[Any]) -> _Compiled:
        module, inputs, fixed = self._module(args)
        shapes = [{axis: torch.export.Dim.AUTO for axis, extent in enumerate(self.places[index].meta["val"].shape)
                   if isinstance(extent, torch.SymInt) and not self.has_fixed_shapes} for index in inputs]
        given = tuple(args[index].detach() for index in inputs)
        program = torch.export.export(module, given, dynamic_shapes=tuple(shapes))
        model = _make_model(program, self.options)
        for info, axes in zip(model.inputs, shapes, strict=True):
            if info.shape and any(info.shape[axis] != -1 for axis in axes):
                raise errors.BackplaneError(f"PyTorch's exporter fixes the open shape of '{info.name}' to {info.shape}")
        return _Compiled(model, inputs, fixed)

    def _find(self, args: Sequence[Any]) -> _Compiled:
        """Return the model for these arguments; compile it if it is missing. If Backplane rejects open shapes, the
        graph is compiled for each shape."""
        while True:
            key = tuple(tuple(value.shape) if isinstance(value, torch.Tensor) else value for value in args
                        ) if self.has_fixed_shapes else ()
            found = self.compiled.get(key)
            if found:
                changed = {index for index, each in found.fixed.items() if not each.is_unchanged(args[index])}
                if not changed:
                    return found
                log.info("%d arguments changed since the graph was compiled: it is compiled again", len(changed))
                self.varying |= changed
                self.compiled.clear()
            try:
                # AOTAutograd excludes dispatch keys in this thread, so tracing must run in another thread.
                with ThreadPoolExecutor(1) as thread:
                    self.compiled[key] = thread.submit(self._compile, args).result()
            except errors.BackplaneError as error:
                if self.has_fixed_shapes:
                    raise
                log.info("open shapes are refused, so the graph is compiled for each shape: %s", error)
                self.has_fixed_shapes = True

    # ---- Running

    def _run(self, args: Sequence[Any]) -> dict[Any, backplane.Tensor]:
        if not self.computed:
            return {}
        with self.lock:
            found = self._find(args)
        given = {info.name: _lend(args[index])
                 for info, index in zip(found.model.inputs, found.inputs, strict=True)}
        return dict(zip(self.computed, found.model.run(given).values(), strict=True))

    def _symbols(self, args: Sequence[Any]) -> dict[Any, int]:
        """Return the values of the symbols in the graph's shapes."""
        found: dict[Any, int] = {}
        for node, value in zip(self.places, args):
            about = node.meta["val"]
            pairs = zip(about.shape, value.shape) if isinstance(about, torch.Tensor) else [(about, value)]
            for extent, number in pairs:
                if isinstance(extent, torch.SymInt):
                    found[extent.node.expr] = number
        return found

    def __call__(self, args: list[Any]) -> list[Any]:
        values = list(args)
        args.clear()
        outputs, results = self._run(values), []
        for node in self.results:
            about = node.meta["val"] if isinstance(node, torch.fx.Node) else node
            if node in self.places:
                results.append(values[self.places.index(node)])
            elif isinstance(about, torch.Tensor):
                results.append(_take(outputs[node], about.device))
            elif isinstance(about, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                results.append(about.node.pytype(about.node.expr.subs(self._symbols(values))))
            else:
                results.append(about)
        return results


# ---- The backend -------------------------------------------------------------------------------------


class _Inference(torch.autograd.Function):
    """A call whose results require gradients, as they would without compilation. backward() raises an error."""

    @staticmethod
    def forward(ctx: Any, compiled: Callable[..., Any], *args: Any) -> Any:
        return tuple(compiled(*args))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise errors.BackplaneError(
            "the backend backplane computes no gradients: call the module under torch.no_grad(), or train "
            "with another backend")


def _parse(options: Mapping[str, Any] | None) -> _Options:
    unknown = [name for name in options or {} if name not in _Options._fields]
    if unknown:
        raise errors.InvalidValueError(f"the backend backplane has no option {unknown[0]!r}; it has "
                                       f"{', '.join(_Options._fields)}")
    chosen = _Options(**(options or {}))
    select_device(chosen.device)  # an error here, not in the first call
    return chosen


def _addresses(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> set[int]:
    """Return the addresses of parameters and buffers. Dynamo passes parameters and buffers as marked inputs."""
    marked = [value for value in example_inputs if isinstance(value, torch.Tensor) and (
        isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type"))]
    return {value.data_ptr() for value in [*marked, *graph.parameters(), *graph.buffers()]
            if not isinstance(value, FakeTensor)}


def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *,
            options: Mapping[str, Any] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """Compile a graph: the backend of torch.compile. Options are `device`, preferences as for select_device, and
    `target`, the text of a target. The backend is for inference: gradients raise an error. torch.compile passes
    every `mode` except "default" to the backend, which rejects it."""
    if mode is not None:
        raise errors.InvalidValueError(f"the backend backplane has no mode {mode!r}; leave out `mode`")
    chosen, constants = _parse(options), _addresses(graph, example_inputs)

    def compile_graph(inner: torch.fx.GraphModule, _: Sequence[Any]) -> _Graph:
        return _Graph(inner, constants, chosen)

    with torch.no_grad():
        compiled = aot_autograd(fw_compiler=compile_graph, decompositions=DECOMPOSITIONS)(graph, example_inputs)

    def call(*args: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
            return _Inference.apply(compiled, *args)
        return compiled(*args)

    return call
