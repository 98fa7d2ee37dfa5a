"""Decoding speed by the length of the source: the paper's figure 2, attentions side by side on real sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rela._version import __version__
from rela.bench.forcing import forced_options
from rela.bench.results import Number, Points, measure
from rela.bench.timing import Speed, compare
from rela.decoding.search import SearchOptions, beam_search
from rela.decoding.translator import group_by_length
from rela.model.transformer import Transformer
from rela.text.batches import pad_rows
from rela.text.store import Tokenizers
from rela.text.vocabulary import EOS

BASELINE: Final = "softmax"
GROUPS: Final = 10


class EncodedPair(NamedTuple):
    """Pieces of a source, and how many its reference has, EOS among them."""

    source: list[int]
    target_length: int


class Group(NamedTuple):
    """Sentences of like source length."""

    label: str
    pairs: list[EncodedPair]


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A model by its name in results; ``tokenizers`` are its own."""

    name: str
    model: Transformer
    tokenizers: Tokenizers


def encode(tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]]) -> list[EncodedPair]:
    """The pieces of real sentences."""
    sources = tokenizers.source.encode_batch([source for source, _ in pairs])
    targets = tokenizers.target.encode_batch([target for _, target in pairs])
    return [EncodedPair(source, len(target) + 1) for source, target in zip(sources, targets, strict=True) if source]


def by_source_length(pairs: Sequence[EncodedPair], count: int = GROUPS) -> list[Group]:
    """Groups of about the same size, from short to long. Sentences of one length stay together: there may be fewer."""
    ordered = sorted(pairs, key=lambda pair: len(pair.source))
    groups: list[list[EncodedPair]] = []
    for place, pair in enumerate(ordered):
        is_new = not groups or len(groups[-1][-1].source) != len(pair.source)
        due = place * count >= len(ordered) * len(groups)  # as many are gone as the groups so far should have
        if is_new and due:
            groups.append([])
        groups[-1].append(pair)
    return [Group(_label(group), group) for group in groups]


def _label(group: Sequence[EncodedPair]) -> str:
    first, last = len(group[0].source), len(group[-1].source)
    return str(first) if first == last else f"{first}-{last}"


def measure_lengths(
    decoders: Sequence[Decoder],
    pairs: Sequence[tuple[str, str]],
    *,
    beam: int,
    forced: bool,
    rounds: int,
    recipe: str,
    points: Points,
    count: int = GROUPS,
    one_by_one: bool = False,
    on_group: Callable[[str, dict[str, Any]], object] = lambda _label, _speeds: None,
) -> list[dict[str, Any]]:
    """The entries of a result file, with the measure ``decode.speed`` that `rela report --bench` draws.

    ``forced``: every batch gets as many pieces as its references have on average, whatever the model would say. All
    models split sentences alike then, by the tokenizers of the first. ``count`` is that of groups, at most.
    ``one_by_one``: batches of one sentence.
    """
    attentions = [decoder.name for decoder in decoders]
    if BASELINE not in attentions:
        raise ValueError(f"expected {BASELINE} among the attentions, since speeds are beside it, got {attentions}")
    groups = by_source_length(encode(decoders[0].tokenizers, pairs), count)
    recipe = f"{recipe}|batch:1" if one_by_one else recipe
    recipe = f"length|{recipe}|beam:{beam}|forced:{'yes' if forced else 'no'}|rounds:{rounds}|statistic:median"
    names = ",".join(decoder.name for decoder in decoders)
    speeds: dict[str, dict[str, Any]] = {}
    for group in groups:

        def run(group: Group = group) -> dict[str, Any]:
            subjects = {
                decoder.name: _subject(decoder.model, group, beam=beam, forced=forced, one_by_one=one_by_one)
                for decoder in decoders
            }
            found = compare(subjects, BASELINE, rounds=rounds)
            return {name: asdict(speed) for name, speed in found.items()}

        key = f"{recipe}|{group.label}|sentences:{len(group.pairs)}|{names}"
        speeds[group.label] = points.get(key, run)
        on_group(group.label, speeds[group.label])
    counts = {group.label: len(group.pairs) for group in groups}
    return [_entry(decoder, speeds, counts, f"{recipe}|v{__version__}") for decoder in decoders]


def _entry(decoder: Decoder, speeds: dict[str, dict[str, Any]], counts: dict[str, int], recipe: str) -> dict[str, Any]:
    own = f"{recipe}|attention:{decoder.model.config.attention.label}"
    relative = {label: Number.of_speed(Speed(**found[decoder.name])) for label, found in speeds.items()}
    absolute = {label: Number(value=counts[label] / found[decoder.name]["seconds"]) for label, found in speeds.items()}
    return {
        "name": decoder.name,
        "attention": decoder.model.config.attention.label,
        "measures": {
            "decode.speed": measure(f"{own}|against:{BASELINE}", "length", relative),
            "decode.sentences_per_second": measure(own, "length", absolute),
            "decode.speed.mean": measure(
                f"{own}|against:{BASELINE}|geometric mean over groups", None, Number(value=_mean(relative.values()))
            ),
        },
    }


def _mean(numbers: Any) -> float:
    logs = [math.log(number.value) for number in numbers]
    return math.exp(sum(logs) / len(logs))


def _subject(model: Transformer, group: Group, *, beam: int, forced: bool, one_by_one: bool) -> Callable[[], None]:
    batches: list[tuple[Tensor, SearchOptions]] = []
    lengths = [len(pair.source) for pair in group.pairs]
    for places in ([place] for place in range(len(lengths))) if one_by_one else group_by_length(lengths, beam):
        chosen = [group.pairs[place] for place in places]
        source = torch.from_numpy(pad_rows([np.array(pair.source, np.int64) for pair in chosen], after=EOS))
        length = max(1, round(sum(pair.target_length for pair in chosen) / len(chosen)))
        options = forced_options(beam=beam, length=length) if forced else SearchOptions(beam=beam)
        batches.append((source, options))

    def run() -> None:
        for source, options in batches:
            beam_search(model, source, options)

    return run
