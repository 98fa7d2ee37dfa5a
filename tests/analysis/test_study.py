"""Whole studies of small models: what is in the result files, that they can be gone on with, and what is refused."""

import json
import re
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.studies import (
    Stop,
    in_windows,
    make_model,
    numbers,
    without_cost,
    write_corpus,
    write_lines,
    write_text,
)
from tests.cli.translating import same_package
from tests.training.helpers import new_trainer

from rela._lock import FolderLock
from rela.alignment.choice import Choice
from rela.alignment.errors import ErrorCounts, GoldLinks
from rela.alignment.links import align
from rela.alignment.pairs import windows
from rela.alignment.symmetrise import symmetrise
from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.study import StudyOptions, run_study
from rela.experiments.demo import DemoSize, demo_config
from rela.model.directory import load_model
from rela.report.figures import write_figures
from rela.report.page import write_page
from rela.report.results import load_results
from rela.report.tables import write_tables
from rela.text.grammar import write_corpus as write_grammar
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource

ROOT = Path(__file__).resolve().parents[2]
ALL = StudyOptions(num_ablated=6, num_examples=8, num_hallucinated=15)
PLACEHOLDERS = {
    "KIND": ("encoder", "decoder", "cross"),
    "OF_TARGET": ("decoder", "cross"),
    "STATISTIC": ("sparsity", "null", "mass", "entropy", "sink_first", "sink_last"),
    "RATE": ("sparsity", "null"),
    "SCORE": ("aer", "precision", "recall", "f1"),
    "SHIFT": ("normal", "shifted"),
    "RULE": ("merged", "any"),
}


