"""The native decoder: the same hypotheses and scores as the search in PyTorch, whatever the model and the batch."""

import gc
import math
import signal
import threading
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.model.small import random_ids, random_model, small_config
from torch import Tensor

from rela.decoding import packing
from rela.decoding.choice import describe, native_decoder, why_not
from rela.decoding.native import NativeSearch
from rela.decoding.packing import packed
from rela.decoding.search import Hypothesis, SearchOptions, beam_search
from rela.model.config import Attentions
from rela.model.transformer import Transformer

EOS = 2
KINDS = [
    "rela-g",
    "rela-i",
    "relu",
    "relu-rmsnorm",
    "rela-g-layernorm",
    "rela-g-gelu",
    "rela-g-leaky",
    "relu2+layernorm",
    "sigmoid",
    "softmax",
]
SIZES: list[dict[str, Any]] = [
    {},
    {"dim": 18, "num_heads": 3, "ffn_dim": 25, "source_vocabulary": 33, "target_vocabulary": 29, "tied": "none"},
    {"dim": 34, "num_heads": 1, "ffn_dim": 7, "source_vocabulary": 40, "target_vocabulary": 700, "tied": "target"},
    {"dim": 64, "num_heads": 2, "ffn_dim": 131, "source_vocabulary": 450, "target_vocabulary": 450},
    {"dim": 128, "num_heads": 2, "ffn_dim": 300, "source_vocabulary": 385, "target_vocabulary": 385},
    {"dim": 10, "num_heads": 5, "ffn_dim": 1, "source_vocabulary": 4, "target_vocabulary": 4, "decoder_layers": 1},
]

pytestmark = pytest.mark.skipif(
    not next(choice.available for choice in describe() if choice.name == "native"), reason="no C++ compiler"
)


def made(attention: str | Attentions = "rela-g", seed: int = 0, scale: float = 1.3, **changes: Any) -> Transformer:
    return random_model(small_config(attention, **changes), seed, scale)


def sources(model: Transformer, lengths: list[int], seed: int = 1) -> Tensor:
    torch.manual_seed(seed)
    return random_ids(model.config.source_vocabulary, [length + 1 for length in lengths], last=EOS)


def by(decoder: str, monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> list[list[Hypothesis]]:
    with monkeypatch.context() as patch:
        patch.setenv("RELA_DECODER", decoder)
        return beam_search(*arguments)


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]], tolerance: float = 1e-4) -> None:
    for mine, others in zip(ours, theirs, strict=True):
        assert [(h.pieces, h.finished) for h in mine] == [(h.pieces, h.finished) for h in others]
        for one, other in zip(mine, others, strict=True):
            assert one.score == pytest.approx(other.score, abs=tolerance, rel=tolerance)
            assert one.log_probability == pytest.approx(other.log_probability, abs=tolerance, rel=tolerance)


