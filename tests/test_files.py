"""Files and folders that are whole or not there."""

import errno
import os
import threading
from pathlib import Path

import pytest

from rela import _files
from rela._files import behind_link, ending_of, naming, new_file, new_folder, replace_folder, write_bytes, write_text


def names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


class TestText:
    def test_as_it_is(self, tmp_path: Path) -> None:
        file = tmp_path / "a.txt"
        file.write_text("old", encoding="utf-8")
        write_text(file, "é\n\u2028\r\n")
        assert file.read_bytes() == "é\n\u2028\r\n".encode()
        assert names(tmp_path) == ["a.txt"]

    def test_an_error_names_the_users_file_and_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        file = tmp_path / "a.txt"
        file.write_text("old", encoding="utf-8")
        monkeypatch.setattr(_files.os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as caught:
            write_text(file, "new")
        assert caught.value.filename == str(file)
        assert file.read_text(encoding="utf-8") == "old"
        assert names(tmp_path) == ["a.txt"]

    def test_no_such_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError) as caught:
            write_text(tmp_path / "none" / "a.txt", "new")
        assert caught.value.filename == str(tmp_path / "none" / "a.txt")

    def test_text_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(UnicodeEncodeError):
            write_text(tmp_path / "a.txt", "\ud800")
        assert names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_pipes_are_written_to(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    found: list[str] = []
    for path in (pipe, link):
        reader = threading.Thread(target=lambda: found.append(pipe.read_text(encoding="utf-8")))
        reader.start()
        write_text(behind_link(path), "text")
        reader.join()
    assert found == ["text", "text"]
    assert pipe.is_fifo()
    assert sorted(names(tmp_path)) == ["link", "pipe"]


class TestBytes:
    def test_whole_or_not_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        file = tmp_path / "a.png"
        write_bytes(file, b"\x00\r\n")
        assert file.read_bytes() == b"\x00\r\n"
        monkeypatch.setattr(_files.os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as caught:
            write_bytes(file, b"new")
        assert caught.value.filename == str(file)
        assert file.read_bytes() == b"\x00\r\n"
        assert names(tmp_path) == ["a.png"]


class TestFile:
    def test_gets_its_name_at_the_end(self, tmp_path: Path) -> None:
        with new_file(tmp_path / "a.txt") as file:
            file.write("1\n")
            assert not (tmp_path / "a.txt").exists()
        assert (tmp_path / "a.txt").read_bytes() == b"1\n"
        with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "a.txt"):
            raise KeyboardInterrupt
        assert (tmp_path / "a.txt").read_bytes() == b"1\n"
        assert names(tmp_path) == ["a.txt"]

    def test_errors_of_others_keep_their_name(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError) as caught, new_file(tmp_path / "a.txt"):
            (tmp_path / "none").read_bytes()
        assert caught.value.filename == str(tmp_path / "none")


def test_naming_keeps_the_kind_of_error(tmp_path: Path) -> None:
    with pytest.raises(PermissionError) as caught, naming(tmp_path):
        raise OSError(errno.EACCES, "Permission denied", "other")
    assert caught.value.filename == str(tmp_path)


class TestFolder:
    def test_whole_or_not_at_all(self, tmp_path: Path) -> None:
        path = tmp_path / "made" / "on the way"
        with new_folder(path) as folder:
            (folder / "a").write_text("1", encoding="utf-8")
            assert not path.exists()
        assert (path / "a").read_text(encoding="utf-8") == "1"
        with pytest.raises(KeyboardInterrupt), new_folder(path):
            raise KeyboardInterrupt
        assert names(path) == ["a"]
        assert names(path.parent) == [path.name]

    @pytest.mark.parametrize("kind", ["folder", "file", "link"])
    def test_what_is_there_is_replaced(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "it"
        if kind == "folder":
            (path / "old").mkdir(parents=True)
        elif kind == "file":
            path.write_text("old", encoding="utf-8")
        else:
            path.symlink_to(tmp_path / "nothing")
        with new_folder(path) as folder:
            (folder / "new").touch()
        assert names(path) == ["new"]
        assert names(tmp_path) == ["it"]

    def test_rests_of_a_killed_process_are_no_hindrance(self, tmp_path: Path) -> None:
        path = tmp_path / "it"
        for rest in (".it.partial", ".it.old"):
            (tmp_path / rest / "rest").mkdir(parents=True)
        with new_folder(path) as folder:
            assert names(folder) == []
        assert names(tmp_path) == ["it"]

    def test_what_was_there_stays_if_the_new_one_cannot_take_its_place(self, tmp_path: Path) -> None:
        path = tmp_path / "it"
        (path / "old").mkdir(parents=True)
        with pytest.raises(FileNotFoundError):
            replace_folder(tmp_path / "none", path)
        assert names(path) == ["old"]
        assert names(tmp_path) == ["it"]


@pytest.mark.parametrize(
    ("path", "ending"),
    [
        ("a/train.en", "en"),
        ("train.de.gz", "de"),
        ("x.tsv.ZST", "tsv"),
        ("x.tsv.GZ", "tsv"),
        ("text", ""),
        ("-", ""),
        ("a.en/b.xz", ""),
    ],
)
def test_endings(path: str, ending: str) -> None:
    assert ending_of(path) == ending
