"""The program around the commands: help, version, exit codes, errors, and how fast it answers."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from inspect import signature
from pathlib import Path
from unittest import mock

import pytest
import typer
from tests.cli.helpers import rela
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from rela._version import __version__
from rela.cli._app import EXIT_INTERRUPTED, build_app, run
from rela.cli._commands import COMMANDS, GROUPS, Command
from rela.cli._output import JsonOption, console_for, write_json

HEAVY = ("torch", "numpy", "entmax", "sacrebleu", "sacremoses")


HELP = [
    ["--help"],
    ["--version"],
    *([*name.split(), "--help"] for name in [*GROUPS, *(c.name for c in COMMANDS)]),
]


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_and_version_load_nothing_heavy(arguments: list[str]):
    code = (
        "import sys; from rela.cli import main\n"
        f"sys.argv = ['rela', *{arguments}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "assert not loaded, f'loaded: {loaded}'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_python_m_rela_is_the_same():
    done = subprocess.run([sys.executable, "-m", "rela", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"rela {__version__}\n")


def test_help_answers_well_under_a_second():
    def seconds() -> float:
        before = os.times()
        assert rela("--help").returncode == 0
        after = os.times()
        return (after.children_user + after.children_system) - (before.children_user + before.children_system)

    # Processor time, and the fastest of five, because the tests next door keep the machine busy.
    assert min(seconds() for _ in range(5)) < 0.7


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_an_example_and_json(command: Command):
    shown = " ".join(rela(*command.name.split(), "--help").stdout.split())
    assert f"Example: {command.example}" in shown
    assert command.example.startswith(f"rela {command.name}")
    assert "--json FILE" in shown


@pytest.mark.parametrize(
    "command", [one for one in COMMANDS if "threads" in signature(one.run).parameters], ids=lambda command: command.name
)
def test_more_threads_than_any_machine_has_are_refused(command: Command):
    """torch would take them, and crash."""
    shown = " ".join(rela(*command.name.split(), "--help").stdout.split())
    assert "1<=x<=1024" in shown


def test_version():
    done = rela("--version")
    assert (done.returncode, done.stdout) == (0, f"rela {__version__}\n")


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["doctor", "nonsense"], []])
def test_wrong_use_is_exit_code_2(arguments: list[str]):
    done = rela(*arguments)
    assert done.returncode == 2
    assert done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flops", "--heads", "0"], "--heads.* got '0'; see `rela flops --help`"),
        (["flops", "--heads=0"], "--heads.* got '0'; see `rela flops --help`"),
        (["bench", "attention", "--lengths", "x"], "--lengths: expected .*got 'x'; see `rela bench attention --help`"),
        (
            ["bench", "train", "--store", "x", "--joeynmt", "y", "--rounds", "4"],
            "--rounds.* got '4'; see `rela bench train --help`",
        ),
        (["xyzzy"], "No such command 'xyzzy'; see `rela --help`"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], message: str):
    done = rela(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"rela: error: .*{message}\n", done.stderr)


def test_sizes_that_do_not_fit_this_machine():
    done = rela("flops", "--dim", "10000000000", "--heads", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch("rela: error: .*; choose smaller sizes\n", done.stderr)


def test_a_narrow_window_loses_no_number():
    done = rela("flops", COLUMNS="40")
    assert "…" not in done.stdout
    assert "239,200" in done.stdout


class TestErrors:
    """`run` on made-up commands that fail in all the ways commands can."""

    @pytest.fixture(autouse=True)
    def _keep_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RELA_DEBUG", "0")  # restored afterwards, although the program sets it

    @staticmethod
    def run_failing(error: BaseException, *options: str) -> int:
        def fail() -> None:
            raise error

        command = Command(name="fail", run=fail, example="rela fail")
        other = Command(name="group other", run=fail, example="rela group other")
        return run([command, other], {"group": "Commands in a group."}, [*options, "fail"])

    def test_torchrun_is_told_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
        assert self.run_failing(ValueError("no")) == 1
        failure = ProcessFailure(local_rank=0, pid=1, exitcode=1, error_file=str(tmp_path / "error.json"))
        assert failure.error_file_data["message"]["extraInfo"]["py_callstack"] == "rela: error: no"
        assert "rela: error: no" in ChildFailedError("rela", {0: failure}).format_msg()

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (ValueError("expected 1,\n  got 2"), "expected 1, got 2"),
            (
                FileNotFoundError(2, "No such file or directory", "a.txt"),
                "a.txt: No such file or directory; check the path",
            ),
            (PermissionError(13, "Permission denied", "a.txt"), "a.txt: Permission denied; check its permissions"),
            (OSError("disk full"), "disk full"),
            (ValueError(), "ValueError"),
            (
                ModuleNotFoundError("No module named 'torch'"),
                "No module named 'torch'; `rela doctor` says what is missing and how to install it",
            ),
        ],
    )
    def test_user_errors_are_one_line(self, error: Exception, message: str, capsys: pytest.CaptureFixture[str]):
        assert self.run_failing(error) == 1
        captured = capsys.readouterr()
        assert captured.err == f"rela: error: {message}\n"
        assert captured.out == ""

    def test_a_package_that_an_extra_has(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        monkeypatch.setattr("rela.cli._app.read_extras", lambda: {"translate": {"sacrebleu": None}})
        error = ModuleNotFoundError("No module named 'sacrebleu'", name="sacrebleu.metrics")
        assert self.run_failing(error) == 1
        remedy = 'pip install "rela-attention[translate]"'
        assert capsys.readouterr().err == f"rela: error: No module named 'sacrebleu'; {remedy}\n"

    def test_debug_shows_the_traceback(self, monkeypatch: pytest.MonkeyPatch):
        with pytest.raises(ValueError, match="with traceback"):
            self.run_failing(ValueError("with traceback"), "--debug")
        monkeypatch.setenv("RELA_DEBUG", "1")
        with pytest.raises(ValueError, match="with traceback"):
            self.run_failing(ValueError("with traceback"))
        monkeypatch.setenv("RELA_DEBUG", "0")
        assert self.run_failing(ValueError("without")) == 1

    def test_our_own_defects_keep_their_traceback(self):
        with pytest.raises(ZeroDivisionError):
            self.run_failing(ZeroDivisionError())

    def test_interrupt_is_130_without_a_traceback(self, capsys: pytest.CaptureFixture[str]):
        assert self.run_failing(KeyboardInterrupt()) == EXIT_INTERRUPTED == 130
        assert "Traceback" not in capsys.readouterr().err

    def test_interrupt_while_torch_is_loaded(self, tmp_path: Path):
        """Where the exception would meet C++ code that aborts on it."""
        (tmp_path / "torch.py").write_text("import time\nopen('loading', 'w').close()\ntime.sleep(60)\n")
        code = "import sys; sys.path.insert(0, '.'); from rela.cli import main; sys.argv[1:] = ['doctor']; main()"
        with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, cwd=tmp_path) as process:
            while not (tmp_path / "loading").exists():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.communicate()[1] == b""
        assert process.returncode == EXIT_INTERRUPTED

    def test_warnings_are_one_line(self, capsys: pytest.CaptureFixture[str]):
        def warn() -> None:
            warnings.warn("rela: something\n is slower", stacklevel=1)

        commands = [Command(name=name, run=warn, example=f"rela {name}") for name in ("warn", "again")]
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert run(commands, {}, ["warn"]) == 0
        assert capsys.readouterr().err == "rela: note: something is slower\n"

    def test_a_command_may_choose_its_exit_code(self):
        assert self.run_failing(typer.Exit(1)) == 1

    def test_a_group_shows_its_help(self, capsys: pytest.CaptureFixture[str]):
        commands = [Command(name="group one", run=lambda: None, example="rela group one")]
        assert run(commands, {"group": "Commands in a group."}, ["group", "--help"]) == 0
        assert "Commands in a group." in capsys.readouterr().out

    def test_a_group_without_an_entry_is_our_own_defect(self):
        with pytest.raises(KeyError):
            build_app([Command(name="group one", run=lambda: None, example="rela group one")], {})


class TestJson:
    """`--json` on a made-up command."""

    @staticmethod
    def run_measure(*arguments: str, value: float = 1.5) -> int:
        def measure(json_to: JsonOption = None) -> None:
            """Measure something."""
            if json_to is not None:
                write_json({"né": value}, json_to)
            console_for(json_to).print("for people")

        # Two commands, because typer takes the only command of a program for the program itself.
        commands = [Command(name=name, run=measure, example=f"rela {name}") for name in ("measure", "again")]
        return run(commands, {}, ["measure", *arguments])

    def test_to_standard_output_alone(self, capsys: pytest.CaptureFixture[str]):
        assert self.run_measure("--json", "-") == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out) == {"né": 1.5}
        assert captured.err == ""

    def test_to_a_file_beside_the_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        file = tmp_path / "result.json"
        file.write_text("old")
        assert self.run_measure("--json", str(file)) == 0
        assert json.loads(file.read_text(encoding="utf-8")) == {"né": 1.5}
        assert capsys.readouterr().out == "for people\n"
        assert [path.name for path in tmp_path.iterdir()] == ["result.json"]

    def test_a_link_stays_a_link(self, tmp_path: Path):
        (tmp_path / "link.json").symlink_to("result.json")
        assert self.run_measure("--json", str(tmp_path / "link.json")) == 0
        assert (tmp_path / "link.json").is_symlink()
        assert (tmp_path / "result.json").is_file()

    def test_a_pipe_is_written_not_replaced(self, tmp_path: Path):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
            assert self.run_measure("--json", str(pipe)) == 0
            assert json.loads(reader.communicate(timeout=20)[0]) == {"né": 1.5}
        assert pipe.is_fifo()

    def test_a_result_without_a_json_form_leaves_the_old_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        file = tmp_path / "result.json"
        file.write_text("old")
        assert self.run_measure("--json", str(file), value=float("nan")) == 1
        assert file.read_text() == "old"
        assert "not JSON compliant" in capsys.readouterr().err

    def test_a_disk_that_fails_is_named_by_the_users_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            assert self.run_measure("--json", str(tmp_path / "result.json")) == 1
        assert capsys.readouterr().err == (
            f"rela: error: {tmp_path / 'result.json'}: No space left on device; make room, or choose another place\n"
        )

    def test_no_such_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert self.run_measure("--json", str(tmp_path / "none" / "result.json")) == 2
        assert "does not exist; make it first" in capsys.readouterr().err

    def test_a_folder_is_not_a_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        assert self.run_measure("--json", str(tmp_path)) == 2
        assert "expected a file" in capsys.readouterr().err
