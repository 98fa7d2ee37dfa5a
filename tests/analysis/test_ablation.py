"""Silencing heads: exactly zero inside, exactly as before outside, and the change in loss by the definition."""

import copy
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.batches import batches
from tests.model.folders import text_model
from tests.model.small import random_model, small_config
from torch import Tensor

from rela.alignment.pairs import PairBatch
from rela.analysis.ablation import AblatedBatch, Ablation, AblationResult, Head, check_head, silenced
from rela.attention.heads import Heads, Observation
from rela.attention.multihead import MultiheadAttention
from rela.attention.spec import KINDS, Kind
from rela.model.transformer import Transformer

ATTENTIONS = ["rela-g", "rela-i", "rela-g-layernorm", "rela-g-leaky", "relu", "softmax", "entmax15"]


def concatenated(attention: MultiheadAttention, run: Callable[[], Any]) -> Tensor:
    """What goes into the norm, or where there is none into the output projection."""
    seen: list[Tensor] = []
    module = attention.out_proj if attention.norm is None else attention.norm
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach().clone()))
    run()
    handle.remove()
    return seen[0]


def snapshot(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(model: torch.nn.Module, before: dict[str, Tensor]) -> None:
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.view(torch.uint8), before[name].view(torch.uint8)), name


class TestSilenced:
    @pytest.mark.parametrize("attention", ATTENTIONS)
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_slice_is_exactly_zero_and_the_others_are_as_before(self, attention: str, kind: Kind):
        model, tokenizers = text_model(attention)
        batch = batches(tokenizers)[0]
        watched = model.attentions()[kind][0]  # the first layer: what goes in is the same
        before = snapshot(model)

        def run() -> Tensor:
            with torch.no_grad():
                return model(batch.source, batch.target_in)

        whole = concatenated(watched, run)
        with silenced(model, [(kind, 0, 1)]):
            part = concatenated(watched, run)
        size = watched.head_dim
        assert whole[..., size : 2 * size].abs().max() > 0
        assert torch.equal(part[..., size : 2 * size], torch.zeros_like(part[..., size : 2 * size]))
        for rest in (slice(0, size), slice(2 * size, None)):
            torch.testing.assert_close(part[..., rest], whole[..., rest], rtol=0, atol=0)
        assert_same(model, before)

    @pytest.mark.parametrize("changes", [{"kdim": 8, "vdim": 24}, {"bias": False}, {"add_bias_kv": True}])
    def test_all_forms_of_the_module(self, changes: dict[str, Any]):
        model = random_model(small_config())
        torch.manual_seed(0)
        module = MultiheadAttention(16, 4, batch_first=True, **changes)
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
        model.decoder[0].cross_attention = module  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
        query, key = torch.randn(2, 3, 16), torch.randn(2, 5, module.kdim)
        value = torch.randn(2, 5, module.vdim)
        before = snapshot(model)
        with silenced(model, [("cross", 0, 3), ("cross", 0, 0)]):
            found = concatenated(module, lambda: module(query, key, value))
        assert torch.equal(found[..., 12:], torch.zeros(2, 3, 4))
        assert torch.equal(found[..., :4], torch.zeros(2, 3, 4))
        assert found[..., 4:12].abs().max() > 0
        assert_same(model, before)

    def test_restores_after_an_error_and_a_head_that_is_named_twice(self):
        model = random_model(small_config())
        before = snapshot(model)
        with pytest.raises(RuntimeError, match="on purpose"), silenced(model, [("cross", 1, 3), ("cross", 1, 3)]):
            raise RuntimeError("on purpose")
        assert_same(model, before)

    def test_nothing_silenced_changes_nothing(self):
        model, tokenizers = text_model()
        batch = batches(tokenizers)[0]
        whole = model(batch.source, batch.target_in)
        with silenced(model, []):
            assert torch.equal(model(batch.source, batch.target_in), whole)

    def test_no_parameter_is_touched(self):
        model = random_model(small_config())
        before = snapshot(model)
        with silenced(model, [("decoder", 0, 0)]):
            assert_same(model, before)

    def test_inside_each_other(self):
        model = random_model(small_config("softmax"))  # no head of it is null by itself
        watched = model.attentions()["cross"][0]
        source, target = torch.tensor([[5, 2]]), torch.tensor([[1, 6]])
        with silenced(model, [("cross", 0, 0)]):
            with silenced(model, [("cross", 0, 2)]):
                both = concatenated(watched, lambda: model(source, target))
            one = concatenated(watched, lambda: model(source, target))
        none = concatenated(watched, lambda: model(source, target))
        silent = [[not bool(head.any()) for head in found.split(4, -1)] for found in (both, one, none)]
        assert silent == [[True, False, True, False], [True, False, False, False], [False] * 4]

    def test_a_copy_made_inside_is_whole(self):
        model = random_model(small_config())
        source, target = torch.tensor([[5, 2]]), torch.tensor([[1, 6]])
        with silenced(model, [("cross", 0, 0)]):
            other = copy.deepcopy(model)
        assert torch.equal(other(source, target), model(source, target))

    def test_training_goes_on_afterwards(self):
        model = random_model(small_config())
        with silenced(model, [("cross", 0, 0)]):
            pass
        model(torch.tensor([[5, 2]]), torch.tensor([[1, 6]])).sum().backward()
        assert model.attentions()["cross"][0].in_proj_weight.grad is not None  # pyright: ignore[reportOptionalMemberAccess]


