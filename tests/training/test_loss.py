"""The loss in chunks is the loss by definition, outputs and gradients."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from rela.text.vocabulary import PAD
from rela.training import loss
from rela.training.loss import Loss, naive_token_loss, token_loss


def gradients(found: Loss, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(found.smoothed * 0.7, leaves)


@given(
    rows=st.integers(1, 5),
    length=st.integers(1, 6),
    dim=st.integers(1, 5),
    vocabulary=st.integers(2, 9),
    padding=st.floats(0, 0.9),
    smoothing=st.sampled_from([0.0, 0.1, 0.5, 0.99]),
    chunk=st.integers(1, 60),
    seed=st.integers(0, 100),
)
@example(rows=2, length=3, dim=2, vocabulary=4, padding=1.0, smoothing=0.1, chunk=5, seed=0)  # nothing but padding
def test_chunks_equal_the_definition(
    rows: int, length: int, dim: int, vocabulary: int, padding: float, smoothing: float, chunk: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, length, dim, dtype=torch.float64, generator=generator).requires_grad_()
    projection = torch.randn(vocabulary, dim, dtype=torch.float64, generator=generator).requires_grad_()
    targets = torch.randint(1, vocabulary, (rows, length), generator=generator)
    targets[torch.rand(rows, length, generator=generator) < padding] = PAD
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "_CHUNK_NUMBERS", chunk)
        fast = token_loss(hidden, projection, targets, smoothing)
        fast_gradients = gradients(fast, hidden, projection)
    slow = naive_token_loss(hidden, projection, targets, smoothing)
    for found, expected in zip(fast, slow, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for found, expected in zip(fast_gradients, gradients(slow, hidden, projection), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)


def test_known_values() -> None:
    hidden = torch.tensor([[[1.0]], [[1.0]]])
    projection = torch.tensor([[0.0], [math.log(3.0)]])  # probabilities 1/4 and 3/4
    found = token_loss(hidden, projection, torch.tensor([[1], [PAD]]), 0.2)
    assert float(found.plain) == pytest.approx(math.log(4 / 3))
    assert float(found.smoothed) == pytest.approx(0.9 * math.log(4 / 3) + 0.1 * math.log(4))


def test_float32_sums_in_double() -> None:
    hidden, projection = torch.zeros(1000, 3), torch.zeros(7, 3)
    found = token_loss(hidden, projection, torch.ones(1000, dtype=torch.long), 0.1)
    assert found.smoothed.dtype == torch.float64
    assert float(found.smoothed) == pytest.approx(1000 * math.log(7), rel=1e-7)


def test_the_plain_loss_has_no_gradient() -> None:
    hidden = torch.zeros(2, 3, requires_grad=True)
    found = token_loss(hidden, torch.zeros(4, 3), torch.tensor([1, 2]), 0.1)
    assert found.smoothed.requires_grad
    assert not found.plain.requires_grad


def test_only_one_side_is_trained() -> None:
    hidden, projection = torch.randn(3, 2), torch.randn(5, 2, requires_grad=True)
    token_loss(hidden, projection, torch.tensor([1, 2, 3]), 0.1).smoothed.backward()
    other = projection.detach().clone().requires_grad_()
    naive_token_loss(hidden, other, torch.tensor([1, 2, 3]), 0.1).smoothed.backward()
    torch.testing.assert_close(projection.grad, other.grad)


def test_without_gradients_none_are_made() -> None:
    with torch.inference_mode():
        found = token_loss(torch.randn(2, 3), torch.randn(4, 3), torch.tensor([1, 2]), 0.0)
    torch.testing.assert_close(found.smoothed, found.plain)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_hidden_state_that_is_no_number_shows(bad: float) -> None:
    hidden = torch.zeros(2, 3)
    hidden[0, 0] = bad
    assert not math.isfinite(float(token_loss(hidden, torch.ones(4, 3), torch.tensor([1, 2]), 0.1).smoothed))
