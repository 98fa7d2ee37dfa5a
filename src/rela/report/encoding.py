"""Weights as bytes, for the page: each head has its own scale, and exact zeros stay exact.

Byte 0 is exactly zero, and nothing else is. The others, 1 to 255, are weights from the smallest to the head's largest
in this sentence, by the square root: byte ``b`` is ``scale * (b / 255) ** 2``, so that small weights stay apart. A head
that has negative weights (leaky or GeLU maps) has a negative scale; there 1 to 127 are positive, 255 to 129 negative.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela.report.results import Weights

_LEVELS: Final = 255
_SIGNED_LEVELS: Final = 127

Bytes = NDArray[np.uint8]


class Block(NamedTuple):
    """All weights of one model for one sentence: the shape of each kind, and base64 of deflated scales and bytes.

    Before packing: the scales of all kinds, layers and heads as little-endian float32, then all bytes in that order.
    """

    shapes: dict[str, tuple[int, ...]]
    text: str


def encode_weights(weights: Weights) -> tuple[Weights, Bytes]:
    """Scales ``[layer, head]`` and bytes ``[layer, head, query, key]``. Every weight must be a finite number."""
    wide = weights.astype(np.float64)
    largest = np.abs(wide).max(axis=(-2, -1), initial=0.0)
    signed = wide.min(axis=(-2, -1), initial=0.0) < 0
    levels = np.where(signed, _SIGNED_LEVELS, _LEVELS)[..., None, None]
    share = np.abs(wide) / np.where(largest > 0, largest, 1.0)[..., None, None]
    level = np.maximum(np.rint(levels * np.sqrt(share)), 1)
    encoded = np.where(wide == 0, 0, np.where(wide < 0, 256 - level, level))
    return np.where(signed, -largest, largest).astype(np.float32), encoded.astype(np.uint8)


def decode_weights(scales: Weights, encoded: Bytes) -> Weights:
    """What the page makes of them: the same arithmetic as in assets/weights.js."""
    scale = np.abs(scales.astype(np.float64))[..., None, None]
    signed = (scales < 0)[..., None, None]
    level = np.where(signed, encoded.astype(np.int8), encoded).astype(np.float64)
    share = level / np.where(signed, _SIGNED_LEVELS, _LEVELS)
    return (np.sign(share) * share**2 * scale).astype(np.float32)


def pack(kinds: Mapping[str, Weights]) -> Block:
    """The block of one model and sentence."""
    encoded = [encode_weights(weights) for weights in kinds.values()]
    content = b"".join(scales.astype("<f4").tobytes() for scales, _ in encoded)
    content += b"".join(values.tobytes() for _, values in encoded)
    shapes = {kind: weights.shape for kind, weights in kinds.items()}
    return Block(shapes, base64.b64encode(zlib.compress(content, 9)).decode("ascii"))


def unpack(block: Block) -> dict[str, Weights]:
    """The weights of a block, as the page sees them."""
    content = zlib.decompress(base64.b64decode(block.text))
    place = 4 * sum(shape[0] * shape[1] for shape in block.shapes.values())
    all_scales = np.frombuffer(content[:place], "<f4")
    kinds: dict[str, Weights] = {}
    for kind, shape in block.shapes.items():
        heads, size = shape[0] * shape[1], int(np.prod(shape))
        scales, all_scales = all_scales[:heads].reshape(shape[:2]), all_scales[heads:]
        values = np.frombuffer(content[place : place + size], np.uint8).reshape(shape)
        kinds[kind] = decode_weights(scales, values)
        place += size
    return kinds
