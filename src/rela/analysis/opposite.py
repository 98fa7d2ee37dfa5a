"""Two models of opposite direction: their links in one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import tee

import numpy as np

from rela.alignment.choosing import choose_by_gold
from rela.alignment.errors import ErrorCounts, GoldLinks
from rela.alignment.links import align_encoded
from rela.alignment.pairs import EncodedPair
from rela.alignment.symmetrise import METHODS, symmetrise
from rela.analysis.corpus import Corpus, Item
from rela.analysis.entry import SCORES, Signatures
from rela.analysis.results import Measures, measure
from rela.model.directory import LoadedModel
from rela.text.store import Tokenizers


def symmetrised_measures(
    forward: LoadedModel, backward: LoadedModel, corpus: Corpus, signatures: Signatures
) -> Measures:
    """The errors of each model by its best weights on the gold links, and of both together by each method."""
    if corpus.gold is None:
        raise ValueError("expected gold links to compare two directions by, got none; give --gold-sure")
    expected = (forward.languages.target, forward.languages.source)
    if tuple(backward.languages) != expected:
        raise ValueError(
            f"expected an opposite model from {expected[0]} to {expected[1]}, got one from "
            f"{backward.languages.source} to {backward.languages.target}"
        )
    best = choose_by_gold(forward.model, ((item.pair, _gold(item)) for item in corpus.items(forward.tokenizers)))
    turned = choose_by_gold(backward.model, ((item.pair, _flipped(_gold(item))) for item in _turned(corpus, backward)))
    items, for_gold = tee(corpus.items(forward.tokenizers))
    there = align_encoded(forward.model, (item.pair for item in items), best.choice)
    back = align_encoded(backward.model, (item.pair for item in _turned(corpus, backward)), turned.choice)
    counts = {name: ErrorCounts() for name in ("forward", "backward", *METHODS)}
    for item, one, other in zip(for_gold, there, back, strict=True):
        reversed_links = [(source, target) for target, source in other.links]
        found = {"forward": one.links, "backward": reversed_links}
        found |= {method: symmetrise(one.links, reversed_links, method) for method in METHODS}
        for name, links in found.items():
            counts[name] = ErrorCounts.sum([counts[name], ErrorCounts.of(links, _gold(item))])
    assert corpus.gold_reader is not None
    parts = [
        corpus.gold_reader.signature(),
        f"forward:{best.choice.signature()}".replace("|", ","),
        f"backward:{turned.choice.signature()}".replace("|", ","),
        "chosen:on-the-same-gold",
    ]
    labels = {"method": list(counts)}
    return {
        f"symmetrised.{score}": measure(
            np.array([getattr(found, score) for found in counts.values()]),
            ("method",),
            signatures.of(score.upper(), *parts, words=True),
            labels,
        )
        for score in SCORES
    }


def _gold(item: Item) -> GoldLinks:
    assert item.gold is not None
    return item.gold


def _flipped(gold: GoldLinks) -> GoldLinks:
    return GoldLinks(*({(target, source) for source, target in links} for links in gold))


def _turned(corpus: Corpus, backward: LoadedModel) -> Iterator[Item]:
    """The items as the other model reads them: from target to source, in its own pieces; gold links as they are."""
    swapped = Tokenizers(backward.tokenizers.target, backward.tokenizers.source)
    for item in corpus.items(swapped):
        yield item._replace(pair=EncodedPair(item.pair.line, item.pair.target, item.pair.source))
