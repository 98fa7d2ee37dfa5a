"""The probe on small models: what it sees, that it changes nothing, and that it leaves nothing behind."""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.analysis.batches import batches, encoded
from tests.analysis.meters import needs_compiler
from tests.analysis.naive import naive_values
from tests.model.folders import text_model, tokenizers
from tests.model.small import random_model, small_config
from torch import Tensor

from rela.alignment.pairs import PairBatch
from rela.analysis import native, probe
from rela.analysis.probe import Meter, Probe, Seen, taus_of
from rela.analysis.statistics import TAUS, Statistics, Values
from rela.attention.kernels import build
from rela.attention.multihead import MultiheadAttention
from rela.attention.spec import KINDS, Kind
from rela.model.config import Attentions
from rela.model.transformer import Transformer

ATTENTIONS = ("softmax", "sparsemax", "entmax15", "rela-g", "rela-g-leaky", "rela-g-gelu")
MIXED = Attentions(encoder="entmax15", decoder="rela-g-gelu", cross="softmax")


def made_model(attention: str | Attentions, seed: int = 0) -> Transformer:
    size = tokenizers().source.size
    return random_model(small_config(attention, source_vocabulary=size, target_vocabulary=size), seed, 1.5)


def made_batches() -> list[PairBatch]:
    return batches(tokenizers())


def modules(model: Transformer) -> list[MultiheadAttention]:
    return [attention for found in model.attentions().values() for attention in found]


def num_observers(model: Transformer) -> int:
    return sum(len(module._observers) for module in modules(model))  # pyright: ignore[reportPrivateUsage]


def measure(model: Transformer, found: list[PairBatch]) -> dict[Kind, dict[str, Values]]:
    statistics: dict[Kind, Statistics] = {
        kind: Statistics(len(layers), model.config.num_heads, taus_of(model, kind))
        for kind, layers in model.attentions().items()
    }

    def meter(seen: Seen) -> None:
        statistics[seen.kind].add(seen.layer, seen.sums)

    watch = Probe(model, {kind: [meter] for kind in KINDS})
    with watch.attached():
        for batch in found:
            watch.run(batch)
    return {kind: found.values() for kind, found in statistics.items()}


def weights_of(model: Transformer, batch: PairBatch) -> dict[Kind, list[Tensor]]:
    """By observers of our own."""
    seen: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
    handles = [
        attention.register_observer(lambda _, observation, kind=kind: seen[kind].append(observation.weights.float()))
        for kind, layers in model.attentions().items()
        for attention in layers
    ]
    with torch.inference_mode():
        model(batch.source, batch.target_in)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize("attention", [*ATTENTIONS, MIXED], ids=str)
class TestEveryAttention:
    def test_statistics_are_those_of_the_definition(self, attention: str | Attentions):
        model, (batch, *_) = made_model(attention), made_batches()
        found, weights = measure(model, [batch]), weights_of(model, batch)
        for kind in KINDS:
            taus = TAUS if model.config.attention.spec(kind).name.startswith("rela") else ()
            expected = naive_values(weights[kind], kind, batch.pairs, taus)
            assert found[kind].keys() == expected.keys()
            for name, values in expected.items():
                np.testing.assert_allclose(found[kind][name], values, rtol=1e-5, atol=1e-5, err_msg=f"{kind} {name}")

    def test_hidden_states_are_those_of_a_plain_pass(self, attention: str | Attentions):
        model = made_model(attention).train()
        watch = Probe(model, {kind: [lambda seen: None] for kind in KINDS})
        for batch in made_batches():
            with watch.attached():
                found = watch.run(batch)
            model.eval()
            with torch.no_grad():
                plain = model(batch.source, batch.target_in)
            model.train()
            valid = torch.arange(plain.shape[1]) < batch.target_lengths[:, None]
            # a pass that is watched has all weights in full, and may sum in another order
            torch.testing.assert_close(found[valid], plain[valid], rtol=1e-4, atol=1e-5)
            assert found.requires_grad is False

    def test_without_a_compiler(self, attention: str | Attentions, monkeypatch: pytest.MonkeyPatch):
        model, found = made_model(attention), made_batches()
        expected = measure(model, found)
        monkeypatch.setattr(probe, "native_library", lambda: None)
        monkeypatch.setattr(probe, "native_sums", None)
        for kind, values in measure(model, found).items():
            for name, value in values.items():
                np.testing.assert_allclose(value, expected[kind][name], rtol=1e-5, atol=2e-6, err_msg=f"{kind} {name}")


def test_models_in_float64_and_bfloat16():
    """Weights are read as float32, whatever they are."""
    (batch, *_), model = made_batches(), made_model("rela-g")
    expected = measure(model, [batch])
    for dtype, tolerance in ((torch.float64, 1e-3), (torch.bfloat16, 0.3)):
        found = measure(made_model("rela-g").to(dtype), [batch])
        np.testing.assert_allclose(found["encoder"]["mass"], expected["encoder"]["mass"], rtol=tolerance)


