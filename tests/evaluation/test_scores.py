"""Recipes, and all metrics at once."""

import json

import pytest
from tests.evaluation.corpora import HYPOTHESIS, REFERENCE

from rela.evaluation import METRICS, Recipe, corpus_bleu, corpus_chrf, evaluate, tokenised_bleu


@pytest.mark.parametrize(
    ("recipe", "chosen"),
    [
        (Recipe(), ("bleu", "chrf")),
        (Recipe(language="de"), ("bleu", "chrf", "tokenised")),
        (Recipe(pretokenised=True), ("bleu", "chrf", "tokenised")),
        (Recipe(metrics=("chrf++", "bleu", "bleu")), ("bleu", "chrf++")),
        (Recipe(metrics=METRICS, language="de"), METRICS),
    ],
)
def test_what_is_computed(recipe: Recipe, chosen: tuple[str, ...]) -> None:
    assert recipe.chosen == chosen
    scores = evaluate(HYPOTHESIS, [REFERENCE], recipe, num_bootstrap=0)
    assert tuple(scores.by_metric) == chosen
    assert [score.name for score in scores] == [scores[name].name for name in chosen]


def test_each_is_what_its_function_says() -> None:
    recipe = Recipe(metrics=METRICS, tokenize="intl", language="en", lowercase=True)
    scores = evaluate(HYPOTHESIS, [REFERENCE, HYPOTHESIS[::-1]], recipe, num_bootstrap=50)
    references = [REFERENCE, HYPOTHESIS[::-1]]
    assert scores["bleu"] == corpus_bleu(HYPOTHESIS, references, tokenize="intl", lowercase=True, num_bootstrap=50)
    assert scores["chrf"] == corpus_chrf(HYPOTHESIS, references, lowercase=True, num_bootstrap=50)
    assert scores["chrf++"] == corpus_chrf(HYPOTHESIS, references, words=True, lowercase=True, num_bootstrap=50)
    assert scores["tokenised"] == tokenised_bleu(
        HYPOTHESIS, references, language="en", lowercase=True, num_bootstrap=50
    )


def test_pretokenised_text_is_split_at_blanks() -> None:
    scores = evaluate(["a b , c d ."] * 3, [["a b , c d ."] * 3], Recipe(pretokenised=True), num_bootstrap=0)
    assert "|tok:none|" in scores["bleu"].signature
    assert "|tok:none|" in scores["tokenised"].signature


def test_as_json() -> None:
    data = json.loads(json.dumps(evaluate(HYPOTHESIS, [REFERENCE], num_bootstrap=40).to_json(), allow_nan=False))
    assert data["num_lines"] == 5
    assert data["scores"]["chrf"]["name"] == "chrF2"


def test_empty_references_are_counted_and_said() -> None:
    with pytest.warns(UserWarning, match="rela: 2 of 4 reference lines are empty") as seen:
        evaluate(["a", "b"], [["a", " "], ["", "b"]], num_bootstrap=0)
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ("ter",)}, "metrics out of bleu, chrf, chrf\\+\\+, tokenised; got ter"),
        ({"metrics": ()}, "got none"),
        ({"metrics": ("tokenised",)}, "expected a language for tokenised BLEU, or text that is pretokenised"),
        ({"language": "deutsch"}, "expected the code of a language"),
        ({"language": "de", "pretokenised": True}, r"got both \('de'\)"),
        ({"tokenize": "13a", "pretokenised": True}, r"got both \('13a'\)"),
    ],
)
def test_recipes_that_cannot_be_followed(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("option", [{"language": "de"}, {"tokenize": "13a"}])
def test_what_is_ignored_is_said(option: dict[str, str]) -> None:
    with pytest.warns(UserWarning, match="is ignored"):
        Recipe(metrics=("chrf",), **option)  # pyright: ignore[reportArgumentType]
