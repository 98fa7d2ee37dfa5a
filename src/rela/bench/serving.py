"""The service under load: what computing requests together gains, and what it does when too much comes."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rela.bench.loading import Answer, Load, closed_loop, open_loop
from rela.bench.resident import watching_memory
from rela.bench.timing import Speed, summary

OVERLOAD: Final = 4.0
"""Of the rate that the service can keep up with."""
_DONE: Final = 200
_REFUSED: Final = 503
_STARTING: Final = 120.0  # seconds
_ROUND: Final = 10.0  # seconds
_PER_CLIENT: Final = 5, 40
"""Requests of a round, at least and at most."""


@dataclass(frozen=True)
class Service:
    """`rela serve` in a process of its own."""

    address: str
    process: int

    def ask(self, path: str) -> str:
        """The answer to a GET."""
        with urllib.request.urlopen(f"{self.address}{path}", timeout=60) as answer:
            return answer.read().decode()


@dataclass(frozen=True, kw_only=True)
class Overload:
    """What became of all requests, when far more came than the service can do.

    Attributes:
        rate: requests a second that came.
        sustained: answers a second with many clients at once, before.
        done: requests that got a translation.
        refused: requests that were told when to come again.
        lost: all others.
        counted: translations that the service itself counts.
        median: seconds until a translation.
        p99: the same, for 99 in 100 at most.
        longest: the same, for all.
        bound: seconds that a full queue takes at the sustained rate, with a batch before it and its own.
        refusal_p99: seconds until a refusal, for 99 in 100 at most.
        memory: bytes of the service, after a tenth, a half and all of the requests.
    """

    rate: float
    sustained: float
    done: int
    refused: int
    lost: int
    counted: int
    median: float
    p99: float
    longest: float
    bound: float
    refusal_p99: float
    memory: tuple[int, int, int]


@contextlib.contextmanager
def running_service(model: Path, *options: str) -> Generator[Service]:
    """A service on a port that is free, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="rela-bench-") as folder:
        told = Path(folder, "service.json")
        command = [sys.executable, "-m", "rela", "serve", str(model), "--port", "0", "--json", str(told), *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                yield Service(_address(told, process), process.pid)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)


def _address(told: Path, process: subprocess.Popen[bytes]) -> str:
    """When it answers."""
    end = time.monotonic() + _STARTING
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, urllib.error.URLError):
            address: str = json.loads(told.read_text(encoding="utf-8"))["address"]
            with urllib.request.urlopen(f"{address}/healthz", timeout=5):
                return address
        time.sleep(0.1)
    raise ChildProcessError("expected `rela serve` to answer, got none; its own lines above say why")


def measure_gain(
    model: Path,
    texts: Sequence[str],
    *,
    clients: int,
    rounds: int,
    beam: int = 4,
    options: Sequence[str] = (),
    on_round: Callable[[], object] = lambda: None,
) -> Speed:
    """How many times more requests are answered in the same time, if those of all clients are computed together.

    Two services run, one of which takes one request at a time; they are asked in turn, for so many requests that the
    slower one has about ten seconds to do, or less where it is fast.
    """
    ratios: list[float] = []
    rates: list[float] = []
    with running_service(model, *options) as together, running_service(model, *options, "--batch", "1") as single:
        _rate(together, texts, clients, 2 * clients, beam)
        slow = _rate(single, texts, clients, 2 * clients, beam)
        requests = clients * min(_PER_CLIENT[1], max(_PER_CLIENT[0], round(_ROUND * slow / clients)))
        for number in range(rounds):
            found: dict[str, float] = {}
            for service in (together, single) if number % 2 == 0 else (single, together):
                found[service.address] = _rate(service, texts, clients, requests, beam)
            ratios.append(found[together.address] / found[single.address])
            rates.append(found[together.address])
            on_round()
    return summary(ratios, 1 / statistics.median(rates))


def _rate(service: Service, texts: Sequence[str], clients: int, requests: int, beam: int) -> float:
    """Answers a second of clients that ask as fast as they are answered."""
    answers = closed_loop(Load.of_texts(service.address, texts, beam), clients=clients, requests=requests)
    if wrong := [answer for answer in answers if answer.status != _DONE]:
        raise ValueError(f"expected {requests} translations, got {len(wrong)} other answers: {wrong[0]}")
    return requests / (max(answer.ended for answer in answers) - min(answer.began for answer in answers))


def measure_overload(
    model: Path,
    texts: Sequence[str],
    *,
    requests: int,
    queue: int,
    batch: int,
    beam: int = 4,
    options: Sequence[str] = (),
    tell: Callable[[int], object],
) -> Overload:
    """Four times as many requests as the service can keep up with."""
    with running_service(model, *options, "--queue", str(queue), "--batch", str(batch)) as service:
        sustained = _rate(service, texts, 2 * batch, 12 * batch, beam)
        before = _translated(service)
        with watching_memory(service.process) as memory:
            load = Load.of_texts(service.address, texts, beam)
            answers = open_loop(load, rate=OVERLOAD * sustained, requests=requests, tell=tell)
        counted = _translated(service) - before
    done = [answer for answer in answers if answer.status == _DONE]
    refused = [answer for answer in answers if answer.status == _REFUSED and answer.retry_after]
    return Overload(
        rate=OVERLOAD * sustained,
        sustained=sustained,
        done=len(done),
        refused=len(refused),
        lost=len(answers) - len(done) - len(refused),
        counted=counted,
        median=_wait(done, 0.5),
        p99=_wait(done, 0.99),
        longest=_wait(done, 1.0),
        bound=(queue + 2 * batch) / sustained,
        refusal_p99=_wait(refused, 0.99),
        memory=(memory.at(0.1), memory.at(0.5), memory.at(1.0)),
    )


def _wait(answers: Sequence[Answer], share: float) -> float:
    """Seconds that such a share of them took at most; 0 if there are none."""
    times = sorted(answer.seconds for answer in answers)
    return times[math.ceil(share * len(times)) - 1] if times else 0.0


def _translated(service: Service) -> int:
    lines = service.ask("/metrics").splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("rela_sentences_total{"))
