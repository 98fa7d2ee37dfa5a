"""Whole studies of small models: what is in the result files, that they can be gone on with, and what is refused."""

import json
import re
import statistics
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.studies import (
    EVERYTHING,
    longest_sides,
    make_model,
    numbers,
    write_lines,
    write_text,
)

from rela._lock import FolderLock
from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.study import StudyOptions, run_study
from rela.report.figures import write_figures
from rela.report.page import write_page
from rela.report.results import load_results
from rela.report.tables import write_tables

ROOT = Path(__file__).resolve().parents[2]
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
    text = (ROOT / "docs" / "results-format.md").read_text(encoding="utf-8").partition("## Benchmarks")[0]
    for pattern, axes in re.findall(r"^\| `([\w.]+)` \| ([a-z, ]*)\|", text, flags=re.MULTILINE):
        parts = [PLACEHOLDERS.get(part, (part,)) for part in pattern.split(".")]
        for chosen in product(*parts):
            found[".".join(chosen)] = [axis for axis in axes.strip().split(", ") if axis]
    return found


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
        assert list(together) == [name for name, measure in first.items() if "head" not in measure["axes"]]
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


class TestSmall:
    @pytest.mark.parametrize("attention", ["rela-1", "softmax"])
    def test_one_pair_of_one_word(self, folder: Path, tmp_path: Path, attention: str):
        corpus = write_text(tmp_path / "corpus", [("dog", "Hund")])
        found = run_study([folder / attention], corpus, tmp_path / "out", EVERYTHING)
        assert found["data"]["pairs"] == 1
        assert not any(name.startswith("hallucinated") for name in found["models"][0]["measures"])
        write_page(load_results(tmp_path / "out"), tmp_path / "report.html")

    @pytest.mark.parametrize("possible", ["", "0-0"])
    def test_gold_without_sure_links(self, folder: Path, tmp_path: Path, possible: str):
        corpus = write_text(tmp_path / "corpus", [("dog", "Hund"), ("a dog", "ein Hund")])
        for name, line in (("sure", ""), ("possible", possible)):
            write_lines(corpus.files[name], [line] * 2)
        found = run_study([folder / "rela-1"], corpus, tmp_path / "out", EVERYTHING)
        assert found["data"]["gold"]["sure_links"] == 0
        write_page(load_results(tmp_path / "out"), tmp_path / "report.html")

    def test_skipped_lines_are_counted_and_said(self, folder: Path, tmp_path: Path):
        pairs = [("dog", "Hund"), ("", "Hund"), ("dog", ""), ("a dog " * 40, "Hund"), ("the cat", "Katze")]
        corpus = replace(write_text(tmp_path / "corpus", pairs), max_pieces=50)
        with pytest.warns(UserWarning, match="left out") as caught:
            found = run_study([folder / "rela-1"], corpus, tmp_path / "out", EVERYTHING)
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
        assert not (tmp_path / "out").exists()

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
