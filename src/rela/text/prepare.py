"""From text to a token store: learn the subwords, encode every split, write it down. Memory stays constant.

A preparation that was cut off goes on where it stopped: the tokenizers and the splits that were finished lie in
``.NAME.partial`` beside the store, with the recipe that they were made by.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from rela._files import replace_folder, sync_folder, write_text
from rela._version import __version__
from rela.text.compression import STDIN
from rela.text.problems import ReadReport
from rela.text.readers import MAX_CHARS, Pair, PairSource, read_pairs
from rela.text.store import DESCRIPTION_FILE, FORMAT, SIDES, SentenceWriter, Tokenizers, dtype_for
from rela.text.subwords import DEFAULT_MERGES, Subwords

_CHUNK: Final = 4000  # pairs that are encoded together
_RECIPE_FILE: Final = "recipe.json"

Progress = Callable[[str, int], None]
"""Called with what is being done and the number of pairs since the last call."""


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How text becomes pieces.

    Attributes:
        merges: merges of the byte-pair encoding, for each vocabulary.
        joint: one vocabulary for both languages, or one for each.
        train_split: the split whose text the merges are learned from.
        max_train_pairs: learn them from so many pairs at most, spread over the whole; None takes all.
        strict: a line with a problem is an error.
        max_chars: longer lines are a problem.
    """

    merges: int = DEFAULT_MERGES
    joint: bool = True
    train_split: str = "train"
    max_train_pairs: int | None = None
    strict: bool = False
    max_chars: int = MAX_CHARS


class Prepared(NamedTuple):
    """What came out: the store's description, and for each split what was read and left out."""

    description: dict[str, Any]
    reports: dict[str, ReadReport]
    tokenizers: Tokenizers


