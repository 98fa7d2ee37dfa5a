"""Beam search: equal to its definition, to greedy search and to exhaustive search, whatever the batch."""

import math
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
import torch
from tests.decoding.naive import exhaustive, log_probabilities, naive_beam_search
from tests.model.small import random_ids, random_model, small_config
from torch import Tensor

from rela.decoding import search
from rela.decoding.search import Hypothesis, SearchOptions, beam_search, best_of_rows
from rela.model.transformer import DecoderState, Transformer

EOS = 2
LENGTHS = [4, 2, 7, 1, 5]


def searchable(attention: str = "rela-g", seed: int = 0, *, eos: float = 0.5, **changes: Any) -> Transformer:
    """A model in float64 whose translations vary and mostly end: the row of EOS decides how soon."""
    config = small_config(attention, source_vocabulary=13, target_vocabulary=13, tied="none", **changes)
    model = random_model(config, seed, scale=1.7).double()
    with torch.no_grad():
        assert model.output_weight is not None
        model.output_weight.mul_(1.5)
        # The last norm's bias gives every token a constant part of its score.
        bias = model.get_parameter(f"decoder.{config.decoder_layers - 1}.feed_forward_norm.bias")
        model.output_weight[EOS] += eos * bias / bias.square().sum()
    return model


def at_most(ratio: int, extra: int) -> Any:
    """Short translations, for the sake of the naive search."""
    return mock.patch.multiple(search, MAX_RATIO=ratio, MAX_EXTRA=extra)


def sources(seed: int = 3, lengths: list[int] = LENGTHS) -> Tensor:
    torch.manual_seed(seed)
    return random_ids(13, [length + 1 for length in lengths], last=EOS)


def row(source: Tensor, place: int) -> Tensor:
    return source[place][source[place].ne(0)]


