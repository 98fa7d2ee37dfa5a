"""The loop over a corpus: against single sentences, in any windows, and gone on with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.analysis.studies import in_windows, write_corpus, write_lines, write_text
from tests.model.folders import text_model

from rela.alignment.errors import ErrorCounts
from rela.alignment.naive import merged_links
from rela.analysis.corpus import Corpus, Item
from rela.analysis.inspection import Inspection, inspect
from rela.analysis.measuring import Measuring
from rela.analysis.tags import categories


def measured(corpus: Corpus, attention: str = "rela-g", num_hallucinated: int = 0) -> Measuring:
    model, sides = text_model(attention)
    measuring = Measuring(model, corpus, num_hallucinated=num_hallucinated, seed=1)
    measuring.run(sides)
    return measuring


def inspected(corpus: Corpus, attention: str = "rela-g") -> tuple[list[Item], Sequence[Inspection]]:
    model, sides = text_model(attention)
    items = list(corpus.read(sides))
    found = inspect(
        (model, sides), [item.source for item in items], [item.target for item in items], wording=corpus.wording
    )
    return items, found


@pytest.mark.parametrize("attention", ["rela-g", "softmax"])
def test_against_single_sentences(tmp_path: Path, attention: str):
    corpus = write_corpus(tmp_path, 23)
    measuring = measured(corpus, attention)
    items, found = inspected(corpus, attention)
    losses = np.concatenate([one.loss for one in found])
    assert measuring.num_pairs == 23
    assert measuring.pieces.tolist() == [
        sum(len(one.keys["encoder"]) for one in found),
        sum(len(one.queries["decoder"]) for one in found),
    ]
    assert measuring.loss[1] == len(losses)
    assert measuring.loss[0] / measuring.loss[1] == pytest.approx(losses.mean(), rel=1e-5)
    for kind in ("encoder", "decoder", "cross"):
        nulls = np.concatenate([one.null(kind) for one in found], axis=-1)
        np.testing.assert_allclose(measuring.statistics[kind].values()["null"], nulls.mean(-1), atol=1e-12)
    assert measuring.errors is not None
    for shift in ("normal", "shifted"):
        table = measuring.errors.counts(shift, "merged")
        for layer, head in np.ndindex(2, 4):
            counts = ErrorCounts.sum(
                ErrorCounts.of(
                    merged_links(
                        one["cross"][layer, head].astype(np.float64),
                        one.source_word_pieces,
                        one.target_word_pieces,
                        shifted=shift == "shifted",
                    ),
                    item.gold,
                )
                for item, one in zip(items, found, strict=True)
                if item.gold is not None
            )
            assert table.at(layer, head) == counts


def test_null_rates_by_tag(tmp_path: Path):
    corpus = write_corpus(tmp_path, 23)
    measuring = measured(corpus)
    items, found = inspected(corpus)
    assert measuring.tags is not None
    result = measuring.tags.result()
    for category, count, nulls in zip(result.categories, result.counts, result.nulls["cross"], strict=True):
        rows: list[np.ndarray] = []
        for item, one in zip(items, found, strict=True):
            named = categories(one.target_words, item.tags or [])
            null = one.null("cross")
            rows += [null[:, :, 0]] if category == "⟨s⟩" else []
            rows += [
                null[:, :, pieces[-1] + 1]
                for pieces, words in zip(one.target_word_pieces, named, strict=True)
                if category in words
            ]
        assert count == len(rows)
        np.testing.assert_array_equal(nulls, np.sum(rows, axis=0))


def state_of(measuring: Measuring) -> dict[str, np.ndarray]:
    return {name: array for name, array in measuring.state().items() if name not in ("cost", "progress")}


def test_windows_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    corpus = write_corpus(tmp_path, 23)
    whole = state_of(measured(corpus))
    in_windows(monkeypatch, 4)
    parts = state_of(measured(corpus))
    assert whole.keys() == parts.keys()
    for name, array in whole.items():
        if name.startswith("tags"):  # in the order in which they were met
            assert sorted(array.ravel().tolist()) == sorted(parts[name].ravel().tolist())
        else:
            np.testing.assert_allclose(parts[name], array, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("after", [1, 3])
def test_gone_on_with_is_the_same_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int):
    in_windows(monkeypatch, 5)
    corpus = write_corpus(tmp_path, 23)
    whole = state_of(measured(corpus, num_hallucinated=12))
    model, sides = text_model()
    first = Measuring(model, corpus, num_hallucinated=12, seed=1)
    seen: list[int] = []

    def stop(window: list[Item]) -> None:
        seen.append(len(window))
        if len(seen) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(sides, after_window=stop)
    np.savez(tmp_path / "state.npz", allow_pickle=False, **first.state())
    second = Measuring(model, corpus, num_hallucinated=12, seed=1)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as archive:
        second.restore({name: archive[name] for name in archive.files})
    told: list[int] = []
    second.run(sides, see_window=lambda window: told.append(len(window)), after_window=lambda w: seen.append(len(w)))
    assert (told, seen) == ([5, 5, 5, 5, 3], [5, 5, 5, 5, 3])
    for name, array in state_of(second).items():
        np.testing.assert_array_equal(array, whole[name], err_msg=name)


def test_cost_is_measured_and_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    corpus = replace(write_corpus(tmp_path, 40), gold=None, tags=None)
    assert measured(corpus).cost.ratio is None  # a single batch, the first
    in_windows(monkeypatch, 2)
    measuring = measured(corpus)
    assert measuring.cost.ratio is not None
    assert len(measuring.cost.plain) == len(measuring.cost.probed) == 8
    monkeypatch.setattr("rela.analysis.measuring._TIMED_AT_MOST", 3)
    assert len(measured(corpus).cost.plain) == 3


def test_one_pair_and_signs_alone(tmp_path: Path):
    """A line without words for people is a line with pieces for the model."""
    corpus = write_text(tmp_path, [("dog", "\u200b"), ("\u200b", "Hund")])
    measuring = measured(corpus)
    assert measuring.num_pairs == 2
    assert np.isfinite(measuring.loss).all()
    write_lines(tmp_path / "test.en", ["dog"])
    for name in ("test.de", "test.sure", "test.possible"):
        write_lines(tmp_path / name, [""] if name != "test.de" else ["Hund"])
    write_lines(tmp_path / "test.tags.de", ["NOUN"])
    assert measured(corpus).num_pairs == 1
