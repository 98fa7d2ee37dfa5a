"""Decoding by source length: the groups, and that all models do the same work."""

from pathlib import Path

import pytest
from tests.model.folders import WORDS, tokenizers

from rela.bench.forcing import random_model
from rela.bench.length import Decoder, EncodedPair, by_source_length, measure_lengths
from rela.bench.results import Points, check, document
from rela.bench.texts import read_text_pairs

PAIRS = [(" ".join(WORDS[: 1 + place % 7]), " ".join(WORDS[: 2 + place % 7])) for place in range(21)]


def pairs(*lengths: int) -> list[EncodedPair]:
    return [EncodedPair([5] * length, length) for length in lengths]


def test_ten_groups_of_equal_size() -> None:
    groups = by_source_length(pairs(*range(100, 0, -1)))
    assert [group.label for group in groups] == [f"{10 * n + 1}-{10 * n + 10}" for n in range(10)]
    assert all(len(group.pairs) == 10 for group in groups)


def test_sentences_of_one_length_stay_together() -> None:
    groups = by_source_length(pairs(*[3] * 50, *range(4, 54)))
    assert groups[0].label == "3"
    assert len(groups[0].pairs) == 50
    assert sum(len(group.pairs) for group in groups) == 100
    assert len({group.label for group in groups}) == len(groups)


def decoders(*names: str) -> list[Decoder]:
    sides = tokenizers()
    return [Decoder(name=name, model=random_model(name, "tiny", sides.target.size), tokenizers=sides) for name in names]


@pytest.mark.parametrize("forced", [True, False])
def test_speed_beside_softmax(forced: bool) -> None:
    points = Points(None, resume=False)
    entries = measure_lengths(
        decoders("softmax", "rela-g"), PAIRS[:3], beam=2, forced=forced, rounds=3, recipe="words", points=points
    )
    check(document("length", {}, entries))
    softmax, rela = (entry["measures"]["decode.speed"] for entry in entries)
    assert softmax["axes"] == ["length"]
    assert softmax["value"] == [1.0] * len(softmax["labels"]["length"])
    assert all(value > 0 for value in rela["value"])
    assert entries[1]["measures"]["decode.speed.mean"]["value"] > 0
    assert f"forced:{'yes' if forced else 'no'}" in rela["signature"]


def test_softmax_must_be_there() -> None:
    points = Points(None, resume=False)
    with pytest.raises(ValueError, match="expected softmax among"):
        measure_lengths(decoders("rela-g"), PAIRS, beam=2, forced=True, rounds=3, recipe="words", points=points)


def test_files_without_a_pair(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="at least one sentence pair"):
        read_text_pairs(tmp_path / "a.en", tmp_path / "a.de", 5)
