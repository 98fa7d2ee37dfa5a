"""A model's weights in the form that the native decoder reads, made once and again when they change."""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from rela.attention.multihead import MultiheadAttention
from rela.attention.norms import LayerNorm
from rela.model.transformer import DecoderLayer, EncoderLayer, FeedForward, Transformer, sinusoids

Precision = Literal["fp32", "int8"]

MAPS: Final = ("softmax", "relu", "relu2", "gelu", "leaky", "sigmoid")
"""The maps that the native decoder has, by its numbers."""

_NO_NORM, _RMS_NORM, _LAYER_NORM = range(3)
_ALIGNMENT: Final = 64


class _Matrix(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("outputs", "inputs", "data", "scales", "bias")]


class _Attention(ctypes.Structure):
    _fields_ = [
        *((name, _Matrix) for name in ("input", "output")),
        *((name, ctypes.c_int64) for name in ("map", "norm")),
        *((name, ctypes.c_double) for name in ("scale", "slope", "eps", "power")),
        *((name, ctypes.c_int64) for name in ("thresholds", "weight", "bias", "gate")),
    ]


class _LayerNorm(ctypes.Structure):
    _fields_ = [("weight", ctypes.c_int64), ("bias", ctypes.c_int64), ("eps", ctypes.c_double)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Attention) for name in ("self_attention", "cross_attention")),
        *((name, _Matrix) for name in ("memory", "expand", "contract")),
        *((name, _LayerNorm) for name in ("self_norm", "cross_norm", "feed_norm")),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("dim", "num_heads", "ffn_dim", "is_int8")),
        *((name, ctypes.c_int64) for name in ("num_encoder", "num_decoder", "encoder", "decoder")),
        ("projection", _Matrix),
        *((name, ctypes.c_int64) for name in ("source_table", "target_table")),
    ]


