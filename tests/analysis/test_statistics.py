"""From sums to the numbers of results.json: against plain loops, and by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.naive import naive_values
from tests.analysis.weighings import DISTRIBUTIONS, Weighing, allowed_places, make_side, make_weights, weighings
from torch import Tensor

from rela.alignment.pairs import EncodedPair, PairBatch
from rela.analysis.frame import Frame
from rela.analysis.probe import sums_of
from rela.analysis.statistics import DISTANCES, TAUS, Statistics, Values
from rela.analysis.sums import BY_HEAD, BY_LAYER, Sums
from rela.attention.spec import KINDS, Kind

PLAIN = ("sparsity", "null", "mass", "entropy", "sink_first", "sink_last")


def values_of(layers: list[Tensor], kind: Kind, pairs: list[EncodedPair], taus: tuple[float, ...]) -> dict[str, Values]:
    statistics = Statistics(len(layers), layers[0].shape[1], taus)
    for layer, weights in enumerate(layers):
        statistics.add(layer, sums_of(weights, Frame(kind, PairBatch(pairs)), taus))
    return statistics.values()


def made_pairs(*lengths: tuple[int, int]) -> list[EncodedPair]:
    return [
        EncodedPair(line, make_side(source, "words", line), make_side(target, "straddling", line))
        for line, (source, target) in enumerate(lengths, start=1)
    ]


def even_weights(kind: Kind, pairs: list[EncodedPair], num_heads: int) -> Tensor:
    """1 at all places that count."""
    return torch.from_numpy(allowed_places(kind, pairs)).float().repeat(1, num_heads, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["relu", "signed", "eighths", "null", *DISTRIBUTIONS])
def test_values_are_those_of_the_definition(style: str, kind: Kind):
    pairs, taus = made_pairs((6, 9), (11, 3), (0, 0)), () if style in DISTRIBUTIONS else TAUS
    layers = [make_weights(kind, pairs, 4, style, seed, nulls=0.4) for seed in range(3)]
    found, expected = values_of(layers, kind, pairs, taus), naive_values(layers, kind, pairs, taus)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


@settings(max_examples=20)
@given(weighings(most_heads=3), st.data())
def test_batches_add_up_to_one_large_batch(weighing: Weighing, data: st.DataObject):
    """Whatever the company of a sentence is, and however much padding it needs."""
    kind, pairs, weights, taus = weighing
    at_once, by_one = Statistics(2, weights.shape[1], taus), Statistics(2, weights.shape[1], taus)
    at_once.add(1, sums_of(weights, weighing.frame, taus))
    for place in data.draw(st.permutations(range(len(pairs)))):
        frame = Frame(kind, PairBatch([pairs[place]]))
        own = weights[place : place + 1, :, : frame.num_queries, : frame.num_keys]
        by_one.add(1, sums_of(own, frame, taus))
    for name, values in at_once.values().items():
        np.testing.assert_allclose(by_one.values()[name], values, rtol=1e-9, atol=1e-12, err_msg=name)


def test_names_and_shapes():
    values = Statistics(3, 4, TAUS).values()
    assert {name: value.shape for name, value in values.items()} == {
        **dict.fromkeys((*PLAIN, "sparsity.word", "null.word"), (3, 4)),
        **dict.fromkeys((f"{name}.layer" for name in (*PLAIN, "sparsity.word", "null.word")), (3,)),
        **dict.fromkeys((f"{name}.variance" for name in PLAIN), (3,)),
        **dict.fromkeys(("sparsity.layer_attention", "null.layer_attention", "diversity", "diversity.word"), (3,)),
        **dict.fromkeys(("diversity.tau", "diversity.tau.word"), (4, 3)),
        "distance": (3, 4, 21),
        "diversity.mean": (),
        "diversity.tau.mean": (4,),
    }
    without = Statistics(3, 4, ()).values()
    assert values.keys() - without.keys() == {"diversity.tau", "diversity.tau.word", "diversity.tau.mean"}
    assert (len(DISTANCES), DISTANCES[0], DISTANCES[10], DISTANCES[20]) == (21, "<=-10", "0", ">=10")


def test_where_nothing_was_seen_nothing_is_said():
    statistics = Statistics(2, 3, TAUS)
    assert all(np.isnan(value).all() for value in statistics.values().values())
    pairs = made_pairs((2, 2))
    statistics.add(1, sums_of(even_weights("cross", pairs, 3), Frame("cross", PairBatch(pairs)), TAUS))
    for name in (*PLAIN, "sparsity.layer", "entropy.variance", "distance", "diversity", "null.layer_attention"):
        value = statistics.values()[name]
        assert np.isnan(value[0]).all(), name
        assert not np.isnan(value[1]).any(), name


def test_a_head_that_is_always_null():
    """It has a null rate and a mass, but no entropy, sinks or distances: means over heads leave it out there."""
    pairs = made_pairs((3, 2))
    weights = even_weights("cross", pairs, 3) * torch.arange(1, 37).view(3, 3, 4)
    weights[:, 1] = 0
    values = values_of([weights], "cross", pairs, TAUS)
    for name in ("entropy", "sink_first", "sink_last", "distance"):
        assert np.isnan(values[name][0, 1]).all(), name
        assert not np.isnan(values[name][0, [0, 2]]).any(), name
    for name in ("entropy", "sink_first", "sink_last"):
        others = values[name][0, [0, 2]]
        assert values[f"{name}.layer"][0] == pytest.approx(others.mean())
        assert values[f"{name}.variance"][0] == pytest.approx(others.var())
    assert values["null"].tolist() == [[0.0, 1.0, 0.0]]
    assert values["null.layer"] == pytest.approx(1 / 3)
    assert values["null.variance"] == pytest.approx(2 / 9)
    assert values["mass"][0, 1] == 0
    assert values["null.layer_attention"].tolist() == [0.0]


def test_layers_that_are_null_throughout():
    pairs = made_pairs((3, 2))
    values = values_of([torch.zeros(1, 2, 3, 4)], "cross", pairs, TAUS)
    for name in ("entropy.layer", "entropy.variance", "sink_first.layer", "distance"):
        assert np.isnan(values[name]).all(), name
    for name in ("sparsity", "null", "sparsity.word", "null.word", "sparsity.layer_attention", "null.layer_attention"):
        assert (values[name] == 1).all(), name
    assert values["diversity.tau"].tolist() == [[0.0]] * 4  # all in one place of their own


class TestRowsThatCount:
    """BOS and EOS: "the row fed with BOS and the row that predicts EOS are valid queries"."""

    pairs = made_pairs((1, 2), (4, 5))  # the first has padding

    @pytest.mark.parametrize(("kind", "rows", "places"), [("encoder", 7, 29), ("decoder", 9, 27), ("cross", 9, 36)])
    def test_how_many(self, kind: Kind, rows: int, places: int):
        weights = even_weights(kind, self.pairs, 1)
        assert int(weights.sum()) == places
        for row, name in ((0, "fed with BOS"), (2, "predicts EOS")):
            if kind == "encoder" and row == 2:
                continue  # padding
            silenced = weights.clone()
            silenced[0, :, row] = 0
            values = values_of([silenced], kind, self.pairs, TAUS)
            num_silent = int(weights[0, 0, row].sum())
            assert values["null"][0, 0] == pytest.approx(1 / rows), name
            assert values["sparsity"][0, 0] == pytest.approx(num_silent / places), name
            assert values["mass"][0, 0] == pytest.approx((places - num_silent) / rows), name
        padded = weights.clone()
        padded[0, :, 3:] = 5.0
        assert values_of([padded], kind, self.pairs, TAUS)["mass"][0, 0] == pytest.approx(places / rows)

    def test_sinks(self):
        """First: the first key, BOS in the decoder. Last: EOS of the source, or the query itself."""
        values = values_of([even_weights("decoder", self.pairs, 1)], "decoder", self.pairs, TAUS)
        assert values["sink_first"][0, 0] == pytest.approx(9 / 27)
        assert values["sink_last"][0, 0] == pytest.approx(9 / 27)
        weights = even_weights("cross", self.pairs, 1)
        weights[0, :, :, 1] = 3  # EOS of the first source
        values = values_of([weights], "cross", self.pairs, TAUS)
        assert values["sink_last"][0, 0] == pytest.approx((3 * 3 + 6) / (36 + 3 * 2))


def test_entropy_and_diversity_are_means_over_rows():
    pairs = [EncodedPair(1, make_side(3, "one piece"), make_side(2, "one piece"))]
    rows = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0]])
    others = torch.tensor([[0.0, 0.0, 0.5, 0.5], [0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0]])
    values = values_of([torch.stack([rows, others])[None]], "cross", pairs, ())
    np.testing.assert_allclose(values["entropy"], [[math.log(2), math.log(2)]], rtol=1e-6)
    np.testing.assert_allclose(values["diversity"], [math.log(2) / 3], rtol=1e-6)
    np.testing.assert_allclose(values["diversity.word"], [math.log(2) / 3], rtol=1e-6)
    np.testing.assert_allclose(values["diversity.mean"], math.log(2) / 3, rtol=1e-6)


def test_sums_are_kept_by_layer():
    statistics = Statistics(2, 1, ())
    one = Sums(
        torch.ones(1, len(BY_HEAD)), torch.ones(len(BY_LAYER)), torch.ones(1, 21), torch.ones(2, 1), torch.ones(1)
    )
    statistics.add(0, one)
    statistics.add(0, one)
    assert [tensor.unique().tolist() for tensor in statistics.sums] == [[0.0, 2.0]] * 4
    assert all((tensor[1] == 0).all() for tensor in statistics.sums)
