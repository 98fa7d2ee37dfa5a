"""The alignment error rate by other implementations, for tests/alignment/test_by_others.py.

Needs NLTK, which rela does not: run it in an environment of its own, from the project's folder.

    pip install nltk && python tools/aer_by_others.py tests/alignment/data
"""

from __future__ import annotations

import sys
from pathlib import Path

from nltk.metrics import precision, recall  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
from nltk.translate.metrics import (  # pyright: ignore[reportMissingImports]
    alignment_error_rate,  # pyright: ignore[reportUnknownVariableType]
)


def links(path: Path) -> frozenset[tuple[int, str]]:
    """All links of a file, each with the number of its line: so a corpus is one set."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset((number, link) for number, line in enumerate(lines) for link in line.split())


def main(folder: Path) -> None:
    """Print the rates of the corpus, and the error rate of each of its pairs."""
    found, sure, possible = (links(folder / name) for name in ("found", "gold.sure", "gold.possible"))
    print("AER", alignment_error_rate(sure, found, possible))
    print("precision", precision(possible, found))
    print("recall", recall(sure, found))
    for number in range(8):
        parts = [frozenset(link for link in some if link[0] == number) for some in (sure, found, possible)]
        print("line", number + 1, alignment_error_rate(*parts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
