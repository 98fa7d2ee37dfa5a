"""What an analysis that was cut off leaves behind, so that the next one can go on."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._files import digest, write_bytes, write_text
from rela._version import __version__
from rela._warn import warn
from rela.analysis.corpus import Corpus
from rela.model.directory import WEIGHTS_FILE

FOLDER: Final = "partial"
_RECIPE: Final = "recipe.json"


def recipe_of(models: Sequence[Path], opposite: Path | None, corpus: Corpus, options: dict[str, Any]) -> dict[str, Any]:
    """All that decides what comes out: to go on, it must be the same. Of files and weights it has the content."""

    def weights(folder: Path) -> list[str]:
        return [str(folder), digest(folder / WEIGHTS_FILE)]

    return {
        "version": __version__,
        "options": options,
        "files": {name: [str(path), digest(path)] for name, path in corpus.files.items()},
        "models": [weights(folder) for folder in models],
        "opposite": None if opposite is None else weights(opposite),
        "gold": None if corpus.gold is None else [corpus.gold.base, corpus.gold.flipped],
        "tags": corpus.tags_name,
        "wording": [corpus.wording.tokenised, dict(corpus.wording.replacements)],
        "max_pieces": corpus.max_pieces,
    }


class Partial:
    """A folder beside the results: how they are made, the models that are done, and how far the current one is.

    It is there until the results are complete. With another recipe one begins anew.
    """

    def __init__(self, out: Path, recipe: dict[str, Any]) -> None:
        self.folder = out / FOLDER
        text = json.dumps(recipe, indent=2, sort_keys=True) + "\n"
        file = self.folder / _RECIPE
        if file.is_file():
            if file.read_text(encoding="utf-8") == text:
                if any(self.folder.glob("*.npz")):
                    warn(f"{self.folder} has the beginning of the same analysis; going on from there")
                return
            warn(f"{self.folder} has the beginning of another analysis, which is dropped")
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise FileExistsError(
                f"{self.folder}: expected the beginning of an analysis, or nothing, got something else; move it away, "
                "or name another folder for the results"
            )
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        write_text(file, text)

    def entry(self, model: int) -> dict[str, Any] | None:
        """The entry of a model that is done."""
        path = self.folder / f"{model}.json"
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            return _damaged(path, error)

    def state(self, model: int) -> dict[str, NDArray[Any]] | None:
        """How far a model is."""
        path = self.folder / f"{model}.npz"
        if not path.is_file():
            return None
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            return _damaged(path, error)

    def keep_state(self, model: int, state: dict[str, NDArray[Any]]) -> None:
        """Write it down."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **state)
        write_bytes(self.folder / f"{model}.npz", buffer.getvalue())

    def keep_entry(self, model: int, entry: dict[str, Any]) -> None:
        """A model is done."""
        write_text(self.folder / f"{model}.json", json.dumps(entry, allow_nan=False))

    def finish(self) -> None:
        """Nothing is left to go on with."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _damaged(path: Path, error: Exception) -> None:
    """What was kept of a model cannot be read: it is measured anew."""
    warn(f"{path} is damaged ({error}); this model is measured anew")


def drop_what_is_empty(out: Path, *, is_new: bool) -> None:
    """After an analysis that failed before it measured anything: its recipe, and the folder if it made that."""
    folder = out / FOLDER
    if folder.is_dir() and [path.name for path in folder.iterdir()] == [_RECIPE]:
        shutil.rmtree(folder)
    if is_new and not any(out.iterdir()):
        out.rmdir()


def is_begun(out: Path) -> bool:
    """Whether there is something to go on from."""
    return any((out / FOLDER).glob("*.npz"))
