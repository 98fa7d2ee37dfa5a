"""`rela align`: what goes in and out, what it chooses and remembers, and what is refused."""

import gzip
import io
import json
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.translating import names, same_package
from tests.model.folders import text_model

from rela.alignment.aligner import Aligner
from rela.alignment.choice import Choice, load_choice, save_choice
from rela.alignment.errors import GoldLinks, alignment_error_rate
from rela.alignment.links import align, align_softly
from rela.alignment.symmetrise import symmetrise
from rela.cli import _aligning
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.model.directory import Languages, save_model
from rela.text.worded import Wording

SOURCE = ["the dog runs", "", "a cat , sleeps", "small house", "green dog under the house"]
TARGET = ["der Hund läuft", "Katze", "ein , Hund", "", "ein Haus und der Hund"]
PAIRS = list(zip(SOURCE, TARGET, strict=True))
FILES = ("--src", "in.en", "--tgt", "in.de")

Align = Callable[..., tuple[int, str, str]]


def make_model(folder: Path, seed: int = 0, languages: tuple[str, str] = ("en", "de")) -> Path:
    model, sides = text_model(seed=seed)
    save_model(folder, model, sides, Languages(*languages), {"test": True})
    return folder


def pharaoh(links: object) -> str:
    return " ".join(f"{i}-{j}" for i, j in links) + "\n"  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]


def expected(choice: Choice | None = None, wording: Wording | None = None) -> str:
    return "".join(pharaoh(one.links) for one in align(*text_model(), PAIRS, choice, wording))


