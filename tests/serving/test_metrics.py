"""What Prometheus reads."""

import asyncio
import contextlib
from typing import Any

import pytest

from rela.serving.measured import Measured
from rela.serving.metrics import Metrics


def test_large_numbers_are_exact():
    metrics = Metrics()
    metrics.count("done", 12_345_678, model="a")
    metrics.count("done", model="a")
    metrics.counter("read", lambda: 7_654_321)
    metrics.gauge("queue", lambda: 0.1)
    metrics.observe("seconds", 1_234_567.875)
    lines = metrics.text().splitlines()
    assert 'done{model="a"} 12345679' in lines
    assert lines[lines.index("read 7654321") - 1] == "# TYPE read counter"
    assert lines[lines.index("queue 0.1") - 1] == "# TYPE queue gauge"
    assert "seconds_sum 1234567.875" in lines
    assert "seconds_count 1" in lines


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})


async def _fail(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError("an error")


async def _leave(scope: Any, receive: Any, send: Any) -> None:
    pass


def counted(app: Any, method: str, path: str) -> list[str]:
    metrics = Metrics()

    async def send(message: Any) -> None:
        pass

    measured = Measured(app, metrics=metrics, routes={"/translate"})
    scope = {"type": "http", "method": method, "path": path}
    with contextlib.suppress(ValueError):  # the error of `_fail`, which is passed on
        asyncio.run(measured(scope, None, send))
    return [line for line in metrics.text().splitlines() if line.startswith("rela_requests_total")]


@pytest.mark.parametrize(
    ("app", "method", "path", "labels"),
    [
        (_answer, "POST", "/translate", 'method="POST",route="/translate",status="204"'),
        (_answer, "BREW", "/translate", 'method="other",route="/translate",status="204"'),
        (_answer, "GET", "/.env", 'method="GET",route="other",status="204"'),
        (_fail, "POST", "/translate", 'method="POST",route="/translate",status="500"'),
        (_leave, "POST", "/translate", 'method="POST",route="/translate",status="499"'),
    ],
)
def test_requests_are_counted_by_labels_that_do_not_grow(app: Any, method: str, path: str, labels: str):
    assert counted(app, method, path) == [f"rela_requests_total{{{labels}}} 1"]
