"""Links of two models of opposite direction in one, against the parts."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.studies import longest_sides
from tests.training.helpers import new_trainer

from rela.alignment.choice import Choice
from rela.alignment.errors import ErrorCounts, GoldLinks
from rela.alignment.links import align
from rela.alignment.pairs import windows
from rela.alignment.symmetrise import symmetrise
from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.study import run_study
from rela.experiments.demo import DemoSize, demo_config
from rela.model.directory import load_model
from rela.text.grammar import write_corpus as write_grammar
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource


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
        with pytest.raises(ValueError, match="--opposite: expected a model from de to en, got one from en to de"):
            run_study([folder / "rela-1"], corpus, tmp_path / "out", opposite=folder / "softmax")
        with pytest.raises(ValueError, match="expected gold links to compare two directions by, got none"):
            run_study([folder / "rela-1"], replace(corpus, gold=None), tmp_path / "out", opposite=folder / "back")
        assert not (tmp_path / "out").exists()


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
