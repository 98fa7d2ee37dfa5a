"""The built-in corpus as files, as any other parallel corpus comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

from rela._files import naming, new_file

from .pairs import GrammarPair, generate
from .splits import SPLITS

Progress = Callable[[str, int], None]

DEFAULT_COUNTS: Final = {"train": 100_000, "dev": 1_000, "test": 1_000, "test-compositional": 1_000}
"""How many pairs of each split there are unless told otherwise: the one table of the corpus's sizes."""

_CHUNK: Final = 1000


def write_corpus(
    folder: Path,
    *,
    counts: Mapping[str, int] | None = None,
    seed: int = 1,
    overwrite: bool = True,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Writes the splits into a folder: ``train.en`` and ``train.de``, and for all other splits links and tags as well.

    Links are in Pharaoh format (``i-j``, English-German, from 0) in ``.sure`` and ``.possible``, tags in ``.tags.en``
    and ``.tags.de``. A file is there in full or not at all.

    Args:
        folder: made if need be.
        counts: pairs by split; those of `DEFAULT_COUNTS` if not given. Splits that it leaves out are not written.
        seed: of the training pairs. The other splits are the same for everyone.
        overwrite: files that are there are replaced.
        progress: is told a split, and how many more of its pairs are written.

    Returns:
        How many pairs were written, by split.

    Raises:
        ValueError: there is no such split.
        FileExistsError: one of the files is there, and is not to be replaced. Then none is written.
    """
    counts = DEFAULT_COUNTS if counts is None else counts
    if unknown := sorted(set(counts) - set(SPLITS)):
        raise ValueError(f"splits must be among {', '.join(SPLITS)}, not {', '.join(unknown)}")
    files = {split: [folder / f"{split}.{ending}" for ending in _endings(split)] for split in counts}
    if not overwrite and (taken := [path for paths in files.values() for path in paths if path.exists()]):
        raise FileExistsError(f"{taken[0]}: there is something already; name another folder, or say --overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in counts.items():
        _write_split(files[split], split, generate(split, seed=seed if split == "train" else 1, count=count), progress)
    return dict(counts)


def _endings(split: str) -> list[str]:
    gold = ["sure", "possible", "tags.en", "tags.de"]  # training has none
    return ["en", "de", *(gold if split != "train" else [])]


def _write_split(paths: list[Path], split: str, pairs: Iterator[GrammarPair], progress: Progress | None) -> None:
    with ExitStack() as stack:
        files = [stack.enter_context(new_file(path)) for path in paths]
        while chunk := [_lines(pair, len(files)) for pair in islice(pairs, _CHUNK)]:
            for path, file, lines in zip(paths, files, zip(*chunk, strict=True), strict=True):
                with naming(path):
                    file.write("".join(lines))
            if progress is not None:
                progress(split, len(chunk))


def _lines(pair: GrammarPair, count: int) -> tuple[str, ...]:
    """The first so many of a pair's lines: links and tags are worked out only if they are wanted."""
    texts = f"{pair.source}\n", f"{pair.target}\n"
    if count == len(texts):
        return texts
    links = [" ".join([f"{i}-{j}" for i, j in some]) for some in (pair.sure, pair.possible)]
    tags = [" ".join(some) for some in (pair.source_tags, pair.target_tags)]
    return *texts, *(f"{line}\n" for line in (*links, *tags))