def documented() -> dict[str, list[str]]:
    """All measures of docs/results-format.md, and their axes."""
    found: dict[str, list[str]] = {}
    text = (ROOT / "docs" / "results-format.md").read_text(encoding="utf-8")
    for pattern, axes in re.findall(r"^\| `([\w.]+)` \| ([a-z, ]*)\|", text, flags=re.MULTILINE):
        parts = [PLACEHOLDERS.get(part, (part,)) for part in pattern.split(".")]
        for chosen in product(*parts):
            found[".".join(chosen)] = [axis for axis in axes.strip().split(", ") if axis]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models: two seeds of one, another attention, another shape with other pieces, and one of the other direction."""
    folder = tmp_path_factory.mktemp("study")
    for number in (1, 2):
        make_model(folder / f"rela-{number}", seed=number, made_by={"seed": number})
    make_model(folder / "softmax", "softmax", seed=3)
    make_model(folder / "large", seed=4, dim=32, decoder_layers=3, num_heads=2, merges=25, made_by={"seed": 4})
    make_model(folder / "back", seed=5, languages=("de", "en"), merges=30)
    return folder


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    return write_corpus(folder / "corpus", 40, seed=2)


@pytest.fixture(scope="module")
def models(folder: Path) -> list[Path]:
    return [folder / name for name in ("rela-1", "rela-2", "softmax", "large")]


@pytest.fixture(scope="module")
def out(folder: Path, corpus: Corpus, models: list[Path]) -> Path:
    run_study(models, corpus, folder / "out", ALL, opposite=folder / "back")
    return folder / "out"


@pytest.fixture(scope="module")
def results(out: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads((out / "results.json").read_text(encoding="utf-8"), parse_constant=refuse)


def longest_sides(corpus: Corpus, model: Path) -> list[int]:
    """Of each pair the pieces of its longer side, for a model."""
    items = corpus.read(load_model(model).tokenizers)
    return [max(len(item.pair.source.ids), len(item.pair.target.ids)) for item in items]


class TestResults:
    def test_only_the_results_are_left(self, out: Path):
        assert sorted(path.name for path in out.iterdir()) == ["attention.npz", "results.json"]

    def test_the_head(self, results: dict[str, Any], corpus: Corpus, models: list[Path]):
        assert list(results) == ["format", "rela_version", "data", "models", "groups"]
        data = results["data"]
        assert (data["source"], data["target"]) == (str(corpus.source), str(corpus.target))
        assert (data["pairs"], data["skipped"], data["tags"]) == (40, {}, str(corpus.tags))
        assert (data["gold"]["name"], data["gold"]["pairs"]) == ("test", 40)
        names = ["rela-g, 2+2 layers seed 1", "rela-g, 2+2 layers seed 2", "softmax", "rela-g, 2+3 layers"]
        assert [model["name"] for model in results["models"]] == names
        assert [model["path"] for model in results["models"]] == [str(path) for path in models]
        assert [model["seed"] for model in results["models"]] == [1, 2, None, 4]
        for name in ("pairs", "source_pieces", "target_pieces", "skipped"):
            assert results["models"][0][name] == data[name]
        assert results["models"][3]["target_pieces"] != data["target_pieces"]  # another tokenizer

    def test_entries_are_those_of_the_document(self, results: dict[str, Any]):
        text = (ROOT / "docs" / "results-format.md").read_text(encoding="utf-8")
        block = re.search(r"```json\n(.*?)\n```", text, flags=re.DOTALL)
        assert block is not None
        example = json.loads(block[1])
        assert list(results) == list(example)
        assert list(results["data"]) == list(example["data"])
        assert set(results["data"]["gold"]) == set(example["data"]["gold"])
        for model in results["models"]:
            assert list(model) == list(example["models"][0])
            assert all(list(found) == list(example["models"][0]["findings"][0]) for found in model["findings"])
        for group in results["groups"]:
            assert list(group) == list(example["groups"][0])

    def test_every_measure_is_documented_and_there(self, results: dict[str, Any]):
        expected = documented()
        assert len(expected) > 100
        for model in results["models"]:
            measures = model["measures"]
            without = {"decode.speed"}  # from a benchmark
            if model["attention"] == "softmax":
                without |= {name for name in expected if ".diversity.tau" in name}  # its weights are distributions
            assert set(measures) == set(expected) - without
            assert {name: measure["axes"] for name, measure in measures.items()} == {
                name: axes for name, axes in expected.items() if name not in without
            }

    def test_shapes_labels_and_signatures(self, results: dict[str, Any]):
        for model in results["models"]:
            signatures = [measure["signature"] for measure in model["measures"].values()]
            assert len(set(signatures)) == len(signatures)
            assert all(f"|model:{model['name']}|" in signature for signature in signatures)
            assert all("|pairs:40|" in signature and signature.endswith("|v0.1.0") for signature in signatures)
            for name, measure in model["measures"].items():
                kind = name.partition(".")[0]
                layers = model["layers"].get(kind, model["layers"]["cross"])
                sizes = {"layer": layers, "head": model["heads"]}
                sizes |= {axis: len(labels) for axis, labels in measure["labels"].items()}
                value = np.array(measure["value"], dtype=np.float64)
                assert value.shape == tuple(sizes[axis] for axis in measure["axes"]), name
                assert all(number is None or isinstance(number, float) for number in numbers(measure["value"]))
                assert set(measure["labels"]) == set(measure["axes"]) - {"layer", "head"}

    def test_nothing_is_null_but_for_a_reason(self, results: dict[str, Any]):
        """A head that is always null has no entropy, sink or distance; one that never is, no ablation there."""
        for model in results["models"]:
            for name, measure in model["measures"].items():
                if None in set(numbers(measure["value"])):
                    reasons = ("entropy", "sink_first", "sink_last", "distance", "ablation.null", "ablation.active")
                    assert name.partition(".")[2].startswith(reasons), name

    def test_best_heads(self, results: dict[str, Any]):
        for model in results["models"]:
            for shift, best in model["best"].items():
                rates = np.array(model["measures"][f"cross.aer.{shift}.merged"]["value"])
                assert rates[best["layer"] - 1, best["head"]] == rates.min() == pytest.approx(best["aer"], rel=1e-6)

    def test_means(self, results: dict[str, Any]):
        for model in results["models"]:
            values = {name: np.array(m["value"], dtype=np.float64) for name, m in model["measures"].items()}
            for kind in ("encoder", "decoder", "cross"):
                np.testing.assert_allclose(values[f"{kind}.null.layer"], values[f"{kind}.null"].mean(1), atol=1e-6)
                np.testing.assert_allclose(
                    values[f"{kind}.mass.variance"], values[f"{kind}.mass"].var(1), rtol=1e-4, atol=1e-9
                )
                np.testing.assert_allclose(
                    values[f"{kind}.diversity.mean"], values[f"{kind}.diversity"].mean(), rtol=1e-5
                )
            aer = values["cross.aer.normal.any"]
            np.testing.assert_allclose(values["cross.aoh.normal.any"], aer.min(1).mean(), rtol=1e-5)
            layers = values["cross.aer.normal.any.layer_attention"]
            np.testing.assert_allclose(values["cross.aol.normal.any"], layers.mean(), rtol=1e-5)

    def test_findings_point_at_what_is_there(self, results: dict[str, Any]):
        for model in results["models"]:
            strengths = [found["strength"] for found in model["findings"][:3]]
            assert strengths == sorted(strengths, reverse=True)
            assert model["findings"]
            for found in model["findings"]:
                assert found["sentence"] is None or 0 <= found["sentence"] < 8
                if found["layer"] is not None:
                    assert 1 <= found["layer"] <= model["layers"][found["kind"]]
                    assert 0 <= found["head"] < model["heads"]


class TestGroups:
    def test_seeds_are_averaged_and_others_stand_alone(self, results: dict[str, Any]):
        groups = [(group["name"], group["models"]) for group in results["groups"]]
        assert groups == [
            ("rela-g, 2+2 layers", ["rela-g, 2+2 layers seed 1", "rela-g, 2+2 layers seed 2"]),
            ("softmax", ["softmax"]),
            ("rela-g, 2+3 layers", ["rela-g, 2+3 layers"]),
        ]
        first, second = (model["measures"] for model in results["models"][:2])
        together, alone = (results["groups"][place]["measures"] for place in (0, 1))
        assert together.keys() == first.keys()
        for name, measure in together.items():
            sides = [list(numbers(found[name]["value"])) for found in (first, second)]
            for one, other, mean, spread in zip(
                *sides, numbers(measure["mean"]), numbers(measure["spread"]), strict=True
            ):
                if one is None or other is None:
                    assert mean is spread is None
                else:
                    assert mean == pytest.approx((one + other) / 2, rel=1e-6, abs=1e-9)
                    assert spread == pytest.approx(statistics.stdev([one, other]), rel=1e-5, abs=1e-9)
            assert "|model:rela-g, 2+2 layers seed 1,rela-g, 2+2 layers seed 2|" in measure["signature"]
        for name, measure in alone.items():
            assert measure["spread"] is None
            assert measure["mean"] == results["models"][2]["measures"][name]["value"]


class TestReport:
    def test_page_figures_and_tables(self, out: Path, tmp_path: Path):
        read = load_results(out)
        assert read.examples is not None
        assert len(read.examples.sentences) == 11
        assert read.examples.models == [model.name for model in read.models]
        page = write_page(read, tmp_path / "report.html")
        assert page.total_sentences == 11
        assert set(page.sentences.values()) == {11}
        assert len(write_tables(read, tmp_path / "tables").written) > 0
        assert len(write_figures(read, tmp_path / "figures").written) > 0

    def test_a_bare_study(self, folder: Path, corpus: Corpus, tmp_path: Path):
        options = StudyOptions(num_hallucinated=0, num_examples=0)
        found = run_study([folder / "softmax"], replace(corpus, gold=None, tags=None), tmp_path / "out", options)
        [model] = found["models"]
        assert (model["name"], model["best"], found["data"]["gold"], found["data"]["tags"]) == (
            "softmax",
            None,
            None,
            None,
        )
        with_gold = {
            name for name in documented() if name.startswith(("cross.a", "cross.prec", "cross.rec", "cross.f1"))
        }
        others = {
            name for name in documented() if re.search(r"tau|\.tag|ablation|hallucinated|symmetrised|speed", name)
        }
        assert set(model["measures"]) == set(documented()) - with_gold - others
        read = load_results(tmp_path / "out")
        write_page(read, tmp_path / "report.html")
        write_tables(read, tmp_path / "tables")


class TestOpposite:
    def test_against_the_parts(self, folder: Path, corpus: Corpus, results: dict[str, Any]):
        measures = results["models"][0]["measures"]["symmetrised.aer"]
        forward, backward = load_model(folder / "rela-1"), load_model(folder / "back")
        pairs = [(item.source, item.target) for item in corpus.read(forward.tokenizers)]
        gold = [item.gold for item in corpus.read(forward.tokenizers)]
        chosen = [
            dict(part.split(":") for part in found.split(","))
            for found in re.findall(r"\|(?:forward|backward):([^|]*)", measures["signature"])
        ]
        choices = [
            Choice(
                int(found["layer"]) - 1,
                found["shift"] == "yes",
                None if found["head"] == "mean" else int(found["head"]),
                found["rule"],  # pyright: ignore[reportArgumentType]
            )
            for found in chosen
        ]
        there = [one.links for one in align(forward.model, forward.tokenizers, pairs, choices[0])]
        turned = [(target, source) for source, target in pairs]
        back = [
            [(source, target) for target, source in one.links]
            for one in align(backward.model, backward.tokenizers, turned, choices[1])
        ]
        links = {"forward": there, "backward": back}
        for method in ("intersection", "union", "grow-diag-final-and"):
            links[method] = [symmetrise(one, other, method) for one, other in zip(there, back, strict=True)]
        assert measures["labels"]["method"] == list(links)
        for value, found in zip(measures["value"], links.values(), strict=True):
            counts = ErrorCounts.sum(
                ErrorCounts.of(one, known)
                for one, known in zip(found, gold, strict=True)
                if isinstance(known, GoldLinks)
            )
            assert value == pytest.approx(counts.aer, rel=1e-6)
        assert "|linked:40|" in measures["signature"]
        best = min(
            np.array(results["models"][0]["measures"][f"cross.aer.{shift}.{rule}"]["value"]).min()
            for shift in ("normal", "shifted")
            for rule in ("merged", "any")
        )
        assert measures["value"][0] <= best + 1e-6  # the mean over heads is among the choices too

    def test_many_windows_and_pairs_too_long_for_one_of_them(
        self, folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Each model reads the text in its own pieces, one ahead of the other: they must not get out of step."""
        lengths = [longest_sides(corpus, folder / name) for name in ("rela-1", "back")]
        most = sorted(lengths[0])[30]
        both = sum(one <= most and other <= most for one, other in zip(*lengths, strict=True))
        assert both < sum(one <= most for one in lengths[0])
        for module in ("links", "choosing"):
            monkeypatch.setattr(f"rela.alignment.{module}.windows", partial(windows, size=3))
        with pytest.warns(UserWarning, match="left out: too-many-pieces"):
            found = run_study([folder / "rela-1"], replace(corpus, max_pieces=most), tmp_path, opposite=folder / "back")
        assert f"|linked:{both}|" in found["models"][0]["measures"]["symmetrised.aer"]["signature"]

    def test_refused_before_any_work(self, folder: Path, corpus: Corpus, tmp_path: Path):
        with pytest.raises(ValueError, match="expected an opposite model from de to en, got one from en to de"):
            run_study([folder / "rela-1"], corpus, tmp_path / "out", opposite=folder / "softmax")
        with pytest.raises(ValueError, match="expected gold links to compare two directions by, got none"):
            run_study([folder / "rela-1"], replace(corpus, gold=None), tmp_path / "out", opposite=folder / "back")
        assert not (tmp_path / "out").exists()


