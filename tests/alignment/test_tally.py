"""Errors of all layers and heads, counted in batches: the same as counting sentence by sentence."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.alignment.made import Made, made_batches

from rela.alignment import naive
from rela.alignment.batched import RULES, SHIFTS
from rela.alignment.errors import ErrorCounts, GoldLinks
from rela.alignment.native import count_links, native_library
from rela.alignment.tally import AlignmentErrors, GoldBatch, plain_counts

BY_RULE = {"merged": naive.merged_links, "any": naive.any_links}


def counted(made: Made, layers: int = 1) -> AlignmentErrors:
    errors = AlignmentErrors(layers, 2)
    for layer in range(layers):
        weights = torch.from_numpy(made.padded()) * (-1) ** layer
        errors.add(layer, weights, made.batch, GoldBatch.from_links(made.gold, made.batch))
    return errors


@given(made_batches())
def test_equals_loops(made: Made):
    errors = counted(made, layers=2)
    for shift in SHIFTS:
        for rule in RULES:
            table = errors.counts(shift, rule)
            assert table.found.shape == (2, 3)
            for layer in range(2):
                for head in range(3):
                    expected = ErrorCounts()
                    for pair, all_weights, gold in zip(made.batch.pairs, made.weights, made.gold, strict=True):
                        weights = all_weights * (-1) ** layer
                        chosen = weights.mean(0) if head == 2 else weights[head]
                        words = pair.source.word_pieces, pair.target.word_pieces
                        links = BY_RULE[rule](chosen, *words, shifted=shift == "shifted")
                        expected = ErrorCounts.sum([expected, ErrorCounts.of(links, gold)])
                    assert table.at(layer, head) == expected


@given(st.lists(made_batches(), min_size=2, max_size=3))
def test_parts_add_up(made: list[Made]):
    together, merged = AlignmentErrors(1, 2), AlignmentErrors(1, 2)
    for one in made:
        together.add(0, torch.from_numpy(one.padded()), one.batch, GoldBatch.from_links(one.gold, one.batch))
        merged.merge(counted(one))
    for shift in SHIFTS:
        for rule in RULES:
            for ours, theirs in zip(together.counts(shift, rule), merged.counts(shift, rule), strict=True):
                np.testing.assert_array_equal(ours, theirs)


@given(made_batches())
def test_gold(made: Made):
    gold = GoldBatch.from_links(made.gold, made.batch)
    for tensor, links in zip(gold, zip(*made.gold, strict=True), strict=True):
        assert int(tensor.sum()) == sum(len(some) for some in links)
    assert bool((gold.possible >= gold.sure).all())


@given(made_batches())
def test_a_link_outside_names_the_line(made: Made):
    pair = made.batch.pairs[-1]
    outside = (len(pair.source.words), 0)
    links = [*made.gold[:-1], GoldLinks([], [outside])]
    with pytest.raises(ValueError, match=f"line {pair.line}: expected links of {len(pair.source.words)} source words"):
        GoldBatch.from_links(links, made.batch)


def test_other_heads():
    with pytest.raises(ValueError, match="expected 3 heads"):
        AlignmentErrors(1, 3).add(0, torch.zeros(1, 2, 1, 1), None, None)  # pyright: ignore[reportArgumentType]


@given(made_batches(), st.integers(1, 3))
def test_the_compiled_way_equals_the_plain_one(made: Made, num_threads: int):
    library = native_library()
    assert library is not None
    gold = GoldBatch.from_links(made.gold, made.batch)
    weights = torch.from_numpy(made.padded())
    turned = weights.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)  # the same, with other strides
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        found = [count_links(library, one, made.batch, *gold) for one in (weights, turned)]
    finally:
        torch.set_num_threads(before)
    for one in found:
        np.testing.assert_array_equal(one, plain_counts(weights, made.batch, gold))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rela.alignment.tally.native_library", lambda: None)
    test_equals_loops()
