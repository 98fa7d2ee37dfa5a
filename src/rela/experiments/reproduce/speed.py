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


def files_of(study: Study) -> list[str]:
    """What is written."""
    return [FILE, BASE_FILE] if EFFORTS[study.scale].base else [FILE]


def is_timed(places: Places, study: Study) -> bool:
    """Whether all is timed already; an error if that was with other settings."""
    return all(_is_there(places, study, name) for name in files_of(study))


def _is_there(places: Places, study: Study, name: str) -> bool:
    path = places.data / name
    if not path.exists():
        return False
    if json.loads(path.read_text(encoding="utf-8"))["data"].get("recipe") != _recipe(study):
        raise ValueError(
            f"{path}: expected a benchmark with these settings, got one with others; move it away to time anew"
        )
    return True


def _recipe(study: Study) -> dict[str, Any]:
    """All that decides what is timed."""
    task = study.main
    recipe = {
        "corpus": task.corpus,
        "merges": task.merges,
        "model": task.settings["model"],
        "batch": task.settings["batch"],
        "effort": EFFORTS[study.scale]._asdict(),
    }
    return json.loads(json.dumps(recipe))


def measure_speed(places: Places, study: Study, say: Say) -> None:
    """Time what is not timed yet. Nothing else should run on the machine meanwhile."""
    effort, task = EFFORTS[study.scale], study.main
    places.data.mkdir(parents=True, exist_ok=True)
    section = to_config({**task.settings, "store": "store"}, study.name).model
    if not _is_there(places, study, FILE):
        absent = [name for name in ANALYSED if not _folder(places, task, name).exists()]
        if absent:
            say(f"{', '.join(absent)}: trained models are not here, so ones with random weights are timed")
        say("timing training steps and decoding")
        points = Points(places.data / FILE, resume=True)
        _write(places.data / FILE, study, "speed", _measures(places, task, section, effort, points), points)
    if effort.base and not _is_there(places, study, BASE_FILE):
        say("timing training steps of Transformer base")
        points = Points(places.data / BASE_FILE, resume=True)
        found = _steps(places, task, "base", effort, points)
        entries = [{"name": name, "attention": name, "measures": found[name]} for name in ANALYSED]
        _write(places.data / BASE_FILE, study, "step", entries, points)


def _write(path: Path, study: Study, name: str, entries: list[dict[str, Any]], points: Points) -> None:
    data = document(name, machine.describe(), entries, recipe=_recipe(study))
    check(data)
    data["data"]["others_cpu_share"] = points.others_share()
    write_text(path, json.dumps(data, indent=1) + "\n")
    points.done()


def _measures(
    places: Places, task: Task, section: ModelSection, effort: Effort, points: Points
) -> list[dict[str, Any]]:
    steps = _steps(places, task, section, effort, points)
    decoders = [_decoder(places, task, section, name) for name in ANALYSED]
    split = read_split(places, task, test_splits(Store.open(places.store(task)))[0])
    pairs = list(zip(split.source, split.target, strict=True))[: effort.sentences]
    weights = "trained" if all(_folder(places, task, name).exists() for name in ANALYSED) else "not all trained"
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
    """A model of the first seed whose training is still here; if none is, where that of the first seed would be."""
    folders = [places.work / task.corpus / f"{name}-{seed}" / MODEL_FOLDER for seed in task.seeds.get(name, (1,))]
    return next((folder for folder in folders if folder.exists()), folders[0])


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