def assert_same(ours: list[Hypothesis], theirs: list[Any], tolerance: float = 1e-9) -> None:
    assert [(h.pieces, h.finished) for h in ours] == [(h.pieces, h.finished) for h in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.score == pytest.approx(other.score, abs=tolerance)
        assert mine.log_probability == pytest.approx(other.log_probability, abs=tolerance)


class TestDefinition:
    @pytest.mark.parametrize("attention", ["softmax", "rela-g", "entmax15"])
    @pytest.mark.parametrize(("beam", "penalty"), [(1, 0.6), (2, 0.0), (4, 0.6), (6, 1.5)])
    @at_most(1, 3)
    def test_equals_the_naive_search(self, attention: str, beam: int, penalty: float):
        model, source = searchable(attention), sources()
        options = SearchOptions(beam=beam, length_penalty=penalty)
        found = beam_search(model, source, options)
        assert len(found) == len(LENGTHS)
        for place, hypotheses in enumerate(found):
            assert_same(hypotheses, naive_beam_search(model, row(source, place), options))

    @pytest.mark.parametrize("seed", range(6))
    @at_most(2, 1)
    def test_on_other_models(self, seed: int):
        model, source = searchable(seed=seed, eos=2.0 * (seed % 3)), sources(seed, [3, 1])
        options = SearchOptions(beam=3)
        for place, hypotheses in enumerate(beam_search(model, source, options)):
            assert_same(hypotheses, naive_beam_search(model, row(source, place), options))

    @at_most(2, 4)
    def test_the_models_make_good_tests(self):
        """Translations end at different lengths, some do not end, and beams differ from greedy search."""
        found = [
            beam_search(searchable(seed=seed, eos=2.0 * (seed % 3)), sources(), SearchOptions(beam=4))
            for seed in range(6)
        ]
        lengths = {len(h.pieces) for search in found for hypotheses in search for h in hypotheses if h.finished}
        assert len(lengths) > 4
        assert {h.finished for search in found for hypotheses in search for h in hypotheses} == {True, False}
        greedy = beam_search(searchable(), sources(), SearchOptions(beam=1))
        assert [h[0].pieces for h in greedy] != [h[0].pieces for h in found[0]]

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_beam_1_is_greedy(self, attention: str):
        model, source = searchable(attention, eos=2.0), sources()
        for place, hypotheses in enumerate(beam_search(model, source, SearchOptions(beam=1))):
            pieces: list[int] = []
            total = 0.0
            while len(pieces) < 2 * LENGTHS[place] + 20:
                log_p = log_probabilities(model, row(source, place), pieces)
                token = max(range(2, 13), key=log_p.__getitem__)
                total += log_p[token]
                if token == EOS:
                    break
                pieces.append(token)
            assert len(hypotheses) == 1
            assert hypotheses[0].pieces == pieces
            assert hypotheses[0].log_probability == pytest.approx(total, abs=1e-9)

    @pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
    @at_most(0, 4)
    def test_a_beam_as_wide_as_all_is_exhaustive(self, penalty: float):
        config = small_config(source_vocabulary=6, target_vocabulary=6, tied="all")
        model = random_model(config, scale=1.5).double()
        source = torch.tensor([[3, 5, EOS]])
        options = SearchOptions(beam=120, length_penalty=penalty)
        expected = exhaustive(model, source[0], options, longest=4)
        assert len(expected) == 1 + 3 + 9 + 27 + 81
        found = beam_search(model, source, options)[0]
        assert_same(found, expected[:120])

    @at_most(0, 3)
    def test_nothing_left_to_search_ends_the_search(self):
        """With one word and a wide beam all hypotheses end or run out."""
        model = random_model(small_config(source_vocabulary=4, target_vocabulary=4)).double()
        options = SearchOptions(beam=9)
        found = beam_search(model, torch.tensor([[3, EOS]]), options)[0]
        assert sorted((h.pieces, h.finished) for h in found) == [
            ([], True),
            ([3], True),
            ([3, 3], True),
            ([3, 3, 3], False),
        ]


class TestHypotheses:
    def test_sorted_distinct_and_scored(self):
        options = SearchOptions(beam=5, length_penalty=0.8)
        for hypotheses in beam_search(searchable(eos=2.0), sources(), options):
            assert len(hypotheses) == 5
            assert len({(tuple(h.pieces), h.finished) for h in hypotheses}) == 5
            for better, worse in pairwise(hypotheses):
                assert (not better.finished, -better.score) <= (not worse.finished, -worse.score)
            for h in hypotheses:
                length = len(h.pieces) + h.finished
                assert h.score == pytest.approx(h.log_probability / ((5 + length) / 6) ** 0.8)
                assert all(3 <= piece < 13 for piece in h.pieces)

    @at_most(2, 1)
    def test_cut_off_at_the_greatest_length(self, monkeypatch: pytest.MonkeyPatch):
        model = searchable()
        logits = model.logits

        def never_ending(hidden: Tensor) -> Tensor:
            return logits(hidden) - 99 * (torch.arange(13) == EOS)

        monkeypatch.setattr(model, "logits", never_ending)
        found = beam_search(model, sources(), SearchOptions(beam=3))
        for length, hypotheses in zip(LENGTHS, found, strict=True):
            assert [(len(h.pieces), h.finished) for h in hypotheses] == [(2 * length + 1, False)] * 3

    @at_most(1, 4)
    def test_an_end_is_better_than_a_loop(self):
        """A cut-off hypothesis may score higher than one that ended; it still comes after it."""
        found = [
            hypotheses
            for seed in range(8)
            for hypotheses in beam_search(searchable(seed=seed), sources(), SearchOptions(beam=4, length_penalty=2.0))
        ]
        mixed = [h for h in found if len({one.finished for one in h}) == 2]
        assert any(max(h, key=lambda one: one.score).finished is False for h in mixed)
        assert all(h[0].finished for h in mixed)

    def test_numbers_that_are_none_are_an_error(self):
        model = searchable()
        with torch.no_grad():
            model.get_parameter("decoder.1.feed_forward.contract.bias").fill_(math.nan)
        with pytest.raises(ValueError, match="expected probabilities of piece 1 of a translation, got NaN"):
            beam_search(model, sources(), SearchOptions())

    @pytest.mark.parametrize(
        ("changes", "name"),
        [
            ({"beam": 0}, "beam"),
            ({"length_penalty": -0.1}, "length_penalty"),
            ({"length_penalty": math.nan}, "length_penalty"),
            ({"length_penalty": math.inf}, "length_penalty"),
        ],
    )
    def test_options(self, changes: dict[str, Any], name: str):
        with pytest.raises(ValueError, match=f"^{name}"):
            SearchOptions(**changes)


class TestBestOfRows:
    @pytest.mark.parametrize("vocabulary", [4, 63, 64, 65, 640, 1000, 5259])
    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_equals_topk(self, vocabulary: int, count: int):
        torch.manual_seed(vocabulary)
        logits = torch.randn(7, vocabulary, dtype=torch.float64)
        logits[1] = -math.inf
        logits[1, -1] = 3.0  # outside of all whole blocks, perhaps
        logits[2, : min(5, vocabulary)] = 100.0 + torch.arange(min(5, vocabulary))  # all in one block
        values, indices = best_of_rows(logits, count)
        assert torch.equal(values, logits.topk(count).values)
        assert torch.equal(logits.gather(1, indices), values)
        assert all(len(set(row)) == count for row in indices.tolist())

    def test_nan_is_not_lost(self):
        logits = torch.randn(2, 1000)
        logits[1, 777] = math.nan
        assert best_of_rows(logits, 3)[0].isnan().any(1).tolist() == [False, True]

    @at_most(1, 4)
    def test_a_search_over_many_pieces(self):
        model = random_model(small_config(source_vocabulary=700, target_vocabulary=700), scale=1.5).double()
        source, options = torch.tensor([[600, 5, EOS], [9, EOS, 0]]), SearchOptions(beam=3)
        for place, hypotheses in enumerate(beam_search(model, source, options)):
            assert_same(hypotheses, naive_beam_search(model, row(source, place), options))


class TestBatches:
    @pytest.mark.parametrize("beam", [1, 4])
    @at_most(2, 5)
    def test_any_company_gives_the_same(self, beam: int):
        model, source = searchable(eos=1.0), sources(lengths=[3, 6, 1, 4, 2, 9])
        options = SearchOptions(beam=beam)
        together = beam_search(model, source, options)
        for place in range(len(source)):
            assert_same(beam_search(model, row(source, place)[None], options)[0], together[place])
        turned = beam_search(model, source.flip(0), options)
        for mine, other in zip(turned[::-1], together, strict=True):
            assert_same(mine, other)
        pairs = [found for start in (0, 2, 4) for found in beam_search(model, source[start : start + 2], options)]
        for mine, other in zip(pairs, together, strict=True):
            assert_same(mine, other)

    @at_most(2, 4)
    def test_float32_gives_the_same_translations(self):
        model, source = searchable(eos=1.0), sources()
        exact = beam_search(model, source, SearchOptions())
        for mine, other in zip(beam_search(model.float(), source, SearchOptions()), exact, strict=True):
            assert_same(mine, other, tolerance=1e-4)

    def test_again_gives_the_same_numbers(self):
        model, source = searchable().float(), sources()
        assert beam_search(model, source, SearchOptions()) == beam_search(model, source, SearchOptions())

    @pytest.mark.parametrize("beam", [1, 3])
    @at_most(1, 1)
    def test_finished_sentences_leave_the_batch(self, beam: int):
        model, source = searchable(eos=1.0), sources(lengths=[1, 8, 3, 12])
        sizes: list[tuple[int, int]] = []
        step = Transformer.step

        def watch(self: Transformer, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
            sizes.append((len(tokens), len(state.memory[0].keys)))
            return step(self, tokens, state)

        with mock.patch.object(Transformer, "step", watch):
            beam_search(model, source, SearchOptions(beam=beam))
        assert all(rows == beam * sentences for rows, sentences in sizes)
        sentences = [number for _, number in sizes]
        assert sentences == sorted(sentences, reverse=True)
        assert (sentences[0], sentences[-1]) == (4, 1)
        assert sum(sentences) < 4 * len(sentences)

    @at_most(2, 4)
    def test_the_mode_is_given_back(self):
        model = searchable(dropout=0.5, attention_dropout=0.5)
        expected = beam_search(model, sources(), SearchOptions())
        model.train()
        assert beam_search(model, sources(), SearchOptions()) == expected
        assert all(module.training for module in model.modules())
