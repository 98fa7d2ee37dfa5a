"""One frozen description of an attention, and the presets that have names.

This module knows nothing of torch: commands list the presets without loading it.
"""

from __future__ import annotations

import difflib
import math
import numbers
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

MapName = Literal["softmax", "sparsemax", "entmax15", "entmax", "topk", "relu", "relu2", "gelu", "leaky", "sigmoid"]
NormName = Literal["none", "rmsnorm", "rmsnorm-xavier", "gated-rmsnorm", "layernorm", "gated-layernorm"]

Kind = Literal["encoder", "decoder", "cross"]
"""Where an attention stands: self-attention of the encoder or the decoder, or from the decoder to the encoder."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAPS: Final[tuple[MapName, ...]] = get_args(MapName)
NORMS: Final[tuple[NormName, ...]] = get_args(NormName)

# A pointwise map looks at one score at a time, so masking comes after it; a row map makes a distribution
# over the valid keys, so masking comes before it.
POINTWISE_MAPS: Final[frozenset[MapName]] = frozenset({"relu", "relu2", "gelu", "leaky", "sigmoid"})
# Maps whose zeros are exactly the scores at or below the threshold.
RECTIFIED_MAPS: Final[frozenset[MapName]] = frozenset({"relu", "relu2"})


def _check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{field}: expected one of {', '.join(choices)}; got {value!r}")


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """What an attention computes: ``norm(map(scale * q k^T - threshold) / n^length_power @ v)``.

    Attributes:
        map: how scores become weights.
        norm: what happens to the concatenated heads before the output projection.
        scale: factor on ``q k^T``; None means ``1 / sqrt(head size)``.
        threshold: subtracted from the scores before a pointwise map. Refused for row maps, which do not see shifts.
        learn_threshold: make the threshold a parameter, one for each head, that starts at ``threshold``.
        length_power: divide the weights of a query by ``(number of valid keys) ** length_power``. Pointwise maps
            only. An ungated RMSNorm or LayerNorm undoes any factor of a whole row, so there it changes nothing but eps.
        topk: how many keys ``topk`` keeps (ties with the last one are all kept).
        negative_slope: slope of ``leaky`` below zero (0.2: TensorFlow's default; the paper gives none).
        eps: added to the mean square inside the norm's square root.
        xavier_fan: which size ``n`` bounds the start of a ``rmsnorm-xavier`` gain, ``U(-sqrt(3/n), sqrt(3/n))``:
            the whole concatenated vector ("model") or one head ("head").
    """

    map: MapName
    norm: NormName = "none"
    scale: float | None = None
    threshold: float = 0.0
    learn_threshold: bool = False
    length_power: float = 0.0
    topk: int = 8
    negative_slope: float = 0.2
    eps: float = 1e-6
    xavier_fan: Literal["model", "head"] = "model"

    def __post_init__(self) -> None:
        _check_choice("map", self.map, MAPS)
        _check_choice("norm", self.norm, NORMS)
        _check_choice("xavier_fan", self.xavier_fan, ("model", "head"))
        for name in ("scale", "threshold", "length_power", "negative_slope", "eps"):
            value = getattr(self, name)
            if value is None and name == "scale":
                continue
            # Compared, not asked of math.isfinite: to the compiler a number may be one that changes from call to call.
            if not isinstance(value, numbers.Real) or not -math.inf < value < math.inf:  # pyright: ignore[reportOperatorIssue]
                raise ValueError(f"{name}: expected a finite number, got {value!r}")
        if not self.is_pointwise and (self.threshold != 0 or self.learn_threshold):
            raise ValueError(
                f"threshold: expected one of the maps {sorted(POINTWISE_MAPS)}, got {self.map!r}, "
                "whose weights do not change when all scores are shifted; leave the threshold out"
            )
        if not self.is_pointwise and self.length_power != 0:
            raise ValueError(
                f"length_power: expected one of the maps {sorted(POINTWISE_MAPS)}, got {self.map!r}, "
                "whose weights already sum to 1; leave length_power at 0"
            )
        if not isinstance(self.learn_threshold, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"learn_threshold: expected True or False, got {self.learn_threshold!r}")
        if not isinstance(self.topk, numbers.Integral) or self.topk < 1:
            raise ValueError(f"topk: expected a whole number of keys, at least 1, got {self.topk!r}")
        if not self.eps >= 1e-6:
            raise ValueError(
                f"eps: expected at least 1e-6, got {self.eps}: smaller ones explode gradients at near-null rows"
            )

    @property
    def is_pointwise(self) -> bool:
        """True if each weight depends on its own score alone."""
        return self.map in POINTWISE_MAPS

    @property
    def name(self) -> str:
        """The preset's name if this is one, else ``map+norm`` with the options that differ from their defaults."""
        for name, spec in PRESETS.items():
            if spec == self:
                return name
        base = AttentionSpec(map=self.map, norm=self.norm)
        label = next((n for n, spec in PRESETS.items() if spec == base), f"{self.map}+{self.norm}")
        options = [
            f"{field}={getattr(self, field)}"
            for field in self.__dataclass_fields__
            if getattr(self, field) != getattr(base, field)
        ]
        return f"{label}({', '.join(options)})" if options else label

    def __str__(self) -> str:
        return self.name


PRESETS: Final[dict[str, AttentionSpec]] = {
    # The paper's Table 1, rows 1-10.
    "softmax": AttentionSpec(map="softmax"),
    "sparsemax": AttentionSpec(map="sparsemax"),
    "entmax15": AttentionSpec(map="entmax15"),
    "relu": AttentionSpec(map="relu"),
    "relu-rmsnorm": AttentionSpec(map="relu", norm="rmsnorm"),
    "rela-i": AttentionSpec(map="relu", norm="rmsnorm-xavier"),
    "rela-g": AttentionSpec(map="relu", norm="gated-rmsnorm"),
    "rela-g-layernorm": AttentionSpec(map="relu", norm="gated-layernorm"),
    "rela-g-gelu": AttentionSpec(map="gelu", norm="gated-rmsnorm"),
    "rela-g-leaky": AttentionSpec(map="leaky", norm="gated-rmsnorm"),
    # Beyond the table.
    "entmax": AttentionSpec(map="entmax"),
    "topk": AttentionSpec(map="topk"),
    "sigmoid": AttentionSpec(map="sigmoid"),
    "relu2": AttentionSpec(map="relu2"),
}


def resolve(attention: str | AttentionSpec, **changes: object) -> AttentionSpec:
    """The description behind a preset's name, a ``map+norm`` pair such as ``"relu2+gated-rmsnorm"``, or itself.

    Keyword arguments change single fields: ``resolve("rela-g", threshold=0.5)``.
    """
    spec = attention if isinstance(attention, AttentionSpec) else _parse(str(attention))
    unknown = sorted(set(changes) - set(AttentionSpec.__dataclass_fields__))
    if unknown:
        fields = AttentionSpec.__dataclass_fields__
        close = difflib.get_close_matches(unknown[0], fields, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"unknown attention option {', '.join(unknown)}; {hint}expected one of: {', '.join(fields)}")
    return replace(spec, **changes) if changes else spec  # pyright: ignore[reportArgumentType]


def _parse(name: str) -> AttentionSpec:
    if name in PRESETS:
        return PRESETS[name]
    map_name, plus, norm_name = name.partition("+")
    if plus:
        return AttentionSpec(map=map_name, norm=norm_name)  # pyright: ignore[reportArgumentType]
    close = difflib.get_close_matches(name, PRESETS)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
    raise ValueError(
        f"unknown attention {name!r}{hint} Known names: {', '.join(PRESETS)}; "
        f"or any map+norm of {', '.join(MAPS)} and {', '.join(NORMS)}"
    )
