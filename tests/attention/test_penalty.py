"""Steering sparsity."""

import pytest
import torch
from tests.attention.helpers import raises_naming
from torch import Tensor, nn

from rela import MultiheadAttention, SparsityPenalty
from rela.attention.functional import sparsity_rate
from rela.attention.heads import Heads, Observation
from rela.attention.spec import AttentionSpec, resolve


def _module(attention: str | AttentionSpec = "rela-g", seed: int = 0) -> MultiheadAttention:
    torch.manual_seed(seed)
    return MultiheadAttention(16, 2, batch_first=True, attention=attention)


def _x(batch: int = 4, length: int = 6) -> Tensor:
    return torch.randn(batch, length, 16, generator=torch.Generator().manual_seed(1))


def _watch(module: MultiheadAttention) -> list[Tensor]:
    seen: list[Tensor] = []

    def look(_: Heads, observation: Observation) -> None:
        assert observation.scores is not None
        seen.append(observation.scores)

    module.register_observer(look)
    return seen


@pytest.mark.parametrize("attention", ["rela-g", "relu", "relu2+rmsnorm", resolve("rela-g", threshold=0.3)])
def test_the_loss_is_of_the_exact_rate(attention: str | AttentionSpec) -> None:
    module = _module(attention)
    penalty = SparsityPenalty(module, target=0.9)
    _, weights = module(_x(), _x(), _x(), average_attn_weights=False)
    rate = sparsity_rate(weights).item()
    assert 0.2 < rate < 0.8
    assert penalty.rate().item() == pytest.approx(rate, abs=1e-6)
    assert penalty().item() == pytest.approx((rate - 0.9) ** 2, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 0.1])
