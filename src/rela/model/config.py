"""What a Transformer is made of: sizes, dropout, and the attention of each kind."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from rela.attention.spec import KINDS, AttentionSpec, Kind, resolve
from rela.text.vocabulary import SPECIAL_PIECES

Tied = Literal["none", "target", "all"]
AttentionChoice = str | dict[str, Any]
"""A preset's name, ``map+norm``, or a mapping of a name and options: ``{name: rela-g, threshold: 1}``."""


class Attentions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The attention of each kind."""

    encoder: AttentionChoice = "rela-g"
    decoder: AttentionChoice = "rela-g"
    cross: AttentionChoice = "rela-g"

    @classmethod
    def everywhere(cls, attention: AttentionChoice) -> Attentions:
        """The same attention for all three kinds."""
        return cls(encoder=attention, decoder=attention, cross=attention)

    def spec(self, kind: Kind) -> AttentionSpec:
        """The description of one kind's attention."""
        choice = getattr(self, kind)
        try:
            return resolve_choice(choice)
        except ValueError as error:
            raise ValueError(f"attention.{kind}: {error}") from None

    @property
    def label(self) -> str:
        """One name if all kinds are alike, else one for each."""
        names = {kind: self.spec(kind).name for kind in KINDS}
        if len(set(names.values())) == 1:
            return names["cross"]
        return ",".join(f"{kind}:{name}" for kind, name in names.items())


def resolve_choice(choice: AttentionChoice) -> AttentionSpec:
    """The description behind a choice in a configuration."""
    if isinstance(choice, str):
        return resolve(choice)
    options = dict(choice)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"expected a name, or a mapping with `name`, got {choice!r}")
    return resolve(name, **options)


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Transformer's sizes and parts, complete: what ``config.json`` of a model directory holds."""

    source_vocabulary: int
    target_vocabulary: int
    dim: int = 512
    num_heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    ffn_dim: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.1
    attention: Attentions = msgspec.field(default_factory=Attentions)
    tied: Tied = "all"

    def __post_init__(self) -> None:
        for name in ("source_vocabulary", "target_vocabulary"):
            least = len(SPECIAL_PIECES) + 1
            _expect(getattr(self, name) >= least, name, f"at least {least} pieces", getattr(self, name))
        for name in ("dim", "num_heads", "ffn_dim", "encoder_layers", "decoder_layers"):
            _expect(getattr(self, name) >= 1, name, "at least 1", getattr(self, name))
        for name in ("dropout", "attention_dropout"):
            _expect(0 <= getattr(self, name) < 1, name, "a probability from 0 up to, but not, 1", getattr(self, name))
        _expect(self.dim % self.num_heads == 0, "dim", f"a multiple of num_heads {self.num_heads}", self.dim)
        _expect(self.dim % 2 == 0, "dim", "an even number, since positions are sines and cosines", self.dim)
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            raise ValueError(
                f"tied: expected 'target' or 'none' for separate vocabularies ({self.source_vocabulary:,} and "
                f"{self.target_vocabulary:,} pieces), got 'all'; or prepare the text with one joint vocabulary"
            )
        for kind in KINDS:
            self.attention.spec(kind)


def _expect(holds: bool, name: str, expected: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected}, got {got}")


SIZES: Final[dict[str, dict[str, int]]] = {
    # the paper's
    "base": {"dim": 512, "num_heads": 8, "encoder_layers": 6, "decoder_layers": 6, "ffn_dim": 2048},
    # an hour on a laptop
    "small": {"dim": 256, "num_heads": 4, "encoder_layers": 3, "decoder_layers": 3, "ffn_dim": 1024},
    # minutes on a laptop
    "tiny": {"dim": 128, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "ffn_dim": 512},
}
"""Sizes that have names; every number can be changed on its own."""
