"""Choosing the weights that link words: by gold links, and by words that are the same on both sides."""

from collections.abc import Iterator
from unittest import mock

import pytest
from tests.model.folders import WORDS, text_model
from torch import Tensor

from rela.alignment.choice import Choice
from rela.alignment.choosing import Limits, choose, choose_by_gold, same_words
from rela.alignment.errors import ErrorCounts, GoldLinks
from rela.alignment.links import align
from rela.alignment.pairs import EncodedPair, encode_pairs
from rela.model.transformer import Transformer

PAIRS = [(f"{WORDS[place % 9]} dog {place} house", f"{place} Hund dog") for place in range(30)]


def test_same_words():
    source, target = ["Peter", "saw", "3", "men", ",", "men", "."], ["Peter", "sah", "3", "Men", "men", "."]
    assert same_words(source, target) == [(0, 0), (2, 2)]


def test_one_pass_finds_what_one_for_each_finds():
    model, sides = text_model()
    hits: dict[Choice, int] = {}
    for choice in (Choice(layer, shifted) for layer in (0, 1) for shifted in (False, True)):
        found = align(model, sides, PAIRS, choice)
        hits[choice] = sum(len(set(same_words(*one[:2])) & set(one.links)) for one in found)
    assert len(set(hits.values())) > 1
    forward, calls = Transformer.forward, mock.Mock()

    def count(self: Transformer, source: Tensor, target_in: Tensor) -> Tensor:
        calls()
        return forward(self, source, target_in)

    with mock.patch.object(Transformer, "forward", count):
        assert choose(model, sides, PAIRS) == max(hits, key=lambda choice: hits[choice])
    assert calls.call_count == 1


def test_too_few_words_that_are_the_same():
    model, sides = text_model()
    pairs = [pair for pair in PAIRS if pair[0].count("dog") == 1]  # two words each
    assert choose(model, sides, pairs[:9]) is None
    assert choose(model, sides, pairs[:10]) is not None


class TestByGold:
    @staticmethod
    def gold(choice: Choice) -> Iterator[tuple[EncodedPair, GoldLinks]]:
        """What this choice finds, as if it were right."""
        model, sides = text_model()
        found = align(model, sides, PAIRS, choice)
        encoded = encode_pairs(sides, ((line, *pair) for line, pair in enumerate(PAIRS, start=1)))
        return ((pair, GoldLinks(one.links, one.links)) for pair, one in zip(encoded, found, strict=True))

    @pytest.mark.parametrize(
        "choice", [Choice(0, True, 3), Choice(1, False, 0), Choice(1, True), Choice(0, False, 2, "any")]
    )
    def test_finds_the_one_that_is_right(self, choice: Choice):
        best = choose_by_gold(text_model()[0], self.gold(choice))
        assert best.choice == choice
        assert best.counts.aer == 0

    @pytest.mark.parametrize(
        "limits",
        [
            Limits(layer=1),
            Limits(head=2),
            Limits(head="mean"),
            Limits(shifted=False),
            Limits(rule="any"),
            Limits(layer=0, head=1, shifted=True, rule="any"),
        ],
    )
    def test_within_limits_it_is_the_lowest_rate(self, limits: Limits):
        model, sides = text_model()
        best = choose_by_gold(model, self.gold(Choice(0, True, 3)), limits)
        gold = [links for _, links in self.gold(Choice(0, True, 3))]
        rates: dict[Choice, ErrorCounts] = {}
        for choice in limits.choices(model):
            found = align(model, sides, PAIRS, choice)
            rates[choice] = ErrorCounts.sum(ErrorCounts.of(one.links, g) for one, g in zip(found, gold, strict=True))
        assert best.choice in rates
        assert best.counts == rates[best.choice]
        assert best.counts.aer == min(counts.aer for counts in rates.values())

    def test_all_choices(self):
        model, _ = text_model()
        assert len(set(Limits().choices(model))) == 2 * 5 * 2 * 2

    @pytest.mark.parametrize(
        ("limits", "message"),
        [(Limits(layer=2), "layer: expected 0 to 1, got 2"), (Limits(head=4), "head: expected 0 to 3, .*got 4")],
    )
    def test_what_the_model_does_not_have(self, limits: Limits, message: str):
        with pytest.raises(ValueError, match=message):
            choose_by_gold(text_model()[0], [], limits)

    def test_nothing_to_choose_by(self):
        with pytest.raises(ValueError, match="gold links: expected sure links to choose by, got none"):
            choose_by_gold(text_model()[0], [])