def write_gold(
    path: Path, choice: Choice, *, base: int = 0, flip: bool = False, count: int | None = None
) -> list[GoldLinks]:
    """What a choice finds, as if it were right."""
    found = [one.links for one in align(*text_model(), PAIRS, choice)][:count]
    lines = [[(j + base, i + base) if flip else (i + base, j + base) for i, j in links] for links in found]
    path.write_text("".join(pharaoh(line) for line in lines), encoding="utf-8")
    return [GoldLinks(links, links) for links in found]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Align:
    """Runs the command in this process, in a folder with a model and its texts."""
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "model")
    for name, lines in (("in.en", SOURCE), ("in.de", TARGET)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def call_align(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code = run(COMMANDS, GROUPS, ["align", "model", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_align


class TestLinks:
    def test_a_line_for_a_line(self, call: Align):
        code, out, err = call(*FILES)
        assert (code, out, err) == (0, expected(), "")
        assert (out.split("\n")[1], out.split("\n")[3]) == ("", "")
        assert len(out.split("\n")[0]) > 2

    @pytest.mark.parametrize(
        ("arguments", "choice"),
        [
            (["--layer", "1"], Choice(0, True)),
            (["--head", "3"], Choice(1, True, 3)),
            (["--layer", "1", "--head", "0", "--no-shift"], Choice(0, False, 0)),
            (["--rule", "any", "--shift", "--head", "mean"], Choice(1, True, None, "any")),
        ],
    )
    def test_choices(self, call: Align, arguments: list[str], choice: Choice):
        assert call(*FILES, *arguments)[1] == expected(choice) != expected()

    def test_options_change_what_is_remembered_for_once(self, call: Align, tmp_path: Path):
        save_choice(tmp_path / "model", Choice(0, False, 2, "any"))
        assert call(*FILES)[1] == expected(Choice(0, False, 2, "any"))
        assert call(*FILES, "--head", "mean", "--shift")[1] == expected(Choice(0, True, None, "any"))
        assert load_choice(tmp_path / "model", text_model()[0]) == Choice(0, False, 2, "any")

    def test_tokenised_and_replaced(self, call: Align):
        wording = Wording(tokenised=True, replacements={"Hund": "Katze"})
        assert call(*FILES, "--tokenised", "--replace", "Hund=Katze")[1] == expected(wording=wording) != expected()

    def test_packed_and_standard_input(self, call: Align, tmp_path: Path):
        (tmp_path / "in.de.gz").write_bytes(gzip.compress((tmp_path / "in.de").read_bytes()))
        assert call("--src", "-", "--tgt", "in.de.gz", stdin=(tmp_path / "in.en").read_bytes())[1] == expected()

    def test_no_lines(self, call: Align, tmp_path: Path):
        for name in ("no.en", "no.de"):
            (tmp_path / name).touch()
        assert call("--src", "no.en", "--tgt", "no.de") == (0, "", "")

    def test_many_windows_in_order(self, call: Align, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(_aligning, "WINDOW", 2)
        assert call(*FILES)[1] == expected()
        assert call(*FILES, "-o", "out")[:2] == (0, "")
        assert Path("out").read_text(encoding="utf-8") == expected()
        assert not Path("out.partial").exists()

    def test_long_sides_are_cut_with_a_note(self, call: Align, tmp_path: Path):
        (tmp_path / "in.en").write_text("dog\n\ncat\n\n" + "dog " * 40 + "\n", encoding="utf-8")
        code, out, err = call(*FILES, "--max-pieces", "9")
        assert (code, out.count("\n")) == (0, 5)
        assert "of sides with more than 9 pieces, the words behind them have no links: " in err
        assert "5); see --max-pieces" in err
        assert all(int(link.split("-")[0]) < 9 for link in out.splitlines()[4].split())

    def test_lines_of_very_many_characters_are_sides_of_many_pieces(self, call: Align, tmp_path: Path):
        (tmp_path / "in.en").write_text("dog\n\ncat\n\n" + "dog " * 20_000 + "\n", encoding="utf-8")
        code, _, err = call(*FILES)
        assert code == 0
        assert "of sides with more than 1,024 pieces, the words behind them have no links: " in err
        assert "too-long: 1 (more characters than are allowed): in.en:5" in err

    def test_bytes_that_are_not_utf8(self, call: Align):
        code, out, err = call("--src", "-", "--tgt", "in.de", stdin=b"dog\n\xff\n\n\ncat\n")
        assert (code, out.count("\n")) == (0, 5)
        assert "rela: note: invalid-utf8: 1 (bytes that are not UTF-8): -:2\n" in err

    def test_the_wrong_way_round(self, call: Align):
        assert "looks like de; was another file or another model meant?" in call("--src", "in.de", "--tgt", "in.en")[2]


class TestMatrix:
    def test_soft_weights(self, call: Align):
        code, out, _ = call(*FILES, "--matrix", "--layer", "1", "--head", "2")
        assert code == 0
        soft = list(align_softly(*text_model(), PAIRS, Choice(0, True, 2)))
        for number, (line, found) in enumerate(zip(out.splitlines(), soft, strict=True), start=1):
            data = json.loads(line)
            assert list(data) == ["line", "source", "target", "weights"]
            assert (data["line"], data["source"], data["target"]) == (number, *found[:2])
            weights = np.array(data["weights"]).reshape(len(found.target_words), len(found.source_words))
            np.testing.assert_allclose(weights, found.weights, atol=1e-6)


class TestBestOn:
    CHOICE = Choice(0, True, 3)

    def test_chosen_and_remembered(self, call: Align, tmp_path: Path):
        write_gold(tmp_path / "gold", self.CHOICE)
        code, out, err = call(*FILES, "--best-on", "gold")
        assert (code, out) == (0, expected(self.CHOICE))
        assert "best on gold: layer 1, head 3, shifted, AER 0.00%; remembered in model\nAER|gold:gold|base:0|" in err
        assert load_choice(tmp_path / "model", text_model()[0]) == self.CHOICE
        assert call(*FILES) == (0, expected(self.CHOICE), "")

    @pytest.mark.parametrize(("base", "flip"), [(1, False), (0, True), (1, True)])
    def test_other_gold(self, call: Align, tmp_path: Path, base: int, flip: bool):
        write_gold(tmp_path / "gold", self.CHOICE, base=base, flip=flip)
        _, _, err = call(*FILES, "--best-on", "gold", "--base", str(base), *(["--flip"] if flip else []))
        assert f"base:{base}|flipped:{'yes' if flip else 'no'}|gold-pairs:5|" in err
        assert load_choice(tmp_path / "model", text_model()[0]) == self.CHOICE

    def test_gold_for_the_first_lines(self, call: Align, tmp_path: Path):
        write_gold(tmp_path / "gold", self.CHOICE, count=3)
        code, out, err = call(*FILES, "--best-on", "gold")
        assert (code, out.count("\n")) == (0, 5)
        assert "pairs:3|" in err

    def test_signed(self, call: Align, tmp_path: Path):
        """Whoever reads the error rate of a choice must see that it was made on the same sentences."""
        write_gold(tmp_path / "gold", self.CHOICE)
        _, out, err = call(*FILES, "--best-on", "gold", "-o", "out", "--json", "-")
        signature = json.loads(out)["best_on"]["signature"]
        assert "|chosen-on:gold|" in signature
        assert signature in err

    def test_what_is_given_stays(self, call: Align, tmp_path: Path):
        write_gold(tmp_path / "gold", self.CHOICE)
        call(*FILES, "--best-on", "gold", "--layer", "2", "--no-shift", "--rule", "merged")
        chosen = load_choice(tmp_path / "model", text_model()[0])
        assert (chosen.layer, chosen.shifted, chosen.rule) == (1, False, "merged")

    def test_a_wrong_file_changes_nothing(self, call: Align, tmp_path: Path):
        (tmp_path / "gold").write_text("0-0\n0-9\n", encoding="utf-8")
        code, out, err = call(*FILES, "--best-on", "gold")
        assert (code, out) == (1, "")
        assert err.startswith("rela: error: gold, line 2: expected links of 0 source words and 1 target words, got")
        assert not (tmp_path / "model" / "alignment.json").exists()


class TestEvaluation:
    def test_scores_and_signature(self, call: Align, tmp_path: Path):
        gold = write_gold(tmp_path / "test.sure", Choice(0, True, 3))
        (tmp_path / "test.possible").write_text("0-0 1-1\n\n\n\n4-4\n", encoding="utf-8")
        options = ("--gold-sure", "test.sure", "--gold-possible", "test.possible", "-o", "out", "--json", "-")
        code, out, err = call(*FILES, *options)
        found = json.loads(out)
        extra = [{(0, 0), (1, 1)}, set(), set(), set(), {(4, 4)}]
        known = [GoldLinks(g.sure, {*g.possible, *more}) for g, more in zip(gold, extra, strict=True)]
        rate = alignment_error_rate(
            (one.links, links) for one, links in zip(align(*text_model(), PAIRS), known, strict=True)
        )
        assert (code, found["lines"], found["evaluation"]["aer"]) == (0, 5, pytest.approx(rate))
        assert found["choice"] == {"layer": 1, "shifted": True, "head": None, "rule": "merged"}
        assert found["links"] == len(expected().split())
        signature = (
            f"AER|gold:test|base:0|flipped:no|gold-pairs:5|sure:{sum(len(g.sure) for g in gold)}"
            f"|possible:{sum(len(g.possible) for g in known)}|attention:rela-g|layer:2|head:mean|shift:yes|rule:merged"
            "|level:word|words:split|v0.1.0"
        )
        assert found["evaluation"]["signature"] == signature
        assert err == f"AER {rate:.2%}, precision {found['evaluation']['precision']:.2%}, recall " + (
            f"{found['evaluation']['recall']:.2%}, F1 {found['evaluation']['f1']:.2%}\n{signature}\n"
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0-0\n", "gold: expected links for each line of the text, got none for line 2"),
            ("\n" * 6, "gold: expected 5 lines, as many as the text has, got 6"),
            ("0-0\n\n0-5\n\n\n", "gold, line 3: expected links of 4 source words and 3 target words"),
        ],
    )
    def test_gold_that_does_not_fit(self, call: Align, tmp_path: Path, text: str, message: str):
        (tmp_path / "gold").write_text(text, encoding="utf-8")
        code, _, err = call(*FILES, "--gold-sure", "gold", "-o", "out")
        assert code == 1
        assert message in err
        assert not (tmp_path / "out").exists()


class TestSymmetrise:
    @pytest.mark.parametrize("method", ["intersection", "union", "grow-diag-final-and"])
    def test_equals_the_parts(self, call: Align, tmp_path: Path, method: str):
        make_model(tmp_path / "back", seed=3, languages=("de", "en"))
        save_choice(tmp_path / "back", Choice(0, False, 1))
        _, out, _ = call(*FILES, "--opposite", "back", "--symmetrise", method)
        turned = [(target, source) for source, target in PAIRS]
        backward = align(*text_model(seed=3), turned, Choice(0, False, 1))
        lines = [
            pharaoh(symmetrise(one.links, [(i, j) for j, i in other.links], method))  # pyright: ignore[reportArgumentType]
            for one, other in zip(align(*text_model(), PAIRS), backward, strict=True)
        ]
        assert out == "".join(lines)

    def test_best_on_chooses_for_both(self, call: Align, tmp_path: Path):
        make_model(tmp_path / "back", seed=3, languages=("de", "en"))
        write_gold(tmp_path / "gold", Choice(0, True, 3))
        options = ("--opposite", "back", "--symmetrise", "union", "--best-on", "gold", "--gold-sure", "gold")
        code, _, err = call(*FILES, *options)
        assert code == 0
        assert "remembered in model\n" in err
        assert "remembered in back\n" in err
        assert "|symmetrise:union|opposite:attention:rela-g,layer:" in err
        assert Aligner.load(tmp_path / "back").choice == load_choice(tmp_path / "back", text_model()[0])
        assert (tmp_path / "back" / "alignment.json").is_file()

    def test_the_same_direction(self, call: Align):
        code, _, err = call(*FILES, "--opposite", "model", "--symmetrise", "union")
        assert code == 2
        assert "--opposite: expected a model from de to en, got one from en to de" in err


class TestFiles:
    def test_to_a_file(self, call: Align, tmp_path: Path):
        assert call(*FILES, "-o", "out")[:2] == (0, "")
        assert (tmp_path / "out").read_text(encoding="utf-8") == expected()
        assert names(tmp_path) == ["in.de", "in.en", "model", "out"]

    def test_cut_off_and_resumed(self, call: Align, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(_aligning, "WINDOW", 2)
        real = Aligner.links
        calls: list[int] = []

        def stop(self: Aligner, pairs: list[tuple[int, str, str]], *rest: object) -> object:
            calls.append(pairs[0][0])
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(self, pairs, *rest)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(Aligner, "links", stop)
        code, _, err = call(*FILES, "-o", "out")
        assert code == 130
        assert "has the first 2 lines, and the same command with --resume goes on from there" in err
        assert call(*FILES, "-o", "out", "--layer", "1", "--resume")[0] == 2  # another choice
        code, _, err = call(*FILES, "-o", "out", "--resume")
        assert (code, calls) == (0, [1, 3, 3, 5])
        assert (tmp_path / "out").read_text(encoding="utf-8") == expected()

    @pytest.mark.slow
    def test_ctrl_c(self, call: Align, tmp_path: Path):
        arguments = ["align", "model", "--src", "-", "--tgt", "in.de", "-o", "out", "--threads", "1"]
        with subprocess.Popen(
            [sys.executable, "-m", "rela", *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=same_package(),
        ) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            while not (tmp_path / "out.partial.json").exists():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            errors = process.stderr.read().decode()
            assert process.wait(60) == 130
        assert re.search("rela: stopped; (not one window of 2,048 lines was done|nothing was done yet)", errors)
        assert not (tmp_path / "out").exists()


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--layer", "3"], 2, "--layer: expected 1 to 2, got 3"),
            (["--layer", "0"], 2, "--layer"),
            (["--head", "4"], 2, "--head: expected 0 to 3, or mean, got 4"),
            (["--head", "best"], 2, "--head: expected a number from 0, or mean, got 'best'"),
            (["--rule", "none"], 2, "--rule: expected merged or any, got 'none'"),
            (["--base", "2"], 2, "--base"),
            (["--base", "1"], 2, "--base and --flip: expected --best-on or --gold-sure as well"),
            (["--flip"], 2, "--base and --flip: expected --best-on or --gold-sure as well"),
            (["--best-possible", "x"], 2, "--best-possible: expected --best-on FILE as well"),
            (["--gold-possible", "x"], 2, "--gold-possible: expected --gold-sure FILE as well"),
            (["--opposite", "model"], 2, "expected --opposite MODEL and --symmetrise METHOD together"),
            (["--symmetrise", "union"], 2, "expected --opposite MODEL and --symmetrise METHOD together"),
            (
                ["--opposite", "model", "--symmetrise", "x"],
                2,
                "--symmetrise: expected intersection, union or grow-diag",
            ),
            (["--matrix", "--rule", "any"], 2, "--matrix: expected no --rule, --opposite or --gold-sure"),
            (["--replace", "x"], 2, "--replace: expected OLD=NEW, such as daß=dass, got 'x'"),
            (["--replace", "a b=x"], 2, "--replace: expected OLD=NEW"),
            (["--replace", "a=b", "--replace", "a=c"], 2, "--replace: expected each word once, got 'a'"),
            (["--resume"], 2, "--resume: expected --output FILE as well"),
            (["--resume", "-o", "out", "--gold-sure", "x"], 2, "--resume: expected no --json and no --gold-sure"),
            (["--json", "-"], 2, "--json: expected --output FILE as well as -"),
            (["-o", "in.de"], 2, "--output: expected another file than --tgt, got 'in.de' for both"),
            (["--best-on", "-"], 2, "expected files for gold links"),
            (["--best-on", "none"], 1, "none: No such file or directory"),
            (["--device", "nonsense"], 2, "device: expected cpu, cuda or cuda:1, got 'nonsense'"),
        ],
    )
    def test_wrong_use_is_one_line(self, call: Align, arguments: list[str], code: int, message: str):
        got, out, err = call(*FILES, *arguments)
        assert (got, out) == (code, "")
        assert message in err
        assert err.count("\n") == 1

    def test_one_file_for_both(self, call: Align):
        assert (
            "--src and --tgt: expected two files, got 'in.en' for both" in call("--src", "in.en", "--tgt", "in.en")[2]
        )

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (b"dog\n", "in.de: expected as many lines as in -, which has 1, got more"),
            (b"dog\n" * 9, "-: expected as many lines as in in.de, which has 5, got more"),
        ],
    )
    def test_unequal_lines(self, call: Align, tmp_path: Path, source: bytes, message: str):
        code, _, err = call("--src", "-", "--tgt", "in.de", "-o", "out", stdin=source)
        assert code == 1
        assert message in err
        assert not (tmp_path / "out").exists()
