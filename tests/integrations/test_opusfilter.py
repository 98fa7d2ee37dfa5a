"""`RelaFilter` in OpusFilter itself: its steps, its score files, its processes."""

import importlib
import json
import logging
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from opusfilter import CLEAN_HIGH, CLEAN_LOW, ConfigurationError
from opusfilter.opusfilter import OpusFilter
from opusfilter.util import load_dataframe, yaml
from tests.training.helpers import make_store, tiny_config, train

import rela
from rela.filtering.pool import one_thread
from rela.filtering.scores import COLUMNS, PairScore
from rela.filtering.splitting import Rule
from rela.integrations.opusfilter import RelaFilter

MAX_PIECES = 100
UNSCORED = {5: ("", "eins!"), 11: ("two!", " "), 17: ("one " * 200, "eins!"), 18: ("nul\0", "eins!")}
WORST = {name: 0.0 if name in ("coverage", "quality") else math.inf for name in COLUMNS}


class Made(NamedTuple):
    """A calibrated model, pairs of which half are good, and what a Scorer says about them: None if it cannot."""

    model: Path
    scorer: rela.Scorer
    pairs: list[tuple[str, str]]
    scores: list[PairScore | None]

    def filter(self, **parameters: Any) -> RelaFilter:
        parameters = {"max_pieces": MAX_PIECES, **parameters}
        return RelaFilter(str(self.model), **parameters)

    def column(self, name: str) -> list[float]:
        return [WORST[name] if score is None else getattr(score, name) for score in self.scores]

    def kept(self, name: str, threshold: float) -> list[tuple[str, str]]:
        """What `rela filter` would keep."""
        values = np.array([math.nan if score is None else getattr(score, name) for score in self.scores], np.float32)
        chosen = Rule(by=name, threshold=threshold).chosen(values).tolist()
        return [pair for pair, keep in zip(self.pairs, chosen, strict=True) if keep]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("opusfilter")
    store = make_store(folder / "text", pairs=120)
    sizes = {"batch__tokens": 600, "batch__update_tokens": 600}
    train(tiny_config(store, budget__steps=60, validation__every=60, checkpoints__every=60, **sizes), folder / "run")
    sides = [(folder / "text" / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    good = list(zip(*sides, strict=True))
    scorer = replace(rela.Scorer.load(folder / "run").calibrated(good), max_pieces=MAX_PIECES)
    scorer.remember(folder / "run")
    shuffled = [(source, target) for (source, _), (_, target) in zip(good[20:40], good[60:80], strict=True)]
    pairs = good[:20] + shuffled
    for place, pair in UNSCORED.items():
        pairs[place] = pair
    with one_thread():
        found = iter(scorer.score(pair for place, pair in enumerate(pairs) if place not in UNSCORED))
    scores = [None if place in UNSCORED else next(found) for place in range(len(pairs))]
    return Made(folder / "run", scorer, pairs, scores)


def write_sides(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    for number, side in enumerate(("en", "de")):
        (folder / f"all.{side}").write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")


def read_sides(folder: Path, name: str) -> list[tuple[str, str]]:
    """As OpusFilter writes them."""
    sides = [(folder / f"{name}.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("en", "de")]
    return list(zip(*sides, strict=True))


def stripped(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """OpusFilter takes blanks from the ends of lines."""
    return [(source.rstrip(), target.rstrip()) for source, target in pairs]


def read_scores(file: Path) -> list[Any]:
    return [json.loads(line)["RelaFilter"] for line in file.read_text().splitlines()]


STEPS = """
common:
  output_directory: {folder}
steps:
  - type: filter
    parameters:
      inputs: [all.en, all.de]
      outputs: [kept.en, kept.de]
      filters: &filters
        - RelaFilter:
            model: models/tiny
            max_pieces: 100
            all_scores: true
          module: rela.integrations.opusfilter
  - type: filter
    parameters:
      inputs: [all.en, all.de]
      outputs: [rejected.en, rejected.de]
      filterfalse: true
      filters: *filters
  - type: score
    parameters:
      inputs: [all.en, all.de]
      output: scores.jsonl
      filters: *filters
  - type: score
    parameters:
      inputs: [all.en, all.de]
      output: entropies.jsonl.gz
      filters:
        - RelaFilter:
            model: {model}
            calibrate_on: models/tiny/quality.json
            max_pieces: 100
            score: cross_entropy
            threshold: 2
            name: low
          module: rela.integrations.opusfilter
        - LengthFilter: {{}}
  - type: sort
    parameters:
      inputs: [all.en, all.de]
      outputs: [sorted.en, sorted.de]
      values: scores.jsonl
      key: RelaFilter.quality
      reverse: true
  - type: sort
    parameters:
      inputs: [all.en, all.de]
      outputs: [entropy.en, entropy.de]
      values: entropies.jsonl.gz
      key: RelaFilter.low
"""


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where OpusFilter has run these steps."""
    folder = tmp_path_factory.mktemp("steps")
    shutil.copytree(made.model / "model", folder / "models" / "tiny")
    write_sides(folder, made.pairs)
    OpusFilter(yaml.load(STEPS.format(folder=folder, model=made.model))).execute_steps()
    return folder


class TestSteps:
    """A configuration of OpusFilter from its first step to its last; paths are relative to its output directory."""

    def test_filter(self, made: Made, folder: Path):
        kept = made.kept("quality", 0.5)
        assert read_sides(folder, "kept") == kept
        assert 10 < len(kept) < 30
        assert len(set(kept) & set(made.pairs[:20])) > len(kept) / 2

    def test_filterfalse_has_the_others(self, made: Made, folder: Path):
        kept = made.kept("quality", 0.5)
        rejected = [pair for pair in made.pairs if pair not in kept]
        assert read_sides(folder, "rejected") == stripped(rejected)
        assert set(UNSCORED.values()) <= set(rejected)

    def test_score(self, made: Made, folder: Path):
        columns = [made.column(name) for name in COLUMNS]
        assert read_scores(folder / "scores.jsonl") == [
            dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)
        ]

    def test_score_files_are_tables_to_its_other_tools(self, made: Made, folder: Path):
        table = load_dataframe(str(folder / "scores.jsonl"))
        assert sorted(table.columns) == sorted(f"RelaFilter.{name}" for name in COLUMNS)
        assert table["RelaFilter.quality"].tolist() == made.column("quality")
        table = load_dataframe(str(folder / "entropies.jsonl.gz"))
        assert table["RelaFilter.low"].tolist() == made.column("cross_entropy")

    @pytest.mark.parametrize(("name", "column", "sign"), [("sorted", "quality", -1), ("entropy", "cross_entropy", 1)])
    def test_sort_puts_the_good_first(self, made: Made, folder: Path, name: str, column: str, sign: int):
        values = dict(zip(stripped(made.pairs), made.column(column), strict=True))
        found = [values[pair] for pair in read_sides(folder, name)]
        assert found == sorted(made.column(column), key=lambda value: sign * value)
        assert set(read_sides(folder, name)[-4:]) == set(stripped(list(UNSCORED.values())))


@pytest.mark.parametrize(
    ("score", "threshold", "direction", "nothing"),
    [
        ("quality", None, CLEAN_HIGH, math.inf),
        ("quality", 0, CLEAN_HIGH, math.inf),
        ("coverage", 1.5, CLEAN_HIGH, math.inf),
        ("coverage", -math.inf, CLEAN_HIGH, math.inf),
        ("null_rate_matching", 0.1, CLEAN_LOW, -math.inf),
        ("cross_entropy", 2.0, CLEAN_LOW, -math.inf),
        ("null_run", math.inf, CLEAN_LOW, -math.inf),
    ],
)
@pytest.mark.parametrize("all_scores", [False, True])
def test_accepts_what_rela_would_keep(
    made: Made, score: str, threshold: float | None, direction: str, nothing: float, all_scores: bool
):
    found = made.filter(score=score, threshold=threshold, all_scores=all_scores)
    kept = made.kept(score, 0.5 if threshold is None else threshold)
    assert list(found.filter(made.pairs)) == kept
    assert list(found.filterfalse(iter(made.pairs))) == [pair for pair in made.pairs if pair not in kept]
    assert list(found.decisions(made.pairs)) == [pair in kept for pair in made.pairs]
    assert found.score_direction == direction
    assert found.accept_threshold is None
    assert found.reject_threshold == nothing
    assert not list(made.filter(score=score, threshold=nothing).filter(made.pairs[:6]))


@pytest.mark.parametrize(("score", "value"), [("null_rate", 0.1), ("coverage", 0.7)])
def test_a_threshold_accepts_its_own_value(made: Made, score: str, value: float):
    """Scores have the digits of 32 bits; 0.1 has more of them than its score, 0.7 fewer."""
    found = made.filter(score=score, threshold=value)
    assert found.accept(float(np.float32(value)))
    assert found.accept({score: float(np.float32(value))})


class TestWindows:
    @pytest.mark.parametrize("batch", [1, 3, 40])
    def test_order_and_scores_whatever_their_size(self, made: Made, batch: int):
        found = list(made.filter(batch=batch).score(made.pairs))
        assert all(type(value) is float for value in found)
        assert found == pytest.approx(made.column("quality"), rel=1e-4)

    def test_reads_no_more_than_a_window_ahead(self, made: Made):
        read = 0

        def endless() -> Iterator[tuple[str, str]]:
            nonlocal read
            while True:
                yield made.pairs[read % 5]
                read += 1

        results = made.filter(batch=4).score(endless())
        for number in range(10):
            next(results)
            assert read < 4 * (number // 4 + 1)

    def test_none(self, made: Made):
        assert list(made.filter().score([])) == []
        assert list(made.filter().score([("", "")])) == [0.0]


def test_says_what_could_not_be_scored(made: Made, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        list(made.filter(batch=7).decisions([*made.pairs, ("half \ud800", "eins!"), ("one!", "x" * 20_000)]))
    assert caplog.messages == [
        "6 of 42 pairs could not be scored: empty-source 1, empty-target 1, invalid-utf8 1, nul-character 1, "
        "too-long 1, too-many-pieces 1"
    ]
    caplog.clear()
    next(made.filter(batch=2).score([("", ""), ("one!", "eins!"), ("", "")]))
    assert caplog.messages == ["1 of 2 pairs could not be scored: empty-source 1"]


def test_with_several_processes(made: Made, tmp_path: Path):
    """OpusFilter forks them, here after this process has used the model itself."""
    write_sides(tmp_path, made.pairs)
    filters = [{"RelaFilter": {"model": str(made.model), "max_pieces": MAX_PIECES}, "module": RelaFilter.__module__}]
    inputs = {"inputs": ["all.en", "all.de"], "filters": filters}
    steps = [
        {"type": "score", "parameters": {**inputs, "output": "one.jsonl"}},
        {"type": "score", "parameters": {**inputs, "output": "two.jsonl", "n_jobs": 2}},
        {"type": "filter", "parameters": {**inputs, "outputs": ["kept.en", "kept.de"], "n_jobs": 2}},
    ]
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"common": {"output_directory": str(tmp_path)}, "steps": steps}))
    command = [sys.executable, str(Path(sys.executable).with_name("opusfilter")), str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "4 of 40 pairs could not be scored" in done.stderr
    assert read_scores(tmp_path / "one.jsonl") == made.column("quality")
    assert read_scores(tmp_path / "two.jsonl") == pytest.approx(made.column("quality"), rel=1e-4)
    assert read_sides(tmp_path, "kept") == made.kept("quality", 0.5)


class TestCalibration:
    def test_by_a_file(self, made: Made, tmp_path: Path):
        other = made.scorer.calibrated([pair for pair in made.pairs * 3 if pair not in UNSCORED.values()])
        assert other.calibration is not None
        other.calibration.save(tmp_path / "other.json")
        with one_thread():
            expected = [score.quality for score in other.score(made.pairs[20:])]
        found = made.filter(calibrate_on="other.json", workdir=str(tmp_path))
        assert list(found.score(made.pairs[20:])) == expected
        assert expected != made.column("quality")[20:]

    @pytest.mark.parametrize("named", [False, True])
    def test_without_one(self, made: Made, tmp_path: Path, named: bool):
        model = shutil.copytree(made.model / "model", tmp_path / "model")
        (model / "quality.json").unlink()
        file = "other.json" if named else "model/quality.json"
        command = f"run `rela score {model} pairs.tsv --calibrate-on input --save-calibration FILE`"
        with pytest.raises(ConfigurationError) as raised:
            RelaFilter("model", calibrate_on=file if named else None, workdir=str(tmp_path))
        assert f"expected a calibration in {tmp_path / file}, there is none; {command}" in str(raised.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"score": "length_ratio"}, "score: expected one of null_rate, .*, quality, got 'length_ratio'"),
        ({"score": "qualitty"}, "score: expected one of null_rate, .*, quality, got 'qualitty'"),
        ({"score": "surprise"}, "threshold: expected a number for the score surprise, got None"),
        ({"threshold": "0.5"}, "threshold: expected a number for the score quality, got '0.5'"),
        ({"threshold": math.nan}, "threshold: expected a number for the score quality, got nan"),
        ({"batch": 0}, "batch: expected a whole number from 1 on, got 0"),
        ({"max_pieces": 2.5}, "max_pieces: expected a whole number from 1 on, got 2.5"),
    ],
)
def test_refuses(made: Made, parameters: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        made.filter(**parameters)


def test_refuses_what_it_does_not_know(made: Made):
    with pytest.raises(TypeError, match="treshold"):
        made.filter(treshold=0.7)


def test_refuses_other_than_two_sides(made: Made):
    with pytest.raises(ConfigurationError, match="expected two inputs, source and target, got 3"):
        list(made.filter().score([("one!", "eins!", "un!")]))


def test_says_where_the_model_should_be(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/tiny: expected a model directory"):
        RelaFilter("tiny", workdir=str(tmp_path))


def test_without_opusfilter(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "rela.integrations.opusfilter")
    monkeypatch.setitem(sys.modules, "opusfilter", None)
    with pytest.raises(ModuleNotFoundError, match="pip install opusfilter") as raised:
        importlib.import_module("rela.integrations.opusfilter")
    assert raised.value.name == "opusfilter"
