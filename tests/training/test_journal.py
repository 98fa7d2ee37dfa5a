"""The log and the status of a run."""

import json
from pathlib import Path

import pytest

from rela.training.journal import LOG_FILE, Journal, read_log


def steps(run: Path) -> list[tuple[str, int]]:
    return [(event["event"], event["step"]) for event in read_log(run)]


def write_steps(run: Path, resume_at: int, *numbers: int) -> None:
    journal = Journal(run, step=resume_at, tensorboard=False)
    for number in numbers:
        journal.write("train", number, loss=1.5)
    journal.close()


def test_what_came_after_the_checkpoint_is_written_anew(tmp_path: Path) -> None:
    write_steps(tmp_path, 0, 1, 2, 3, 4)
    write_steps(tmp_path, 2, 3, 4, 5)
    assert steps(tmp_path) == [("train", number) for number in (1, 2, 3, 4, 5)]


def test_a_new_beginning_empties_the_log(tmp_path: Path) -> None:
    write_steps(tmp_path, 0, 1, 2, 3)
    write_steps(tmp_path, 0, 1)
    assert steps(tmp_path) == [("train", 1)]


@pytest.mark.parametrize("tail", [b'{"event": "tr', b'{"event": "f\xc3', b"\x00\x00\x00", b"3", b'{"step": null}'])
def test_a_last_line_that_was_cut_off(tmp_path: Path, tail: bytes) -> None:
    write_steps(tmp_path, 0, 1, 2)
    with (tmp_path / LOG_FILE).open("ab") as file:
        file.write(tail)
    assert steps(tmp_path) == [("train", 1), ("train", 2)]
    write_steps(tmp_path, 2, 3)
    assert steps(tmp_path) == [("train", 1), ("train", 2), ("train", 3)]


def test_damage_inside_the_log_is_no_cut(tmp_path: Path) -> None:
    write_steps(tmp_path, 0, 1)
    (tmp_path / LOG_FILE).write_text("garbage\n" + (tmp_path / LOG_FILE).read_text())
    with pytest.raises(ValueError, match="Expecting value"):
        read_log(tmp_path)


def test_lines_are_on_disk_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path, step=0, tensorboard=False)
    journal.write("train", 1, text="é")
    assert read_log(tmp_path)[0]["text"] == "é"
    journal.close()


def test_status(tmp_path: Path) -> None:
    journal = Journal(tmp_path, step=0, tensorboard=False)
    journal.set_status("failed", 3, reason="why")
    journal.close()
    assert json.loads((tmp_path / "status.json").read_text()) == {"status": "failed", "step": 3, "reason": "why"}
