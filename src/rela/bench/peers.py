"""Programs that we are compared with, each from PyPI in an environment of its own.

An environment is made when it is first needed and kept in the cache (``RELA_CACHE``). It gets our version of torch, so
that a comparison is between programs, not between versions of what both stand on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rela._lock import waiting
from rela.text.corpora import cache_folder

_STAMP: Final = "whole"
_TIMEOUT_SECONDS: Final = 1800


@dataclass(frozen=True, kw_only=True)
class Peer:
    """What is installed, and the distributions whose versions stand in signatures."""

    name: str
    requirements: tuple[str, ...]
    versions: tuple[str, ...]


PEERS: Final = {
    peer.name: peer
    for peer in (
        Peer(name="ctranslate2", requirements=("ctranslate2>=4.8,<4.9", "numpy"), versions=("ctranslate2",)),
        Peer(name="transformers", requirements=("transformers==5.22.2", "torch"), versions=("transformers", "torch")),
        Peer(
            name="joeynmt",
            requirements=("joeynmt==2.3.0", "importlib_metadata", "torch"),
            versions=("joeynmt", "torch"),
        ),
    )
}


def environment(peer: Peer, folder: Path | None = None, *, tell: Callable[[str], object] = lambda _: None) -> Path:
    """The Python of the peer's environment in ``folder`` (by default in the cache), which is made if it is not whole.

    ``tell`` is told before something is downloaded.
    """
    home = folder or cache_folder() / "peers"
    home.mkdir(parents=True, exist_ok=True)
    pins = _pins()
    key = hashlib.sha256("\n".join((*peer.requirements, *pins, sys.version)).encode()).hexdigest()[:10]
    place = home / f"{peer.name}-{key}"
    python = place / "bin" / "python"
    with waiting(home / f"{place.name}.lock"):
        if not (place / _STAMP).is_file():
            tell(f"installing {' '.join(peer.requirements)} into an environment of its own; this takes minutes, once")
            shutil.rmtree(place, ignore_errors=True)  # one that was cut off halfway
            _install(peer, place, python, pins)
            (place / _STAMP).touch()
    return python.absolute()


def _pins() -> list[str]:
    """Our own torch. A public version has no local tag: pip takes the build that it finds first."""
    return [f"torch=={importlib.metadata.version('torch').partition('+')[0]}"]


def _install(peer: Peer, place: Path, python: Path, pins: list[str]) -> None:
    _run(peer, [sys.executable, "-m", "venv", str(place)])
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
    _run(peer, [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), *peer.requirements])


def _run(peer: Peer, command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=clean_environment(), timeout=_TIMEOUT_SECONDS
    )
    if done.returncode != 0:
        tail = " ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise ValueError(
            f"{peer.name}: expected an environment with {' '.join(peer.requirements)}, got an error of its "
            f"installation: {tail}; see that pip reaches its index, or leave this peer out"
        )


def clean_environment(**more: str) -> dict[str, str]:
    """Our environment without what would bring our own packages into another one's."""
    without = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return without | more


def versions(peer: Peer, python: Path) -> str:
    """What is installed there, as it stands in signatures: ``joeynmt:2.3.0|torch:2.13.0``."""
    code = f"import importlib.metadata as m; print('|'.join(f'{{n}}:{{m.version(n)}}' for n in {peer.versions!r}))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=clean_environment())
    except (OSError, subprocess.CalledProcessError):
        raise ValueError(
            f"{python}: expected the Python of an environment with {peer.name}; make one with `python -m venv "
            f"{peer.name} && {peer.name}/bin/pip install {' '.join(peer.requirements)}` and name "
            f"{peer.name}/bin/python"
        ) from None
    return done.stdout.strip()
