"""Error rates as other implementations compute them on the same files.

The files in ``data`` are of 80 pairs of the built-in corpus: gold links, those that a small model found, and the gold
links once more as one file with marks, counted from 1, target first. Some lines are empty.

The values are NLTK 3.10.4's, by ``tools/aer_by_others.py``; and those that the computation of lilt/alignment-scripts'
``aer.py gold.marked found --oneRef --reverseRef`` prints, run without its analysis of single errors.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rela.alignment.errors import ErrorCounts
from rela.alignment.gold import GoldReader, read_gold

DATA = Path(__file__).parent / "data"

AER, PRECISION, RECALL = 0.2396341463414634, 0.7423887587822015, 0.7798982188295165
FIRST_LINES = [
    0.5652173913043479,
    0.3793103448275862,
    0.06666666666666665,
    0.29032258064516125,
    0.26315789473684215,
    0.25,
    0.1578947368421053,
    0.06666666666666665,
]

GOLD = {
    "two files": lambda: read_gold(DATA / "gold.sure", DATA / "gold.possible"),
    "one file": lambda: read_gold(DATA / "gold.marked", base=1, flipped=True),
}


def counts(gold: GoldReader) -> Iterator[ErrorCounts]:
    return (ErrorCounts.of(found.sure, known) for found, known in zip(read_gold(DATA / "found"), gold, strict=True))


@pytest.mark.parametrize("name", GOLD)
def test_the_corpus(name: str):
    total = ErrorCounts.sum(counts(GOLD[name]()))
    assert (total.aer, total.precision, total.recall) == pytest.approx((AER, PRECISION, RECALL), rel=1e-12)
    rates = f"{total.aer:.1%} ({total.precision:.1%}/{total.recall:.1%}/{total.found})"
    assert rates == "24.0% (74.2%/78.0%/854)"


@pytest.mark.parametrize("name", GOLD)
def test_single_pairs(name: str):
    found = [one.aer for one in counts(GOLD[name]())]
    assert found[: len(FIRST_LINES)] == pytest.approx(FIRST_LINES, rel=1e-12)