def prepare(
    splits: Mapping[str, Sequence[PairSource]],
    languages: tuple[str, str],
    out: Path,
    options: PrepareOptions,
    *,
    tokenizers: Tokenizers | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> Prepared:
    """Write a store of these splits. With ``tokenizers`` given, none are learned."""
    if tokenizers is None and options.train_split not in splits:
        raise ValueError(
            f"expected the split {options.train_split!r} to learn subwords from, got {', '.join(splits) or 'none'}"
        )
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out}: there is something already; name another folder, or say --overwrite")
    report_progress: Progress = progress or (lambda _what, _count: None)
    folder = out.with_name(f".{out.name}.partial")
    splits = _take_up(folder, splits, languages, options, tokenizers)
    if tokenizers is None:
        tokenizers = _tokenizers(folder, splits[options.train_split], options, report_progress)
    for name, content in tokenizers.files().items():
        write_text(folder / name, content)
    dtype = dtype_for(max(tokenizers.source.size, tokenizers.target.size))
    entries: dict[str, dict[str, Any]] = {}
    reports: dict[str, ReadReport] = {}
    for split, sources in splits.items():
        entry, reports[split] = _encode(folder, split, sources, tokenizers, dtype, options, report_progress)
        entries[split] = entry
        if entry["pairs"] == 0:
            raise ValueError(f"{split}: expected at least one pair, got none; {'; '.join(reports[split].lines())}")
    description = {
        "format": FORMAT,
        "rela_version": __version__,
        "source_language": languages[0],
        "target_language": languages[1],
        "dtype": dtype,
        "joint": tokenizers.joint,
        "vocabulary": {side: getattr(tokenizers, side).size for side in SIDES},
        "options": asdict(options),
        "splits": entries,
    }
    write_text(folder / DESCRIPTION_FILE, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    for leftover in (_RECIPE_FILE, *(f"{split}.json" for split in splits), *_spools(splits)):
        (folder / leftover).unlink(missing_ok=True)
    sync_folder(folder)
    replace_folder(folder, out)
    return Prepared(description, reports, tokenizers)


def _take_up(
    folder: Path,
    splits: Mapping[str, Sequence[PairSource]],
    languages: tuple[str, str],
    options: PrepareOptions,
    tokenizers: Tokenizers | None,
) -> Mapping[str, Sequence[PairSource]]:
    """Go on with a folder that the same recipe began, or begin anew. Standard input is written to a file first."""
    recipe = json.dumps(
        {
            "version": __version__,
            "languages": languages,
            "options": asdict(options),
            "tokenizers": None if tokenizers is None else _digest(tokenizers.files()),
            "splits": {name: [_fingerprint(source) for source in sources] for name, sources in splits.items()},
        },
        indent=2,
    )
    streams = any(STDIN in source.paths for sources in splits.values() for source in sources)
    begun = folder / _RECIPE_FILE
    if streams or not begun.is_file() or begun.read_text(encoding="utf-8") != recipe:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_text(begun, recipe)
    return {name: [_spool(source, folder / f"stdin-{name}") for source in sources] for name, sources in splits.items()}


def _fingerprint(source: PairSource) -> list[Any]:
    """What tells whether a source is still the same: its paths, and the sizes and times of the files."""
    facts: list[Any] = [asdict(source)]
    for path in source.paths:
        if path != STDIN:
            if not Path(path).exists():
                raise FileNotFoundError(f"{path}: expected a text file, there is none")
            if Path(path).is_dir():
                raise IsADirectoryError(f"{path}: expected a text file, got a folder")
            stat = Path(path).stat()
            facts.append([stat.st_size, stat.st_mtime_ns])
    return facts


def _spool(source: PairSource, file: Path) -> PairSource:
    """Standard input can be read once only, and is needed twice: for the subwords and for the store."""
    if STDIN not in source.paths:
        return source
    with file.open("wb") as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    return source.with_path(STDIN, str(file))


def _spools(splits: Mapping[str, Sequence[PairSource]]) -> list[str]:
    return [f"stdin-{name}" for name in splits]


def _digest(files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _tokenizers(folder: Path, sources: Sequence[PairSource], options: PrepareOptions, progress: Progress) -> Tokenizers:
    """Learn the subwords, unless that was done before the cut."""
    try:
        return Tokenizers.load(folder)
    except (FileNotFoundError, ValueError):
        pass  # not done, or one of two

    def side(which: str) -> Iterator[str]:
        for pair in _train_pairs(sources, options, progress):
            yield getattr(pair, which)

    if options.joint:
        both = (text for pair in _train_pairs(sources, options, progress) for text in (pair.source, pair.target))
        subwords = Subwords.train(both, options.merges)
        return Tokenizers(subwords, subwords)
    return Tokenizers(*(Subwords.train(side(which), options.merges) for which in SIDES))


def _train_pairs(sources: Sequence[PairSource], options: PrepareOptions, progress: Progress) -> Iterator[Pair]:
    pairs = _pairs(sources, ReadReport(), options)
    if options.max_train_pairs is not None:
        total = sum(1 for _ in _pairs(sources, ReadReport(), options))
        pairs = islice(pairs, 0, None, max(1, -(-total // options.max_train_pairs)))
    for chunk in _chunks(pairs):
        progress("learning subwords", len(chunk))
        yield from chunk


def _pairs(sources: Sequence[PairSource], report: ReadReport, options: PrepareOptions) -> Iterator[Pair]:
    for source in sources:
        yield from read_pairs(source, report=report, strict=options.strict, max_chars=options.max_chars)


def _encode(
    folder: Path,
    split: str,
    sources: Sequence[PairSource],
    tokenizers: Tokenizers,
    dtype: str,
    options: PrepareOptions,
    progress: Progress,
) -> tuple[dict[str, Any], ReadReport]:
    """Encode one split, unless that was done before the cut."""
    done = folder / f"{split}.json"
    if done.is_file():
        saved = json.loads(done.read_text(encoding="utf-8"))
        return saved["entry"], ReadReport.from_json(saved["report"])
    report = ReadReport()
    writers = [SentenceWriter(folder, split, side, dtype) for side in SIDES]
    try:
        for chunk in _chunks(_pairs(sources, report, options)):
            writers[0].write(tokenizers.source.encode_batch([pair.source for pair in chunk]))
            writers[1].write(tokenizers.target.encode_batch([pair.target for pair in chunk]))
            progress(f"encoding {split}", len(chunk))
    finally:
        for writer in writers:
            writer.close()
    entry: dict[str, Any] = {
        "pairs": report.num_kept,
        **{f"{s}_tokens": w.num_tokens for s, w in zip(SIDES, writers, strict=True)},
    }
    entry["left_out"] = report.to_json()["problems"]
    write_text(done, json.dumps({"entry": entry, "report": report.to_json()}))
    return entry, report


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