class TestWhatMetersSee:
    def test_weights_with_their_frame(self):
        model, (batch, *_) = made_model("rela-g"), made_batches()
        seen: list[Seen] = []
        watch = Probe(model, {"cross": [seen.append], "decoder": [seen.append]})
        with watch.attached():
            watch.run(batch)
        assert [(one.kind, one.layer) for one in seen] == [("decoder", 0), ("cross", 0), ("decoder", 1), ("cross", 1)]
        weights = weights_of(model, batch)
        for one in seen:
            # an observer that also wants scores has them from other code, which may sum in another order
            torch.testing.assert_close(one.weights, weights[one.kind][one.layer], rtol=1e-4, atol=1e-5)
            assert one.frame.kind == one.kind
            assert one.frame.batch is batch
            valid = one.frame.valid_queries[:, None]
            assert torch.equal(one.sums.null, (one.weights == 0).all(-1) & valid)
        assert seen[0].frame is seen[2].frame  # its words are found once

    def test_several_meters_of_a_kind_in_their_order(self):
        model, (batch, *_) = made_model("softmax"), made_batches()
        calls: list[str] = []
        watch = Probe(model, {"encoder": [lambda _: calls.append("a"), lambda _: calls.append("b")], "cross": []})
        with watch.attached():
            assert num_observers(model) == 2  # the layers of one kind
            watch.run(batch)
        assert calls == ["a", "b"] * 2

    def test_sentences_of_one_word_and_none(self):
        model, sides = text_model()
        pairs = encoded(sides, [("a", "der"), ("dog", "."), ("", ""), ("the", "")])
        for values in measure(model, [PairBatch(pairs)]).values():
            assert not any(np.isnan(values[name]).any() for name in ("sparsity", "null", "diversity.tau", "null.word"))


class TestLeavesNothingBehind:
    @pytest.mark.parametrize("training", [True, False])
    def test_when_all_goes_well(self, training: bool):
        model = made_model("rela-g").train(training)
        watch = Probe(model, {kind: [lambda seen: None] for kind in KINDS})
        for batch in made_batches():
            with watch.attached():
                assert not model.training
                assert num_observers(model) == 6
                watch.run(batch)
            assert model.training is training
            assert num_observers(model) == 0
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()

    def test_when_a_meter_fails(self):
        def fails(seen: Seen) -> None:
            raise RuntimeError("the meter fails")

        self.check_failing(fails, "the meter fails")

    def test_when_the_meter_has_no_memory(self, monkeypatch: pytest.MonkeyPatch):
        class Library:
            def rela_measure(self, _: object) -> int:
                return 1

        monkeypatch.setattr(probe, "native_library", Library)
        self.check_failing(lambda seen: None, "native meter: expected a few KiB of scratch memory", MemoryError)

    def check_failing(self, meter: Meter, message: str, error: type[Exception] = RuntimeError) -> None:
        model = made_model("rela-g").train()
        watch = Probe(model, {kind: [meter] for kind in KINDS})
        with pytest.raises(error, match=message), watch.attached():
            watch.run(made_batches()[0])
        assert model.training
        assert num_observers(model) == 0
        assert not torch.is_inference_mode_enabled()

    def test_observers_of_others_stay(self):
        model = made_model("rela-g")
        calls: list[int] = []
        handle = model.attentions()["cross"][0].register_observer(lambda module, observation: calls.append(1))
        watch = Probe(model, {"cross": [lambda seen: None]})
        with watch.attached():
            watch.run(made_batches()[0])
        assert num_observers(model) == 1
        assert calls == [1]
        handle.remove()


@needs_compiler
def test_weights_of_another_batch_are_not_handed_to_the_compiled_meter():
    """It reads addresses: a model that is run by somebody else in between must not make it read beyond."""
    model = made_model("rela-g")
    first, second = (PairBatch(encoded(tokenizers(), [pair])) for pair in (("a dog", "der Hund"), ("a", "der")))
    watch = Probe(model, {"cross": [lambda seen: None]})
    with watch.attached():
        watch.run(first)
        with pytest.raises(AssertionError, match="weights of another batch"):
            model(second.source, second.target_in)


@pytest.fixture
def _fresh_build() -> Iterator[None]:
    build.load.cache_clear()
    yield
    build.load.cache_clear()


class TestLibrary:
    @needs_compiler
    def test_is_not_that_of_the_kernels(self):
        meter, kernels = native.native_library(), build.load_operators().library
        assert isinstance(meter, ctypes.CDLL)
        assert isinstance(kernels, ctypes.CDLL)
        assert hasattr(meter, "rela_measure")
        assert not hasattr(kernels, "rela_measure")

    @pytest.mark.usefixtures("_fresh_build")
    def test_without_a_working_compiler_there_is_none(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CC", "no-such-compiler")
        assert native.native_library() is None
        values = measure(made_model("softmax"), made_batches())
        assert not np.isnan(values["cross"]["entropy"]).any()
