"""What an analysis that was cut off leaves behind, so that the next one can go on."""

from __future__ import annotations

import io
import json
import shutil
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._files import write_bytes, write_text
from rela._warn import warn

_SECONDS_BETWEEN: Final = 30.0


class Partial:
    """A folder beside the results: how they are made, the models that are done, and how far the current one is.

    It is there until the results are complete. With another recipe one begins anew.
    """

    def __init__(self, out: Path, recipe: dict[str, Any]) -> None:
        self._folder = out / "partial"
        self._last = time.monotonic()
        text = json.dumps(recipe, indent=2, sort_keys=True) + "\n"
        file = self._folder / "recipe.json"
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            warn(f"{self._folder} has the beginning of the same analysis; going on from there")
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        write_text(file, text)

    def entry(self, model: int) -> dict[str, Any] | None:
        """The entry of a model that is done."""
        path = self._folder / f"{model}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def state(self, model: int) -> dict[str, NDArray[Any]] | None:
        """How far a model is."""
        path = self._folder / f"{model}.npz"
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def keep_state(self, model: int, state: dict[str, NDArray[Any]], *, at_once: bool = False) -> None:
        """Write it down, but not all the time."""
        if at_once or time.monotonic() - self._last > _SECONDS_BETWEEN:
            buffer = io.BytesIO()
            np.savez(buffer, allow_pickle=False, **state)
            write_bytes(self._folder / f"{model}.npz", buffer.getvalue())
            self._last = time.monotonic()

    def keep_entry(self, model: int, entry: dict[str, Any]) -> None:
        """A model is done."""
        write_text(self._folder / f"{model}.json", json.dumps(entry))

    def finish(self) -> None:
        """Nothing is left to go on with."""
        shutil.rmtree(self._folder, ignore_errors=True)
