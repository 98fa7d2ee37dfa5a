"""Locks between processes, and systems that have none."""

import errno
import os
import threading
from pathlib import Path

import pytest

from rela import _lock
from rela._lock import FolderLock, is_free, take, waiting


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
    lock = FolderLock(tmp_path, "refused")
    assert not lock.is_held
    assert not is_free(tmp_path)  # which cannot be told
    assert lock.is_at(tmp_path / "anything")


def test_other_errors_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_locks(errno.ENOMEM, monkeypatch)
    with pytest.raises(OSError, match="no locks"), waiting(tmp_path / "lock"):
        pass


class TestFolder:
    def test_the_second_is_refused(self, tmp_path: Path) -> None:
        first = FolderLock(tmp_path, "other")
        with pytest.raises(BlockingIOError, match=r"^mine$"):
            FolderLock(tmp_path, "mine")
        first.release()
        assert FolderLock(tmp_path, "mine").is_held

    def test_asking_keeps_nobody_out(self, tmp_path: Path) -> None:
        """Those who ask hold it for a moment, all at the same time; whoever wants it tries again."""
        assert _lock.fcntl is not None
        asking = os.open(tmp_path, os.O_RDONLY)
        _lock.fcntl.flock(asking, _lock.fcntl.LOCK_SH)
        assert is_free(tmp_path)
        threading.Timer(0.15, os.close, [asking]).start()
        lock = FolderLock(tmp_path, "refused")
        assert lock.is_held
        assert not is_free(tmp_path)
        assert not is_free(tmp_path / "none")
        lock.release()

    def test_a_folder_that_was_renamed(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        lock = FolderLock(tmp_path / "a", "refused")
        assert lock.is_at(tmp_path / "a")
        (tmp_path / "a").rename(tmp_path / "b")
        assert not lock.is_at(tmp_path / "a")
        (tmp_path / "a").mkdir()
        assert not lock.is_at(tmp_path / "a")
        assert lock.is_at(tmp_path / "b")
        lock.release()
