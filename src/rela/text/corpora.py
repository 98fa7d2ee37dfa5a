"""Corpora by name, as files that can be read: from ``RELA_DATA``, from the cache, or fetched from the web."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rela._lock import waiting
from rela._version import __version__
from rela.text.archives import unpack
from rela.text.corpus import Corpus, Part
from rela.text.download import Remote, download
from rela.text.forms import write_part
from rela.text.readers import PairSource
from rela.text.registry import CORPORA, find_corpus

FetchProgress = Callable[[str, int, int | None], None]
"""Called with the address of a file, the bytes that are here and the bytes of all of it, if known."""

GRAMMAR_SEED: Final = 1
GRAMMAR_SIZES: Final = {"train": 100_000, "dev": 1_000, "test": 1_000, "test-compositional": 1_000}

_SUFFIXES: Final = ("", ".gz", ".xz", ".zst")


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
    reverse: bool = False,
) -> LocalCorpus:
    """The files of a corpus, all its splits or some. ``multi30k-de-en`` is ``multi30k-en-de`` with ``reverse``.

    Looks first in ``data`` (by default the folder that the variable ``RELA_DATA`` names), then in ``cache`` (by
    default `cache_folder`), and fetches what neither has, which is told in the notes when ``data`` is given.
    """
    corpus = find_corpus(name).reversed() if reverse else find_corpus(name)
    wanted = list(corpus.splits) if splits is None else list(splits)
    if unknown := [split for split in wanted if split not in corpus.splits]:
        raise ValueError(f"{name}: expected splits among {', '.join(corpus.splits)}, got {', '.join(unknown)}")
    if data is None and (folder := os.environ.get("RELA_DATA")):
        data = Path(folder)
    cache = cache or cache_folder()
    found: dict[str, list[PairSource]] = {}
    notes = list(corpus.notes)
    for split in wanted:
        source = _find_local(corpus, split, data)
        if source is None and data is not None and not corpus.is_generated:
            missing = Path(corpus.folder) / f"{corpus.local_names.get(split, split)}.*"
            notes.append(f"{data} has no {missing} of both languages: {split} is taken from {cache} or the web")
        found[split] = [source] if source else _find_cached(corpus, split, cache, progress)
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
    sides = [
        [path for suffix in _SUFFIXES if (path := Path(f"{stem}.{language}{suffix}")).is_file()]
        for language in (corpus.source_language, corpus.target_language)
    ]
    return PairSource.files(sides[0][0], sides[1][0]) if all(sides) else None


def _find_cached(corpus: Corpus, split: str, cache: Path, progress: FetchProgress | None) -> list[PairSource]:
    """The sources of a split in the cache, made there if they are not."""
    parts = corpus.splits[split]
    recipe = repr(parts) if parts else f"{__version__} {GRAMMAR_SEED} {GRAMMAR_SIZES}"
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]  # a new recipe makes a new folder
    home = cache / "corpora" / (corpus.name if corpus.name in CORPORA else corpus.reversed().name)
    folder = home / f"{split}-{digest}"
    home.mkdir(parents=True, exist_ok=True)
    with waiting(home / f"{split}.lock"):
        if not folder.exists():
            with _made_whole(folder) as temporary:
                if corpus.is_generated:
                    _generate(split, temporary / "1-grammar")
                for number, part in enumerate(parts, start=1):
                    _build(part, temporary / f"{number}-{part.name}", cache, progress)
    names = [part.name for part in parts] or ["grammar"]
    sources = [_find_pair(corpus, folder / f"{number}-{name}") for number, name in enumerate(names, start=1)]
    if any(source is None for source in sources):
        raise FileNotFoundError(f"{folder}: expected files of {', '.join(names)}, got fewer; remove the folder")
    return [source for source in sources if source is not None]


@contextmanager
def _made_whole(folder: Path) -> Generator[Path]:
    """A folder to write to, which gets its name only at the end, so that there is never half of it."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        temporary = Path(name) / "whole"
        temporary.mkdir()
        yield temporary
        temporary.rename(folder)


def _build(part: Part, stem: Path, cache: Path, progress: FetchProgress | None) -> None:
    """Fetches and unpacks the files of a part, and writes them as plain text."""
    archives: dict[Path, set[str]] = {}
    paths = {language: _fetch_file(side.remote, cache, progress) for language, side in part.sides.items()}
    for language, side in part.sides.items():
        if side.member is not None:
            archives.setdefault(paths[language], set()).add(side.member)
    with tempfile.TemporaryDirectory(dir=stem.parent.parent) as name:
        folders = {path: Path(name) / str(number) for number, path in enumerate(archives)}
        for path, members in archives.items():
            unpack(path, folders[path], members=members)
        files = {
            language: paths[language] if side.member is None else folders[paths[language]] / side.member
            for language, side in part.sides.items()
        }
        write_part(part, files, stem)


def _fetch_file(remote: Remote, cache: Path, progress: FetchProgress | None) -> Path:
    name = re.sub(r"[^\w.-]+", "_", remote.url.partition("://")[2])
    return download(remote, cache / "downloads" / name, progress=progress and partial(progress, remote.url))


def _generate(split: str, stem: Path) -> None:
    grammar = importlib.import_module("rela.text.grammar")  # only here: it is large, and seldom wanted
    pairs = grammar.generate(split, seed=GRAMMAR_SEED, count=GRAMMAR_SIZES[split])
    languages = CORPORA["grammar"].source_language, CORPORA["grammar"].target_language
    with Path(f"{stem}.{languages[0]}").open("wb") as sources, Path(f"{stem}.{languages[1]}").open("wb") as targets:
        for pair in pairs:
            sources.write(f"{pair.source}\n".encode())
            targets.write(f"{pair.target}\n".encode())
