"""`rela prepare`."""

import gzip
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.cli.helpers import rela
from tests.cli.preparing import ENGLISH, FAILURES, FILES, GERMAN, LANGUAGES, WRONG_USE

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.text import prepare as preparing
from rela.text.download import DownloadError, Remote
from rela.text.store import Store


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("RELA_DEBUG", "0")  # restored afterwards, although the program sets it
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RELA_DATA", raising=False)
    if "PYTHONPATH" in os.environ:  # which may be relative to the folder that the tests were started in
        monkeypatch.setenv("PYTHONPATH", str(Path(os.environ["PYTHONPATH"]).resolve()))
    write(tmp_path / "train.en", ENGLISH)
    write(tmp_path / "train.de", GERMAN)
    write(tmp_path / "train.tsv", [f"{n}\t{s}\t{t}" for n, (s, t) in enumerate(zip(ENGLISH, GERMAN, strict=True))])
    records = [{"en": s, "de": {"text": t}} for s, t in zip(ENGLISH, GERMAN, strict=True)]
    write(tmp_path / "train.jsonl", [json.dumps(record) for record in records])
    write(tmp_path / "bad.en", ["good", "", "x" * 200, "fine"])
    write(tmp_path / "bad.de", ["gut", "leer", "lang"])
    monkeypatch.chdir(tmp_path)


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def command(*arguments: str) -> int:
    """Runs the command in this process: starting one takes longer than all it does here."""
    return run(COMMANDS, GROUPS, ["prepare", *arguments])


def texts(folder: str, split: str = "train") -> tuple[list[str], list[str]]:
    store = Store.open(folder)
    sides = zip(store.split(split), store.tokenizers(), strict=True)
    source, target = ([subwords.decode(ids.tolist()) for ids in side] for side, subwords in sides)
    return source, target


def test_as_a_program() -> None:
    done = rela("prepare", "store", *FILES)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("store: 279 pieces in the vocabulary, learned from 3 pairs\n  train: 3 pairs, ")
    assert texts("store") == (ENGLISH, GERMAN)
    again = rela("prepare", "store", *FILES)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == "rela: error: store: there is something already; name another folder, or say --overwrite\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--pairs", "train=train.tsv", "--columns", "2,3"),
        ("--pairs", "train=train.jsonl", "--keys", "en,de.text"),
        ("--pairs", "train=packed.tsv.gz", "--columns", "2,3"),
        ("--pairs", "train=odd", "--format", "tsv", "--columns", "2,3"),
    ],
)
def test_forms(arguments: tuple[str, ...]) -> None:
    data = Path("train.tsv").read_bytes()
    Path("packed.tsv.gz").write_bytes(gzip.compress(data))
    Path("odd").write_bytes(data)
    assert command("store", *arguments, *LANGUAGES) == 0
    assert texts("store") == (ENGLISH, GERMAN)


def test_keys_are_the_languages_unless_given() -> None:
    write(Path("flat.jsonl"), [json.dumps({"en": "a", "de": "b"})])
    assert command("store", "--pairs", "train=flat.jsonl", *LANGUAGES) == 0
    assert texts("store") == (["a"], ["b"])


