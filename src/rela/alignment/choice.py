"""Which weights link words: a decoder layer, a head or the mean over heads, the rows, and the rule."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rela._files import write_text
from rela.alignment.batched import RULES, Rule, Shift
from rela.model.directory import ALIGNMENT_FILE
from rela.model.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Choice:
    """How weights link words.

    Attributes:
        layer: the decoder layer, from 0.
        shifted: whether a word's row is the one that has it as its input, or the one that predicts it.
        head: the head, from 0; None is the mean over all (layer attention).
        rule: by the largest weight between words, ``merged``, or if ``any`` of their pieces are linked.
    """

    layer: int
    shifted: bool
    head: int | None = None
    rule: Rule = "merged"

    @property
    def shift(self) -> Shift:
        """The name of its rows."""
        return "shifted" if self.shifted else "normal"

    def __str__(self) -> str:
        """For people, who count layers from 1: ``layer 2, head 1, shifted``."""
        head = "mean over heads" if self.head is None else f"head {self.head}"
        rule = ", any piece" if self.rule == "any" else ""
        return f"layer {self.layer + 1}, {head}, {self.shift}{rule}"

    def signature(self) -> str:
        """Its part of the signature of a number; layers count from 1."""
        head = "mean" if self.head is None else self.head
        return f"layer:{self.layer + 1}|head:{head}|shift:{'yes' if self.shifted else 'no'}|rule:{self.rule}"

    def check(self, model: Seq2Seq) -> None:
        """Raise a ValueError if a model has no such layer or head."""
        layers, heads = model.config.decoder_layers, model.config.num_heads
        if not 0 <= self.layer < layers:
            raise ValueError(f"layer: expected 0 to {layers - 1}, got {self.layer}")
        if self.head is not None and not 0 <= self.head < heads:
            raise ValueError(f"head: expected 0 to {heads - 1}, or None for the mean over all, got {self.head}")
        if self.rule not in RULES:
            raise ValueError(f"rule: expected {' or '.join(RULES)}, got {self.rule!r}")


def default_choice(model: Seq2Seq) -> Choice:
    """What the paper found best: the middle layer, shifted."""
    return Choice(model.config.decoder_layers // 2, shifted=True)


def save_choice(folder: Path, choice: Choice) -> None:
    """Put it beside a model."""
    write_text(folder / ALIGNMENT_FILE, json.dumps(asdict(choice)) + "\n")


def load_choice(folder: Path, model: Seq2Seq) -> Choice:
    """The choice beside a model, or the default. Files of earlier versions have neither head nor rule."""
    path = folder / ALIGNMENT_FILE
    if not path.is_file():
        return default_choice(model)
    try:
        choice = _parse(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f'{path}: expected {{"layer": 0, "shifted": true, "head": null, "rule": "merged"}} or the like; mend or '
            "delete it"
        ) from None
    try:
        choice.check(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; delete the file") from None
    return choice


def _parse(data: dict[str, Any]) -> Choice:
    head = data.get("head")
    return Choice(
        int(data["layer"]), bool(data["shifted"]), None if head is None else int(head), data.get("rule", "merged")
    )
