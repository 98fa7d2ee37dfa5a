"""What the tests of scoring share: a small random model, pairs of its words, and the scores by their definitions."""

from pathlib import Path

import numpy as np
import torch
from tests.model.folders import WORDS, make_folder

from rela.alignment.pairs import PairBatch, encode_pairs
from rela.analysis.losses import piece_losses
from rela.attention.heads import Heads, Observation
from rela.filtering.scorer import Scorer
from rela.model.transformer import evaluating

Pair = tuple[str, str]


def made_pairs(count: int, *, seed: int = 0, longest: int = 9) -> list[Pair]:
    """Pairs of random words; some have numbers, or words of both sides."""
    generator = np.random.default_rng(seed)
    found: list[Pair] = []
    for number in range(count):
        sides = [" ".join(generator.choice(WORDS, int(generator.integers(3, longest + 1)))) for _ in range(2)]
        found.append((f"{sides[0]} {number}", f"{sides[1]} {number if number % 7 else number + 1}."))
    return found


def make_scorer(folder: Path, attention: str = "rela-g", *, pairs: int = 80) -> Scorer:
    """A random model whose calibration is remembered in its folder."""
    make_folder(folder, attention)
    scorer = Scorer.load(folder).calibrated(made_pairs(pairs, seed=1))
    scorer.remember(folder)
    return scorer


def scores_by_definition(scorer: Scorer, pair: Pair) -> dict[str, float]:
    """One pair by itself, in loops: what `rela score` is to find."""
    (encoded,) = encode_pairs(scorer.tokenizers, [(1, *pair)])
    batch = PairBatch([encoded])
    seen: list[torch.Tensor] = []

    def watch(_: Heads, observation: Observation) -> None:
        seen.append(observation.weights[0])

    handles = [module.register_observer(watch) for module in scorer.model.attentions()["cross"]]
    with evaluating(scorer.model), torch.inference_mode():
        losses = piece_losses(scorer.model, scorer.model(batch.source, batch.target_in), batch.target_out)[0].tolist()
    for handle in handles:
        handle.remove()
    weights = torch.stack(seen).double().numpy()  # [L, H, T, S]
    null = (weights == 0).all(-1)  # [L, H, T]
    assert scorer.calibration is not None
    matching = scorer.calibration.matching
    pieces = weights.shape[-1] - 1
    runs = [0]
    for places in encoded.target.word_pieces:
        rows = [null[layer, head, place + 1] for place in places for layer, head in np.argwhere(matching)]
        is_null = bool(rows) and all(rows)
        runs.append(runs[-1] + 1 if is_null else 0)
    spans = [losses[start : start + 4] for start in range(max(1, len(losses) - 3))]
    return {
        "null_rate": float(null.mean()),
        "null_rate_matching": float(null[matching].mean()),
        "cross_entropy": float(np.mean(losses)),
        "surprise": max(float(np.mean(span)) for span in spans),
        "coverage": float(np.abs(weights[-1])[..., :pieces].max(1).mean()),
        "null_run": float(max(runs)),
        "length_ratio": len(pair[1]) / len(pair[0]),
    }
