"""Numbers as results.json has them; groups of models, against plain formulas."""

import json
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.analysis.results import grouped, measure, plain

finite = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.one_of(finite, st.just(float("nan")), st.just(float("inf"))), min_size=1, max_size=9))
def test_plain_numbers(values: list[float]):
    found = plain(np.array(values))
    json.dumps(found, allow_nan=False)
    for value, number in zip(values, found, strict=True):
        assert number is None if not np.isfinite(value) else number == pytest.approx(value, rel=1e-6)


def test_measure():
    found = measure(np.array([[0.5, np.nan]]), ("layer", "head"), "x|y")
    assert found == {"signature": "x|y", "axes": ["layer", "head"], "labels": {}, "value": [[0.5, None]]}
    assert measure(3, (), "n")["value"] == 3.0


def model(name: str, group: str, **measures: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "group": group, "measures": measures}


def number(value: Any, signature: str = "s", labels: dict[str, list[str]] | None = None) -> dict[str, Any]:
    return measure(np.array(value, np.float64), ("layer",), signature, labels)


class TestGroups:
    @given(st.lists(st.tuples(finite, finite), min_size=2, max_size=5))
    def test_mean_and_sample_deviation(self, values: list[tuple[float, float]]):
        models = [model(f"m{place}", "g", x=number(value)) for place, value in enumerate(values)]
        [group] = grouped(models)
        assert group["models"] == [found["name"] for found in models]
        for layer in range(2):
            column = [found["measures"]["x"]["value"][layer] for found in models]
            assert group["measures"]["x"]["mean"][layer] == pytest.approx(statistics.mean(column), rel=1e-5, abs=1e-3)
            spread = group["measures"]["x"]["spread"][layer]
            assert spread == pytest.approx(statistics.stdev(column), rel=1e-5, abs=1e-3)

    def test_one_model_has_no_spread(self):
        [group] = grouped([model("m", "g", x=number([1, 2]))])
        assert group["measures"]["x"] == {
            "signature": "s",
            "axes": ["layer"],
            "labels": {},
            "mean": [1.0, 2.0],
            "spread": None,
        }

    def test_nothing_to_measure_stays_nothing(self):
        [group] = grouped([model("a", "g", x=number([1, np.nan])), model("b", "g", x=number([3, 2]))])
        assert group["measures"]["x"]["mean"] == [2.0, None]
        assert group["measures"]["x"]["spread"] == [pytest.approx(2**0.5, rel=1e-6), None]

    def test_only_what_all_have_with_the_same_labels(self):
        first = model("a", "g", x=number([1], labels={"tag": ["A"]}), y=number([1]), z=number([1]))
        second = model("b", "g", x=number([1], labels={"tag": ["B"]}), z=number([2]))
        [group] = grouped([first, second])
        assert list(group["measures"]) == ["z"]

    @pytest.mark.parametrize("seeds", [1, 2])
    @pytest.mark.parametrize("axes", [("layer", "head"), ("tag", "layer", "head")])
    def test_single_heads_are_not_averaged(self, axes: tuple[str, ...], seeds: int):
        heads = measure(np.zeros((2,) * len(axes)), axes, "s")
        models = [model(f"m{place}", "g", heads=heads, x=number([1, 2])) for place in range(seeds)]
        [group] = grouped(models)
        assert list(group["measures"]) == ["x"]

    def test_groups_in_their_order(self):
        found = grouped([model("a", "x"), model("b", "y"), model("c", "x")])
        assert [(group["name"], group["models"]) for group in found] == [("x", ["a", "c"]), ("y", ["b"])]

    def test_signatures_in_one(self):
        signatures = "null|pairs:3|model:r seed 1|v1", "null|pairs:3|model:r seed 2|v1"
        first, second = (model(str(place), "g", x=number([1], one)) for place, one in enumerate(signatures))
        [group] = grouped([first, second])
        assert group["measures"]["x"]["signature"] == "null|pairs:3|model:r seed 1,r seed 2|v1"
