"""The comparison with JoeyNMT: what it is given, and what is made of both logs. A stand-in plays the peer."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rela.bench import joeynmt, peers, train
from rela.bench.results import Points
from rela.bench.train import Round, TrainSetting
from rela.text.grammar import write_corpus
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.text.store import Store

PEER = """#!/bin/sh
case "$*" in
*version*) echo "joeynmt:2.3.0|torch:2.13.0" ;;
*"joeynmt train"*) for i in 1 2 3 4; do echo "Epoch 1, Step: $i, Tokens per Sec:     $((i * 10)), Lr: 0.1" >&2; done ;;
esac
"""

NOWHERE = Points(None, resume=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    write_corpus(folder / "corpus", counts={"train": 200, "dev": 5})
    sources = {
        split: [PairSource.files(folder / f"corpus/{split}.en", folder / f"corpus/{split}.de")]
        for split in ("train", "dev")
    }
    prepare(sources, ("en", "de"), folder / "store", PrepareOptions(merges=100))
    return folder / "store"


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    path.write_text(PEER, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def setting(store: Path, **changes: Any) -> TrainSetting:
    values: dict[str, Any] = {"size": "tiny", "attention": "rela-g", "tokens": 100, "updates": 20, "threads": 1}
    return TrainSetting(store=store, **values | changes)


@pytest.mark.slow
def test_paths_relative_to_the_working_folder(store: Path, peer: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(peer.parent)
    relative = Path(os.path.relpath(store))
    seen: list[Round] = []
    train.measure_pairs(setting(relative), Path(peer.name), rounds=1, points=NOWHERE, on_round=seen.append)
    assert len(seen) == 1


@pytest.mark.slow
def test_measures_interleaved_pairs(store: Path, peer: Path, tmp_path: Path):
    seen: list[Round] = []
    points = Points(tmp_path / "train.json", resume=True)
    measures = train.measure_pairs(setting(store), peer, rounds=3, points=points, on_round=seen.append)
    assert len(seen) == 3
    assert all(found.peer == 30 for found in seen)  # the first interval warms up
    result = measures["train.over.joeynmt"]
    assert result["low"] <= result["value"] <= result["high"]
    assert result["value"] == sorted(found.ours / 30 for found in seen)[1]
    assert result["target"] == 3
    assert 0 < measures["train.peak_share"]["value"] < 1
    assert measures["train.tokens_per_second"]["labels"] == {"program": ["rela", "joeynmt"]}
    assert "joeynmt:2.3.0" in result["signature"]
    again = Points(tmp_path / "train.json", resume=True)  # the pairs are not run again
    more: list[Round] = []
    assert train.measure_pairs(setting(store), peer, rounds=3, points=again, on_round=more.append) == measures
    assert more == seen


def test_the_peer_gets_the_same_pieces(store: Path, tmp_path: Path):
    model = setting(store).model()
    config = joeynmt.write_setting(tmp_path, Store.open(store), model, tokens=100, updates=20, log_every=5, seed=3)
    data = yaml.safe_load(config.read_text(encoding="utf-8"))
    assert data["training"]["batch_size"] == 100
    assert data["model"]["encoder"]["hidden_size"] == model.dim
    split = Store.open(store).split("train")
    lines = (tmp_path / "train.en").read_text(encoding="utf-8").split("\n")[:-1]
    assert [list(map(int, line.split())) for line in lines[:20]] == [split.source[i].tolist() for i in range(20)]
    vocabulary = (tmp_path / "vocab.txt").read_text(encoding="utf-8").split()
    assert len(vocabulary) == model.target_vocabulary + 1  # it has a piece for unknown words, we have none
    assert {piece for line in lines for piece in line.split()} <= set(vocabulary)


def test_operations_of_a_token(store: Path):
    """Twice a matrix for the product, twice that for its gradients: by hand for one layer each."""
    model = setting(store).model()
    split = Store.open(store).split("train")
    share = (len(split.source.tokens) + 200) / (len(split.target.tokens) + 200)
    d, f, v = model.dim, model.ffn_dim, model.target_vocabulary
    expected = 6 * (share * (2 * (4 * d * d + 2 * d * f) + 2 * 2 * d * d) + 2 * (6 * d * d + 2 * d * f) + v * d)
    assert train.operations_per_token(model, Store.open(store)) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("#!/bin/sh\nexit 1\n", "expected the Python of an environment with joeynmt"),
        (
            '#!/bin/sh\ncase "$*" in *version*) echo joeynmt:2.3.0;; *) echo sorry >&2; exit 3;; esac\n',
            "exit code 3: sorry",
        ),
    ],
)
def test_a_peer_that_does_not_work(store: Path, peer: Path, script: str, message: str):
    peer.write_text(script, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        train.measure_pairs(setting(store), peer, rounds=3, points=NOWHERE, on_round=print)


def test_a_python_that_is_not_there(tmp_path: Path):
    with pytest.raises(ValueError, match="make one with"):
        peers.versions(peers.PEERS["joeynmt"], tmp_path / "nothing")


def test_the_command_says_what_is_missing(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "rela", "bench", "train", "--store", str(tmp_path), "--joeynmt", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.match(r"rela: error: /.*/x: expected the Python of an environment with joeynmt; make", done.stderr)
