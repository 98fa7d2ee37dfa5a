"""Models of other libraries that commands can look into."""

import importlib
from collections.abc import Iterable
from pathlib import Path


def know_models(folders: Iterable[Path | None]) -> None:
    """Import what opens these folders, if one of them is not ours."""
    from rela.model.opening import foreign_type

    if any(folder is not None and foreign_type(folder) is not None for folder in folders):
        importlib.import_module("rela.integrations.huggingface")  # it registers itself
