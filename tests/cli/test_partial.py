"""`rela translate -o`, cut off and resumed."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.cli.translating import LINES, TEXT, Run, command, names, same_package
from tests.model.folders import make_folder

from rela.cli._partial import PartialFile, keep_whole_windows
from rela.decoding.search import SearchOptions
from rela.decoding.translator import Translator


def interrupted(call: Run, window_number: int, *arguments: str) -> str:
    """A run that is stopped while it translates a window; returns what it says."""
    calls = iter(range(99))
    translate = Translator.translate

    def stop(self: Translator, *positional: Any, **options: Any) -> Any:
        if next(calls) == window_number:
            raise KeyboardInterrupt
        return translate(self, *positional, **options)

    with mock.patch.object(Translator, "translate", stop):
        code, _, err = call(*arguments, stdin=TEXT)
    assert code == 130
    return err


class TestResume:
    @pytest.fixture(autouse=True)
    def _short_translations(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(SearchOptions, "longest", lambda _, __: 6)  # pyright: ignore[reportUnknownLambdaType]

    @pytest.mark.parametrize("extra", [[], ["--nbest", "2"], ["--align"]], ids=["plain", "nbest", "align"])
    @pytest.mark.parametrize("stopped", [0, 1, 3])
    def test_the_same_bytes(self, call: Run, tmp_path: Path, extra: list[str], stopped: int):
        options = ["--window", "2", *extra]
        assert call(*options, "-o", "whole", stdin=TEXT)[0] == 0
        whole = (tmp_path / "whole").read_bytes()
        interrupted(call, stopped, *options, "-o", "out")
        partial = (tmp_path / "out.partial").read_bytes()
        assert whole.startswith(partial)
        recipe = (tmp_path / "out.partial.json").read_bytes()
        for size in sorted({1, len(partial) // 2, max(0, len(partial) - 1), len(partial)}):
            (tmp_path / "out.partial").write_bytes(partial[:size])
            (tmp_path / "out.partial.json").write_bytes(recipe)
            assert call(*options, "-o", "out", "--resume", stdin=TEXT)[0] == 0
            assert (tmp_path / "out").read_bytes() == whole
            assert names(tmp_path) == ["out", "whole"]
            (tmp_path / "out").unlink()

    def test_what_is_there_is_not_translated_again(self, call: Run, tmp_path: Path):
        interrupted(call, 3, "--window", "2", "-o", "out")
        seen: list[str] = []
        translate = Translator.translate

        def watch(self: Translator, sentences: list[str], **options: Any) -> Any:
            seen.extend(sentences)
            return translate(self, sentences, **options)

        with mock.patch.object(Translator, "translate", watch):
            call("--window", "2", "-o", "out", "--resume", stdin=TEXT)
        assert seen == LINES[6:]

    def test_without_resume_it_begins_anew(self, call: Run, tmp_path: Path):
        interrupted(call, 2, "--window", "2", "-o", "out")
        partial = (tmp_path / "out.partial").read_bytes()
        code, _, err = call("-o", "out", stdin="a cat\n")
        assert code == 0
        assert "out.partial has lines of an output that was cut off; they are kept as out.partial.old" in err
        assert (tmp_path / "out").read_text().count("\n") == 1
        assert names(tmp_path) == ["out", "out.partial.old"]
        assert (tmp_path / "out.partial.old").read_bytes() == partial

    def test_two_at_once(self, call: Run, tmp_path: Path):
        """The second one is refused, and the first one is not disturbed."""
        (tmp_path / "in").write_text(TEXT)
        options = ["in", "--window", "2"]
        assert call(*options, "-o", "whole")[0] == 0
        translate, refused = Translator.translate, list[str]()

        def second(self: Translator, sentences: list[str], **named: Any) -> Any:
            if not refused:
                refused.append("")
                code, _, err = call(*options, "-o", "out")
                assert code == 1
                refused[0] = err
            return translate(self, sentences, **named)

        with mock.patch.object(Translator, "translate", second):
            assert call(*options, "-o", "out")[0] == 0
        assert "out.partial: expected no other process to write here, got one; wait for it" in refused[0]
        assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
        assert names(tmp_path) == ["in", "out", "whole"]

    def test_a_forgotten_resume_loses_nothing_if_all_is_the_same(self, call: Run, tmp_path: Path):
        (tmp_path / "in").write_text(TEXT)
        options = ["in", "--window", "2"]
        assert call(*options, "-o", "whole")[0] == 0
        interrupted(call, 3, *options, "-o", "out")
        code, _, err = call(*options, "-o", "out")
        assert code == 0
        assert f"{tmp_path}/out.partial has the first 6 lines, of the same input, model and options; going on" in err
        assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
        interrupted(call, 3, *options, "-o", "out")
        code, _, err = call(*options, "--beam", "1", "-o", "out")
        assert code == 0
        assert "going on" not in err
        interrupted(call, 3, *options, "-o", "out")
        assert call(*options, "-o", "out", "--json", "all.json")[0] == 0  # which would miss the first lines
        assert len(json.loads((tmp_path / "all.json").read_text())["translations"]) == len(LINES)

    def test_lines_that_were_cut_before_are_told_too(self, call: Run):
        options = ["--window", "2", "--max-source", "2"]
        _, _, whole = call(*options, stdin=TEXT)
        assert "were cut there: 5 (lines 1, 4, 6, 7, 8)" in whole
        interrupted(call, 3, *options, "-o", "out")
        _, _, err = call(*options, "-o", "out", "--resume", stdin=TEXT)
        assert err == whole

    def test_nothing_to_go_on_with_begins_anew(self, call: Run, tmp_path: Path):
        assert call("-o", "out", "--resume", stdin="a cat\n")[0] == 0
        assert (tmp_path / "out").read_text().count("\n") == 1

    def test_one_line_says_how_to_go_on(self, call: Run, tmp_path: Path):
        assert interrupted(call, 2, "--window", "2", "-o", "out") == (
            f"rela: stopped; {tmp_path}/out.partial has the first 4 lines, and the same command with --resume goes on "
            "from there\n"
        )
        assert interrupted(call, 0, "--window", "2", "-o", "new") == (
            "rela: stopped; not one window of 2 lines was done, so the same command begins anew\n"
        )
        assert interrupted(call, 0) == ""  # nothing to go on with

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--window", "3"], "was begun with window 2, got 3; give the same options"),
            (["--window", "2", "--beam", "3"], "was begun with beam 2, got 3; give the same options"),
            (["--window", "2", "--align"], "was begun with align False, got True; give the same options"),
        ],
    )
    def test_other_options_are_refused(self, call: Run, tmp_path: Path, options: list[str], message: str):
        interrupted(call, 2, "--window", "2", "-o", "out")
        self.assert_refused(call, tmp_path, message, *options)

    def test_without_its_recipe(self, call: Run, tmp_path: Path):
        interrupted(call, 2, "--window", "2", "-o", "out")
        for content in ("{", "[]", '{"options": {}}', None):
            (tmp_path / "out.partial.json").write_text(content or "")
            if content is None:
                (tmp_path / "out.partial.json").unlink()
            self.assert_refused(call, tmp_path, "which says how out.partial was made, got none or a damaged one")

    def test_another_input(self, call: Run, tmp_path: Path):
        (tmp_path / "in").write_text(TEXT, encoding="utf-8")
        (tmp_path / "other").write_text(TEXT.replace("small", "large"), encoding="utf-8")
        interrupted(call, 2, "in", "--window", "2", "-o", "out")
        other = f"got another: {tmp_path}/other is another one than {tmp_path}/in, which it was begun with"
        self.assert_refused(call, tmp_path, other, "other")
        self.assert_refused(call, tmp_path, f"got another: standard input is another one than {tmp_path}/in")
        (tmp_path / "in").write_text(f"{TEXT}more\n", encoding="utf-8")
        self.assert_refused(call, tmp_path, f"got another: {tmp_path}/in was changed since then; give the same", "in")
        (tmp_path / "moved").write_text(TEXT, encoding="utf-8")
        assert call("moved", "--window", "2", "-o", "out", "--resume")[0] == 0  # what counts is what is in it

    def test_another_input_when_not_one_window_was_done(self, call: Run, tmp_path: Path):
        (tmp_path / "in").write_text(TEXT, encoding="utf-8")
        (tmp_path / "other").write_text(TEXT.replace("small", "large"), encoding="utf-8")
        interrupted(call, 0, "in", "--window", "2", "-o", "out")
        code, _, err = call("other", "--window", "2", "-o", "out", "--resume")
        assert (code, "expected the input that" in err) == (2, True)
        assert call("in", "--window", "2", "-o", "out", "--resume")[0] == 0

    def test_another_model(self, call: Run, model: Path, tmp_path: Path):
        interrupted(call, 2, "--window", "2", "-o", "out")
        other = make_folder(tmp_path / "model", seed=1)
        message = f"got another: {other} is another one than {model}, which it was begun with; give the same model"
        self.assert_refused(call, tmp_path, message, folder=other)
        shutil.rmtree(other)
        shutil.copytree(model, other)
        assert call("--window", "2", "-o", "out", "--resume", stdin=TEXT, folder=other)[0] == 0

    def test_another_choice_of_what_aligns(self, call: Run, model: Path, tmp_path: Path):
        """It is a file of its own, and changes nothing but links."""
        copy = Path(shutil.copytree(model, tmp_path / "model"))
        (copy / "alignment.json").write_text('{"layer": 0, "shifted": false}')
        interrupted(call, 2, "--window", "2", "--align", "-o", "out")
        self.assert_refused(call, tmp_path, "expected the model that", "--align", folder=copy)
        interrupted(call, 2, "--window", "2", "-o", "out")
        assert call("--window", "2", "-o", "out", "--resume", stdin=TEXT, folder=copy)[0] == 0

    @staticmethod
    def assert_refused(call: Run, where: Path, message: str, *arguments: str, **options: Any) -> None:
        """Nothing is lost by it."""
        before = (where / "out.partial").read_bytes()
        assert before
        window = () if "--window" in arguments else ("--window", "2")
        code, _, err = call(*arguments, *window, "-o", "out", "--resume", **{"stdin": TEXT, **options})
        assert code == 2
        assert message in err
        assert "--resume: " in err
        assert err.count("\n") == 1
        assert (where / "out.partial").read_bytes() == before
        assert not (where / "out").exists()

    def test_a_shorter_stream_is_refused(self, call: Run, tmp_path: Path):
        interrupted(call, 2, "--window", "2", "-o", "out")
        self.assert_refused(call, tmp_path, "at least 4 lines, got 1", stdin="the dog\n")

    def test_whole_windows(self, tmp_path: Path):
        file = tmp_path / "partial"
        file.write_bytes(b"a\n\nc\nd\ne")
        assert (keep_whole_windows(file, 2, numbered=False), file.read_bytes()) == (2, b"a\n\nc\nd\n")
        file.write_bytes(b"1\tx\n1\ty\n2\tz\n3\tx\n3\t")
        assert (keep_whole_windows(file, 2, numbered=True), file.read_bytes()) == (1, b"1\tx\n1\ty\n2\tz\n")
        file.write_bytes(b"1\tx\n2\tz\n\0\0\0\0\n")
        assert (keep_whole_windows(file, 1, numbered=True), file.read_bytes()) == (1, b"1\tx\n")

    def test_a_disk_that_fills_up_on_the_way(self, call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        write = PartialFile._write_pending  # pyright: ignore[reportPrivateUsage]
        calls = iter(range(99))

        def fail(self: PartialFile) -> None:
            write(self)
            if next(calls) == 2:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(PartialFile, "_write_pending", fail)
            code, _, err = call("-o", "out", "--window", "2", stdin=TEXT)
        assert code == 1
        assert err == (
            f"rela: error: {tmp_path}/out: No space left on device; {tmp_path}/out.partial has the first 4 lines, and "
            "the same command with --resume goes on from there\n"
        )
        assert call("-o", "out", "--window", "2", "--resume", stdin=TEXT)[0] == 0
        assert call("-o", "whole", "--window", "2", stdin=TEXT)[0] == 0
        assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_killed_and_resumed(model: Path, tmp_path: Path, call: Run):
    (tmp_path / "in").write_text(TEXT * 6, encoding="utf-8")
    options = ["in", "--window", "4", "--threads", "1"]
    assert call(*options, "-o", "whole")[0] == 0
    with subprocess.Popen(
        command(model, *options, "--beam", "2", "-o", "out"), stderr=subprocess.PIPE, env=same_package()
    ) as process:
        partial = tmp_path / "out.partial"
        wait_until(lambda: (partial.exists() and partial.stat().st_size > 200) or process.poll() is not None)
        process.kill()
    assert not (tmp_path / "out").exists()
    code, _, err = call(*options, "-o", "out", "--resume")
    assert code == 0, err
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_terminated_it_says_how_to_go_on(model: Path, tmp_path: Path):
    (tmp_path / "in").write_text(TEXT * 500, encoding="utf-8")
    with subprocess.Popen(
        command(model, "in", "--window", "4", "-o", "out"),
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
        env=same_package(),
    ) as process:
        partial = tmp_path / "out.partial"
        wait_until(lambda: (partial.exists() and partial.stat().st_size > 200) or process.poll() is not None)
        process.terminate()
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert re.fullmatch(
        r"rela: stopped; \S*/out.partial has the first [\d,]+ lines, and the same command with --resume goes on from "
        r"there\n",
        errors,
    )


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
