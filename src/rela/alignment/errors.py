"""The alignment error rate, against links that are known to be right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from rela.alignment.links import Link


class GoldLinks(NamedTuple):
    """Sure links, and possible ones, among which are the sure."""

    sure: Collection[Link]
    possible: Collection[Link]


def alignment_error_rate(pairs: Iterable[tuple[Collection[Link], GoldLinks]]) -> float:
    """``1 - (|A & S| + |A & P|) / (|A| + |S|)``, counted over all pairs of found and gold links (Och and Ney 2003)."""
    matched = total = 0
    for found, gold in pairs:
        links, sure, possible = set(found), set(gold.sure), set(gold.possible)
        if not sure <= possible:
            raise ValueError(f"expected the sure links to be possible too, got {sorted(sure - possible)} sure only")
        matched += len(links & sure) + len(links & possible)
        total += len(links) + len(sure)
    if total == 0:
        raise ValueError("expected at least one link, found or sure, got none")
    return 1 - matched / total
