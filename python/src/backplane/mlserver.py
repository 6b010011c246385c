# SPDX-License-Identifier: Apache-2.0
"""A runtime for MLServer, a server of the Open Inference Protocol. See docs/mlserver.md.

    {"name": "digits", "implementation": "backplane.mlserver.BackplaneRuntime",
     "parameters": {"uri": "digits.onnx", "extra": {"device": "cpu"}}}
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError, MLServerError
from mlserver.types import Datatype, InferenceRequest, InferenceResponse, MetadataTensor, Parameters, RequestOutput, ResponseOutput
from mlserver.utils import get_model_uri

from . import Model, TensorInfo, errors

# The Open Inference Protocol's names of the element types that it shares with numpy.
DATATYPES = {"bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64",
             **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}
OPTIONS = ("device", "shapes")
# Errors that a wrong request causes.
FAULTS_OF_REQUESTS = (errors.InvalidValueError, errors.InvalidTypeError, errors.NotFoundError)


def _metadata(info: TensorInfo) -> MetadataTensor:
    if info.kind != "tensor":
        raise MLServerError(f"'{info.name}' is of kind {info.kind}; the protocol has tensors alone")
    if info.dtype not in DATATYPES or info.shape is None:
        raise MLServerError(f"tensor '{info.name}' has type {info.dtype or 'unknown'} and shape {info.shape or 'unknown'}; "
                            f"the protocol has {', '.join(DATATYPES)}, of known rank")
    return MetadataTensor(name=info.name, datatype=DATATYPES[info.dtype], shape=list(info.shape))


def _encode(name: str, array: np.ndarray[Any, Any]) -> ResponseOutput:
    """Return an output with its shape and values. NumpyCodec is not used: it adds an extent to a vector, and turns
    NaN into None, which gRPC rejects."""
    return ResponseOutput(name=name, datatype=DATATYPES[array.dtype.name], shape=list(array.shape), data=array.ravel().tolist(),
                          parameters=Parameters(content_type=NumpyCodec.ContentType))


def _is_converted(data: Any, array: np.ndarray[Any, Any]) -> bool:
    """Return whether numpy changed elements of a request: it makes 1 of 1.7, and True of 5 and of "false"."""
    if array.dtype.kind not in "biu" or not isinstance(data, list):
        return False
    given = np.asarray(data)
    return given.dtype.kind not in "biuf" or not np.array_equal(given.ravel(), array.ravel())


class BackplaneRuntime(MLModel):
    """A model of MLServer: an ONNX file, which is compiled at loading, or a file that `backplane compile` wrote."""

    _model: Model

    async def load(self) -> bool:
        """Load the file that `uri` names; in a folder, the file model.so or model.onnx.

        Options in `parameters.extra`: `device`, preferences as BACKPLANE_DEVICE takes them, and `shapes`, the shapes
        of inputs by name."""
        parameters = self.settings.parameters
        options: dict[str, Any] = (parameters.extra if parameters else None) or {}
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise MLServerError(f"model {self.name}: there is no option {unknown[0]!r}; there are {', '.join(OPTIONS)}")
        path = await get_model_uri(self.settings, wellknown_filenames=["model.so", "model.onnx"])
        self._model = await asyncio.to_thread(Model, path, options.get("device"), options.get("shapes"))
        self.inputs = [_metadata(info) for info in self._model.inputs]
        self.outputs = [_metadata(info) for info in self._model.outputs]
        fixed = [info.name for info in self.inputs if not info.shape or info.shape[0] != -1]
        if self.settings.max_batch_size > 1 and fixed:
            raise MLServerError(f"model {self.name}: max_batch_size joins requests along the first extent, which the model "
                                f"fixes for input '{fixed[0]}'; use a model that leaves it open")
        return True

    def _inputs(self, payload: InferenceRequest) -> dict[str, Any]:
        """Return the arrays of a request, by name. Each array must have the element type of its input: no array is
        converted."""
        datatypes = {info.name: DATATYPES.get(info.dtype or "") for info in self._model.inputs}
        values: dict[str, Any] = {}
        for given in payload.inputs:
            if given.name in values:
                raise InferenceError(f"the request has two inputs '{given.name}'")
            if given.name not in datatypes:
                raise InferenceError(f"the model has no input '{given.name}'; it has {', '.join(datatypes)}")
            datatype, wanted = Datatype(given.datatype).value, datatypes[given.name]
            if datatype != wanted:
                raise InferenceError(f"input '{given.name}' has datatype {datatype}; expected {wanted}")
            try:
                array = np.asarray(self.decode(given, default_codec=NumpyCodec))
            except Exception as error:  # pylint: disable=broad-exception-caught  # of a codec that the request names
                raise InferenceError(f"input '{given.name}' of shape {given.shape} cannot be read: {error}") from error
            if DATATYPES.get(array.dtype.name) != datatype or _is_converted(given.data.root, array):
                raise InferenceError(f"input '{given.name}' has elements that are not of datatype {datatype}")
            values[given.name] = array
        return values

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Runs the model in a thread, so that the server answers others meanwhile."""
        known = [info.name for info in self._model.outputs]
        wanted = payload.outputs or [RequestOutput(name=name) for name in known]
        unknown = [output.name for output in wanted if output.name not in known]
        if unknown:
            raise InferenceError(f"the model has no output '{unknown[0]}'; it has {', '.join(known)}")
        try:
            results = await asyncio.to_thread(self._model.run, self._inputs(payload))
        except FAULTS_OF_REQUESTS as error:
            raise InferenceError(str(error)) from error
        return InferenceResponse(
            model_name=self.name, model_version=self.version,
            outputs=[_encode(output.name, results[output.name].numpy()) for output in wanted])
