"""`rela translate`: what goes in and out, and what happens when it is refused or interrupted."""

import gzip
import json
import os
import pty
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.cli.translating import LINES, TEXT, Run, command, names, same_package

from rela.decoding.search import SearchOptions
from rela.decoding.translator import Translation, Translator


@pytest.fixture(scope="module")
def expected(model: Path) -> list[str]:
    return [found.text.replace("\n", " ") for found in Translator.load(model).translate(LINES, beam=2)]


class TestStreams:
    def test_a_line_for_a_line(self, call: Run, expected: list[str]):
        code, out, err = call(stdin=TEXT)
        assert code == 0
        assert out == "".join(f"{line}\n" for line in expected)
        assert (out.split("\n")[1], out.split("\n")[4]) == ("", "")
        assert re.fullmatch("(rela: note: translations that did not end .*\n)?", err)

    def test_again_gives_the_same_bytes(self, call: Run):
        assert call(stdin=TEXT)[1] == call(stdin=TEXT)[1]

    def test_the_last_line_may_lack_its_end(self, call: Run, expected: list[str]):
        assert call(stdin=TEXT.rstrip("\n"))[1] == "".join(f"{line}\n" for line in expected)
        assert call(stdin="")[1] == ""
        assert call(stdin="\n")[1] == "\n"

    def test_files_packed_or_not(self, call: Run, tmp_path: Path, expected: list[str]):
        (tmp_path / "in.txt").write_text(TEXT, encoding="utf-8")
        (tmp_path / "in.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
        plain, packed = call("in.txt")[1], call("in.txt.gz")[1]
        assert plain == packed == "".join(f"{line}\n" for line in expected)

    def test_a_file_of_the_wrong_language(self, call: Run, tmp_path: Path, expected: list[str]):
        (tmp_path / "in.de.gz").write_bytes(gzip.compress(TEXT.encode()))
        code, out, err = call("in.de.gz")
        assert (code, out) == (0, "".join(f"{line}\n" for line in expected))
        assert "translates from en to de, and in.de.gz looks like de; was another file or another model meant?" in err

    def test_to_a_file(self, call: Run, tmp_path: Path, expected: list[str]):
        (tmp_path / "out.txt").write_text("old")
        code, out, _ = call("-o", "out.txt", stdin=TEXT)
        assert (code, out) == (0, "")
        assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)
        assert names(tmp_path) == ["out.txt"]

    def test_output_minus_is_standard_output(self, call: Run, tmp_path: Path):
        assert call("-o", "-", stdin="green\n")[1] == call(stdin="green\n")[1] != ""
        assert names(tmp_path) == []

    @pytest.mark.parametrize("window", [1, 3, 8, 100])
    def test_windows(self, call: Run, window: int, expected: list[str]):
        code, out, _ = call("--window", str(window), stdin=TEXT)
        assert (code, out) == (0, "".join(f"{line}\n" for line in expected))

    def test_windows_are_translated_as_they_come(self, call: Run):
        sizes: list[int] = []
        translate = Translator.translate

        def watch(self: Translator, sentences: list[str], **options: Any) -> Any:
            sizes.append(len(sentences))
            return translate(self, sentences, **options)

        with mock.patch.object(Translator, "translate", watch):
            call("--window", "3", stdin=TEXT)
        assert sizes == [3, 3, 2]

    def test_nbest(self, call: Run, expected: list[str]):
        _, out, _ = call("--nbest", "2", stdin=TEXT)
        rows = [line.split("\t") for line in out.splitlines()]
        assert all(len(row) == 3 for row in rows)
        assert [int(row[0]) for row in rows] == [number for number in range(1, 9) for _ in range(2)]
        first = {row[0]: row for row in reversed(rows)}
        assert [first[str(number)][2] for number in range(1, 9)] == [text.replace("\t", " ") for text in expected]
        assert rows[2:4] == [["2", "0.000000", ""]] * 2  # as many as others have: whoever reads them may count

    def test_align(self, call: Run, expected: list[str]):
        _, out, _ = call("--align", stdin=TEXT)
        rows = [line.split("\t") for line in out.split("\n")[:-1]]
        assert [row[0] for row in rows] == [text.replace("\t", " ") for text in expected]
        assert rows[1] == ["", ""]
        for line, (_, links) in zip(LINES, rows, strict=True):
            assert all(0 <= int(link.split("-")[0]) <= len(line.split()) + 1 for link in links.split())
        assert any(links for _, links in rows)
        both = call("--align", "--nbest", "2", stdin=TEXT)[1]
        assert all(len(line.split("\t")) == 4 for line in both.splitlines())

    def test_tabs_and_line_breaks_in_a_translation(self, call: Run, monkeypatch: pytest.MonkeyPatch):
        found = Translation("a\tb\nc", -1.0, -2.0, alignment=((0, 0),))
        monkeypatch.setattr(Translator, "translate", lambda *_, **__: [found])  # pyright: ignore[reportUnknownLambdaType]
        assert call(stdin="x\n")[1] == "a\tb c\n"
        assert call("--align", stdin="x\n")[1] == "a b c\t0-0\n"

    def test_json(self, call: Run, tmp_path: Path, expected: list[str], model: Path):
        _, out, _ = call("--json", "-", "--nbest", "2", "--align", stdin=TEXT)
        result = json.loads(out)
        assert result["model"] == str(model)
        entries = result["translations"]
        assert [(entry["line"], entry["source"]) for entry in entries] == list(enumerate(LINES, start=1))
        assert [entry["text"].replace("\n", " ") for entry in entries] == expected
        assert all(
            {"score", "log_probability", "finished", "truncated", "alignment"} <= entry.keys() for entry in entries
        )
        assert len(entries[0]["alternatives"]) == 1
        _, out, _ = call("--json", "r.json", stdin=TEXT)
        assert out == "".join(f"{line}\n" for line in expected)
        assert len(json.loads((tmp_path / "r.json").read_text())["translations"]) == 8


