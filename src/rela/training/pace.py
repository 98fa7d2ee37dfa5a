"""How fast a training would be: a few updates tell."""

from __future__ import annotations

import time
from typing import Final

import torch

from rela.model.transformer import Transformer
from rela.text.batches import BatchOptions, BatchStream
from rela.text.store import Store
from rela.training.config import TrainConfig
from rela.training.loss import Criterion

_WARM: Final = 2  # updates that do not count


def tokens_per_second(config: TrainConfig, num_updates: int = 8) -> float:
    """Target tokens a second, the median of some updates with batches of this training."""
    opened = Store.open(config.store)
    tokenizers = opened.tokenizers()
    torch.manual_seed(config.seed)
    sizes = config.model.resolve(tokenizers.source.size, tokenizers.target.size, tokenizers.joint)
    criterion = Criterion(Transformer(sizes), config.optimizer.label_smoothing)
    optimizer = torch.optim.AdamW(criterion.parameters(), lr=0.0, fused=True)
    stream = BatchStream(opened.split("train"), BatchOptions(tokens=config.batch.tokens, seed=config.seed))
    speeds: list[float] = []
    for number in range(num_updates):
        batch = next(stream)
        began = time.perf_counter()
        optimizer.zero_grad()
        criterion(*(torch.from_numpy(ids) for ids in batch[:3])).smoothed.backward()
        optimizer.step()
        if number >= _WARM:
            speeds.append(batch.num_tokens / (time.perf_counter() - began))
    return sorted(speeds)[len(speeds) // 2]
