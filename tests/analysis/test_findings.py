"""Findings: heads that switch by words, remarkable measures, and what is said about them."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.analysis.finding import Finding, most_interesting, number, percent
from rela.analysis.findings import after, other_findings, specialists, wilson
from rela.analysis.tags import START, TaggedNulls


def tagged(rates: dict[str, tuple[int, float]], elsewhere: tuple[int, float], **others: Any) -> TaggedNulls:
    """One cross head (layer 2, head 1 of 3 x 2) with these null rates; all others are never null."""
    names = sorted(rates)
    nulls = np.zeros((len(names), 3, 2), np.int64)
    for place, name in enumerate(names):
        nulls[place, 2, 1] = round(math.prod(rates[name]))
    every = np.zeros((3, 2), np.int64)
    every[2, 1] = nulls[:, 2, 1].sum() + round(math.prod(elsewhere))
    counts = np.array([rates[name][0] for name in names])
    return TaggedNulls(
        names, counts, int(counts.sum()) + elsewhere[0], {others.get("kind", "cross"): nulls},
        {others.get("kind", "cross"): every},
    )  # fmt: skip


class TestSpecialists:
    def test_fires_after_commas(self):
        (found,) = specialists(tagged({"PUNCT ,": (500, 0.02), "NOUN": (1000, 0.95)}, (1000, 0.93)))
        assert found.text == "Layer 3 head 1 (cross) fires after commas: null 2% there, 94% elsewhere."
        assert (found.kind, found.layer, found.head, found.category) == ("cross", 2, 1, "PUNCT ,")
        assert 0.8 < found.strength < 0.92
        assert found.to_json() == {
            "text": found.text,
            "strength": round(found.strength, 4),
            "sort": "specialist",
            "kind": "cross",
            "layer": 3,
            "head": 1,
            "category": "PUNCT ,",
            "sentence": None,
        }

    @pytest.mark.parametrize(
        ("there", "elsewhere", "text"),
        [
            (0.97, 0.1, "is silent after nouns: null 97% there, 10% elsewhere."),
            (0.4, 0.0, "is silent more often after nouns: null 40% there, 0% elsewhere."),
            (0.6, 0.99, "fires more often after nouns: null 60% there, 99% elsewhere."),
            (0.0, 0.3, "fires more often after nouns: null 0% there, 30% elsewhere."),
        ],
    )
    def test_verbs(self, there: float, elsewhere: float, text: str):
        (found,) = specialists(tagged({"NOUN": (1000, there)}, (1000, elsewhere)))
        assert found.text == f"Layer 3 head 1 (cross) {text}"

    def test_few_rows_and_small_gaps_are_nothing(self):
        assert specialists(tagged({"NOUN": (10, 0.0)}, (1000, 0.95))) == []
        assert specialists(tagged({"NOUN": (1000, 0.5)}, (1000, 0.6))) == []
        rare = specialists(tagged({"NOUN": (30, 0.0)}, (1000, 0.95)))[0].strength
        common = specialists(tagged({"NOUN": (1000, 0.0)}, (1000, 0.95)))[0].strength
        assert rare < common - 0.1

    def test_ends_of_sentences_count_less(self):
        (found,) = specialists(tagged({START: (500, 0.0), "VERB": (500, 0.2)}, (4000, 0.95)))
        assert found.category == "VERB"
        (only,) = specialists(tagged({START: (500, 0.0)}, (1000, 0.95)))
        assert only.text == "Layer 3 head 1 (cross) fires at the start of a sentence: null 0% there, 95% elsewhere."
        assert only.strength < 0.6
        assert specialists(tagged({START: (500, 0.0)}, (1000, 0.95), kind="decoder")) == []

    @given(st.integers(1, 500), st.data())
    def test_wilson(self, trials: int, data: st.DataObject):
        successes = data.draw(st.integers(0, trials))
        low, high = (float(end) for end in wilson(np.array(successes), np.array(trials)))
        rate = successes / trials
        assert -1e-12 <= low <= rate + 1e-12
        assert rate - 1e-12 <= high <= 1 + 1e-12
        for end in (low, high):  # its definition: the rates that are so many deviations away
            assert (rate - end) ** 2 == pytest.approx(9 * end * (1 - end) / trials, abs=1e-9)

    def test_names(self):
        assert after("PUNCT ;") == "after semicolons"
        assert after("PUNCT »") == "after '»'"
        assert after("FOO") == "after words tagged FOO"


def measure(value: Any, **labels: list[str]) -> dict[str, Any]:
    return {"signature": "s", "axes": [], "labels": labels, "value": value}


DISTANCES = ["<=-2", "-1", "0", "1", ">=2"]


class TestOtherFindings:
    @pytest.mark.parametrize(
        ("measures", "text", "place"),
        [
            (
                {
                    "hallucinated.auc.mean": measure(0.97),
                    "hallucinated.null.real": measure([0.2, 0.4]),
                    "hallucinated.null.shuffled": measure([0.5, 0.7]),
                    "hallucinated.pairs": measure([400, 400]),
                },
                "Wrong targets show: with targets shuffled between sentences, 60% of the cross-attention rows are "
                "null, with the right ones 30%. Of a right and a wrong pair, the wrong one has the higher null rate "
                "in 97% of the cases (the AUC).",
                ("cross", None, None),
            ),
            (
                {
                    "cross.aer.normal.merged": measure([[0.5, 0.4]]),
                    "cross.aer.shifted.merged": measure([[0.5, None], [0.9, 0.18]]),
                },
                "Layer 2 head 1 (cross) aligns words best of all heads: alignment error rate 18%, with a word linked "
                "by the row that has it as its input (shifted, merged).",
                ("cross", 1, 1),
            ),
            (
                {"cross.sparsity": measure([[0.9, 1.0]]), "encoder.sparsity": measure([[0.5, 0.6]])},
                "Cross-attention is the sparsest kind: on average over its heads, 95% of the weights are exactly zero "
                "(encoder 55%).",
                ("cross", None, None),
            ),
            (
                {"cross.null": measure([[0.0, 0.99], [0.3, 0.01]])},
                "Of 4 heads of cross-attention, 2 are null at 5% of the rows or fewer and 1 at 95% or more; the most, "
                "99%, is that of layer 1 head 1.",
                ("cross", 0, 1),
            ),
            (
                {"encoder.sink_last": measure([[0.1, 0.2], [0.91, 0.3]])},
                "Layer 2 head 0 (encoder) is a sink: 91% of its weight goes to the end of the sentence (EOS).",
                ("encoder", 1, 0),
            ),
            (
                {"encoder.distance": measure([[[0.9, 0.05, 0.05, 0, 0]], [[0, 0.83, 0.1, 0.07, 0]]],
                                             distance=DISTANCES)},
                "Layer 2 head 0 (encoder) looks at the piece before: 83% of its weight is there.",
                ("encoder", 1, 0),
            ),
            (
                {
                    "cross.ablation.null": measure([[0.002, None], [0.0, 0.0]]),
                    "cross.ablation.active": measure([[0.2, 0.5], [0.4, None]]),
                },
                "Null means switched off: silencing one head of cross-attention costs 0.30 nats a piece where it is "
                "active, and 0.0010 where it is null, 300 times less (mean over the 2 heads that are both at times).",
                ("cross", None, None),
            ),
            (
                {"decoder.ablation": measure([[0.1, 1.25]]), "loss": measure(1.5)},
                "Layer 1 head 1 (decoder) matters most of its kind: without it the loss rises from 1.50 to 2.75 nats a "
                "piece.",
                ("decoder", 0, 1),
            ),
        ],
        ids=["hallucination", "alignment", "sparsity", "switches", "sink", "distance", "causality", "ablation"],
    )  # fmt: skip
    def test_texts(self, measures: dict[str, Any], text: str, place: tuple[Any, ...]):
        (found,) = other_findings(measures)
        assert found.text == text
        assert (found.kind, found.layer, found.head) == place
        assert 0 < found.strength <= 1

    @pytest.mark.parametrize(("null", "text"), [(0.0, "nothing"), (-0.02, "gains 0.020")])
    def test_silencing_that_costs_nothing(self, null: float, text: str):
        measures = {"cross.ablation.null": measure([[null]]), "cross.ablation.active": measure([[0.2]])}
        (found,) = other_findings(measures)
        assert f"costs 0.20 nats a piece where it is active, and {text} where it is null (the one head " in found.text

    def test_diversity(self):
        own = {"encoder.diversity.mean": measure(1.26), "cross.diversity.mean": measure(0.3)}
        others = {
            "softmax": {"encoder.diversity.mean": measure(0.56), "cross.diversity.mean": measure(0.4)},
            "entmax15": {"encoder.diversity.mean": measure(0.84), "cross.diversity.mean": measure(None)},
        }
        (found,) = other_findings(own, others)
        assert found.text == (
            "Its encoder heads disagree the most: diversity 1.3 nats, against 0.84 of entmax15, the next."
        )
        assert other_findings(own) == []
        alone = {"softmax": {"encoder.diversity.mean": measure(7.7e-8)}}  # its one head, up to rounding
        assert other_findings(own, alone) == []

    @pytest.mark.parametrize(
        "measures",
        [
            {},
            {"cross.null": measure([[0.0, 0.0]]), "cross.sparsity": measure([[0.0, 1e-6]])},  # softmax
            {"hallucinated.auc.mean": measure(0.5), "hallucinated.null.real": measure([0.0]),
             "hallucinated.null.shuffled": measure([0.0])},
            {"hallucinated.auc.mean": measure(0.7), "hallucinated.null.real": measure([0.2]),  # by chance
             "hallucinated.null.shuffled": measure([0.3]), "hallucinated.pairs": measure([10, 10])},
            {"hallucinated.auc.mean": measure(0.7), "hallucinated.null.real": measure([0.3]),  # long pairs say no
             "hallucinated.null.shuffled": measure([0.2]), "hallucinated.pairs": measure([900, 900])},
            {"cross.ablation.null": measure([[None]]), "cross.ablation.active": measure([[0.1]])},
            {"cross.ablation.null": measure([[0.2]]), "cross.ablation.active": measure([[0.3]])},
            {"cross.aer.normal.any": measure([[None, None]])},
            {"decoder.distance": measure([[[0.9, 0.05, 0.05, 0, 0]]], distance=DISTANCES)},
        ],
    )  # fmt: skip
    def test_nothing_remarkable(self, measures: dict[str, Any]):
        assert other_findings(measures) == []


def test_most_interesting():
    found = [
        Finding(text=text, strength=strength, sort=sort)
        for text, strength, sort in [
            ("a", 0.5, "x"),
            ("b", 0.9, "y"),
            ("c", 0.8, "y"),
            ("d", 0.1, "z"),
            ("e", 0.2, "w"),
        ]
    ]
    for order in itertools.permutations(found):
        assert [finding.text for finding in most_interesting(order)] == ["b", "a", "e"]
    assert [finding.text for finding in most_interesting(found, 9)] == ["b", "a", "e", "d"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1, "100%"), (0.02, "2%"), (0.0003, "0.03%"), (0.996, "99.6%"), (0.9996, "99.96%"),
     (1e-9, "under 0.001%"), (1 - 1e-9, "over 99.999%"), (0.834, "83%")],
)  # fmt: skip
def test_percent(share: float, text: str):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0421, "0.042"), (1.44, "1.4"), (1432, "1,400"), (-0.0001234, "-0.00012"), (9.99, "10")],
)
def test_number(value: float, text: str):
    assert number(value) == text