@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_the_gradient_is_that_of_the_soft_count(temperature: float, threshold: float) -> None:
    module = _module(resolve("rela-g", threshold=threshold))
    seen = _watch(module)
    penalty = SparsityPenalty(module, target=0.9, temperature=temperature)
    module(_x(), _x(), _x())
    scores = seen[0]
    soft = torch.sigmoid((threshold - scores) / temperature)
    expected = -soft * (1 - soft) / temperature / scores.numel()
    rate = penalty.rate()
    torch.testing.assert_close(torch.autograd.grad(rate, scores, retain_graph=True)[0], expected)
    loss = penalty()
    (grad,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(grad, 2 * (rate.item() - 0.9) * expected)


def test_a_learned_threshold_is_reached() -> None:
    module = _module(resolve("rela-g", threshold=0.2, learn_threshold=True))
    seen = _watch(module)
    penalty = SparsityPenalty(module, target=0.9)
    module(_x(), _x(), _x())
    assert module.threshold is not None
    (grad,) = torch.autograd.grad(penalty.rate(), module.threshold)
    soft = torch.sigmoid((0.2 - seen[0]) / 0.5)
    expected = (soft * (1 - soft) / 0.5 / soft.numel()).sum((0, 2, 3))
    torch.testing.assert_close(grad, expected)


def test_queries_and_keys_are_reached_and_values_are_not() -> None:
    module = _module()
    penalty = SparsityPenalty(module, target=0.9)
    module(_x(), _x(), _x())
    penalty().backward()
    assert module.in_proj_weight is not None
    assert module.in_proj_weight.grad is not None
    query, key, value = module.in_proj_weight.grad.chunk(3)
    assert query.abs().max() > 0
    assert key.abs().max() > 0
    assert (value == 0).all()


def test_masked_places_do_not_count() -> None:
    module = _module()
    seen = _watch(module)
    penalty = SparsityPenalty(module, target=0.5)
    padding = torch.zeros(4, 6).bool()
    padding[:, 4:] = True
    _, weights = module(_x(), _x(), _x(), key_padding_mask=padding, is_causal=True, average_attn_weights=False)
    allowed = ~padding[:, None, None, :] & torch.ones(6, 6).bool().tril()
    rate = penalty.rate()
    assert rate.item() == pytest.approx(sparsity_rate(weights, allowed).item(), abs=1e-6)
    (grad,) = torch.autograd.grad(rate, seen[0])
    places = allowed.expand_as(grad)
    assert (grad[~places] == 0).all()
    assert (grad[places] != 0).all()


def test_nothing_valid_gives_a_finite_loss() -> None:
    module = _module()
    penalty = SparsityPenalty(module, target=0.5)
    module(_x(), _x(), _x(), key_padding_mask=torch.ones(4, 6).bool())
    loss = penalty()
    loss.backward()
    assert loss.isfinite()


def test_passes_are_pooled_and_forgotten() -> None:
    model = nn.ModuleList([_module(seed=1), _module("relu2", seed=2), _module("softmax", seed=3)])
    penalty = SparsityPenalty(model, target=0.5)
    rates: list[tuple[float, int]] = []
    for module, length in zip(model, (6, 3, 5), strict=True):
        x = _x(length=length)
        _, weights = module(x, x, x, average_attn_weights=False)
        rates.append((sparsity_rate(weights).item(), weights.numel()))
    watched = rates[:2]
    expected = sum(rate * count for rate, count in watched) / sum(count for _, count in watched)
    assert penalty.rate().item() == pytest.approx(expected, abs=1e-6)
    penalty()
    with pytest.raises(RuntimeError, match="forward pass"):
        penalty()


def test_only_training_counts() -> None:
    module = _module().eval()
    penalty = SparsityPenalty(module, target=0.5)
    module(_x(), _x(), _x())
    with pytest.raises(RuntimeError, match="training mode"):
        penalty()


def test_passes_without_gradients_do_not_count() -> None:
    module = _module()
    penalty = SparsityPenalty(module, 0.5)
    with torch.no_grad():
        module(_x(), _x(), _x())
    with pytest.raises(RuntimeError, match=r"with gradients.*torch\.no_grad"):
        penalty()


def test_closing_ends_it() -> None:
    module = _module()
    penalty = SparsityPenalty(module, target=0.5)
    penalty.close()
    module(_x(), _x(), _x())
    with pytest.raises(RuntimeError, match="forward pass"):
        penalty()


def test_watching_changes_no_output() -> None:
    module = _module()
    before = module(_x(), _x(), _x(), need_weights=False)[0]
    SparsityPenalty(module, target=0.5)
    torch.testing.assert_close(module(_x(), _x(), _x(), need_weights=False)[0], before)


@pytest.mark.parametrize("attention", ["rela-g", "relu2+rmsnorm", resolve("rela-g", learn_threshold=True)])
@pytest.mark.parametrize("target", [0.15, 0.9])
def test_alone_it_moves_a_model_to_its_target(attention: str | AttentionSpec, target: float) -> None:
    module = _module(attention)
    penalty = SparsityPenalty(module, target=target)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    x = _x(16, 8)
    rate = 0.0
    for step in range(150):
        module(x, x, x, need_weights=False)
        rate = penalty.rate().item()
        if step == 0:
            assert 0.35 < rate < 0.65
        optimizer.zero_grad()
        penalty().backward()
        optimizer.step()
    assert rate == pytest.approx(target, abs=0.05)
    _, weights = module.eval()(x, x, x, average_attn_weights=False)
    assert sparsity_rate(weights).item() == pytest.approx(target, abs=0.06)


def test_errors() -> None:
    for target in (-0.1, 1.1, 80, float("nan")):
        raises_naming(lambda t=target: SparsityPenalty(_module(), t), "target", "between 0 and 1", str(target))
    for temperature in (0.0, -1.0, float("nan")):
        raises_naming(
            lambda t=temperature: SparsityPenalty(_module(), 0.5, temperature=t),
            "temperature",
            "positive",
            str(temperature),
        )
    raises_naming(lambda: SparsityPenalty(nn.Linear(2, 2), 0.5), "MultiheadAttention", "relu", "none")
    raises_naming(lambda: SparsityPenalty(_module("softmax"), 0.5), "MultiheadAttention", "relu", "softmax")
    raises_naming(lambda: SparsityPenalty(_module("rela-g-gelu"), 0.5), "relu2", "gelu")
