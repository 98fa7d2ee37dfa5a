"""A study that was cut off goes on, and comes to the same."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.analysis.studies import (
    Stop,
    in_windows,
    without_cost,
    write_corpus,
    write_lines,
)
from tests.cli.translating import same_package

from rela.analysis.corpus import Corpus
from rela.analysis.study import StudyOptions, run_study

GOING_ON = StudyOptions(num_examples=5, num_hallucinated=25, num_ablated=4)


@pytest.fixture(scope="module")
def whole(folder: Path, corpus: Corpus) -> Path:
    with pytest.MonkeyPatch.context() as monkeypatch:
        in_windows(monkeypatch, 9)
        run_study([folder / "rela-1", folder / "softmax"], corpus, folder / "whole", GOING_ON)
    return folder / "whole"


class TestGoingOn:
    @pytest.mark.parametrize("after", [1, 4, 5, 6, 9])
    def test_the_same_as_uninterrupted(
        self, folder: Path, corpus: Corpus, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
    ):
        """Cut off in the first model, at its end, in its ablation, and in the second model."""
        in_windows(monkeypatch, 9)
        paths = [folder / "rela-1", folder / "softmax"]
        expected = without_cost(json.loads((whole / "results.json").read_text(encoding="utf-8")))
        with pytest.raises(KeyboardInterrupt):
            run_study(paths, corpus, tmp_path / "out", GOING_ON, progress=Stop(after))
        assert not (tmp_path / "out" / "results.json").exists()
        told: list[str] = []
        with pytest.warns(UserWarning, match="has the beginning of the same analysis; going on from there"):
            found = run_study(paths, corpus, tmp_path / "out", GOING_ON, progress=lambda what, _: told.append(what))
        assert without_cost(found) == expected
        assert told.count("analysing rela-g") == max(0, 5 - after)
        written = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
        assert without_cost(written) == expected
        assert (tmp_path / "out" / "attention.npz").read_bytes() == (whole / "attention.npz").read_bytes()
        assert not (tmp_path / "out" / "partial").exists()

    def test_another_recipe_begins_anew(
        self, folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        in_windows(monkeypatch, 9)
        paths = [folder / "rela-1", folder / "softmax"]
        with pytest.raises(KeyboardInterrupt):
            run_study(paths, corpus, tmp_path / "out", GOING_ON, progress=Stop(3))
        whole = run_study(paths[::-1], corpus, tmp_path / "whole", GOING_ON)
        with pytest.warns(UserWarning, match="has the beginning of another analysis, which is dropped"):
            found = run_study(paths[::-1], corpus, tmp_path / "out", GOING_ON)  # in another order
        assert without_cost(found) == without_cost(whole)

    def test_an_error_in_the_text_keeps_what_was_measured(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        in_windows(monkeypatch, 9)
        corpus = write_corpus(tmp_path / "corpus", 20)
        lines = corpus.files["tags"].read_text(encoding="utf-8").splitlines()
        write_lines(corpus.files["tags"], [*lines[:15], "X " * 30, *lines[16:]])
        with pytest.raises(ValueError, match=r"tags.de, line 16: expected \d+ tags"):
            run_study([folder / "rela-1"], corpus, tmp_path / "out")
        assert (tmp_path / "out" / "partial" / "0.npz").exists()

    def test_killed(self, folder: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """By the system, at any moment."""
        in_windows(monkeypatch, 2)
        whole = run_study([folder / "rela-1"], corpus, tmp_path / "whole", GOING_ON)
        script = (
            "import functools, sys, time\n"
            "from pathlib import Path\n"
            "from rela.alignment.pairs import windows\n"
            "from rela.analysis import measuring, study\n"
            "from rela.analysis.corpus import Corpus, GoldFiles\n"
            "for module in (measuring, study): module.windows = functools.partial(windows, size=2)\n"
            "folder = Path(sys.argv[1])\n"
            "gold = GoldFiles(sure=folder / 'test.sure', possible=folder / 'test.possible')\n"
            "files = {'source': folder / 'test.en', 'target': folder / 'test.de', 'tags': folder / 'test.tags.de'}\n"
            "corpus = Corpus(**files, gold=gold)\n"
            "slowly = lambda what, count: time.sleep(0.05)\n"
            f"options = study.{GOING_ON!r}\n"
            "study.run_study([Path(sys.argv[2])], corpus, Path(sys.argv[3]), options, progress=slowly)\n"
        )
        out = tmp_path / "out"
        arguments = [sys.executable, "-c", script, str(corpus.source.parent), str(folder / "rela-1"), str(out)]
        with subprocess.Popen(arguments, env=same_package()) as process:
            until = time.monotonic() + 120
            while not (out / "partial" / "0.npz").exists():
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.005)
            process.kill()
        assert not (out / "results.json").exists()
        with pytest.warns(UserWarning, match="going on from there"):
            found = run_study([folder / "rela-1"], corpus, out, GOING_ON)
        assert without_cost(found) == without_cost(whole)
