"""What is kept of an analysis that was cut off, and when it is used."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.analysis.studies import make_model, write_corpus, write_lines

from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.partial import Partial, is_begun, recipe_of
from rela.text.worded import Wording


def test_what_is_kept_comes_back(tmp_path: Path):
    partial = Partial(tmp_path, {"a": 1})
    assert (partial.state(0), partial.entry(0), is_begun(tmp_path)) == (None, None, False)
    partial.keep_state(0, {"x": np.arange(3), "tags/names": np.array(["DET", "NOUN"])})
    partial.keep_entry(1, {"name": "rela-g", "value": [1.5, None]})
    assert is_begun(tmp_path)
    with pytest.warns(UserWarning, match="has the beginning of the same analysis; going on from there"):
        again = Partial(tmp_path, {"a": 1})
    state = again.state(0)
    assert state is not None
    assert (state["x"].tolist(), state["tags/names"].tolist()) == ([0, 1, 2], ["DET", "NOUN"])
    assert again.entry(1) == {"name": "rela-g", "value": [1.5, None]}
    assert again.entry(0) is None
    again.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_is_damaged_is_measured_anew(tmp_path: Path):
    partial = Partial(tmp_path, {"a": 1})
    partial.keep_state(0, {"x": np.arange(3000)})
    partial.keep_entry(0, {"name": "rela-g"})
    for name in ("0.npz", "0.json"):
        path = tmp_path / "partial" / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(UserWarning, match=r"0\.npz is damaged .* this model is measured anew"):
        assert partial.state(0) is None
    with pytest.warns(UserWarning, match=r"0\.json is damaged .* this model is measured anew"):
        assert partial.entry(0) is None
    partial.keep_state(0, {"x": np.arange(2)})
    partial.keep_entry(0, {"name": "rela-g"})
    assert (partial.state(0) or {}).keys() == {"x"}
    assert partial.entry(0) == {"name": "rela-g"}


def test_another_recipe_begins_anew(tmp_path: Path):
    Partial(tmp_path, {"a": 1}).keep_state(0, {"x": np.arange(3)})
    with pytest.warns(UserWarning, match="has the beginning of another analysis, which is dropped"):
        partial = Partial(tmp_path, {"a": 2})
    assert partial.state(0) is None
    assert json.loads((tmp_path / "partial" / "recipe.json").read_text()) == {"a": 2}


def test_a_beginning_without_a_window_is_not_worth_a_word(tmp_path: Path):
    Partial(tmp_path, {"a": 1})
    Partial(tmp_path, {"a": 1})  # a warning would be an error


def test_other_people_s_folders_stay(tmp_path: Path):
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "thesis.tex").write_text("important")
    with pytest.raises(FileExistsError, match="expected the beginning of an analysis, or nothing, got something else"):
        Partial(tmp_path, {"a": 1})
    assert (tmp_path / "partial" / "thesis.tex").exists()


def test_numbers_that_are_none_are_not_written(tmp_path: Path):
    with pytest.raises(ValueError, match="JSON compliant"):
        Partial(tmp_path, {}).keep_entry(0, {"aer": float("nan")})


def gold_of(corpus: Corpus) -> GoldFiles:
    assert corpus.gold is not None
    return corpus.gold


CHANGES: dict[str, Callable[[Corpus], dict[str, Any]]] = {
    "sides swapped": lambda corpus: {"source": corpus.target, "target": corpus.source},
    "gold swapped": lambda corpus: {"gold": GoldFiles(sure=corpus.files["possible"], possible=corpus.files["sure"])},
    "sure links alone": lambda corpus: {"gold": GoldFiles(sure=corpus.files["sure"])},
    "base": lambda corpus: {"gold": replace(gold_of(corpus), base=1)},
    "flipped": lambda corpus: {"gold": replace(gold_of(corpus), flipped=True)},
    "no gold": lambda _: {"gold": None},
    "no tags": lambda _: {"tags": None},
    "tokenised": lambda _: {"wording": Wording(tokenised=True)},
    "replaced": lambda _: {"wording": Wording(replacements={"a": "b"})},
    "shorter": lambda _: {"max_pieces": 7},
}


class TestRecipe:
    """Whatever changes the results changes the recipe."""

    @staticmethod
    def recipe(folder: Path, corpus: Corpus, **changes: Any) -> str:
        parts: dict[str, Any] = {
            "models": [folder / "a", folder / "b"],
            "opposite": None,
            "corpus": corpus,
            "options": {"seed": 1},
        }
        return json.dumps(recipe_of(**{**parts, **changes}), sort_keys=True)

    @pytest.fixture
    def corpus(self, tmp_path: Path) -> Corpus:
        make_model(tmp_path / "a", seed=1)
        make_model(tmp_path / "b", seed=2)
        return write_corpus(tmp_path, 3)

    @pytest.mark.parametrize("name", CHANGES)
    def test_of_the_corpus(self, tmp_path: Path, corpus: Corpus, name: str):
        assert self.recipe(tmp_path, replace(corpus, **CHANGES[name](corpus))) != self.recipe(tmp_path, corpus)

    def test_of_models_and_options(self, tmp_path: Path, corpus: Corpus):
        a, b = tmp_path / "a", tmp_path / "b"
        found = [
            self.recipe(tmp_path, corpus),
            self.recipe(tmp_path, corpus, models=[b, a]),  # what is kept is numbered
            self.recipe(tmp_path, corpus, models=[a], opposite=b),
            self.recipe(tmp_path, corpus, models=[a]),
            self.recipe(tmp_path, corpus, options={"seed": 2}),
        ]
        assert len(set(found)) == len(found)
        assert found[0] == self.recipe(tmp_path, corpus)

    def test_of_what_is_in_the_files(self, tmp_path: Path, corpus: Corpus):
        before = self.recipe(tmp_path, corpus)
        for path in corpus.files.values():
            text = path.read_text(encoding="utf-8")
            write_lines(path, ["other"])
            assert self.recipe(tmp_path, corpus) != before
            path.write_text(text, encoding="utf-8")
        assert self.recipe(tmp_path, corpus) == before
        make_model(tmp_path / "a", seed=3)
        assert self.recipe(tmp_path, corpus) != before
