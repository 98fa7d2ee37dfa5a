"""From the files of a corpus as they are given out to plain text, one sentence a line."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from rela.text.compression import is_packed, open_text
from rela.text.corpus import Part, Selection
from rela.text.sgm import read_sgm

_BETWEEN_TITLES: Final = b"|||"


def write_part(part: Part, files: Mapping[str, Path], stem: Path) -> None:
    """Writes ``stem.<language>`` for both languages, or ``stem.<language>.gz`` where the file is packed so."""
    if part.form == "sgm":
        _write_sgm(files, stem)
    elif part.form == "titles":
        _write_titles(files, stem)
    elif part.selection is not None:
        _write_selection(part.selection, files, stem)
    else:
        for language, file in files.items():
            packing = file.suffix if is_packed(file) else ""
            shutil.copyfile(file, f"{stem}.{language}{packing}")


def _write_sgm(files: Mapping[str, Path], stem: Path) -> None:
    segments = {language: read_sgm(file) for language, file in files.items()}
    if len({len(texts) for texts in segments.values()}) > 1:
        counts = ", ".join(f"{len(texts)} in {files[language]}" for language, texts in segments.items())
        raise ValueError(f"expected as many segments on both sides, got {counts}; the files are not of one test set")
    for language, texts in segments.items():
        _write(f"{stem}.{language}", (f"{text}\n".encode() for text in texts))


def _write_titles(files: Mapping[str, Path], stem: Path) -> None:
    """A line without ``|||`` becomes a pair without a target, so that reading it counts it."""
    for column, (language, file) in enumerate(files.items()):
        with open_text(file) as lines:
            sides = (line.partition(_BETWEEN_TITLES)[2 * column].strip() + b"\n" for line in lines)
            _write(f"{stem}.{language}", sides)


def _write_selection(selection: Selection, files: Mapping[str, Path], stem: Path) -> None:
    (first_language, first), (second_language, second) = files.items()
    counts = [_count_lines(file) for file in (first, second)]
    if counts[0] != counts[1]:
        raise ValueError(f"expected as many lines in both, got {counts[0]:,} in {first} and {counts[1]:,} in {second}")
    start, stop, _ = slice(selection.start, selection.stop).indices(counts[0])
    least, most = selection.words or (0, None)
    with (
        open_text(first) as first_lines,
        open_text(second) as second_lines,
        Path(f"{stem}.{first_language}").open("wb") as first_out,
        Path(f"{stem}.{second_language}").open("wb") as second_out,
    ):
        for pair in islice(zip(first_lines, second_lines, strict=True), start, stop):
            lengths = [len(line.split()) for line in pair]
            if min(lengths) >= least and (most is None or max(lengths) <= most):
                first_out.write(pair[0])
                second_out.write(pair[1])


def _count_lines(file: Path) -> int:
    with open_text(file) as lines:
        return sum(1 for _ in lines)


def _write(path: str, lines: Iterable[bytes]) -> None:
    with Path(path).open("wb") as file:
        file.writelines(lines)
