"""From text to a token store: learn the subwords, encode every split, write it down.

Encoding needs constant memory. Learning needs some for every distinct word, so of large text it takes a sample.

A preparation that was cut off goes on where it stopped: the tokenizers and the splits that were finished lie in
``.NAME.partial`` beside the store, with the recipe that they were made by. See `unfinished` for when it stays.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from rela._files import naming, replace_folder, sync_folder, write_text
from rela._version import __version__
from rela.text.compression import STDIN
from rela.text.problems import ReadReport
from rela.text.readers import MAX_CHARS, Pair, PairSource, read_pairs
from rela.text.sample import find_stride
from rela.text.store import CONTENTS, DESCRIPTION_FILE, FORMAT, SIDES, SentenceWriter, Tokenizers, digest_of, dtype_for
from rela.text.subwords import DEFAULT_MERGES, Subwords
from rela.text.unfinished import DONE, LEARNED_FILE, Splits, clear, take_up, unfinished_folder

_CHUNK: Final = 4000  # pairs that are encoded together

Progress = Callable[[str, int], None]
"""Called with what is being done and the number of pairs since the last call."""


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """How text becomes pieces.

    Attributes:
        merges: merges of the byte-pair encoding, for each vocabulary.
        joint: one vocabulary for both languages, or one for each.
        train_split: the split whose text the merges are learned from.
        max_train_pairs: learn them from so many pairs at most, spread over the whole; None takes all, or as many
            as about 0.6 GB of memory allow.
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
    splits: Splits,
    languages: tuple[str, str],
    out: Path,
    options: PrepareOptions,
    *,
    tokenizers: Tokenizers | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> Prepared:
    """Write a store of these splits. With ``tokenizers`` given, none are learned."""
    check_splits(splits, None if tokenizers is not None else options.train_split)
    check_out(out, overwrite=overwrite)
    out, folder = out.resolve(), unfinished_folder(out)
    recipe = {
        "version": __version__,
        "languages": languages,
        "options": asdict(options),
        "tokenizers": None if tokenizers is None else digest_of(tokenizers.files()),
    }
    with take_up(folder, recipe, splits, check=lambda: check_out(out, overwrite=overwrite)) as sources:
        prepared = _fill(folder, sources, languages, options, tokenizers, progress or (lambda _what, _count: None))
        names = [f"{split}.{side}.{content}" for split in splits for side in SIDES for content in (*CONTENTS, "txt")]
        clear(folder, keep=(DESCRIPTION_FILE, *prepared.tokenizers.files(), *names))
        sync_folder(folder)
        replace_folder(folder, out)
    return prepared


def check_splits(splits: Splits, train_split: str | None) -> None:
    """Raise ValueError for splits that cannot be prepared, whatever their files hold."""
    if train_split is not None and train_split not in splits:
        raise ValueError(
            f"expected the split {train_split!r} to learn subwords from, got {', '.join(splits) or 'none'}"
        )
    for name, sources in splits.items():
        if not name.translate({ord(sign): "" for sign in "-_."}).isalnum():
            raise ValueError(f"expected a split's name of letters, digits, -, _ and ., got {name!r}")
        if not sources:
            raise ValueError(f"{name}: expected at least one source of pairs, got none")
    counts = Counter(path for sources in splits.values() for source in sources for path in source.paths)
    if counts[STDIN] > 1:
        raise ValueError(f"expected standard input (-) once at most, got it {counts[STDIN]} times; give files")


def check_out(out: Path, *, overwrite: bool) -> None:
    """Raise FileExistsError if there is something that is not to be replaced."""
    if not out.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{out}: there is something already; name another folder, or say --overwrite")
    if not out.is_dir() or (not (out / DESCRIPTION_FILE).is_file() and any(out.iterdir())):
        raise FileExistsError(f"{out}: expected a store to overwrite, got something else; name another folder")