class TestEqualToTorch:
    """Against the search in float64, which is torch's alone: in float32 both are rounded."""

    @pytest.mark.parametrize("attention", KINDS)
    @pytest.mark.parametrize("size", range(len(SIZES)))
    def test_hypotheses_and_scores(self, attention: str, size: int, monkeypatch: pytest.MonkeyPatch):
        model = made(attention, size, **SIZES[size])
        source = sources(model, [5, 2, 8, 1][: size + 1])
        options = SearchOptions(beam=size + 1)
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))

    @pytest.mark.parametrize("changes", [{"threshold": 0.3}, {"learn_threshold": True}, {"length_power": 0.5}])
    @pytest.mark.parametrize("more", [{}, {"scale": 0.7, "eps": 0.01}])
    def test_options_of_attentions(
        self, changes: dict[str, Any], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ):
        model = made(Attentions.everywhere({"name": "rela-g", **changes, **more}))
        source, options = sources(model, [5, 3]), SearchOptions()
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))

    def test_kinds_may_differ(self, monkeypatch: pytest.MonkeyPatch):
        model = made(Attentions(encoder="softmax", decoder="rela-i", cross="sigmoid"))
        source, options = sources(model, [5, 3]), SearchOptions()
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))

    @pytest.mark.parametrize(
        "lengths", [{"min_length": 5}, {"max_length": 3}, {"min_length": 9, "max_length": 9}, {"min_length": 60}]
    )
    def test_lengths(self, lengths: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
        model = made()
        source, options = sources(model, [5, 1, 4]), SearchOptions(**lengths)
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))
        tokens = {len(h.pieces) + h.finished for hypotheses in ours for h in hypotheses}
        assert min(tokens) >= options.min_length
        assert max(tokens) <= (options.max_length or 60)

    @pytest.mark.parametrize("attention", ["rela-g", "softmax"])
    def test_logits_of_each_step(self, attention: str):
        """What the torch model says after the very tokens that the search chose."""
        model = made(attention, dim=48, num_heads=3, source_vocabulary=500, target_vocabulary=500)
        source, beam, steps = sources(model, [6]), 3, 7
        library = native_decoder(model, source)
        assert library is not None
        logits = torch.zeros(beam, 500)
        weights = packed(library, model, "fp32")
        with NativeSearch(weights, source, beam=beam, min_length=99, longest=[steps], logits=logits) as search:
            seen: list[Tensor] = []
            while search.step():
                seen.append(logits.clone())
            found = search.found()
        with torch.inference_mode():
            for pieces in (one.pieces for one in found):
                expected = model.logits(model(source, torch.tensor([[1, *pieces[:-1]]])))[0]
                for step, rows in enumerate(seen):
                    assert min((row - expected[step]).abs().max() for row in rows) < 1e-4

    def test_padding_inside_and_everywhere(self, monkeypatch: pytest.MonkeyPatch):
        model = made()
        source = torch.tensor([[5, 0, 7, EOS, 0], [0, 0, 0, 0, 0]])
        options = SearchOptions()
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))

    def test_a_long_sentence(self, monkeypatch: pytest.MonkeyPatch):
        model = made(scale=1.0)
        source, options = sources(model, [70, 20]), SearchOptions(beam=2)
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))

    def test_large_numbers_in_the_heads(self, monkeypatch: pytest.MonkeyPatch):
        """Rows whose squares overflow are normed all the same."""
        model = made()
        with torch.no_grad():
            model.get_parameter("decoder.0.self_attention.in_proj_weight")[32:].mul_(1e20)
        source, options = sources(model, [4]), SearchOptions()
        ours = by("native", monkeypatch, model, source, options)
        assert_same(ours, beam_search(model.double(), source, options))


class TestCompany:
    """Bit for bit: every sum runs in the same order, whoever is beside it and however many threads there are."""

    @pytest.mark.parametrize("precision", ["fp32", "int8"])
    def test_any_batch_gives_the_same_numbers(self, precision: Any):
        model = made(dim=64, num_heads=2, ffn_dim=200, source_vocabulary=900, target_vocabulary=900)
        source = sources(model, [3, 9, 1, 6, 4])
        options = SearchOptions(beam=3, precision=precision)
        together = beam_search(model, source, options)
        for place in range(len(source)):
            alone = source[place][source[place].ne(0)][None]
            assert beam_search(model, alone, options) == [together[place]]
        assert beam_search(model, source.flip(0), options) == together[::-1]

    @pytest.mark.parametrize("precision", ["fp32", "int8"])
    def test_any_number_of_threads_gives_the_same_numbers(self, precision: Any):
        model = made(dim=64, num_heads=2, ffn_dim=300, source_vocabulary=2000, target_vocabulary=2000)
        source, options = sources(model, [7, 3, 5]), SearchOptions(precision=precision)
        before = torch.get_num_threads()
        try:
            found: list[list[list[Hypothesis]]] = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                found.append(beam_search(model, source, options))
        finally:
            torch.set_num_threads(before)
        assert all(one == other for one, other in pairwise(found))

    def test_two_threads_with_one_model(self):
        model = made(dim=64, num_heads=2, source_vocabulary=2000, target_vocabulary=2000)
        source, options = sources(model, [7, 3, 5]), SearchOptions()
        expected = beam_search(model, source, options)
        found: list[bool] = []

        def run() -> None:
            for _ in range(5):
                found.append(beam_search(model, source, options) == expected)  # noqa: PERF401

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 10

    def test_interrupted_in_the_middle(self, monkeypatch: pytest.MonkeyPatch):
        """Ctrl-C comes through between two steps; the search gives its memory back, and the next one is as ever."""
        model = made(dim=64, num_heads=2, source_vocabulary=900, target_vocabulary=900)
        source, options = sources(model, [7, 3]), SearchOptions(min_length=20, max_length=20)
        expected = beam_search(model, source, options)
        steps: list[NativeSearch] = []
        real = NativeSearch.step

        def step(self: NativeSearch) -> int | None:
            steps.append(self)
            if len(steps) == 5:
                signal.raise_signal(signal.SIGINT)
            return real(self)

        monkeypatch.setattr(NativeSearch, "step", step)
        with pytest.raises(KeyboardInterrupt):
            beam_search(model, source, options)
        assert len(steps) == 5
        assert steps[0]._search is None  # pyright: ignore[reportPrivateUsage]
        monkeypatch.undo()
        assert beam_search(model, source, options) == expected


