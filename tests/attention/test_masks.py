"""Masks: torch's forms outside, one form inside."""

import math
from typing import Any

import pytest
import torch
from tests.attention.helpers import draw_mask, raises_naming
from torch import Tensor

from rela.attention.masks import Mask, causal_mask, causal_offset, merge_masks, split_mask

CPU = torch.device("cpu")


def test_no_mask_allows_all() -> None:
    assert split_mask(None, true_means="allowed") == Mask(None, None, None)
    assert Mask().all_allowed(3, 4, CPU) is None


def test_boolean_masks_in_both_conventions() -> None:
    mask = torch.tensor([[True, False], [False, True]])
    assert torch.equal(_allowed(split_mask(mask, true_means="allowed")), mask)
    assert torch.equal(_allowed(split_mask(mask, true_means="forbidden")), ~mask)
    assert split_mask(mask, true_means="allowed").bias is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_additive_masks_forbid_from_half_the_minimum_on(dtype: torch.dtype) -> None:
    lowest = torch.finfo(dtype).min
    half = torch.tensor(lowest / 2, dtype=dtype)
    just_above = torch.nextafter(half, torch.tensor(0.0, dtype=dtype))
    assert just_above > half
    values = torch.stack(
        [
            *(torch.tensor(x, dtype=dtype) for x in (-math.inf, lowest, lowest * 0.75)),
            half,
            just_above,
            *(torch.tensor(x, dtype=dtype) for x in (-100.0, 0.0, 3.0)),
        ]
    )
    mask = split_mask(values, true_means="forbidden")  # the convention is for boolean masks only
    assert _allowed(mask).flatten().tolist() == [False] * 4 + [True] * 4
    assert mask.bias is not None
    assert mask.bias.isfinite().all()
    assert torch.equal(mask.bias.flatten()[4:], values[4:])
    assert mask.bias.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.complex64])
def test_other_dtypes_are_refused(dtype: torch.dtype) -> None:
    mask = torch.ones(2, 2, dtype=dtype)
    raises_naming(lambda: split_mask(mask, true_means="allowed"), "mask", "bool", "float", str(dtype), "mask.bool()")


@pytest.mark.parametrize(
    ("num_queries", "num_keys", "offset", "rows"),
    [
        (3, 3, 0, ["100", "110", "111"]),
        (2, 4, 0, ["1000", "1100"]),
        (2, 4, 2, ["1110", "1111"]),
        (4, 2, -2, ["00", "00", "10", "11"]),
        (1, 3, 2, ["111"]),
        (2, 0, -2, ["", ""]),
        (0, 2, 2, []),
    ],
)
def test_causal_masks(num_queries: int, num_keys: int, offset: int, rows: list[str]) -> None:
    expected = [[letter == "1" for letter in row] for row in rows]
    assert causal_mask(num_queries, num_keys, offset, CPU).tolist() == expected
    allowed = Mask(causal_offset=offset).all_allowed(num_queries, num_keys, CPU)
    assert allowed is not None
    assert allowed.tolist() == expected


def test_causal_offsets() -> None:
    assert causal_offset(False, 3, 5) is None
    assert causal_offset(True, 3, 5) == 0
    assert causal_offset("bottom-right", 3, 5) == 2
    assert causal_offset("bottom-right", 5, 3) == -2
    name: Any = "top"
    raises_naming(lambda: causal_offset(name, 3, 5), "is_causal", "bottom-right", "top")


def test_causal_and_given_masks_both_apply() -> None:
    given = torch.tensor([[False, True, True]])
    merged = Mask(allowed=given, causal_offset=0).all_allowed(3, 3, CPU)
    assert merged is not None
    assert merged.tolist() == [[False, False, False], [False, True, False], [False, True, True]]


@pytest.mark.parametrize("shape", [None, (), (5,), (4, 5), (1, 5), (4, 1), (2, 1, 1, 5), (1, 3, 4, 5), (2, 3, 1, 1)])
@pytest.mark.parametrize("offset", [None, 0, 1, -2, -9, 9])
def test_valid_keys_are_counted_by_row(shape: tuple[int, ...] | None, offset: int | None) -> None:
    allowed = None if shape is None else draw_mask(*shape, seed=2)
    mask = Mask(allowed, None, offset)
    whole = mask.all_allowed(4, 5, CPU)
    expected = torch.ones(4, 5).bool() if whole is None else whole
    counted = torch.as_tensor(mask.num_valid(4, 5, CPU))
    full = (2, 3, 4, 1)
    assert torch.equal(counted.expand(full), expected.expand(2, 3, 4, 5).sum(-1, keepdim=True))


def test_merged_masks_allow_what_both_allow() -> None:
    first = Mask(torch.tensor([True, True, False]), torch.tensor([1.0, 2.0, 0.0]), 2)
    second = Mask(torch.tensor([[True], [False]]), torch.tensor([[10.0], [20.0]]), 1)
    merged = merge_masks(first, second)
    assert _allowed(merged).tolist() == [[True, True, False], [False, False, False]]
    assert merged.bias is not None
    assert merged.bias.tolist() == [[11.0, 12.0, 10.0], [21.0, 22.0, 20.0]]
    assert merged.causal_offset == 1
    assert merge_masks(Mask(), Mask()) == Mask()
    assert merge_masks(first, Mask()) == first
    assert merge_masks(Mask(), first) == first


def _allowed(mask: Mask) -> Tensor:
    assert mask.allowed is not None
    return mask.allowed
