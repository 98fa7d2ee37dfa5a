"""How the service begins and ends."""

import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import pytest
import typer
from tests.cli.helpers import rela as rela_program
from tests.serving.served import Running, begun, post, served

from rela.cli import serve as command
from rela.serving.running import bound_socket
from rela.serving.settings import Settings

STOPPED = b"rela: stopped; the same command starts it again\n"


@pytest.fixture
def broken(models: dict[str, Path], tmp_path: Path) -> Path:
    """A model with half of its weights."""
    folder = shutil.copytree(models["rela-g"] / "model", tmp_path / "broken")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    return folder


def address_of(line: bytes) -> str:
    """That of the line that says it."""
    return line.decode().partition(": ")[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_answers_are_sent_at_once(host: str):
    """asyncio sets TCP_NODELAY for sockets that name their protocol; others wait for 40 ms between head and body."""
    with bound_socket(host, 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]), listener.accept()[0] as accepted:
            assert accepted.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_its_address_is_said_when_it_answers_and_a_signal_then_ends_it(
    models: dict[str, Path], number: signal.Signals, code: int
):
    with begun(models["rela-g"], "--port", "0") as process:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(30) == code
        assert process.stdout.read() == STOPPED
    with begun(models["rela-g"], "--port", "0") as process:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        assert httpx.get(f"{address}/healthz").status_code == 200
        process.send_signal(number)
        assert process.wait(30) == code


def test_what_was_accepted_is_finished(models: dict[str, Path]):
    with served(models["rela-g"]) as (address, process), ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(post, address, "/translate", {"text": ["one two three four!"] * 64}) for _ in range(6)]
        wait(asked, return_when=FIRST_COMPLETED)
        process.send_signal(signal.SIGTERM)
        codes = [one.result().status_code for one in asked if one.exception() is None]
        assert codes.count(200) >= 1
        assert set(codes) <= {200, 503}
        assert process.wait(60) == 143


def test_what_has_not_come_is_not_waited_for(models: dict[str, Path]):
    with served(models["rela-g"], "--timeout", "60") as (address, process):
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        with socket.create_connection(place) as half_a_head, socket.create_connection(place) as half_a_body:
            half_a_head.sendall(b"POST /tr")
            half_a_body.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            half_a_body.sendall(b'Content-Length: 100\r\n\r\n{"te')
            time.sleep(0.5)  # until it was read
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 143
            assert half_a_head.recv(1) == b""
            assert b"the service ends; try again in 1 s" in half_a_body.recv(10_000)


