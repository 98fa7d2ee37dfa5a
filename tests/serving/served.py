"""A service for tests: the real one, on a free port of this machine."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from tests.training.helpers import make_store, tiny_config, train

import rela


class Running(NamedTuple):
    """A service with two models, of which the first one scores pairs too."""

    address: str
    models: dict[str, Path]

    def post(self, path: str, data: Any, **options: Any) -> httpx.Response:
        """A request with JSON."""
        return post(self.address, path, data, **options)

    def send(self, path: str, body: bytes | Iterator[bytes]) -> httpx.Response:
        """A request of just these bytes, which may be no JSON."""
        headers = {"content-type": "application/json"}
        return httpx.post(f"{self.address}{path}", content=body, timeout=60, headers=headers)


def free_port() -> int:
    """One that nobody listens at now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def served(*arguments: str | Path, **environment: str) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
    """`rela serve` until the block ends: its address, and its process."""
    port = free_port()
    with begun(*arguments, "--port", str(port), **environment) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(address, process)
            yield address, process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)


def begun(*arguments: str | Path, before: Sequence[str] = (), **environment: str) -> subprocess.Popen[bytes]:
    """`rela serve` that has just been started; ``before`` stands before its command."""
    command = [*before, Path(sys.executable).with_name("rela"), "serve", *map(str, arguments)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Until the service answers."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if process.poll() is not None:
            assert process.stdout is not None
            raise AssertionError(process.stdout.read().decode())
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/healthz").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service did not begin to answer")


def post(address: str, path: str, data: Any, **options: Any) -> httpx.Response:
    """A request with JSON."""
    return httpx.post(f"{address}{path}", json=data, timeout=60, **options)


def make_models(folder: Path, *attentions: str) -> dict[str, Path]:
    """Small models by their attentions; the first one remembers what a good pair is."""
    store = make_store(folder / "text", pairs=120)
    sizes = {"batch__tokens": 600, "batch__update_tokens": 600, "validation__every": 60, "checkpoints__every": 60}
    for attention in attentions:
        train(tiny_config(store, budget__steps=60, model__attention=attention, **sizes), folder / attention)
    texts = [(folder / "text" / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
    first = folder / attentions[0]
    rela.Scorer.load(first).calibrated(list(zip(*texts, strict=True))).remember(first)
    return {attention: folder / attention for attention in attentions}