def test_standard_input() -> None:
    lines = "".join(f"{s}\t{t}\n" for s, t in zip(ENGLISH, GERMAN, strict=True)) + "alone\n"
    done = subprocess.run(
        [sys.executable, "-m", "rela", "prepare", "store", "--pairs", "train=-", *LANGUAGES],
        input=lines.encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b": -:4\n" in done.stdout
    assert texts("store") == (ENGLISH, GERMAN)


def test_problems_by_line_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write(Path("[red]:dog:.en"), ["good", "", "x" * 200, "fine"])  # not to be taken for markup
    pairs = ("--pairs", "train=[red]:dog:.en,bad.de", "--source", "en", "--target", "de", "--merges", "5")
    assert command("store", *pairs, "--max-chars", "100", "--json", "result.json") == 0
    shown = capsys.readouterr().out
    assert "    4 lines read, 1 kept, 3 left out\n" in shown
    for problem, line in (("unequal-lines", 4), ("too-long", 3), ("empty-source", 2)):
        found = next(text for text in shown.splitlines() if text.startswith(f"    {problem}: 1 ("))
        assert found.endswith(f": [red]:dog:.en:{line}")
    result = json.loads(Path("result.json").read_text(encoding="utf-8"))
    assert result["schema"] == "rela-prepare/1"
    assert (result["store"], result["vocabulary"]["source"]) == ("store", 264)
    assert result["splits"]["train"]["pairs"] == 1
    problems = result["reports"]["train"]["problems"]
    assert problems["too-long"] == {"count": 1, "first": [{"file": "[red]:dog:.en", "line": 3}]}


def test_json_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("store", *FILES, "--json", "-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["splits"]["train"]["pairs"] == 3
    assert captured.err == ""


def test_strict(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("store", "--pairs", "train=bad.en,bad.de", *LANGUAGES, "--strict") == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("rela: error: bad.en, line 2: empty-source: got ")
    assert captured.err.count("\n") == 1
    assert not list(Path().glob("*store*"))


@pytest.mark.parametrize("side", ["en", "de"])
def test_half_a_character(side: str, capsys: pytest.CaptureFixture[str]) -> None:
    broken = json.dumps({"en": "a", "de": "b"} | {side: "x \ud800"})
    write(Path("half.jsonl"), [json.dumps({"en": "a", "de": "b"}), broken])
    assert command("store", "--pairs", "train=half.jsonl", *LANGUAGES) == 0
    meaning = "an escape such as \\ud800 without its other half (a lone surrogate), which is no character"
    assert f"    half-character: 1 ({meaning}): half.jsonl:2\n" in capsys.readouterr().out
    assert command("strict", "--pairs", "train=half.jsonl", *LANGUAGES, "--strict") == 1
    assert capsys.readouterr().err.startswith(f"rela: error: half.jsonl, line 2: half-character: got {meaning}; repair")
    assert not list(Path().glob("*strict*"))


def test_the_same_language_twice_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        pairs = ("--pairs", "train=train.en,train.de", "--source", "en", "--target", "en", "--merges", "5")
        assert command("store", *pairs) == 0
    assert capsys.readouterr().err.startswith("rela: note: --source and --target are both en; is the text not to be")


def test_separate_and_the_vocabulary_of_another_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("one", *FILES, "--separate") == 0
    assert "one: 278 and 279 pieces in the vocabulary, learned from 3 pairs\n" in capsys.readouterr().out
    pairs = ("--pairs", "test=train.en,train.de", "--source", "en", "--target", "de")
    assert command("two", *pairs, "--tokenizer-of", "one") == 0
    assert "two: 278 and 279 pieces in the vocabulary\n" in capsys.readouterr().out
    assert texts("two", "test") == (ENGLISH, GERMAN)
    for name in ("tokenizer.source.json", "tokenizer.target.json"):
        assert (Path("two") / name).read_bytes() == (Path("one") / name).read_bytes()


def test_overwrite() -> None:
    assert command("store", *FILES) == 0
    turned = ("--source", "de", "--target", "en", "--merges", "20")
    assert command("store", "--pairs", "train=train.de,train.en", *turned, "--overwrite") == 0
    assert texts("store") == (GERMAN, ENGLISH)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"):
        write(folder / "multi30k" / f"{name}.en", ENGLISH)
        write(folder / "multi30k" / f"{name}.de", GERMAN)
    for name in ("train", "dev", "test"):
        write(folder / "europarl-de-en" / f"{name}.de", GERMAN)
        write(folder / "europarl-de-en" / f"{name}.en", ENGLISH)
    monkeypatch.setenv("RELA_DATA", str(folder))
    return folder


class TestCorpus:
    def test_all_splits(self, data: Path) -> None:
        assert command("store", "--corpus", "multi30k-en-de", "--merges", "20") == 0
        store = Store.open("store")
        assert store.splits == ["train", "dev", "test", "test-2017-flickr", "test-2017-mscoco"]
        assert store.languages == ("en", "de")
        assert texts("store", "dev") == (ENGLISH, GERMAN)

    def test_some_splits_reversed_with_notes(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        arguments = ("--corpus", "europarl-de-en", "--splits", "test", "--merges", "20", "--json", "result.json")
        assert command("store", *arguments) == 0
        assert Store.open("store").splits == ["train", "test"]
        assert texts("store", "test") == (GERMAN, ENGLISH)
        notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
        assert len(notes) == 2
        assert notes == [f"note: {note}" for note in json.loads(Path("result.json").read_text("utf-8"))["notes"]]

    def test_on_a_terminal(self, data: Path) -> None:
        """Two bars at once are an error of rich before 14.1."""
        primary, secondary = pty.openpty()
        arguments = ("prepare", "store", "--corpus", "multi30k-en-de", "--merges", "20")
        with subprocess.Popen(
            [sys.executable, "-m", "rela", *arguments], stdout=secondary, stderr=secondary
        ) as process:
            os.close(secondary)
            shown = b""
            while chunk := read_terminal(primary):
                shown += chunk
        os.close(primary)
        assert process.returncode == 0
        assert b"store: 279 pieces in the vocabulary" in shown

    def test_no_training_text_for_the_vocabulary_of_another_store(self, data: Path) -> None:
        assert command("one", *FILES) == 0
        for language in ("en", "de"):
            (data / "multi30k" / f"train.{language}").unlink()
        assert command("two", "--corpus", "multi30k-en-de", "--splits", "test", "--tokenizer-of", "one") == 0
        assert Store.open("two").splits == ["test"]
        assert texts("two", "test") == (ENGLISH, GERMAN)

    @pytest.mark.parametrize(
        ("out", "more", "code", "message"),
        [
            ("train.en", (), 1, "train.en: there is something already; name another folder, or say --overwrite"),
            ("train.en", ("--overwrite",), 1, "train.en: expected a store to overwrite, got something else"),
            ("store", ("--tokenizer-of", "data"), 1, "data: expected tokenizer.json, or tokenizer.source.json and"),
            ("store", ("--splits", "tset"), 2, "--splits: expected some of train, dev, test, "),
        ],
    )
    def test_what_is_wrong_anyway_is_said_before_anything_is_fetched(
        self,
        out: str,
        more: tuple[str, ...],
        code: int,
        message: str,
        data: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr("rela.text.corpora.fetch", None)
        assert command(out, "--corpus", "multi30k-en-de", *more) == code
        assert message in capsys.readouterr().err

    def test_the_terms_of_what_is_fetched(
        self, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def download(remote: Remote, path: Path, **_: object) -> Path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(b"text\n"))
            return path

        monkeypatch.setattr("rela.text.corpora.download", download)
        arguments = ("--corpus", "multi30k-en-de", "--splits", "dev", "--merges", "5")
        assert command("local", *arguments) == 0
        assert "note: " not in capsys.readouterr().out
        monkeypatch.delenv("RELA_DATA")
        assert command("fetched", *arguments) == 0
        note = "note: multi30k-en-de was fetched from the web: Multi30k, task 1: 29,000 image captions, English and de"
        shown = capsys.readouterr().out
        assert note in shown
        assert "terms: research use; captions of Flickr30k: github.com/multi30k/dataset\n" in shown

    def test_no_network_is_one_line(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def none(*_: object, **__: object) -> None:
            raise DownloadError("http://x: expected to find the server, got none; run the same again with a network")

        monkeypatch.setattr("rela.text.corpora.download", none)
        monkeypatch.setenv("RELA_DATA", "")
        monkeypatch.setenv("RELA_CACHE", "cache")
        assert command("store", "--corpus", "multi30k-en-de") == 1
        assert capsys.readouterr().err.splitlines() == [
            "rela: error: http://x: expected to find the server, got none; run the same again with a network"
        ]

    def test_no_such_corpus_or_split(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert command("store", "--corpus", "multi30k-en-dee") == 2
        assert "--corpus: expected a known corpus, got 'multi30k-en-dee'; did you mean" in capsys.readouterr().err
        assert command("store", "--corpus", "multi30k-en-de", "--splits", "dev,tset") == 2
        assert "--splits: expected some of train, dev, test, " in capsys.readouterr().err


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # so Linux tells that the other side has ended
        return b""


@pytest.mark.parametrize(("arguments", "message"), WRONG_USE)
def test_wrong_use(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link.de").symlink_to("train.en")
    assert command("store", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("rela: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not list(Path().glob("*store*"))


@pytest.mark.parametrize(("out", "arguments", "message"), FAILURES)
def test_failures(out: str, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cache").mkdir()
    Path("empty.en").touch()
    Path("empty.de").touch()
    Path("cut.tsv.gz").write_bytes(gzip.compress(b"a\tb\n" * 1000)[:-12])
    assert command(out, *arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("rela: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not list(Path().glob("*store*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("locked").mkdir(mode=0o500)
    assert command("locked/store", *FILES) == 1
    assert "Permission denied" in capsys.readouterr().err


def test_a_full_disk() -> None:
    limit = "import resource as r, signal as s; s.signal(s.SIGXFSZ, s.SIG_IGN); r.setrlimit(r.RLIMIT_FSIZE, (500, 500))"
    program = f"{limit}; from rela.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "prepare", "store", *FILES], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"rela: error: {Path.cwd()}/.store.partial/tokenizer.json: File too large; see `ulimit -f`, or choose another "
        "place\n"
    )
    assert command("store", *FILES) == 0
    assert texts("store") == (ENGLISH, GERMAN)


def test_interrupted_and_taken_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    encode: Any = preparing.SentenceWriter.write
    calls: list[int] = []

    def interrupted(self: Any, sentences: Any) -> None:
        encode(self, sentences)
        calls.append(1)
        if len(calls) == 3:  # in the second split
            raise KeyboardInterrupt

    monkeypatch.setattr(preparing.SentenceWriter, "write", interrupted)
    arguments = (*FILES, "--pairs", "dev=train.en,train.de")
    assert command("store", *arguments) == 130
    assert not Path("store").exists()
    assert capsys.readouterr().err == (
        f"rela: stopped; {Path.cwd()}/.store.partial has what was done, and the same command goes on from there\n"
    )
    assert command("store", *arguments) == 0
    assert len(calls) == 3 + 2  # of the second split only
    assert texts("store", "train") == texts("store", "dev") == (ENGLISH, GERMAN)
    assert not list(Path().glob(".store*"))


def test_ctrl_c() -> None:
    os.mkfifo("pipe")  # nobody writes: the program waits
    arguments = ("prepare", "store", "--pairs", "train=pipe,train.de", *LANGUAGES)
    with subprocess.Popen([sys.executable, "-m", "rela", *arguments], stderr=subprocess.PIPE) as process:
        while not Path(".store.partial/recipe.json").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr is not None
        said = b"rela: stopped; nothing is left behind, and the same command begins anew\n"
        assert process.stderr.read() == said
    assert not list(Path().glob("*store*"))


@pytest.mark.parametrize(
    ("redirection", "pairs", "code", "message"),
    [
        ("<&-", "-", 1, "rela: error: standard input: expected it to be open, got it closed; give a file"),
        ("<&-", "-,train.de", 1, "rela: error: standard input: expected it to be open, got it closed; give a file"),
        (">&-", "train.en,train.de", 0, ""),
        (">&- --json -", "train.en,train.de", 1, "rela: error: standard output: expected it to be open"),
        ("> /dev/full", "train.en,train.de", 0, "rela: note: standard output: No space left on device"),
    ],
)
def test_standard_streams_of_no_use(redirection: str, pairs: str, code: int, message: str) -> None:
    line = shlex.join([sys.executable, "-m", "rela", "prepare", "store", "--pairs", f"train={pairs}", *LANGUAGES])
    done = subprocess.run(["sh", "-c", f"{line} {redirection}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == bool(message)
    assert not list(Path().glob(".store*"))
