"""What an analysis keeps does not grow with the text: a million pairs are no more to it than a few thousand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.translating import same_package
from tests.model.small import random_model, small_config

from rela.model.directory import Languages, save_model
from rela.text.grammar import generate, write_corpus
from rela.text.store import Tokenizers
from rela.text.subwords import Subwords

ANALYSE = """
import json, re, resource, sys
from pathlib import Path
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
assert run(COMMANDS, GROUPS, ["analyze", *sys.argv[1:]]) == 0
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = Path("/proc/self/status")
if status.exists():  # there, the number above may be that of the process that started this one
    peak = 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1])
print(json.dumps(peak))
"""


def make_models(folder: Path) -> None:
    """One for each direction, of the demo's size."""
    lines = [text for pair in generate("dev", count=1000) for text in (pair.source, pair.target)]
    subwords = Subwords.train(lines, 1000)
    sides = Tokenizers(subwords, subwords)
    sizes = {"source_vocabulary": subwords.size, "target_vocabulary": subwords.size, "dim": 128, "ffn_dim": 512}
    for seed, languages in enumerate((("en", "de"), ("de", "en"))):
        model = random_model(small_config("rela-g", **sizes, tied="all"), seed)
        save_model(folder / "-".join(languages), model, sides, Languages(*languages), {})


def peak_of(folder: Path, pairs: int) -> int:
    """With everything on."""
    text = folder / str(pairs)
    write_corpus(text, counts={"test": pairs})
    files = {"src": "en", "tgt": "de", "gold-sure": "sure", "gold-possible": "possible", "tags": "tags.de"}
    arguments = [part for name, end in files.items() for part in (f"--{name}", str(text / f"test.{end}"))]
    arguments += ["--out", str(text / "out"), "--opposite", "de-en", "--ablate", "20", "--threads", "1"]
    done = subprocess.run(
        [sys.executable, "-c", ANALYSE, "en-de", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=folder,
        env=same_package(),
    )
    results = json.loads((text / "out" / "results.json").read_text(encoding="utf-8"))
    assert results["data"]["pairs"] == pairs
    assert "symmetrised.aer" in results["models"][0]["measures"]
    return int(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path: Path):
    make_models(tmp_path)
    small, large = (peak_of(tmp_path, pairs) for pairs in (2_000, 20_000))
    assert large <= 1.1 * small, f"{large / 1e6:.0f} MB against {small / 1e6:.0f} MB"
