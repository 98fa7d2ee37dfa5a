"""The systems of the paper's table 1 by name, and a few that it leaves room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rela.attention.spec import KINDS
from rela.model.config import AttentionChoice, Attentions, resolve_choice

BASELINE: Final = "softmax"
OURS: Final = "rela-g"


@dataclass(frozen=True, kw_only=True)
class System:
    """A Transformer that differs from the others in its attention alone.

    Attributes:
        row: its row in the paper's table 1; None for those that are not in it.
        what: what it is, for tables.
    """

    name: str
    attention: AttentionChoice
    what: str
    row: int | None = None

    @property
    def attentions(self) -> Attentions:
        """One for each kind."""
        if isinstance(self.attention, dict) and "name" not in self.attention:
            return Attentions(**self.attention)
        return Attentions.everywhere(self.attention)

    @property
    def can_be_null(self) -> bool:
        """Whether cross-attention may give no weight at all."""
        return resolve_choice(self.attentions.cross).is_pointwise


def _only(*kinds: str) -> dict[str, str]:
    """rela-g in some kinds of attention, softmax in the others."""
    return {kind: OURS if kind in kinds else BASELINE for kind in KINDS}


SYSTEMS: Final[dict[str, System]] = {
    system.name: system
    for system in (
        System(row=1, name="softmax", attention="softmax", what="the baseline"),
        System(row=2, name="sparsemax", attention="sparsemax", what="sparsemax"),
        System(row=3, name="entmax15", attention="entmax15", what="1.5-entmax"),
        System(row=4, name="relu", attention="relu", what="ReLU, no norm"),
        System(row=5, name="relu-rmsnorm", attention="relu-rmsnorm", what="4 + RMSNorm"),
        System(row=6, name="rela-i", attention="rela-i", what="ReLA-i: 5 with a special start"),
        System(row=7, name="rela-g", attention="rela-g", what="ReLA-g: 5 with a gate"),
        System(row=8, name="rela-g-layernorm", attention="rela-g-layernorm", what="7 with LayerNorm"),
        System(row=9, name="rela-g-gelu", attention="rela-g-gelu", what="7 with GeLU"),
        System(row=10, name="rela-g-leaky", attention="rela-g-leaky", what="7 with leaky ReLU"),
        System(row=11, name="rela-g-encoder", attention=_only("encoder"), what="7 in encoder self only"),
        System(row=12, name="rela-g-decoder", attention=_only("decoder"), what="7 in decoder self only"),
        System(row=13, name="rela-g-cross", attention=_only("cross"), what="7 in cross only"),
        System(name="rela-g-decoder-cross", attention=_only("decoder", "cross"), what="7 in decoder self and cross"),
        System(
            name="rela-g-threshold",
            attention={"name": OURS, "learn_threshold": True},
            what="7 with a learned threshold",
        ),
        System(name="rela-g-relu2", attention="relu2+gated-rmsnorm", what="7 with squared ReLU"),
        System(name="rela-g-length", attention={"name": OURS, "length_power": 1.0}, what="7, weights over the length"),
    )
}
"""By name. All that a study can train."""

ANALYSED: Final = ("softmax", "sparsemax", "entmax15", "rela-g")
"""Whose weights the paper analyses, and whose speed it measures."""


def find_system(name: str) -> System:
    """A system by its name; an error lists all."""
    if name not in SYSTEMS:
        raise ValueError(f"expected systems out of {', '.join(SYSTEMS)}; got {name!r}")
    return SYSTEMS[name]
