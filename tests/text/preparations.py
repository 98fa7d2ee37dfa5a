"""Small texts to prepare, cut off or whole."""

from pathlib import Path
from typing import Any

from rela.text.prepare import Prepared, PrepareOptions, prepare
from rela.text.store import Store

OPTIONS = PrepareOptions(merges=60)


class CutError(Exception):
    """Stands for whatever ends a preparation."""


def run(splits: Any, out: Path, options: PrepareOptions = OPTIONS, **more: Any) -> Prepared:
    return prepare(splits, ("en", "de"), out, options, **more)


def decoded(store: Store, split: str) -> tuple[list[str], list[str]]:
    sides = zip(store.split(split), store.tokenizers(), strict=True)
    source, target = ([subwords.decode(ids.tolist()) for ids in side] for side, subwords in sides)
    return source, target
