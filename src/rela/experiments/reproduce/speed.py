"""The paper's table 2 and figure 2: how fast systems train and decode, beside softmax, in one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import torch

from rela._files import write_text
from rela.bench import machine
from rela.bench.length import Decoder, measure_lengths
from rela.bench.results import Points, check, document
from rela.bench.step import measure_step
from rela.decoding.choice import using_decoder, why_not
from rela.experiments.reproduce.job import BEAM
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.scales import Study, Task
from rela.experiments.reproduce.systems import ANALYSED, BASELINE
from rela.experiments.reproduce.texts import read_split, test_splits
from rela.model.directory import MODEL_FOLDER, load_model
from rela.model.transformer import Transformer
from rela.text.store import Store
from rela.training.config import ModelSection, to_config

FILE: Final = "speed.json"
BASE_FILE: Final = "speed-base.json"
COMPILED: Final = "decode.compiled.speed.mean"
"""Beside softmax's, where both are decoded by compiled code."""

Say = Callable[[str], None]


class Effort(NamedTuple):
    """How much is timed."""

    step_rounds: int
    decode_rounds: int
    sentences: int
    groups: int
    base: bool


EFFORTS: Final = {
    "tiny": Effort(step_rounds=5, decode_rounds=3, sentences=40, groups=5, base=False),
    "laptop": Effort(step_rounds=21, decode_rounds=5, sentences=300, groups=10, base=True),
    "paper": Effort(step_rounds=21, decode_rounds=3, sentences=1000, groups=10, base=False),
}


def measure_speed(places: Places, study: Study, say: Say) -> None:
    """Time what is not timed yet. Nothing else should run on the machine meanwhile."""
    effort, task = EFFORTS[study.scale], study.main
    places.data.mkdir(parents=True, exist_ok=True)
    section = to_config({**task.settings, "store": "store"}, study.name).model
    if not (path := places.data / FILE).exists():
        say("timing training steps and decoding")
        _write(path, "speed", _measures(places, task, section, effort), Points(path, resume=True))
    if effort.base and not (path := places.data / BASE_FILE).exists():
        say("timing training steps of Transformer base")
        points = Points(path, resume=True)
        found = _steps(places, task, "base", effort, points)
        _write(path, "step", [{"name": name, "attention": name, "measures": found[name]} for name in ANALYSED], points)


def _write(path: Path, name: str, entries: list[dict[str, Any]], points: Points) -> None:
    data = document(name, machine.describe(), entries)
    check(data)
    data["data"]["others_cpu_share"] = points.others_share()
    write_text(path, json.dumps(data, indent=1) + "\n")
    points.done()


def _measures(places: Places, task: Task, section: ModelSection, effort: Effort) -> list[dict[str, Any]]:
    points = Points(places.data / FILE, resume=True)
    steps = _steps(places, task, section, effort, points)
    decoders = [_decoder(places, task, section, name) for name in ANALYSED]
    split = read_split(places, task, test_splits(Store.open(places.store(task)))[0])
    pairs = list(zip(split.source, split.target, strict=True))[: effort.sentences]
    weights = "trained" if all(_folder(places, task, name).exists() for name in ANALYSED) else "untrained"
    recipe = (
        f"data:{task.corpus}/{split.name}|sentences:{len(pairs)}|{weights}|threads:{torch.get_num_threads()}"
        f"|dtype:float32|device:cpu|kernel:{machine.kernel_name()}"
    )
    entries = _decoding(decoders, pairs, effort, recipe, points, "torch")
    compiled = [decoder for decoder in decoders if why_not(decoder.model, torch.ones(1, 1, dtype=torch.long)) is None]
    if BASELINE in (decoder.name for decoder in compiled) and len(compiled) > 1:
        for entry in _decoding(compiled, pairs, effort, recipe, points, "native"):
            measures = next(one for one in entries if one["name"] == entry["name"])["measures"]
            measures[COMPILED] = entry["measures"]["decode.speed.mean"]
    for entry, decoder in zip(entries, decoders, strict=True):
        entry["measures"] |= steps[entry["name"]]
        entry["parameters"] = decoder.model.num_parameters()
    return entries


def _decoding(
    decoders: list[Decoder], pairs: list[tuple[str, str]], effort: Effort, recipe: str, points: Points, search: str
) -> list[dict[str, Any]]:
    """All by the same search: torch has it for every attention, the compiled one for some."""
    with using_decoder(search):
        return measure_lengths(
            decoders,
            pairs,
            beam=BEAM,
            forced=True,
            rounds=effort.decode_rounds,
            recipe=f"{recipe}|search:{search}",
            points=points,
            count=effort.groups,
            one_by_one=True,
        )


def _steps(
    places: Places, task: Task, size: str | ModelSection, effort: Effort, points: Points
) -> dict[str, dict[str, Any]]:
    tokens = to_config({**task.settings, "store": "store"}, "speed").batch.tokens
    return measure_step(
        places.store(task), ANALYSED, size=size, tokens=tokens, rounds=effort.step_rounds, points=points
    )


def _folder(places: Places, task: Task, name: str) -> Path:
    """The model of the first seed."""
    return places.work / task.corpus / f"{name}-{task.seeds.get(name, (1,))[0]}" / MODEL_FOLDER


def _decoder(places: Places, task: Task, section: ModelSection, name: str) -> Decoder:
    """A trained model; where there is none any more, one with random weights, which does the same work."""
    tokenizers = Store.open(places.store(task)).tokenizers()
    if (folder := _folder(places, task, name)).exists():
        return Decoder(name=name, model=load_model(folder).model.eval(), tokenizers=tokenizers)
    sizes = msgspec.structs.replace(section, attention=name).resolve(
        tokenizers.source.size, tokenizers.target.size, tokenizers.joint
    )
    torch.manual_seed(1)
    return Decoder(name=name, model=Transformer(sizes).eval(), tokenizers=tokenizers)