@pytest.mark.slow
def test_several_workers(models: dict[str, Path]):
    with begun(models["rela-g"], "--port", "0", "--workers", "2", "--threads", "1") as process:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        found = [post(address, "/translate", {"text": "four!"}).json() for _ in range(8)]
        assert all(one == found[0] for one in found)
        os.kill(_workers(process.pid)[0], signal.SIGKILL)
        assert process.stdout.readline() == b"rela: note: a worker ended with code -9; another takes its place\n"
        assert post(address, "/translate", {"text": "four!"}).json() == found[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert process.stdout.read() == STOPPED  # as a single one does, and nothing else


@pytest.mark.slow
def test_a_worker_that_cannot_begin_is_no_reason_for_the_others_to_end(models: dict[str, Path], tmp_path: Path):
    folder = shutil.copytree(models["rela-g"] / "model", tmp_path / "model")
    with begun(folder, "--port", "0", "--workers", "2", "--threads", "1") as process:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        shutil.move(folder, tmp_path / "elsewhere")
        os.kill(_workers(process.pid)[0], signal.SIGKILL)
        assert process.stdout.readline() == b"rela: note: a worker ended with code -9; another takes its place\n"
        note = process.stdout.readline()
        assert note.startswith(b"rela: note: a worker could not begin: ")
        assert note.endswith(b"; tried again in 1 s\n")
        assert post(address, "/translate", {"text": "four!"}).status_code == 200
        shutil.move(tmp_path / "elsewhere", folder)
        _wait_for(lambda: len(_workers(process.pid)) == 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


@pytest.mark.slow
def test_workers_end_with_the_first_process(models: dict[str, Path]):
    with begun(models["rela-g"], "--port", "0", "--workers", "2", "--threads", "1") as process:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        process.kill()
        _wait_for(lambda: _is_refused(place))


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_when_it_ends_nobody_comes_in_and_a_second_signal_does_not_wait(models: dict[str, Path], workers: str):
    slow = {"text": [f"{'one two three four! ' * 90}{number}" for number in range(60)], "beam": 5}
    arguments = (
        models["rela-g"],
        "--port",
        "0",
        "--workers",
        workers,
        "--threads",
        "1",
        "--timeout",
        "120",
        "--work",
        "9999999",
    )
    with begun(*arguments) as process, ThreadPoolExecutor(8) as pool:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        asked = [pool.submit(post, address, "/translate", slow) for _ in range(8)]
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _wait_for(lambda: _is_refused(("127.0.0.1", int(address.rpartition(":")[2]))))
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stdout.read() == STOPPED
        ends = [one.exception() or one.result().status_code for one in asked]
        assert any(isinstance(end, httpx.TransportError) for end in ends), ends


def _is_refused(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def _wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def _workers(process: int) -> list[int]:
    """Processes that it started, but for Python's own."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return [int(one) for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.slow
def test_few_open_files_and_clients_that_say_nothing(models: dict[str, Path]):
    limited = ("sh", "-c", 'ulimit -n 80; exec "$0" "$@"')
    arguments = (models["rela-g"], "--port", "0", "--timeout", "2", "--threads", "1")
    with begun(*arguments, before=limited) as process, contextlib.ExitStack() as clients:
        assert process.stdout is not None
        address = address_of(process.stdout.readline())
        for _ in range(100):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))))
            client.sendall(b"POST /translate HTTP/1.1\r\n")
        end = time.monotonic() + 30
        while (found := httpx.get(f"{address}/metrics", timeout=10)).status_code == 503:
            assert time.monotonic() < end
            time.sleep(0.2)
        assert 'rela_connections_ended_total{why="late head"}' in found.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
        assert process.stdout.read() == STOPPED


class TestCommand:
    def test_a_model_that_is_none(self):
        done = rela_program("serve", "nowhere")
        assert done.returncode == 1
        assert "nowhere: expected a model directory" in done.stderr

    @pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
    def test_a_model_that_is_broken(self, broken: Path, workers: str):
        done = rela_program("serve", str(broken), "--port", "0", "--workers", workers)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"rela: error: {broken}/model.safetensors: expected a safetensors file")
        assert done.stderr.count("\n") == 1

    def test_a_port_that_is_taken(self, running: Running):
        port = running.address.rpartition(":")[2]
        done = rela_program("serve", str(running.models["rela-g"]), "--port", port)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr == (
            f"rela: error: port {port} of 127.0.0.1: expected a free one, got one in use; choose another by --port, or "
            "any by 0\n"
        )

    def test_a_host_that_is_none(self, models: dict[str, Path]):
        done = rela_program("serve", str(models["rela-g"]), "--host", "192.0.2.1", "--token", "a")
        assert done.returncode == 1
        assert done.stderr.startswith(
            "rela: error: host: expected a name or address of this machine, got '192.0.2.1' ("
        )

    def test_no_host(self, models: dict[str, Path]):
        done = rela_program("serve", str(models["rela-g"]), "--host", "")
        assert done.returncode == 2
        assert "--host: expected an address or a name, got none" in done.stderr

    def test_a_time_without_an_end(self, models: dict[str, Path]):
        done = rela_program("serve", str(models["rela-g"]), "--timeout", "inf")
        assert done.returncode == 2
        assert "timeout: expected more than 0 seconds and an end, got inf" in done.stderr


class TestNames:
    def test_two_of_one_name(self, models: dict[str, Path]):
        with pytest.raises(typer.BadParameter, match="expected models with different names, got 'rela-g' twice"):
            command.named_models([str(models["rela-g"]), f"rela-g={models['softmax']}"])

    @pytest.mark.parametrize("text", ["=run", "name="])
    def test_half_of_one(self, text: str):
        with pytest.raises(typer.BadParameter, match=f"expected MODEL or NAME=MODEL, got '{text}'"):
            command.named_models([text])

    def test_a_path_that_has_the_sign(self, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        shutil.copytree(models["rela-g"] / "model", "lr=0.1")
        path = str(tmp_path / "lr=0.1")
        assert command.named_models(["./lr=0.1", "a=lr=0.1"]) == {"lr=0.1": path, "a": path}

    @pytest.mark.parametrize(
        ("host", "others", "names"),
        [
            ("127.0.0.1", [], ("localhost", "127.0.0.1", "::1")),
            ("127.0.0.2", ["mine"], ("localhost", "127.0.0.1", "::1", "127.0.0.2", "mine")),
            ("0.0.0.0", [], ()),
            ("0.0.0.0", ["mine"], ("localhost", "127.0.0.1", "::1", "0.0.0.0", "mine")),
        ],
    )
    def test_of_the_service(self, host: str, others: list[str], names: tuple[str, ...]):
        assert command.known_hosts(host, others) == names


def test_settings_are_checked():
    with pytest.raises(ValueError, match="queue: expected at least 1, got 0"):
        Settings(models={"a": "/b"}, queue=0)
