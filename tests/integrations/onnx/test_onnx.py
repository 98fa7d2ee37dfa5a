"""Models in ONNX translate as they did before, also where there is no torch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.training.helpers import TWO_LAYERS, make_store, tiny_config, train

import rela
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.integrations.onnx.export import export_onnx
from rela.integrations.onnx.runner import OnnxTranslator
from rela.model.directory import load_model, save_model
from rela.text.grammar import write_corpus
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource


class Made(NamedTuple):
    """A model that has learned something, and the same one exported."""

    model: Path
    exported: Path
    sentences: list[str]


def make_model(folder: Path, attention: str, *, steps: int = 150, joint: bool = True) -> tuple[Path, list[str]]:
    store = make_store(folder / "text", pairs=120, joint=joint)
    tied = "all" if joint else "target"
    train(
        tiny_config(store, budget__steps=steps, model__attention=attention, model__tied=tied, **TWO_LAYERS),
        folder / "run",
    )
    lines = (folder / "text" / "train.en").read_text(encoding="utf-8").splitlines()[:40]
    return folder / "run", [*lines, "", "   ", "one " * 30, "naïve — 数字?"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("onnx")
    model, sentences = make_model(folder, "rela-g")
    export_onnx(model, folder / "exported")
    return Made(model, folder / "exported", sentences)


def assert_equal(model: Path, exported: Path, sentences: list[str], beam: int) -> None:
    ours = rela.Translator.load(model).translate(sentences, beam=beam, nbest=beam)
    theirs = OnnxTranslator.load(exported, threads=1).translate(sentences, beam=beam, nbest=beam)
    for mine, other in zip(ours, theirs, strict=True):
        for one, same in zip((mine, *mine.alternatives), (other, *other.alternatives), strict=True):
            assert (one.text, one.finished, one.truncated) == (same.text, same.finished, same.truncated)
            assert one.score == pytest.approx(same.score, abs=1e-4)
            assert one.log_probability == pytest.approx(same.log_probability, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_equal(made: Made, beam: int) -> None:
    assert_equal(made.model, made.exported, made.sentences, beam)


def test_long_sources_are_cut(made: Made) -> None:
    [ours] = rela.Translator.load(made.model).translate(["one two three four"], max_source=3, warn_truncated=False)
    [theirs] = OnnxTranslator.load(made.exported).translate(["one two three four"], max_source=3)
    assert theirs.truncated
    assert theirs.text == ours.text


@pytest.mark.parametrize("beam", [1, 3])
def test_cross_attention_is_that_of_the_model(made: Made, beam: int) -> None:
    [found] = OnnxTranslator.load(made.exported).translate(["one two three!"], beam=beam, attention=True)
    assert found.attention is not None
    translator = rela.Translator.load(made.model)
    [seen] = rela.inspect(translator, ["one two three!"], [found.text])
    expected = seen["cross"]
    assert found.finished
    assert found.attention.values.shape == expected.shape
    np.testing.assert_allclose(found.attention.values, expected, atol=1e-5)
    assert (found.attention.values == 0).any()
    assert len(found.attention.source) == expected.shape[-1]
    assert len(found.attention.target) == expected.shape[-2]


def test_the_program_runs_without_torch_and_rela(made: Made, tmp_path: Path) -> None:
    """In an interpreter that finds the three packages and nothing of ours."""
    folder = shutil.copytree(made.exported, tmp_path / "elsewhere")
    code = (
        "import runpy, sys\n"
        "class No:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.partition('.')[0] in ('torch', 'rela'): raise ImportError(f'{name} is not here')\n"
        "sys.meta_path.insert(0, No())\n"
        "sys.argv = ['translate.py', '--beam', '2', '--threads', '1']\n"
        f"runpy.run_path({str(folder / 'translate.py')!r}, run_name='__main__')\n"
    )
    text = "".join(f"{line}\n" for line in made.sentences).encode()
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    ours = rela.Translator.load(made.model).translate(made.sentences, beam=2)
    assert done.stdout.decode().split("\n")[:-1] == [one.text for one in ours]


def test_the_program_says_what_it_cut(made: Made) -> None:
    command = [sys.executable, str(made.exported / "translate.py"), "--beam", "1", "--max-source", "2"]
    done = subprocess.run(command, input=b"one two three!\none\n", capture_output=True, check=True)
    assert done.stdout.count(b"\n") == 2
    assert done.stderr.decode() == "note: 1 lines have more than 2 pieces; their ends are cut\n"


def test_the_program_says_what_is_no_text(made: Made) -> None:
    command = [sys.executable, str(made.exported / "translate.py"), "--beam", "1"]
    done = subprocess.run(command, input=b"one\0two\n\xff\none\n", capture_output=True, check=True)
    assert done.stderr.decode().startswith("note: 2 lines are not UTF-8, or have a NUL")
    whole = subprocess.run(command, input="one\ufffdtwo\n\ufffd\none\n".encode(), capture_output=True, check=True)
    assert done.stdout == whole.stdout
    assert not whole.stderr


def test_sentences_may_come_one_by_one_and_be_empty(made: Made) -> None:
    translator = OnnxTranslator.load(made.exported)
    texts = ["one two!", "", "four!"]
    found = translator.translate((text for text in texts), attention=True)
    assert [one.text for one in found] == [one.text for one in translator.translate(texts)]
    assert found[0].text
    assert found[1].attention is not None
    assert found[1].attention.values.shape[2:] == (0, 0)


def test_int8_is_smaller_and_close(made: Made, tmp_path: Path) -> None:
    description = export_onnx(made.model, tmp_path / "int8", int8=True)
    assert description["precision"] == "int8"
    exact, rounded = (OnnxTranslator.load(folder, threads=1) for folder in (made.exported, tmp_path / "int8"))
    source = np.array([[5, 9, 14, 8, 11, 2], [7, 12, 2, 0, 0, 0]], np.int64)
    for before, after in zip(exact.encode(source), rounded.encode(source), strict=True):
        assert 0 < np.linalg.norm(before - after) < 0.05 * np.linalg.norm(before)
    for before, after in zip(exact.translate(["one two!"]), rounded.translate(["one two!"]), strict=True):
        assert before.score == pytest.approx(after.score, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "attention",
    ["softmax", "sparsemax", "entmax15", "entmax", "topk", "relu-rmsnorm", "rela-i", "rela-g-layernorm", "rela-g-gelu"],
)
def test_any_attention(attention: str, tmp_path: Path) -> None:
    model, sentences = make_model(tmp_path, attention, joint=False)
    export_onnx(model, tmp_path / "exported")
    assert_equal(model, tmp_path / "exported", sentences[:20], 3)


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A model of the built-in corpus, and a thousand sentences that it never saw."""
    folder = tmp_path_factory.mktemp("thousand")
    write_corpus(folder / "corpus", counts={"train": 20_000, "dev": 100, "test": 1000})
    splits = {
        split: [PairSource.files(folder / f"corpus/{split}.en", folder / f"corpus/{split}.de")]
        for split in ("train", "dev")
    }
    prepare(splits, ("en", "de"), folder / "store", PrepareOptions(merges=500))
    sizes = {**TWO_LAYERS, "model__dim": 64, "model__ffn_dim": 128, "rate__peak": 3e-3, "rate__warmup": 100}
    train(tiny_config(folder / "store", budget__steps=1500, model__attention="rela-g", **sizes), folder / "run")
    export_onnx(folder / "run", folder / "exported")
    sentences = (folder / "corpus" / "test.en").read_text(encoding="utf-8").splitlines()
    return Made(folder / "run", folder / "exported", sentences)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_a_thousand_sentences(thousand: Made, beam: int) -> None:
    assert len(set(thousand.sentences)) > 900
    ours = [one.text for one in rela.Translator.load(thousand.model).translate(thousand.sentences, beam=beam)]
    theirs = OnnxTranslator.load(thousand.exported, threads=1).translate(thousand.sentences, beam=beam)
    assert [one.text for one in theirs] == ours
    assert len(set(ours)) > 500  # it has learned to say different things


