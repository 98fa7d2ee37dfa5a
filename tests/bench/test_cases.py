"""The cases of ReLU attention are what they say."""

import pytest
import torch
import torch.nn.functional as F
from tests.model.folders import WORDS, text_model

from rela.bench.cases import MODES, VARIANTS, Case, Variant, cases, density_of, make_call, runner
from rela.bench.core import OURS, measure_core
from rela.bench.results import Points
from rela.bench.traces import collect

PAIRS = [(" ".join(WORDS[: 2 + place]), " ".join(WORDS[: 3 + place])) for place in range(6)]


@pytest.mark.parametrize("density", [0.5, 0.15, 0.8])
def test_the_density_is_the_one_that_was_asked_for(density: float) -> None:
    call = make_call(Case(length=512, density=density), gradients=False)
    assert density_of(call) == pytest.approx(density, abs=0.02)


def test_a_whole_count_of_the_density() -> None:
    call = make_call(Case(length=96, density=0.3, variant="causal"), gradients=False)
    scores = call.query @ call.key.transpose(-2, -1)
    allowed = torch.ones(96, 96, dtype=torch.bool).tril().expand_as(scores)
    assert density_of(call) == pytest.approx(float((scores > 0)[allowed].float().mean()))


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_functions_take_every_case(variant: str) -> None:
    case = Case(length=16, rows=16, variant=variant)  # pyright: ignore[reportArgumentType]
    call = make_call(case, gradients=True)
    assert call.ours().shape == call.torchs().shape
    assert all(tensor.grad_fn is None and tensor.requires_grad for tensor in call.inputs())
    runner([call.ours], [call.inputs()], "forward+backward")()


def test_padding_hides_keys() -> None:
    call = make_call(Case(length=16, rows=16, variant="padding"), gradients=False)
    mask = call.options["attn_mask"]
    assert [int(row.sum()) for row in mask] == [16, 8]
    assert density_of(call) == pytest.approx(0.5, abs=0.1)


def test_which_targets_there_are() -> None:
    by_label = {case.label: case for case in cases([32, 256, 512])}
    assert by_label["plain T=32 BH=64 density=0.15"].target("forward") == 1.3
    assert by_label["plain T=512 BH=8 density=0.5"].target("forward+backward") == 1.3
    assert by_label["plain T=512 BH=8 density=0.15"].target("forward+backward") == 2.5
    assert by_label["plain T=256 BH=8 density=0.5"].target("forward") is None
    assert by_label["causal T=512 BH=8 density=0.5"].target("forward") == 1.0


def test_a_trained_models_calls_are_those_of_the_model() -> None:
    model, tokenizers = text_model()
    traces = collect(model, tokenizers, PAIRS, "words")
    encoder = model.attentions()["encoder"][0]
    kinds = ("encoder", "decoder", "cross")
    assert [trace.label for trace in traces] == [f"trained {kind} d_h={encoder.head_dim}" for kind in kinds]
    call = next(traces[0].calls(gradients=False))
    seen: list[torch.Tensor] = []
    hook = encoder.out_proj.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        collect(model, tokenizers, PAIRS, "words")
    hook.remove()
    heads = call.ours()
    hidden = heads.transpose(1, 2).flatten(2)
    assert encoder.norm is not None
    torch.testing.assert_close(encoder.norm(hidden), seen[0])


@pytest.mark.slow
def test_the_entry_of_a_result_file() -> None:
    traces = collect(*text_model(), PAIRS, "words")
    told: list[int] = []
    entry = measure_core([8], traces, rounds=3, points=Points(None, resume=False), on_point=lambda: told.append(1))
    assert entry["name"] == OURS
    labels = entry["measures"]["core.forward"]["labels"]["case"]
    assert len(told) == len(MODES) * len(labels)
    assert "core.forward.entmax15" not in entry["measures"]  # its target begins at 512
    assert all(value > 0 for value in entry["measures"]["core.forward+backward"]["value"])


@pytest.mark.slow
def test_entmax_is_measured_where_it_has_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rela.bench.core._ENTMAX_LENGTHS", (64, 64))  # 512 takes long
    entry = measure_core([32, 64], rounds=3, points=Points(None, resume=False))
    found = entry["measures"]["core.forward.entmax15"]
    assert found["labels"]["case"] == ["plain T=64 BH=8 density=0.5"]
    assert found["target"] == [20.0]
    assert found["value"][0] > 0


def test_torchs_is_torchs() -> None:
    call = make_call(Case(length=8), gradients=False)
    torch.testing.assert_close(call.torchs(), F.scaled_dot_product_attention(call.query, call.key, call.value))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_shortest_length(variant: Variant) -> None:
    call = make_call(Case(length=1, rows=16 if variant == "padding" else 8, variant=variant), gradients=False)
    assert 0 <= density_of(call) <= 1
    assert call.ours().isfinite().all()