class TestCheckHead:
    @pytest.mark.parametrize(
        ("head", "error", "message"),
        [
            (("self", 0, 0), ValueError, "kind: expected one of encoder, decoder, cross, got 'self'"),
            (("cross", 2, 0), ValueError, r"layer: expected 0 to 1 \(cross, counted from 0\), got 2"),
            (("cross", 0, -1), ValueError, r"head: expected 0 to 3 \(cross, counted from 0\), got -1"),
            (("cross", 0, 1.0), TypeError, r"head: expected a whole number, got 1\.0"),
            (("cross", True, 1), TypeError, "layer: expected a whole number, got True"),
            (("cross", 1), ValueError, r"expected a head as \(kind, layer, head\), got \('cross', 1\)"),
            (7, ValueError, r"expected a head as \(kind, layer, head\), got 7"),
        ],
    )
    def test_refuses(self, head: Any, error: type[Exception], message: str):
        with pytest.raises(error, match=message):
            check_head(random_model(small_config()), head)

    def test_numpy_numbers_are_numbers(self):
        found = check_head(random_model(small_config()), ("cross", np.int64(1), np.int32(3)))
        assert found == Head("cross", 1, 3)
        assert type(found.layer) is int


def naive_losses(model: Transformer, batch: PairBatch, head: Head | None) -> Tensor:
    """By a hook that puts zeros into the concatenated heads."""
    handles: list[Any] = []
    if head is not None:
        attention = model.attentions()[head.kind][head.layer]
        module = attention.out_proj if attention.norm is None else attention.norm
        start, size = head.head * attention.head_dim, attention.head_dim

        def zeros(_: torch.nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (torch.cat([inputs[0][..., :start], 0 * inputs[0][..., start : start + size],
                               inputs[0][..., start + size :]], -1),)  # fmt: skip

        handles.append(module.register_forward_pre_hook(zeros))
    with torch.no_grad():
        scores = model.logits(model(batch.source, batch.target_in))
    for handle in handles:
        handle.remove()
    losses = F.cross_entropy(scores.transpose(1, 2), batch.target_out, reduction="none")
    return losses.masked_fill(batch.target_out == 0, 0)


def naive_null(model: Transformer, batch: PairBatch, kind: Kind, layer: int) -> Tensor:
    seen: list[Tensor] = []

    def look(_: Heads, observation: Observation) -> None:
        seen.append((observation.weights == 0).all(-1))

    handle = model.attentions()[kind][layer].register_observer(look)
    with torch.no_grad():
        model(batch.source, batch.target_in)
    handle.remove()
    return seen[0]


def naive_means(model: Transformer, found: Iterable[PairBatch], head: Head) -> dict[str, float]:
    """Sentence by sentence, piece by piece."""
    changes: dict[str, list[float]] = {"all": [], "null": [], "active": []}
    for batch in found:
        for pair in batch.pairs:
            one = PairBatch([pair])
            change = (naive_losses(model, one, head) - naive_losses(model, one, None))[0].tolist()
            changes["all"] += change
            if head.kind != "encoder":
                null = naive_null(model, one, head.kind, head.layer)[0, head.head].tolist()
                for value, is_null in zip(change, null, strict=True):
                    changes["null" if is_null else "active"].append(value)
    return {name: float(np.mean(values)) if values else float("nan") for name, values in changes.items()}


def ablate_heads(model: Transformer, found: Iterable[PairBatch], kinds: Collection[Kind] = KINDS) -> AblationResult:
    ablation = Ablation(model, kinds)
    for batch in found:
        ablation.add(batch)
    return ablation.result()


class TestAblation:
    @pytest.mark.parametrize("attention", ["rela-g", "softmax"])
    def test_equals_the_definition(self, attention: str):
        model, tokenizers = text_model(attention, scale=1.5)
        model = model.double()
        found = batches(tokenizers)
        result = ablate_heads(model, found)
        assert result.pieces == sum(len(pair.target.ids) + 1 for batch in found for pair in batch.pairs)
        for kind in KINDS:
            changes = result.kinds[kind]
            for layer, head in np.ndindex(2, 4):
                naive = naive_means(model, found, Head(kind, layer, head))
                assert changes.change[layer, head] == pytest.approx(naive["all"], rel=1e-9, abs=1e-12)
                if changes.null is None or changes.active is None:
                    assert kind == "encoder"
                    continue
                for ours, theirs in ((changes.null, naive["null"]), (changes.active, naive["active"])):
                    assert ours[layer, head] == pytest.approx(theirs, rel=1e-9, abs=1e-12, nan_ok=True)
        cross = result.kinds["cross"]
        assert cross.null_rows is not None
        assert cross.active_rows is not None
        np.testing.assert_array_equal(cross.null_rows + cross.active_rows, result.pieces)
        if attention == "softmax":
            assert cross.null is not None
            assert np.isnan(cross.null).all()
        else:
            assert (cross.null_rows > 0).any()

    @given(seed=st.integers(0, 1000), attention=st.sampled_from(["rela-g", "rela-g-layernorm", "relu-rmsnorm"]))
    @settings(max_examples=15)
    def test_a_null_row_of_the_last_layer_changes_by_exactly_nothing(self, seed: int, attention: str):
        model, tokenizers = text_model(attention, seed=seed, scale=1.5)
        (batch,) = batches(tokenizers, 4, 4, seed)
        with AblatedBatch(model, batch) as ablated:
            for kind in ("decoder", "cross"):
                for head in range(4):
                    change = ablated.change(Head(kind, 1, head))
                    assert (change[ablated.null[kind][1][:, head]] == 0).all()
                    assert (change[batch.target_out == 0] == 0).all()

    def test_names_of_the_measures(self):
        model, tokenizers = text_model()
        names = ablate_heads(model, batches(tokenizers, 2), ("encoder", "cross")).measures()
        assert list(names) == ["encoder.ablation", "cross.ablation", "cross.ablation.null", "cross.ablation.active"]
        assert all(value.shape == (2, 4) for value in names.values())

    def test_leaves_no_trace(self):
        model, tokenizers = text_model()
        model.train()
        before = snapshot(model)
        ablate_heads(model, batches(tokenizers, 2), ("cross",))
        assert_same(model, before)
        assert all(module.training for module in model.modules())
        with pytest.raises(RuntimeError, match="on purpose"), AblatedBatch(model, batches(tokenizers, 2)[0]):
            raise RuntimeError("on purpose")
        assert not any(attention._observers for found in model.attentions().values() for attention in found)  # pyright: ignore[reportPrivateUsage]
        assert not torch.is_inference_mode_enabled()
        assert model.training

    def test_no_pairs_and_wrong_kinds(self):
        model, _ = text_model()
        with pytest.raises(ValueError, match="expected at least one pair"):
            ablate_heads(model, [])
        with pytest.raises(ValueError, match="kinds: expected some of encoder, decoder, cross, got 'self'"):
            Ablation(model, ["self"])  # pyright: ignore[reportArgumentType]
