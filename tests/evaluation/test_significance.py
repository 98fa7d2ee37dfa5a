"""Paired tests: what is sure, what is chance, and what sacrebleu says."""

import itertools
import json
import subprocess
from collections.abc import Sequence

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from tests.evaluation.corpora import HYPOTHESIS, REFERENCE, noisy, sentences

from rela._version import __version__
from rela.evaluation import Comparison, Recipe, compare, corpus_bleu, corpus_chrf, tokenised_bleu

GOLD = sentences(80)
BASELINE = noisy(GOLD, 0.3, seed=1)
ALL = Recipe(metrics=("bleu", "chrf", "chrf++", "tokenised"), language="en")


def values(comparison: Comparison) -> tuple[float | None, float | None]:
    return comparison.p_bootstrap, comparison.p_randomisation


def test_identical_systems_do_not_differ() -> None:
    found = compare(BASELINE, {"same": list(BASELINE)}, [GOLD], ALL, num_bootstrap=100, num_shuffles=100)
    assert [comparison.name for comparison in found] == ["BLEU", "chrF2", "chrF2++", "tokenised BLEU"]
    for comparison in found:
        assert (comparison.delta, *values(comparison)) == (0, 1, 1)


def test_a_clearly_better_and_a_clearly_worse_system() -> None:
    systems = {"better": noisy(GOLD, 0.05, seed=2), "worse": noisy(GOLD, 0.6, seed=3)}
    found = compare(BASELINE, systems, [GOLD], ALL, num_shuffles=1000)
    assert [comparison.system for comparison in found] == ["better"] * 4 + ["worse"] * 4
    for comparison in found:
        assert (comparison.delta > 5) == (comparison.system == "better")
        assert values(comparison) == (1 / 1001, 1 / 1001)


def test_two_equally_good_systems() -> None:
    found = compare(BASELINE, {"other": noisy(GOLD, 0.3, seed=4)}, [GOLD], num_shuffles=1000)
    for comparison in found:
        assert comparison.p_bootstrap is not None
        assert comparison.p_bootstrap > 0.05
        assert comparison.p_randomisation is not None
        assert comparison.p_randomisation > 0.1


def test_scores_are_those_of_the_metrics() -> None:
    found = compare(HYPOTHESIS, {"gold": REFERENCE}, [REFERENCE], ALL, num_bootstrap=0, num_shuffles=0)
    expected = [
        corpus_bleu(HYPOTHESIS, [REFERENCE], num_bootstrap=0),
        corpus_chrf(HYPOTHESIS, [REFERENCE], num_bootstrap=0),
        corpus_chrf(HYPOTHESIS, [REFERENCE], words=True, num_bootstrap=0),
        tokenised_bleu(HYPOTHESIS, [REFERENCE], language="en", num_bootstrap=0),
    ]
    for comparison, score in zip(found, expected, strict=True):
        assert comparison.name == score.name
        assert comparison.baseline_score == pytest.approx(score.score)
        assert comparison.score == pytest.approx(100)
        assert comparison.delta == pytest.approx(100 - score.score)
        assert values(comparison) == (None, None)
        assert comparison.signature == f"paired|seed:12345|rela:{__version__}|{score.signature}"


@pytest.mark.parametrize(("share", "seed"), [(0.3, 4), (0.25, 5)])
def test_p_values_are_sacrebleus(share: float, seed: int) -> None:
    other = noisy(GOLD, share, seed)
    found = compare(BASELINE, {"other": other}, [GOLD], num_shuffles=2000)
    theirs: dict[str, list[float | None]] = {}
    for kind, samples in (("bs", 1000), ("ar", 2000)):
        systems: list[tuple[str, Sequence[str]]] = [("baseline", BASELINE), ("other", other)]
        metrics = {"BLEU": BLEU(references=[GOLD]), "CHRF": CHRF(references=[GOLD])}
        results = PairedTest(systems, metrics, None, test_type=kind, n_samples=samples)()[1]
        theirs[kind] = [results[name][1].p_value for name in ("BLEU", "chrF2")]  # pyright: ignore[reportAttributeAccessIssue]
    # The bootstrap draws the same samples; the randomisation draws others.
    assert [comparison.p_bootstrap for comparison in found] == pytest.approx(theirs["bs"], abs=1e-9)
    assert [comparison.p_randomisation for comparison in found] == pytest.approx(theirs["ar"], abs=0.04)


def test_randomisation_approaches_the_exact_test() -> None:
    gold = sentences(6, seed=7)
    first, second = noisy(gold, 0.4, seed=8), noisy(gold, 0.2, seed=9)

    def difference(swaps: tuple[bool, ...]) -> float:
        rows = list(zip(first, second, swaps, strict=True))
        ones, others = [b if s else a for a, b, s in rows], [a if s else b for a, b, s in rows]
        scores = (corpus_chrf(lines, [gold], num_bootstrap=0).score for lines in (ones, others))
        return abs(next(scores) - next(scores))

    observed = difference((False,) * 6)
    exact = [difference(swaps) >= observed - 1e-9 for swaps in itertools.product([False, True], repeat=6)]
    (found,) = compare(first, {"second": second}, [gold], Recipe(metrics=("chrf",)), num_bootstrap=0, num_shuffles=4000)
    assert found.p_randomisation == pytest.approx(sum(exact) / 64, abs=0.02)


def test_a_single_sentence_proves_nothing() -> None:
    (found,) = compare(
        ["a b c d e"], {"b": ["a b c d f"]}, [["a b c d e"]], Recipe(metrics=("bleu",)), num_shuffles=100
    )
    assert found.p_randomisation == 1


def test_the_same_in_every_run() -> None:
    def run() -> list[Comparison]:
        return compare(BASELINE, {"other": noisy(GOLD, 0.25, seed=5)}, [GOLD], num_bootstrap=100, num_shuffles=100)

    assert run() == run()


def test_as_json_with_the_recipe() -> None:
    (found,) = compare(
        HYPOTHESIS, {"b": REFERENCE}, [REFERENCE], Recipe(metrics=("chrf",)), num_bootstrap=40, num_shuffles=9
    )
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["system"] == "b"
    assert found.signature.startswith(f"paired|bs:40|ar:9|seed:12345|rela:{__version__}|chrF2|nrefs:1|")


def test_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr("os.fork", refuse)
    compare(HYPOTHESIS, {"b": REFERENCE, "c": HYPOTHESIS}, [REFERENCE], num_bootstrap=40, num_shuffles=9)


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (REFERENCE[:-1], {}, r"expected 5 lines as in references\[0\], got 4 in 'b'"),
        (REFERENCE, {"num_bootstrap": 1}, "at least 40 bootstrap samples"),
        (REFERENCE, {"num_shuffles": -1}, "number of trials, or 0 .* got -1"),
    ],
)
def test_errors(lines: list[str], options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(HYPOTHESIS, {"b": lines}, [REFERENCE], **options)  # pyright: ignore[reportArgumentType]