GOING_ON = StudyOptions(num_examples=5, num_hallucinated=25, num_ablated=4)


@pytest.fixture(scope="module")
def whole(folder: Path, corpus: Corpus) -> Path:
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_windows(monkeypatch, 9)
        run_study([folder / "rela-1", folder / "softmax"], corpus, folder / "whole", GOING_ON)
    return folder / "whole"


@pytest.mark.slow
def test_trained_models_of_both_directions(tmp_path: Path):
    """From text to results; what must hold between two directions and both, however little was learned."""
    lines = {name: tmp_path / "corpus" / f"test.{name}" for name in ("en", "de", "sure", "possible", "tags.de")}
    write_grammar(tmp_path / "corpus", counts={"train": 5_000, "dev": 100, "test": 300})
    for languages in (("en", "de"), ("de", "en")):
        store = tmp_path / f"store-{languages[0]}"
        sources = {
            split: [PairSource.files(*(tmp_path / "corpus" / f"{split}.{language}" for language in languages))]
            for split in ("train", "dev")
        }
        prepare(sources, languages, store, PrepareOptions(merges=1_000))
        config = demo_config(store, "rela-g", DemoSize(tokens=60_000), seed=3)
        new_trainer(config, tmp_path / languages[0])[0].train()
    corpus = Corpus(
        source=lines["en"],
        target=lines["de"],
        gold=GoldFiles(sure=lines["sure"], possible=lines["possible"]),
        tags=lines["tags.de"],
    )
    found = run_study([tmp_path / "en"], corpus, tmp_path / "out", opposite=tmp_path / "de")
    [model] = found["models"]
    assert model["seed"] == 3
    values = {name: measure["value"] for name, measure in model["measures"].items()}
    rates = dict(zip(model["measures"]["symmetrised.aer"]["labels"]["method"], values["symmetrised.aer"], strict=True))
    best = [model["best"][shift]["aer"] for shift in ("normal", "shifted")]
    assert rates["forward"] <= min(best) + 1e-6  # the mean over heads, and another rule, may be chosen too
    _, _, intersection, union, grown = values["symmetrised.recall"]
    assert intersection <= min(values["symmetrised.recall"][:2])
    assert max(values["symmetrised.recall"][:2]) <= union
    assert intersection <= grown <= union
    assert found["models"][0]["findings"]


