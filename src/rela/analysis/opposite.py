"""Two models of opposite direction: their links in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import tee
from typing import NamedTuple

import numpy as np

from rela.alignment.choosing import choose_by_gold
from rela.alignment.errors import ErrorCounts, GoldLinks
from rela.alignment.links import align_encoded
from rela.alignment.pairs import EncodedPair, encode_side
from rela.alignment.symmetrise import METHODS, symmetrise
from rela.analysis.corpus import Corpus, Reading
from rela.analysis.entry import SCORES, Signatures
from rela.analysis.results import Measures, measure
from rela.model.directory import Languages
from rela.model.opening import OpenedModel
from rela.text.subwords import PairEncoding


def check_opposite(forward: Languages, backward: Languages, corpus: Corpus) -> None:
    """Refuse a model of another direction, and links without gold to compare them by."""
    if corpus.gold is None:
        raise ValueError("expected gold links to compare two directions by, got none; give --gold-sure")
    expected = Languages(forward.target, forward.source)
    if backward != expected:
        raise ValueError(
            f"--opposite: expected a model from {expected.source} to {expected.target}, got one from {backward.source} "
            f"to {backward.target}"
        )


class _Both(NamedTuple):
    """A pair as each of the models reads it, and its gold links, from source to target."""

    forward: EncodedPair
    backward: EncodedPair
    gold: GoldLinks

    @property
    def flipped(self) -> GoldLinks:
        return GoldLinks(*({(target, source) for source, target in links} for links in self.gold))


def symmetrised_measures(
    forward: OpenedModel,
    backward: OpenedModel,
    corpus: Corpus,
    signatures: Signatures,
    progress: Callable[[int], None] = lambda _: None,
) -> Measures:
    """The errors of each model by its best weights on the gold links, and of both together by each method.

    Pairs with too many pieces for one of the models count for neither.
    """

    def read() -> Iterator[_Both]:
        return _both(corpus.read(forward.tokenizers), backward.tokenizers)

    best = choose_by_gold(forward.model, ((both.forward, both.gold) for both in read()))
    turned = choose_by_gold(backward.model, ((both.backward, both.flipped) for both in read()))
    reading = corpus.read(forward.tokenizers)
    pairs, to_forward, to_backward = tee(_both(reading, backward.tokenizers), 3)
    there = align_encoded(forward.model, (both.forward for both in to_forward), best.choice)
    back = align_encoded(backward.model, (both.backward for both in to_backward), turned.choice)
    counts = {name: ErrorCounts() for name in ("forward", "backward", *METHODS)}
    num_pairs = 0
    for both, one, other in zip(pairs, there, back, strict=True):
        reversed_links = [(source, target) for target, source in other.links]
        found = {"forward": one.links, "backward": reversed_links}
        found |= {method: symmetrise(one.links, reversed_links, method) for method in METHODS}
        for name, links in found.items():
            counts[name] = ErrorCounts.sum([counts[name], ErrorCounts.of(links, both.gold)])
        num_pairs += 1
        progress(1)
    assert reading.gold is not None
    parts = [
        reading.gold.signature(),
        f"linked:{num_pairs}",
        f"forward:{best.choice.signature()}".replace("|", ","),
        f"backward:{turned.choice.signature()}".replace("|", ","),
        "chosen:on-the-same-gold",
    ]
    labels = {"method": list(counts)}
    return {
        f"symmetrised.{score}": measure(
            np.array([getattr(found, score) for found in counts.values()]),
            ("method",),
            signatures.of(f"symmetrised-{score.upper()}", *parts, words=True),
            labels,
        )
        for score in SCORES
    }


def _both(reading: Reading, backward: PairEncoding) -> Iterator[_Both]:
    corpus = reading.corpus
    for item in reading:
        assert item.gold is not None
        sides = (
            encode_side(subwords, corpus.wording.read(text))
            for subwords, text in ((backward.source, item.target), (backward.target, item.source))
        )
        turned = EncodedPair(item.pair.line, *sides)
        if max(len(turned.source.ids), len(turned.target.ids)) <= corpus.max_pieces:
            yield _Both(item.pair, turned, item.gold)
