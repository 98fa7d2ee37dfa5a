"""What the functional forms refuse, and how they say it."""

import math
from typing import Any

import pytest
import torch
from tests.attention.helpers import (
    ROW_MAPS,
    make_inputs,
    raises_naming,
)
from torch import Tensor

from rela.attention.functional import (
    attention,
    relu_attention,
)
from rela.attention.spec import MAPS, MapName


def _plain(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


QUERY = _plain(2, 4, 3, 8)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (_plain(2, 4, 5, 8), _plain(4, 5, 8), ("equally many dimensions", "(4, 5, 8)")),
        (_plain(2, 4, 5, 6), _plain(2, 4, 5, 8), ("head size", "8", "6")),
        (_plain(2, 4, 5, 8), _plain(2, 4, 6, 8), ("as many keys as values", "5", "6")),
        (_plain(3, 4, 5, 8), _plain(3, 4, 5, 8), ("broadcast", "(2, 4, 3, 8)", "(3, 4, 5, 8)")),
        (_plain(2, 4, 5, 8), _plain(3, 4, 5, 8), ("broadcast", "(3, 4, 5, 8)")),
        (_plain(2, 2, 5, 8), _plain(2, 2, 5, 8), ("heads", "4", "2", "enable_gqa=True")),
        (_plain(2, 4, 5, 8), _plain(2, 2, 5, 8), ("heads", "4", "2", "enable_gqa=True")),
        (_plain(2, 4, 5, 8), _plain(2, 3, 5, 8), ("heads", "4", "3")),
        (_plain(2, 4, 5, 8), _plain(2, 8, 5, 8), ("heads", "4", "8")),
        (_plain(2, 4, 5, 8).double(), _plain(2, 4, 5, 8), ("dtype", "float32", "float64", ".to(")),
        (_plain(2, 4, 5, 8), _plain(2, 4, 5, 8).half(), ("dtype", "float32", "float16", ".to(")),
    ],
)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", ["softmax", "relu", "gelu"])
def test_wrong_inputs(name: MapName, need_weights: bool, key: Tensor, value: Tensor, words: tuple[str, ...]) -> None:
    raises_naming(lambda: attention(QUERY, key, value, name, need_weights=need_weights), "expected", "got", *words)


@pytest.mark.parametrize("place", range(3))
def test_tensors_that_are_not_dense(place: int) -> None:
    query, key, value = (_plain(1, 2, 3, 4).to_sparse() if i == place else _plain(1, 2, 3, 4) for i in range(3))
    with pytest.raises(TypeError, match=r"expected a dense tensor, got .*sparse_coo.*to_dense\(\)"):
        relu_attention(query, key, value)


def test_wrong_groups() -> None:
    for heads in (3, 8):
        key = _plain(2, heads, 5, 8)
        raises_naming(
            lambda k=key: relu_attention(QUERY, k, k, enable_gqa=True), "enable_gqa", "multiple", "4", str(heads)
        )
    key, value = _plain(2, 2, 5, 8), _plain(2, 3, 5, 8)
    raises_naming(lambda: relu_attention(QUERY, key, value, enable_gqa=True), "heads", "3")


def test_integers_are_refused() -> None:
    whole = QUERY.long()
    raises_naming(lambda: attention(whole, whole, whole), "float", "int64")


@pytest.mark.parametrize("shape", [(3, 4), (5, 3), (2, 3, 5), (3, 4, 3, 5), (1, 2, 4, 3, 5), (5, 3, 5)])
@pytest.mark.parametrize("name", ["softmax", "relu", "gelu"])
def test_wrong_mask_shapes(name: MapName, shape: tuple[int, ...]) -> None:
    key = _plain(2, 4, 5, 8)
    for mask in (torch.ones(shape).bool(), torch.zeros(shape)):
        raises_naming(
            lambda m=mask: attention(QUERY, key, key, name, attn_mask=m),
            "attn_mask",
            "expected",
            "(2, 4, 3, 5)",
            "got",
            str(tuple(shape)),
        )


def test_wrong_mask_dtypes() -> None:
    raises_naming(
        lambda: relu_attention(QUERY, QUERY, QUERY, torch.ones(3, 3, dtype=torch.int32)),
        "mask",
        "bool",
        "int32",
        "mask.bool()",
    )


@pytest.mark.parametrize("dropout_p", [-0.1, 1.1, math.nan])
def test_wrong_dropout(dropout_p: float) -> None:
    raises_naming(
        lambda: relu_attention(QUERY, QUERY, QUERY, dropout_p=dropout_p), "dropout_p", "between 0 and 1", str(dropout_p)
    )


def test_wrong_causal_names() -> None:
    for is_causal in ("top-left", 1, None):
        raises_naming(
            lambda c=is_causal: relu_attention(QUERY, QUERY, QUERY, is_causal=c),  # pyright: ignore[reportArgumentType]
            "is_causal",
            "bottom-right",
            repr(is_causal),
        )


def test_unknown_maps() -> None:
    name: Any = "rela"
    raises_naming(lambda: attention(QUERY, QUERY, QUERY, name), "map", "rela", *MAPS)


@pytest.mark.parametrize("name", ROW_MAPS)
def test_row_maps_refuse_thresholds_and_length_powers(name: MapName) -> None:
    for threshold in (0.5, torch.zeros(4)):
        raises_naming(
            lambda t=threshold: attention(QUERY, QUERY, QUERY, name, threshold=t), "threshold", name, "leave", "relu"
        )
    raises_naming(lambda: attention(QUERY, QUERY, QUERY, name, length_power=1.0), "length_power", name, "leave")


@pytest.mark.parametrize("need_weights", [True, False])
def test_thresholds_need_one_number_for_each_head(need_weights: bool) -> None:
    raises_naming(
        lambda: attention(QUERY, QUERY, QUERY, "relu", threshold=torch.zeros(3), need_weights=need_weights),
        "threshold",
        "4",
        "3",
    )


def test_alphas_need_one_number_for_each_head() -> None:
    raises_naming(lambda: attention(QUERY, QUERY, QUERY, "entmax", alpha=torch.full((3,), 1.5)), "alpha", "4", "3")


@pytest.mark.parametrize("alpha", [1.0, 0.5, math.nan])
def test_alphas_of_one_or_less_are_refused(alpha: float) -> None:
    raises_naming(lambda: attention(QUERY, QUERY, QUERY, "entmax", alpha=alpha), "alpha", str(alpha))


@pytest.mark.parametrize("need_weights", [True, False])
def test_thresholds_of_another_float_dtype(need_weights: bool) -> None:
    inputs = make_inputs(dtype=torch.float32)
    threshold = torch.tensor([0.2, 0.4], dtype=torch.float64)
    output = attention(*inputs, "relu", threshold=threshold, need_weights=need_weights)[0]
    torch.testing.assert_close(output, relu_attention(*inputs, threshold=threshold.float()))


def test_topk_needs_a_key() -> None:
    raises_naming(lambda: attention(QUERY, QUERY, QUERY, "topk", topk=0), "topk", "at least 1")
