"""Whole corpora: the same scores for any number of workers, nothing lost or doubled when killed, nothing vanishes."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.filtering.scoring import made_pairs, make_scorer
from tests.training.helpers import kill_at, run_process

from rela.filtering.corpus import NoCalibrationError, ScoredCorpus, ScoreOptions, score_corpus, score_stream
from rela.filtering.kept import KeptScores
from rela.filtering.scorer import Scorer
from rela.filtering.scores import COLUMNS
from rela.filtering.splitting import Rule, split_corpus
from rela.filtering.summary import summarise
from rela.filtering.survey import look_through
from rela.filtering.writing import as_jsonl, as_table, as_tsv, empty_table
from rela.text.readers import PairSource
from rela.text.rows import RowWindow, read_windows

BAD = [b"only one", b"", b"\xff\tx", b"x\t", b"long " * 3000 + b"\ty", b"dog\t" + b"Hund " * 1100]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    make_scorer(folder)
    return folder


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crawl") / "crawl.tsv"
    lines = [f"{source}\t{target}".encode() for source, target in made_pairs(210, seed=11)]
    for number, bad in enumerate(BAD):
        lines.insert(number * 31, bad)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def options(model: Path, path: Path, **changes: Any) -> ScoreOptions:
    return replace(ScoreOptions(model=model, source=PairSource.tsv(path), calibrate_on="model", window=40), **changes)


def quietly(*_: object) -> None: ...


def text_of(scored: ScoredCorpus) -> bytes:
    return b"".join(as_tsv(window, scores) for window, scores in scored.windows())


def test_workers_do_not_change_a_byte(model: Path, crawl: Path, tmp_path: Path):
    one = score_corpus(options(model, crawl, spans=True), tmp_path / "1", quietly)
    two = score_corpus(options(model, crawl, spans=True, workers=2), tmp_path / "2", quietly)
    assert text_of(one) == text_of(two)
    assert one.speed.pairs == 210
    assert one.speed.share is not None


def test_a_stream_has_the_same_scores(model: Path, crawl: Path, tmp_path: Path):
    whole = score_corpus(options(model, crawl), tmp_path / "scores", quietly)
    streamed = b"".join(as_tsv(*both) for both in score_stream(options(model, crawl), quietly))
    assert streamed == text_of(whole)


def test_rows_come_out_as_they_went_in(model: Path, crawl: Path, tmp_path: Path):
    lines = text_of(score_corpus(options(model, crawl), tmp_path / "scores", quietly)).split(b"\n")[:-1]
    rows = crawl.read_bytes().split(b"\n")[:-1]
    scorer = Scorer.load(model)
    problems: Counter[str] = Counter()
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row + b"\t")
        *values, problem = line[len(row) + 1 :].split(b"\t")
        assert len(values) == len(COLUMNS)
        problems[problem.decode()] += 1
        if not problem:
            source, target = row.decode().split("\t")
            (expected,) = scorer.score([(source, target)])
            found = [float(value) for value in values]
            np.testing.assert_allclose(found, [getattr(expected, name) for name in COLUMNS], rtol=1e-3, atol=1e-4)
        else:
            assert set(values) == {b""}
    assert problems == {
        "": 210,
        "bad-record": 2,
        "invalid-utf8": 1,
        "empty-target": 1,
        "too-long": 1,
        "too-many-pieces": 1,
    }


class TestResuming:
    def test_killed_at_any_moment(self, model: Path, crawl: Path, tmp_path: Path):
        whole = text_of(score_corpus(options(model, crawl), tmp_path / "whole", quietly))
        for moment in (1, 3):
            assert run_process(_killed, model, crawl, tmp_path / "cut", moment) == -9
        scored = score_corpus(options(model, crawl), tmp_path / "cut", quietly)
        assert scored.speed.pairs == 210 - 77  # three rows of the first two windows are bad
        assert text_of(scored) == whole

    def test_nothing_is_scored_twice(self, model: Path, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        score_corpus(options(model, crawl), tmp_path / "scores", quietly).kept.close()
        monkeypatch.setattr(Scorer, "score_window", None)  # would fail
        assert score_corpus(options(model, crawl), tmp_path / "scores", quietly).speed.pairs == 0

    def test_quality_is_learned_once(self, model: Path, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        learning = options(model, crawl, calibrate_on="input")
        first = score_corpus(learning, tmp_path / "scores", quietly)
        first.kept.close()
        with monkeypatch.context() as patched:
            patched.setattr(Scorer, "calibrated", None)  # would fail
            again = score_corpus(learning, tmp_path / "scores", quietly)
            again.kept.close()
        assert again.calibration.to_json() == first.calibration.to_json()
        (tmp_path / "scores" / "calibration.json").write_text("{")  # damaged: learned again, and the same
        third = score_corpus(learning, tmp_path / "scores", quietly)
        assert third.calibration.to_json() == first.calibration.to_json()
        third.kept.close()
        fourth = score_corpus(replace(learning, seed=2), tmp_path / "scores", quietly)
        assert fourth.calibration.to_json() != first.calibration.to_json()
        assert fourth.speed.pairs == 210

    @pytest.mark.parametrize("change", ["input", "options"])
    def test_another_recipe_begins_anew(self, model: Path, crawl: Path, tmp_path: Path, change: str):
        copy = tmp_path / "copy.tsv"
        copy.write_bytes(crawl.read_bytes())
        score_corpus(options(model, copy), tmp_path / "scores", quietly).kept.close()
        if change == "input":
            copy.write_bytes(crawl.read_bytes().replace(b"dog", b"cat"))
        scored = score_corpus(options(model, copy, spans=change == "options"), tmp_path / "scores", quietly)
        assert scored.speed.pairs == 210

    def test_a_damaged_file(self, model: Path, crawl: Path, tmp_path: Path):
        scored = score_corpus(options(model, crawl), tmp_path / "scores", quietly)
        (kept,) = (tmp_path / "scores" / "000000").glob("000000001.npz")
        kept.write_bytes(kept.read_bytes()[:100])
        with pytest.raises(
            ValueError, match=r"000000001\.npz: expected scores of a window, got a damaged file; delete"
        ):
            text_of(scored)
        scored.kept.close()

    def test_two_at_once(self, model: Path, crawl: Path, tmp_path: Path):
        scored = score_corpus(options(model, crawl), tmp_path / "scores", quietly)
        with pytest.raises(BlockingIOError, match="got another process at it"):
            score_corpus(options(model, crawl), tmp_path / "scores", quietly)
        scored.kept.close()


def _killed(model: Path, crawl: Path, folder: Path, moment: int) -> None:
    KeptScores.save = kill_at(KeptScores.save, moment)
    score_corpus(options(model, crawl), folder, quietly)


class TestCalibration:
    def test_of_the_input(self, model: Path, crawl: Path, tmp_path: Path):
        scored = score_corpus(options(model, crawl, calibrate_on="input"), tmp_path / "scores", quietly)
        known = Scorer.load(model).calibration
        assert known is not None
        assert scored.calibration.quality.num_pairs == 210
        assert scored.calibration.to_json() != known.to_json()

    def test_too_few_pairs_take_the_models(self, model: Path, crawl: Path, tmp_path: Path):
        scored = score_corpus(options(model, crawl, calibrate_on=None), tmp_path / "scores", quietly)
        known = Scorer.load(model).calibration
        assert known is not None
        assert scored.calibration.to_json() == known.to_json()

    def test_too_few_for_any(self, model: Path, tmp_path: Path):
        (tmp_path / "few.tsv").write_bytes(b"a\tb\nc\td\n")
        with pytest.raises(NoCalibrationError, match=r"expected at least 50 pairs .* got 2; calibrate on more"):
            score_corpus(options(model, tmp_path / "few.tsv", calibrate_on="input"), tmp_path / "scores", quietly)

    def test_the_sample_is_of_all_parts(self, tmp_path: Path):
        lines = [f"{number}\t{number}" for number in range(5000)]
        (tmp_path / "in.tsv").write_text("\n".join(lines) + "\n")
        survey = look_through(read_windows(PairSource.tsv(tmp_path / "in.tsv")), size=500)
        numbers = [int(source) for source, _ in survey.sample]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == 500
        assert np.histogram(numbers, 5, (0, 5000))[0].min() > 60
        assert (survey.num_rows, survey.num_windows, survey.num_good) == (5000, 3, 5000)


class TestSplitting:
    @pytest.mark.parametrize(
        ("rule", "kept"),
        [
            (Rule(keep=0.8), 168),
            (Rule(keep=0.0), 0),
            (Rule(keep=1.0), 210),
            (Rule(top=17), 17),
            (Rule(top=10_000), 210),
            (Rule(threshold=-1), 210),
            (Rule(threshold=2), 0),
            (Rule(by="cross_entropy", top=50), 50),
        ],
    )
    def test_nothing_vanishes(self, model: Path, crawl: Path, tmp_path: Path, rule: Rule, kept: int):
        scored = score_corpus(options(model, crawl), tmp_path / "scores", quietly)
        found = split_corpus(scored, rule, tmp_path)
        assert (found.num_kept, found.num_rejected, found.num_malformed) == (kept, 210 - kept, 6)
        lines = (tmp_path / "kept.tsv").read_bytes().split(b"\n")[:-1]
        rejected = [line.split(b"\t", 2) for line in (tmp_path / "rejected.tsv").read_bytes().split(b"\n")[:-1]]
        rows = crawl.read_bytes().split(b"\n")[:-1]
        assert Counter([*lines, *(row for _, _, row in rejected)]) == Counter(rows)
        assert Counter(reason.decode() for reason, *_ in rejected) == found.reasons
        place = iter(rows)
        assert all(line in place for line in lines)  # in their order

    def test_the_best_are_kept(self, model: Path, crawl: Path, tmp_path: Path):
        scored = score_corpus(options(model, crawl), tmp_path / "scores", quietly)
        for by in ("quality", "null_rate"):
            found = split_corpus(scored, Rule(by=by, keep=0.5), tmp_path)
            values = np.concatenate(list(scored.kept.column(by, scored.survey.num_windows)))
            values = np.sort(values[~np.isnan(values)])
            assert found.limit == values[-105 if by == "quality" else 104]

    @pytest.mark.parametrize("wrong", [{}, {"keep": 0.5, "top": 3}, {"keep": 2.0}, {"top": -1}])
    def test_wrong_rules(self, wrong: dict[str, Any]):
        with pytest.raises(ValueError, match="expected"):
            Rule(**wrong)
        with pytest.raises(ValueError, match="by: expected one of"):
            Rule(by="length_ratio", keep=0.5)

    def test_a_changed_input_is_noticed(self, model: Path, crawl: Path, tmp_path: Path):
        copy = tmp_path / "copy.tsv"
        copy.write_bytes(crawl.read_bytes())
        scored = score_corpus(options(model, copy), tmp_path / "scores", quietly)
        copy.write_bytes(b"".join(line + b"\n" for line in crawl.read_bytes().split(b"\n")[:-3]))
        with pytest.raises((RuntimeError, ValueError)):
            split_corpus(scored, Rule(keep=0.5), tmp_path)


class TestFormats:
    def pairs_files(self, folder: Path, crawl: Path, kind: str) -> PairSource:
        lines = [line.decode(errors="replace").split("\t") for line in crawl.read_bytes().split(b"\n")]
        rows = [
            row for row in lines if len(row) == 2 and all(row) and max(map(len, row)) < 1000 and "\ufffd" not in row[0]
        ]
        if kind == "files":
            for side, name in enumerate(("in.en.gz", "in.de")):
                data = "".join(f"{row[side]}\n" for row in rows).encode() + (b"surplus\n" if side else b"")
                (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
            return PairSource.files(folder / "in.en.gz", folder / "in.de")
        if kind == "jsonl":
            lines = [
                json.dumps({"id": n, "source": s, "target": t}, ensure_ascii=False) for n, (s, t) in enumerate(rows)
            ]
            (folder / "in.jsonl").write_bytes("\n".join([*lines, "{broken"]).encode() + b"\n\xff\n")
            return PairSource.jsonl(folder / "in.jsonl", keys=("source", "target"))
        columns = {
            "id": [*range(len(rows)), -1],
            **{name: [*(r[n] for r in rows), None] for n, name in enumerate(("s", "t"))},
        }
        pq.write_table(pa.table(columns), folder / "in.parquet")
        return PairSource.parquet(folder / "in.parquet", keys=("s", "t"))

    @pytest.mark.parametrize("kind", ["files", "jsonl", "parquet"])
    def test_kept_and_rejected(self, model: Path, crawl: Path, tmp_path: Path, kind: str):
        source = self.pairs_files(tmp_path, crawl, kind)
        scored = score_corpus(replace(options(model, crawl), source=source), tmp_path / "scores", quietly)
        found = split_corpus(scored, Rule(keep=0.5), tmp_path)
        assert found.num_kept == 105
        names = {"files": ["kept.en.gz", "kept.de"], "jsonl": ["kept.jsonl"], "parquet": ["kept.parquet"]}[kind]
        assert [Path(path).name for path in found.files["kept"]] == names
        if kind == "files":
            kept = [gzip.decompress((tmp_path / "kept.en.gz").read_bytes()), (tmp_path / "kept.de").read_bytes()]
            assert [text.count(b"\n") for text in kept] == [105, 105]
            reasons = (tmp_path / "rejected.reasons.tsv").read_text().split("\n")
            assert reasons[0] == "line\treason\tquality"
            assert reasons[-2] == f"{found.num_rows}\tunequal-lines\t"
            assert reasons[1].split("\t")[1] == "low-score"
            assert float(reasons[1].split("\t")[2]) <= 1
        elif kind == "jsonl":
            kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
            assert all(set(row) == {"id", "source", "target"} for row in kept)
            rejected = [json.loads(line) for line in (tmp_path / "rejected.jsonl").read_text().splitlines()]
            assert rejected[-2] == {"reason": "bad-record", "quality": None, "raw": "{broken"}
            assert rejected[-1] == {"reason": "invalid-utf8", "quality": None, "raw_base64": "/w=="}
            assert rejected[0]["row"]["id"] >= 0
        else:
            kept = pq.read_table(tmp_path / "kept.parquet")
            rejected = pq.read_table(tmp_path / "rejected.parquet")
            assert kept.column_names == ["id", "s", "t"]
            assert rejected.column_names == ["id", "s", "t", "rela_reason", "rela_quality"]
            assert sorted(kept["id"].to_pylist() + rejected["id"].to_pylist()) == list(range(-1, 210))
            assert rejected["rela_reason"].to_pylist()[-1] == "bad-record"

    @pytest.mark.parametrize("kind", ["files", "jsonl", "parquet"])
    def test_scores_beside_rows(self, model: Path, crawl: Path, tmp_path: Path, kind: str):
        source = self.pairs_files(tmp_path, crawl, kind)
        scored = score_corpus(replace(options(model, crawl), source=source, spans=True), tmp_path / "s", quietly)
        rows = [json.loads(line) for window in scored.windows() for line in as_jsonl(*window, source).splitlines()]
        assert [row["line"] for row in rows] == list(range(1, scored.survey.num_rows + 1))
        assert rows[-1]["problem"] in ("unequal-lines", "invalid-utf8", "bad-record")
        assert rows[-1]["quality"] is None
        assert 0 <= rows[0]["quality"] <= 1
        assert ("id" in rows[0]) == (kind != "files")
        for row in rows:
            for span in row.get("suspicious") or []:
                start, end = span["characters"]
                assert row["target" if kind != "parquet" else "t"][start:end] == span["text"]
        table = pa.concat_tables([as_table(*window, source) for window in scored.windows()])
        assert table.num_rows == len(rows)
        assert table["quality"].to_pylist()[-1] is None
        np.testing.assert_allclose(
            table["null_rate"].to_pylist()[:50], [row["null_rate"] for row in rows[:50]], rtol=1e-5
        )


def test_empty_tables(model: Path, tmp_path: Path):
    """Nothing kept, and nothing there at all: the files are there, with their columns."""
    pq.write_table(pa.table({"s": ["a dog"], "t": ["ein Hund"]}), tmp_path / "in.parquet")
    source = PairSource.parquet(tmp_path / "in.parquet", keys=("s", "t"))
    scored = score_corpus(replace(options(model, tmp_path), source=source), tmp_path / "scores", quietly)
    split_corpus(scored, Rule(keep=0.0), tmp_path)
    assert pq.read_table(tmp_path / "kept.parquet").to_pydict() == {"s": [], "t": []}
    assert pq.read_table(tmp_path / "rejected.parquet").num_rows == 1
    for spans in (False, True):
        (window,) = scored.windows()
        scores = window[1] if not spans else replace(window[1], suspicious=[()])
        assert empty_table(source, spans=spans).schema == as_table(window[0], scores, source).schema


def test_summary(model: Path, crawl: Path, tmp_path: Path):
    scored = score_corpus(options(model, crawl), tmp_path / "scores", quietly)
    rule = Rule(threshold=0.5)
    found = summarise(scored, rule, split_corpus(scored, rule, tmp_path), "rela filter crawl.tsv")
    assert found["counts"]["input"] == sum(found["counts"][kind] for kind in ("kept", "rejected", "malformed")) == 216
    assert all(sum(histogram["counts"]) == 210 for histogram in found["histograms"].values())
    assert len(found["quantiles"]) == 1001
    assert found["quantiles"] == sorted(found["quantiles"])
    examples = found["examples"]
    assert [example["decile"] for example in examples] == [decile for decile in range(1, 11) for _ in range(8)]
    qualities = [example["scores"]["quality"] for example in examples]
    assert qualities == pytest.approx(sorted(qualities), abs=1e-3)
    rows = crawl.read_bytes().split(b"\n")
    for example in examples:
        assert rows[example["line"] - 1] == f"{example['source']}\t{example['target']}".encode()
    json.dumps(found, allow_nan=False)


def test_long_pairs_are_examples_too(model: Path, tmp_path: Path):
    pairs = [*made_pairs(60), ("dog " * 1500, "Hund " * 1500)]
    (tmp_path / "in.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    scored = score_corpus(options(model, tmp_path / "in.tsv", max_pieces=5000), tmp_path / "scores", quietly)
    rule = Rule(threshold=0.5)
    found = summarise(scored, rule, split_corpus(scored, rule, tmp_path), "")
    assert max(len(example["target"]) for example in found["examples"]) == 7500
    json.dumps(found, allow_nan=False)


def test_rejected_rows_of_a_table_are_filtered_again(model: Path, tmp_path: Path):
    pairs, old = made_pairs(60), tmp_path / "in.parquet"
    columns = {"en": [s for s, _ in pairs], "de": [t for _, t in pairs], "rela_reason": ["old"] * 60}
    pq.write_table(pa.table(columns), old)
    source = PairSource.parquet(old, keys=("en", "de"))
    scored = score_corpus(options(model, old, source=source), tmp_path / "scores", quietly)
    (tmp_path / "out").mkdir()
    split_corpus(scored, Rule(top=20), tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "kept.parquet").column_names == ["en", "de", "rela_reason"]
    rejected = pq.read_table(tmp_path / "out" / "rejected.parquet")
    assert rejected.column_names == ["en", "de", "rela_reason", "rela_quality"]
    assert set(rejected.column("rela_reason").to_pylist()) == {"low-score"}


def test_nothing_to_score(model: Path, tmp_path: Path):
    (tmp_path / "in.tsv").write_bytes(b"x\n\n")
    scored = score_corpus(options(model, tmp_path / "in.tsv"), tmp_path / "scores", quietly)
    rule = Rule(threshold=0.5)
    split = split_corpus(scored, rule, tmp_path)
    assert (split.num_rows, split.num_kept, split.num_malformed) == (2, 0, 2)
    found = summarise(scored, rule, split, "")
    assert (found["examples"], found["quantiles"], found["limit"]) == ([], [], None)


def test_memory_does_not_grow_with_the_input(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of windows that are read, few are alive at a time."""
    (tmp_path / "in.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in made_pairs(400)))
    alive, most = 0, 0

    class Counted(RowWindow):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            nonlocal alive, most
            super().__init__(*arguments, **named)
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    monkeypatch.setattr("rela.text.rows.RowWindow", Counted)
    score_corpus(options(model, tmp_path / "in.tsv", window=10), tmp_path / "scores", quietly)
    assert most <= 3