class TestGoingOn:
    @pytest.mark.parametrize("after", [1, 4, 5, 6, 9])
    def test_the_same_as_uninterrupted(
        self, folder: Path, corpus: Corpus, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
    ):
        """Cut off in the first model, at its end, in its ablation, and in the second model."""
        in_windows(monkeypatch, 9)
        paths = [folder / "rela-1", folder / "softmax"]
        expected = without_cost(json.loads((whole / "results.json").read_text(encoding="utf-8")))
        with pytest.raises(KeyboardInterrupt):
            run_study(paths, corpus, tmp_path / "out", GOING_ON, progress=Stop(after))
        assert not (tmp_path / "out" / "results.json").exists()
        told: list[str] = []
        with pytest.warns(UserWarning, match="has the beginning of the same analysis; going on from there"):
            found = run_study(paths, corpus, tmp_path / "out", GOING_ON, progress=lambda what, _: told.append(what))
        assert without_cost(found) == expected
        assert told.count("analysing rela-g") == max(0, 5 - after)
        written = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
        assert without_cost(written) == expected
        assert (tmp_path / "out" / "attention.npz").read_bytes() == (whole / "attention.npz").read_bytes()
        assert not (tmp_path / "out" / "partial").exists()

    def test_another_recipe_begins_anew(
        self, folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        in_windows(monkeypatch, 9)
        paths = [folder / "rela-1", folder / "softmax"]
        with pytest.raises(KeyboardInterrupt):
            run_study(paths, corpus, tmp_path / "out", GOING_ON, progress=Stop(3))
        whole = run_study(paths[::-1], corpus, tmp_path / "whole", GOING_ON)
        with pytest.warns(UserWarning, match="has the beginning of another analysis, which is dropped"):
            found = run_study(paths[::-1], corpus, tmp_path / "out", GOING_ON)  # in another order
        assert without_cost(found) == without_cost(whole)

    def test_an_error_in_the_text_keeps_what_was_measured(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        in_windows(monkeypatch, 9)
        corpus = write_corpus(tmp_path / "corpus", 20)
        lines = corpus.files["tags"].read_text(encoding="utf-8").splitlines()
        write_lines(corpus.files["tags"], [*lines[:15], "X " * 30, *lines[16:]])
        with pytest.raises(ValueError, match=r"tags.de, line 16: expected \d+ tags"):
            run_study([folder / "rela-1"], corpus, tmp_path / "out")
        assert (tmp_path / "out" / "partial" / "0.npz").exists()

    def test_killed(self, folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """By the system, at any moment."""
        in_windows(monkeypatch, 2)
        whole = run_study([folder / "rela-1"], corpus, tmp_path / "whole", GOING_ON)
        script = (
            "import functools, sys, time\n"
            "from pathlib import Path\n"
            "from rela.alignment.pairs import windows\n"
            "from rela.analysis import measuring, study\n"
            "from rela.analysis.corpus import Corpus, GoldFiles\n"
            "for module in (measuring, study): module.windows = functools.partial(windows, size=2)\n"
            "folder = Path(sys.argv[1])\n"
            "gold = GoldFiles(sure=folder / 'test.sure', possible=folder / 'test.possible')\n"
            "files = {'source': folder / 'test.en', 'target': folder / 'test.de', 'tags': folder / 'test.tags.de'}\n"
            "corpus = Corpus(**files, gold=gold)\n"
            "slowly = lambda what, count: time.sleep(0.05)\n"
            f"options = study.{GOING_ON!r}\n"
            "study.run_study([Path(sys.argv[2])], corpus, Path(sys.argv[3]), options, progress=slowly)\n"
        )
        out = tmp_path / "out"
        arguments = [sys.executable, "-c", script, str(corpus.source.parent), str(folder / "rela-1"), str(out)]
        with subprocess.Popen(arguments, env=same_package()) as process:
            until = time.monotonic() + 120
            while not (out / "partial" / "0.npz").exists():
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.005)
            process.kill()
        assert not (out / "results.json").exists()
        with pytest.warns(UserWarning, match="going on from there"):
            found = run_study([folder / "rela-1"], corpus, out, GOING_ON)
        assert without_cost(found) == without_cost(whole)


class TestSmall:
    @pytest.mark.parametrize("attention", ["rela-1", "softmax"])
    def test_one_pair_of_one_word(self, folder: Path, tmp_path: Path, attention: str):
        corpus = write_text(tmp_path / "corpus", [("dog", "Hund")])
        found = run_study([folder / attention], corpus, tmp_path / "out", ALL)
        assert found["data"]["pairs"] == 1
        assert not any(name.startswith("hallucinated") for name in found["models"][0]["measures"])
        write_page(load_results(tmp_path / "out"), tmp_path / "report.html")

    @pytest.mark.parametrize("possible", ["", "0-0"])
    def test_gold_without_sure_links(self, folder: Path, tmp_path: Path, possible: str):
        corpus = write_text(tmp_path / "corpus", [("dog", "Hund"), ("a dog", "ein Hund")])
        for name, line in (("sure", ""), ("possible", possible)):
            write_lines(corpus.files[name], [line] * 2)
        found = run_study([folder / "rela-1"], corpus, tmp_path / "out", ALL)
        assert found["data"]["gold"]["sure_links"] == 0
        write_page(load_results(tmp_path / "out"), tmp_path / "report.html")

    def test_skipped_lines_are_counted_and_said(self, folder: Path, tmp_path: Path):
        pairs = [("dog", "Hund"), ("", "Hund"), ("dog", ""), ("a dog " * 40, "Hund"), ("the cat", "Katze")]
        corpus = replace(write_text(tmp_path / "corpus", pairs), max_pieces=50)
        with pytest.warns(UserWarning, match="left out") as caught:
            found = run_study([folder / "rela-1"], corpus, tmp_path / "out", ALL)
        said = [str(warning.message) for warning in caught]
        assert [line.partition(" (")[0] for line in said] == [
            "left out: empty-source: 1",
            "left out: empty-target: 1",
            "left out: too-many-pieces: 1",
        ]
        assert "test.en:2" in said[0]
        assert found["data"]["skipped"] == {"empty-source": 1, "empty-target": 1, "too-many-pieces": 1}
        assert found["data"]["pairs"] == found["models"][0]["pairs"] == 2

    def test_models_leave_out_what_is_too_long_for_them(self, folder: Path, corpus: Corpus, tmp_path: Path):
        lengths = [longest_sides(corpus, folder / name) for name in ("rela-1", "large")]
        most = max(lengths[0])
        long = sum(length > most for length in lengths[1])
        assert long > 0
        with pytest.warns(UserWarning, match=f"left out, rela-g, 2.3 layers: too-many-pieces: {long}"):
            found = run_study([folder / "rela-1", folder / "large"], replace(corpus, max_pieces=most), tmp_path / "out")
        assert [model["pairs"] for model in found["models"]] == [40, 40 - long]
        assert [model["skipped"] for model in found["models"]] == [{}, {"too-many-pieces": long}]
        assert found["data"]["pairs"] == 40

    def test_bars_in_names(self, folder: Path, corpus: Corpus, tmp_path: Path):
        """A bar separates the parts of a signature."""
        for number in (1, 2):
            make_model(tmp_path / f"a|{number}", seed=number)
        bare = replace(corpus, gold=None, tags=None)
        found = run_study([tmp_path / "a|1", tmp_path / "a|2"], bare, tmp_path / "out")
        assert found["groups"][0]["measures"]["loss"]["signature"].count("|") == 7


class TestRefused:
    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ([], "test.en: expected at least one pair to analyse, got none: the files are empty"),
            ([("", "Hund")], r"expected at least one pair to analyse, got none: empty-source: 1 \(nothing but blanks"),
            ([("dog " * 60, "Hund")], r"got none: too-many-pieces: 1 \(pairs with more than 9 pieces on a side"),
        ],
    )
    def test_nothing_to_analyse(self, folder: Path, tmp_path: Path, pairs: list[tuple[str, str]], message: str):
        corpus = replace(write_text(tmp_path / "corpus", pairs), max_pieces=9)
        with pytest.raises(ValueError, match=message):
            run_study([folder / "rela-1"], corpus, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []

    def test_two_at_a_time(self, folder: Path, corpus: Corpus, tmp_path: Path):
        lock = FolderLock(tmp_path, "")
        with pytest.raises(BlockingIOError, match="another analysis is writing here; wait for it to end, or name"):
            run_study([folder / "rela-1"], corpus, tmp_path)
        lock.release()

    @pytest.mark.parametrize("change", [{"source": Path("none")}, {"gold": GoldFiles(sure=Path("none"))}])
    def test_files_that_are_not_there(self, folder: Path, corpus: Corpus, tmp_path: Path, change: dict[str, Any]):
        with pytest.raises(FileNotFoundError, match=r"none: expected a file \((source|sure)\), there is none"):
            run_study([folder / "rela-1"], replace(corpus, **change), tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_tags_that_are_words(self, folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("rela.analysis.tags._MOST_CATEGORIES", 3)
        with pytest.raises(ValueError, match=r"expected at most 3 different tags, got more, such as .* of words\?"):
            run_study([folder / "rela-1"], corpus, tmp_path / "out")