def export(*arguments: str) -> int:
    return run(COMMANDS, GROUPS, ["export", *arguments])


class TestCommand:
    @pytest.fixture(autouse=True)
    def _quiet(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # pyright: ignore[reportUnusedFunction]
        monkeypatch.setenv("RELA_DEBUG", "0")
        monkeypatch.setenv("COLUMNS", "300")
        monkeypatch.chdir(tmp_path)

    def test_it_says_what_it_wrote(self, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
        assert export(str(made.model), "--onnx", "out", "--json", "out.json") == 0
        assert capsys.readouterr().out.startswith("out: rela-g, fp32, 0.")
        written = json.loads(Path("out.json").read_text())
        assert set(written["bytes"]) == {path.name for path in Path("out").iterdir()}
        assert Path("out/decoder.onnx").read_bytes()

    def test_folders_of_others_are_left_alone(self, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
        Path("mine").mkdir()
        Path("mine/thesis.txt").write_text("years of work")
        assert export(str(made.model), "--onnx", "mine") == 1
        assert "expected a new folder, or an export to replace" in capsys.readouterr().err
        assert Path("mine/thesis.txt").read_text() == "years of work"

    def test_files_beside_an_export_are_not_lost(self, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
        shutil.copytree(made.exported, "out")
        Path("out/notes.txt").write_text("of mine")
        assert export(str(made.model), "--onnx", "out") == 1
        assert "got notes.txt beside it" in capsys.readouterr().err
        assert Path("out/notes.txt").exists()

    def test_this_folder_is_not_replaced(self, made: Made, capsys: pytest.CaptureFixture[str]) -> None:
        assert export(str(made.model), "--onnx", ".") == 1
        assert "expected a folder beside or below this one" in capsys.readouterr().err

    def test_a_link_stays_one(self, made: Made) -> None:
        Path("old").mkdir()
        Path("link").symlink_to("old")
        assert export(str(made.model), "--onnx", "link") == 0
        assert Path("link").is_symlink()
        assert Path("old/decoder.onnx").exists()

    def test_a_model_that_is_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert export("nowhere", "--onnx", "out") == 1
        assert "nowhere" in capsys.readouterr().err
        assert not Path("out").exists()


class TestErrors:
    def test_a_folder_that_is_no_export(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="rela export --onnx"):
            OnnxTranslator.load(tmp_path)
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ValueError, match="expected the format rela-onnx-1, got None"):
            OnnxTranslator.load(tmp_path)

    def test_a_damaged_graph(self, made: Made, tmp_path: Path) -> None:
        folder = shutil.copytree(made.exported, tmp_path / "damaged")
        whole = (folder / "decoder.onnx").read_bytes()
        (folder / "decoder.onnx").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=r"decoder\.onnx: expected the file that config\.json was written with"):
            OnnxTranslator.load(folder)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beam": 0}, "beam: expected at least 1, got 0"),
            ({"beam": 2.5}, "beam: expected a whole number, got 2.5"),
            ({"beam": "4"}, "beam: expected a whole number, got '4'"),
            ({"nbest": 5}, "nbest: expected 1 to beam = 4, got 5"),
            ({"max_length": 0}, "max_length: expected at least 1"),
            ({"length_penalty": -1.0}, "length_penalty: expected 0 to 10"),
        ],
    )
    def test_options(self, made: Made, options: dict[str, Any], message: str) -> None:
        with pytest.raises((ValueError, TypeError), match=message):
            OnnxTranslator.load(made.exported).translate(["one"], **options)

    @pytest.mark.parametrize(
        ("sentences", "message"),
        [
            ("one", "put it into a list"),
            (["one", None], "expected strings, got NoneType as number 2"),
            (["\ud800"], "half a character"),
        ],
    )
    def test_what_is_no_text(self, made: Made, sentences: Any, message: str) -> None:
        with pytest.raises((ValueError, TypeError), match=message):
            OnnxTranslator.load(made.exported).translate(sentences)

    def test_files_of_two_exports(self, made: Made, tmp_path: Path) -> None:
        folder = shutil.copytree(made.exported, tmp_path / "mixed")
        graph = (folder / "decoder.onnx").read_bytes()
        (folder / "decoder.onnx").write_bytes(graph + b"\0")
        with pytest.raises(ValueError, match="that of another export"):
            OnnxTranslator.load(folder)

    def test_a_config_that_lacks_something(self, made: Made, tmp_path: Path) -> None:
        folder = shutil.copytree(made.exported, tmp_path / "lacking")
        config = json.loads((folder / "config.json").read_text())
        del config["layers"]
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match="got none for layers"):
            OnnxTranslator.load(folder)

    def test_weights_that_are_no_numbers(self, made: Made, tmp_path: Path) -> None:
        model, tokenizers, languages = load_model(made.model)
        with torch.no_grad():
            model.projection[5] = torch.nan
        save_model(tmp_path / "broken", model, tokenizers, languages, {})
        with pytest.raises(ValueError, match="NaN"):
            export_onnx(tmp_path / "broken", tmp_path / "exported")
        assert not (tmp_path / "exported").exists()
