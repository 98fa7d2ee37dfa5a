"""Beam search written from its definition: one sentence at a time, every prefix decoded anew, lists and loops."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rela.decoding import search
from rela.decoding.search import SearchOptions
from rela.model.transformer import Transformer

PAD, BOS, EOS = 0, 1, 2


class Found(NamedTuple):
    """A hypothesis."""

    pieces: list[int]
    log_probability: float
    score: float
    finished: bool


@torch.no_grad()
def log_probabilities(model: Transformer, source: Tensor, prefix: list[int]) -> list[float]:
    """Of each next token after a prefix; ``source`` is one unpadded row."""
    hidden = model(source[None], torch.tensor([[BOS, *prefix]]))
    return torch.log_softmax(model.logits(hidden[0, -1]), dim=-1).tolist()


def penalised(log_probability: float, length: int, options: SearchOptions) -> float:
    return log_probability / ((5 + length) / 6) ** options.length_penalty


def naive_beam_search(model: Transformer, source: Tensor, options: SearchOptions) -> list[Found]:
    longest = search.MAX_RATIO * (len(source) - 1) + search.MAX_EXTRA
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[Found] = []
    for length in range(1, longest + 1):
        candidates: list[tuple[float, list[int], int]] = []
        for total, prefix in beams:
            for token, log_p in enumerate(log_probabilities(model, source, prefix)):
                if token not in (PAD, BOS):
                    candidates.append((total + log_p, prefix, token))
        candidates.sort(key=lambda candidate: -candidate[0])
        for total, prefix, token in candidates[: options.beam]:
            if token == EOS and len(done) < options.beam:
                done.append(Found(prefix, total, penalised(total, length, options), True))
        beams = [(total, [*prefix, token]) for total, prefix, token in candidates if token != EOS][: options.beam]
        if len(done) == options.beam:
            break
    else:
        for total, prefix in beams[: options.beam - len(done)]:
            done.append(Found(prefix, total, penalised(total, longest, options), False))
    return sorted(done, key=lambda found: (not found.finished, -found.score))


def exhaustive(model: Transformer, source: Tensor, options: SearchOptions, longest: int) -> list[Found]:
    """Every translation of at most ``longest`` tokens, EOS among them."""
    vocabulary = model.config.target_vocabulary
    done: list[Found] = []
    prefixes: list[tuple[float, list[int]]] = [(0.0, [])]
    for length in range(1, longest + 1):
        longer: list[tuple[float, list[int]]] = []
        for total, prefix in prefixes:
            log_p = log_probabilities(model, source, prefix)
            done.append(Found(prefix, total + log_p[EOS], penalised(total + log_p[EOS], length, options), True))
            longer += [(total + log_p[token], [*prefix, token]) for token in range(3, vocabulary)]
        prefixes = longer
    done += [Found(prefix, total, penalised(total, longest, options), False) for total, prefix in prefixes]
    assert all(math.isfinite(found.score) for found in done)
    return sorted(done, key=lambda found: (not found.finished, -found.score))
