"""The benchmark of attentions measures what it says."""

from typing import Any

import pytest
import torch

from rela.attention.spec import PRESETS
from rela.bench.attention import (
    BASELINES,
    PARTS,
    Part,
    Setting,
    _core_subjects,  # pyright: ignore[reportPrivateUsage]
    _sublayer_subjects,  # pyright: ignore[reportPrivateUsage]
    describe_weights,
    measure,
)
from rela.bench.cases import MODES, Mode

SMALL = Setting(length=7, batch=2, dim=16, num_heads=2)


def test_weights_of_every_attention() -> None:
    seen = describe_weights(SMALL, list(PRESETS))
    assert seen["softmax"].sparsity == 0
    assert seen["softmax"].null_rate == 0
    assert 0.2 < seen["rela-g"].sparsity < 0.8
    assert seen["sparsemax"].null_rate == 0
    assert seen["rela-g"].extra_parameters == 32
    assert seen["rela-i"].extra_parameters == 16
    assert seen["entmax"].extra_parameters == 2


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", MODES)
def test_every_attention_is_measured(part: Part, mode: Mode) -> None:
    rounds: list[int] = []
    speeds = measure(SMALL, list(PRESETS), part, mode, rounds=3, on_round=lambda: rounds.append(1))
    assert set(speeds) == {BASELINES[part], *PRESETS}
    assert speeds[BASELINES[part]].median == 1.0
    assert all(speed.low <= speed.median <= speed.high for speed in speeds.values())
    assert len(rounds) == 3


@pytest.mark.parametrize("make", [_sublayer_subjects, _core_subjects])
def test_backward_reaches_inputs_and_parameters(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = torch.autograd.grad

    def spy(*args: Any, **kwargs: Any) -> Any:
        grads = real(*args, **kwargs)
        asked.append(sum(grad is not None for grad in grads))
        return grads

    monkeypatch.setattr(torch.autograd, "grad", spy)
    for subject in make(SMALL, ["softmax", "rela-g"], "forward+backward").values():
        subject()
    assert asked == ([5, 5, 7] if make is _sublayer_subjects else [3, 3, 5])


def test_the_signature_is_the_recipe() -> None:
    assert SMALL.signature.startswith("T:7|B:2|d:16|H:2|dtype:float32|device:cpu|threads:")
