"""What must not go wrong in silence: inputs that change meanwhile, rows that writing would change, leftovers."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.filtering.scoring import made_pairs, make_scorer

from rela.filtering.corpus import ScoreOptions, score_corpus
from rela.filtering.scorer import WindowScores
from rela.filtering.scores import COLUMNS
from rela.filtering.splitting import Rule, split_corpus
from rela.filtering.writing import as_jsonl, as_tsv, rejected_jsonl
from rela.text.readers import MAX_NESTING, PairSource
from rela.text.rows import RowWindow, read_windows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    make_scorer(folder)
    return folder


def quietly(*_: object) -> None: ...


def written(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def scored_as(window: RowWindow, value: float = 0.25) -> WindowScores:
    count = len(window.pairs)
    return WindowScores(np.full((count, len(COLUMNS)), value, np.float32), np.ones(count, np.bool_), None)


class TestAnInputThatChanges:
    @pytest.mark.parametrize("way", ["replaced", "written to", "other rows"])
    def test_is_noticed_before_anything_gets_its_name(self, model: Path, tmp_path: Path, way: str):
        pairs = made_pairs(120, seed=3)
        path = written(tmp_path / "crawl.tsv", pairs)
        options = ScoreOptions(model=model, source=PairSource.tsv(path), calibrate_on="model", window=40)
        scored = score_corpus(options, tmp_path / "scores", quietly)
        if way == "replaced":
            written(tmp_path / "new.tsv", pairs[::-1]).replace(path)
        elif way == "written to":
            written(path, pairs[::-1])
        else:
            written(path, [*pairs[:50], ("", ""), *pairs[51:]])
        with pytest.raises(ValueError, match=r"rows that were there at first, got .*: it was changed meanwhile"):
            split_corpus(scored, Rule(keep=0.5), tmp_path)
        scored.kept.close()
        assert not (tmp_path / "kept.tsv").exists()
        assert not list(tmp_path.glob(".*.partial"))

    @pytest.mark.parametrize("when", ["learning quality", "scoring"])
    def test_scores_of_other_rows_are_never_kept(self, model: Path, tmp_path: Path, when: str):
        """Not even if the first rows come back later: scores are those of the pairs that were seen at first."""
        pairs = made_pairs(120, seed=3)
        path = written(tmp_path / "crawl.tsv", pairs)
        options = ScoreOptions(model=model, source=PairSource.tsv(path), calibrate_on="input", window=40)
        expected = score_corpus(options, tmp_path / "expected", quietly)
        expected.kept.close()
        done: list[str] = []

        def meddle(what: str, *_: object) -> None:
            if what == when and not done:
                done.append(what)
                written(tmp_path / "new.tsv", pairs[::-1]).replace(path)

        def run() -> None:
            scored = score_corpus(options, tmp_path / "scores", meddle)
            scored.kept.close()
            assert not list(scored.windows())

        with pytest.raises(ValueError, match=r"rows that were there at first, got .*: it was changed meanwhile"):
            run()
        written(tmp_path / "new.tsv", pairs).replace(path)
        again = score_corpus(options, tmp_path / "scores", quietly)
        again.kept.close()
        for number in range(3):
            np.testing.assert_array_equal(again.kept.load(number).values, expected.kept.load(number).values)


class TestRowsThatJsonNests:
    def nested(self, depth: int) -> bytes:
        return b'{"en": "a b", "de": "c d", "x": ' + b"[" * depth + b"]" * depth + b"}"

    def test_too_deep_is_a_problem_whoever_asks(self, tmp_path: Path):
        path = tmp_path / "deep.jsonl"
        depths = [1, MAX_NESTING - 1, MAX_NESTING, 900, 960, 980, 995, 5000, 100_000]
        path.write_bytes(b"".join(self.nested(depth) + b"\n" for depth in depths))
        source = PairSource.jsonl(path, keys=("en", "de"))
        found: list[dict[int, str]] = []

        def read(calls: int) -> None:  # deep in the stack Python's own limit is reached earlier
            if calls:
                read(calls - 1)
            else:
                (window,) = read_windows(source)
                found.append(window.problems)

        for calls in (0, 100, 300):
            read(calls)
        assert found[0] == found[1] == found[2] == dict.fromkeys(range(2, 9), "bad-record")

    def test_brackets_in_texts_do_not_count(self, tmp_path: Path):
        path = tmp_path / "flat.jsonl"
        text = "[" * 500 + '\\"' + "{" * 500
        path.write_text(f'{{"en": "{text}", "de": "x"}}\n', encoding="utf-8")
        (window,) = read_windows(PairSource.jsonl(path, keys=("en", "de")))
        assert window.pairs == [("[" * 500 + '"' + "{" * 500, "x")]

    def test_rejected_rows_of_any_depth(self):
        for depth in (1, 99, 990, 5000):
            raw = self.nested(depth)
            line = rejected_jsonl((raw,), "bad-record", None)
            if depth < MAX_NESTING:
                assert line.endswith(b', "row": ' + raw + b"}\n")
            else:
                assert json.loads(line)["raw"] == raw.decode()


class TestRowsThatStay:
    def test_of_json_every_letter(self, tmp_path: Path):
        rows = [
            '{"en": "a", "de": "b", "n": 1e999, "big": 12345678901234567890.123456789, "n": 2}',
            '  {"en":"\\u00e4","de":"ö" }  ',
        ]
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        source = PairSource.jsonl(path, keys=("en", "de"))
        (window,) = read_windows(source)
        lines = as_jsonl(window, scored_as(window), source).decode().splitlines()
        assert lines[0].startswith(rows[0][:-1] + ', "line": 1, "null_rate": 0.25')
        assert lines[1].startswith('{"en":"\\u00e4","de":"ö", "line": 2')
        assert json.loads(lines[1])["quality"] == 0.25
        assert rejected_jsonl((rows[0].encode(),), "low-score", 0.1).decode() == (
            f'{{"reason": "low-score", "quality": 0.1, "row": {rows[0]}}}\n'
        )

    def test_keys_with_the_name_of_a_score_are_replaced(self, tmp_path: Path):
        path = tmp_path / "rows.jsonl"
        path.write_text('{"en": "a", "de": "b", "quality": "x", "line": 7}\n', encoding="utf-8")
        source = PairSource.jsonl(path, keys=("en", "de"))
        (window,) = read_windows(source)
        (line,) = as_jsonl(window, scored_as(window), source).decode().splitlines()
        assert json.loads(line)["quality"] == 0.25
        assert json.loads(line)["line"] == 7
        assert line.count('"quality"') == 1

    def test_a_tab_within_a_text_moves_no_column(self, tmp_path: Path):
        (tmp_path / "a.en").write_text("one\ntwo\tparts\n", encoding="utf-8")
        (tmp_path / "a.de").write_text("eins\nzwei\n", encoding="utf-8")
        (window,) = read_windows(PairSource.files(tmp_path / "a.en", tmp_path / "a.de"))
        lines = as_tsv(window, scored_as(window)).decode().splitlines()
        assert [line.count("\t") for line in lines] == [len(COLUMNS) + 2] * 2
        assert lines[1].startswith("two parts\tzwei\t")

    def test_a_limit_can_be_copied(self, tmp_path: Path):
        """Scores have as many digits as it takes to tell them from their neighbours."""
        path = written(tmp_path / "a.tsv", [("a", "b")])
        (window,) = read_windows(PairSource.tsv(path))
        value = np.float32(1 / 12)
        printed = as_tsv(window, scored_as(window, float(value))).decode().split("\t")[2]
        assert np.float32(printed) == value
        chosen = Rule(by="null_rate", threshold=float(printed)).chosen(np.array([value], np.float32))
        assert chosen.tolist() == [True]


def test_what_a_killed_process_left_is_removed(model: Path, tmp_path: Path):
    path = written(tmp_path / "crawl.tsv", made_pairs(80, seed=5))
    for name in (".kept.tsv.123.partial", ".rejected.tsv.99999.partial", ".kept.tsv.mine.partial"):
        (tmp_path / name).write_text("half", encoding="utf-8")
    options = ScoreOptions(model=model, source=PairSource.tsv(path), calibrate_on="model", window=40)
    scored = score_corpus(options, tmp_path / "scores", quietly)
    split_corpus(scored, Rule(keep=0.5), tmp_path)
    scored.kept.close()
    assert [one.name for one in tmp_path.glob(".*.partial")] == [".kept.tsv.mine.partial"]


class TestSpeed:
    def test_few_windows_tell_none(self, model: Path, tmp_path: Path):
        path = written(tmp_path / "crawl.tsv", [*made_pairs(70, seed=5), ("", "")])
        options = ScoreOptions(model=model, source=PairSource.tsv(path), calibrate_on="model", window=40)
        few = score_corpus(options, tmp_path / "few", quietly)
        few.kept.close()
        assert (few.speed.pairs, few.speed.per_second) == (70, None)
        many = score_corpus(replace(options, window=10), tmp_path / "many", quietly)
        many.kept.close()
        assert many.speed.pairs == 70
        assert many.speed.per_second is not None
        assert many.speed.per_second > 0


def test_files_of_the_same_inode_and_size_differ_by_their_time(tmp_path: Path):
    from rela.filtering.corpus import state_of

    path = written(tmp_path / "a.tsv", [("a", "b")])
    before = state_of(PairSource.tsv(path))
    os.utime(path, ns=(1, 1))
    assert state_of(PairSource.tsv(path)) != before
