"""When does null attention tell bad pairs? Trains configs/null-attention.yaml in many ways, and looks into each.

usage: python tools/null_study.py [NAME ...]

Needs runs/multi30k-store (see the config); ways that begin with europarl or grammar need runs/europarl-store (see
configs/europarl.yaml) or runs/grammar-store (see configs/grammar.yaml). Trains the ways that are named, or all, one
after the other, each with one thread, into runs/null/NAME; goes on with those that were cut off and leaves those that
are done. Then spoils dev pairs and writes docs/results/null/NAME.json. Hours on one core; two can share the names.
"""

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CONFIG: Final = ROOT / "configs" / "null-attention.yaml"
RUNS: Final = ROOT / "runs" / "null"
RESULTS: Final = ROOT / "docs" / "results" / "null"

MIXED: Final = ("spoiling.share=0.3", "spoiling.kinds=[shuffle]", "spoiling.learned=true")
"""From some way into the training on, as if 30% of the corpus were pairs that do not belong together."""
RECIPE: Final = ("spoiling.share=0.25", "spoiling.null_loss=1")
STRONG: Final = ("spoiling.share=0.4", "spoiling.null_loss=4")
"""What `rela filter --train` does."""
EUROPARL: Final = ("store=runs/europarl-store",)
GRAMMAR: Final = ("store=runs/grammar-store", "budget.tokens=2000000")

WAYS: Final[dict[str, tuple[str, ...]]] = {
    "plain": (),
    "mixed": MIXED,
    "mixed-cross-only": (*MIXED, "model.attention={encoder: softmax, decoder: softmax, cross: rela-g}"),
    "mixed-8-heads": (*MIXED, "model.num_heads=8"),
    "mixed-6-layers": (*MIXED, "model.encoder_layers=6", "model.decoder_layers=6"),
    "mixed-threshold": (
        *MIXED,
        "model.attention={encoder: rela-g, decoder: rela-g, cross: {name: rela-g, threshold: 0.5}}",
    ),
    "mixed-sparsity": (*MIXED, "sparsity.target=0.9"),
    "recipe": RECIPE,
    "recipe-strong": STRONG,
    **{
        f"{corpus}-{name}": (*settings, *way)
        for corpus, settings in (("grammar", GRAMMAR), ("europarl", EUROPARL))
        for name, way in (("plain", ()), ("mixed", MIXED), ("recipe", RECIPE))
    },
}


def train(name: str) -> None:
    """Train one way, or go on with it."""
    run = RUNS / name
    command = [sys.executable, "-m", "rela", "train", "--threads", "1", "--run", str(run)]
    if (run / "model").exists():
        return
    if (run / "config.yaml").exists():
        subprocess.run([*command, "--resume"], cwd=ROOT, check=True)
        return
    changes = [part for setting in WAYS[name] for part in ("--set", setting)]
    subprocess.run([*command, str(CONFIG), *changes], cwd=ROOT, check=True)


def look_into(name: str) -> None:
    """Of every checkpoint: how well the null rates of its heads tell shuffled targets of dev from good ones."""
    corpus = name.split("-")[0] if name.startswith(("grammar", "europarl")) else "multi30k"
    pairs = [f"--{side}=runs/{corpus}-store/dev.{what}.txt" for side, what in (("src", "source"), ("tgt", "target"))]
    command = [sys.executable, "-m", "rela", "bench", "noise", f"runs/null/{name}", "--over-time", "shuffled", *pairs]
    RESULTS.mkdir(exist_ok=True)
    subprocess.run([*command, "--threads", "1", "--json", str(RESULTS / f"{name}.json")], cwd=ROOT, check=True)


def asked_for(ways: Collection[str]) -> list[str]:
    """The names in the command, or all."""
    names = sys.argv[1:] or list(ways)
    unknown = [name for name in names if name not in ways]
    if unknown:
        sys.exit(f"{unknown[0]}: expected one of {', '.join(ways)}")
    return names


def main() -> None:
    """Train and look into all that was asked for."""
    for name in asked_for(WAYS):
        train(name)
        look_into(name)


if __name__ == "__main__":
    main()