class TestOddInput:
    def test_bytes_that_are_not_utf8(self, call: Run):
        code, out, err = call(stdin=b"the dog\n\xff\xfe cat\n\xc3(\na cat\n")
        assert (code, out.count("\n")) == (0, 4)
        assert "rela: note: invalid-utf8: 2 (bytes that are not UTF-8): -:2, -:3\n" in err

    def test_an_over_long_line(self, call: Run):
        lines = ["the dog", "dog " * 100, "a cat", "cat " * 50]
        code, out, err = call("--max-source", "9", "--window", "1", stdin="\n".join(lines))
        assert (code, out.count("\n")) == (0, 4)
        assert "rela: note: sources of more than 9 pieces were cut there: 2 (lines 2, 4); see --max-source\n" in err

    @pytest.mark.parametrize("word", ["x", "dog ", "\U0001f600", " "])
    def test_a_line_of_a_million_characters(self, call: Run, word: str):
        code, out, err = call("--max-source", "5", stdin=f"{word * (1_000_000 // len(word))}\nthe dog\n")
        assert (code, out.count("\n")) == (0, 2)
        notes = [line for line in err.splitlines() if "did not end" not in line]  # of random weights
        assert notes == ["rela: note: sources of more than 5 pieces were cut there: 1 (line 1); see --max-source"]

    def test_what_the_note_recommends_helps(self, call: Run):
        text = "dog " * 5000 + "\n"
        with mock.patch.object(Translator, "translate", lambda _, lines, **__: [Translation(lines[0], 0.0, 0.0)]):  # pyright: ignore[reportUnknownLambdaType]
            _, out, err = call("--max-source", "100000", stdin=text)
        assert (out, err) == (text, "")

    def test_a_translation_that_does_not_end(self, call: Run, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(SearchOptions, "longest", lambda _, __: 1)  # pyright: ignore[reportUnknownLambdaType]
        _, _, err = call(stdin=TEXT)
        assert re.search(
            r"did not end within the greatest length were cut off there: 6 \(lines 1, 3, 4, 6, 7, \.\.\.\)", err
        )

    def test_a_damaged_packed_file(self, call: Run, tmp_path: Path):
        (tmp_path / "in.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
        code, _, err = call("in.gz", "-o", "out.txt")
        assert code == 1
        assert re.fullmatch("rela: error: in.gz: expected a whole .gz file.*\n", err)
        assert not (tmp_path / "out.txt").exists()


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--nbest", "3"], 2, "--nbest: expected at most --beam 2, got 3"),
            (["--beam", "0"], 2, "--beam"),
            (["--length-penalty", "11"], 2, "--length-penalty"),
            (["--length-penalty", "nan"], 2, "--length-penalty"),
            (["--resume"], 2, "--resume: expected --output FILE as well"),
            (["--resume", "-o", "out", "--json", "-"], 2, "--resume: expected no --json"),
            (["in.en", "-o", "in.en"], 2, "--output: expected another file than FILE, got 'in.en' for both"),
            (["-o", "out", "--json", "./out"], 2, "--output: expected another file than --json, got 'out' for both"),
            (["in.en", "--json", "./in.en"], 2, "--json: expected another file than FILE, got './in.en' for both"),
            (["-o", "."], 2, "expected a file, got the folder"),
            (["-o", "none/out"], 2, "does not exist; make it first"),
            (["none.txt"], 1, "none.txt: No such file or directory"),
            (["."], 1, "Is a directory"),
            (["--device", "nonsense"], 2, "device: expected cpu, cuda or cuda:1, got 'nonsense'"),
            (["--device", "cuda:77"], 2, "device: expected one that is here, got 'cuda:77'"),
            (["--json", "/dev/full"], 1, "/dev/full: No space left on device"),
        ],
    )
    def test_wrong_use_is_one_line(self, call: Run, arguments: list[str], code: int, message: str):
        got, out, err = call(*arguments, stdin="")
        assert (got, out) == (code, "")
        assert message in err
        assert err.count("\n") == 1

    def test_models(self, call: Run, tmp_path: Path):
        code, _, err = call(folder=tmp_path / "none")
        assert code == 1
        assert "there is no such folder" in err
        (tmp_path / "run" / "checkpoints").mkdir(parents=True)
        code, _, err = call(folder=tmp_path / "run")
        assert code == 1
        assert re.fullmatch("rela: error: .*has not finished a model yet.*\n", err)

    def test_the_folder_of_a_run(self, call: Run, model: Path, tmp_path: Path, expected: list[str]):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "model").symlink_to(model)
        assert call(stdin=TEXT, folder=tmp_path / "run")[1] == "".join(f"{line}\n" for line in expected)


