"""Packed files: whole ones give what was packed; cut and damaged ones are told, and never taken for short ones."""

import bz2
import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from rela.text.compression import is_packed, open_text

TEXT = "".join(f"Zeile {number}\n" for number in range(50_000)).encode()


def pack_zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": pack_zstd}


def read(path: Path) -> bytes:
    with open_text(path) as stream:
        return b"".join(stream)


@pytest.mark.parametrize("suffix", [".txt", ".gz", ".xz", ".zst", ".GZ"])
def test_gives_what_was_packed(tmp_path: Path, suffix: str):
    path = tmp_path / f"file.en{suffix}"
    path.write_bytes(PACKERS.get(suffix.lower(), bytes)(TEXT))
    assert read(path) == TEXT
    assert is_packed(path) == (suffix != ".txt")


@pytest.mark.parametrize("suffix", PACKERS)
def test_several_packed_parts_in_a_row(tmp_path: Path, suffix: str):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(PACKERS[suffix](b"one\n") + PACKERS[suffix](b"") + PACKERS[suffix](TEXT))
    assert read(path) == b"one\n" + TEXT


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kept", [0, 1, 5, 0.5, -1])
def test_a_cut_file_is_an_error(tmp_path: Path, suffix: str, kept: float):
    data = PACKERS[suffix](TEXT)
    path = tmp_path / f"file{suffix}"
    path.write_bytes(data[: int(kept * len(data)) if kept == 0.5 else int(kept)])
    with pytest.raises(ValueError, match=rf"file\{suffix}: expected .* (again)"):
        read(path)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_damaged_file_is_an_error(tmp_path: Path, suffix: str):
    data = bytearray(PACKERS[suffix](os.urandom(100_000)))
    data[len(data) // 2] ^= 0xFF
    if suffix == ".zst":
        data[8] ^= 0xFF  # zstd writes no checksum unless asked to: damage of the frame can be seen, of raw bytes not
    path = tmp_path / f"file{suffix}"
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"expected a whole .* file, got a damaged or cut one"):
        read(path)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_plain_file_with_the_wrong_name_is_an_error(tmp_path: Path, suffix: str):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(TEXT)
    with pytest.raises(ValueError, match=r"expected a whole .* file, got a damaged or cut one"):
        read(path)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_packed_file_with_the_wrong_name_is_an_error(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file.txt"
    path.write_bytes(PACKERS[suffix](TEXT))
    with pytest.raises(ValueError, match=rf"file.txt: expected text, got what looks like a {suffix} file; unpack it"):
        read(path)
    with path.open("rb") as packed:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(packed))
        with pytest.raises(ValueError, match=r"^standard input: expected text"), open_text("-"):
            pass


@pytest.mark.parametrize("level", [1, 9])
def test_packings_that_are_not_unpacked_are_errors(tmp_path: Path, level: int):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("a.txt", TEXT)
    for suffix, data in ((".bz2", bz2.compress(TEXT, level)), (".zip", archive.getvalue())):
        path = tmp_path / f"file{suffix}"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"packed as .gz, .xz, .zst, got what looks like a {suffix} file; unpack"):
            read(path)


def test_text_that_begins_like_a_packed_file(tmp_path: Path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"BZh9 is a name\n")
    assert read(path) == b"BZh9 is a name\n"


def test_zstd_passes_over_skippable_frames(tmp_path: Path):
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    path = tmp_path / "file.zst"
    path.write_bytes(skippable + pack_zstd(TEXT) + skippable)
    assert read(path) == TEXT


def test_standard_input(monkeypatch: pytest.MonkeyPatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"a\nb\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    with open_text("-") as stream:
        assert stream.readlines() == [b"a\n", b"b\n"]
    assert not stdin.closed


def test_no_file_and_a_folder(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"missing\.en"), open_text(tmp_path / "missing.en"):
        pass
    (tmp_path / "folder.gz").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder\.gz"), open_text(tmp_path / "folder.gz"):
        pass
