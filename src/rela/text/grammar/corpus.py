"""The built-in corpus as files, as any other parallel corpus comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO

from .pairs import GrammarPair, generate
from .splits import SPLITS

Progress = Callable[[str, int], None]

DEFAULT_COUNTS: dict[str, int] = {"train": 300_000, "dev": 1_000, "test": 2_000, "test-compositional": 2_000}
"""How many pairs of each split `write_corpus` writes unless told otherwise."""


_CHUNK: Final = 1000


def write_corpus(
    folder: Path, *, counts: Mapping[str, int] | None = None, seed: int = 1, progress: Progress | None = None
) -> dict[str, int]:
    """Writes the splits into a folder: ``train.en`` and ``train.de``, and for all other splits links and tags as well.

    Links are in Pharaoh format (``i-j``, English-German, from 0) in ``.sure`` and ``.possible``, tags in ``.tags.en``
    and ``.tags.de``. A file is there in full or not at all.

    Args:
        folder: made if need be.
        counts: pairs by split; those of `DEFAULT_COUNTS` if not given. Splits that it leaves out are not written.
        seed: of the training pairs. The other splits are the same for everyone.
        progress: is told a split, and how many more of its pairs are written.

    Returns:
        How many pairs were written, by split.

    Raises:
        ValueError: there is no such split.
    """
    counts = DEFAULT_COUNTS if counts is None else counts
    if unknown := sorted(set(counts) - set(SPLITS)):
        raise ValueError(f"splits must be among {', '.join(SPLITS)}, not {', '.join(unknown)}")
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        _write_split(folder, split, generate(split, seed=seed if split == "train" else 1, count=count), progress)
    return dict(counts)


def _write_split(folder: Path, split: str, pairs: Iterator[GrammarPair], progress: Progress | None) -> None:
    endings = ["en", "de"]
    if split != "train":
        endings += ["sure", "possible", "tags.en", "tags.de"]
    with ExitStack() as stack:
        files = [stack.enter_context(_atomic(folder / f"{split}.{ending}")) for ending in endings]
        for number, pair in enumerate(pairs, 1):
            lines = (
                pair.source,
                pair.target,
                _pharaoh(pair.sure),
                _pharaoh(pair.possible),
                " ".join(pair.source_tags),
                " ".join(pair.target_tags),
            )
            for file, line in zip(files, lines, strict=False):  # training has no gold files
                file.write(line + "\n")
            if progress is not None and number % _CHUNK == 0:
                progress(split, _CHUNK)


def _pharaoh(links: tuple[tuple[int, int], ...]) -> str:
    return " ".join([f"{i}-{j}" for i, j in links])


@contextmanager
def _atomic(path: Path) -> Generator[TextIO, None, None]:
    """A file that gets its name only when all of it is written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