class TestFiles:
    def test_a_link_stays_a_link(self, call: Run, tmp_path: Path):
        (tmp_path / "link").symlink_to("real")
        assert call("-o", "link", stdin="a cat\n")[0] == 0
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").is_file()

    def test_a_pipe_is_written_not_replaced(self, call: Run, tmp_path: Path):
        os.mkfifo(tmp_path / "pipe")
        with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
            assert call("-o", "pipe", stdin=TEXT)[0] == 0
            assert reader.communicate(timeout=60)[0].count("\n") == 8
        assert (tmp_path / "pipe").is_fifo()
        assert names(tmp_path) == ["pipe"]
        code, _, err = call("-o", "pipe", "--resume", stdin=TEXT)
        assert code == 2
        assert "--resume: expected --output to be a file" in err

    def test_a_full_disk_is_named(self, call: Run):
        code, _, err = call("-o", "/dev/full", stdin=TEXT)
        assert (code, err.splitlines()[-1]) == (
            1,
            "rela: error: /dev/full: No space left on device; make room, or choose another place",
        )


@pytest.mark.slow
class TestProcess:
    """What only a process of its own shows."""

    def test_a_reader_that_goes(self, model: Path, tmp_path: Path):
        (tmp_path / "in").write_text(TEXT * 40, encoding="utf-8")
        with subprocess.Popen(
            command(model, str(tmp_path / "in"), "--beam", "1", "--window", "4"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().endswith(b"\n")
            process.stdout.close()
            errors = process.stderr.read()
            assert (process.wait(60), errors) == (141, b"")

    def test_a_full_standard_output(self, model: Path):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                command(model, "--beam", "1"),
                input="the dog\n",
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr == (
            "rela: error: standard output: No space left on device; make room, or choose another place\n"
        )

    @pytest.mark.parametrize(
        ("redirection", "arguments", "code", "message"),
        [
            ("<&-", [], 1, "rela: error: standard input: expected it to be open, got it closed; give a file"),
            (">&-", ["in"], 1, "rela: error: standard output: expected it to be open, got it closed; name a file"),
            (">&-", ["in", "--json", "-"], 1, "rela: error: standard output: expected it to be open, got it closed"),
            (">&-", ["in", "-o", "out"], 0, ""),
            ("<&-", ["in", "-o", "out"], 0, ""),
            ("<&- >&- 2>&-", ["in", "-o", "out"], 0, ""),
            ("2>&-", ["in", "--beam", "0"], 2, ""),
        ],
    )
    def test_closed_streams(
        self, model: Path, tmp_path: Path, redirection: str, arguments: list[str], code: int, message: str
    ):
        (tmp_path / "in").write_text("\n\n", encoding="utf-8")
        line = shlex.join(command(model, *arguments))
        done = subprocess.run(
            ["sh", "-c", f"{line} {redirection}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=same_package(),
        )
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == bool(message)
        if code == 0:
            assert (tmp_path / "out").read_text(encoding="utf-8") == "\n\n"

    def test_ctrl_c(self, model: Path):
        with subprocess.Popen(
            command(model, "--window", "1", "--beam", "1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdin.write(b"the dog\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")  # a window of 1 answers before the input ends
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert b"Traceback" not in process.stderr.read()

    def test_a_terminal_answers_line_by_line_and_unchanged(self, model: Path):
        """No progress bar may stand between the lines, and nothing may break long ones."""
        ours, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": "20", "TERM": "xterm"}
        with subprocess.Popen(
            command(model), stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            os.close(theirs)
            text = b"a cat sleeps under the small house\n"
            os.write(ours, text)
            expected = Translator.load(model).translate([text.decode()[:-1]])[0].text.replace("\n", " ").encode()
            seen = b""
            while not seen.endswith(expected + b"\r\n"):
                seen += os.read(ours, 1000)
            os.write(ours, b"\x04")
            assert process.wait(60) == 0
        os.close(ours)
        assert seen.replace(b"\r\n", b"\n") == text + expected + b"\n"

    def test_another_locale(self, model: Path):
        done = subprocess.run(
            command(model, "--beam", "1"),
            input="läuft\n".encode(),
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        expected = Translator.load(model).translate(["läuft"], beam=1)[0].text.replace("\n", " ")
        assert (done.returncode, done.stdout) == (0, f"{expected}\n".encode())


class TestDecoding:
    def test_lengths(self, call: Run, model: Path):
        code, out, _ = call("--min-length", "4", "--max-length", "4", "--json", "-", stdin="the dog runs\n")
        assert code == 0
        expected = Translator.load(model).translate(["the dog runs"], beam=2, min_length=4, max_length=4)[0]
        assert json.loads(out)["translations"][0]["score"] == expected.score
        code, _, err = call("--min-length", "5", "--max-length", "4", stdin="the dog runs\n")
        assert code == 2
        assert "--max-length: expected at least --min-length 5, got 4" in err

    def test_int8(self, call: Run, model: Path):
        code, out, _ = call("--precision", "int8", stdin=TEXT)
        assert code == 0
        found = Translator.load(model, precision="int8").translate(LINES, beam=2)
        assert out == "".join("{}\n".format(one.text.replace("\n", " ")) for one in found)
        assert [one.score for one in found] != [one.score for one in Translator.load(model).translate(LINES, beam=2)]
        assert call("--precision", "int4", stdin=TEXT)[0] == 2

    def test_a_decoder_can_be_forced(self, call: Run, monkeypatch: pytest.MonkeyPatch, expected: list[str]):
        monkeypatch.setenv("RELA_DECODER", "torch")
        assert call(stdin=TEXT)[1] == "".join(f"{line}\n" for line in expected)
        code, _, err = call("--precision", "int8", stdin=TEXT)
        assert code == 1
        assert "precision int8: expected the native decoder, got RELA_DECODER=torch" in err
        monkeypatch.setenv("RELA_DECODER", "fast")
        code, _, err = call(stdin=TEXT)
        assert code == 1
        assert "RELA_DECODER: expected one of native, torch, or unset; got 'fast'" in err
