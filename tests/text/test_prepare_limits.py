"""Preparing with little: a full disk, and two million pairs in little memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.text.stores import ENGLISH, GERMAN, write_pair

from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.text.store import Store

FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
prepare({"train": [PairSource.files("train.en", "train.de")]}, ("en", "de"), Path("store"), PrepareOptions(merges=60))
"""


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pair(tmp_path, "train", ENGLISH * 200, GERMAN * 200)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path))
    partial = tmp_path / ".store.partial"
    kept = f"; {partial} has what was done, and the same command goes on from there"
    for limit, file, remedy in ((1000, "tokenizer.json", ""), (12_000, "train.source.tokens", kept)):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", FULL_DISK, str(limit)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.stderr.splitlines()[-1].endswith(f"File too large{remedy}: '{partial}/{file}'")
        assert partial.exists() == bool(remedy)
        assert not (tmp_path / "store").exists()
    monkeypatch.chdir(tmp_path)
    source = PairSource.files("train.en", "train.de")
    prepare({"train": [source]}, ("en", "de"), tmp_path / "store", PrepareOptions(merges=60))
    assert len(Store.open(tmp_path / "store").split("train")) == 200 * len(ENGLISH)
    assert not (tmp_path / ".store.partial").exists()


LARGE = """
import json, re, resource
from pathlib import Path
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
prepared = prepare({"train": [PairSource.files("train.en", "train.de")]}, ("en", "de"), Path("store"), PrepareOptions())
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = Path("/proc/self/status")
if status.exists():  # there, the number above may be that of the process that started this one
    peak = 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1])
print(json.dumps({"pairs": prepared.description["splits"]["train"]["pairs"], "peak": peak}))
"""

WRITE_LARGE = """
import sys
import numpy as np
syllables = [first + second for first in "bdfghjklmnprstvwz" for second in "aeiou"]

def word(number):
    text = ""
    while number:
        number, rest = divmod(number, len(syllables))
        text += syllables[rest]
    return text

words = np.array([word(number + 1) for number in range(1_000_000)])
for seed, name in enumerate(("train.en", "train.de")):
    generator = np.random.default_rng(seed)
    with open(name, "w") as file:
        for _ in range(100):
            lengths = generator.integers(4, 16, 20_000)
            ranks = np.exp(generator.random(lengths.sum()) * np.log(len(words))).astype(int) - 1  # Zipf
            for line in np.split(words[ranks], np.cumsum(lengths)[:-1]):
                file.write(" ".join(line.tolist()) + ".\\n")
"""


@pytest.mark.slow
def test_two_million_pairs_in_less_than_a_gigabyte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a million distinct words, of which nearly all occur."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path))
    subprocess.run([sys.executable, "-c", WRITE_LARGE], check=True, cwd=tmp_path)
    done = subprocess.run([sys.executable, "-c", LARGE], stdout=subprocess.PIPE, text=True, check=True, cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["pairs"] == 2_000_000
    assert result["peak"] < 1e9, f"{result['peak']:,} bytes"
