"""Which weights align best: found out by gold links, or without them, by words that are the same on both sides.

Words that are written the same on both sides, such as names and numbers, nearly always translate each other. The
weights that link most of them are the ones to trust with the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rela.alignment.batched import RULES, SHIFTS, Rule
from rela.alignment.choice import Choice
from rela.alignment.errors import ErrorCounts, GoldLinks, Link
from rela.alignment.pairs import EncodedPair, PairBatch, by_length, encode_pairs, windows
from rela.alignment.tally import AlignmentErrors, GoldBatch
from rela.alignment.weights import visit_cross_weights
from rela.model.seq2seq import Seq2Seq
from rela.text.subwords import PairEncoding

_ENOUGH: Final = 20  # words; with fewer, chance would decide


class Best(NamedTuple):
    """The choice with the lowest alignment error rate, and its counts."""

    choice: Choice
    counts: ErrorCounts


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What to choose among. None: all there are; of heads, the mean over them too.

    Attributes:
        head: a head from 0, or ``mean``.
    """

    layer: int | None = None
    head: int | str | None = None
    shifted: bool | None = None
    rule: Rule | None = None

    def choices(self, model: Seq2Seq) -> list[Choice]:
        """All choices within these limits; of equally good ones, the first is taken."""
        layers = range(model.config.decoder_layers) if self.layer is None else [self.layer]
        heads = [None, *range(model.config.num_heads)] if self.head is None else [_head(self.head)]
        shifts = [shift == "shifted" for shift in reversed(SHIFTS)] if self.shifted is None else [self.shifted]
        rules: Sequence[Rule] = RULES if self.rule is None else [self.rule]
        found = [
            Choice(layer, shift, head, rule) for rule in rules for shift in shifts for layer in layers for head in heads
        ]
        for choice in found:
            choice.check(model)
        return found


def _head(head: int | str) -> int | None:
    return None if isinstance(head, str) else head


def same_words(source_words: Sequence[str], target_words: Sequence[str]) -> list[Link]:
    """Links of words that stand once on each side and are written the same; signs do not count."""
    sides = [[word.casefold() for word in words] for words in (source_words, target_words)]
    counts = [Counter(side) for side in sides]
    return [
        (sides[0].index(word), place)
        for place, word in enumerate(sides[1])
        if word[0].isalnum() and counts[0][word] == counts[1][word] == 1
    ]


def choose(model: Seq2Seq, tokenizers: PairEncoding, pairs: Sequence[tuple[str, str]]) -> Choice | None:
    """The layer and rows that link most of the words that are the same on both sides; None: there are too few."""
    numbered = ((line, source, target) for line, (source, target) in enumerate(pairs, start=1))
    encoded = encode_pairs(tokenizers, numbered)
    errors = count_errors(model, ((pair, _same_gold(pair)) for pair in encoded))
    tables = {shift: errors.counts(shift, "merged") for shift in SHIFTS}
    if tables["normal"].at(0, -1).sure < _ENOUGH:
        return None
    layers = range(model.config.decoder_layers)
    choices = [Choice(layer, shift == "shifted") for layer in layers for shift in SHIFTS]
    return max(choices, key=lambda choice: int(tables[choice.shift].found_sure[choice.layer, -1]))


def choose_by_gold(
    model: Seq2Seq,
    pairs: Iterable[tuple[EncodedPair, GoldLinks]],
    limits: Limits | None = None,
    name: str = "gold links",
) -> Best:
    """The choice with the lowest alignment error rate on these pairs; ``name`` is where their links come from."""
    errors = count_errors(model, pairs)

    def counts(choice: Choice) -> ErrorCounts:
        head = -1 if choice.head is None else choice.head
        return errors.counts(choice.shift, choice.rule).at(choice.layer, head)

    choices = (limits or Limits()).choices(model)
    if counts(choices[0]).sure == 0:
        raise ValueError(f"{name}: expected sure links to choose by, got none; give a file that has some")
    best = min(choices, key=lambda choice: counts(choice).aer)
    return Best(best, counts(best))


def count_errors(
    model: Seq2Seq,
    pairs: Iterable[tuple[EncodedPair, GoldLinks]],
    progress: Callable[[int], None] = lambda _: None,
) -> AlignmentErrors:
    """The errors of all layers and heads, in one forward pass a pair."""
    layers = range(model.config.decoder_layers)
    errors = AlignmentErrors(len(layers), model.config.num_heads)
    for window in windows(pairs):
        for places in by_length([pair for pair, _ in window]):
            batch = PairBatch([window[place][0] for place in places], model.projection.device)
            gold = GoldBatch.from_links([window[place][1] for place in places], batch)
            visit_cross_weights(model, batch, layers, lambda layer, weights: errors.add(layer, weights, batch, gold))  # noqa: B023 (called at once)
            progress(len(places))
    return errors


def _same_gold(pair: EncodedPair) -> GoldLinks:
    same = same_words(pair.source.words, pair.target.words)
    return GoldLinks(same, same)
