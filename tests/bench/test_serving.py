"""A load on the real service: each request has its answer, and what is too much is refused."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.helpers import rela as rela_program
from tests.training.helpers import make_store, tiny_config, train

from rela.bench.loading import Load, closed_loop, open_loop
from rela.bench.serving import measure_gain, measure_overload
from rela.report.benchmarks.read import read_benchmark
from rela.report.benchmarks.tables import serve_table

TEXTS = ["one two three!", "four!", "seven eight one two!"]


class _Answers(BaseHTTPRequestHandler):
    """201 for the first body, 503 for the second, and a broken connection for the third."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if b"seven" in body:
            self.close_connection = True
            return
        self.send_response(503 if b"four" in body else 201)
        if b"four" in body:
            self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


class TestLoops:
    def test_each_request_has_its_answer(self, address: str):
        told: list[int] = []
        for answers in (
            closed_loop(Load.of_texts(address, TEXTS), clients=4, requests=30),
            open_loop(Load.of_texts(address, TEXTS), rate=300, requests=30, tell=told.append),
        ):
            assert sorted(answer.status for answer in answers) == [0] * 10 + [201] * 10 + [503] * 10
            assert {answer.retry_after for answer in answers if answer.status == 503} == {"7"}
            assert all(answer.seconds > 0 for answer in answers)
        assert told == list(range(1, 31))

    def test_requests_come_at_their_rate(self, address: str):
        answers = open_loop(Load.of_texts(address, TEXTS[:1]), rate=100, requests=21, tell=lambda _: None)
        began = sorted(answer.began for answer in answers)
        assert began[-1] - began[0] >= 0.19

    def test_nobody_there(self):
        answers = closed_loop(Load.of_texts("http://127.0.0.1:9", TEXTS), clients=2, requests=3)
        assert [answer.status for answer in answers] == [0, 0, 0]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving")
    store = make_store(folder / "text", pairs=60)
    train(tiny_config(store, budget__steps=10), folder / "run")
    return folder / "run"


@pytest.mark.slow
def test_the_command_and_its_table(model: Path, tmp_path: Path):
    (tmp_path / "source.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    done = rela_program(
        *("bench", "serve", f"one={model}", f"two={model}", "--src", str(tmp_path / "source.txt")),
        *("--beam", "2", "--beam", "1", "--clients", "4", "--rounds", "3", "--requests", "200"),
        *("--json", str(tmp_path / "serve.json")),
    )
    assert done.returncode == 0, done.stderr
    table = serve_table(read_benchmark(tmp_path / "serve.json"))
    assert "|  | `one` | `two` | asked |" in table
    assert "computed together, over one by one, beam 1" in table
    assert "| lost | 0 | 0 | 0 |" in table


@pytest.mark.slow
def test_the_service_under_load(model: Path):
    gain = measure_gain(model, TEXTS, clients=8, rounds=3, options=("--threads", "1"))
    assert gain.rounds == 3
    assert gain.median > 0
    told: list[int] = []
    found = measure_overload(
        model, TEXTS, requests=1500, queue=8, batch=4, options=("--threads", "1"), tell=told.append
    )
    assert found.done + found.refused == told[-1] == 1500
    assert found.lost == 0
    assert found.refused > 0
    assert found.counted == found.done
    assert 0 < found.median <= found.p99 <= found.longest
    assert min(found.memory) > 10_000_000
