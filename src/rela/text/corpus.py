"""What a corpus is made of: splits, their parts, and the files of the two languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from rela.text.download import Remote


@dataclass(frozen=True, kw_only=True)
class Side:
    """The file of one language: a file of the web, or a member of an archive there."""

    remote: Remote
    member: str | None = None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which pairs of a part make a split: lines ``start`` to ``stop`` as in a slice, of so many words on each side."""

    start: int | None = None
    stop: int | None = None
    words: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """Pairs that come together; ``sides`` are named by language, in the order of the file for ``titles``.

    The form ``text`` is one sentence a line, ``sgm`` that of the WMT test sets, and ``titles`` has both sides in one
    line, with ``|||`` between them.
    """

    name: str
    sides: Mapping[str, Side]
    form: Literal["text", "sgm", "titles"] = "text"
    selection: Selection | None = None


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus by name. A split without parts is generated, not fetched.

    A copy under ``RELA_DATA`` has the files ``<folder>/<split>.<language>``, where ``local_names`` may give splits
    another name.
    """

    name: str
    source_language: str
    target_language: str
    splits: Mapping[str, tuple[Part, ...]]
    description: str
    terms: str
    notes: tuple[str, ...] = ()
    folder: str
    local_names: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_generated(self) -> bool:
        """Whether the corpus is made here, by `rela.text.grammar`."""
        return not any(self.splits.values())

    def reversed(self) -> Corpus:
        """The same pairs, translated the other way; ``-en-de`` in the name becomes ``-de-en``, or is added there."""
        source, target = self.target_language, self.source_language
        name = f"{self.name.removesuffix(f'-{target}-{source}')}-{source}-{target}"
        note = f"{name}: the files of {self.name} with the sides exchanged, also of dev and test"
        return replace(self, name=name, source_language=source, target_language=target, notes=(*self.notes, note))