class TestPacking:
    @pytest.mark.parametrize("precision", ["fp32", "int8"])
    @pytest.mark.parametrize("counted", [True, False])
    def test_follows_the_parameters(self, precision: Any, counted: bool):
        model, other = made(seed=0), made(seed=5)
        source, options = sources(model, [4, 2]), SearchOptions(precision=precision)
        before = beam_search(model, source, options)
        with torch.no_grad():
            for mine, its in zip(model.parameters(), other.parameters(), strict=True):
                (mine if counted else mine.data).copy_(its)
        assert beam_search(model, source, options) == beam_search(other, source, options) != before

    def test_is_made_once(self):
        model = made()
        source = sources(model, [4])
        library = native_decoder(model, source)
        assert library is not None
        first = packed(library, model, "fp32")
        assert packed(library, model, "fp32") is first
        with torch.no_grad():
            model.get_parameter("decoder.0.feed_forward.expand.bias")[0] += 1
        assert packed(library, model, "fp32") is not first

    def test_lets_go_of_a_dead_model(self):
        model = made()
        beam_search(model, sources(model, [4]), SearchOptions())
        library = native_decoder(model, sources(model, [4]))
        assert library is not None
        weights, dead = weakref.ref(packed(library, model, "fp32")), weakref.ref(model)
        before = len(packing._packed)  # pyright: ignore[reportPrivateUsage]
        del model
        gc.collect()
        assert dead() is None
        assert weights() is None
        assert len(packing._packed) == before - 1  # pyright: ignore[reportPrivateUsage]

    def test_memory_stays_flat(self):
        model = made(dim=64, num_heads=2, source_vocabulary=900, target_vocabulary=900)
        source = sources(model, [7, 3])

        def resident() -> int:
            with Path("/proc/self/statm").open(encoding="ascii") as file:
                return int(file.read().split()[1])

        for _ in range(20):
            beam_search(model, source, SearchOptions(max_length=5))
        before = resident()
        for _ in range(300):
            beam_search(model, source, SearchOptions(max_length=5))
        assert resident() - before < 500  # pages of 4 KiB


class TestInt8:
    @pytest.mark.parametrize("attention", ["rela-g", "softmax", "relu"])
    @pytest.mark.parametrize("size", [1, 3, 4])
    def test_probabilities_are_close(self, attention: str, size: int):
        """The torch model's log-probabilities of what int8 found."""
        model = made(attention, size, 1.0, **SIZES[size])
        source = sources(model, [5])
        for found in beam_search(model, source, SearchOptions(precision="int8", max_length=12))[0]:
            pieces = [*found.pieces, EOS] if found.finished else found.pieces
            with torch.inference_mode():
                hidden = model(source, torch.tensor([[1, *pieces[:-1]]]))
                log_p = model.logits(hidden)[0].log_softmax(-1)
            expected = float(log_p[torch.arange(len(pieces)), torch.tensor(pieces)].sum())
            assert found.log_probability == pytest.approx(expected, abs=0.05 * len(pieces))
            assert found.log_probability != expected

    def test_weights_that_are_whole_steps_are_exact(self, monkeypatch: pytest.MonkeyPatch):
        """Then only the activations are rounded, to 16 bits."""
        model = made(dim=32, num_heads=2, ffn_dim=40, source_vocabulary=60, target_vocabulary=60)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    step = parameter.abs().amax(1, keepdim=True) / 127
                    parameter.copy_((parameter / step.clamp_min(1e-9)).round() * step)
        source = sources(model, [5, 3])
        ours = beam_search(model, source, SearchOptions(precision="int8", max_length=8))
        expected = by("torch", monkeypatch, model, source, SearchOptions(max_length=8))
        assert_same(ours, expected, tolerance=5e-3)

    def test_needs_the_native_decoder(self, monkeypatch: pytest.MonkeyPatch):
        options = SearchOptions(precision="int8")
        with pytest.raises(ValueError, match=r"precision int8: expected .*, got: .*no attention entmax15"):
            beam_search(made("entmax15"), torch.tensor([[3, EOS]]), options)
        with pytest.raises(ValueError, match=r"precision int8: expected .*, got: .*float64"):
            beam_search(made().double(), torch.tensor([[3, EOS]]), options)
        monkeypatch.setenv("RELA_DECODER", "torch")
        with pytest.raises(ValueError, match="RELA_DECODER=torch"):
            beam_search(made(), torch.tensor([[3, EOS]]), options)

    def test_weights_that_are_no_numbers(self):
        model = made()
        with torch.no_grad():
            model.get_parameter("decoder.1.feed_forward.contract.weight")[0, 0] = math.nan
        with pytest.raises(ValueError, match="expected finite weights"):
            beam_search(model, sources(model, [3]), SearchOptions(precision="int8"))
        model = made()
        with torch.no_grad():
            model.get_parameter("decoder.1.feed_forward.contract.bias").fill_(math.nan)
        with pytest.raises(ValueError, match="expected probabilities of piece 1 of a translation, got NaN"):
            beam_search(model, sources(model, [3]), SearchOptions(precision="int8"))


