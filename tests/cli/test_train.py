"""`rela train`, as a user runs it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.training.helpers import make_store, model_bytes, plain_config

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.training.checkpoints import list_checkpoints
from rela.training.journal import read_log, read_status


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("RELA_DEBUG", "0")  # restored afterwards, although the program sets it
    if "PYTHONPATH" in os.environ:  # which may be relative to the folder that the tests were started in
        monkeypatch.setenv("PYTHONPATH", str(Path(os.environ["PYTHONPATH"]).resolve()))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)


def write_config(store: Path, **changes: Any) -> None:
    Path("tiny.yaml").write_text(yaml.safe_dump(plain_config(store, **changes)))


def rela(*arguments: str) -> int:
    return run(COMMANDS, GROUPS, ["train", *arguments])


def begin(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """The program in a process of its own."""
    command = [sys.executable, *prefix, "-m", "rela", "train", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(step: int, folder: Path, process: subprocess.Popen[str]) -> None:
    """Until the run has come to an update."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (folder / "log.jsonl").exists() and any(entry["step"] >= step for entry in read_log(folder)):
            return
        time.sleep(0.01)
    process.terminate()
    pytest.fail(f"no update {step}: {process.communicate(timeout=60)}")


def test_from_a_file_to_a_model(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(store, validation__bleu=True)
    assert rela("tiny.yaml", "--set", "budget.steps=4", "--set", "seed=7", "--json", "result.json") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert re.fullmatch(
        r"training rela-g, 9,072 parameters, 60 pairs, [\d.]+% of the places in .* are padding", lines[0]
    )
    assert re.fullmatch(r"update 3: validation loss \d\.\d{4}, BLEU [\d.]+ \(greedy\), the best so far", lines[1])
    assert re.fullmatch(r"done: 4 updates, \d+ target tokens; best validation loss .* at update 4", lines[-2])
    assert lines[-1] == "the model: runs/tiny/model; try: rela translate --model runs/tiny/model"
    result = json.loads(Path("result.json").read_text())
    assert (result["step"], result["model"], result["best"]["step"]) == (4, "runs/tiny/model", 4)
    saved = yaml.safe_load(Path("runs/tiny/config.yaml").read_text())
    assert (saved["seed"], saved["budget"]["steps"]) == (7, 4)
    assert sorted(path.name for path in Path("runs/tiny").iterdir()) == [
        "checkpoints",
        "config.yaml",
        "log.jsonl",
        "model",
        "status.json",
    ]


def test_json_has_standard_output_for_itself(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(store, budget__steps=1)
    assert rela("tiny.yaml", "--run", "here", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["model"] == "here/model"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected CONFIG, or --resume and --run DIR"),
        (("--run", "x"), "expected CONFIG for a new run, or --resume to go on with the one in --run"),
        (("tiny.yaml", "--threads", "0"), "--threads"),
        (("tiny.yaml", "--set", "model.dmi=3"), "--set: unknown setting `model.dmi`; did you mean `model.dim`?"),
        (("tiny.yaml", "--set", "model.dim=15"), "--set: model.dim: expected a multiple of num_heads 2, got 15"),
        (("tiny.yaml", "--set", "budget"), "--set: expected a.b=value, got 'budget'"),
        (("tiny.yaml", "--device", "gpu"), "device: expected cpu, cuda or cuda:1, got 'gpu'"),
    ],
)
def test_wrong_use(store: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(store)
    assert rela(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.yaml",), "none.yaml: expected a configuration, there is no such file; those that came with rela"),
        (("tiny.yaml", "--set", "store=nosuch"), "nosuch: expected a folder that `rela prepare` made"),
        (("tiny.yaml", "--set", "split=test"), "expected one of the splits train, dev; got 'test'"),
        (("--resume", "--run", "nosuch"), "nosuch: expected a run that was started before, with config.yaml in it"),
        (("tiny.yaml", "--run", "tiny.yaml"), "tiny.yaml"),
    ],
)
def test_what_a_user_can_mend(
    store: Path, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(store)
    assert rela(*arguments) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("rela: error: ")
    assert captured.err.count("\n") == 1
    assert not Path("runs").exists()


def test_a_run_that_is_there(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(store, budget__steps=2)
    assert rela("tiny.yaml") == 0
    before = model_bytes(Path("runs/tiny"))
    assert rela("tiny.yaml") == 1
    assert "go on with `rela train --resume --run runs/tiny`, or name another folder" in capsys.readouterr().err
    assert rela("tiny.yaml", "--resume") == 0
    assert model_bytes(Path("runs/tiny")) == before
    assert rela("tiny.yaml", "--resume", "--set", "seed=3") == 1
    assert (
        "expected the settings it was started with, got seed 3 instead of 1; start a new run for that, or leave CONFIG "
        "out to go on with the run's own settings" in capsys.readouterr().err
    )
    assert rela("--resume", "--run", "runs/tiny", "--set", "budget.steps=4") == 0
    assert "training from update 2 on, rela-g" in capsys.readouterr().out


def test_a_run_has_one_trainer_at_a_time(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second one is refused, and the first one is not disturbed."""
    write_config(store, budget__steps=5000, checkpoints__every=50)
    process = begin("tiny.yaml")
    wait_for(2, Path("runs/tiny"), process)
    assert read_status(Path("runs/tiny")) == "running"
    assert rela("tiny.yaml", "--resume") == 1
    assert "runs/tiny: expected a run that nobody trains, got one that another process" in capsys.readouterr().err
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    assert read_status(Path("runs/tiny")) == "killed"
    assert rela("tiny.yaml", "--resume", "--set", "budget.steps=60") == 0
    assert read_status(Path("runs/tiny")) == "done"


def test_sigterm_has_an_exit_code_of_its_own(store: Path) -> None:
    write_config(store, budget__steps=5000)
    process = begin("tiny.yaml")
    wait_for(2, Path("runs/tiny"), process)
    process.terminate()
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (143, "stopped; go on with: rela train --resume --run runs/tiny\n")


@pytest.mark.parametrize("name", ["model", "log.jsonl", "status.json"])
def test_a_folder_with_files_that_a_run_would_replace(
    store: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(store)
    Path("mine").mkdir()
    Path("mine", name).write_text("precious")
    assert rela("tiny.yaml", "--run", "mine") == 1
    assert f"mine: expected a folder for a new run, got one with {name} in it" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in Path("mine").iterdir()] == [(name, "precious")]


def test_nothing_held_out_is_a_note(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(store, budget__steps=1, validation__split="train")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert rela("tiny.yaml") == 0
    assert "rela: note: training and validation are on the same pairs, the split 'train'" in capsys.readouterr().err


def test_names_like_markup_and_long_lines_stay_as_they_are(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write_config(store, budget__steps=1)
    folder = f"[red]{'long-' * 30}"
    assert rela("tiny.yaml", "--run", folder) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"the model: {folder}/model; try: rela translate --model {folder}/model"


def test_standard_output_may_be_closed(store: Path) -> None:
    write_config(store, budget__steps=2)
    command = f"exec {sys.executable} -m rela train tiny.yaml >&-"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert Path("runs/tiny/model/model.safetensors").exists()


def test_a_full_disk_behind_standard_output_is_a_note(store: Path) -> None:
    write_config(store, budget__steps=2)
    for resume in ("", "--resume"):
        command = f"exec {sys.executable} -m rela train tiny.yaml {resume} > /dev/full"
        found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
        note = "standard output: No space left on device; the work goes on, and nothing more is printed"
        assert (found.returncode, found.stderr) == (0, f"rela: note: {note}\n")
        assert read_status(Path("runs/tiny")) == "done"


def test_resume_begins_if_there_is_nothing_yet(store: Path) -> None:
    write_config(store, budget__steps=1)
    assert rela("tiny.yaml", "--resume") == 0


def test_divergence(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(
        store,
        model__attention="relu",
        rate={"peak": 0.9, "warmup": 10},
        divergence={"window": 5, "patience": 40, "max_rise": 1.0},
        budget__steps=200,
        batch__update_tokens=60,
    )
    assert rela("tiny.yaml") == 1
    error = capsys.readouterr().err
    assert re.match(r"rela: error: the training diverged at update \d+: the loss ", error)
    status = json.loads(Path("runs/tiny/status.json").read_text())
    assert status["status"] == "failed"
    assert f"at update {status['step']}: " in status["reason"]


def test_without_tensorboard(store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def missing() -> None:
        raise ModuleNotFoundError("No module named 'tensorboard'", name="tensorboard")

    monkeypatch.setattr("rela.training.trainer.board_class", missing)
    monkeypatch.setattr("rela.cli._app.read_extras", lambda: {"tensorboard": {"tensorboard": None}})
    write_config(store, log__tensorboard=True)
    assert rela("tiny.yaml") == 1
    error = capsys.readouterr().err
    assert error == "rela: error: No module named 'tensorboard'; pip install \"rela-attention[tensorboard]\"\n"
    assert not Path("runs").exists()


def test_a_damaged_checkpoint_is_a_note(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(store, budget__steps=4)
    assert rela("tiny.yaml") == 0
    Path("runs/tiny/checkpoints/step-0000004/optimizer.safetensors").write_bytes(b"cut")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert rela("--resume", "--run", "runs/tiny") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("rela: note: runs/tiny/checkpoints/step-0000004/optimizer.safetensors: expected a s")
    assert captured.err.endswith("the checkpoint is set aside as damaged-step-0000004, and left out\n")
    assert "training from update 2 on" in captured.out


def test_killed_and_interrupted(store: Path) -> None:
    """kill -9, then Ctrl-C, then to the end: the weights of a run without either."""
    changes = {"budget__steps": 60, "checkpoints__every": 4, "validation__bleu": True, "validation__every": 10}
    write_config(store, **changes)
    process = begin("tiny.yaml")
    wait_for(6, Path("runs/tiny"), process)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    killed_at = list_checkpoints(Path("runs/tiny"))[-1].step
    process = begin("--resume", "--run", "runs/tiny", "--json", "-")
    wait_for(killed_at + 7, Path("runs/tiny"), process)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert error == "stopped; go on with: rela train --resume --run runs/tiny\n"
    stopped_at = json.loads(Path("runs/tiny/status.json").read_text())
    assert stopped_at["status"] == "interrupted"
    assert killed_at < stopped_at["step"] == list_checkpoints(Path("runs/tiny"))[-1].step < 60
    assert rela("--resume", "--run", "runs/tiny") == 0
    assert rela("tiny.yaml", "--run", "whole") == 0
    assert model_bytes(Path("runs/tiny")) == model_bytes(Path("whole"))
    steps = [entry["step"] for entry in read_log(Path("runs/tiny")) if entry["event"] == "train"]
    assert steps == list(range(1, 61))


def test_a_reader_that_goes(store: Path) -> None:
    """As tee does on Ctrl-C: training goes on in silence, and still stops as it should."""
    write_config(store, budget__steps=400, validation__every=1, checkpoints__every=100)
    with begin("tiny.yaml") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("training rela-g")
        process.stdout.close()
        wait_for(6, Path("runs/tiny"), process)
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert (process.returncode, error) == (130, "stopped; go on with: rela train --resume --run runs/tiny\n")
    assert read_status(Path("runs/tiny")) == "interrupted"
    assert list_checkpoints(Path("runs/tiny"))[-1].step >= 6


TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")


@pytest.mark.slow
def test_torchrun(store: Path) -> None:
    """Two processes: to the end; and stopped, resumed and at the end with the same weights."""
    write_config(store, budget__steps=40, checkpoints__every=4)
    process = begin("tiny.yaml", "--run-dir", "whole", prefix=TORCHRUN)
    output, error = process.communicate(timeout=240)
    assert process.returncode == 0, error
    assert output.count("done: 40 updates") == 1
    assert ", 2 processes" in output
    process = begin("tiny.yaml", prefix=TORCHRUN)
    wait_for(6, Path("runs/tiny"), process)
    process.send_signal(signal.SIGINT)  # to torchrun, which passes it on
    _, error = process.communicate(timeout=120)
    assert process.returncode != 0
    assert error.count("go on with: rela train --resume --run-dir runs/tiny") == 1
    assert json.loads(Path("runs/tiny/status.json").read_text())["status"] == "interrupted"
    assert list_checkpoints(Path("runs/tiny"))[-1].step < 40
    process = begin("--resume", "--run-dir", "runs/tiny", prefix=TORCHRUN)
    assert process.wait(timeout=240) == 0
    process.communicate(timeout=60)
    assert model_bytes(Path("runs/tiny")) == model_bytes(Path("whole"))


@pytest.mark.slow
def test_torchrun_killed(store: Path) -> None:
    """One process of two is killed by kill -9: the other ends too, and both can go on."""
    write_config(store, budget__steps=40, checkpoints__every=4)
    process = begin("tiny.yaml", "--run-dir", "whole", prefix=TORCHRUN)
    process.communicate(timeout=240)
    process = begin("tiny.yaml", prefix=TORCHRUN)
    wait_for(6, Path("runs/tiny"), process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.communicate(timeout=240)
    assert process.returncode == 1
    process = begin("--resume", "--run-dir", "runs/tiny", prefix=TORCHRUN)
    process.communicate(timeout=240)
    assert model_bytes(Path("runs/tiny")) == model_bytes(Path("whole"))
