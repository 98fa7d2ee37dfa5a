"""Aligning beside a plain forward pass."""

import pytest
from tests.model.folders import WORDS, text_model, tokenizers
from tests.model.small import random_model, small_config

from rela.alignment.choice import Choice
from rela.bench.align import compare_aligning
from rela.model.config import SIZES

PAIRS = [(" ".join(WORDS[place:] + WORDS[:9]), " ".join(WORDS[: 20 - place] + WORDS[:9])) for place in range(9)]


def test_runs():
    speed = compare_aligning(*text_model(), PAIRS[:3], rounds=3)
    assert 0 < speed.low <= speed.median <= speed.high
    assert speed.rounds == 3


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["rela-g", "softmax"])
def test_no_slower_than_1_3_forward_passes(attention: str):
    """A model of the size `small`, its last layer, so that nothing is left out."""
    sides = tokenizers()
    config = small_config(
        attention,
        source_vocabulary=sides.source.size,
        target_vocabulary=sides.target.size,
        **SIZES["small"],
    )
    speed = compare_aligning(random_model(config), sides, PAIRS * 6, Choice(2, True, 0), rounds=9)
    assert 1 / speed.median <= 1.3
