"""What holds for all inputs."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.helpers import (
    POINTWISE_MAPS,
    PRESET_NAMES,
    ROW_MAPS,
    Inputs,
    draw_mask,
    fast,
    make_inputs,
    norm_parameters,
)
from torch import Tensor

from rela.attention.functional import attend, attention, attention_weights, relu_attention
from rela.attention.masks import Causal, Mask
from rela.attention.spec import MAPS, MapName, resolve

maps = st.sampled_from(MAPS)
causal: st.SearchStrategy[Causal] = st.sampled_from([False, True, "bottom-right"])
few = settings(max_examples=60)


@st.composite
def shapes(draw: st.DrawFn, least_keys: int = 1) -> dict[str, Any]:
    return {
        "tq": draw(st.integers(1, 9)),
        "tk": draw(st.integers(least_keys, 9)),
        "d": draw(st.integers(1, 6)),
        "dv": draw(st.integers(1, 6)),
        "batch": draw(st.sampled_from([(), (1,), (2,), (2, 1), (2, 2)])),
        "heads": draw(st.integers(1, 3)),
        "size": draw(st.sampled_from([0.1, 1.0, 5.0])),
        "seed": draw(st.integers(0, 1000)),
    }


def _sized(shape: dict[str, Any], size: float) -> dict[str, Any]:
    return {**shape, "size": size}


@st.composite
def masks(draw: st.DrawFn, tq: int, tk: int) -> Tensor | None:
    kind = draw(st.sampled_from(["none", "rows", "keys", "additive"]))
    if kind == "none":
        return None
    mask = draw_mask(1 if kind == "keys" else tq, tk, seed=draw(st.integers(0, 1000)), share=draw(st.floats(0, 1)))
    return mask if kind != "additive" else torch.zeros(tq, tk, dtype=torch.float64).masked_fill(~mask, -torch.inf)


def _allowed(mask: Tensor | None, is_causal: Causal, tq: int, tk: int) -> Tensor:
    allowed = torch.ones(tq, tk).bool()
    if mask is not None:
        allowed = allowed & (mask if mask.dtype == torch.bool else mask == 0)
    offset = {False: tk, True: 0, "bottom-right": tk - tq}[is_causal]
    return allowed.tril(offset)


@few
@given(data=st.data(), name=maps, shape=shapes(), is_causal=causal)
def test_masked_weights_are_exactly_zero(
    data: st.DataObject, name: MapName, shape: dict[str, Any], is_causal: Causal
) -> None:
    inputs = make_inputs(**shape)
    mask = data.draw(masks(shape["tq"], shape["tk"]))
    weights = attention_weights(*inputs[:2], name, attn_mask=mask, is_causal=is_causal, topk=3)
    allowed = _allowed(mask, is_causal, shape["tq"], shape["tk"])
    assert (weights.masked_select(~allowed) == 0).all()
    assert weights.isfinite().all()


@few
@given(data=st.data(), name=st.sampled_from(ROW_MAPS), shape=shapes(), is_causal=causal)
def test_rows_sum_to_one_or_zero(data: st.DataObject, name: MapName, shape: dict[str, Any], is_causal: Causal) -> None:
    inputs = make_inputs(**shape)
    mask = data.draw(masks(shape["tq"], shape["tk"]))
    weights = attention_weights(*inputs[:2], name, attn_mask=mask, is_causal=is_causal, topk=3)
    assert (weights >= 0).all()
    sees = _allowed(mask, is_causal, shape["tq"], shape["tk"]).any(-1).double()
    torch.testing.assert_close(weights.sum(-1), sees.expand(weights.shape[:-1]), rtol=0, atol=1e-6)


@few
@given(data=st.data(), name=maps, shape=shapes())
def test_the_order_of_the_keys_does_not_matter(data: st.DataObject, name: MapName, shape: dict[str, Any]) -> None:
    query, key, value = make_inputs(**shape)
    mask = data.draw(masks(shape["tq"], shape["tk"]))
    order = torch.tensor(data.draw(st.permutations(range(shape["tk"]))))
    permuted_mask = None if mask is None else mask[:, order]
    for need_weights in (True, False):
        output, weights = attention(query, key, value, name, attn_mask=mask, topk=3, need_weights=need_weights)
        permuted, permuted_weights = attention(
            query,
            key[..., order, :],
            value[..., order, :],
            name,
            attn_mask=permuted_mask,
            topk=3,
            need_weights=need_weights,
        )
        torch.testing.assert_close(permuted, output)
        if need_weights:
            assert weights is not None
            torch.testing.assert_close(permuted_weights, weights[..., order])


@few
@given(data=st.data(), name=maps, shape=shapes(), need_weights=st.booleans())
def test_rows_alone_and_together_are_equal(
    data: st.DataObject, name: MapName, shape: dict[str, Any], need_weights: bool
) -> None:
    query, key, value = make_inputs(**shape)
    allowed = _allowed(data.draw(masks(shape["tq"], shape["tk"])), False, shape["tq"], shape["tk"])
    together = attention(query, key, value, name, attn_mask=allowed, topk=3, need_weights=need_weights)[0]
    for row in range(shape["tq"]):
        one = query[..., row : row + 1, :]
        alone = attention(one, key, value, name, attn_mask=allowed[row : row + 1], topk=3, need_weights=need_weights)[0]
        torch.testing.assert_close(alone[..., 0, :], together[..., row, :])


@few
@given(name=maps, shape=shapes(), steps=st.integers(1, 3), need_weights=st.booleans())
def test_decoding_in_pieces_equals_causal_attention(
    name: MapName, shape: dict[str, Any], steps: int, need_weights: bool
) -> None:
    shape = {**shape, "tk": shape["tq"]}
    query, key, value = make_inputs(**shape)
    whole = attention(query, key, value, name, is_causal=True, topk=3, need_weights=need_weights)[0]
    for start in range(0, shape["tq"], steps):
        stop = min(start + steps, shape["tq"])
        piece = attention(
            query[..., start:stop, :],
            key[..., :stop, :],
            value[..., :stop, :],
            name,
            is_causal="bottom-right",
            topk=3,
            need_weights=need_weights,
        )[0]
        torch.testing.assert_close(piece, whole[..., start:stop, :])


@few
@given(name=maps, shape=shapes(), need_weights=st.booleans())
def test_a_forbidden_key_might_as_well_not_be_there(name: MapName, shape: dict[str, Any], need_weights: bool) -> None:
    query, key, value = make_inputs(**shape)
    allowed = draw_mask(shape["tk"], seed=shape["seed"])
    masked = attention(query, key, value, name, attn_mask=allowed[None], topk=3, need_weights=need_weights)[0]
    left = attention(query, key[..., allowed, :], value[..., allowed, :], name, topk=3, need_weights=need_weights)[0]
    torch.testing.assert_close(masked, left)


@few
@given(
    preset=st.sampled_from(["relu", "relu-rmsnorm", "rela-i", "rela-g"]),
    shape=shapes(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_scores_at_or_below_zero_give_exactly_zero(preset: str, shape: dict[str, Any], dtype: torch.dtype) -> None:
    spec = resolve(preset)
    query, key, value = make_inputs(**shape, dtype=dtype)
    parameters = {k: v.to(dtype) for k, v in norm_parameters(spec, shape["heads"] * shape["dv"]).items()}
    for other in (-query.abs(), torch.zeros_like(query)):
        assert (fast(Inputs(other, key.abs(), value), spec, parameters) == 0).all()
        assert (attention_weights(other, key.abs(), "relu") == 0).all()


@few
@given(shape=shapes(), factor=st.floats(0.01, 100))
def test_scaling_queries_scales_relu(shape: dict[str, Any], factor: float) -> None:
    query, key, value = make_inputs(**shape)
    weights = attention_weights(query, key, "relu")
    torch.testing.assert_close(attention_weights(query * factor, key, "relu"), weights * factor)
    torch.testing.assert_close(relu_attention(query * factor, key, value), relu_attention(query, key, value) * factor)
    squared = attention_weights(query * factor, key, "relu2")
    torch.testing.assert_close(squared, attention_weights(query, key, "relu2") * factor**2)


@few
@given(preset=st.sampled_from(["relu-rmsnorm", "rela-i"]), shape=shapes(), factor=st.floats(0.5, 100))
def test_scaling_queries_leaves_normed_outputs_alone(preset: str, shape: dict[str, Any], factor: float) -> None:
    spec = resolve(preset)
    query, key, value = make_inputs(**_sized(shape, 1.0))
    query = query * 1e6  # so that eps is negligible beside z
    parameters = norm_parameters(spec, shape["heads"] * shape["dv"])
    expected = fast(Inputs(query, key, value), spec, parameters)
    scaled = fast(Inputs(query * factor, key, value), spec, parameters)
    heads = relu_attention(query, key, value).transpose(-3, -2).flatten(-2)
    large = heads.square().mean(-1) > 1e4  # eps / z^2 < 1e-10
    torch.testing.assert_close(scaled[large], expected[large], rtol=1e-8, atol=1e-8)


@few
@given(shape=shapes(least_keys=2), k=st.integers(1, 9))
def test_topk_keeps_exactly_k(shape: dict[str, Any], k: int) -> None:
    inputs = make_inputs(**_sized(shape, 1.0))
    weights = attention_weights(*inputs[:2], "topk", topk=k)
    assert ((weights > 0).sum(-1) == min(k, shape["tk"])).all()
    scores = inputs.query @ inputs.key.mT
    dropped, kept = scores.masked_fill(weights > 0, -torch.inf), scores.masked_fill(weights == 0, torch.inf)
    assert (kept.min(-1).values > dropped.max(-1).values).all()


@few
@given(shape=shapes(), name=st.sampled_from(["relu", "relu2"]), low=st.floats(-2, 2), more=st.floats(0.01, 2))
def test_a_higher_threshold_never_adds_weight(shape: dict[str, Any], name: MapName, low: float, more: float) -> None:
    inputs = make_inputs(**shape)
    lower, higher = (attention_weights(*inputs[:2], name, threshold=t) for t in (low, low + more))
    assert (higher <= lower).all()
    assert ((lower == 0) <= (higher == 0)).all()


@few
@given(shape=shapes(), name=st.sampled_from(MAPS))
def test_outputs_are_linear_in_the_values(shape: dict[str, Any], name: MapName) -> None:
    query, key, value = make_inputs(**shape)
    other = torch.randn(value.shape, dtype=value.dtype, generator=torch.Generator().manual_seed(1))
    for need_weights in (True, False):
        both = attention(query, key, 2 * value - other, name, need_weights=need_weights)[0]
        parts = [attention(query, key, v, name, need_weights=need_weights)[0] for v in (value, other)]
        torch.testing.assert_close(both, 2 * parts[0] - parts[1])


@few
@given(data=st.data(), name=maps, shape=shapes(), is_causal=causal)
def test_weights_explain_the_output(
    data: st.DataObject, name: MapName, shape: dict[str, Any], is_causal: Causal
) -> None:
    inputs = make_inputs(**shape)
    mask = data.draw(masks(shape["tq"], shape["tk"]))
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": is_causal, "topk": 3}
    weights = attention_weights(*inputs[:2], name, **options)
    torch.testing.assert_close(attention(*inputs, name, need_weights=False, **options)[0], weights @ inputs.value)


@few
@given(preset=st.sampled_from(PRESET_NAMES), shape=shapes(), size=st.sampled_from([1e-6, 1e-3, 1.0, 1e4]))
def test_nothing_is_ever_nan(preset: str, shape: dict[str, Any], size: float) -> None:
    spec = resolve(preset)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = make_inputs(**_sized(shape, size), dtype=dtype)
        parameters = norm_parameters(spec, shape["heads"] * shape["dv"])
        parameters = {k: v.detach().to(dtype).requires_grad_() for k, v in parameters.items()}
        mask = Mask(draw_mask(shape["tq"], shape["tk"], seed=shape["seed"], share=0.3))
        output = fast(inputs, spec, parameters, mask)
        grads = torch.autograd.grad(output, [*inputs, *parameters.values()], torch.ones_like(output))
        assert not any(t.isnan().any() for t in (output, *grads))


@pytest.mark.parametrize("name", POINTWISE_MAPS)
def test_pointwise_weights_do_not_depend_on_other_keys(name: MapName) -> None:
    query, key, _ = make_inputs()
    more = torch.cat([key, key * 3], dim=-2)
    torch.testing.assert_close(attention_weights(query, more, name)[..., :7], attention_weights(query, key, name))


def test_scores_are_not_kept_when_nobody_asks() -> None:
    seen = attend(*make_inputs(), resolve("relu"), Mask())
    assert seen.weights is None
    assert seen.scores is None
