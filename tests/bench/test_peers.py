"""Environments of other programs: made once, whole or made anew. A stand-in installs nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from rela.bench import peers
from rela.bench.peers import Peer, clean_environment, environment, versions

NOTHING = Peer(name="nothing", requirements=(), versions=("pip",))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    places: list[Path] = []

    def install(_peer: Peer, place: Path, python: Path, pins: list[str]) -> None:
        assert pins[0].startswith("torch==")
        assert "+" not in pins[0]
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        places.append(place)

    monkeypatch.setattr(peers, "_install", install)
    return places


def test_it_is_made_once(tmp_path: Path, made: list[Path]) -> None:
    told: list[str] = []
    first = environment(NOTHING, tmp_path, tell=told.append)
    assert environment(NOTHING, tmp_path, tell=told.append) == first
    assert len(made) == len(told) == 1
    assert first.is_relative_to(tmp_path)


def test_one_that_was_cut_off_is_made_anew(tmp_path: Path, made: list[Path]) -> None:
    environment(NOTHING, tmp_path)
    (made[0] / "whole").unlink()
    environment(NOTHING, tmp_path)
    assert len(made) == 2


def test_other_requirements_are_another_environment(tmp_path: Path, made: list[Path]) -> None:
    other = Peer(name="nothing", requirements=("more",), versions=())
    assert environment(NOTHING, tmp_path) != environment(other, tmp_path)


def test_an_installation_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "first\nERROR: no such package")

    def fail(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return failed

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(ValueError, match=r"nothing: expected an environment .* ERROR: no such package; see that pip"):
        environment(NOTHING, tmp_path)
    assert not list(tmp_path.glob("*/whole"))


def test_versions_stand_in_signatures() -> None:
    assert versions(NOTHING, Path(sys.executable)).startswith("pip:")


def test_our_packages_stay_out_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "ours")
    found = clean_environment(OMP_NUM_THREADS="2")
    assert "PYTHONPATH" not in found
    assert found["OMP_NUM_THREADS"] == "2"
