"""The dropout module, whichever kernel is behind it."""

import pytest
import torch

from rela.model.dropout import Dropout


@pytest.fixture(params=["native", "naive"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "naive":
        monkeypatch.setenv("RELA_KERNEL", "naive")
    return request.param


def test_adds_what_it_keeps(kernel: str):
    torch.manual_seed(0)
    x, y = torch.randn(50, 64), torch.randn(50, 64)
    ratio = (Dropout(0.25).add(x, y) - x) / y
    assert torch.all((ratio.abs() < 1e-3) | ((ratio - 4 / 3).abs() < 1e-2))
    assert 0.2 < (ratio.abs() < 1e-3).float().mean() < 0.3
    alone = Dropout(0.25)(y)
    assert torch.all((alone == 0) | torch.isclose(alone, y * 4 / 3))


def test_does_nothing_in_evaluation_or_without_probability(kernel: str):
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for module in (Dropout(0.5).eval(), Dropout(0.0)):
        assert torch.equal(module.add(x, y), x + y)
        assert module(x) is x


def test_broadcasts_as_a_sum_does(kernel: str):
    torch.manual_seed(0)
    assert Dropout(0.5).add(torch.zeros(3, 1, 4), torch.ones(5, 4)).shape == (3, 5, 4)


def test_other_dtypes_work(kernel: str):
    torch.manual_seed(0)
    x = torch.zeros(1000, dtype=torch.float64)
    assert set(Dropout(0.5).add(x, x + 1).unique().tolist()) == {0.0, 2.0}
