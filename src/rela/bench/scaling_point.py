"""Points of the scaling study, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from entmax import entmax15  # pyright: ignore[reportMissingTypeStubs]
from torch import Tensor

from rela.attention import functional
from rela.bench.cases import HEAD_DIM, Call, Case, make_call, runner

_STATUS: Final = Path("/proc/self/status")
_SECONDS: Final = 2.0  # of timed calls, once there is one
_REASONS: Final[dict[int, str]] = {signal.SIGALRM: "took too long", signal.SIGKILL: "needed more memory than there is"}
_LONG_SECONDS: Final = 5.0  # a first call that takes longer is the one that counts


def run(method: str, mode: Any, length: int, heads: int, rounds: int) -> dict[str, Any]:
    """Peak of memory of the first call, and the time of those after it."""
    call = make_call(Case(length=length, rows=heads), gradients=mode != "forward")
    _warm(method, mode)
    grad = torch.randn(call.query.shape) if mode != "forward" else None

    def once() -> None:
        if grad is None:
            with torch.no_grad():
                _function(method, call)()
        else:
            torch.autograd.grad(_function(method, call)(), call.inputs(), grad)

    before = resident_bytes()
    reset_peak()
    start = time.perf_counter()
    once()
    first = time.perf_counter() - start
    peak = max(0, peak_bytes() - before)
    times: list[float] = [first] if first > _LONG_SECONDS else []
    began = time.perf_counter()
    while len(times) < rounds and (not times or time.perf_counter() - began + first < _SECONDS):
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    low, median, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else (times[0],) * 3
    return {"seconds": median, "low": low, "high": high, "rounds": len(times), "bytes": peak}


def _function(method: str, call: Call) -> Any:
    def by_entmax() -> Tensor:
        scores = call.query @ call.key.transpose(-2, -1) / math.sqrt(HEAD_DIM)
        return entmax15(scores, dim=-1) @ call.value

    def by_torch() -> Tensor:
        return F.scaled_dot_product_attention(call.query, call.key, call.value)

    def by_us() -> Tensor:
        return functional.relu_attention(call.query, call.key, call.value)

    return {"entmax15": by_entmax, "sdpa": by_torch}.get(method, by_us)


def _warm(method: str, mode: Any) -> None:
    """Threads are started and code is loaded before memory is looked at."""
    small = make_call(Case(length=64), gradients=mode != "forward")
    small_run = runner([_function(method, small)], [small.inputs()], mode)
    for _ in range(3):
        small_run()
    torch.mm(torch.randn(512, 512), torch.randn(512, 512))


def resident_bytes() -> int:
    """Memory that this process has now."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most that it had, since `reset_peak` or the start."""
    return _status("VmHWM")


def reset_peak() -> None:
    """The peak from now on. Where the system refuses, it is that from the start, which then is not below."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"), flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"{_STATUS}: expected a line {name}, got none; memory is measured on Linux only")
    return int(found[1]) * 1024


def serve() -> None:
    """A line of JSON in, a line of JSON out: each place is measured by a copy of this process, which never computes.

    Importing torch takes seconds, so it is done once; a copy has no threads and no memory of another point.
    """
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: those of BLAS mind themselves
    for line in sys.stdin:
        place = json.loads(line)
        child = os.fork()
        if child == 0:
            _answer(place)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            _write({"failed": _REASONS.get(-status, f"exit code {status}")})


def _answer(place: dict[str, Any]) -> None:
    """In the copy: measure, write, and end without what the original would still do."""
    try:
        signal.alarm(int(place.pop("most_seconds")))
        if place["method"] in ("native", "blocked", "naive"):
            os.environ["RELA_KERNEL"] = place["method"]
        torch.set_num_threads(place.pop("threads"))
        _write(run(**place))
    except Exception as error:
        _write({"failed": f"{type(error).__name__}: {error}".splitlines()[0]})
    finally:
        os._exit(0)


def _write(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve()
