"""Scores on disk, a file a window: what makes scoring resumable. A file is there and whole, or it is not there."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._files import write_bytes, write_text
from rela._lock import FolderLock
from rela.filtering.calibration import Calibration
from rela.filtering.scorer import WindowScores
from rela.filtering.scores import COLUMNS

_RECIPE_FILE: Final = "recipe.json"
_CALIBRATION_FILE: Final = "calibration.json"
_IN_A_FOLDER: Final = 1000
_FOLDER: Final = re.compile(r"\d{6}")
_FILE: Final = re.compile(rf"({re.escape(_RECIPE_FILE)}|{re.escape(_CALIBRATION_FILE)})")
_PARTIAL: Final = re.compile(rf"\.{_FILE.pattern}\.\d+\.partial")
_WINDOW: Final = re.compile(r"\d{9}\.npz|\.\d{9}\.npz\.\d+\.partial")


def _is_ours(path: Path) -> bool:
    """Whether scores have such a file or folder, or a file of theirs that did not get its name."""
    if path.is_dir():
        return _FOLDER.fullmatch(path.name) is not None and all(_WINDOW.fullmatch(one.name) for one in path.iterdir())
    return any(names.fullmatch(path.name) for names in (_FILE, _PARTIAL))


class KeptScores:
    """A folder of scores, of one input by one model with one calibration. Those of another recipe are deleted.

    It belongs to one process at a time.
    """

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise FileExistsError(
                f"{folder}: expected a folder for scores, got a file; move it, or name another place"
            ) from None
        self._lock = FolderLock(
            folder, f"{folder}: expected scores that nobody else makes, got another process at it; wait for it"
        )
        wanted = {**json.loads(json.dumps(recipe)), "columns": list(COLUMNS)}
        try:
            self._check_ours()
            if self._recipe() != wanted:
                self._clear()
                write_text(folder / _RECIPE_FILE, json.dumps(wanted, indent=2) + "\n")
        except BaseException:
            self._lock.release()
            raise

    def _check_ours(self) -> None:
        """A folder of somebody's own is no place for scores: those of another recipe are deleted."""
        strange = [path.name for path in self.folder.iterdir() if not _is_ours(path)]
        if strange:
            raise FileExistsError(
                f"{self.folder}: expected a new folder, or one of scores, got one with {min(strange)} in it; name "
                "another place, or move it"
            )

    def _clear(self) -> None:
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def delete(self) -> None:
        """All of it, when it is of no more use."""
        self._clear()
        self.folder.rmdir()
        self.close()

    def _recipe(self) -> Any:
        try:
            return json.loads((self.folder / _RECIPE_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def calibration(self, learn: Callable[[], Calibration]) -> Calibration:
        """The one that was learned for these scores; learned now if none was, or not one that can be read."""
        path = self.folder / _CALIBRATION_FILE
        try:
            return Calibration.load(path)
        except (OSError, ValueError):
            found = learn()
            found.save(path)
            return found

    def close(self) -> None:
        """Let others have the folder."""
        self._lock.release()

    def _path(self, window: int) -> Path:
        return self.folder / f"{window // _IN_A_FOLDER:06d}" / f"{window:09d}.npz"

    def has(self, window: int) -> bool:
        """Whether a window, counted from 0, is scored."""
        return self._path(window).is_file()

    def save(self, window: int, scores: WindowScores) -> None:
        """Keep a window's scores."""
        arrays: dict[str, NDArray[Any]] = {"values": scores.values, "kept": scores.kept}
        if scores.suspicious is not None:
            arrays["suspicious"] = np.array([n for found in scores.suspicious for n in found], np.int32)
            arrays["counts"] = np.array([len(found) for found in scores.suspicious], np.int32)
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **arrays)
        path = self._path(window)
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, stream.getvalue())

    def load(self, window: int) -> WindowScores:
        """A window's scores."""
        path = self._path(window)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                suspicious = None
                if "counts" in arrays:
                    ends = np.concatenate([[0], np.cumsum(arrays["counts"])])
                    words = arrays["suspicious"]
                    suspicious = [tuple(words[start:end].tolist()) for start, end in pairwise(ends)]
                return WindowScores(arrays["values"], arrays["kept"], suspicious)
        except (zipfile.BadZipFile, EOFError, KeyError, ValueError, TypeError):
            raise ValueError(
                f"{path}: expected scores of a window, got a damaged file; delete it, and give the same command again"
            ) from None

    def column(self, name: str, num_windows: int) -> Iterator[NDArray[np.float32]]:
        """One score of all good rows, window by window."""
        number = COLUMNS.index(name)
        for window in range(num_windows):
            yield self.load(window).values[:, number].copy()  # a view would keep all columns
