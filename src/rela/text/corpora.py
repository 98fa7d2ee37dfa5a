"""Corpora by name, as files that can be read: from ``RELA_DATA``, from the cache, or fetched from the web."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from rela._files import PACKINGS, new_folder
from rela._lock import waiting
from rela.text.archives import unpack
from rela.text.corpus import Corpus, Part
from rela.text.download import Remote, download
from rela.text.forms import write_part
from rela.text.readers import PairSource
from rela.text.registry import find_corpus, own_name

FetchProgress = Callable[[str, int, int | None], None]
"""Called with the address of a file, the bytes that are here and the bytes of all of it, if known."""


@dataclass(frozen=True, kw_only=True)
class LocalCorpus:
    """A corpus on this machine. Each split is a list of sources for `read_pairs`; ``notes`` are for the user."""

    name: str
    source_language: str
    target_language: str
    splits: dict[str, list[PairSource]]
    notes: tuple[str, ...] = ()


def cache_folder() -> Path:
    """``RELA_CACHE``, or else ``rela`` in the cache folder of the user."""
    if folder := os.environ.get("RELA_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rela"


def fetch(
    name: str,
    *,
    splits: Sequence[str] | None = None,
    cache: Path | None = None,
    data: Path | None = None,
    progress: FetchProgress | None = None,
) -> LocalCorpus:
    """The files of a corpus, all its splits or some. ``multi30k-de-en`` is ``multi30k-en-de`` the other way round.

    Looks first in ``data`` (by default the folder that the variable ``RELA_DATA`` names), then in ``cache`` (by
    default `cache_folder`), and fetches what neither has. The notes tell when ``data`` is given and lacks something,
    and under what terms something was fetched.
    """
    corpus = find_corpus(name)
    wanted = list(corpus.splits) if splits is None else list(splits)
    if unknown := [split for split in wanted if split not in corpus.splits]:
        raise ValueError(f"{name}: expected splits among {', '.join(corpus.splits)}, got {', '.join(unknown)}")
    if data is None and (folder := os.environ.get("RELA_DATA")):
        data = Path(folder)
    cache = cache or cache_folder()
    found: dict[str, list[PairSource]] = {}
    notes = list(corpus.notes)
    is_fetched = False
    for split in wanted:
        source = _find_local(corpus, split, data)
        if source is None and data is not None and not corpus.is_generated:
            missing = Path(corpus.folder) / f"{corpus.local_names.get(split, split)}.*"
            notes.append(f"{data} has no {missing} of both languages: {split} is taken from {cache} or the web")
        if source:
            found[split] = [source]
        else:
            found[split], is_new = _find_cached(corpus, split, cache, progress)
            is_fetched |= is_new and not corpus.is_generated
    if is_fetched:
        notes.append(f"{corpus.name} was fetched from the web: {corpus.description}; terms: {corpus.terms}")
    return LocalCorpus(
        name=corpus.name,
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        splits=found,
        notes=tuple(notes),
    )


def _find_local(corpus: Corpus, split: str, data: Path | None) -> PairSource | None:
    if data is None:
        return None
    return _find_pair(corpus, data / corpus.folder / corpus.local_names.get(split, split))


def _find_pair(corpus: Corpus, stem: Path) -> PairSource | None:
    """The files ``stem.<language>``, packed or not, if both are there."""
    sides = [_find_text(Path(f"{stem}.{language}")) for language in (corpus.source_language, corpus.target_language)]
    return PairSource.files(sides[0], sides[1]) if sides[0] and sides[1] else None


def _find_text(path: Path) -> Path | None:
    """A file, or one of the same name with the ending of a packing, in small or capital letters."""
    if path.is_file() or not path.parent.is_dir():
        return path if path.is_file() else None
    packed = {other.suffix.lower(): other for other in path.parent.iterdir() if other.stem == path.name}
    return next((packed[packing] for packing in PACKINGS if packing in packed and packed[packing].is_file()), None)


class _Cached(NamedTuple):
    sources: list[PairSource]
    is_new: bool


def _find_cached(corpus: Corpus, split: str, cache: Path, progress: FetchProgress | None) -> _Cached:
    """The sources of a split in the cache, made there if they are not."""
    parts = corpus.splits[split]
    recipe = repr(parts) if parts else _grammar_digest()
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]  # a new recipe makes a new folder
    home = cache / "corpora" / own_name(corpus)
    folder = home / f"{split}-{digest}"
    home.mkdir(parents=True, exist_ok=True)
    with waiting(home / f"{split}.lock"):
        is_new = not folder.exists()
        if is_new:
            with new_folder(folder) as temporary:
                if corpus.is_generated:
                    _generate(split, temporary)
                for number, part in enumerate(parts, start=1):
                    _build(part, temporary / f"{number}-{part.name}", cache, progress)
    names = [f"{number}-{part.name}" for number, part in enumerate(parts, start=1)] or [split]
    sources = [_find_pair(corpus, folder / name) for name in names]
    if any(source is None for source in sources):
        raise FileNotFoundError(f"{folder}: expected files of {', '.join(names)}, got fewer; remove the folder")
    return _Cached([source for source in sources if source is not None], is_new)


def _build(part: Part, stem: Path, cache: Path, progress: FetchProgress | None) -> None:
    """Fetches and unpacks the files of a part, and writes them as plain text."""
    archives: dict[Path, set[str]] = {}
    paths = {language: _fetch_file(side.remote, cache, progress) for language, side in part.sides.items()}
    for language, side in part.sides.items():
        if side.member is not None:
            archives.setdefault(paths[language], set()).add(side.member)
    unpacked = stem.with_name("unpacked")  # in a folder that the next run removes if this one is killed
    folders = {path: unpacked / str(number) for number, path in enumerate(archives)}
    try:
        for path, members in archives.items():
            unpack(path, folders[path], members=members)
        files = {
            language: paths[language] if side.member is None else folders[paths[language]] / side.member
            for language, side in part.sides.items()
        }
        write_part(part, files, stem)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _fetch_file(remote: Remote, cache: Path, progress: FetchProgress | None) -> Path:
    name = re.sub(r"[^\w.-]+", "_", remote.url.partition("://")[2])
    return download(remote, cache / "downloads" / name, progress=progress and partial(progress, remote.url))


def _generate(split: str, folder: Path) -> None:
    grammar = importlib.import_module("rela.text.grammar")  # only here: it is large, and seldom wanted
    grammar.write_corpus(folder, counts={split: grammar.DEFAULT_COUNTS[split]})


@cache
def _grammar_digest() -> str:
    """Of the source of the grammar, its words and its default counts among it: other source may make other text."""
    digest = hashlib.sha256()
    for name, data in _files_in(resources.files("rela.text") / "grammar"):
        digest.update(f"{name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _files_in(folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_file():
            yield entry.name, entry.read_bytes()
        elif entry.name != "__pycache__":
            yield from _files_in(entry)
