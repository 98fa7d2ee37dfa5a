"""Unpacking: what archives hold, and what hostile ones may not do."""

import gzip
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rela.text import archives
from rela.text.archives import unpack

FILES = {"training/x.de": b"eins\n", "training/x.en": b"one\n", "README": b"read me\n"}


def tar_bytes(files: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folder = tarfile.TarInfo("training")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in extra:
            tar.addfile(info)
    return buffer.getvalue()


def zip_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def write(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    pack = {"tar": bytes, "tgz": gzip.compress, "gz": gzip.compress, "zst": zstandard.compress}
    suffix = name.rpartition(".")[2]
    path = folder / name
    path.write_bytes(zip_bytes(files) if suffix == "zip" else pack[suffix](tar_bytes(files)))
    return path


def link(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.TGZ", "a.tar.gz", "a.tar.zst", "a.zip"])
class TestKinds:
    @staticmethod
    def archive(tmp_path: Path, name: str) -> Path:
        return write(tmp_path, name.lower(), FILES).rename(tmp_path / name)

    def test_all(self, tmp_path: Path, name: str):
        files = unpack(self.archive(tmp_path, name), tmp_path / "out")
        assert contents(tmp_path / "out") == FILES
        assert sorted(files) == sorted(tmp_path / "out" / file for file in FILES)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "out"])

    def test_some(self, tmp_path: Path, name: str):
        unpack(self.archive(tmp_path, name), tmp_path / "out", members=["training/x.en"])
        assert contents(tmp_path / "out") == {"training/x.en": b"one\n"}

    def test_a_member_that_lacks(self, tmp_path: Path, name: str):
        with pytest.raises(ValueError, match=r"expected training/x\.fr in it"):
            unpack(self.archive(tmp_path, name), tmp_path / "out", members=["training/x.fr", "README"])
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("kept", [0, 0.1, 0.2])  # of a plain tar, much of the end is padding
    def test_cut(self, tmp_path: Path, name: str, kept: float):
        path = self.archive(tmp_path, name)
        data = path.read_bytes()
        path.write_bytes(data[: int(kept * len(data))])
        with pytest.raises(ValueError, match=r"a\.\w+.*: expected"):
            unpack(path, tmp_path / "out")
        assert [child.name for child in tmp_path.iterdir()] == [name]

    def test_cut_after_the_last_file(self, tmp_path: Path, name: str):
        path = self.archive(tmp_path, name)
        if name != "a.tar":  # whose end is padding
            path.write_bytes(path.read_bytes()[:-3])
            with pytest.raises(ValueError, match="damaged"):
                unpack(path, tmp_path / "out", members=["training/x.de"])

    def test_too_large(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(archives, "_RATIO", 0)
        monkeypatch.setattr(archives, "_FREE_BYTES", 12)
        with pytest.raises(ValueError, match=r"expected at most 12 bytes when unpacked, got more; .* do not trust"):
            unpack(self.archive(tmp_path, name), tmp_path / "out")
        assert [child.name for child in tmp_path.iterdir()] == [name]
        monkeypatch.setattr(archives, "_FREE_BYTES", sum(map(len, FILES.values())))
        unpack(tmp_path / name, tmp_path / "out")

    @pytest.mark.parametrize("bad", ["../x", "/tmp/x", "a/../../x", "a\\b", "C:x"])
    def test_paths_that_lead_outside(self, tmp_path: Path, name: str, bad: str):
        path = write(tmp_path, name.lower(), {**FILES, bad: b"gotcha"})
        with pytest.raises(ValueError, match="do not trust it"):
            unpack(path, tmp_path / "inner" / "out")
        assert not (tmp_path / "inner" / "out").exists()
        assert not (tmp_path / "x").exists()


def test_the_end_of_a_packed_archive_is_read(tmp_path: Path):
    padded = tar_bytes(FILES) + bytes(2_000_000)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(padded)[:-3])
    with pytest.raises(ValueError, match="damaged or cut"):
        unpack(tmp_path / "a.tgz", tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tar(tmp_path: Path, kind: bytes):
    (tmp_path / "a.tar").write_bytes(tar_bytes(FILES, link("evil", kind)))
    with pytest.raises(ValueError, match=r"expected plain files, got a (link|device) 'evil'"):
        unpack(tmp_path / "a.tar", tmp_path / "out")
    unpack(tmp_path / "a.tar", tmp_path / "out", members=["README"])
    assert contents(tmp_path / "out") == {"README": b"read me\n"}


def test_a_link_in_zip(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("evil")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(ValueError, match="expected plain files, got a link"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_the_same_file_twice(tmp_path: Path):
    (tmp_path / "a.tar").write_bytes(tar_bytes({"x": b"1", "./x": b"2"}))
    with pytest.raises(ValueError, match="twice"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("names", [("x", "x/y"), ("x/y", "x")])
def test_a_file_and_a_folder_of_one_name(tmp_path: Path, names: tuple[str, str]):
    (tmp_path / "a.tar").write_bytes(tar_bytes(dict.fromkeys(names, b"1")))
    with pytest.raises(ValueError, match="expected a whole archive"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


def test_a_bomb(tmp_path: Path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(1_000_000)) * 80)
    with pytest.raises(ValueError, match="bytes when unpacked, got more"):
        unpack(path, tmp_path / "out")


def test_a_single_file(tmp_path: Path):
    (tmp_path / "x.en.gz").write_bytes(gzip.compress(b"one\n"))
    assert unpack(tmp_path / "x.en.gz", tmp_path / "out") == [tmp_path / "out" / "x.en"]
    assert contents(tmp_path / "out") == {"x.en": b"one\n"}


def test_what_is_no_archive(tmp_path: Path):
    (tmp_path / "x.rar").write_bytes(b"")
    with pytest.raises(ValueError, match=r"expected a name with one of \.tar, \.tgz"):
        unpack(tmp_path / "x.rar", tmp_path / "out")


def test_a_folder_that_exists_is_left_alone(tmp_path: Path):
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError, match="remove it first"):
        unpack(write(tmp_path, "a.zip", FILES), tmp_path / "out")


def test_the_rest_of_a_killed_process_is_removed(tmp_path: Path):
    (tmp_path / ".out.partial" / "training").mkdir(parents=True)
    unpack(write(tmp_path, "a.zip", FILES), tmp_path / "out")
    assert sorted(child.name for child in tmp_path.iterdir()) == ["a.zip", "out"]


@given(
    data=st.binary(max_size=2000), name=st.sampled_from(["a.tar", "a.zip", "a.tgz", "a.zst"]), where=st.integers(0, 3)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_bytes_are_unpacked_or_refused(tmp_path: Path, data: bytes, name: str, where: int):
    whole = {"a.tar": tar_bytes(FILES), "a.zip": zip_bytes(FILES)}.get(name, gzip.compress(tar_bytes(FILES)))
    cut = len(whole) * where // 3
    (tmp_path / name).write_bytes(whole[:cut] + data + whole[cut + len(data) :])
    out = tmp_path / "out"
    try:
        unpack(tmp_path / name, out)
    except ValueError:
        assert not out.exists()
    else:
        for path in sorted(out.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        out.rmdir()
