"""DistributedDataParallel: two processes with half a batch each learn what one learns from the whole."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests.attention.module_helpers import LEARNED_THRESHOLD, assert_same, inputs, padding, randomise
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rela

D, H, T, ROWS = 12, 2, 5, 4
ATTENTIONS = ("softmax", "rela-g", "rela-i", "entmax15", "entmax", LEARNED_THRESHOLD)


class Model(nn.Module):
    """An encoder converted from torch's, and cross-attention by our own module behind it."""

    def __init__(self, attention: str | rela.AttentionSpec) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, H, 16, dropout=0.0, batch_first=True, dtype=torch.float64)
        self.layer = rela.convert(layer, attention)
        self.cross = rela.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64, attention=attention)
        randomise(self)

    def forward(self, x: torch.Tensor, pad: torch.Tensor) -> torch.Tensor:
        memory = self.layer(x, src_key_padding_mask=pad)
        output, _ = self.cross(x, memory, memory, pad, need_weights=False)
        return output


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return inputs(ROWS, T, D), padding(5, 3, 4, 1)


def work(rank: int, world: int, folder: str) -> None:
    """One process: its rows, one step for each attention, the gradients to a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    try:  # without the group's end, an error here would show as an abort of the process
        x, pad = (t.chunk(world)[rank] for t in batch())
        for index, attention in enumerate(ATTENTIONS):
            model = Model(attention)
            if rank == 1:
                randomise(model, seed=1000)  # DDP sends the parameters of rank 0
            parallel = DistributedDataParallel(model)
            parallel(x, pad).square().mean().backward()
            found = {name: p.grad for name, p in model.named_parameters()}
            torch.save(found, f"{folder}/{index}-{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def results() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(2, folder), nprocs=2)  # pyright: ignore[reportPrivateImportUsage]
        yield Path(folder)


@pytest.mark.parametrize("index", range(len(ATTENTIONS)), ids=map(str, ATTENTIONS))
def test_gradients_are_those_of_the_joint_batch(index: int, results: Path) -> None:
    model = Model(ATTENTIONS[index])
    model(*batch()).square().mean().backward()
    expected = {name: p.grad for name, p in model.named_parameters()}
    for rank in range(2):
        assert_same(torch.load(results / f"{index}-{rank}.pt"), expected, 1e-9)
