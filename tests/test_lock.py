"""Locks between processes, and systems that have none."""

import errno
from pathlib import Path

import pytest

from rela import _lock
from rela._lock import FolderLock, take, waiting


def without_locks(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(_descriptor: int, _flags: int) -> None:
        raise OSError(code, "no locks")

    assert _lock.fcntl is not None
    monkeypatch.setattr(_lock.fcntl, "flock", flock)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_systems_without_locks(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(code, monkeypatch)
    with waiting(tmp_path / "lock"), (tmp_path / "lock").open("ab") as file:
        assert not take(file.fileno(), "refused")
    lock = FolderLock(tmp_path)
    assert not lock.is_held
    assert lock.is_at(tmp_path / "anything")


def test_other_errors_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(errno.ENOMEM, monkeypatch)
    with pytest.raises(OSError, match="no locks"), waiting(tmp_path / "lock"):
        pass


class TestFolder:
    def test_the_second_is_refused(self, tmp_path: Path) -> None:
        first = FolderLock(tmp_path)
        with pytest.raises(BlockingIOError, match="expected a run that nobody trains"):
            FolderLock(tmp_path)
        with pytest.raises(BlockingIOError, match=r"^mine$"):
            FolderLock(tmp_path, "mine")
        first.release()
        assert FolderLock(tmp_path, "mine").is_held

    def test_a_folder_that_was_renamed(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        lock = FolderLock(tmp_path / "a")
        assert lock.is_at(tmp_path / "a")
        (tmp_path / "a").rename(tmp_path / "b")
        assert not lock.is_at(tmp_path / "a")
        (tmp_path / "a").mkdir()
        assert not lock.is_at(tmp_path / "a")
        assert lock.is_at(tmp_path / "b")
        lock.release()