def _fill(
    folder: Path,
    splits: Splits,
    languages: tuple[str, str],
    options: PrepareOptions,
    tokenizers: Tokenizers | None,
    progress: Progress,
) -> Prepared:
    """Write the files of a store, but those that are there."""
    recipe = asdict(options)
    learned: dict[str, int] | None = None
    if tokenizers is None:
        tokenizers, learned = _tokenizers(folder, splits[options.train_split], options, progress)
    else:
        for unused in ("merges", "joint", "max_train_pairs", "train_split"):
            del recipe[unused]
        _write_tokenizers(folder, tokenizers)
    dtype = dtype_for(max(tokenizers.source.size, tokenizers.target.size))
    entries: dict[str, dict[str, Any]] = {}
    reports: dict[str, ReadReport] = {}
    for split, sources in splits.items():
        entries[split], reports[split] = _encode(folder, split, sources, tokenizers, dtype, options, progress)
        if entries[split]["pairs"] == 0:
            raise ValueError(f"{split}: expected at least one pair, got none; {'; '.join(reports[split].lines())}")
    description = {
        "format": FORMAT,
        "rela_version": __version__,
        "source_language": languages[0],
        "target_language": languages[1],
        "dtype": dtype,
        "joint": tokenizers.joint,
        "vocabulary": {side: getattr(tokenizers, side).size for side in SIDES},
        "learned_from_pairs": learned,
        "options": recipe,
        "splits": entries,
    }
    write_text(folder / DESCRIPTION_FILE, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    return Prepared(description, reports, tokenizers)


def _tokenizers(
    folder: Path, sources: Sequence[PairSource], options: PrepareOptions, progress: Progress
) -> tuple[Tokenizers, dict[str, int]]:
    """Learn the subwords, unless that was done before the cut. Tells from how many pairs, for each side."""
    done = folder / LEARNED_FILE
    if done.is_file():
        try:
            return Tokenizers.load(folder), json.loads(done.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            pass  # damaged
    learned: list[Subwords] = []
    counts: dict[str, int] = {}
    for sides in [SIDES] if options.joint else [(side,) for side in SIDES]:
        stride = _stride(sources, sides, options, progress)
        pairs = islice(_pairs(sources, ReadReport(), options), 0, None, stride)
        count = 0

        def texts(pairs: Iterator[Pair] = pairs, sides: tuple[str, ...] = sides) -> Iterator[str]:
            nonlocal count
            for chunk in _chunks(pairs):
                count += len(chunk)
                yield from (text for pair in chunk for text in _sides(pair, sides))
                progress("learning subwords", len(chunk))

        learned.append(Subwords.train(texts(), options.merges))
        counts |= dict.fromkeys(sides, count)
    tokenizers = Tokenizers(learned[0], learned[-1])
    _write_tokenizers(folder, tokenizers)
    write_text(done, json.dumps(counts))
    return tokenizers, counts


def _write_tokenizers(folder: Path, tokenizers: Tokenizers) -> None:
    for name, content in tokenizers.files().items():
        write_text(folder / name, content)


def _stride(sources: Sequence[PairSource], sides: tuple[str, ...], options: PrepareOptions, progress: Progress) -> int:
    """Learn from every so manyth pair."""

    def pairs() -> Iterator[Pair]:
        for chunk in _chunks(_pairs(sources, ReadReport(), options)):
            yield from chunk
            progress("choosing pairs to learn from", len(chunk))

    if options.max_train_pairs is None:
        return find_stride(_sides(pair, sides) for pair in pairs())
    return max(1, -(-sum(1 for _ in pairs()) // options.max_train_pairs))


def _sides(pair: Pair, sides: tuple[str, ...]) -> list[str]:
    return [getattr(pair, side) for side in sides]


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
    done = folder / f"{split}{DONE}"
    if done.is_file():
        saved = json.loads(done.read_text(encoding="utf-8"))
        return saved["entry"], ReadReport.from_json(saved["report"])
    report = ReadReport()
    with (
        SentenceWriter(folder, split, "source", dtype) as source,
        SentenceWriter(folder, split, "target", dtype) as target,
    ):
        for chunk in _chunks(_pairs(sources, report, options)):
            source.write(tokenizers.source.encode_batch([pair.source for pair in chunk]))
            target.write(tokenizers.target.encode_batch([pair.target for pair in chunk]))
            progress(f"encoding {split}", len(chunk))
    if split != options.train_split:
        _write_text(folder, split, sources, options)
    entry: dict[str, Any] = {
        "pairs": report.num_kept,
        "source_tokens": source.num_tokens,
        "target_tokens": target.num_tokens,
        "source_sha256": source.sha256,
        "target_sha256": target.sha256,
        "left_out": report.to_json()["problems"],
    }
    write_text(done, json.dumps({"entry": entry, "report": report.to_json()}))
    return entry, report


def _write_text(folder: Path, split: str, sources: Sequence[PairSource], options: PrepareOptions) -> None:
    """The pairs that were kept as plain text too: what is translated and compared with after training."""
    for side in SIDES:
        path = folder / f"{split}.{side}.txt"
        with naming(path), path.open("wb") as file:
            for pair in _pairs(sources, ReadReport(), options):
                file.write(f"{getattr(pair, side)}\n".encode())


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
