"""A model that aligns: with its tokenizers, the weights that were found to link best, and what words are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rela.alignment.choice import Choice, load_choice, save_choice
from rela.alignment.choosing import Best, Limits, choose_by_gold
from rela.alignment.gold import GoldReader
from rela.alignment.links import Alignment, SoftAlignment, align_encoded, weigh_encoded
from rela.alignment.pairs import EncodedPair, cut_pair, encode_pairs
from rela.alignment.symmetrise import Method, symmetrise
from rela.model.directory import Languages, find_model_folder
from rela.model.opening import open_model
from rela.model.seq2seq import Seq2Seq
from rela.text.subwords import PairEncoding
from rela.text.worded import Wording

MAX_PIECES: Final = 1024
"""Of a side. The weights of one head have as many places as the pieces of both sides multiplied."""

NumberedPair = tuple[int, str, str]
"""The number of a line, from 1, its source and its target."""

Tell = Callable[[int], object]
"""Is told the number of each line of which more than the first pieces could not be aligned."""


def _nobody(_: int) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Aligner:
    """Aligns pairs of sentences by forced decoding.

    Of a side of more than ``max_pieces`` pieces, or than the model can read, the words behind them have no links.
    """

    folder: Path
    model: Seq2Seq
    tokenizers: PairEncoding
    languages: Languages
    choice: Choice
    wording: Wording = field(default_factory=Wording)
    max_pieces: int = MAX_PIECES

    @classmethod
    def load(
        cls, folder: str | Path, device: str = "cpu", *, wording: Wording | None = None, max_pieces: int = MAX_PIECES
    ) -> Aligner:
        """From a model directory or a finished run's folder; with the choice remembered there, or the default."""
        path = find_model_folder(Path(folder))
        model, tokenizers, languages = open_model(path)
        return cls(
            folder=path,
            model=model.to(device),
            tokenizers=tokenizers,
            languages=languages,
            choice=load_choice(path, model),
            wording=wording or Wording(),
            max_pieces=max_pieces if model.max_pieces is None else min(max_pieces, model.max_pieces),
        )

    def links(self, pairs: Iterable[NumberedPair], tell_cut: Tell = _nobody) -> Iterator[Alignment]:
        """The links of each pair, in order."""
        return align_encoded(self.model, self.encoded(pairs, tell_cut), self.choice)

    def weights(self, pairs: Iterable[NumberedPair], tell_cut: Tell = _nobody) -> Iterator[SoftAlignment]:
        """The weights between the words of each pair, in order."""
        return weigh_encoded(self.model, self.encoded(pairs, tell_cut), self.choice)

    def best_on(self, pairs: Iterable[NumberedPair], gold: GoldReader, limits: Limits) -> Best:
        """The choice that aligns the first pairs best, as many as there are gold links for."""
        return choose_by_gold(self.model, gold.of_first(self.encoded(pairs)), limits, gold.sure)

    def remember(self) -> None:
        """Put the choice into the model directory, for all who align with this model."""
        save_choice(self.folder, self.choice)

    def signature(self) -> str:
        """Its part of the signature of a number."""
        return f"attention:{self.model.config.attention.label}|{self.choice.signature()}"

    def encoded(self, pairs: Iterable[NumberedPair], tell_cut: Tell = _nobody) -> Iterator[EncodedPair]:
        """Pieces and words; cut, if there are too many pieces."""
        for pair in encode_pairs(self.tokenizers, pairs, self.wording):
            if max(len(pair.source.ids), len(pair.target.ids)) > self.max_pieces:
                tell_cut(pair.line)
                yield cut_pair(pair, self.max_pieces)
            else:
                yield pair


def align_both_ways(
    forward: Aligner, backward: Aligner, pairs: Sequence[NumberedPair], method: Method, tell_cut: Tell = _nobody
) -> Iterator[Alignment]:
    """Links of two models, the second of which translates the target into the source, made one."""
    turned = [(line, target, source) for line, source, target in pairs]
    for one, other in zip(forward.links(pairs, tell_cut), backward.links(turned), strict=True):
        links = [(source, target) for target, source in other.links]
        yield one._replace(links=symmetrise(one.links, links, method))
