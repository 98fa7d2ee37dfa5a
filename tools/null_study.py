"""When does null attention tell bad pairs? Trains configs/null-attention.yaml in many ways.

usage: python tools/null_study.py [NAME ...]

Needs runs/multi30k-store (see the config). Trains the ways that are named, or all, one after the other, into
runs/null/NAME; goes on with those that were cut off and leaves those that are done. Hours on one core.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CONFIG: Final = ROOT / "configs" / "null-attention.yaml"
RUNS: Final = ROOT / "runs" / "null"

MIXED: Final = ("spoiling.share=0.3", "spoiling.kinds=[shuffle]", "spoiling.learned=true")
"""From some way into the training on, as if 30% of the corpus were pairs that do not belong together."""

WAYS: Final[dict[str, tuple[str, ...]]] = {
    "plain": (),
    "mixed": MIXED,
    "mixed-early": (*MIXED, "spoiling.begin=0"),
    "recipe": ("spoiling.share=0.25", "spoiling.null_loss=1"),
    "strong": ("spoiling.share=0.4", "spoiling.null_loss=4"),
    "mixed-threshold": (
        *MIXED,
        "model.attention={encoder: rela-g, decoder: rela-g, cross: {name: rela-g, threshold: 0.5}}",
    ),
    "mixed-cross-only": (*MIXED, "model.attention={encoder: softmax, decoder: softmax, cross: rela-g}"),
    "mixed-8-heads": (*MIXED, "model.num_heads=8"),
    "mixed-sparsity": (*MIXED, "sparsity.target=0.9"),
    "mixed-6-layers": (*MIXED, "model.encoder_layers=6", "model.decoder_layers=6"),
}


def train(name: str) -> int:
    """Train one way, or go on with it; returns the command's exit code."""
    run = RUNS / name
    command = [sys.executable, "-m", "rela", "train", "--threads", "1", "--run", str(run)]
    if (run / "model").exists():
        return 0
    if (run / "config.yaml").exists():
        return subprocess.call([*command, "--resume"], cwd=ROOT)
    changes = [part for setting in WAYS[name] for part in ("--set", setting)]
    return subprocess.call([*command, str(CONFIG), *changes], cwd=ROOT)


def main() -> int:
    """Train all that was asked for."""
    names = sys.argv[1:] or list(WAYS)
    unknown = [name for name in names if name not in WAYS]
    if unknown:
        sys.exit(f"{unknown[0]}: expected one of {', '.join(WAYS)}")
    return max(train(name) for name in names)


if __name__ == "__main__":
    sys.exit(main())
