"""Downloads from a server that breaks off, changes its files and tells untruths."""

import errno
import hashlib
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from tests.text.web import Page, Web

from rela.text import download as downloading
from rela.text.download import DownloadError, Remote, download

DATA = os.urandom(1_000_000)
SHA256 = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


def get(web: Web, path: Path, **options: Any) -> Path:
    known = {key: options.pop(key) for key in ("size", "checksum") if key in options}
    return download(Remote(url=web.url("/file"), **known), path, wait=0.001, **options)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


class TestWhole:
    def test_file_progress_and_nothing_else(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        seen: list[tuple[int, int | None]] = []

        def note(done: int, total: int | None) -> None:
            seen.append((done, total))

        path = get(web, tmp_path / "new" / "file.tgz", progress=note, checksum=SHA256)
        assert path.read_bytes() == DATA
        assert leftovers(path.parent) == ["file.tgz", "file.tgz.whole"]
        assert json.loads((path.parent / "file.tgz.whole").read_text()) == {"size": len(DATA)}
        assert seen[0] == (0, len(DATA))
        assert seen[-1] == (len(DATA), len(DATA))
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def test_a_file_that_is_there_is_not_fetched(self, web: Web, tmp_path: Path):
        (tmp_path / "file").write_bytes(b"here")
        assert get(web, tmp_path / "file").read_bytes() == b"here"
        assert get(web, tmp_path / "file", size=4).read_bytes() == b"here"
        assert web.requests == []

    def test_a_file_of_the_wrong_size_is_fetched_anew(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file").write_bytes(b"half")
        assert get(web, tmp_path / "file", size=len(DATA)).read_bytes() == DATA

    @pytest.mark.parametrize("known", [{}, {"checksum": SHA256}])
    def test_a_file_that_was_cut_later_is_fetched_anew(self, web: Web, tmp_path: Path, known: dict[str, str]):
        web.pages["/file"] = Page(DATA)
        get(web, tmp_path / "file", **known)
        assert get(web, tmp_path / "file", **known).read_bytes() == DATA
        assert len(web.requests) == 1
        os.truncate(tmp_path / "file", 500_000)
        assert get(web, tmp_path / "file", **known).read_bytes() == DATA

    def test_nothing_beside_a_file_of_known_size(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        get(web, tmp_path / "file", size=len(DATA))
        assert leftovers(tmp_path) == ["file"]

    def test_is_on_disk_before_it_has_its_name(self, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        synced: list[tuple[str, bool]] = []

        def note(path: Path) -> None:
            synced.append((path.name, (tmp_path / "d" / "file").exists()))

        monkeypatch.setattr(downloading, "sync", note)
        web.pages["/file"] = Page(DATA)
        get(web, tmp_path / "d" / "file")
        assert synced == [("file.partial", False), ("d", True)]

    def test_redirect(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(b"", redirect=web.url("/elsewhere"))
        web.pages["/elsewhere"] = Page(DATA)
        assert get(web, tmp_path / "file").read_bytes() == DATA

    def test_no_length(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, says_length=False)
        assert get(web, tmp_path / "file", checksum=SHA256).read_bytes() == DATA

    def test_an_empty_file(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(b"")
        assert get(web, tmp_path / "file").read_bytes() == b""

    def test_other_addresses_are_refused(self):
        with pytest.raises(ValueError, match="starts with http"):
            Remote(url="file:///etc/passwd")


class TestBroken:
    @pytest.mark.parametrize("tag", [{}, {"etag": None, "last_modified": "Mon, 01 Jan 2024 00:00:00 GMT"}])
    def test_goes_on_where_it_broke(self, web: Web, tmp_path: Path, tag: dict[str, Any]):
        web.pages["/file"] = Page(DATA, breaks=[300_000, 200_000], **tag)
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [None, "bytes=300000-", "bytes=500000-"]

    def test_a_later_run_goes_on(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, breaks=[300_000, 0])
        with pytest.raises(DownloadError, match=r"expected the whole file, got 300,000 bytes .* run the same again"):
            get(web, tmp_path / "file", num_retries=0)
        assert leftovers(tmp_path) == ["file.partial", "file.partial.json"]
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges()[-1] == "bytes=300000-"

    def test_interrupted_by_the_user(self, web: Web, tmp_path: Path):
        def interrupt(done: int, total: int | None) -> None:
            if done > 400_000:
                raise KeyboardInterrupt

        web.pages["/file"] = Page(DATA)
        with pytest.raises(KeyboardInterrupt):
            get(web, tmp_path / "file", progress=interrupt)
        kept = (tmp_path / "file.partial").stat().st_size
        assert kept > 400_000
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [None, f"bytes={kept}-"]

    def test_a_server_without_ranges_starts_over(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, ranges=False, breaks=[300_000])
        assert get(web, tmp_path / "file").read_bytes() == DATA

    def test_a_file_that_has_changed_starts_over(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA[::-1], etag='"v0"', breaks=[300_000, 0])
        with pytest.raises(DownloadError):
            get(web, tmp_path / "file", num_retries=0)
        web.pages["/file"] = Page(DATA)
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [None, "bytes=300000-", "bytes=300000-"]

    def test_killed_before_the_new_version_is_noted(self, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        web.pages["/file"] = Page(DATA[::-1], etag='"v0"', breaks=[300_000, 0])
        with pytest.raises(DownloadError):
            get(web, tmp_path / "file", num_retries=0)
        web.pages["/file"] = Page(DATA)
        seen: list[int] = []

        def killed(path: Path, text: str) -> None:
            seen.append((tmp_path / "file.partial").stat().st_size)
            raise KeyboardInterrupt

        with monkeypatch.context() as context:
            context.setattr("rela.text.download.write_text", killed)
            with pytest.raises(KeyboardInterrupt):
                get(web, tmp_path / "file")
        assert seen == [0]
        assert get(web, tmp_path / "file").read_bytes() == DATA

    def test_without_tag_or_checksum_nothing_is_added_to_a_partial_file(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, etag=None, breaks=[300_000])
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [None, None]

    def test_a_weak_tag_is_no_tag(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, etag='W/"v1"', breaks=[300_000])
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [None, None]

    def test_a_checksum_is_as_good_as_a_tag(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, etag=None, breaks=[300_000])
        assert get(web, tmp_path / "file", checksum=SHA256).read_bytes() == DATA
        assert web.ranges() == [None, "bytes=300000-"]

    def test_a_partial_file_that_is_whole(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file.partial").write_bytes(DATA)
        state = {"url": web.url("/file"), "validator": '"v1"', "total": None}
        (tmp_path / "file.partial.json").write_text(json.dumps(state))
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [f"bytes={len(DATA)}-"]

    def test_a_partial_file_that_is_too_long(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file.partial").write_bytes(DATA + b"more")
        state = {"url": web.url("/file"), "validator": '"v1"', "total": None}
        (tmp_path / "file.partial.json").write_text(json.dumps(state))
        assert get(web, tmp_path / "file").read_bytes() == DATA
        assert web.ranges() == [f"bytes={len(DATA) + 4}-", None]

    def test_a_partial_file_of_another_address(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file.partial").write_bytes(b"other")
        (tmp_path / "file.partial.json").write_text(json.dumps({"url": "http://a", "validator": '"v1"', "total": 9}))
        assert get(web, tmp_path / "file").read_bytes() == DATA

    @pytest.mark.parametrize("state", ["", "{", "[]", "{}"])
    def test_a_damaged_note_on_the_partial_file(self, web: Web, tmp_path: Path, state: str):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file.partial").write_bytes(b"other")
        (tmp_path / "file.partial.json").write_text(state)
        assert get(web, tmp_path / "file").read_bytes() == DATA

    def test_the_wrong_range_is_never_written(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, breaks=[300_000], content_range="bytes 0-9/10")
        with pytest.raises(DownloadError, match="asked for bytes from 300000 on"):
            get(web, tmp_path / "file", num_retries=2)
        assert (tmp_path / "file.partial").read_bytes() == DATA[:300_000]

    def test_tries_that_bring_nothing_are_counted(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, breaks=[0] * 10)
        with pytest.raises(DownloadError, match="in 4 tries"):
            get(web, tmp_path / "file", num_retries=3)
        assert len(web.requests) == 4

    def test_tries_that_bring_something_are_not(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, breaks=[100_000] * 9)
        assert get(web, tmp_path / "file", num_retries=1).read_bytes() == DATA

    def test_a_slow_server(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, delay=0.3)
        with pytest.raises(DownloadError, match="timed out"):
            get(web, tmp_path / "file", num_retries=1, timeout=0.05)


class TestAnswers:
    def test_errors_that_pass(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, statuses=[500, 503, 429])
        assert get(web, tmp_path / "file").read_bytes() == DATA

    def test_errors_that_stay(self, web: Web, tmp_path: Path):
        with pytest.raises(DownloadError, match=r"expected a file, got HTTP 404 .* has moved"):
            get(web, tmp_path / "file")
        assert len(web.requests) == 1

    def test_no_server(self, tmp_path: Path):
        server = Web()
        server.close()
        with pytest.raises(DownloadError, match="refused"):
            get(server, tmp_path / "file", num_retries=1)

    def test_the_wrong_size_is_seen_at_once(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        with pytest.raises(ValueError, match=r"expected 999 bytes, got a file of 1,000,000"):
            get(web, tmp_path / "file", size=999)
        assert leftovers(tmp_path) == []

    def test_the_wrong_size_without_length(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, says_length=False)
        with pytest.raises(ValueError, match="expected 999 bytes"):
            get(web, tmp_path / "file", size=999)
        assert leftovers(tmp_path) == []

    @pytest.mark.parametrize("method", ["md5", "sha256"])
    def test_the_wrong_checksum(self, web: Web, tmp_path: Path, method: str):
        web.pages["/file"] = Page(DATA)
        digest = hashlib.new(method, DATA).hexdigest()
        with pytest.raises(ValueError, match=rf"expected {method} abc, got {digest}.* removed"):
            get(web, tmp_path / "file", checksum=f"{method}:abc")
        assert leftovers(tmp_path) == []


class TestMachine:
    def test_a_full_disk(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file.partial").symlink_to("/dev/full")
        with pytest.raises(DownloadError, match="got a full disk; make room"):
            get(web, tmp_path / "file")
        assert len(web.requests) == 1

    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), ConnectionResetError(), BrokenPipeError()])
    def test_errors_of_the_progress_are_not_those_of_the_download(self, web: Web, tmp_path: Path, error: OSError):
        def fail(done: int, total: int | None) -> None:
            if done > 400_000:
                raise error

        web.pages["/file"] = Page(DATA)
        with pytest.raises(type(error)) as caught:
            get(web, tmp_path / "file", progress=fail)
        assert caught.value is error
        assert (tmp_path / "file.partial").stat().st_size > 400_000
        assert len(web.requests) == 1

    def test_a_place_that_cannot_be_written(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA)
        (tmp_path / "file.partial").mkdir()
        with pytest.raises(IsADirectoryError):
            get(web, tmp_path / "file")

    def test_two_processes_fetch_once(self, web: Web, tmp_path: Path):
        web.pages["/file"] = Page(DATA, delay=0.2)
        context = multiprocessing.get_context("spawn")
        remote = Remote(url=web.url("/file"))
        processes = [context.Process(target=download, args=(remote, tmp_path / "file")) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(30)
        assert [process.exitcode for process in processes] == [0, 0]
        assert (tmp_path / "file").read_bytes() == DATA
        assert len(web.requests) == 1
