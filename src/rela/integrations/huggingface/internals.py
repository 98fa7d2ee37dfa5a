"""Parts of transformers that it does not promise: where one is gone, that is an error, and not another result."""

from __future__ import annotations

from typing import Any

from transformers import __version__


def internal(owner: Any, name: str, purpose: str) -> Any:
    """An attribute of transformers that we cannot do without."""
    found = getattr(owner, name, None)
    if found is None:
        where = getattr(owner, "__name__", owner)
        raise RuntimeError(
            f"expected transformers with {name} in {where}, {purpose}, got {__version__} without it; install another "
            'version: pip install "transformers>=5.20,<5.24"'
        )
    return found