_int, _address = ctypes.c_int64, ctypes.c_void_p
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "rela_allocate": (_address, (_int,)),
    "rela_release": (None, (_address,)),
    "rela_packed_bytes": (_int, (_int, _int, _int)),
    "rela_pack": (None, (_address, _int, _int, _address, _int)),
    "rela_pack_int8": (None, (_address, _int, _int, _address, _address, _int)),
    "rela_sample": (ctypes.c_double, (_address, _address, _int)),
    "rela_search_begin": (_address, (_address, _address)),
    "rela_search_step": (_int, (_address,)),
    "rela_search_found": (_int, (_address, _address, _address, _address)),
    "rela_search_end": (None, (_address,)),
}
"""What the engine's functions return and take."""


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, after its functions have been described: ctypes would cut addresses to 32 bits."""
    for name, (returns, takes) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = returns, takes
    return library


class Packed:
    """The packed weights of one model as it was; it knows nothing of the model itself but where its embeddings lie."""

    def __init__(self, library: ctypes.CDLL, model: Transformer, precision: Precision) -> None:
        self.library = library
        self.stamp = stamp(library, model)
        self._positions = torch.empty(0, model.config.dim)
        packer = _Packer(library, model, precision)
        self.model, self._held = packer.model, packer.held
        self.num_weights = packer.num_weights
        weakref.finalize(self, library.rela_release, packer.block)

    def positions(self, count: int) -> Tensor:
        """The sinusoids of at least so many positions."""
        if len(self._positions) < count:
            size = 2 ** math.ceil(math.log2(count))
            self._positions = sinusoids(size, self._positions.shape[1])
        return self._positions


class _Packer:
    """Lays all matrices into one block of memory: it is walked through twice, once to know its size."""

    def __init__(self, library: ctypes.CDLL, model: Transformer, precision: Precision) -> None:
        self._library, self._is_int8 = library, precision == "int8"
        self._threads = torch.get_num_threads()
        self.held: list[Any] = []  # what the structures point at
        self.block, self._used = 0, 0
        self.num_weights = 0
        self._describe(model)
        block: int | None = library.rela_allocate(self._used)
        if block is None:
            raise MemoryError(f"expected {self._used:,} bytes for packed weights, got none")
        self.block, self._used = block, 0
        self.held.clear()
        self.model = self._describe(model)

    def _describe(self, model: Transformer) -> _Model:
        config = model.config
        self.num_weights = 0
        encoder = (_Layer * config.encoder_layers)(*(self._encoder_layer(layer) for layer in model.encoder))
        decoder = (_Layer * config.decoder_layers)(*(self._decoder_layer(layer) for layer in model.decoder))
        self.held += [encoder, decoder]
        return _Model(
            config.dim,
            config.num_heads,
            config.ffn_dim,
            self._is_int8,
            len(encoder),
            len(decoder),
            ctypes.addressof(encoder),
            ctypes.addressof(decoder),
            self._matrix(model.projection, None),
            model.source_embedding.weight.data_ptr(),
            model.target_embedding.weight.data_ptr(),
        )

    def _encoder_layer(self, layer: nn.Module) -> _Layer:
        assert isinstance(layer, EncoderLayer)
        described = self._shared(layer.feed_forward, layer.self_attention_norm, layer.feed_forward_norm)
        described.self_attention = self._attention(layer.self_attention, 3)
        return described

    def _decoder_layer(self, layer: nn.Module) -> _Layer:
        assert isinstance(layer, DecoderLayer)
        described = self._shared(layer.feed_forward, layer.self_attention_norm, layer.feed_forward_norm)
        described.self_attention = self._attention(layer.self_attention, 3)
        cross, dim = layer.cross_attention, layer.cross_attention.embed_dim
        described.cross_attention = self._attention(cross, 1)
        described.cross_norm = self._layer_norm(layer.cross_attention_norm)
        assert cross.in_proj_weight is not None
        assert cross.in_proj_bias is not None
        described.memory = self._matrix(cross.in_proj_weight[dim:], cross.in_proj_bias[dim:])
        return described

    def _shared(self, feed_forward: FeedForward, self_norm: nn.LayerNorm, feed_norm: nn.LayerNorm) -> _Layer:
        return _Layer(
            expand=self._matrix(feed_forward.expand.weight, feed_forward.expand.bias),
            contract=self._matrix(feed_forward.contract.weight, feed_forward.contract.bias),
            self_norm=self._layer_norm(self_norm),
            feed_norm=self._layer_norm(feed_norm),
        )

    def _attention(self, module: MultiheadAttention, num_inputs: int) -> _Attention:
        """``num_inputs``: 3 for the projections of queries, keys and values, 1 for that of queries alone."""
        spec, norm, size = module.attention, module.norm, num_inputs * module.embed_dim
        assert module.in_proj_weight is not None
        assert module.in_proj_bias is not None
        thresholds = torch.full((module.num_heads,), spec.threshold) if module.threshold is None else module.threshold
        return _Attention(
            self._matrix(module.in_proj_weight[:size], module.in_proj_bias[:size]),
            self._matrix(module.out_proj.weight, module.out_proj.bias),
            MAPS.index(spec.map),
            _NO_NORM if norm is None else _LAYER_NORM if isinstance(norm, LayerNorm) else _RMS_NORM,
            1.0 / math.sqrt(module.head_dim) if spec.scale is None else spec.scale,
            spec.negative_slope,
            spec.eps if norm is None else norm.eps,
            spec.length_power,
            self._vector(thresholds),
            *(self._vector(getattr(norm, name, None)) for name in ("weight", "bias", "gate")),
        )

    def _layer_norm(self, norm: nn.LayerNorm) -> _LayerNorm:
        return _LayerNorm(self._vector(norm.weight), self._vector(norm.bias), norm.eps)

    def _vector(self, values: Tensor | None) -> int:
        """The address of a copy; 0 for none."""
        if values is None:
            return 0
        copy = values.detach().clone().contiguous()
        self.held.append(copy)
        return copy.data_ptr()

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> _Matrix:
        outputs, inputs = weight.shape
        place = self.block + self._used
        size: int = self._library.rela_packed_bytes(outputs, inputs, self._is_int8)
        self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.num_weights += outputs * inputs
        if not self.block:
            return _Matrix()
        weight = weight.detach().contiguous()
        if not self._is_int8:
            self._library.rela_pack(weight.data_ptr(), outputs, inputs, place, self._threads)
            return _Matrix(outputs, inputs, place, 0, self._vector(bias))
        if not bool(weight.isfinite().all()):
            raise ValueError(
                "precision int8: expected finite weights, got some that are not; the weights of the model are broken"
            )
        scales = torch.empty(outputs + 64)  # to the end of the last panel
        self.held.append(scales)
        self._library.rela_pack_int8(weight.data_ptr(), outputs, inputs, place, scales.data_ptr(), self._threads)
        return _Matrix(outputs, inputs, place, scales.data_ptr(), self._vector(bias))


def stamp(library: ctypes.CDLL, model: Transformer) -> tuple[object, ...]:
    """Differs when parameters have changed: where they lie, how often torch wrote to them, and a sample of numbers.

    The sample is for writes that torch does not count, such as those through ``parameter.data``.
    """
    parameters = list(model.parameters())
    addresses = (ctypes.c_int64 * len(parameters))(*(parameter.data_ptr() for parameter in parameters))
    sizes = (ctypes.c_int64 * len(parameters))(*(parameter.numel() for parameter in parameters))
    sample: float = library.rela_sample(addresses, sizes, len(parameters))
    return (*addresses, *(parameter._version for parameter in parameters), repr(sample))  # pyright: ignore[reportPrivateUsage]


_packed: weakref.WeakKeyDictionary[Transformer, dict[Precision, Packed]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def packed(library: ctypes.CDLL, model: Transformer, precision: Precision) -> Packed:
    """The packed weights of a model as it is now; made at first and after each change."""
    with _lock:
        forms = _packed.setdefault(model, {})
        found = forms.get(precision)
        if found is None or found.stamp != stamp(library, model):
            forms.pop(precision, None)  # before there are two
            found = forms[precision] = Packed(library, model, precision)
        return found
