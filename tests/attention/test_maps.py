"""Maps: from scores to weights."""

import math

import pytest
import torch
from tests.attention.helpers import POINTWISE_MAPS, ROW_MAPS
from torch import Tensor

from rela.attention.maps import ALPHA_MIN, alpha_from_logit, length_factor, map_scores, masked_softmax
from rela.attention.naive import naive_map
from rela.attention.spec import MAPS, MapName, resolve

SCORES = torch.tensor([[1.0, -1.0, 0.5, 0.0, 2.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", [1.0, 0.0, 0.5, 0.0, 2.0]),
        ("relu2", [1.0, 0.0, 0.25, 0.0, 4.0]),
        ("leaky", [1.0, -0.2, 0.5, 0.0, 2.0]),
        ("gelu", [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in (1.0, -1.0, 0.5, 0.0, 2.0)]),
        ("sigmoid", [1 / (1 + math.exp(-x)) for x in (1.0, -1.0, 0.5, 0.0, 2.0)]),
        # The largest score leads by 1 or more: sparsemax gives it everything.
        ("sparsemax", [0.0, 0.0, 0.0, 0.0, 1.0]),
        ("topk", [1 / (1 + math.e + math.exp(-0.5)), 0, math.exp(-0.5) / (1 + math.e + math.exp(-0.5)), 0, 0]),
    ],
)
def test_weights_by_hand(name: MapName, expected: list[float]) -> None:
    spec = resolve(f"{name}+none", topk=3)
    weights = map_scores(spec, SCORES, None)
    if name == "topk":
        expected[4] = 1 - expected[0] - expected[2]
    torch.testing.assert_close(weights, torch.tensor([expected], dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_entmax15_by_hand() -> None:
    # Two equal scores share; scores 2 below them have (x/2 - tau)^2 = 0.
    weights = map_scores(resolve("entmax15"), torch.tensor([[3.0, 3.0, 1.0]], dtype=torch.float64), None)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("name", MAPS)
def test_maps_equal_the_definitions(name: MapName) -> None:
    spec = resolve(f"{name}+none", topk=3)
    scores = torch.randn(20, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    expected = torch.stack([naive_map(row, spec, 0.0, 1.5) for row in scores])
    torch.testing.assert_close(map_scores(spec, scores, None), expected)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masked_weights_are_exactly_zero(name: MapName, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 8, 9, dtype=dtype, generator=generator) * 10
    allowed = torch.rand(2, 1, 8, 9, generator=generator) < 0.5
    allowed[0, 0, 3] = False
    spec = resolve(f"{name}+none", topk=3)
    for masked_score in (0.0, 50.0, -50.0, 1e30, -1e30, torch.finfo(dtype).min):
        weights = map_scores(spec, scores.masked_fill(~allowed, masked_score), allowed)
        assert (weights.masked_select(~allowed) == 0).all()
        assert weights.isfinite().all()
        # What stands at a masked place changes nothing elsewhere.
        torch.testing.assert_close(weights, map_scores(spec, scores, allowed), rtol=0, atol=0)


@pytest.mark.parametrize("name", ROW_MAPS)
def test_rows_of_row_maps_sum_to_one_unless_fully_masked(name: MapName) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 8, 9, dtype=torch.float64, generator=generator) * 5
    allowed = torch.rand(2, 3, 8, 9, generator=generator) < 0.5
    allowed[1, 1, 2:5] = False
    sums = map_scores(resolve(f"{name}+none", topk=3), scores, allowed).sum(-1)
    torch.testing.assert_close(sums, allowed.any(-1).double(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ROW_MAPS)
def test_row_maps_do_not_see_shifts(name: MapName) -> None:
    scores = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    spec = resolve(f"{name}+none", topk=3)
    torch.testing.assert_close(map_scores(spec, scores + 100, None), map_scores(spec, scores, None))


@pytest.mark.parametrize("name", POINTWISE_MAPS)
def test_thresholds_shift_pointwise_maps(name: MapName) -> None:
    scores = torch.randn(2, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    spec = resolve(f"{name}+none")
    shifted = map_scores(spec, scores - 0.3, None)
    torch.testing.assert_close(map_scores(spec, scores, None, threshold=0.3), shifted)
    by_head = torch.tensor([0.3, -1.0, 0.0], dtype=torch.float64)[:, None, None]
    weights = map_scores(spec, scores, None, threshold=by_head)
    torch.testing.assert_close(weights[:, 0], shifted[:, 0])
    torch.testing.assert_close(weights[:, 2], map_scores(spec, scores, None)[:, 2])


def test_masks_come_after_the_map_with_a_negative_threshold() -> None:
    # Zeroing the score instead would leave relu(0 + 1) = 1 at the masked place.
    allowed = torch.tensor([True, False])
    weights = map_scores(resolve("relu"), torch.tensor([[0.5, 0.5]]), allowed, threshold=-1.0)
    assert weights.tolist() == [[1.5, 0.0]]


def test_topk_keeps_ties_with_the_last_one() -> None:
    scores = torch.tensor([[3.0, 1.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0]])
    weights = map_scores(resolve("topk", topk=2), scores, None)
    assert (weights > 0).tolist() == [[True, True, True, False], [True, True, False, False]]


def test_topk_counts_only_allowed_keys() -> None:
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0]])
    allowed = torch.tensor([[False, True, False, True, True]])
    weights = map_scores(resolve("topk", topk=2), scores, allowed)
    assert (weights > 0).tolist() == [[False, True, False, True, False]]
    few = map_scores(resolve("topk", topk=4), scores, allowed)
    torch.testing.assert_close(few, masked_softmax(scores, allowed))
    assert torch.equal(map_scores(resolve("topk", topk=9), scores, None), scores.softmax(-1))


def test_entmax_lies_between_softmax_and_sparsemax() -> None:
    scores = torch.randn(6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    entmax = resolve("entmax")
    sparsemax = map_scores(resolve("sparsemax"), scores, None)
    torch.testing.assert_close(map_scores(entmax, scores, None, alpha=2.0), sparsemax)
    torch.testing.assert_close(
        map_scores(entmax, scores, None, alpha=1.5), map_scores(resolve("entmax15"), scores, None)
    )
    near_one = map_scores(entmax, scores, None, alpha=ALPHA_MIN)
    torch.testing.assert_close(near_one, scores.softmax(-1), rtol=0, atol=0.02)


def test_alpha_has_one_number_for_each_head() -> None:
    scores = torch.randn(2, 2, 3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    alpha = torch.tensor([1.2, 1.9], dtype=torch.float64)
    weights = map_scores(resolve("entmax"), scores, None, alpha=alpha[:, None, None])
    for head, number in enumerate(alpha.tolist()):
        expected = map_scores(resolve("entmax"), scores[:, head], None, alpha=number)
        torch.testing.assert_close(weights[:, head], expected)


def test_learned_alphas_stay_where_the_bisection_works() -> None:
    alphas = alpha_from_logit(torch.tensor([-1e4, -5.0, 0.0, 5.0, 1e4]))
    assert alphas[0] == pytest.approx(ALPHA_MIN)
    assert alphas[-1] == 2.0
    assert (alphas.diff() > 0).all()


def test_length_factor() -> None:
    assert length_factor(0.5, 4, torch.float64) == 0.5
    assert length_factor(1.0, 0, torch.float64) == 1.0
    factor = length_factor(0.5, torch.tensor([[4], [1], [0]]), torch.float64)
    assert isinstance(factor, Tensor)
    assert factor.tolist() == [[0.5], [1.0], [1.0]]


@pytest.mark.parametrize("name", POINTWISE_MAPS)
def test_length_power_divides_the_weights(name: MapName) -> None:
    scores = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    allowed = torch.tensor([[True] * 4, [True, True, False, False], [False] * 4])
    plain = map_scores(resolve(f"{name}+none"), scores, allowed)
    divided = map_scores(resolve(f"{name}+none", length_power=1.0), scores, allowed)
    torch.testing.assert_close(divided, plain / torch.tensor([[4.0], [2.0], [1.0]]))


@pytest.mark.parametrize("name", MAPS)
def test_no_keys_no_weights(name: MapName) -> None:
    assert map_scores(resolve(f"{name}+none"), torch.zeros(2, 3, 0), None).shape == (2, 3, 0)


@pytest.mark.parametrize("name", MAPS)
def test_second_derivatives(name: MapName) -> None:
    scores = torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    allowed = torch.ones(3, 5, dtype=torch.bool)
    allowed[1, 2:] = False
    allowed[2] = False
    alpha = torch.tensor([1.3, 1.7], dtype=torch.float64)[:, None, None].requires_grad_()
    spec = resolve(f"{name}+none", topk=3)

    def run(scores: Tensor, alpha: Tensor) -> Tensor:
        return map_scores(spec, scores, allowed, alpha=alpha)

    inputs = (scores, alpha) if name == "entmax" else (scores, alpha.detach())
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


# torch.func.jvp loads a part of torch that warns of another
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", MAPS)
def test_transforms_give_the_same_weights_and_derivatives(name: MapName) -> None:
    """Inside torch.func other formulas may run: to the same numbers."""
    spec = resolve(f"{name}+none", topk=3)
    scores = torch.randn(4, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 2
    allowed = torch.ones(3, 5, dtype=torch.bool)
    allowed[1, 2:] = False
    allowed[2] = False
    tangent = torch.randn(scores.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def run(scores: Tensor) -> Tensor:
        return map_scores(spec, scores, allowed)

    def weighted(scores: Tensor) -> Tensor:
        return (run(scores) * tangent[0]).sum()

    expected = run(scores)
    torch.testing.assert_close(torch.func.vmap(run)(scores), expected)
    forward, derivative = torch.func.jvp(run, (scores,), (tangent,))[:2]
    torch.testing.assert_close(forward, expected)
    step = 1e-6
    differences = (run(scores + step * tangent) - run(scores - step * tangent)) / (2 * step)
    torch.testing.assert_close(derivative, differences, rtol=1e-5, atol=1e-5)
    leaf = scores[0].clone().requires_grad_()
    torch.testing.assert_close(torch.func.grad(weighted)(scores[0]), torch.autograd.grad(weighted(leaf), leaf)[0])