class TestChoice:
    def test_numbers_that_are_none_are_an_error(self):
        model = made()
        with torch.no_grad():
            model.get_parameter("decoder.1.feed_forward.contract.bias").fill_(math.nan)
        with pytest.raises(ValueError, match="expected probabilities of piece 1 of a translation, got NaN"):
            beam_search(model, sources(model, [3]), SearchOptions())

    def test_what_it_cannot_do_is_torchs(self):
        source = torch.tensor([[3, EOS]])
        assert why_not(made(), source) is None
        assert "sparsemax" in str(why_not(made("sparsemax"), source))
        assert "float64" in str(why_not(made().double(), source))
        assert "vocabulary" in str(why_not(made(), torch.tensor([[31, EOS]])))
        watched = made()
        watched.get_submodule("decoder.0.feed_forward").register_forward_hook(lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        assert "watches" in str(why_not(watched, source))
        observed = made()
        observed.attentions()["cross"][0].register_observer(lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        assert "observes" in str(why_not(observed, source))
        patched = made()
        patched.logits = lambda hidden: hidden  # pyright: ignore[reportAttributeAccessIssue]
        assert "changes" in str(why_not(patched, source))
        swapped = made()
        swapped.decoder[0].feed_forward = torch.nn.Identity()  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        assert "Identity" in str(why_not(swapped, source))
        with torch.inference_mode():
            assert "inference" in str(why_not(made(), source))
        assert len(beam_search(made("sparsemax"), source, SearchOptions())[0]) == 4

    def test_the_environment_forces_one(self, monkeypatch: pytest.MonkeyPatch):
        source = torch.tensor([[3, EOS]])
        monkeypatch.setenv("RELA_DECODER", "torch")
        assert native_decoder(made(), source) is None
        assert [choice.name for choice in describe() if choice.chosen] == ["torch"]
        monkeypatch.setenv("RELA_DECODER", "native")
        assert native_decoder(made(), source) is not None
        with pytest.raises(ValueError, match=r"RELA_DECODER=native: .*sparsemax"):
            beam_search(made("sparsemax"), source, SearchOptions())
        monkeypatch.setenv("RELA_DECODER", "fast")
        with pytest.raises(ValueError, match=r"RELA_DECODER: expected one of native, torch, or unset; got 'fast'"):
            beam_search(made(), source, SearchOptions())

    def test_no_second_pool_of_threads(self):
        """libgomp is torch's: the engine's threads are those that torch has started."""
        model = made(dim=64, num_heads=2, source_vocabulary=3000, target_vocabulary=3000)
        (torch.ones(400, 400) @ torch.ones(400, 400)).sum()
        torch.ones(10_000_000).sin()
        beam_search(model, sources(model, [5]), SearchOptions())
        with Path("/proc/self/maps").open(encoding="ascii") as file:
            pools = {line.split()[-1] for line in file if "libgomp" in line}
        assert len(pools) == 1
